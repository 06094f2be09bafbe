//! The front end's record of restarts: which process of a rank is the last, and which attempts are
//! not answered. The head of [`restarts`](crate::machine::restarts) has the table.

use std::collections::BTreeMap;

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;

use super::FrontEndState;
use crate::machine::host_table::HostState;
use crate::machine::message::{HostSpec, Spare};
use crate::machine::restarts::{RestartError, RestartOrder};
use crate::machine::returns::Wanted;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct RestartRequests {
    known: BTreeMap<Rank, Known>,
}

/// What is known of the restarts of a rank.
#[derive(Debug, Default)]
struct Known {
    /// The number of the process that was last up.
    process: u32,
    /// The number of the last attempt that was answered.
    answered: u32,
    under_way: Option<u32>,
    /// Whether that is on a new host.
    returns: bool,
}

impl RestartRequests {
    /// The user asks for a restart, which is possible.
    pub(super) fn request(&mut self, rank: Rank) -> Result<RestartOrder, RestartError> {
        let known = self.known.entry(rank).or_default();
        if known.under_way.is_some() {
            return Err(RestartError::UnderWay);
        }
        let number = known.answered.saturating_add(1);
        known.under_way = Some(number);
        Ok(RestartOrder { rank, number })
    }

    /// The number of the next attempt at these ranks together.
    fn next_number(&self, ranks: &Ranks) -> u32 {
        let answered = |rank| self.known.get(&rank).map_or(0, |known| known.answered.max(known.process));
        ranks.iter().map(answered).max().unwrap_or(0).saturating_add(1)
    }

    /// These ranks, none of which is under way, come back on a new host. Returns the number of the attempt.
    fn return_all(&mut self, ranks: &Ranks) -> u32 {
        let number = self.next_number(ranks);
        for rank in ranks.iter() {
            let known = self.known.entry(rank).or_default();
            (known.under_way, known.returns) = (Some(number), true);
        }
        number
    }

    /// Whether an attempt at this rank is under way.
    fn is_under_way(&self, rank: Rank) -> bool {
        self.known.get(&rank).is_some_and(|known| known.under_way.is_some())
    }

    /// An agent has begun this attempt by itself.
    pub(super) fn begins(&mut self, RestartOrder { rank, number }: RestartOrder) {
        let known = self.known.entry(rank).or_default();
        if number > known.answered {
            known.under_way = Some(number);
        }
    }

    /// An attempt is answered. False if that is known, or if it was given up.
    pub(super) fn answers(&mut self, RestartOrder { rank, number }: RestartOrder) -> bool {
        let known = self.known.entry(rank).or_default();
        let is_new = number > known.answered;
        if is_new {
            known.answered = number;
            known.returns &= known.under_way.take_if(|open| *open <= number).is_none();
        }
        is_new
    }

    /// The process of an attempt is up. False if that is known, or if the attempt was given up.
    pub(super) fn is_up(&mut self, order: RestartOrder) -> bool {
        let is_new = self.answers(order);
        if let Some(known) = self.known.get_mut(&order.rank).filter(|_| is_new) {
            known.process = order.number;
        }
        is_new
    }

    /// Whether the process of this number is the last of its rank.
    pub(super) fn is_last(&self, rank: Rank, number: u32) -> bool {
        number == self.known.get(&rank).map_or(0, |known| known.process)
    }

    /// Whether an attempt is under way.
    pub(super) fn are_any_open(&self) -> bool {
        self.known.values().any(|known| known.under_way.is_some())
    }

    /// A host with these ranks is lost: its attempts are answered, but for those on a new host. Returns their
    /// ranks.
    pub(super) fn lose(&mut self, blocks: &[Block]) -> Vec<Rank> {
        self.give_up(|rank, known| !known.returns && blocks.iter().any(|block| block.contains(rank)))
    }

    /// The session ends: all attempts are answered. Returns their ranks.
    pub(super) fn end(&mut self) -> Vec<Rank> {
        self.give_up(|_, _| true)
    }

    fn give_up(&mut self, which: impl Fn(Rank, &Known) -> bool) -> Vec<Rank> {
        let mut given_up = Vec::new();
        for (rank, known) in self.known.iter_mut().filter(|(rank, known)| which(**rank, known)) {
            if let Some(number) = known.under_way.take() {
                (known.answered, known.returns) = (number, false);
                given_up.push(*rank);
            }
        }
        given_up
    }
}

impl FrontEndState {
    /// The user asks for a restart of a rank on this host, in a session that is up.
    pub(in crate::machine) fn order_restart(
        &mut self,
        rank: Rank,
        host: HostIndex,
    ) -> Result<RestartOrder, RestartError> {
        if self.members.was_done() {
            return Err(RestartError::Ending);
        } else if !matches!(self.host(host), Some(HostState::Joined)) {
            return Err(RestartError::NotUp);
        } else if self.engines.is_in_program(host) {
            return Err(RestartError::NoAgent);
        } else if self.members.has_detached(rank) {
            return Err(RestartError::Detached);
        }
        // A process that has ended may have its successor already.
        match self.members.has_ended(rank) || self.restarts.is_under_way(rank) {
            true => self.restarts.request(rank),
            false => Err(RestartError::StillRunning),
        }
    }

