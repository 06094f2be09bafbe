//! What the process reports that carries out a bulk start, its starter, and how it ends.
//!
//! | event | effect |
//! |---|---|
//! | the starter reports the end of a host that has not arrived | that is the exit of its leader |
//! | it does so of a host that has arrived | the exit counts once the link is closed |
//! | it does so of a host below a relay | as `relays.rs` says |
//! | the starter ends | hosts that have not arrived fail; hosts that have arrived stay |
//! | the starter reports that a host cannot be started | the host fails, and is not retried |
//! | it ends all others for that | they are launched again at once, which is not an attempt |
//! | the start waits for resources | hosts and launch have the queue's time; a notice |
//! | the start has its resources | its launches begin |
//! | it ends all programs | what follows is in `start_table/said.rs` |
//! | no such start can succeed | hosts that have not arrived fail, and none is launched again |
//! | the last host of the start is gone | the starter is asked to end, and killed if it does not |
//! | it has ended by itself | the starter has time to say why, before `Done` |
//!
//! The link, not the starter, tells whether a host that has arrived is alive: what the starter reports
//! may be the end of a second process there, which was refused.
//!
//! A starter prints what its hosts print until they have arrived, and messages of its own. Where the
//! back-end recognises the host, that is output and evidence as of any child. Everything else is
//! evidence only for hosts that have not arrived, and decides nothing: it may be about another host.

use libi_core::ids::StartId;
use libi_core::time::Instant;

use super::session_end::TERMINATE;
use super::{Effect, LinkId, Node, Notice};
use crate::backend::{BulkMethod, LaunchMethod};
use crate::failure::{Cause, Exit, Failure};
use crate::machine::child::Child;
use crate::machine::message::RelayMessage;
use crate::machine::output_piece::Stream;
use crate::machine::start_table::{StarterStep, one_line};

/// SIGKILL, which has this number on all systems.
const KILL: i32 = 9;

/// Whether a host may still arrive.
fn is_expected(child: &Child) -> bool {
    child.is_awaited() && !child.is_ending()
}

impl Node {
    /// A start waits for resources: its hosts have the time of the queue.
    pub(super) fn starter_waits(&mut self, start: StartId, why: &[u8], now: Instant, out: &mut Vec<Effect>) {
        let Some(timeout) = self.options.launch_method().bulk().map(BulkMethod::queue_timeout) else {
            return;
        };
        if let Some(queued) = self.starts.set_waiting(start, true, now) {
            self.starts.printed(start, why); // further lines tell less
            self.set_awaited_deadlines(start, now + timeout.saturating_sub(queued), now);
            if self.is_front() {
                let why = one_line(why);
                out.push(Effect::Notify(Notice::Waiting(why)));
            }
        }
    }

    /// A start has its resources: its launches begin.
    pub(super) fn starter_proceeds(&mut self, start: StartId, now: Instant) {
        if self.starts.set_waiting(start, false, now).is_some() {
            self.set_awaited_deadlines(start, now + self.options.rules.hello_timeout, now);
        }
    }

    /// No such start can succeed: what a starter says of the end of its job. A session that is up
    /// is told.
    pub(super) fn starter_refused(&mut self, start: StartId, why: &[u8], out: &mut Vec<Effect>) {
        self.starts.refused(start, why);
        self.revoked(start, one_line(why), out);
    }

    /// A session that is up is told that this start of it is ended.
    fn revoked(&self, start: StartId, why: String, out: &mut Vec<Effect>) {
        if self.is_front() && self.stage.is_up() && self.starts.is_running(start) {
            out.push(Effect::Notify(Notice::Revoked(why)));
        }
    }

    /// Handles starters that have not said in time why they end all programs.
    pub(super) fn expire_reasons(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some((start, line)) = self.starts.reason_is_late(now) {
            self.revoked(start, line, out);
        }
    }

    /// The starter ends all its programs, and may say why.
    pub(super) fn starter_ends_all(
        &mut self,
        start: StartId,
        line: &[u8],
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        self.starts.ends_all(start, line, now + self.options.rules.kill_grace);
        self.end_untold(start, now, out);
    }

