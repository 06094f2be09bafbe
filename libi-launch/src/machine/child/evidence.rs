//! What a child prints, how it ends, and the failure that follows from both.

use libi_core::ids::{HostIndex, Rank};
use libi_core::time::Instant;

use super::up_state::UpState;
use super::{Arrival, Child, ChildEnd, Stage};
use crate::failure::{Cause, Exit, Failure, LaunchTiming, Phase};
use crate::machine::output_piece::Stream;

/// How much of the end of a child's output is kept as evidence.
const TAIL: usize = 2_000;

impl Child {
    /// Keeps what the child prints as evidence. Returns the text and its rank if it is output of
    /// the session: after the hello.
    pub(in crate::machine) fn printed(&mut self, stream: Stream, text: Vec<u8>) -> Option<(Rank, Vec<u8>)> {
        let tail = &text[text.len().saturating_sub(TAIL)..];
        let drop = (self.tail.len() + tail.len()).saturating_sub(TAIL);
        self.tail.drain(..drop);
        self.tail.extend_from_slice(tail);
        if self.up().is_some() || matches!(self.stage, Stage::Running) {
            return Some((self.first_rank()?, text));
        }
        self.early_output.push(stream, text);
        None
    }

    /// Adds the end of what its starter has printed: if the child has not arrived, and nothing else
    /// explains that; and if it has arrived and was lost.
    pub(in crate::machine) fn add_evidence(&mut self, printed: &[u8]) {
        let cause = self.end.as_ref().map(|end| &end.cause);
        let is_silent = self.arrival == Arrival::Awaited && self.tail.is_empty();
        let explains = match cause {
            Some(Cause::StarterExited(_) | Cause::TimedOut | Cause::NotScheduled) => is_silent,
            Some(Cause::Closed | Cause::Exited(_) | Cause::HeartbeatLost) => {
                self.arrival == Arrival::Arrived && !printed.is_empty()
            }
            _ => false,
        };
        if explains {
            printed.clone_into(&mut self.tail);
        }
    }

    pub(in crate::machine) fn take_early_output(&mut self) -> Vec<(Stream, Vec<u8>)> {
        self.early_output.take()
    }

    /// The link delivers nothing more.
    pub(in crate::machine) fn close(&mut self) {
        self.open = false;
    }

    /// The process has exited.
    pub(in crate::machine) fn on_exit(&mut self, exit: Exit) {
        self.exit = Some(exit);
    }

    /// The exit of the process is not awaited.
    pub(in crate::machine) fn forgo_exit(&mut self) {
        self.exit.get_or_insert(Exit::Unknown);
    }

    /// Whether its link is closed, but still in the tree, and its exit is to come.
    pub(in crate::machine) fn awaits_exit_in_tree(&self) -> bool {
        self.in_tree && !self.open && self.exit.is_none() && self.has_process() && !self.is_silent()
    }

    /// Whether it ends because nothing was heard of it.
    pub(in crate::machine) fn is_silent(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.cause == Cause::HeartbeatLost)
    }

    /// Begins to end; returns false if it does so already.
    pub(in crate::machine) fn end(&mut self, cause: Cause) -> bool {
        let begins = self.end.is_none();
        self.end.get_or_insert(ChildEnd { cause, forced: false, with_others: false });
        begins
    }

    /// Records that it has begun to end while its start was ending all programs.
    pub(in crate::machine) fn note_end_with_others(&mut self) {
        if let Some(end) = &mut self.end {
            end.with_others = true;
        }
    }

    /// Whether it has begun to end while its start was ending all programs.
    pub(in crate::machine) fn has_ended_with_others(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.with_others)
    }

    /// Records that this node kills the process; returns false if it has done so already, or if the
    /// child does not end.
    pub(in crate::machine) fn force(&mut self) -> bool {
        self.end.as_mut().is_some_and(|end| !std::mem::replace(&mut end.forced, true))
    }

    /// Why it ends.
    pub(in crate::machine) fn end_cause(&self) -> Option<&Cause> {
        self.end.as_ref().map(|end| &end.cause)
    }

    /// Whether this node has killed the process.
    pub(in crate::machine) fn was_forced(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.forced)
    }

    /// Why this node has killed the process, if a signal has ended it and the end of the session is
    /// not the reason.
    pub(in crate::machine) fn killed_for(&self) -> Option<Cause> {
        let ChildEnd { cause, .. } = self.end.as_ref().filter(|end| end.forced)?;
        let was_killed = matches!(self.exit, Some(Exit::Signal(_)));
        (was_killed && !cause.is_cut_short()).then(|| cause.clone())
    }

    /// The launch timing, relative to the time since which the launcher has been up.
    pub(in crate::machine) fn timing(&self, launcher: Option<HostIndex>, since: Instant) -> LaunchTiming {
        let hello = self.up().map(|up| up.greeted().since(self.started));
        LaunchTiming { launcher, started: self.started.since(since), hello, joined: None }
    }

    /// The times of its launch by the front end, of which the hello is the last.
    pub(in crate::machine) fn timing_of_hello(&self, since: Instant, now: Instant) -> LaunchTiming {
        LaunchTiming { hello: Some(now.since(self.started)), ..self.timing(None, since) }
    }

    /// The failure, once the child is gone.
    ///
    /// `exit_from_host` tells whether hosts report the exit statuses of their programs themselves.
    pub(in crate::machine) fn failure(
        &self,
        timing: LaunchTiming,
        exit_from_host: bool,
        now: Instant,
    ) -> Failure {
        let elapsed = now.since(self.started);
        if let Some(verdict) = self.up().and_then(UpState::reported_failure) {
            return Failure { phase: verdict.phase.max(Phase::Joining), elapsed, timing, ..verdict.clone() };
        }
        // The exit of a process that this node has not started may never be reported.
        let exit = self.exit.filter(|exit| self.has_process() || *exit != Exit::Unknown);
        let cause = match (&self.end, exit) {
            // The starter has reported how it ended, and its link was not closed.
            (Some(ChildEnd { cause: Cause::TimedOut, .. }), Some(exit)) if !self.has_process() => {
                Cause::Exited(exit)
            }
            // A status says more than the end of the link, unless this node has killed the process.
            (Some(ChildEnd { cause: Cause::Closed | Cause::Protocol(_), forced: false, .. }), Some(exit)) => {
                Cause::Exited(exit)
            }
            // One that was killed too late has a code, and one that was killed has none.
            (Some(ChildEnd { cause: Cause::Closed, forced: true, .. }), Some(exit @ Exit::Code(_))) => {
                Cause::Exited(exit)
            }
            (Some(end), _) => end.cause.clone(),
            (None, _) => Cause::Closed,
        };
        let tail = String::from_utf8_lossy(&self.tail).into_owned();
        let member = if self.is_leader() { None } else { self.rank() };
        let exit_from_host = exit_from_host && member.is_none();
        Failure { member, phase: self.phase(), cause, exit, exit_from_host, tail, elapsed, timing }
    }
}
