//! The machinery of a front end: its engine, and what nodes tell of sessions.
//!
//! Calls send [`Command`]s and wait, with a deadline, for the [`State`] to be as they want it; who turns the engine meanwhile is
//! decided by [`Works`].

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use libi_comm::{Call, CallId, CommError, Outcome};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Ending, Event as Input, Node, Notice};

use super::Progress;
use super::event::Event;
use super::report::LaunchReport;
use super::session::{Number, Stage, Status};
use crate::engine::driver::Driver;
use crate::engine::sys::duplicate;
use crate::engine::{Engine, Id, Owner};
use crate::talk::{Pending, Reading};
use crate::works::{Bell, Board, Machinery, Talk, Works};

/// How long sessions have to end when their front end does, before they are ended by force.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a call wants of the engine.
pub(super) enum Command {
    Add(Number, Box<Driver>),
    Tell(Number, Input),
    Talk(Talk),
    /// Nobody has a handle for it any more: forget it when it is over.
    Retire(Number),
}

impl From<Talk> for Command {
    fn from(talk: Talk) -> Self {
        Self::Talk(talk)
    }
}

/// What the engine has found out, and calls want to know.
pub(super) struct State {
    pub(super) sessions: BTreeMap<Number, Status>,
    pub(super) events: VecDeque<Event>,
    /// Rings while there are events.
    bell: Bell,
}

type Shared = Arc<Board<State, Command>>;

/// See the [module](self).
pub(super) struct Room {
    works: Arc<Works<Hall>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    descriptor: OwnedFd,
}

/// The engine, and who is told.
struct Hall {
    engine: Engine,
    desk: Desk,
    retired: Vec<Number>,
    /// Whether some session is being launched.
    launching: bool,
}

/// Takes down what nodes tell.
struct Desk {
    board: Shared,
    numbers: BTreeMap<Id, Number>,
    ids: BTreeMap<Number, Id>,
    /// Bytes of output that were taken, to be confirmed.
    consumed: Vec<(Number, u32)>,
}

impl Room {
    pub(super) fn new(progress: Progress) -> io::Result<Self> {
        let engine = Engine::new()?;
        let waker = engine.waker();
        let bell = Bell::new()?;
        let has_events = bell.as_fd().try_clone_to_owned()?;
        let has_work = duplicate(engine.poll().as_raw_fd())?;
        let (sessions, events) = (BTreeMap::new(), VecDeque::new());
        let state = State { sessions, events, bell };
        let board = Arc::new(Board::new(state, progress)?);
        let (numbers, ids) = (BTreeMap::new(), BTreeMap::new());
        let desk = Desk { board: Arc::clone(&board), numbers, ids, consumed: Vec::new() };
        let hall = Hall { engine, desk, retired: Vec::new(), launching: false };
        let works = Works::new(board, hall, move || drop(waker.wake()), progress);
        let thread = match progress {
            Progress::Manual => None,
            Progress::Thread => {
                let works = Arc::clone(&works);
                Some(crate::thread::spawn("libi", move || works.tend())?)
            }
        };
        // Where there is a thread, what there is to do is its business.
        let told = [has_events.as_fd(), has_work.as_fd()];
        let descriptor = works.descriptor(if progress == Progress::Thread { &told[..1] } else { &told })?;
        Ok(Self { works, thread: Mutex::new(thread), descriptor })
    }

    /// Looks at the state, or changes it.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.works.board().lock().state)
    }

    /// Sends the engine a command; it is carried out soon, in the order of commands.
    pub(super) fn send(&self, command: Command) {
        self.works.send(command);
    }

    /// Starts a call in a session.
    pub(super) fn call<T>(
        &self,
        number: Number,
        what: &'static str,
        call: Call,
        read: Reading<T>,
    ) -> Pending<T> {
        let id = self.works.start(number, call);
        Pending::called(Arc::clone(&self.works) as _, id, what, read)
    }

    /// Waits until the state is as it should be, for so long at most. The engine goes on meanwhile.
    pub(super) fn wait<T>(&self, timeout: Duration, ready: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        self.works.watch(timeout, ready)
    }

    /// Without a thread: does what there is to do, and does not wait.
    pub(super) fn dispatch(&self) -> io::Result<()> {
        self.works.dispatch()
    }

    /// Without a thread: how long there is nothing to do unless the descriptor says so.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.works.next_timeout()
    }

    /// What is readable when there are events, or calls are over of which nobody has heard; without a thread also when there is
    /// something to do.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Takes the next event, if there is one within this time.
    pub(super) fn next_event(&self, timeout: Duration) -> Option<Event> {
        let event = self.wait(timeout, State::next_event)?;
        if let Event::Output { number, bytes, .. } = &event {
            self.send(Command::Tell(*number, Input::Consumed(bytes.len() as u32)));
        }
        Some(event)
    }

    /// Ends the engine, and with it every process that was not released.
    pub(super) fn stop(&self) {
        self.works.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl State {
    fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        self.announce();
        event
    }

    /// Says whether there are events.
    fn announce(&mut self) {
        self.bell.set(!self.events.is_empty());
    }
}

impl Machinery for Hall {
    type State = State;
    type Command = Command;

