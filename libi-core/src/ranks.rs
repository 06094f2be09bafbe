//! Sets of ranks, stored as runs of consecutive numbers.
//!
//! The members on one host, or below one link, mostly have consecutive ranks. A set of a million
//! ranks then costs as little as one of two, in memory and in a message.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;

/// A set of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct Ranks {
    /// First and last of each run, ascending; between two runs at least one rank is missing.
    runs: Vec<(u32, u32)>,
}

impl Ranks {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// The first `count` ranks.
    #[must_use]
    pub fn first(count: u32) -> Self {
        let mut ranks = Self::new();
        ranks.add_run(0, count);
        ranks
    }

    /// The number of ranks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.iter().map(|(first, last)| (last - first) as usize + 1).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether the set contains this rank.
    #[must_use]
    pub fn contains(&self, rank: Rank) -> bool {
        let at = self.runs.partition_point(|&(_, last)| last < rank.0);
        self.runs.get(at).is_some_and(|&(first, _)| first <= rank.0)
    }

    /// The lowest rank.
    #[must_use]
    pub fn lowest(&self) -> Option<Rank> {
        self.runs.first().map(|&(first, _)| Rank(first))
    }

    /// The number of ranks in the set that are lower than this one.
    #[must_use]
    pub fn below(&self, rank: Rank) -> u32 {
        let runs = self.runs.iter().take_while(|&&(first, _)| first < rank.0);
        runs.map(|&(first, last)| last.min(rank.0 - 1) - first + 1).sum()
    }

    /// The first and the last of each run of consecutive ranks, ascending.
    pub fn runs(&self) -> impl Iterator<Item = (Rank, Rank)> + '_ {
        self.runs.iter().map(|&(first, last)| (Rank(first), Rank(last)))
    }

    /// The ranks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        self.runs.iter().flat_map(|&(first, last)| (first..=last).map(Rank))
    }

    /// Adds a rank.
    pub fn add(&mut self, rank: Rank) {
        self.add_run(rank.0, 1);
    }

    /// Adds `count` ranks from `first` on; those beyond the largest possible rank are left out.
    pub fn add_run(&mut self, first: u32, count: u32) {
        let Some(more) = count.checked_sub(1) else { return };
        let last = first.saturating_add(more);
        // Runs that overlap the new one, or touch it, become part of it.
        let from = self.runs.partition_point(|&(_, end)| end.saturating_add(1) < first);
        let to = self.runs.partition_point(|&(start, _)| start <= last.saturating_add(1));
        let first = self.runs.get(from).filter(|_| from < to).map_or(first, |run| run.0.min(first));
        let last = to.checked_sub(1).filter(|_| from < to).map_or(last, |at| self.runs[at].1.max(last));
        self.runs.splice(from..to, [(first, last)]);
    }

    /// Adds all ranks of another set.
    pub fn add_all(&mut self, others: &Self) {
        for &(first, last) in &others.runs {
            self.add_run(first, last - first);
            self.add(Rank(last));
        }
    }

    /// The ranks that are in both sets.
    #[must_use]
    pub fn intersection(&self, others: &Self) -> Self {
        let (mut without, mut common) = (self.clone(), self.clone());
        without.remove_all(others);
        common.remove_all(&without);
        common
    }

    /// Removes all ranks of another set.
    pub fn remove_all(&mut self, others: &Self) {
        for &(first, last) in &others.runs {
            let from = self.runs.partition_point(|&(_, end)| end < first);
            let to = self.runs.partition_point(|&(start, _)| start <= last);
            let Some(overlapping) = self.runs.get(from..to).filter(|runs| !runs.is_empty()) else { continue };
            let left = overlapping.first().filter(|run| run.0 < first).map(|run| (run.0, first - 1));
            let right = overlapping.last().filter(|run| run.1 > last).map(|run| (last + 1, run.1));
            self.runs.splice(from..to, left.into_iter().chain(right));
        }
    }
}

