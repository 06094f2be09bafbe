//! Limits how many launches a node has in flight, and how fast it starts them.
//!
//! A launcher with too few launches in flight waits for answers. A launcher with too many lets them
//! queue at its bottleneck (its processor, a lock, a server that refuses), where they are neither
//! launched nor free to be given to other launchers. REM / SEQ launches keep a launcher busy
//! without a queue. Both costs are measured, and the window follows them with some headroom, so
//! that a launcher that has become faster can notice. A refusal halves the window, at most once per
//! launch time, because refusals come in bursts. Each answer after that widens the window a little.
//!
//! What a launcher can do is known after two answers (see `turns.rs` of the queue). Launches that
//! stand before its bottleneck by then are not lost to it: the next children get them
//! (`withdrawal.rs` of the queue).
//!
//! The window is not filled at once. Where launches share a processor, the first answer would have
//! to wait for all of them, and so would the host that could help first. Starts that return at once
//! are made a few at a time, at a multiple of the pace that SEQ allows. That is fast enough for a
//! queue to build up until the window is full; without a queue, SEQ could not be measured.

use std::time::Duration;

use libi_core::plan::estimate::Estimate;
use libi_core::time::Instant;

/// The least and the most launches in flight.
const MIN_IN_FLIGHT: f64 = 4.0;
const MAX_IN_FLIGHT: f64 = 256.0;
/// While SEQ is only assumed, the window keeps the launcher busy if the true SEQ is this many times
/// longer,
const UNMEASURED_SEQ_ERROR: f64 = 3.0;
/// or holds this many launches, if that is more. Hosts that are up by then launch others, so this
/// costs little if the assumption is right.
const UNMEASURED_LIMIT: f64 = 48.0;
/// The size of the window in multiples of REM / SEQ.
const HEADROOM: f64 = 1.25;
/// The pace of starts in multiples of 1 / SEQ.
const START_PACE: f64 = 1.5;
/// How many launches are started in one burst; and the wait below which the launcher does not
/// sleep.
const BURST: u32 = 3;
const MIN_WAIT: Duration = Duration::from_millis(1);

/// An adaptive limit on launches in flight.
#[derive(Clone, Debug)]
pub(super) struct LaunchWindow {
    /// The limit after refusals.
    ceiling: f64,
    /// The time of the last halving.
    refused: Option<Instant>,
    /// The time by which all starts so far are due at the pace.
    paced: Instant,
}

impl LaunchWindow {
    pub(super) fn new() -> Self {
        Self { ceiling: MAX_IN_FLIGHT, refused: None, paced: Instant::ZERO }
    }

    /// How many launches may be in flight at this cost.
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
    /// While SEQ is assumed, a wrong assumption is noticed only after one REM. Until then, starts
    /// are made at the assumed pace.
    pub(super) fn not_before(&self, now: Instant, estimate: &Estimate) -> Option<Instant> {
        let burst = estimate.places().map_or(BURST, |places| BURST.max(places.get().into()));
        let at_once = (pace(estimate) * (burst - 1)).max(MIN_WAIT);
        let ahead = self.paced.since(now);
        (ahead > at_once).then(|| now + (ahead - at_once))
    }

    /// Records the start of a launch.
    pub(super) fn launched(&mut self, now: Instant, estimate: &Estimate) {
        self.paced = self.paced.max(now) + pace(estimate);
    }

    /// Records an answer to a launch.
    pub(super) fn answered(&mut self) {
        self.ceiling = (self.ceiling + 1.0 / self.ceiling).min(MAX_IN_FLIGHT);
    }

    /// Records a refusal with this many launches in flight.
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

#[cfg(test)]
mod tests {
    use libi_core::cost::Cost;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// An estimate with measured costs.
    fn measured(seq: u64, rem: u64) -> Estimate {
        let mut estimate = Estimate::assumed(&Cost::new(MS(seq), MS(rem)));
        (0..100).for_each(|_| estimate.observe_seq(MS(seq)));
        estimate.observe_rem(MS(rem));
        estimate
    }

    #[test]
    fn the_window_keeps_a_launcher_busy_with_some_headroom() {
        let window = LaunchWindow::new();
        for (seq, rem, limit) in [(80, 40, 4), (10, 80, 10), (1, 10_000, 256)] {
            assert_eq!(window.limit(&measured(seq, rem)), limit);
        }
    }

    #[test]
    fn a_burst_of_refusals_halves_the_window_once() {
        let mut window = LaunchWindow::new();
        for millis in 0..50 {
            window.refused(Instant::ZERO + MS(millis), 40, MS(100));
        }
        assert_eq!(window.limit(&measured(1, 1_000)), 20);
        window.refused(Instant::ZERO + MS(101), 20, MS(100));
        assert_eq!(window.limit(&measured(1, 1_000)), 10);
        (0..20).for_each(|_| window.answered());
        assert_eq!(window.limit(&measured(1, 1_000)), 12);
    }

    #[test]
    fn a_few_launches_start_at_once_and_the_others_at_the_pace() {
        let (mut window, estimate) = (LaunchWindow::new(), measured(30, 1_000));
        for _ in 0..BURST {
            assert_eq!(window.not_before(Instant::ZERO, &estimate), None);
            window.launched(Instant::ZERO, &estimate);
        }
        assert_eq!(window.not_before(Instant::ZERO, &estimate), Some(Instant::ZERO + MS(20)));
        assert_eq!(window.not_before(Instant::ZERO + MS(20), &estimate), None);
    }

    #[test]
    fn the_window_is_wider_while_costs_are_assumed() {
        let window = LaunchWindow::new();
        let limit = |seq, rem| window.limit(&Estimate::assumed(&Cost::new(MS(seq), MS(rem))));
        assert_eq!(limit(10, 200), 20, "20 at a time keep it busy");
        assert_eq!((limit(2, 200), limit(2, 600)), (48, 100), "while SEQ is assumed");
        assert_eq!(
            limit(500, 20),
            4,
            "with fewer, no launch would ever queue, and SEQ could not be measured"
        );
    }

    #[test]
    fn answers_widen_the_window_up_to_its_limit() {
        let mut window = LaunchWindow::new();
        let at = |millis| Instant::ZERO + MS(millis);
        let limit = |window: &LaunchWindow| window.limit(&Estimate::assumed(&Cost::new(MS(4), MS(200))));
        window.refused(at(1_000), 64, MS(200));
        assert_eq!(limit(&window), 32);
        window.refused(at(1_100), 32, MS(200));
        assert_eq!(limit(&window), 32, "the same burst of refusals");
        window.refused(at(1_300), 32, MS(200));
        assert_eq!(limit(&window), 16);
        (0..40).for_each(|_| window.answered());
        assert!((17..=19).contains(&limit(&window)), "{}", limit(&window));
        for step in 0..20 {
            window.refused(at(2_000 + 300 * step), 1, MS(200));
        }
        assert_eq!(limit(&window), 1, "one launch is always allowed");
    }
}
