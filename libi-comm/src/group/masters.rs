//! Which member is the master, in each collective call.
//!
//! The master is rank 0. Where [a lost one is replaced](crate::Completion::replaces_master), the first plan
//! without it names the next:
//!
//! | call | its master |
//! |---|---|
//! | any member had made it when calls halted | the lost one: where this is its root, all that have no result fail, unless [one is left that has](super::survival) |
//! | every later one | the lowest rank that takes part and is in no lost one's place |
//!
//! So all members give a call the same master, whenever they have heard of the loss. A member that makes a
//! call while calls are halted cannot know its master yet. A lost master that is restarted is the master
//! no more, unless no other member is left.

use libi_core::ids::Rank;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::Group;
use crate::contract::Effect;

/// The first call of each master after rank 0, in ascending order, as long as earlier calls are in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Masters(Vec<(u64, Rank)>);

impl Masters {
    /// The master in a call.
    pub(crate) fn of_call(&self, nth: u64) -> Rank {
        self.0.iter().rev().find(|(first, _)| *first <= nth).map_or(Rank(0), |(_, rank)| *rank)
    }

    /// The master in calls that no member has made.
    pub(crate) fn last(&self) -> Rank {
        self.0.last().map_or(Rank(0), |(_, rank)| *rank)
    }

    /// The master is lost, and calls from this number on have another: the lowest of `size` ranks without
    /// those that are missing, and if possible without those that `join`.
    pub(crate) fn replace(&mut self, first: u64, size: u32, missing: &Ranks, joins: &Ranks) {
        let lowest = |but: &Ranks| (0..size).map(Rank).find(|rank| !but.contains(*rank));
        let mut without = missing.clone();
        without.add_all(joins);
        if let Some(next) = lowest(&without).or_else(|| lowest(missing)) {
            self.0.push((first, next));
        }
    }

    /// All members have completed the calls before this number.
    pub(crate) fn forget_before(&mut self, completed: u64) {
        let needed = self.0.iter().rposition(|(first, _)| *first <= completed).unwrap_or(0);
        self.0.drain(..needed);
    }
}

impl Group {
    /// The rank of this process, if it is a member that is up.
    #[must_use]
    pub const fn rank(&self) -> Option<Rank> {
        self.view.topology.me
    }

    /// The number of the collective call that this member makes next.
    #[must_use]
    pub const fn next_call(&self) -> u64 {
        self.collective.next_call()
    }

    /// The master in the collective call that this member makes after so many others. `None` while that is
    /// open: before the session is up, and while calls are halted.
    #[must_use]
    pub fn next_master(&self, ahead: u64) -> Option<Rank> {
        let is_certain = self.ended || self.is_up && !self.collective.is_halted();
        is_certain.then(|| self.view.masters.of_call(self.collective.next_call() + ahead))
    }

    /// These are the masters from now on.
    pub(super) fn have_masters(&mut self, masters: Masters, out: &mut Vec<Effect>) {
        let is_replaced = masters.last() != self.view.masters.last();
        out.extend(is_replaced.then(|| Effect::Master(masters.last())));
        self.view.masters = masters;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(some: &[u32]) -> Ranks {
        some.iter().copied().map(Rank).collect()
    }

    #[test]
    fn the_next_master_is_the_lowest_rank_that_is_left_and_was_never_lost() {
        let mut masters = Masters::default();
        masters.replace(5, 4, &ranks(&[0]), &ranks(&[]));
        assert_eq!((masters.of_call(4), masters.of_call(5), masters.last()), (Rank(0), Rank(1), Rank(1)));
        // Rank 0 was restarted.
        masters.replace(9, 4, &ranks(&[1]), &ranks(&[0]));
        assert_eq!((masters.of_call(8), masters.of_call(9)), (Rank(1), Rank(2)));
        masters.replace(12, 4, &ranks(&[1, 2, 3]), &ranks(&[0]));
        assert_eq!(masters.last(), Rank(0), "no other is left");
        masters.replace(13, 4, &ranks(&[0, 1, 2, 3]), &ranks(&[]));
        assert_eq!(masters.last(), Rank(0), "none is left");
    }

    #[test]
    fn what_is_forgotten_is_not_needed_for_calls_that_are_in_progress() {
        let mut masters = Masters::default();
        for (first, lost) in [(5, 1), (9, 2), (12, 3)] {
            masters.replace(first, 5, &Ranks::first(lost), &Ranks::new());
        }
        for completed in [0, 4, 5, 8, 9, 11, 12, 20] {
            let mut less = masters.clone();
            less.forget_before(completed);
            for nth in completed..25 {
                assert_eq!(less.of_call(nth), masters.of_call(nth), "call {nth}, {completed} completed");
            }
        }
        masters.forget_before(20);
        assert_eq!(masters.0.len(), 1);
    }
}
