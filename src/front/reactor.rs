//! The reactor of a front end: its engine, and a sink that notes what the nodes of its sessions
//! report.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ids::Rank;
use libi_core::loss::LossReason;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_job::session::Note;
use libi_launch::failure::Exit;
use libi_launch::machine::{CommandProcess, Ending, Event as Input, Node, Notice};
use libi_launch::options::OnLoss;

use super::event::Event;
use super::keeper::KeptSessions;
use super::keeper::message::ToKeeper;
use super::log_lines::LogLines;
use super::report::LaunchReport;
use super::runtime::{FrontCommand, FrontShared, FrontState};
use super::session::{SessionNumber, SessionStatus, Stage};
use crate::engine::session_io::SessionIo;
use crate::engine::{Engine, EngineSink, NodeId};
use crate::executor::{CallRequest, Reactor};

/// How long sessions may take to end when their front end is dropped, before they are killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long members may take to end when [another one is lost](OnLoss::End), before they are killed.
const GRACE_AFTER_LOSS: Duration = Duration::from_secs(2);

/// The engine and its sink.
pub(super) struct FrontReactor {
    engine: Engine,
    sink: FrontSink,
    retired: Vec<SessionNumber>,
    /// Whether some session is still being launched, or grows.
    launching: bool,
    /// Sessions that other processes keep.
    kept: KeptSessions,
}

/// Notes what nodes report.
pub(super) struct FrontSink {
    shared: FrontShared,
    numbers: BTreeMap<NodeId, SessionNumber>,
    ids: BTreeMap<SessionNumber, NodeId>,
    /// Bytes of output that were written to files, to be acknowledged.
    consumed: Vec<(SessionNumber, u32)>,
    /// Sessions that are to end because a member is lost.
    failed: Vec<SessionNumber>,
}

impl FrontReactor {
    pub(super) fn new(engine: Engine, shared: FrontShared) -> Self {
        let (numbers, ids) = (BTreeMap::new(), BTreeMap::new());
        let sink = FrontSink { shared, numbers, ids, consumed: Vec::new(), failed: Vec::new() };
        Self { engine, sink, retired: Vec::new(), launching: false, kept: KeptSessions::default() }
    }

    /// The engine, for a keeper's connections.
    pub(super) fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Reactor for FrontReactor {
    type State = FrontState;
    type Command = FrontCommand;

    fn requires_thread(command: &FrontCommand) -> bool {
        matches!(command, FrontCommand::Add(..) | FrontCommand::Tell(_, Input::Grow(_)))
    }

    fn callers_may_drive(&self) -> bool {
        // Processes are started only during a launch, and while a session grows.
        !self.launching
    }

    fn execute(&mut self, commands: &mut VecDeque<FrontCommand>) {
        for command in commands.drain(..) {
            match command {
                FrontCommand::Add(number, session_io) => self.add(number, *session_io),
                FrontCommand::Tell(number, input) => {
                    self.launching |= matches!(input, Input::Grow(_));
                    self.tell(number, input);
                }
                FrontCommand::Call(CallRequest::Call(number, id, call)) if self.kept.has(number) => {
                    self.kept.call(number, id, call, &self.sink.shared);
                }
                FrontCommand::Call(CallRequest::Call(number, id, call)) => match self.sink.ids.get(&number) {
                    Some(&node) if self.is_alive(number) => self.engine.call(node, id, call, &mut self.sink),
                    _ => self.sink.shared.finish(id, Err(CommError::Ended)),
                },
                FrontCommand::Call(CallRequest::Cancel(number, id)) => {
                    if self.kept.has(number) {
                        // The keeper answers, with a message that has arrived there if there is one.
                        self.kept.send(number, &ToKeeper::Cancel(id.0));
                        continue;
                    }
                    if let Some(&node) = self.sink.ids.get(&number) {
                        self.engine.cancel(node, id, &mut self.sink);
                    }
                    self.sink.shared.finish(id, Err(CommError::TimedOut { what: "the call" }));
                }
                FrontCommand::Attach(number, attachment) => {
                    self.kept.attach(number, *attachment, &mut self.engine);
                }
                FrontCommand::Took(number) => self.kept.send(number, &ToKeeper::TookEvent),
                FrontCommand::OnLoss(number, on_loss) => {
                    self.kept.send(number, &ToKeeper::OnLoss(on_loss));
                }
                FrontCommand::Retire(number) if self.kept.has(number) => {
                    self.kept.leave(number, &mut self.engine, &self.sink.shared);
                    self.forget(number);
                }
                FrontCommand::Retire(number) => {
                    self.release_output(number);
                    self.retired.push(number);
                }
            }
        }
    }

    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        self.end_failed();
        self.kept.flush();
        let most = [most, self.kept_timeout()].into_iter().flatten().min();
        self.engine.turn(most, &mut self.sink)?;
        self.kept.turn(&mut self.engine, &self.sink.shared);
        self.end_failed();
        for (number, bytes) in std::mem::take(&mut self.sink.consumed) {
            self.tell(number, Input::Consumed(bytes));
        }
        self.count();
        self.forget_retired();
        Ok(())
    }

