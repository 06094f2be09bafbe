//! What machinery has told, who is at the wheel, and who waits: all that is under one lock.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant as Clock;

use libi_comm::CallId;

use super::calls::Calls;
use super::{Answer, Party};

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
    /// For the thread while it rests.
    pub(super) thread: Condvar,
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
    /// Nobody is to turn the machinery any more.
    pub(super) stopped: bool,
    /// The thread is to take the wheel as soon as it is free.
    pub(super) summoned: bool,
    /// The thread wants to be told when the wheel is free.
    pub(super) calls_thread: bool,
    /// How often the wheel was taken or left, and when it was left last.
    pub(super) moves: u64,
    pub(super) left: Clock,
    /// How many sleep until the board changes.
    pub(super) watchers: usize,
}

impl<S, C> Board<S, C> {
    pub(crate) fn new(state: S) -> Self {
        let inner = Inner {
            state,
            calls: Calls::default(),
            commands: VecDeque::new(),
            sent: 0,
            for_thread: false,
            wheel: Wheel::Free,
            woken: false,
            anybodys: false,
            stopped: false,
            summoned: true,
            calls_thread: false,
            moves: 0,
            left: Clock::now(),
            watchers: 0,
        };
        Self { inner: Mutex::new(inner), changed: Condvar::new(), thread: Condvar::new() }
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
        self.thread.notify_one();
    }

    /// Whoever has driven leaves.
    pub(super) fn free(&self, inner: &mut Inner<S, C>, threaded: bool) {
        inner.wheel = Wheel::Free;
        inner.moves += 1;
        if threaded {
            inner.left = Clock::now();
            if inner.stopped || !inner.may_be_lent() {
                self.summon(inner);
            } else if inner.calls_thread {
                self.thread.notify_one();
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
        inner.commands.clear();
        inner.calls.end(None);
        inner.calls.wake_all();
        drop(inner);
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
