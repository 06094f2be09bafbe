//! Running estimates of SEQ and REM, from the launches so far.
//!
//! An [`Estimate`] begins with an assumption (from the user, or a default) and moves with every
//! measurement: quickly at first, then like an average over the last [`AVERAGE_WINDOW`] or so, so
//! that a launch that slows down is noticed while it runs. If the first measurement contradicts the
//! assumption by more than a factor of [`PLAUSIBLE_FACTOR`], the assumption is dropped. A single
//! outlier counts at most as [`OUTLIER_FACTOR`] times the present estimate; otherwise one host that
//! took a minute would make every launcher plan for minutes.
//!
//! SEQ is the longer of two durations: that of a start, which is measured, and that of a launch's
//! turn at the resource that concurrent launches share, which the [late-commit queue](super::late)
//! derives from the times of the hellos.

use core::num::NonZeroU16;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::time::nanos;

/// The number of measurements that the running averages cover.
pub const AVERAGE_WINDOW: u32 = 32;
/// The weight of an assumption, in measurements.
pub const ASSUMED_WEIGHT: u32 = 2;
/// An assumption that is off by more than this factor is dropped.
pub const PLAUSIBLE_FACTOR: u32 = 2;
/// A measurement counts at most as this many times the present estimate.
pub const OUTLIER_FACTOR: u32 = 8;

/// The weight of an assumed turn length.
pub(super) const ASSUMED_TURN_WEIGHT: u32 = 1;
/// If every start takes more nanoseconds than it takes to spawn a process, the starts themselves
/// include the work that launches share: turns are then no longer than starts until a launch is
/// seen to wait. A single quicker start shows that the others were only delayed, as on a busy
/// processor.
const SPAWN_NANOS: u64 = 2_000_000;
/// The largest weight of a turn length.
const MAX_TURN_WEIGHT: u32 = 8;

/// A running estimate of SEQ and REM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// The duration of a start.
    seq: Average,
    /// The shortest start measured, if any.
    quickest: Option<u64>,
    /// The duration of a launch's turn at the shared resource.
    turn: Turn,
    /// How many launches are made at a time, if each holds its place until it is answered.
    places: Option<NonZeroU16>,
    rem: Average,
}

/// The length of a turn, and its weight in measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Turn {
    nanos: u64,
    weight: u32,
}

impl Estimate {
    /// An estimate without any measurement.
    #[must_use]
    pub fn assumed(cost: &Cost) -> Self {
        let turn = Turn { nanos: nanos(cost.seq), weight: ASSUMED_TURN_WEIGHT };
        let (seq, rem) = (Average::new(nanos(cost.seq)), Average::new(nanos(cost.rem)));
        Self { seq, quickest: None, turn, places: None, rem }
    }