    fn next_timeout(&self) -> Option<Duration> {
        [self.engine.next_timeout(), self.kept_timeout()].into_iter().flatten().min()
    }

    fn close(&mut self) {
        self.kept.close(&mut self.engine, &self.sink.shared);
        let numbers: Vec<_> = self.sink.ids.keys().copied().collect();
        // Members that receive SIGTERM can end the processes they have started; members that are
        // killed cannot.
        let ending = Ending { signal: libc::SIGTERM, grace: Duration::ZERO };
        for number in &numbers {
            self.tell(*number, Input::End(ending));
            self.release_output(*number);
        }
        let by = Clock::now() + SHUTDOWN_TIMEOUT;
        while self.has_live_sessions() {
            let left = by.saturating_duration_since(Clock::now());
            if left.is_zero() || self.engine.turn(Some(left), &mut self.sink).is_err() {
                break;
            }
        }
        numbers.into_iter().for_each(|number| self.forget(number));
    }
}

impl FrontReactor {
    fn add(&mut self, number: SessionNumber, session_io: SessionIo) {
        // Reports that the node makes at once already need its number.
        let id = self.engine.next_id();
        self.sink.numbers.insert(id, number);
        self.sink.ids.insert(number, id);
        self.launching = true;
        let now = self.engine.now();
        if let Some(status) = self.sink.shared.lock().state.sessions.get_mut(&number) {
            status.begin(now);
        }
        self.engine.add(session_io, &mut self.sink);
    }

    /// Ends sessions that are to end with the first loss.
    fn end_failed(&mut self) {
        for number in std::mem::take(&mut self.sink.failed) {
            self.tell(number, Input::End(Ending { signal: libc::SIGTERM, grace: GRACE_AFTER_LOSS }));
        }
    }

    /// Whether members of the session may still answer calls.
    fn is_alive(&self, number: SessionNumber) -> bool {
        let shared = self.sink.shared.lock();
        shared.state.sessions.get(&number).is_some_and(|status| status.stage < Stage::GivenUp)
    }

    /// Updates the progress of launches.
    fn count(&mut self) {
        let mut shared = self.sink.shared.lock();
        self.launching = false;
        let (mut done, mut lines, now) = (Vec::new(), LogLines::default(), self.engine.now());
        for (number, status) in &mut shared.state.sessions {
            let session_io = self.sink.ids.get(number).and_then(|id| self.engine.session_io(*id));
            let Some(node) = session_io.map(SessionIo::node) else { continue };
            if status.stage == Stage::Launching {
                status.progress = node.progress();
                self.launching = true;
            }
            self.launching |= node.is_growing();
            // A session that is over delivers no more output.
            if status.done_is_due && (node.has_relayed_output() || status.stage == Stage::Over) {
                status.done_is_due = false;
                let event = Event::Done { session: status.session() };
                lines.event(&event, status);
                done.push((*number, event));
            }
            lines.hosts(status, node, now);
            status.update_links(node);
            if status.stage != Stage::Over {
                status.note_lost_hosts(node);
            }
        }
        if !done.is_empty() {
            shared.state.events.extend(done);
            shared.state.announce();
            self.sink.shared.announce(shared);
        } else {
            drop(shared);
        }
        lines.emit();
    }

