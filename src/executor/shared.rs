//! What machinery has told, who is at the wheel, and who waits: all that is under one lock.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use libi_comm::CallId;

use super::idle_timer::IdleTimer;
use super::pending_calls::PendingCalls;
use super::thread::IDLE_TIMEOUT;
use super::{CallResult, GroupId};
use crate::front::Progress;

/// Who turns the machinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunToken {
    Free,
    Thread,
    Caller,
    /// Nobody does any more.
    Closed,
}

/// See the [module](self).
pub(crate) struct Shared<S, C> {
    locked: Mutex<SharedState<S, C>>,
    /// For those who watch the state.
    pub(super) changed: Condvar,
    /// For the thread while it rests, if there is one.
    idle_timer: Option<IdleTimer>,
}

/// What is on it.
pub(crate) struct SharedState<S, C> {
    /// What the machinery has told, apart from calls.
    pub(crate) state: S,
    pub(super) pending_calls: PendingCalls,
    /// What is to be carried out, and how many commands there have been.
    pub(super) commands: VecDeque<C>,
    pub(super) sent: u64,
    /// Whether one of them is for the thread.
    pub(super) has_thread_command: bool,
    pub(super) run_token: RunToken,
    /// Whether whoever drives was woken since he has taken the commands.
    pub(super) woken: bool,
    /// Whether callers may drive.
    pub(super) callers_may_drive: bool,
    /// How often something was said since somebody has looked what has happened.
    pub(super) unpolled: u32,
    /// Nobody is to turn the machinery any more.
    pub(super) stopped: bool,
    /// The thread is to take the wheel as soon as it is free.
    pub(super) thread_requested: bool,
    /// The alarm is set.
    pub(super) timer_armed: bool,
    /// It has rung while somebody drove, as those do now who wait for long.
    pub(super) timer_fired_in_vain: bool,
    /// Since when whoever drives keeps it from ringing.
    pub(super) disarmed_at: Option<Clock>,
    /// For how long the alarm is set: the longer, the more often it rang while callers came and went.
    pub(super) timer_interval: Duration,
    /// When the wheel was left last.
    pub(super) released_at: Clock,
    /// How many sleep until the board changes.
    pub(super) watchers: usize,
}

impl<S, C> Shared<S, C> {
    /// One for works with or without a thread.
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

    /// Tells those who watch that the state is another.
    pub(crate) fn announce(&self, locked: MutexGuard<'_, SharedState<S, C>>) {
        let watched = locked.watchers > 0;
        drop(locked);
        if watched {
            self.changed.notify_all();
        }
    }

    /// A call is over, unless it was before.
    pub(crate) fn finish(&self, id: CallId, answer: CallResult) {
        self.lock().pending_calls.finish(id, answer);
    }

    /// Whatever a party has called is over.
    pub(crate) fn end_calls_of(&self, group: GroupId) {
        self.lock().pending_calls.end(Some(group));
    }

    /// Has the thread take the wheel as soon as it is free.
    pub(super) fn request_thread(&self, locked: &mut SharedState<S, C>) {
        locked.thread_requested = true;
        self.arm_timer(locked, Duration::ZERO);
    }

    /// The thread will be woken after this time.
    pub(super) fn arm_timer(&self, locked: &mut SharedState<S, C>, time: Duration) {
        if let Some(idle_timer) = &self.idle_timer {
            locked.timer_armed = true;
            idle_timer.arm(time);
        }
    }

    /// Somebody drives, and may have to wait: the thread is not woken meanwhile.
    pub(super) fn disarm_timer(&self, locked: &mut SharedState<S, C>) {
        if locked.timer_fired_in_vain
            && !locked.thread_requested
            && let Some(idle_timer) = self.idle_timer.as_ref().filter(|_| locked.timer_armed)
        {
            (locked.timer_armed, locked.disarmed_at) = (false, Some(Clock::now()));
            idle_timer.disarm();
        }
    }

    /// The thread sleeps until the alarm rings.
    pub(super) fn wait_for_timer(&self) {
        if let Some(idle_timer) = &self.idle_timer {
            idle_timer.wait();
        }
    }

    /// Whoever has driven leaves.
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
                // It looks for itself how long the wheel has been free; to set the clock each time costs more.
                self.arm_timer(locked, locked.timer_interval);
            }
        } else if locked.stopped && locked.watchers > 0 {
            self.changed.notify_all();
        }
        self.wake_waiter(locked);
    }

    /// Wakes somebody who could take the wheel, if it is to be had.
    pub(super) fn wake_waiter(&self, locked: &mut SharedState<S, C>) {
        if locked.caller_may_acquire() && !locked.pending_calls.wake_one() && locked.watchers > 0 {
            self.changed.notify_all();
        }
    }

    /// Nobody turns the machinery any more.
    pub(super) fn end(&self) {
        let mut locked = self.lock();
        (locked.run_token, locked.stopped) = (RunToken::Closed, true);
        let commands = std::mem::take(&mut locked.commands);
        locked.pending_calls.end(None);
        locked.pending_calls.wake_all();
        drop(locked);
        // With calls go functions of the program's own, and what is done when they go may come back to the board.
        drop(commands);
        self.changed.notify_all();
    }
}

impl<S, C> SharedState<S, C> {
    /// Whether a caller may go on with the machinery, if he has it.
    pub(super) fn caller_may_continue(&self) -> bool {
        self.callers_may_drive && !self.has_thread_command && !self.stopped
    }

    /// Whether a caller may take the wheel.
    pub(super) fn caller_may_acquire(&self) -> bool {
        // Where there is no thread nobody heeds that it is summoned.
        self.run_token == RunToken::Free && self.caller_may_continue() && !self.thread_requested
    }

    /// Whether somebody sleeps who could drive.
    pub(super) fn has_waiters(&self) -> bool {
        self.watchers > 0 || self.pending_calls.has_waiters()
    }

    /// What is to be carried out before the next turn.
    pub(super) fn take_commands(&mut self) -> VecDeque<C> {
        self.woken = false;
        std::mem::take(&mut self.commands)
    }
}
