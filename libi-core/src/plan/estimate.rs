//! What SEQ and REM seem to be, from what launches have cost so far.
//!
//! An [`Estimate`] begins with somebody's word (the user's or a default) and moves with every measurement:
//! at first quickly, then like an average over the last [`MEMORY`] or so, so that a launch that gets slower
//! is noticed while it runs. A word that the first measurement puts wrong by more than a factor of
//! [`BELIEVABLE`] is forgotten. A single stray measurement counts at most as [`STRAY`] times what was
//! believed, else one host that took a minute would make everybody plan for minutes.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::time::nanos;

/// How many measurements the running averages remember.
pub const MEMORY: u32 = 32;
/// How many measurements a word without evidence weighs as much as.
pub const WORD: u32 = 2;
/// A word that is off by more than this factor is not believed.
pub const BELIEVABLE: u32 = 2;
/// A measurement counts at most as this many times the present estimate.
pub const STRAY: u32 = 8;

/// A running estimate of SEQ and REM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    seq: Average,
    rem: Average,
}

impl Estimate {
    /// An estimate that rests on nothing but this word.
    #[must_use]
    pub fn from_word(cost: &Cost) -> Self {
        Self { seq: Average::new(nanos(cost.seq)), rem: Average::new(nanos(cost.rem)) }
    }

    /// What is believed now; an estimate has no constant part.
    #[must_use]
    pub fn cost(&self) -> Cost {
        Cost::new(Duration::from_nanos(self.seq.mean), Duration::from_nanos(self.rem.mean))
    }

    /// Whether REM rests on a measurement, rather than on a word alone.
    #[must_use]
    pub fn rem_is_measured(&self) -> bool {
        !self.rem.word
    }

    /// A launch kept its launcher busy for so long.
    pub fn observe_seq(&mut self, measured: Duration) {
        self.seq.observe(nanos(measured));
    }

    /// A launched process could launch others after so long.
    pub fn observe_rem(&mut self, measured: Duration) {
        self.rem.observe(nanos(measured));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Average {
    mean: u64,
    weight: u32,
    /// Whether nothing has been measured yet.
    word: bool,
}

impl Average {
    fn new(mean: u64) -> Self {
        Self { mean, weight: WORD, word: true }
    }

    fn observe(&mut self, measured: u64) {
        let measured = match self.mean {
            0 => measured, // nothing is a multiple of nothing
            mean => measured.min(mean.saturating_mul(u64::from(STRAY))),
        };
        let (less, more) = (measured.min(self.mean), measured.max(self.mean));
        if core::mem::take(&mut self.word) && more / u64::from(BELIEVABLE) > less {
            *self = Self { mean: measured, weight: 1, word: false };
            return;
        }
        self.weight = self.weight.min(MEMORY - 1) + 1;
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

    fn rem_after(word: u64, measured: impl IntoIterator<Item = u64>) -> u64 {
        let mut estimate = Estimate::from_word(&Cost::new(Duration::ZERO, Duration::from_nanos(word)));
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
    fn one_stray_measurement_cannot_make_the_estimate_absurd() {
        assert_eq!(rem_after(1_000, [u64::MAX]), 8_000);
        let steady = core::iter::repeat_n(1_000, 40);
        let after = rem_after(1_000, steady.chain([u64::MAX]));
        assert!(after < 1_300, "{after}");
    }
}
