//! The engine of a front end, and whoever turns it: a thread of its own, or the caller.
//!
//! Calls send [`Command`]s to the engine and wait, with a deadline, for the [`State`] to be as they want it. With a
//! thread the waiting is on a condition; without one the caller turns the engine meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Ending, Event as Input, Node, Notice};
use mio::Waker;

use super::Progress;
use super::event::Event;
use super::report::LaunchReport;
use super::session::{LinkTally, Number, Stage, Status};
use crate::engine::driver::Driver;
use crate::engine::sys::duplicate;
use crate::engine::{Engine, Id, Owner};

/// How long sessions have to end when their front end does, before they are ended by force.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a call wants of the engine.
pub(super) enum Command {
    Add(Number, Box<Driver>),
    Tell(Number, Input),
    /// Nobody has a handle for it any more: forget it when it is over.
    Retire(Number),
    Stop,
}

/// What the engine has found out, and calls want to know.
#[derive(Default)]
pub(super) struct State {
    pub(super) sessions: BTreeMap<Number, Status>,
    pub(super) events: VecDeque<Event>,
    /// Whether the pipe is readable that says so.
    announced: bool,
}

/// What engine and calls share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    announce: PipeWriter,
    announced: Mutex<PipeReader>,
}

/// See the [module](self).
pub(super) struct Room {
    shared: Arc<Shared>,
    commands: Sender<Command>,
    waker: Arc<Waker>,
    /// Of a front end without a thread: the engine itself.
    manual: Option<Mutex<Works>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    descriptor: OwnedFd,
}

/// The engine, its commands, and who is told.
struct Works {
    engine: Engine,
    commands: Receiver<Command>,
    desk: Desk,
    retired: Vec<Number>,
    stopped: bool,
}

/// Takes down what nodes tell.
struct Desk {
    shared: Arc<Shared>,
    numbers: BTreeMap<Id, Number>,
    ids: BTreeMap<Number, Id>,
    /// Bytes of output that were taken, to be confirmed.
    consumed: Vec<(Number, u32)>,
}

