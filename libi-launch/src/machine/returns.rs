//! Members of a lost host that come back, on the same machine or on another one.
//!
//! A restart of a member whose host is lost starts a new host: with that member, and all others that were lost
//! with the host, in their old places. It is a [growth](super::growth) by no ranks, so the new host is launched
//! as further ones are, has an index of its own, and takes part with `Admit`. What was said of the lost host
//! stays true: it stays lost, and is refused if it turns out to live. For the communication half, the ranks of
//! lost members join behind another link.
//!
//! ```text
//!   front end                  the top, and all other nodes             new host
//!     | -- Grow, Share -------------> | launches, with LIBI_RESTARTS=n  ---> |
//!     | <----------------- Joined --- | <---------------------------- Joined |
//!     | -- Admit, to all -----------> | Joins, in the places of lost members |
//!     |                               | -- Join ---------------------------> | up
//! ```
//!
//! | state of a lost host, at the front end | event | effect | next state |
//! |---|---|---|---|
//! | lost | restart of one of its members, or by itself | these are under way, as number `n` | wanted |
//! | wanted | no growth is under way | growth by a new host for each that is wanted | returning |
//! | returning | restart of one of these members | refused: under way | returning |
//! | returning | all new hosts have verdicts, this one has joined | `Admit`; notices: returned, restarted | returned |
//! | the same, it has failed | | notices: returned with no members, not restarted | lost |
//! | wanted, returning | the session ends | notice: not restarted | lost |
//! | returned | its new host is lost | that one is a lost host | |
//!
//! Members that had ended before their host was lost do not come back with the others, and neither do those
//! that have detached: their processes live. One that had ended comes back if it is asked for.
//!
//! The machine is that which was asked for; else a spare that is left; else that of the lost host. Where members
//! are [restarted by themselves](crate::options::LaunchOptions::restarts), hosts that are lost return by themselves
//! on spares.
//!
//! `n` is greater than the numbers of all [attempts](super::restarts) at these ranks so far. The new host
//! counts on from it, so the ends of earlier processes that are reported late are told from those of new ones.
//!
//! A growth that is asked for meanwhile waits until the hosts have returned, and returns wait for a growth.

use std::collections::BTreeMap;

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;

use super::growth::GrowthRequest;
use super::message::Spare;

/// A host that is to return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The lost host.
    pub(super) lost: HostIndex,
    /// The machine that takes its place.
    pub(super) place: Spare,
    /// The members that come back, in the blocks of the new host.
    pub(super) blocks: Vec<Block>,
    /// The number of this attempt at them.
    pub(super) number: u32,
}

impl Wanted {
    /// The members that come back.
    pub(super) fn ranks(&self) -> Ranks {
        self.blocks.iter().flat_map(|block| block.ranks()).collect()
    }
}

/// The front end's record of lost hosts that return. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Returns {
    wanted: Vec<Wanted>,
    /// Those that are launched, by the indices of the new hosts.
    under_way: BTreeMap<HostIndex, Wanted>,
    /// The hosts of members that are no longer where they were launched first.
    homes: BTreeMap<Rank, HostIndex>,
    /// A growth that waits for these.
    growth: Option<Box<GrowthRequest>>,
}

impl Returns {
    /// The host of a rank, if it is not the first one that it had.
    pub(super) fn home(&self, rank: Rank) -> Option<HostIndex> {
        self.homes.get(&rank).copied()
    }

    /// A host is to return.
    pub(super) fn want(&mut self, host: Wanted) {
        self.wanted.push(host);
    }

    /// The hosts that are to return now.
    pub(super) fn take_wanted(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.wanted)
    }

    /// Hosts with these indices and the next ones are launched.
    pub(super) fn begin(&mut self, first: HostIndex, hosts: Vec<Wanted>) {
        self.under_way = (first.0..).map(HostIndex).zip(hosts).collect();
    }

    /// Whether hosts that return are launched.
    pub(super) fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// All that were launched have their verdicts.
    pub(super) fn end(&mut self) -> BTreeMap<HostIndex, Wanted> {
        std::mem::take(&mut self.under_way)
    }

    /// This new host has the members of a lost one.
    pub(super) fn are_back(&mut self, host: HostIndex, ranks: &Ranks) {
        self.homes.extend(ranks.iter().map(|rank| (rank, host)));
    }

    /// A growth is asked for; it is given back if another one waits already.
    pub(super) fn hold(&mut self, growth: Box<GrowthRequest>) -> Option<Box<GrowthRequest>> {
        match self.growth {
            Some(_) => Some(growth),
            None => {
                self.growth = Some(growth);
                None
            }
        }
    }

    /// The growth that has waited.
    pub(super) fn take_growth(&mut self) -> Option<Box<GrowthRequest>> {
        self.growth.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(first: u32, count: u32, distribution: u32) -> Block {
        Block { first: Rank(first), count, distribution }
    }

    fn wanted(lost: u32, first: u32, count: u32) -> Wanted {
        let place = Spare { name: "n".to_owned(), user: None, port: None };
        Wanted { lost: HostIndex(lost), place, blocks: vec![block(first, count, 0)], number: 1 }
    }

    #[test]
    fn a_member_is_on_the_host_that_has_returned_last() {
        let mut returns = Returns::default();
        assert_eq!(returns.home(Rank(4)), None);
        returns.want(wanted(2, 4, 2));
        let hosts = returns.take_wanted();
        returns.begin(HostIndex(8), hosts);
        assert!(returns.are_under_way() && returns.take_wanted().is_empty());
        for (host, wanted) in returns.end() {
            returns.are_back(host, &wanted.ranks());
        }
        assert!(!returns.are_under_way());
        assert_eq!(
            [4, 5, 6].map(|rank| returns.home(Rank(rank))),
            [Some(HostIndex(8)), Some(HostIndex(8)), None]
        );
    }
}