impl FromIterator<Rank> for Ranks {
    fn from_iter<T: IntoIterator<Item = Rank>>(ranks: T) -> Self {
        let mut set = Self::new();
        ranks.into_iter().for_each(|rank| set.add(rank));
        set
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.len() == 1 { "rank " } else { "ranks " })?;
        for (nth, (first, last)) in self.runs.iter().enumerate() {
            let comma = if nth > 0 { ", " } else { "" };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

/// Runs that are not ascending, or that touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the runs of a set of ranks are not in order")]
pub struct RanksError;

impl TryFrom<Vec<(u32, u32)>> for Ranks {
    type Error = RanksError;

    fn try_from(runs: Vec<(u32, u32)>) -> Result<Self, RanksError> {
        let apart = |pair: &[(u32, u32)]| pair[0].1.checked_add(1).is_some_and(|next| next < pair[1].0);
        let ordered = runs.iter().all(|(first, last)| first <= last) && runs.windows(2).all(apart);
        if ordered { Ok(Self { runs }) } else { Err(RanksError) }
    }
}

impl From<Ranks> for Vec<(u32, u32)> {
    fn from(ranks: Ranks) -> Self {
        ranks.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::string::ToString;

    fn set(ranks: &BTreeSet<u32>) -> Ranks {
        ranks.iter().copied().map(Rank).collect()
    }

    proptest! {
        #[test]
        fn it_is_the_same_as_a_set_of_single_ranks(
            runs in prop::collection::vec((0u32..60, 0u32..12), 0..12),
            gone in prop::collection::btree_set(0u32..70, 0..20),
        ) {
            let mut ranks = Ranks::new();
            let mut single = BTreeSet::new();
            for (first, count) in runs {
                ranks.add_run(first, count);
                single.extend(first..first + count);
            }
            prop_assert_eq!(&ranks, &set(&single));
            let mut sum = ranks.clone();
            sum.add_all(&set(&gone));
            prop_assert_eq!(&sum, &set(&single.union(&gone).copied().collect()));
            ranks.remove_all(&set(&gone));
            single.retain(|rank| !gone.contains(rank));
            prop_assert_eq!(&ranks, &set(&single));
            prop_assert_eq!(ranks.len(), single.len());
            for rank in 0..75 {
                prop_assert_eq!(ranks.contains(Rank(rank)), single.contains(&rank));
                prop_assert_eq!(ranks.below(Rank(rank)) as usize, single.range(..rank).count());
            }
            prop_assert_eq!(Ranks::try_from(Vec::from(ranks.clone())), Ok(ranks));
        }
    }

    #[test]
    fn the_last_rank_there_can_be_has_its_place() {
        let mut ranks = Ranks::new();
        ranks.add_run(u32::MAX - 1, 2);
        ranks.add_run(u32::MAX, 7);
        assert_eq!((ranks.len(), ranks.contains(Rank(u32::MAX))), (2, true));
        ranks.remove_all(&[Rank(u32::MAX)].into_iter().collect());
        assert_eq!(ranks.iter().collect::<Vec<_>>(), [Rank(u32::MAX - 1)]);
    }

    #[test]
    fn it_is_written_as_people_write_it() {
        let written = |ranks: &[u32]| ranks.iter().copied().map(Rank).collect::<Ranks>().to_string();
        assert_eq!(written(&[7]), "rank 7");
        assert_eq!(written(&[3, 5, 6, 7, 9]), "ranks 3, 5-7, 9");
    }

    #[test]
    fn runs_out_of_order_are_no_set() {
        for runs in [&[(2, 1)][..], &[(0, 1), (2, 3)], &[(5, 6), (0, 1)], &[(0, u32::MAX), (3, 4)]] {
            assert_eq!(Ranks::try_from(runs.to_vec()), Err(RanksError));
        }
    }
}
