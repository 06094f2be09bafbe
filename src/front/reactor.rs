//! The reactor of a front end: its engine, and a sink that notes what the nodes report of their sessions.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Ending, Event as Input, Node, Notice};

use super::event::Event;
use super::report::LaunchReport;
use super::runtime::{FrontCommand, FrontShared, FrontState};
use super::session::{SessionNumber, Stage};
use crate::engine::driver::Driver;
use crate::engine::{Engine, Id, Owner};
use crate::works::{Machinery, Talk};

/// How long sessions have to end when their front end does, before they are ended by force.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The engine, and who is told.
pub(super) struct FrontReactor {
    engine: Engine,
    sink: FrontSink,
    retired: Vec<SessionNumber>,
    /// Whether some session is being launched.
    launching: bool,
}

/// Takes down what nodes tell.
pub(super) struct FrontSink {
    board: FrontShared,
    numbers: BTreeMap<Id, SessionNumber>,
    ids: BTreeMap<SessionNumber, Id>,
    /// Bytes of output that were taken, to be confirmed.
    consumed: Vec<(SessionNumber, u32)>,
}

impl FrontReactor {
    pub(super) fn new(engine: Engine, board: FrontShared) -> Self {
        let (numbers, ids) = (BTreeMap::new(), BTreeMap::new());
        let sink = FrontSink { board, numbers, ids, consumed: Vec::new() };
        Self { engine, sink, retired: Vec::new(), launching: false }
    }
}

impl Machinery for FrontReactor {
    type State = FrontState;
    type Command = FrontCommand;

    fn is_for_thread(command: &FrontCommand) -> bool {
        matches!(command, FrontCommand::Add(..))
    }

    fn is_anybodys(&self) -> bool {
        // Processes are started only until there is a verdict.
        !self.launching
    }

    fn obey(&mut self, commands: VecDeque<FrontCommand>) {
        for command in commands {
            match command {
                FrontCommand::Add(number, driver) => self.add(number, *driver),
                FrontCommand::Tell(number, input) => self.tell(number, input),
                FrontCommand::Talk(Talk::Call(number, id, call)) => match self.sink.ids.get(&number) {
                    Some(&node) if self.is_alive(number) => self.engine.call(node, id, call, &mut self.sink),
                    _ => self.sink.board.finish(id, Err(CommError::Ended)),
                },
                FrontCommand::Talk(Talk::Cancel(number, id)) => {
                    if let Some(&node) = self.sink.ids.get(&number) {
                        self.engine.cancel(node, id, &mut self.sink);
                    }
                    self.sink.board.finish(id, Err(CommError::TimedOut { what: "the call" }));
                }
                FrontCommand::Retire(number) => self.retired.push(number),
            }
        }
    }

    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        self.engine.turn(most, &mut self.sink)?;
        for (number, bytes) in std::mem::take(&mut self.sink.consumed) {
            self.tell(number, Input::Consumed(bytes));
        }
        self.count();
        self.forget_retired();
        Ok(())
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.engine.next_timeout()
    }

    fn close(&mut self) {
        let numbers: Vec<_> = self.sink.ids.keys().copied().collect();
        // Members that are told end what they have started with them; those that are only killed cannot.
        let ending = Ending { signal: libc::SIGTERM, grace: Duration::ZERO };
        numbers.iter().for_each(|number| self.tell(*number, Input::End(ending)));
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
    fn add(&mut self, number: SessionNumber, driver: Driver) {
        // What it tells at once has to find its number.
        let id = self.engine.next_id();
        self.sink.numbers.insert(id, number);
        self.sink.ids.insert(number, id);
        self.launching = true;
        let now = self.engine.now();
        if let Some(status) = self.sink.board.lock().state.sessions.get_mut(&number) {
            status.begin(now);
        }
        self.engine.add(driver, &mut self.sink);
    }

    /// Whether somebody of the session may still have something to say.
    fn is_alive(&self, number: SessionNumber) -> bool {
        let board = self.sink.board.lock();
        board.state.sessions.get(&number).is_some_and(|status| status.stage < Stage::GivenUp)
    }

    /// Notes how far launches are.
    fn count(&mut self) {
        let mut board = self.sink.board.lock();
        self.launching = false;
        let mut done = Vec::new();
        for (number, status) in &mut board.state.sessions {
            let driver = self.sink.ids.get(number).and_then(|id| self.engine.driver(*id));
            let Some(node) = driver.map(Driver::node) else { continue };
            if status.stage == Stage::Launching {
                status.progress = node.progress();
                self.launching = true;
            }
            // A session of which nothing is left gives out no more.
            if status.done_is_due && (node.has_passed_output_on() || status.stage == Stage::Over) {
                status.done_is_due = false;
                done.push(status.session());
            }
            status.update_links(node);
        }
        if !done.is_empty() {
            board.state.events.extend(done.into_iter().map(|session| Event::Done { session }));
            board.state.announce();
            self.sink.board.announce(board);
        }
    }

    fn forget_retired(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let mut over = Vec::new();
        {
            let state = &self.sink.board.lock().state;
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
            // That the master is lost with the rest is not what ends them.
            self.sink.board.end_calls_of(number);
        }
        if let Some(&id) = self.sink.ids.get(&number) {
            self.engine.tell(id, input, &mut self.sink);
        }
    }

    fn forget(&mut self, number: SessionNumber) {
        if let Some(id) = self.sink.ids.remove(&number) {
            self.engine.remove(id);
            self.sink.numbers.remove(&id);
        }
        let mut board = self.sink.board.lock();
        board.state.sessions.remove(&number);
        drop(board);
        self.sink.board.end_calls_of(number);
    }

    fn has_live_sessions(&self) -> bool {
        self.sink.board.lock().state.sessions.values().any(|status| status.stage < Stage::Over)
    }
}