    /// The user asks for a restart of a rank on this host, which is lost: it is to return, on this machine.
    pub(in crate::machine) fn order_return(
        &mut self,
        rank: Rank,
        place: Option<Spare>,
        lost: &HostSpec,
    ) -> Result<(), RestartError> {
        if self.members.was_done() {
            return Err(RestartError::Ending);
        } else if self.members.has_detached(rank) {
            return Err(RestartError::Detached);
        } else if self.restarts.is_under_way(rank) {
            return Err(RestartError::UnderWay);
        }
        let is_there = |other| self.returns.home(other).is_none_or(|home| home == lost.host);
        // The end of a first member may have been that of its host.
        let leader = lost.blocks.first().map(|block| block.first);
        let leader = leader.filter(|_| self.engines.is_in_program(lost.host));
        let is_lost = |other| self.members.is_lost(other) || leader == Some(other);
        let comes = |other| {
            other == rank
                || is_there(other)
                    && is_lost(other)
                    && !self.members.has_detached(other)
                    && !self.restarts.is_under_way(other)
        };
        let blocks: Vec<Block> = lost.blocks.iter().flat_map(|block| block.parts(comes)).collect();
        let number = self.restarts.return_all(&blocks.iter().flat_map(|block| block.ranks()).collect());
        let place = place.or_else(|| self.spares.next()).unwrap_or_else(|| Spare {
            name: lost.name.clone(),
            user: lost.user.clone(),
            port: lost.port,
        });
        self.returns.want(Wanted { lost: lost.host, place, blocks, number });
        Ok(())
    }

    /// A host is lost: its members come back on a spare, if one is left and none of them has been started again
    /// so often.
    pub(in crate::machine) fn return_by_itself(&mut self, lost: &HostSpec, most: u32) {
        let ranks: Ranks = lost.blocks.iter().flat_map(|block| block.ranks()).collect();
        let first =
            ranks.iter().find(|rank| self.members.is_lost(*rank) && !self.restarts.is_under_way(*rank));
        if self.spares.are_left()
            && self.restarts.next_number(&ranks) <= most
            && let Some(rank) = first
        {
            let ordered = self.order_return(rank, None, lost);
            debug_assert_eq!(ordered, Ok(()), "{rank} is lost");
        }
    }

    /// A new host is in the session, with members of a lost one.
    pub(in crate::machine) fn are_back(&mut self, host: HostIndex, wanted: &Wanted) {
        let ranks = wanted.ranks();
        for rank in ranks.iter() {
            self.restarts.is_up(RestartOrder { rank, number: wanted.number });
        }
        self.returns.are_back(host, &ranks);
    }

    /// A new host has not come up: returns the members of the lost one that are not restarted.
    pub(in crate::machine) fn do_not_return(&mut self, wanted: &Wanted) -> Vec<Rank> {
        let order = |rank| RestartOrder { rank, number: wanted.number };
        wanted.ranks().iter().filter(|rank| self.restarts.answers(order(*rank))).collect()
    }

    /// A host with these members is lost: they are not restarted. Returns those that were to be.
    pub(in crate::machine) fn lose_restarts(&mut self, blocks: &[Block]) -> Vec<Rank> {
        self.restarts.lose(blocks)
    }

    /// The session ends: no member is restarted. Returns those that were to be.
    pub(in crate::machine) fn end_restarts(&mut self) -> Vec<Rank> {
        self.restarts.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANK: Rank = Rank(5);

    fn order(number: u32) -> RestartOrder {
        RestartOrder { rank: RANK, number }
    }

    #[test]
    fn a_request_is_answered_once_and_another_one_is_refused_until_then() {
        let mut requests = RestartRequests::default();
        assert_eq!(requests.request(RANK), Ok(order(1)));
        assert_eq!(requests.request(RANK), Err(RestartError::UnderWay));
        assert!(requests.is_last(RANK, 0) && requests.are_any_open());
        assert!(requests.is_up(order(1)) && !requests.is_up(order(1)) && !requests.are_any_open());
        assert!(requests.is_last(RANK, 1) && !requests.is_last(RANK, 0));
        assert_eq!(requests.request(RANK), Ok(order(2)));
        assert!(requests.answers(order(2)) && !requests.is_up(order(2)));
        assert!(requests.is_last(RANK, 1), "the second attempt has failed");
    }

    #[test]
    fn an_attempt_of_the_agent_is_under_way_until_it_is_answered() {
        let mut requests = RestartRequests::default();
        requests.begins(order(1));
        requests.begins(order(1));
        assert_eq!(requests.request(RANK), Err(RestartError::UnderWay));
        assert!(requests.is_up(order(1)) && !requests.are_any_open());
        requests.begins(order(1));
        assert!(!requests.are_any_open(), "it is repeated");
    }

    #[test]
    fn what_is_given_up_is_not_answered_later() {
        let mut requests = RestartRequests::default();
        assert!(requests.request(RANK).is_ok() && requests.request(Rank(9)).is_ok());
        let host = [Block { first: Rank(4), count: 2, distribution: 0 }];
        assert_eq!((requests.lose(&host), requests.lose(&host)), (vec![RANK], Vec::new()));
        assert!(!requests.is_up(order(1)) && requests.is_last(RANK, 0) && requests.are_any_open());
        assert_eq!((requests.end(), requests.are_any_open()), (vec![Rank(9)], false));
    }
}
