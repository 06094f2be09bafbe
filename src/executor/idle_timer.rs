//! What the thread sleeps by while callers drive: a clock that can be set without waking anybody.
//!
//! A condition variable would have the thread look up again and again, or be woken at the end of each call.

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

    /// Rings after this time, whatever it was to do before; at once if that is nothing.
    pub(super) fn arm(&self, time: Duration) {
        let time = Expiration::OneShot(TimeSpec::from_duration(time.max(Duration::from_nanos(1))));
        // There is such a clock and such a time.
        let _ = self.timer.set(time, TimerSetTimeFlags::empty());
    }

    /// Does not ring, unless it has.
    pub(super) fn disarm(&self) {
        let _ = self.timer.unset();
    }

    /// Sleeps until it rings.
    pub(super) fn wait(&self) {
        // Whoever is woken otherwise looks for himself why.
        let _ = self.timer.wait();
    }
}
