//! What machinery has told, who is at the wheel, and who waits: all that is under one lock.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use libi_comm::CallId;

use super::alarm::Alarm;
use super::calls::Calls;
use super::thread::LINGER;
use super::{Answer, Party};
use crate::front::Progress;

/// Who turns the machinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wheel {
    Free,
    Thread,
    Caller,
    /// Nobody does any more.
    Gone,
}

/// See the [module](self).
pub(crate) struct Board<S, C> {
    inner: Mutex<Inner<S, C>>,
    /// For those who watch the state.
    pub(super) changed: Condvar,
    /// For the thread while it rests, if there is one.
    alarm: Option<Alarm>,
}

/// What is on it.
pub(crate) struct Inner<S, C> {
    /// What the machinery has told, apart from calls.
    pub(crate) state: S,
    pub(super) calls: Calls,
    /// What is to be carried out, and how many commands there have been.
    pub(super) commands: VecDeque<C>,
    pub(super) sent: u64,
    /// Whether one of them is for the thread.
    pub(super) for_thread: bool,
    pub(super) wheel: Wheel,
    /// Whether whoever drives was woken since he has taken the commands.
    pub(super) woken: bool,
    /// Whether callers may drive.
    pub(super) anybodys: bool,
    /// How often something was said since somebody has looked what has happened.
    pub(super) unseen: u32,
    /// Nobody is to turn the machinery any more.
    pub(super) stopped: bool,
    /// The thread is to take the wheel as soon as it is free.
    pub(super) summoned: bool,
    /// The alarm is set.
    pub(super) alarmed: bool,
    /// It has rung while somebody drove, as those do now who wait for long.
    pub(super) in_vain: bool,
    /// Since when whoever drives keeps it from ringing.
    pub(super) hushed: Option<Clock>,
    /// For how long the alarm is set: the longer, the more often it rang while callers came and went.
    pub(super) pause: Duration,
    /// When the wheel was left last.
    pub(super) left: Clock,
    /// How many sleep until the board changes.
    pub(super) watchers: usize,
}

impl<S, C> Board<S, C> {
    /// One for works with or without a thread.
    pub(crate) fn new(state: S, progress: Progress) -> io::Result<Self> {
        let alarm = match progress {
            Progress::Thread => Some(Alarm::new()?),
            Progress::Manual => None,
        };
        let inner = Inner {
            state,
            calls: Calls::default(),
            commands: VecDeque::new(),
            sent: 0,
            for_thread: false,
            wheel: Wheel::Free,
            woken: false,
            anybodys: false,
            unseen: 0,
            stopped: false,
            summoned: true,
            alarmed: false,
            in_vain: false,
            hushed: None,
            pause: LINGER,
            left: Clock::now(),
            watchers: 0,
        };
        Ok(Self { inner: Mutex::new(inner), changed: Condvar::new(), alarm })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner<S, C>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who watch that the state is another.
    pub(crate) fn announce(&self, inner: MutexGuard<'_, Inner<S, C>>) {
        let watched = inner.watchers > 0;
        drop(inner);
        if watched {
            self.changed.notify_all();
        }
    }

    /// A call is over, unless it was before.
    pub(crate) fn finish(&self, id: CallId, answer: Answer) {
        self.lock().calls.finish(id, answer);
    }

    /// Whatever a party has called is over.
    pub(crate) fn end_calls_of(&self, party: Party) {
        self.lock().calls.end(Some(party));
    }

    /// Has the thread take the wheel as soon as it is free.
    pub(super) fn summon(&self, inner: &mut Inner<S, C>) {
        inner.summoned = true;
        self.set_alarm(inner, Duration::ZERO);
    }

    /// The thread will be woken after this time.
    pub(super) fn set_alarm(&self, inner: &mut Inner<S, C>, time: Duration) {
        if let Some(alarm) = &self.alarm {
            inner.alarmed = true;
            alarm.ring_in(time);
        }
    }

    /// Somebody drives, and may have to wait: the thread is not woken meanwhile.
    pub(super) fn hush_alarm(&self, inner: &mut Inner<S, C>) {
        if inner.in_vain
            && !inner.summoned
            && let Some(alarm) = self.alarm.as_ref().filter(|_| inner.alarmed)
        {
            (inner.alarmed, inner.hushed) = (false, Some(Clock::now()));
            alarm.hush();
        }
    }

    /// The thread sleeps until the alarm rings.
    pub(super) fn sleep_until_called(&self) {
        if let Some(alarm) = &self.alarm {
            alarm.wait();
        }
    }

    /// Whoever has driven leaves.
    pub(super) fn free(&self, inner: &mut Inner<S, C>) {
        inner.wheel = Wheel::Free;
        if self.alarm.is_some() {
            inner.left = Clock::now();
            if let Some(since) = inner.hushed.take() {
                inner.in_vain = inner.left.duration_since(since) >= LINGER;
            }
            if inner.stopped || inner.summoned || !inner.may_be_lent() {
                self.summon(inner);
            } else if !inner.alarmed {
                // It looks for itself how long the wheel has been free; to set the clock each time costs more.
                self.set_alarm(inner, inner.pause);
            }
        } else if inner.stopped && inner.watchers > 0 {
            self.changed.notify_all();
        }
        self.hand_on(inner);
    }

    /// Wakes somebody who could take the wheel, if it is to be had.
    pub(super) fn hand_on(&self, inner: &mut Inner<S, C>) {
        if inner.may_be_taken() && !inner.calls.wake_one() && inner.watchers > 0 {
            self.changed.notify_all();
        }
    }

    /// Nobody turns the machinery any more.
    pub(super) fn end(&self) {
        let mut inner = self.lock();
        (inner.wheel, inner.stopped) = (Wheel::Gone, true);
        let commands = std::mem::take(&mut inner.commands);
        inner.calls.end(None);
        inner.calls.wake_all();
        drop(inner);
        // With calls go functions of the program's own, and what is done when they go may come back to the board.
        drop(commands);
        self.changed.notify_all();
    }
}

impl<S, C> Inner<S, C> {
    /// Whether a caller may go on with the machinery, if he has it.
    pub(super) fn may_be_lent(&self) -> bool {
        self.anybodys && !self.for_thread && !self.stopped
    }

    /// Whether a caller may take the wheel.
    pub(super) fn may_be_taken(&self) -> bool {
        // Where there is no thread nobody heeds that it is summoned.
        self.wheel == Wheel::Free && self.may_be_lent() && !self.summoned
    }

    /// Whether somebody sleeps who could drive.
    pub(super) fn has_sleepers(&self) -> bool {
        self.watchers > 0 || self.calls.has_sleepers()
    }

    /// What is to be carried out before the next turn.
    pub(super) fn take_commands(&mut self) -> VecDeque<C> {
        self.woken = false;
        std::mem::take(&mut self.commands)
    }
}