impl Room {
    pub(super) fn new(progress: Progress) -> io::Result<Self> {
        let engine = Engine::new()?;
        let waker = engine.waker();
        let (commands, receiver) = channel();
        let (reader, announce) = io::pipe()?;
        let (state, changed, announced) = (Mutex::default(), Condvar::new(), Mutex::new(reader));
        let shared = Arc::new(Shared { state, changed, announce, announced });
        let desk = Desk {
            shared: Arc::clone(&shared),
            numbers: BTreeMap::new(),
            ids: BTreeMap::new(),
            consumed: Vec::new(),
        };
        let mut works = Works { engine, commands: receiver, desk, retired: Vec::new(), stopped: false };
        let (mut manual, mut thread) = (None, None);
        let descriptor = match progress {
            Progress::Manual => works.engine.poll().as_raw_fd(),
            Progress::Thread => shared.announced.lock().unwrap_or_else(PoisonError::into_inner).as_raw_fd(),
        };
        let descriptor = duplicate(descriptor)?;
        match progress {
            Progress::Manual => manual = Some(Mutex::new(works)),
            Progress::Thread => {
                let work = move || {
                    while !works.stopped && works.turn(None).is_ok() {}
                    works.close();
                };
                thread = Some(crate::thread::spawn("libi", work)?);
            }
        }
        Ok(Self { shared, commands, waker, manual, thread: Mutex::new(thread), descriptor })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Sends the engine a command; it is carried out soon, in the order of commands.
    pub(super) fn send(&self, command: Command) {
        // An engine that is gone has no sessions any more, as everybody can see from the state.
        let _ = self.commands.send(command);
        let _ = self.waker.wake();
    }

    /// Waits until the state is as it should be, for so long at most. The engine goes on meanwhile.
    pub(super) fn wait<T>(
        &self,
        patience: Duration,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let deadline = Clock::now().checked_add(patience);
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Clock::now()));
        if self.manual.is_some() {
            loop {
                if let Some(found) = ready(&mut self.state()) {
                    return Some(found);
                }
                let left = left();
                if left == Some(Duration::ZERO) || self.turn(left).is_err() {
                    return ready(&mut self.state());
                }
            }
        }
        let mut state = self.state();
        loop {
            if let Some(found) = ready(&mut state) {
                return Some(found);
            }
            let left = left().unwrap_or(Duration::from_secs(3_600));
            if left.is_zero() {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Without a thread: waits for so long at most until there is something to do, and does it.
    pub(super) fn turn(&self, most: Option<Duration>) -> io::Result<()> {
        match &self.manual {
            Some(works) => works.lock().unwrap_or_else(PoisonError::into_inner).turn(most),
            None => Ok(()),
        }
    }

    /// Without a thread: how long there is nothing to do unless the descriptor says so.
    pub(super) fn patience(&self) -> Option<Duration> {
        let works = self.manual.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        works.engine.patience()
    }

    /// What becomes readable when there are events, or without a thread when there is something to do.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Takes the next event, if there is one.
    pub(super) fn next_event(&self, state: &mut State) -> Option<Event> {
        let event = state.events.pop_front();
        if state.events.is_empty() && std::mem::take(&mut state.announced) {
            // One byte is in it.
            let mut pipe = self.shared.announced.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = pipe.read(&mut [0]);
        }
        if let Some(Event::Output { number, bytes, .. }) = &event {
            self.send(Command::Tell(*number, Input::Consumed(bytes.len() as u32)));
        }
        event
    }

    /// Ends the engine, and with it every process that was not released.
    pub(super) fn stop(&self) {
        self.send(Command::Stop);
        if let Some(works) = &self.manual {
            let mut works = works.lock().unwrap_or_else(PoisonError::into_inner);
            works.close();
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Works {
    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        self.obey();
        if self.stopped {
            return Ok(());
        }
        self.engine.turn(most, &mut self.desk)?;
        for (number, bytes) in std::mem::take(&mut self.desk.consumed) {
            self.tell(number, Input::Consumed(bytes));
        }
        self.obey();
        self.count();
        self.forget_the_retired();
        Ok(())
    }

    /// Notes how far launches are.
    fn count(&mut self) {
        let mut state = self.desk.shared.lock();
        for (number, status) in &mut state.sessions {
            let driver = self.desk.ids.get(number).and_then(|id| self.engine.driver(*id));
            let Some(node) = driver.map(Driver::node) else { continue };
            if status.stage == Stage::Launching {
                status.tally = node.tally();
            }
            let (direct, fell_back) = node.link_tally();
            status.links = LinkTally { direct, fell_back };
        }
    }

    fn forget_the_retired(&mut self) {
        let mut over = Vec::new();
        {
            let state = self.desk.shared.lock();
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

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Add(number, driver) => {
                    // What it tells at once has to find its number.
                    let id = self.engine.next_id();
                    self.desk.numbers.insert(id, number);
                    self.desk.ids.insert(number, id);
                    let now = self.engine.now();
                    if let Some(status) = self.desk.shared.lock().sessions.get_mut(&number) {
                        status.begin(now);
                    }
                    self.engine.add(*driver, &mut self.desk);
                }
                Command::Tell(number, input) => self.tell(number, input),
                Command::Retire(number) => self.retired.push(number),
                Command::Stop => self.stopped = true,
            }
        }
    }

    fn tell(&mut self, number: Number, input: Input) {
        if let Some(&id) = self.desk.ids.get(&number) {
            self.engine.tell(id, input, &mut self.desk);
        }
    }

    fn forget(&mut self, number: Number) {
        if let Some(id) = self.desk.ids.remove(&number) {
            self.engine.remove(id);
            self.desk.numbers.remove(&id);
        }
        self.desk.shared.lock().sessions.remove(&number);
    }

    fn is_anything_left(&self) -> bool {
        self.desk.shared.lock().sessions.values().any(|status| status.stage < Stage::Over)
    }

    fn close(&mut self) {
        self.stopped = true;
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
        self.desk.shared.changed.notify_all();
    }
}

impl Owner for Desk {
    fn finished(&mut self, _: Id, _: CallId, _: Result<Outcome, CommError>) {}

    fn lost(&mut self, _: Id, _: Ranks) {}

    fn notice(&mut self, id: Id, notice: Notice, node: &Node, now: Instant) {
        let Some(&number) = self.numbers.get(&id) else { return };
        let mut state = self.shared.lock();
        let State { sessions, events, .. } = &mut *state;
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
                status.stage = if up { Stage::Up } else { Stage::GivenUp };
                events.push_back(if up { Event::Up { session } } else { Event::GivenUp { session } });
            }
            Notice::InputTaken(bytes) => status.room += bytes as usize,
            Notice::Exited(rank, exit) => events.push_back(Event::Exited { session, rank, exit }),
            Notice::Released(rank) => events.push_back(Event::Released { session, rank }),
            Notice::Lost(host, failure) => {
                let name = status.host_name(host);
                events.push_back(Event::Lost { session, host, name, failure });
            }
            Notice::Done => {
                status.stage = status.stage.max(Stage::Done);
                events.push_back(Event::Done { session });
            }
            Notice::Over => status.stage = Stage::Over,
            Notice::Signal(_) | Notice::End(_) => {}
        }
        if !events.is_empty() && !std::mem::replace(&mut state.announced, true) {
            // There is room for one byte.
            let _ = (&self.shared.announce).write(&[0]);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}