    /// The programs that have not arrived of a start that ends all because of a host have ended, or
    /// will not arrive. Their ends may never be told.
    fn end_untold(&mut self, start: StartId, now: Instant, out: &mut Vec<Effect>) {
        if self.starts.ends_all_for_host(start) {
            for link in self.starts.children(start) {
                if self.children.get(link).is_some_and(is_expected) {
                    self.leader_ended(link, Exit::Unknown, now, out);
                }
            }
        }
    }

    fn set_awaited_deadlines(&mut self, start: StartId, by: Instant, now: Instant) {
        for link in self.starts.children(start) {
            if let Some(child) = self.children.get_mut(link).filter(|child| is_expected(child)) {
                child.restart(start, now);
                self.children.set_deadline(link, by);
            }
        }
    }

    /// Whether a host of a start that is ending all others has failed because of that. Hosts that have
    /// not arrived before their starter is killed are launched again as after other failures.
    pub(super) fn is_ended_with_others(&self, failure: &Failure) -> bool {
        may_be_ended_with_others(&failure.cause) && self.stage.is_before_up()
    }

    /// The starter has reported why a host cannot be started.
    pub(super) fn host_not_started(
        &mut self,
        start: StartId,
        host: &str,
        why: &[u8],
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Some(link) = self.child_named(start, host, is_expected) else {
            return self.starts.printed(start, why);
        };
        let Some(child) = self.children.get_mut(link) else { return };
        child.close();
        child.forgo_exit();
        let why = one_line(why);
        let host = child.host();
        if self.is_all_or_nothing() {
            self.launcher.starts_may_end_for(host);
            self.starts.may_end_all(start, now + self.options.rules.kill_grace);
        }
        self.ends(link, Cause::NotStarted(why), now, out);
        // Those that have been killed need not wait for the reason any longer.
        for link in self.starts.children(start) {
            let exit = self.children.get(link).filter(|child| is_expected(child)).and_then(Child::exit);
            exit.into_iter().for_each(|exit| self.leader_ended(link, exit, now, out));
        }
        self.end_untold(start, now, out);
    }

    /// The starter has reported how the program on a host ended.
    pub(super) fn host_ended(
        &mut self,
        start: StartId,
        host: &str,
        exit: Exit,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        match self.child_named(start, host, |_| true) {
            Some(link) => self.leader_ended(link, exit, now, out),
            None => self.host_below_ended(start, host, exit, now, out),
        }
    }

    /// The program of a leader that has arrived, or should, has ended.
    pub(super) fn leader_ended(&mut self, link: LinkId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        let Some(start) = self.children.get(link).map(Child::start) else { return };
        let may_be_of_all = self.may_be_end_of_all(start, exit);
        let Some(child) = self.children.get_mut(link) else { return };
        child.on_exit(exit);
        // A process of a host that was redirected has arrived; this may be the end of a second one,
        // which was refused.
        if child.is_awaited() && self.role.is_front() {
            let by = now + self.options.rules.kill_grace;
            if may_be_of_all {
                // The end of a host may be told before that of all, and that before the reason for it.
                let before = self.children.deadline(link).unwrap_or(by);
                return self.children.set_deadline(link, by.min(before));
            }
            child.close();
        }
        if child.is_moving() {
            // It will not connect any more.
            child.close();
            out.push(Effect::Close(link));
        }
        let (is_open, is_up) = (child.is_open(), child.is_up());
        if !is_open {
            let cause = self.or_refused(start, Cause::Exited(exit));
            self.ends(link, cause, now, out);
        } else if !is_up {
            let by = now + self.options.rules.kill_grace;
            let before = self.children.deadline(link).unwrap_or(by);
            self.children.set_deadline(link, by.min(before));
        }
    }

    /// Whether the end of a host may be that of all, for a reason that is still to be said.
    fn may_be_end_of_all(&self, start: StartId, exit: Exit) -> bool {
        let Exit::Signal(signal) = exit else { return false };
        let is_killed = matches!(signal, TERMINATE | KILL) && self.is_all_or_nothing();
        let is_alone = self.starts.is_ending_all(start) || !self.starts.is_running(start);
        self.starts.may_say_why(start) || is_killed && !is_alone
    }

    /// What ends the whole start is the reason for the end of each host.
    pub(super) fn or_refused(&self, start: StartId, cause: Cause) -> Cause {
        let is_by_signal = matches!(cause, Cause::Exited(Exit::Signal(_)));
        self.starts.why_refused(start).filter(|_| is_by_signal).map_or(cause, Cause::NotStarted)
    }

