//! The runtime of a front end, as calls use it.
//!
//! Calls send [`FrontCommand`]s to the reactor and wait, with a deadline, for a condition on the
//! [`FrontState`].

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use libi_comm::Call;
use libi_launch::machine::Event as Input;
use libi_launch::options::OnLoss;

use super::event::Event;
use super::keeper::client::{AttachAnswer, Attachment};
use super::reactor::FrontReactor;
use super::session::{SessionNumber, SessionStatus};
use crate::engine::Engine;
use crate::engine::session_io::SessionIo;
use crate::engine::sys::duplicate;
use crate::executor::{CallRequest, Executor, Progress, ReadyFd, Shared};
use crate::talk::{Pending, ReadingWithMissing};

/// A command for the reactor.
pub(super) enum FrontCommand {
    Add(SessionNumber, Box<SessionIo>),
    Tell(SessionNumber, Input),
    /// Attach to a session that a keeper keeps.
    Attach(SessionNumber, Box<Attachment>),
    /// The user has taken an event of a session that a keeper keeps.
    Took(SessionNumber),
    /// What follows a loss there from now on.
    OnLoss(SessionNumber, OnLoss),
    Call(CallRequest),
    /// The session's handle was dropped: forget the session when it is over.
    Retire(SessionNumber),
}

impl From<CallRequest> for FrontCommand {
    fn from(request: CallRequest) -> Self {
        Self::Call(request)
    }
}

/// What the reactor reports to calls.
pub(super) struct FrontState {
    pub(super) sessions: BTreeMap<SessionNumber, SessionStatus>,
    pub(super) events: VecDeque<(SessionNumber, Event)>,
    /// The answers to requests to attach, which callers wait for.
    pub(super) attaching: BTreeMap<SessionNumber, AttachAnswer>,
    /// Readable while there are events.
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
        let state = FrontState::new(ready_fd);
        let shared = Arc::new(Shared::new(state, progress)?);
        let reactor = FrontReactor::new(engine, Arc::clone(&shared));
        let executor = Executor::new(shared, reactor, move || drop(waker.wake()), progress);
        // With a thread, pending work concerns only that thread.
        let told = [has_events.as_fd(), has_work.as_fd()];
        let descriptor =
            executor.descriptor(if progress == Progress::Thread { &told[..1] } else { &told })?;
        // Last, because nothing would stop the thread after a later failure.
        let thread = match progress {
            Progress::Manual => None,
            Progress::Thread => {
                let executor = Arc::clone(&executor);
                Some(crate::thread::spawn("libi", move || executor.run_thread())?)
            }
        };
        Ok(Self { executor, thread: Mutex::new(thread), descriptor })
    }

    /// Reads or changes the state.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut FrontState) -> T) -> T {
        what(&mut self.executor.shared().lock().state)
    }

    /// Sends a command to the reactor, which executes commands in order.
    pub(super) fn send(&self, command: FrontCommand) {
        self.executor.send(command);
    }

    /// Starts a call in a session.
    pub(super) fn call<T>(
        &self,
        number: SessionNumber,
        what: &'static str,
        call: Call,
        read: ReadingWithMissing<T>,
    ) -> Pending<T> {
        let id = self.executor.start(number, call);
        Pending::called(Arc::clone(&self.executor) as _, id, what, read)
    }

    /// Waits until `ready` returns something, for at most `timeout`. The reactor makes progress
    /// meanwhile.
    pub(super) fn wait<T>(
        &self,
        timeout: Duration,
        ready: impl FnMut(&mut FrontState) -> Option<T>,
    ) -> Option<T> {
        self.executor.wait_until(timeout, ready)
    }

    /// With `Progress::Manual`: does the pending work, and does not wait.
    pub(super) fn dispatch(&self) -> io::Result<()> {
        self.executor.dispatch()
    }

    /// With `Progress::Manual`: how long the caller may wait for the descriptor.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.executor.next_timeout()
    }

    /// Readable while there are events or completed calls that were not polled; without a thread
    /// also while there is pending work.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Takes the next event, if there is one within `timeout`.
    pub(super) fn next_event(&self, timeout: Duration) -> Option<Event> {
        let (number, event, is_kept) = self.wait(timeout, FrontState::next_event)?;
        if is_kept {
            self.send(FrontCommand::Took(number));
        } else if let Event::Output { bytes, .. }
        | Event::Folded { bytes, .. }
        | Event::CommandOutput { bytes, .. } = &event
        {
            self.send(FrontCommand::Tell(number, Input::Consumed(bytes.len() as u32)));
        }
        Some(event)
    }

    /// Stops the reactor; every process that has not detached is ended.
    pub(super) fn stop(&self) {
        self.executor.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl FrontState {
    pub(super) fn new(ready_fd: ReadyFd) -> Self {
        let (sessions, events, attaching) = Default::default();
        Self { sessions, events, attaching, ready_fd }
    }

    /// Takes the next event, and tells whether a keeper keeps its session.
    fn next_event(&mut self) -> Option<(SessionNumber, Event, bool)> {
        let event = self.events.pop_front();
        self.announce();
        let (number, event) = event?;
        let status = self.sessions.get_mut(&number);
        if let (Some(&mut SessionStatus { ref mut known_master, .. }), Event::MasterReplaced { rank, .. }) =
            (status, &event)
        {
            *known_master = *rank;
        }
        let is_kept = self.sessions.get(&number).is_some_and(|status| status.is_kept);
        Some((number, event, is_kept))
    }

    /// Updates the readiness of the descriptor.
    pub(super) fn announce(&mut self) {
        self.ready_fd.set(!self.events.is_empty());
    }
}
