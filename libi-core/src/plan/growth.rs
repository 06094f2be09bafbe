//! A(x): the number of hosts that a fresh node can have up after time x, counted without listing
//! them.
//!
//! A node that can launch from time 0 on has its child number i (from 0) up at `i SEQ +
//! REM`, and each child does the same from then on. Consider a host j launches below the
//! node. If the launchers on the way made i other launches before those on the path, the
//! host is up at `i SEQ + j REM`. There is one such host for every way to write i as a sum
//! of j numbers. With I = ⌊(x - j REM) / SEQ⌋, after time x there are
//!
//! ```text
//!   sum over i ≤ I of C(i + j - 1, j - 1)  =  C(I + j, j)    hosts j launches away,
//!   A(x)  =  sum over j ≤ ⌊x / REM⌋ of C(I + j, j)           in all; j = 0 is the node itself.
//! ```
//!
//! Where SEQ is longer than REM, many consecutive j have the same I; their sum is one difference of
//! binomial coefficients, `C(I + b + 1, b) - C(I + a, a - 1)` for j from a to b. In either case the
//! number of terms is at most the number of times that the longer of SEQ and REM fits into x. A at
//! least doubles every two terms, so that a limit is soon reached.

use crate::cost::Cost;
use crate::time::nanos;

/// The curve A under one cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    seq: u64,
    rem: u64,
}

impl Growth {
    /// The curve for this cost.
    ///
    /// A cost of zero is taken for a nanosecond. A node that could launch every host in no time,
    /// and whose children could as well, would leave the shares undetermined.
    pub(super) fn new(cost: &Cost) -> Self {
        Self { seq: nanos(cost.seq).max(1), rem: nanos(cost.rem).max(1) }
    }

    /// How long a launch takes, at least a nanosecond.
    pub(super) fn rem(&self) -> u64 {
        self.rem
    }

    /// A(within) - 1, but at most `limit`: the number of hosts, itself not counted, that a node can
    /// have up after this many nanoseconds.
    pub(super) fn others_up(&self, within: u64, limit: u32) -> u32 {
        let Some(mut rest) = within.checked_sub(self.rem) else { return 0 };
        let limit = u64::from(limit);
        let (mut up, mut away) = (0, 1u64); // j = 0, the node itself, is not counted
        loop {
            // `rest` is x - j REM, `away` is j.
            let others = rest / self.seq;
            let left_over = rest - others * self.seq;
            let mut last = away;
            if left_over >= self.rem {
                last = away.saturating_add(left_over / self.rem); // up to here `others` is the same
                up += sum_of_binomials(others, away, last, limit + 1);
            } else {
                up += binomial(others.saturating_add(away), away, limit + 1);
            }
            if up >= limit {
                return limit as u32; // it was one
            }
            match rest.checked_sub((last - away).saturating_add(1).saturating_mul(self.rem)) {
                Some(less) => (rest, away) = (less, last.saturating_add(1)),
                None => return up as u32, // it is below the limit
            }
        }
    }
}

/// The sum of C(n + j, j) for j from `first` to `last`; `bound` if the sum is not below it.
///
/// It is also the bound where the terms before `first`, including j = 0, are needed to reach it.
/// That is correct for the caller: it has counted no less for those terms, except for j = 0, for
/// which its bound is one more than its limit.
fn sum_of_binomials(n: u64, first: u64, last: u64, bound: u64) -> u64 {
    if n >= bound || last >= bound {
        return bound; // none of the terms is below 1, nor the second below n
    }
    let all = binomial(n + last + 1, last, bound);
    if all >= bound { bound } else { all - binomial(n + first, first - 1, bound) }
}

/// The binomial coefficient C(n, k) for k ≤ n; `bound` if it is not below it. The bound is
/// at most 2^32.
fn binomial(n: u64, k: u64, bound: u64) -> u64 {
    let k = k.min(n - k);
    if k > 0 && n >= bound {
        return bound; // C(n, k) is at least n for 0 < k < n
    }
    let mut value = 1;
    for i in 1..=k {
        // This is C(n - k + i, i), which ascends with i. Both factors are below the bound.
        value = value * (n - k + i) / i;
        if value >= bound {
            return bound;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::greedy;
    use crate::testing::cases;

    #[test]
    fn counts_the_greedy_launch_times() {
        let cost = Cost::new(Duration::from_nanos(7), Duration::from_nanos(10));
        let growth = Growth::new(&cost);
        // Own children are up at 10, 17, 24, 31; the first child's at 20, 27, 34; the second's at
        // 27.
        let counts = [(0, 0), (9, 0), (10, 1), (17, 2), (19, 2), (20, 3), (24, 4), (27, 6), (26, 4)];
        for (within, expected) in counts {
            assert_eq!(growth.others_up(within, 100), expected, "after {within} ns");
        }
    }

    #[test]
    fn absurd_times_and_limits_are_counted_too() {
        for (seq, rem) in [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (1, 1 << 40)] {
            let growth = Growth::new(&Cost::new(Duration::from_nanos(seq), Duration::from_nanos(rem)));
            for within in [0, 1, 1 << 40, u64::MAX - 1, u64::MAX] {
                for limit in [0, 1, 2, 1_000, u32::MAX] {
                    assert!(growth.others_up(within, limit) <= limit);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(cases(500))]

        #[test]
        fn the_formula_agrees_with_the_hosts_laid_out_one_by_one(
            seq in prop_oneof![1u64..20, 1u64..2_000], rem in prop_oneof![1u64..20, 1u64..2_000],
            part in 0.0..1.2f64, limit in 0u32..1_000,
        ) {
            let cost = Cost::new(Duration::from_nanos(seq), Duration::from_nanos(rem));
            let n = core::num::NonZeroU32::new(1_001).unwrap();
            let (_, schedule) = greedy::plan(n, &cost);
            let times: std::vec::Vec<_> =
                (1..1_001).map(|node| schedule.ready(node).unwrap().as_nanos()).collect();
            let within = (times[999] as f64 * part) as u64;
            let laid_out = times.iter().filter(|&&at| at <= within).count() as u32;
            prop_assert_eq!(Growth::new(&cost).others_up(within, limit), laid_out.min(limit));
        }
    }
}
