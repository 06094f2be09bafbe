//! The machinery of a front end: its engine, and what nodes tell of sessions.
//!
//! Calls send [`FrontCommand`]s and wait, with a deadline, for the [`FrontState`] to be as they want it; who turns the engine meanwhile is
//! decided by [`Executor`].

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use libi_comm::Call;
use libi_launch::machine::Event as Input;

use super::Progress;
use super::event::Event;
use super::reactor::FrontReactor;
use super::session::{SessionNumber, SessionStatus};
use crate::engine::Engine;
use crate::engine::session_io::SessionIo;
use crate::engine::sys::duplicate;
use crate::executor::{CallRequest, Executor, ReadyFd, Shared};
use crate::talk::{Pending, Reading};

/// What a call wants of the engine.
pub(super) enum FrontCommand {
    Add(SessionNumber, Box<SessionIo>),
    Tell(SessionNumber, Input),
    Call(CallRequest),
    /// Nobody has a handle for it any more: forget it when it is over.
    Retire(SessionNumber),
}

impl From<CallRequest> for FrontCommand {
    fn from(request: CallRequest) -> Self {
        Self::Call(request)
    }
}

/// What the engine has found out, and calls want to know.
pub(super) struct FrontState {
    pub(super) sessions: BTreeMap<SessionNumber, SessionStatus>,
    pub(super) events: VecDeque<Event>,
    /// Rings while there are events.
    ready_fd: ReadyFd,
}

pub(super) type FrontShared = Arc<Shared<FrontState, FrontCommand>>;

/// See the [module](self).
pub(super) struct FrontRuntime {
    executor: Arc<Executor<FrontReactor>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    descriptor: OwnedFd,
}

impl FrontRuntime {
    pub(super) fn new(progress: Progress) -> io::Result<Self> {
        let engine = Engine::new()?;
        let waker = engine.waker();
        let ready_fd = ReadyFd::new()?;
        let has_events = ready_fd.as_fd().try_clone_to_owned()?;
        let has_work = duplicate(engine.poll().as_raw_fd())?;
        let (sessions, events) = (BTreeMap::new(), VecDeque::new());
        let state = FrontState { sessions, events, ready_fd };
        let shared = Arc::new(Shared::new(state, progress)?);
        let reactor = FrontReactor::new(engine, Arc::clone(&shared));
        let executor = Executor::new(shared, reactor, move || drop(waker.wake()), progress);
        let thread = match progress {
            Progress::Manual => None,
            Progress::Thread => {
                let executor = Arc::clone(&executor);
                Some(crate::thread::spawn("libi", move || executor.run_thread())?)
            }
        };
        // Where there is a thread, what there is to do is its business.
        let told = [has_events.as_fd(), has_work.as_fd()];
        let descriptor =
            executor.descriptor(if progress == Progress::Thread { &told[..1] } else { &told })?;
        Ok(Self { executor, thread: Mutex::new(thread), descriptor })
    }

    /// Looks at the state, or changes it.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut FrontState) -> T) -> T {
        what(&mut self.executor.shared().lock().state)
    }

    /// Sends the engine a command; it is carried out soon, in the order of commands.
    pub(super) fn send(&self, command: FrontCommand) {
        self.executor.send(command);
    }

    /// Starts a call in a session.
    pub(super) fn call<T>(
        &self,
        number: SessionNumber,
        what: &'static str,
        call: Call,
        read: Reading<T>,
    ) -> Pending<T> {
        let id = self.executor.start(number, call);
        Pending::called(Arc::clone(&self.executor) as _, id, what, read)
    }

    /// Waits until the state is as it should be, for so long at most. The engine goes on meanwhile.
    pub(super) fn wait<T>(
        &self,
        timeout: Duration,
        ready: impl FnMut(&mut FrontState) -> Option<T>,
    ) -> Option<T> {
        self.executor.wait_until(timeout, ready)
    }

    /// Without a thread: does what there is to do, and does not wait.
    pub(super) fn dispatch(&self) -> io::Result<()> {
        self.executor.dispatch()
    }

    /// Without a thread: how long there is nothing to do unless the descriptor says so.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.executor.next_timeout()
    }

    /// What is readable when there are events, or calls are over of which nobody has heard; without a thread also when there is
    /// something to do.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Takes the next event, if there is one within this time.
    pub(super) fn next_event(&self, timeout: Duration) -> Option<Event> {
        let event = self.wait(timeout, FrontState::next_event)?;
        if let Event::Output { number, bytes, .. } = &event {
            self.send(FrontCommand::Tell(*number, Input::Consumed(bytes.len() as u32)));
        }
        Some(event)
    }

    /// Ends the engine, and with it every process that was not released.
    pub(super) fn stop(&self) {
        self.executor.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl FrontState {
    fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        self.announce();
        event
    }

    /// Says whether there are events.
    pub(super) fn announce(&mut self) {
        self.ready_fd.set(!self.events.is_empty());
    }
}