    /// What a session that ends has printed waits for no reader any more, nor do the processes that
    /// pass it on.
    fn release_output(&mut self, number: SessionNumber) {
        self.tell(number, Input::Consumed(u32::MAX));
    }

    fn forget_retired(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let mut over = Vec::new();
        {
            let state = &self.sink.shared.lock().state;
            let is_over = |number: &SessionNumber| {
                state.sessions.get(number).is_none_or(|status| status.stage == Stage::Over)
            };
            self.retired.retain(|number| {
                let is_over = is_over(number);
                over.extend(is_over.then_some(*number));
                !is_over
            });
        }
        over.into_iter().for_each(|number| self.forget(number));
    }

    fn tell(&mut self, number: SessionNumber, input: Input) {
        if matches!(input, Input::End(_)) {
            // Calls that are pending fail with `Ended`, not with the loss of the master that
            // follows.
            self.sink.shared.end_calls_of(number);
        }
        if self.kept.has(number) {
            self.kept.tell(number, input, &self.sink.shared);
        } else if let Some(&id) = self.sink.ids.get(&number) {
            self.engine.tell(id, input, &mut self.sink);
        }
    }

    fn forget(&mut self, number: SessionNumber) {
        if let Some(id) = self.sink.ids.remove(&number) {
            self.engine.remove(id);
            self.sink.numbers.remove(&id);
        }
        let mut shared = self.sink.shared.lock();
        shared.state.sessions.remove(&number);
        drop(shared);
        self.sink.shared.end_calls_of(number);
    }

    fn kept_timeout(&self) -> Option<Duration> {
        Some(self.kept.deadline()?.since(self.engine.now()))
    }

    fn has_live_sessions(&self) -> bool {
        let is_live = |status: &SessionStatus| status.stage < Stage::Over && !status.is_kept;
        self.sink.shared.lock().state.sessions.values().any(is_live)
    }
}

impl EngineSink for FrontSink {
    fn finished(&mut self, _: NodeId, call: CallId, result: Result<Outcome, CommError>) {
        self.shared.finish(call, result);
    }

    fn lost(&mut self, _: NodeId, _: Ranks, _: Option<LossReason>) {
        // Notices say which members have ended and which are lost.
    }

    fn master(&mut self, id: NodeId, rank: Rank) {
        let Some(&number) = self.numbers.get(&id) else { return };
        let mut shared = self.shared.lock();
        let FrontState { sessions, events, .. } = &mut shared.state;
        let Some(status) = sessions.get_mut(&number) else { return };
        events.push_back((number, status.has_master(rank)));
        self.shared.announce(shared);
    }