impl Owner for FrontSink {
    fn finished(&mut self, _: Id, call: CallId, result: Result<Outcome, CommError>) {
        self.board.finish(call, result);
    }

    fn lost(&mut self, id: Id, ranks: Ranks) {
        let Some(number) = self.numbers.get(&id) else { return };
        let mut board = self.board.lock();
        if let Some(status) = board.state.sessions.get_mut(number) {
            status.lost.add_all(&ranks);
        }
        self.board.announce(board);
    }

    fn notice(&mut self, id: Id, notice: Notice, node: &Node, now: Instant) {
        let Some(&number) = self.numbers.get(&id) else { return };
        let mut board = self.board.lock();
        let FrontState { sessions, events, .. } = &mut board.state;
        let Some(status) = sessions.get_mut(&number) else { return };
        let session = status.session();
        match notice {
            Notice::Output(rank, stream, bytes) => {
                if let Some(files) = &mut status.files {
                    files.write(rank, stream, &bytes);
                    self.consumed.push((number, bytes.len() as u32));
                } else {
                    events.push_back(Event::Output { session, number, rank, stream, bytes });
                }
            }
            Notice::Up | Notice::GivenUp => {
                let up = notice == Notice::Up;
                let report = LaunchReport::new(status.layout(), node, status.since(now), up);
                status.report = Some(Arc::new(report));
                status.progress = node.progress();
                status.stage = if up { Stage::Up } else { Stage::GivenUp };
                events.push_back(if up { Event::Up { session } } else { Event::GivenUp { session } });
            }
            Notice::InputTaken(bytes) => {
                if let Some(credit) = &mut status.input_credit {
                    *credit += bytes as usize;
                }
            }
            Notice::Exited(rank, exit) => events.push_back(Event::Exited { session, rank, exit }),
            Notice::Released(rank) => events.push_back(Event::Released { session, rank }),
            Notice::Lost(host, failure) => {
                let name = status.host_name(host);
                events.push_back(Event::Lost { session, host, name, failure });
            }
            Notice::Done => {
                status.stage = status.stage.max(Stage::Done);
                // Whoever hears of the end hears nothing after it: what is printed and not taken yet comes before.
                status.done_is_due = !node.has_passed_output_on();
                if !status.done_is_due {
                    events.push_back(Event::Done { session });
                }
            }
            Notice::Over => status.stage = Stage::Over,
            Notice::Signal(_) | Notice::End(_) => {}
        }
        let has_ended = status.stage >= Stage::GivenUp;
        board.state.announce();
        self.board.announce(board);
        if has_ended {
            self.board.end_calls_of(number);
        }
    }
}
