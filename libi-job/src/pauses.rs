//! Waiting for something that can only be looked at: often at first, and then less and less.

use std::time::{Duration, Instant};

/// How long to wait before it is looked at again: at first, and at most.
const FIRST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(100);

/// Pauses until a timeout is over.
#[derive(Debug)]
pub(crate) struct Pauses {
    began: Instant,
    timeout: Duration,
    next: Duration,
}

impl Pauses {
    pub(crate) fn until(timeout: Duration) -> Self {
        Self { began: Instant::now(), timeout, next: FIRST }
    }

    /// For how long it has been waited.
    pub(crate) fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// How much of the timeout is left.
    pub(crate) fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.waited())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Waits for a while, but not beyond the timeout.
    pub(crate) fn pause(&mut self) {
        std::thread::sleep(self.next.min(self.left()));
        self.next = (self.next * 2).min(LONGEST);
    }
}