    fn notice(&mut self, id: NodeId, notice: Notice, node: &Node, now: Instant) {
        let Some(&number) = self.numbers.get(&id) else { return };
        let mut shared = self.shared.lock();
        let FrontState { sessions, events, .. } = &mut shared.state;
        let Some(status) = sessions.get_mut(&number) else { return };
        let session = status.session();
        let (mut lines, known_events) = (LogLines::default(), events.len());
        let is_loss = match notice {
            Notice::Exited(_, exit, _) => exit != Exit::Code(0),
            Notice::Lost(..) => true,
            _ => false,
        };
        if is_loss && status.on_loss == OnLoss::End && status.stage == Stage::Up && !node.is_ending() {
            status.ends_unasked = true;
            self.failed.push(number);
        }
        match notice {
            Notice::Output(rank, stream, bytes) => {
                if let Some(files) = &mut status.files {
                    self.consumed.push((number, bytes.len() as u32));
                    if let Err(error) = files.write(rank, stream, &bytes) {
                        status.output_error = Some(error.clone());
                        events.push_back((number, Event::OutputFailed { session, error }));
                    }
                } else {
                    events.push_back((number, Event::Output { session, rank, stream, bytes }));
                }
            }
            Notice::Folded(ranks, stream, bytes) => {
                events.push_back((number, Event::Folded { session, ranks, stream, bytes }));
            }
            Notice::CommandOutput(process, stream, bytes) => {
                let CommandProcess { command, host, index } = process;
                let host_name = status.host_name(host);
                let event = Event::CommandOutput { session, command, host, host_name, index, stream, bytes };
                events.push_back((number, event));
            }
            Notice::CommandEnded(CommandProcess { command, host, index }, outcome) => {
                let (host_name, outcome) = (status.host_name(host), status.process_outcome(outcome));
                status.commands.ended(command, (host, index), &host_name, &outcome);
                let event = Event::CommandEnded { session, command, host, host_name, index, outcome };
                events.push_back((number, event));
            }
            Notice::CommandDone(command) => {
                status.commands.done(command);
                events.push_back((number, Event::CommandDone { session, command }));
            }
            Notice::Waiting(reason) => events.push_back((number, Event::Waiting { session, reason })),
            Notice::Staging { sent, of } => {
                let (hosts, ..) = node.progress();
                let event = Event::Staging { session, sent, of, hosts };
                match events.back_mut() {
                    // One that was not taken is out of date.
                    Some((last, before @ Event::Staging { .. })) if *last == number => *before = event,
                    _ => events.push_back((number, event)),
                }
            }
            Notice::Revoked(reason) => events.push_back((number, Event::Revoked { session, reason })),
            Notice::Up | Notice::GivenUp => {
                let up = notice == Notice::Up;
                let (took, reason) = (status.since(now), status.reason.clone());
                let report = LaunchReport::new(status.layout(), node, reason, took, up);
                status.report = Some(Arc::new(report));
                status.progress = node.progress();
                // The caller may look before this turn is over.
                status.update_links(node);
                status.stage = if up { Stage::Up } else { Stage::GivenUp };
                if up {
                    status.note_hosts(node);
                }
                events
                    .push_back((number, if up { Event::Up { session } } else { Event::GivenUp { session } }));
            }
            Notice::InputTaken(bytes) => {
                status.input_taken += u64::from(bytes);
                if let Some(credit) = &mut status.input_credit {
                    *credit += bytes as usize;
                }
            }
            Notice::Exited(rank, exit, killed) => {
                events.push_back((number, status.exited(rank, exit, killed, node)));
            }
            Notice::Returned { host, place, blocks, .. } => status.returned(host, &place, &blocks, node, now),
            Notice::Restarted(rank) => events.push_back((number, status.restarted(rank))),
            Notice::NotRestarted(rank, why) => events.push_back((number, status.not_restarted(rank, why))),
            Notice::Grown(grown) => {
                events.push_back((number, status.grown(&grown, node, now)));
                status.note_hosts(node);
            }
            Notice::NotGrown(why) => events.push_back((number, status.not_grown(why, node, now))),
            Notice::Detached(rank) => events.push_back((number, status.detached(rank))),
            Notice::Lost(host, failure) => events.push_back((number, status.host_lost(host, failure))),
            Notice::Done => {
                status.stage = status.stage.max(Stage::Done);
                // `Done` is the last event of a session: output that was not taken yet comes first.
                status.done_is_due = !node.has_relayed_output();
                if !status.done_is_due {
                    events.push_back((number, Event::Done { session }));
                }
            }
            Notice::Over => {
                // The caller did not ask for this end, and waits for `Done`.
                status.done_is_due |= status.ends_unasked && status.stage < Stage::Done;
                status.stage = Stage::Over;
                status.noted = Note::default();
            }
            Notice::Signal(_) | Notice::End(_) => {}
        }
        if status.stage != Stage::Launching {
            lines.hosts(status, node, now);
        }
        events.range(known_events..).for_each(|(_, event)| lines.event(event, status));
        let has_ended = status.stage >= Stage::GivenUp;
        shared.state.announce();
        self.shared.announce(shared);
        lines.emit();
        if has_ended {
            self.shared.end_calls_of(number);
        }
    }
}
