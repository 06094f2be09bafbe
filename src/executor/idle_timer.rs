//! Decides when the executor's thread looks whether the token is idle, and the timer on which it
//! sleeps while callers drive. Arming and disarming the timer wakes no thread.
//!
//! With a condition variable the thread would have to wake periodically, or at the end of each
//! call.

use std::io;
use std::time::{Duration, Instant as Clock};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// How long the token stays free before the thread takes it.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_millis(1);

/// The largest interval of the timer while callers come and go.
const MOST: Duration = IDLE_TIMEOUT.saturating_mul(8);

/// When the timer is armed, and for how long.
#[derive(Debug)]
pub(super) struct IdleSchedule {
    armed: bool,
    /// Doubles each time the thread rests while callers come and go.
    interval: Duration,
    /// When the token was released last.
    released_at: Clock,
    /// The timer has expired while a caller was driving. Callers that may block disarm it.
    fired_in_vain: bool,
    /// Since when the current driver keeps the timer disarmed.
    disarmed_at: Option<Clock>,
}

impl IdleSchedule {
    pub(super) fn new(now: Clock) -> Self {
        let (fired_in_vain, disarmed_at) = (false, None);
        Self { armed: false, interval: IDLE_TIMEOUT, released_at: now, fired_in_vain, disarmed_at }
    }

    /// The token was released. Returns for how long to arm the timer, unless it is armed: when it
    /// expires, the thread checks how long the token has been free. Arming it anew on each release
    /// would cost more.
    pub(super) fn release(&mut self, now: Clock) -> Option<Duration> {
        self.released_at = now;
        if let Some(since) = self.disarmed_at.take() {
            self.fired_in_vain = now.duration_since(since) >= IDLE_TIMEOUT;
        }
        (!self.armed).then(|| self.arm())
    }

    /// The timer is armed. Returns for how long.
    pub(super) fn arm(&mut self) -> Duration {
        self.armed = true;
        self.interval
    }

    /// A caller that drives may block. Returns whether to disarm the timer, which would wake the
    /// thread in vain.
    pub(super) fn disarm(&mut self, now: impl FnOnce() -> Clock) -> bool {
        let disarms = self.fired_in_vain && self.armed;
        if disarms {
            (self.armed, self.disarmed_at) = (false, Some(now()));
        }
        disarms
    }

    /// The timer has expired.
    pub(super) fn expire(&mut self, caller_drives: bool) {
        self.armed = false;
        self.fired_in_vain |= caller_drives;
    }

    /// The thread sleeps until the timer expires.
    pub(super) fn rest(&mut self) {
        self.interval = MOST.min(self.interval * 2);
    }

    /// Whether a free token has been free for [`IDLE_TIMEOUT`].
    pub(super) fn is_idle(&self, now: Clock) -> bool {
        now.duration_since(self.released_at) >= IDLE_TIMEOUT
    }

    /// The thread has taken the token.
    pub(super) fn reset(&mut self) {
        self.interval = IDLE_TIMEOUT;
    }

    #[cfg(test)]
    pub(super) fn is_disarmed(&self) -> bool {
        self.disarmed_at.is_some()
    }
}

/// A timer on which one thread sleeps, and which others set without waking it.
pub(crate) trait Timer: Sized + Send + Sync {
    fn new() -> io::Result<Self>;
    /// Expires after `time`, whatever was set before; at once if `time` is zero.
    fn arm(&self, time: Duration);
    /// Cancels the timer, unless it has expired.
    fn disarm(&self);
    /// Sleeps until the timer expires. May return earlier.
    fn wait(&self);
}

/// A timer of the system.
#[derive(Debug)]
pub(crate) struct IdleTimer(TimerFd);

impl Timer for IdleTimer {
    fn new() -> io::Result<Self> {
        Ok(Self(TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?))
    }

    fn arm(&self, time: Duration) {
        let time = Expiration::OneShot(TimeSpec::from_duration(time.max(Duration::from_nanos(1))));
        // Cannot fail: the clock exists and the time is valid.
        let _ = self.0.set(time, TimerSetTimeFlags::empty());
    }

    fn disarm(&self) {
        let _ = self.0.unset();
    }

    fn wait(&self) {
        // On any other return the caller checks the state again.
        let _ = self.0.wait();
    }
}
