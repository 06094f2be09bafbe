//! The reactor of a member: its engine, and what the session's signals and end do to this process.
//!
//! - A signal that the program handles is delivered at once. A signal that would end the process is
//!   delivered when no other member depends on it, so that reports about their ends still get
//!   through, or after [`FLUSH_TIMEOUT`].
//! - The session's end has two steps: the signal, and SIGKILL when the grace period is over, for
//!   the process group that this process leads.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ids::Rank;
use libi_core::loss::{Loss, LossReason};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Ending, Node, Notice};

use super::front_calls::{FrontCalls, FrontStep, Turn};
use super::numbers::Numbers;
use super::runtime::{MemberCommand, MemberInfo, MemberStage, MemberState, PARTY};
use super::signals::{is_fatal, is_handled};
use crate::engine::fd_sentinel::fds_were_closed;
use crate::engine::session_io::SessionIo;
use crate::engine::sys::{clear_parent_death_signal, kill_group, signal_self};
use crate::engine::{Engine, EngineSink, NodeId};
use crate::executor::{CallRequest, Reactor, Shared};

/// The engine and its sink.
pub(super) struct MemberReactor {
    engine: Engine,
    id: NodeId,
    sink: MemberSink,
    /// An empty list for the steps of calls.
    steps: Vec<FrontStep>,
}

/// Notes what the node reports.
pub(super) struct MemberSink {
    shared: Arc<Shared<MemberState, MemberCommand>>,
    numbers: Numbers,
    /// Those that did not come up, as far as the program knows.
    absent: Ranks,
    front_calls: FrontCalls,
    /// Completed calls that concern them.
    finished: Vec<(CallId, Result<Outcome, CommError>)>,
    termination: Option<Termination>,
    signals: Vec<(Instant, i32)>,
}

/// The requested end of this process.
struct Termination {
    ending: Ending,
    by: Instant,
    signalled: bool,
}

/// How long a signal is held back until pending reports are sent.
pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

impl Reactor for MemberReactor {
    type State = MemberState;
    type Command = MemberCommand;

    fn requires_thread(command: &MemberCommand) -> bool {
        matches!(command, MemberCommand::ClearParentDeathSignal)
    }

    fn callers_may_drive(&self) -> bool {
        // Processes on this host are started before the session is up, and other hosts then or while it grows.
        let grows =
            || self.engine.session_io(self.id).is_some_and(|session_io| session_io.node().is_growing());
        self.sink.shared.lock().state.stage > MemberStage::Joining && !grows()
    }

    fn execute(&mut self, commands: &mut VecDeque<MemberCommand>) {
        if fds_were_closed(&self.engine.fd_sentinel()) {
            return;
        }
        let executed = commands.len() as u64;
        let mut steps = std::mem::take(&mut self.steps);
        for command in commands.drain(..) {
            match command {
                MemberCommand::Tell(input) => self.engine.tell(self.id, input, &mut self.sink),
                MemberCommand::Leave => self.engine.leave(self.id, &mut self.sink),
                MemberCommand::Call(CallRequest::Call(_, id, _))
                | MemberCommand::BroadcastFromFront(id)
                | MemberCommand::GatherToFront(id, ..)
                    if self.sink.termination.is_some() =>
                {
                    self.sink.shared.finish(id, Err(CommError::Ended));
                }
                MemberCommand::Call(CallRequest::Call(_, id, call)) => {
                    self.sink.front_calls.call(id, call, &mut steps);
                }
                MemberCommand::BroadcastFromFront(id) => {
                    self.sink.front_calls.broadcast(id, &turns(&self.engine, self.id), &mut steps);
                }
                MemberCommand::GatherToFront(id, data, parts) => {
                    let turns = turns(&self.engine, self.id);
                    self.sink.front_calls.gather(id, (data, parts), &turns, &mut steps);
                }
                MemberCommand::Call(CallRequest::Cancel(_, id)) => {
                    self.sink.front_calls.cancel(id, &turns(&self.engine, self.id), &mut steps);
                }
                MemberCommand::ClearParentDeathSignal => {
                    let mut shared = self.sink.shared.lock();
                    shared.state.parent_death_cleared = Some(clear_parent_death_signal());
                    self.sink.shared.announce(shared);
                }
                MemberCommand::Print(stream, pipe) => {
                    // If the pipe cannot be registered, the output stays in it.
                    let _ = self.engine.add_printed(self.id, stream, pipe, &mut self.sink);
                }
            }
            self.take(&mut steps);
        }
        self.steps = steps;
        self.note(executed);
    }

    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        let most = [most, self.own_timeout()].into_iter().flatten().min();
        self.engine.turn(most, &mut self.sink)?;
        self.follow_up();
        if self.sink.shared.lock().state.flush_waiters > 0 {
            self.engine.request_confirmation(self.id, &mut self.sink);
        }
        self.note(0);
        // Those below have to hear that the session ends before this process does.
        if self.has_signals() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !fds_were_closed(&self.engine.fd_sentinel()) {
            self.engine.flush(&mut self.sink);
            self.follow_up();
        }
        self.deliver_signals();
        Ok(())
    }

    fn next_timeout(&self) -> Option<Duration> {
        [self.engine.next_timeout(), self.own_timeout()].into_iter().flatten().min()
    }

    fn close(&mut self) {}
}

