//! The state that the reactor shares with callers, under one lock, and what wakes threads.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ranks::Ranks;

use super::idle_timer::{IdleSchedule, Timer};
use super::pending_calls::PendingCalls;
use super::primitives::{Primitives, Std};
use super::run_state::{RunState, RunToken, WakeUp};
use super::{CallResult, GroupId, Progress};

/// See the [module](self).
pub(crate) struct Shared<S: Send, C: Send, P: Primitives = Std> {
    locked: P::Mutex<SharedState<S, C, P>>,
    /// Notified when the state changes.
    pub(super) changed: P::Condvar,
    /// Wakes the resting thread, if there is a thread.
    idle_timer: Option<P::Timer>,
}

/// The state protected by the lock.
pub(crate) struct SharedState<S, C, P: Primitives = Std> {
    /// What the reactor reports apart from calls.
    pub(crate) state: S,
    pub(super) run: RunState,
    pub(super) idle: IdleSchedule,
    pub(super) pending_calls: PendingCalls<P>,
    /// Commands to be executed, and how many have been sent.
    pub(super) commands: VecDeque<C>,
    pub(super) sent: u64,
    /// How many flushes have happened since events were polled.
    pub(super) unpolled: u32,
    /// How many threads wait for a change of the state.
    pub(super) watchers: usize,
}

impl<S: Send, C: Send, P: Primitives> Shared<S, C, P> {
    /// State for an executor with or without a thread.
    pub(crate) fn new(state: S, progress: Progress) -> io::Result<Self> {
        let threaded = progress == Progress::Thread;
        let locked = SharedState {
            state,
            run: RunState::new(threaded),
            idle: IdleSchedule::new(P::now()),
            pending_calls: PendingCalls::new(),
            commands: VecDeque::new(),
            sent: 0,
            unpolled: 0,
            watchers: 0,
        };
        let idle_timer = if threaded { Some(P::Timer::new()?) } else { None };
        Ok(Self { locked: P::mutex(locked), changed: P::condvar(), idle_timer })
    }

    pub(crate) fn lock(&self) -> P::Guard<'_, SharedState<S, C, P>> {
        P::lock(&self.locked)
    }

    /// Wakes the watchers after a change of the state.
    pub(crate) fn announce(&self, locked: P::Guard<'_, SharedState<S, C, P>>) {
        let watched = locked.watchers > 0;
        drop(locked);
        if watched {
            P::notify_all(&self.changed);
        }
    }

    /// Completes a call, unless it has completed.
    pub(crate) fn finish(&self, id: CallId, answer: Result<Outcome, CommError>) {
        self.lock().pending_calls.finish(id, answer);
    }

    /// A call that is about to complete does so without these members.
    pub(crate) fn missing(&self, id: CallId, ranks: Ranks) {
        self.lock().pending_calls.missing(id, ranks);
    }

    /// Adds a call that no thread waits for.
    pub(crate) fn open(&self, group: GroupId) -> CallId {
        self.lock().pending_calls.open(group)
    }

    /// Takes the result of a call, if it has completed.
    pub(crate) fn take(&self, id: CallId) -> Option<CallResult> {
        self.lock().pending_calls.take(id)
    }

    /// Discards a call and its result.
    pub(crate) fn forget(&self, id: CallId) {
        self.lock().pending_calls.forget(id);
    }

    /// Ends all calls of a group.
    pub(crate) fn end_calls_of(&self, group: GroupId) {
        self.lock().pending_calls.end(Some(group));
    }

    /// Wakes these threads, which are not in the poll of the driver.
    pub(super) fn wake(&self, locked: &mut SharedState<S, C, P>, wake_up: WakeUp) {
        match wake_up {
            WakeUp::None | WakeUp::Poll => {}
            WakeUp::Waiter => {
                if !locked.pending_calls.wake_one() && locked.watchers > 0 {
                    P::notify_all(&self.changed);
                }
            }
            WakeUp::Thread => {
                locked.idle.arm();
                self.arm_timer(Duration::ZERO);
            }
            WakeUp::All => {
                locked.pending_calls.wake_all();
                P::notify_all(&self.changed);
            }
        }
    }

    /// Releases the token.
    pub(super) fn release(&self, locked: &mut SharedState<S, C, P>) {
        let wake_up = locked.run.release();
        if self.idle_timer.is_some()
            && let Some(time) = locked.idle.release(P::now())
            && wake_up != WakeUp::Thread
        {
            self.arm_timer(time);
        }
        self.wake(locked, wake_up);
    }

    /// Wakes the thread after this time.
    pub(super) fn arm_timer(&self, time: Duration) {
        if let Some(idle_timer) = &self.idle_timer {
            idle_timer.arm(time);
        }
    }

    /// Keeps the timer from waking the thread while a caller drives that may block.
    pub(super) fn disarm_timer(&self, locked: &mut SharedState<S, C, P>) {
        if let Some(idle_timer) = self.idle_timer.as_ref().filter(|_| locked.idle.disarm(P::now)) {
            idle_timer.disarm();
        }
    }

    /// The thread sleeps until the timer expires. Returns with the lock.
    pub(super) fn rest(&self) -> P::Guard<'_, SharedState<S, C, P>> {
        if let Some(idle_timer) = &self.idle_timer {
            idle_timer.wait();
        }
        let mut locked = self.lock();
        let caller_drives = locked.run.token() == RunToken::Caller;
        locked.idle.expire(caller_drives);
        locked
    }

    /// Closes the executor and wakes all waiters.
    pub(super) fn end(&self) {
        let mut locked = self.lock();
        let commands = std::mem::take(&mut locked.commands);
        locked.pending_calls.end(None);
        let wake_up = locked.run.close();
        self.wake(&mut locked, wake_up);
        drop(locked);
        // Dropping a call runs functions of the program, which may lock this state.
        drop(commands);
    }
}

impl<S, C, P: Primitives> SharedState<S, C, P> {
    /// Whether a waiter exists.
    pub(super) fn has_waiters(&self) -> bool {
        self.watchers > 0 || self.pending_calls.has_waiters()
    }

    /// Takes the commands to be executed in the turn that begins.
    pub(super) fn begin_turn(&mut self) -> VecDeque<C> {
        self.run.begin_turn();
        std::mem::take(&mut self.commands)
    }

    /// Uses the memory of executed commands for the next ones, unless they were many.
    pub(super) fn reuse(&mut self, executed: VecDeque<C>) {
        const MANY: usize = 64;
        if self.commands.capacity() == 0 && executed.is_empty() && executed.capacity() <= MANY {
            self.commands = executed;
        }
    }
}
