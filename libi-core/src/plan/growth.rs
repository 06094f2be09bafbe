//! A(x): how many hosts a fresh node can have up after a time.
//!
//! A node that can launch from time 0 on, and everything it launches, have hosts up at the greedy
//! launch times; A(x) counts those that are not later than x. The times are worked out as far as they
//! are asked for and kept.

use core::time::Duration;

use super::greedy::Launches;
use crate::cost::Cost;

/// The greedy launch times under one cost, as a curve.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    launches: Launches,
}

impl Growth {
    /// The curve for this cost.
    ///
    /// A cost of nothing is taken for a nanosecond: a node that could launch everyone in no time, and
    /// whose children could too, would leave it open who should.
    pub(super) fn new(cost: &Cost) -> Self {
        let least = Duration::from_nanos(1);
        let cost = Cost::new(cost.seq.max(least), cost.rem.max(least));
        Self { launches: Launches::new(&cost, 0) }
    }

    /// A(within) - 1, but at most `limit`: how many hosts, itself not counted, a node can have up after
    /// this many nanoseconds. The limit is what keeps the curve from being worked out for nothing.
    pub(super) fn besides_itself(&mut self, within: u64, limit: usize) -> usize {
        while self.launches.up().len() <= limit && self.furthest() <= within {
            self.launches.extend();
        }
        // The node itself is up at 0, which is never later than `within`.
        let up = self.launches.up().partition_point(|&at| at <= within);
        (up - 1).min(limit)
    }

    fn furthest(&self) -> u64 {
        self.launches.up().last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_greedy_launch_times() {
        let cost = Cost::new(Duration::from_nanos(7), Duration::from_nanos(10));
        let mut growth = Growth::new(&cost);
        // Own children are up at 10, 17, 24, 31; the first child's at 20, 27, 34; the second's at 27.
        let counts = [(0, 0), (9, 0), (10, 1), (17, 2), (19, 2), (20, 3), (24, 4), (27, 6), (26, 4)];
        for (within, expected) in counts {
            assert_eq!(growth.besides_itself(within, 100), expected, "after {within} ns");
        }
    }

    #[test]
    fn never_counts_past_its_limit_nor_works_out_more() {
        let mut growth = Growth::new(&Cost::default());
        assert_eq!(growth.besides_itself(u64::MAX, 5), 5);
        assert_eq!(growth.launches.up().len(), 6);
    }
}