impl MemberSink {
    pub(super) fn new(shared: Arc<Shared<MemberState, MemberCommand>>, numbers: Numbers) -> Self {
        let (front_calls, finished) = (FrontCalls::default(), Vec::new());
        Self {
            shared,
            numbers,
            absent: Ranks::new(),
            front_calls,
            finished,
            termination: None,
            signals: Vec::new(),
        }
    }
}

impl MemberReactor {
    pub(super) fn new(engine: Engine, id: NodeId, sink: MemberSink) -> Self {
        Self { engine, id, sink, steps: Vec::new() }
    }

    /// The time until something is due that the engine does not know of.
    fn own_timeout(&self) -> Option<Duration> {
        let now = self.engine.now();
        let by = self
            .sink
            .termination
            .as_ref()
            .map(|termination| termination.by.since(now).min(Duration::from_millis(20)));
        let signals = (!self.sink.signals.is_empty()).then_some(Duration::from_millis(5));
        let waits = || self.sink.shared.lock().state.flush_waiters > 0;
        let session_io = self.engine.session_io(self.id);
        let arrival = (waits() && session_io.is_some_and(SessionIo::awaits_acknowledgement))
            .then_some(Duration::from_millis(2));
        [by, signals, arrival].into_iter().flatten().min()
    }

    /// Takes the steps of calls to the front end, and those that follow.
    fn take(&mut self, steps: &mut Vec<FrontStep>) {
        while !steps.is_empty() {
            let mut due = std::mem::take(steps);
            for step in due.drain(..) {
                match step {
                    FrontStep::Call(id, call) => self.engine.call(self.id, id, call, &mut self.sink),
                    FrontStep::Cancel(id) => self.engine.cancel(self.id, id, &mut self.sink),
                    FrontStep::Finish(id, result) => self.sink.shared.finish(id, result),
                }
            }
            for (id, result) in std::mem::take(&mut self.sink.finished) {
                let turns = turns(&self.engine, self.id);
                self.sink.front_calls.finished(id, result, &turns, steps);
            }
            if steps.is_empty() {
                *steps = due;
            }
        }
    }

    /// Continues calls to the front end of which a part is complete, or whose master may be known now.
    fn follow_up(&mut self) {
        if self.sink.finished.is_empty() && !self.sink.front_calls.await_master() {
            return;
        }
        let (mut steps, turns) = (Vec::new(), turns(&self.engine, self.id));
        for (id, result) in std::mem::take(&mut self.sink.finished) {
            self.sink.front_calls.finished(id, result, &turns, &mut steps);
        }
        self.sink.front_calls.release(&turns, &mut steps);
        drop(turns);
        if steps.is_empty() {
            return;
        }
        self.take(&mut steps);
        self.engine.flush(&mut self.sink);
    }

    /// Updates what calls may be waiting for, after this many more commands.
    fn note(&mut self, executed: u64) {
        let mut shared = self.sink.shared.lock();
        shared.state.executed += executed;
        let node = self.engine.session_io(self.id).map(SessionIo::node);
        if !shared.state.has_no_members && node.is_some_and(Node::is_left_by_all) {
            shared.state.has_no_members = true;
            self.sink.shared.announce(shared);
            return self.note(0);
        }
        let Some(session_io) = self.engine.session_io(self.id).filter(|_| shared.state.flush_waiters > 0)
        else {
            return;
        };
        // Calls that wait for their master are not the group's yet.
        let alone = session_io.is_alone() && !self.sink.front_calls.await_master();
        let flushed = session_io.has_sent_everything();
        if executed > 0 || (shared.state.alone, shared.state.flushed) != (alone, flushed) {
            (shared.state.alone, shared.state.flushed) = (alone, flushed);
            self.sink.shared.announce(shared);
        }
    }

    fn has_signals(&self) -> bool {
        self.sink.termination.is_some() || !self.sink.signals.is_empty()
    }

