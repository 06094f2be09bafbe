//! The timer on which the executor's thread sleeps while callers drive. Arming and disarming it
//! wakes no thread.
//!
//! With a condition variable the thread would have to wake periodically, or at the end of each
//! call.

use std::io;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct IdleTimer {
    timer: TimerFd,
}

impl IdleTimer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)? })
    }

    /// Expires after `time`, whatever was set before; at once if `time` is zero.
    pub(super) fn arm(&self, time: Duration) {
        let time = Expiration::OneShot(TimeSpec::from_duration(time.max(Duration::from_nanos(1))));
        // Cannot fail: the clock exists and the time is valid.
        let _ = self.timer.set(time, TimerSetTimeFlags::empty());
    }

    /// Cancels the timer, unless it has expired.
    pub(super) fn disarm(&self) {
        let _ = self.timer.unset();
    }

    /// Sleeps until the timer expires.
    pub(super) fn wait(&self) {
        // On any other return the caller checks the state again.
        let _ = self.timer.wait();
    }
}