    fn is_for_thread(command: &Command) -> bool {
        matches!(command, Command::Add(..))
    }

    fn is_anybodys(&self) -> bool {
        // Processes are started only until there is a verdict.
        !self.launching
    }

    fn obey(&mut self, commands: VecDeque<Command>) {
        for command in commands {
            match command {
                Command::Add(number, driver) => self.add(number, *driver),
                Command::Tell(number, input) => self.tell(number, input),
                Command::Talk(Talk::Call(number, id, call)) => match self.desk.ids.get(&number) {
                    Some(&node) if self.is_alive(number) => self.engine.call(node, id, call, &mut self.desk),
                    _ => self.desk.board.finish(id, Err(CommError::Ended)),
                },
                Command::Talk(Talk::Cancel(number, id)) => {
                    if let Some(&node) = self.desk.ids.get(&number) {
                        self.engine.cancel(node, id, &mut self.desk);
                    }
                    self.desk.board.finish(id, Err(CommError::TimedOut { what: "the call" }));
                }
                Command::Retire(number) => self.retired.push(number),
            }
        }
    }

    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        self.engine.turn(most, &mut self.desk)?;
        for (number, bytes) in std::mem::take(&mut self.desk.consumed) {
            self.tell(number, Input::Consumed(bytes));
        }
        self.count();
        self.forget_the_retired();
        Ok(())
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.engine.next_timeout()
    }

    fn close(&mut self) {
        let numbers: Vec<_> = self.desk.ids.keys().copied().collect();
        // Members that are told end what they have started with them; those that are only killed cannot.
        let ending = Ending { signal: libc::SIGTERM, grace: Duration::ZERO };
        numbers.iter().for_each(|number| self.tell(*number, Input::End(ending)));
        let by = Clock::now() + FAREWELL;
        while self.is_anything_left() {
            let left = by.saturating_duration_since(Clock::now());
            if left.is_zero() || self.engine.turn(Some(left), &mut self.desk).is_err() {
                break;
            }
        }
        numbers.into_iter().for_each(|number| self.forget(number));
    }
}

impl Hall {
    fn add(&mut self, number: Number, driver: Driver) {
        // What it tells at once has to find its number.
        let id = self.engine.next_id();
        self.desk.numbers.insert(id, number);
        self.desk.ids.insert(number, id);
        self.launching = true;
        let now = self.engine.now();
        if let Some(status) = self.desk.board.lock().state.sessions.get_mut(&number) {
            status.begin(now);
        }
        self.engine.add(driver, &mut self.desk);
    }

    /// Whether somebody of the session may still have something to say.
    fn is_alive(&self, number: Number) -> bool {
        let board = self.desk.board.lock();
        board.state.sessions.get(&number).is_some_and(|status| status.stage < Stage::GivenUp)
    }

    /// Notes how far launches are.
    fn count(&mut self) {
        let mut board = self.desk.board.lock();
        self.launching = false;
        let mut done = Vec::new();
        for (number, status) in &mut board.state.sessions {
            let driver = self.desk.ids.get(number).and_then(|id| self.engine.driver(*id));
            let Some(node) = driver.map(Driver::node) else { continue };
            if status.stage == Stage::Launching {
                status.progress = node.progress();
                self.launching = true;
            }
            // A session of which nothing is left gives out no more.
            if status.owes_done && (node.has_passed_output_on() || status.stage == Stage::Over) {
                status.owes_done = false;
                done.push(status.session());
            }
            status.note_links(node);
        }
        if !done.is_empty() {
            board.state.events.extend(done.into_iter().map(|session| Event::Done { session }));
            board.state.announce();
            self.desk.board.announce(board);
        }
    }

    fn forget_the_retired(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let mut over = Vec::new();
        {
            let state = &self.desk.board.lock().state;
            let is_over =
                |number: &Number| state.sessions.get(number).is_none_or(|status| status.stage == Stage::Over);
            self.retired.retain(|number| {
                let is_over = is_over(number);
                over.extend(is_over.then_some(*number));
                !is_over
            });
        }
        over.into_iter().for_each(|number| self.forget(number));
    }

    fn tell(&mut self, number: Number, input: Input) {
        if matches!(input, Input::End(_)) {
            // That the master is lost with the rest is not what ends them.
            self.desk.board.end_calls_of(number);
        }
        if let Some(&id) = self.desk.ids.get(&number) {
            self.engine.tell(id, input, &mut self.desk);
        }
    }

    fn forget(&mut self, number: Number) {
        if let Some(id) = self.desk.ids.remove(&number) {
            self.engine.remove(id);
            self.desk.numbers.remove(&id);
        }
        let mut board = self.desk.board.lock();
        board.state.sessions.remove(&number);
        drop(board);
        self.desk.board.end_calls_of(number);
    }

    fn is_anything_left(&self) -> bool {
        self.desk.board.lock().state.sessions.values().any(|status| status.stage < Stage::Over)
    }
}

impl Owner for Desk {
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
        let State { sessions, events, .. } = &mut board.state;
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
                if let Some(room) = &mut status.room {
                    *room += bytes as usize;
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
                status.owes_done = !node.has_passed_output_on();
                if !status.owes_done {
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