    /// Delivers the signals that are due to this process.
    fn deliver_signals(&mut self) {
        if !self.has_signals() {
            return;
        }
        let now = self.engine.now();
        let Some(session_io) = self.engine.session_io(self.id) else { return };
        let (alone, flushed) = (session_io.node().has_no_dependents(), session_io.has_sent_everything());
        self.sink.signals.retain(|(since, signal)| {
            let due = flushed && (alone || !is_fatal(*signal)) || now.since(*since) >= FLUSH_TIMEOUT;
            if due {
                signal_self(*signal);
            }
            !due
        });
        let Some(termination) = &mut self.sink.termination else { return };
        let (signal, by) = (termination.ending.signal, termination.by);
        let is_late = now >= by + FLUSH_TIMEOUT;
        if !termination.signalled && (alone && flushed || is_handled(signal) || is_late) {
            termination.signalled = true;
            signal_self(signal);
        }
        // Members below end at the same time. They need this process to report it, and to kill
        // their own groups.
        if now >= by && (alone && flushed) || is_late {
            kill_group();
        }
    }
}

/// The masters of the calls that a member makes next.
fn turns(engine: &Engine, id: NodeId) -> impl Fn(u64) -> Option<Turn> {
    move |ahead| {
        let group = engine.session_io(id)?.group();
        let master = group.next_master(ahead)?;
        Some(Turn { master, is_here: group.rank() == Some(master) })
    }
}

impl EngineSink for MemberSink {
    fn finished(&mut self, _: NodeId, call: CallId, result: Result<Outcome, CommError>) {
        if self.front_calls.concerns(call) {
            self.finished.push((call, result));
        } else {
            self.shared.finish(call, result);
        }
    }

    fn missing(&mut self, _: NodeId, call: CallId, ranks: Ranks) {
        self.front_calls.missing(call, &ranks);
        self.shared.missing(call, ranks);
    }

    fn begins_with(&mut self, _: NodeId, size: u32, absent: &Ranks) {
        self.numbers.set_size(size);
        self.absent = absent.clone();
    }

    fn lost(&mut self, _: NodeId, ranks: Ranks, reason: Option<LossReason>) {
        let mut shared = self.shared.lock();
        shared.state.lost.add_all(&ranks);
        shared.state.losses.extend(reason.map(|reason| Loss { ranks, reason }));
        self.shared.announce(shared);
    }

    fn grown(&mut self, _: NodeId, size: u32, absent: &Ranks) {
        self.absent = absent.clone();
        let mut shared = self.shared.lock();
        self.numbers.set_size(size);
        if let Some(place) = &mut shared.state.place {
            place.absent = absent.clone();
        }
        self.shared.announce(shared);
    }

    fn joined(&mut self, _: NodeId, ranks: &Ranks) {
        let mut shared = self.shared.lock();
        let MemberState { lost, losses, .. } = &mut shared.state;
        lost.remove_all(ranks);
        losses.iter_mut().for_each(|loss| loss.ranks.remove_all(ranks));
        losses.retain(|loss| !loss.ranks.is_empty());
        self.shared.announce(shared);
    }

    fn master(&mut self, _: NodeId, rank: Rank) {
        self.numbers.set_master(rank);
    }

    fn begins(&mut self, _: NodeId, first: u64) {
        let mut shared = self.shared.lock();
        shared.state.first_call = Some(first);
        self.shared.announce(shared);
    }

    fn notice(&mut self, _: NodeId, notice: Notice, node: &Node, now: Instant) {
        let stage = match notice {
            Notice::Up => {
                let limits = &node.options().limits;
                if node.is_agent() {
                    limits.apply_for_members();
                } else {
                    limits.apply();
                }
                MemberStage::Up
            }
            Notice::End(ending) => {
                let by = now + ending.grace;
                let termination =
                    self.termination.get_or_insert(Termination { ending, by, signalled: false });
                termination.by = termination.by.min(by);
                MemberStage::Ending
            }
            Notice::Signal(signal) => return self.signals.push((now, signal)),
            Notice::Over => {
                let mut shared = self.shared.lock();
                shared.state.is_over = true;
                return self.shared.announce(shared);
            }
            _ => return,
        };
        let mut shared = self.shared.lock();
        shared.state.stage = stage;
        if shared.state.place.is_none()
            && let (Some(rank), Some((host, name))) = (node.rank(), node.host())
        {
            let (host_name, absent) = (name.to_owned(), self.absent.clone());
            shared.state.place = Some(MemberInfo { rank, absent, host, host_name });
        }
        self.shared.announce(shared);
        if stage == MemberStage::Ending {
            self.shared.end_calls_of(PARTY);
        }
        log::debug!(
            target: "libi::session",
            "{} on {}: {}",
            node.rank().map_or_else(|| "an agent".to_owned(), |rank| rank.to_string()),
            node.host().map_or("an unknown host", |(_, name)| name),
            if stage == MemberStage::Up { "the session is up" } else { "the session is ending" },
        );
    }
}
