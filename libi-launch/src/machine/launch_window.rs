//! How many launches a node may have in flight, and how soon after each other: as many as keep it busy, and no more.
//!
//! A launcher that has too few launches in flight waits for answers; one that has too many lets them queue
//! up at whatever is its bottleneck (its processor, a lock, a server that refuses), where they are neither
//! launched nor free to be given to others. What keeps it busy without a queue is what it starts during
//! one launch: REM / SEQ. Both are measured, so the window follows them, with somewhat more so that a
//! launcher that got faster can notice. A refusal halves it, at most once in a launch time, because refusals
//! come in bursts; every answer after that opens it a little again.
//!
//! The window is not filled at once: where launches share a processor, the first answer would have to wait for all of
//! them, and whoever could help for the first answer. Starts that return at once are made at some multiple of the
//! pace that SEQ allows, a few at a time. That is fast enough for a queue to build up until the window is full,
//! without which nobody could learn how long SEQ is.

use std::time::Duration;

use libi_core::plan::estimate::Estimate;
use libi_core::time::Instant;

/// The least and the most launches in flight.
const MIN_IN_FLIGHT: f64 = 4.0;
const MAX_IN_FLIGHT: f64 = 256.0;
/// As long as SEQ is a word, no more are in flight than keep the launcher busy if SEQ is in truth so many times as long,
const UNMEASURED_SEQ_ERROR: f64 = 3.0;
/// or than this many, if that is more. Those that are up by then launch others, so it costs little if the word is right.
const UNMEASURED_LIMIT: f64 = 48.0;
/// How much larger than REM / SEQ the window is.
const HEADROOM: f64 = 1.25;
/// How much faster than SEQ allows launches are started.
const START_PACE: f64 = 1.5;
/// How many launches are started at once, or within a time for which it is not worth to wake up.
const BURST: u32 = 3;
const MIN_WAIT: Duration = Duration::from_millis(1);

/// A limit on launches in flight that adapts.
#[derive(Clone, Debug)]
pub(super) struct LaunchWindow {
    /// What refusals have brought it down to.
    ceiling: f64,
    /// When it was last brought down.
    refused: Option<Instant>,
    /// By when what was started should have been started at the pace.
    paced: Instant,
}

impl LaunchWindow {
    pub(super) fn new() -> Self {
        Self { ceiling: MAX_IN_FLIGHT, refused: None, paced: Instant::ZERO }
    }

    /// How many launches may be in flight at these costs.
    pub(super) fn limit(&self, estimate: &Estimate) -> usize {
        let cost = estimate.cost();
        let busy = cost.rem.as_secs_f64() / cost.seq.as_secs_f64().max(1e-9);
        let wanted = if estimate.seq_is_assumed() {
            busy.min(UNMEASURED_LIMIT.max(busy / UNMEASURED_SEQ_ERROR))
        } else {
            busy * HEADROOM
        };
        wanted.clamp(MIN_IN_FLIGHT, MAX_IN_FLIGHT).min(self.ceiling).ceil() as usize
    }

    /// When the next launch may be started, if not now.
    ///
    /// Where turns are a word, nobody will notice for a REM if the word is wrong; then this is the pace that SEQ allows.
    pub(super) fn not_before(&self, now: Instant, estimate: &Estimate) -> Option<Instant> {
        let at_once = (pace(estimate) * (BURST - 1)).max(MIN_WAIT);
        let ahead = self.paced.since(now);
        (ahead > at_once).then(|| now + (ahead - at_once))
    }

    /// A launch is started.
    pub(super) fn launched(&mut self, now: Instant, estimate: &Estimate) {
        self.paced = self.paced.max(now) + pace(estimate);
    }

    /// A launch was answered while this many were in flight.
    pub(super) fn answered(&mut self) {
        self.ceiling = (self.ceiling + 1.0 / self.ceiling).min(MAX_IN_FLIGHT);
    }

    /// A launch was refused while this many were in flight.
    pub(super) fn refused(&mut self, now: Instant, in_flight: usize, rem: Duration) {
        if self.refused.is_none_or(|at| now.since(at) > rem) {
            self.refused = Some(now);
            self.ceiling = (in_flight as f64 / 2.0).clamp(1.0, self.ceiling);
        }
    }
}

/// The time between two starts.
fn pace(estimate: &Estimate) -> Duration {
    let seq = estimate.cost().seq;
    if estimate.seq_is_assumed() { seq } else { seq.div_f64(START_PACE) }
}