    /// The present estimate; it has no constant part.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let seq = if self.turns_exceed_starts() { self.turn.nanos } else { self.seq.mean };
        Cost::new(Duration::from_nanos(seq), Duration::from_nanos(self.rem.mean))
    }

    /// Whether turns determine SEQ. Starts are measured well, so turns have to be clearly longer
    /// for that.
    fn turns_exceed_starts(&self) -> bool {
        !self.starts_include_turns() && self.turn.nanos / 4 > self.seq.mean / 3
    }

    /// Whether starts determine the length of turns, which is only assumed.
    fn starts_include_turns(&self) -> bool {
        self.turn.weight == ASSUMED_TURN_WEIGHT && !self.starts_return_at_once()
    }

    /// Whether some start took no longer than it takes to spawn a process, so that launches may wait
    /// after it.
    pub(super) fn starts_return_at_once(&self) -> bool {
        self.quickest.is_none_or(|least| least <= SPAWN_NANOS)
    }

    /// Whether REM rests on a measurement, not only on an assumption.
    #[must_use]
    pub fn rem_is_measured(&self) -> bool {
        !self.rem.assumed
    }

    /// The length of a turn, in seconds.
    pub(super) fn turn(&self) -> f64 {
        self.turn_nanos() as f64 / 1e9
    }

    fn turn_nanos(&self) -> u64 {
        if self.starts_include_turns() { self.seq.mean } else { self.turn.nanos }
    }

    /// The weight of the turn length, in measurements.
    pub(super) fn turn_weight(&self) -> u32 {
        self.turn.weight
    }

    /// How many launches can be made at a time, if it is known that each holds its place until it is
    /// answered. More at a time only wait.
    #[must_use]
    pub fn places(&self) -> Option<NonZeroU16> {
        self.places
    }

    /// Sets the turn length to a multiple of what it was in `before`, and the number of places, on
    /// the evidence of so many answers.
    pub(super) fn set_turn(
        &mut self,
        before: &Self,
        factor: f64,
        places: Option<NonZeroU16>,
        answers: usize,
    ) {
        self.places = places;
        let weight = before.turn.weight.saturating_add(answers as u32).min(MAX_TURN_WEIGHT);
        let nanos =
            if factor == 1.0 { before.turn_nanos() } else { (before.turn().max(1e-6) * factor * 1e9) as u64 };
        self.turn = Turn { nanos, weight };
    }

    /// Adopts the turn length of another estimate.
    pub(super) fn adopt_turn(&mut self, other: &Self) {
        (self.turn, self.places) = (other.turn, other.places);
    }

    /// Whether it rests on enough evidence to need no correction from others.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.turn.weight == MAX_TURN_WEIGHT
    }

    /// Whether SEQ rests on an assumption alone.
    #[must_use]
    pub fn seq_is_assumed(&self) -> bool {
        self.turn.weight == ASSUMED_TURN_WEIGHT && (self.seq.assumed || self.turns_exceed_starts())
    }

    /// Whether SEQ differs clearly from that of another estimate.
    #[must_use]
    pub fn differs(&self, other: &Self) -> bool {
        let (one, two) = (nanos(self.cost().seq), nanos(other.cost().seq));
        one.abs_diff(two) > one.min(two) / 4
    }

    /// Restores REM from an earlier estimate.
    pub(super) fn reset_rem(&mut self, before: &Self) {
        self.rem = before.rem;
    }

    /// Adds the measured duration of a start.
    pub fn observe_seq(&mut self, measured: Duration) {
        self.seq.observe(nanos(measured));
        self.quickest = Some(self.quickest.map_or(nanos(measured), |least| least.min(nanos(measured))));
    }

    /// Adds the measured time from a launch's start until its host could launch others.
    pub fn observe_rem(&mut self, measured: Duration) {
        let (assumed, was_assumed) = (self.rem.mean, self.rem.assumed);
        self.rem.observe(nanos(measured));
        if was_assumed && self.rem.weight == 1 && self.turn.weight == ASSUMED_TURN_WEIGHT && assumed > 0 {
            // The assumption was made for other machines: turns are probably off in the same
            // direction.
            let turn = u128::from(self.turn.nanos);
            let scaled = turn.saturating_mul(turn).saturating_mul(self.rem.mean.into()) / u128::from(assumed);
            self.turn.nanos = u64::try_from(scaled.isqrt()).unwrap_or(u64::MAX);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Average {
    mean: u64,
    weight: u32,
    /// Whether the mean is assumed, with no measurement yet.
    assumed: bool,
}

impl Average {
    fn new(mean: u64) -> Self {
        Self { mean, weight: ASSUMED_WEIGHT, assumed: true }
    }

    fn observe(&mut self, measured: u64) {
        let measured = match self.mean {
            0 => measured, // zero has no other multiple
            mean => measured.min(mean.saturating_mul(u64::from(OUTLIER_FACTOR))),
        };
        let (less, more) = (measured.min(self.mean), measured.max(self.mean));
        if core::mem::take(&mut self.assumed) && more / u64::from(PLAUSIBLE_FACTOR) > less {
            *self = Self { mean: measured, weight: 1, assumed: false };
            return;
        }
        self.weight = self.weight.min(AVERAGE_WINDOW - 1) + 1;
        let weight = u64::from(self.weight);
        if measured >= self.mean {
            self.mean += (measured - self.mean) / weight;
        } else {
            self.mean -= (self.mean - measured) / weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn rem_after(assumed: u64, measured: impl IntoIterator<Item = u64>) -> u64 {
        let mut estimate = Estimate::assumed(&Cost::new(Duration::ZERO, Duration::from_nanos(assumed)));
        for rem in measured {
            estimate.observe_rem(Duration::from_nanos(rem));
        }
        nanos(estimate.cost().rem)
    }

    #[test]
    fn measurements_that_agree_with_the_word_leave_it_exactly_as_it_was() {
        assert_eq!(rem_after(172_000_001, [172_000_001; 100]), 172_000_001);
    }

    #[test]
    fn a_word_is_forgotten_if_the_first_measurement_puts_it_wrong_and_else_weighed() {
        assert_eq!(rem_after(10_000, [30_000]), 30_000);
        assert_eq!(rem_after(1_000_000, [10_000]), 10_000);
        assert_eq!(rem_after(1_000, [1_600]), (2 * 1_000 + 1_600) / 3);
    }

    #[test]
    fn a_start_that_takes_long_has_had_its_turn_and_one_that_returns_at_once_says_nothing_of_it() {
        let seq_after = |micros: u64| {
            let mut estimate = Estimate::assumed(&Cost::new(Duration::from_millis(21), Duration::ZERO));
            estimate.observe_seq(Duration::from_micros(micros));
            estimate.cost().seq
        };
        assert_eq!(seq_after(7_000), Duration::from_millis(7));
        assert_eq!(seq_after(90_000), Duration::from_millis(90));
        assert_eq!(seq_after(300), Duration::from_millis(21));
    }

    #[test]
    fn starts_that_are_held_up_say_nothing_of_turns_once_one_was_not() {
        let mut estimate = Estimate::assumed(&Cost::new(MS(21), Duration::ZERO));
        for micros in [9_000, 300, 9_000, 9_000, 9_000] {
            estimate.observe_seq(Duration::from_micros(micros));
        }
        assert_eq!(estimate.cost().seq, MS(21));
        assert!(estimate.seq_is_assumed());
    }

    #[test]
    fn a_word_on_turns_moves_with_a_rem_that_proves_to_be_another() {
        let seq_after = |rem: u64| {
            let mut estimate = Estimate::assumed(&Cost::new(MS(5), MS(200)));
            estimate.observe_seq(Duration::from_micros(300));
            estimate.observe_rem(MS(rem));
            estimate.cost().seq
        };
        assert_eq!(seq_after(250), MS(5), "it is believed");
        assert_eq!((seq_after(800), seq_after(50)), (MS(10), Duration::from_micros(2_500)));
    }

    #[test]
    fn one_stray_measurement_cannot_make_the_estimate_absurd() {
        assert_eq!(rem_after(1_000, [u64::MAX]), 8_000);
        let steady = core::iter::repeat_n(1_000, 40);
        let after = rem_after(1_000, steady.chain([u64::MAX]));
        assert!(after < 1_300, "{after}");
    }
}
