//! How many launches a node may have in flight: as many as keep it busy, and no more.
//!
//! A launcher that has too few launches in flight waits for answers; one that has too many lets them queue
//! up at whatever is its bottleneck (its processor, a lock, a server that refuses), where they are neither
//! launched nor free to be given to others. What keeps it busy without a queue is what it starts during
//! one launch: REM / SEQ. Both are measured, so the window follows them, with half as much again so that a
//! launcher that got faster can notice. A refusal halves it, at most once in a launch time, because refusals
//! come in bursts; every answer after that opens it a little again.

use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::time::Instant;

/// The least and the most launches in flight.
const LEAST: f64 = 2.0;
const MOST: f64 = 256.0;
/// How much larger than REM / SEQ the window is.
const AHEAD: f64 = 1.5;

/// A limit on launches in flight that adapts.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// What refusals have brought it down to.
    ceiling: f64,
    /// When it was last brought down.
    refused: Option<Instant>,
}

impl Window {
    pub(super) fn new() -> Self {
        Self { ceiling: MOST, refused: None }
    }

    /// How many launches may be in flight at these costs.
    pub(super) fn limit(&self, cost: &Cost) -> usize {
        let busy = cost.rem.as_secs_f64() / cost.seq.as_secs_f64().max(1e-9);
        (busy * AHEAD).clamp(LEAST, MOST).min(self.ceiling).ceil() as usize
    }

    /// A launch was answered while this many were in flight.
    pub(super) fn answered(&mut self) {
        self.ceiling = (self.ceiling + 1.0 / self.ceiling).min(MOST);
    }

    /// A launch was refused while this many were in flight.
    pub(super) fn refused(&mut self, now: Instant, in_flight: usize, rem: Duration) {
        if self.refused.is_none_or(|at| now.since(at) > rem) {
            self.refused = Some(now);
            self.ceiling = (in_flight as f64 / 2.0).clamp(1.0, self.ceiling);
        }
    }
}
