//! The state that the reactor shares with callers, the run token, and the waiters, under one lock.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use libi_comm::CallId;

use super::idle_timer::IdleTimer;
use super::pending_calls::PendingCalls;
use super::thread::IDLE_TIMEOUT;
use super::{CallResult, GroupId, Progress};

/// Which thread may use the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunToken {
    Free,
    Thread,
    Caller,
    /// The reactor has been closed.
    Closed,
}

/// See the [module](self).
pub(crate) struct Shared<S, C> {
    locked: Mutex<SharedState<S, C>>,
    /// Notified when the state changes.
    pub(super) changed: Condvar,
    /// Wakes the resting thread, if there is a thread.
    idle_timer: Option<IdleTimer>,
}

/// The state protected by the lock.
pub(crate) struct SharedState<S, C> {
    /// What the reactor reports apart from calls.
    pub(crate) state: S,
    pub(super) pending_calls: PendingCalls,
    /// Commands to be executed, and how many have been sent.
    pub(super) commands: VecDeque<C>,
    pub(super) sent: u64,
    /// Whether a command requires the thread.
    pub(super) has_thread_command: bool,
    pub(super) run_token: RunToken,
    /// Whether the driver has been woken since it took the commands.
    pub(super) woken: bool,
    /// Whether the reactor lets callers drive.
    pub(super) callers_may_drive: bool,
    /// How many flushes have happened since events were polled.
    pub(super) unpolled: u32,
    /// The reactor must not be turned any more.
    pub(super) stopped: bool,
    /// The thread is to take the token as soon as it is free.
    pub(super) thread_requested: bool,
    /// The timer is armed.
    pub(super) timer_armed: bool,
    /// The timer has expired while a caller was driving; callers that block for long disarm it.
    pub(super) timer_fired_in_vain: bool,
    /// Since when the current driver keeps the timer disarmed.
    pub(super) disarmed_at: Option<Clock>,
    /// The interval of the timer. It doubles each time the timer expires while callers come and go.
    pub(super) timer_interval: Duration,
    /// When the token was released last.
    pub(super) released_at: Clock,
    /// How many threads wait for a change of the state.
    pub(super) watchers: usize,
}

impl<S, C> Shared<S, C> {
    /// State for an executor with or without a thread.
    pub(crate) fn new(state: S, progress: Progress) -> io::Result<Self> {
        let idle_timer = match progress {
            Progress::Thread => Some(IdleTimer::new()?),
            Progress::Manual => None,
        };
        let locked = SharedState {
            state,
            pending_calls: PendingCalls::default(),
            commands: VecDeque::new(),
            sent: 0,
            has_thread_command: false,
            run_token: RunToken::Free,
            woken: false,
            callers_may_drive: false,
            unpolled: 0,
            stopped: false,
            thread_requested: true,
            timer_armed: false,
            timer_fired_in_vain: false,
            disarmed_at: None,
            timer_interval: IDLE_TIMEOUT,
            released_at: Clock::now(),
            watchers: 0,
        };
        Ok(Self { locked: Mutex::new(locked), changed: Condvar::new(), idle_timer })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SharedState<S, C>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the watchers after a change of the state.
    pub(crate) fn announce(&self, locked: MutexGuard<'_, SharedState<S, C>>) {
        let watched = locked.watchers > 0;
        drop(locked);
        if watched {
            self.changed.notify_all();
        }
    }

    /// Completes a call, unless it has completed.
    pub(crate) fn finish(&self, id: CallId, answer: CallResult) {
        self.lock().pending_calls.finish(id, answer);
    }

    /// Ends all calls of a group.
    pub(crate) fn end_calls_of(&self, group: GroupId) {
        self.lock().pending_calls.end(Some(group));
    }

    /// Has the thread take the token as soon as it is free.
    pub(super) fn request_thread(&self, locked: &mut SharedState<S, C>) {
        locked.thread_requested = true;
        self.arm_timer(locked, Duration::ZERO);
    }

    /// Wakes the thread after this time.
    pub(super) fn arm_timer(&self, locked: &mut SharedState<S, C>, time: Duration) {
        if let Some(idle_timer) = &self.idle_timer {
            locked.timer_armed = true;
            idle_timer.arm(time);
        }
    }

    /// Keeps the timer from waking the thread while a caller drives that may block.
    pub(super) fn disarm_timer(&self, locked: &mut SharedState<S, C>) {
        if locked.timer_fired_in_vain
            && !locked.thread_requested
            && let Some(idle_timer) = self.idle_timer.as_ref().filter(|_| locked.timer_armed)
        {
            (locked.timer_armed, locked.disarmed_at) = (false, Some(Clock::now()));
            idle_timer.disarm();
        }
    }

    /// The thread sleeps until the timer expires.
    pub(super) fn wait_for_timer(&self) {
        if let Some(idle_timer) = &self.idle_timer {
            idle_timer.wait();
        }
    }

    /// Releases the token.
    pub(super) fn release(&self, locked: &mut SharedState<S, C>) {
        locked.run_token = RunToken::Free;
        if self.idle_timer.is_some() {
            locked.released_at = Clock::now();
            if let Some(since) = locked.disarmed_at.take() {
                locked.timer_fired_in_vain = locked.released_at.duration_since(since) >= IDLE_TIMEOUT;
            }
            if locked.stopped || locked.thread_requested || !locked.caller_may_continue() {
                self.request_thread(locked);
            } else if !locked.timer_armed {
                // When the timer expires the thread checks how long the token has been free; arming
                // it anew on each release would cost more.
                self.arm_timer(locked, locked.timer_interval);
            }
        } else if locked.stopped && locked.watchers > 0 {
            self.changed.notify_all();
        }
        self.wake_waiter(locked);
    }

    /// Wakes a waiter that may take the token, if it is free.
    pub(super) fn wake_waiter(&self, locked: &mut SharedState<S, C>) {
        if locked.caller_may_acquire() && !locked.pending_calls.wake_one() && locked.watchers > 0 {
            self.changed.notify_all();
        }
    }

    /// Closes the executor and wakes all waiters.
    pub(super) fn end(&self) {
        let mut locked = self.lock();
        (locked.run_token, locked.stopped) = (RunToken::Closed, true);
        let commands = std::mem::take(&mut locked.commands);
        locked.pending_calls.end(None);
        locked.pending_calls.wake_all();
        drop(locked);
        // Dropping a call runs functions of the program, which may lock this state.
        drop(commands);
        self.changed.notify_all();
    }
}

impl<S, C> SharedState<S, C> {
    /// Whether a caller that holds the token may continue.
    pub(super) fn caller_may_continue(&self) -> bool {
        self.callers_may_drive && !self.has_thread_command && !self.stopped
    }

    /// Whether a caller may acquire the token.
    pub(super) fn caller_may_acquire(&self) -> bool {
        // `thread_requested` is never set without a thread.
        self.run_token == RunToken::Free && self.caller_may_continue() && !self.thread_requested
    }

    /// Whether a waiter exists that could drive.
    pub(super) fn has_waiters(&self) -> bool {
        self.watchers > 0 || self.pending_calls.has_waiters()
    }

    /// Takes the commands to be executed before the next turn.
    pub(super) fn take_commands(&mut self) -> VecDeque<C> {
        self.woken = false;
        std::mem::take(&mut self.commands)
    }
}