    pub(super) fn host_printed(
        &mut self,
        start: StartId,
        host: &str,
        (stream, text): (Stream, Vec<u8>),
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        match self.child_named(start, host, |_| true) {
            Some(link) => self.printed(link, stream, text, now),
            None if self.starts.below_named(start, host).is_some() => {
                self.tell_relay(start, host, |host| RelayMessage::HostPrinted(host, stream, text), out);
            }
            // A message of the starter itself may look like that: `Error: no such file`.
            None => self.starts.printed(start, &[host.as_bytes(), b": ", &text].concat()),
        }
    }

    /// The starter has ended. Hosts that have not arrived will not arrive, and no further end of a
    /// host is reported.
    pub(super) fn starter_exited(&mut self, start: StartId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        self.started(start, now);
        let said = self.starts.says_no_more(start);
        let killed =
            matches!(exit, Exit::Signal(_)).then(|| format!("{} {exit}", self.options.launch_method()));
        if let Some(why) = killed.or(said) {
            self.revoked(start, why, out);
        }
        if matches!(exit, Exit::Signal(_)) {
            // A relay tells of a host when that has had its time to end.
            self.starts.starter_killed(start, now + self.options.rules.kill_grace * 2);
        }
        let refused = self.starts.why_refused(start);
        self.starts.starter_gone(start);
        if self.divide(start, now, out) {
            return;
        }
        self.no_further_ends_below(start, exit, now, out);
        let cause = refused.map_or(Cause::StarterExited(exit), Cause::NotStarted);
        self.no_further_ends(start, exit, &cause, now, out);
    }

    /// The starter of these children has ended: those that have not arrived fail for this cause, and
    /// no further end is reported.
    pub(super) fn no_further_ends(
        &mut self,
        start: StartId,
        exit: Exit,
        cause: &Cause,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let unnamed = self.options.launch_method().bulk().and_then(|bulk| bulk.unnamed_exit(exit));
        for link in self.starts.children(start) {
            let killed = self.children.get(link).and_then(Child::exit).map(Cause::Exited);
            let cause = killed.map_or(cause.clone(), |cause| self.or_refused(start, cause));
            let Some(child) = self.children.get_mut(link) else { continue };
            if child.is_awaited() {
                child.close();
                child.forgo_exit();
                self.ends(link, cause, now, out);
            } else if child.is_ending() {
                match unnamed.filter(|_| child.exit().is_none()) {
                    Some(exit) => self.child_exited(link, exit, now, out),
                    None => child.forgo_exit(),
                }
                if self.children.get(link).is_some_and(Child::is_gone) {
                    self.child_gone(link, now, out);
                }
            }
        }
    }

    /// A child is gone: it leaves its start, with the evidence that the starter has printed.
    pub(super) fn leave_start(
        &mut self,
        link: LinkId,
        child: &mut Child,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let start = child.start();
        if child.is_of_bulk_start() {
            child.add_evidence(&self.starts.tail(start));
        } else {
            self.started(start, now);
        }
        let by = now + self.options.rules.kill_grace;
        let by_itself = self.stage.is_up() && !child.was_forced() && !child.is_detached();
        if self.starts.child_gone(start, link, by_itself, by) == StarterStep::Ask {
            out.push(Effect::EndStarter(start, TERMINATE));
        }
    }

    /// Handles the deadlines of starters, and of arrivals that wait.
    pub(super) fn expire_starters(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some(start) = self.relays.expire(now) {
            self.place_held(start, now, out);
        }
        while let Some(host) = self.relays.exit_is_late(now) {
            self.host_left(host, Exit::Unknown, now);
        }
        while let Some((start, step)) = self.starts.expire(now, self.options.rules.kill_grace) {
            let signal = match step {
                StarterStep::Nothing => continue,
                StarterStep::Ask => TERMINATE,
                StarterStep::Kill => KILL,
            };
            out.push(Effect::EndStarter(start, signal));
        }
    }
}

/// Whether this is how a host fails that a start ends for another reason than its own.
pub(super) fn may_be_ended_with_others(cause: &Cause) -> bool {
    match cause {
        Cause::Closed | Cause::Exited(Exit::Signal(_) | Exit::Unknown) => true,
        Cause::StarterExited(exit) => !matches!(exit, Exit::Signal(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
