//! What a group does when the session grows: when it has more ranks from a collective call on.
//!
//! The launch half starts new hosts, each below a process of the session. Every driver
//! [says](crate::Event::Grows) how many ranks the session then has, and the driver of the process above a
//! new host says that the host [is there](crate::Event::Joins). New members are admitted by a
//! [plan](super::survival), like [members that take the places of lost ones](super::joining):
//!
//! ```text
//!   hosts below    new host              process above it                      top
//!     |              |                     |                                     | Grows: the next round
//!     |              |                     | Joins: arriving, TreeChanged -----> |
//!     |              |                     | <----------------------------- Halt |
//!     |              |                     | Halted: these members join, and     |
//!     |              |                     |   so many calls were made --------> | the first call with
//!     |              | <---------- Welcome | <--------------------------- Resume | so many ranks
//!     | <--- Welcome | (calls, messages, keys)                                   |
//! ```
//!
//! | state of a new rank | event | next state |
//! |---|---|---|
//! | unknown | the top makes a plan, and its driver has told of the growth | admitted if it is reported; else lost |
//! | unknown | `Joins`, or a report of it, before the top knows of the growth | unknown: it is in the report of the round that the growth starts |
//! | lost | `Joins` at the process above it | arriving, as others [in the places of lost members](super::joining) |
//! | arriving, admitted | | see [`joining`](super::joining) |
//!
//! # The call from which on the session is larger
//! It is one later than the first call that no member had made when calls halted. A member that waits for
//! the result of each call has then not completed the call between, and makes it with the number of ranks
//! that it knows. It learns of the growth with the result of that call (`Effect::Grown`, `Effect::Lost`
//! of new ranks that do not take part, `Effect::Joined`), so at the same place of its program as all
//! others. A program with several calls in progress, or one that cancels calls, may have made later ones:
//! where their arguments are for another number of ranks, they fail.
//!
//! As long as not all members have completed the earlier calls, [`Growths`] says how many ranks each call
//! has. They are part of [`Joins`], so they are in every plan, and an orphan that has missed one hears of
//! them in the next. Members that join by later plans begin no earlier than with the call of the last
//! growth. Where the session has grown, the top admits all that are reported or none, since members of
//! several growths may be behind one link, and their first call is the same.
//!
//! | process | learns how many ranks there are |
//! |---|---|
//! | the top | from its driver; in force with its next plan |
//! | members, agents | from plans |
//! | new processes | from `Welcome` |
//! | a front end above the top | from its driver at once, or with `Joined` from the top. New members are lost there until then |
//!
//! # Failures while a host arrives
//! | what is lost | when | what follows |
//! |---|---|---|
//! | the new host, with all below | before the plan with it | its members are lost from the plan on |
//! | | after | they are lost like others |
//! | its leader, and hosts below it come back | before it was a branch | these arrive like new hosts, once they have said that they wait |
//! | | after | orphans: they are branches with the next plan, and in it if they take part in it |
//! | the process above it | at any time | it is an orphan |
//! | the process that would pass the plan on | | the report is repeated in the next round, see `joining` |
//!
//! A new process that is an orphan before its `Welcome` has no part in any plan. It says so to the process
//! that adopts it, with the members that wait there and below (`AwaitsWelcome`), answers each `Halt` with
//! these, and is welcomed by the plan with them. Hosts that have come below it since are reported after that.
//!
//! # Keys
//! The leader of a new host is a server of keys. Its `Welcome` says how many fences the process above it
//! had passed, and which versions it had seen. Fences of calls before its first pass there as they pass
//! an agent that has no members. It looks up what it does not have.

use libi_core::loss::Loss;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::Topology;
use serde::{Deserialize, Serialize};

use super::joining::Joins;
use super::survival::Plan;
use super::{Group, GroupView};
use crate::contract::{Address, Call, Effect};
use crate::error::CommError;

/// The calls before `first` have so many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Growth {
    first: u64,
    before: u32,
}

/// How the session has grown, as long as earlier calls are in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Growths(Vec<Growth>);

impl Growths {
    /// The session has had so many ranks before this call.
    pub(super) fn add(&mut self, first: u64, before: u32) {
        self.0.push(Growth { first, before });
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranks a call has, if that is not the number after all of these.
    pub(super) fn size_in(&self, nth: u64) -> Option<u32> {
        self.0.iter().filter(|growth| nth < growth.first).map(|growth| growth.before).min()
    }

    /// The first call after all of these.
    pub(super) fn last(&self) -> u64 {
        self.0.iter().map(|growth| growth.first).max().unwrap_or_default()
    }

    /// All members have completed the calls before this number.
    pub(super) fn forget_before(&mut self, completed: u64) {
        self.0.retain(|growth| growth.first >= completed);
    }
}

/// The ranks of a session from one number on to another.
fn from(first: u32, size: u32) -> Ranks {
    let mut ranks = Ranks::new();
    ranks.add_run(first, size.saturating_sub(first));
    ranks
}

impl GroupView {
    /// How many ranks a call has.
    pub(super) fn size_in(&self, nth: u64) -> u32 {
        self.joins().growths.size_in(nth).unwrap_or(self.topology.size)
    }

    /// At the top: how many ranks the session has from the next plan on, and which are absent.
    pub(super) fn next_size(&self) -> (u32, &Ranks) {
        let Topology { size, absent, .. } = &self.topology;
        self.grows.as_ref().map_or((*size, absent), |(size, absent)| (*size, absent))
    }

    /// Those that come with the next plan, or are lost from then on.
    pub(super) fn next_ranks(&self) -> Ranks {
        let (size, absent) = self.next_size();
        let mut new = from(self.topology.size, size);
        new.remove_all(absent);
        new
    }

    /// The session has as many ranks as a plan says.
    pub(super) fn grow(&mut self, plan: &Plan) {
        let before = self.topology.size;
        if plan.size <= before {
            return;
        }
        self.has_grown = true;
        let new = from(before, plan.size);
        self.topology.size = plan.size;
        self.topology.absent.clone_from(&plan.absent);
        self.missing.add_all(&new.intersection(&plan.absent));
        self.lost.add_all(&new.intersection(&plan.missing));
        self.grows.take_if(|(size, _)| *size <= plan.size);
    }

    /// In a front end above the top, where all members are in one branch.
    fn grow_at_front_end(&mut self, size: u32, absent: &Ranks) {
        let mut new = from(self.topology.size, size);
        new.remove_all(absent);
        self.topology.size = size;
        self.topology.absent.clone_from(absent);
        self.lost.add_all(&new);
        if let [branch] = &mut self.topology.branches[..] {
            branch.ranks.add_all(&new);
        }
        self.rebuild_routes();
    }

    /// Whether this is the front end, and the top is below it.
    pub(super) fn is_above_top(&self) -> bool {
        self.topology.is_front_end() && !self.topology.top
    }
}

impl Group {
    /// The driver says how many ranks the session has from now on.
    pub(super) fn grows(&mut self, size: u32, absent: &Ranks, now: Instant, out: &mut Vec<Effect>) {
        if !self.collective.continues() || size <= self.view.next_size().0 {
            return;
        }
        if self.view.topology.top {
            self.view.grows = Some((size, absent.clone()));
            self.continue_without_lost(now, out);
        } else if self.view.is_above_top() {
            self.view.grow_at_front_end(size, absent);
        }
    }

    /// The top says so, to the front end above it.
    pub(super) fn hears_of_growth(&mut self, size: u32, absent: &Ranks) {
        if size > self.view.topology.size {
            self.view.grow_at_front_end(size, absent);
        }
    }

    /// Those of these ranks that the program knows of.
    pub(super) fn known_to_program(&self, ranks: &Ranks) -> Ranks {
        ranks.intersection(&Ranks::first(self.told_size))
    }

    /// Tells the program that the session has grown, ahead of the results since `before`: with that of
    /// its last call with fewer ranks.
    pub(super) fn announce_growth(&mut self, before: usize, out: &mut Vec<Effect>) {
        let size = match self.view.topology.me {
            _ if self.told_size == self.view.topology.size => return,
            Some(_) => self.view.size_in(self.collective.completed_here()),
            None => self.view.topology.size,
        };
        if size <= self.told_size {
            return;
        }
        let absent = self.view.topology.absent.intersection(&Ranks::first(size));
        let mut news = vec![Effect::Grown { size, absent }];
        let lost = from(self.told_size, size).intersection(&self.view.lost);
        if !self.view.is_above_top() {
            self.tell_lost(lost, &mut news);
        }
        self.told_size = size;
        self.announce(&mut news);
        out.splice(before..before, news);
    }

    /// Tells the program of lost members, and how they were lost, as far as it is known.
    pub(super) fn tell_lost(&self, mut lost: Ranks, out: &mut Vec<Effect>) {
        for Loss { ranks, reason } in self.reasons(&lost) {
            lost.remove_all(&ranks);
            out.push(Effect::Lost(ranks, Some(reason)));
        }
        out.extend((!lost.is_empty()).then_some(Effect::Lost(lost, None)));
    }

    /// Why a message can neither be sent nor received yet: the program does not know of its peer.
    pub(super) fn not_there(&self, call: &Call) -> Option<CommError> {
        let (Call::Send { to: peer, .. } | Call::Receive { from: peer, .. }) = call else { return None };
        let is_there = !matches!(peer, Address::Rank(rank) if rank.0 >= self.told_size);
        (!is_there).then_some(CommError::NoSuchPeer(*peer))
    }
}

impl Joins {
    /// Of the members that are missing in a call, those that it has ranks for.
    pub(crate) fn clipped(&self, missing: Ranks, nth: u64) -> Ranks {
        match self.growths.size_in(nth) {
            Some(size) => missing.intersection(&Ranks::first(size)),
            None => missing,
        }
    }
}

#[cfg(test)]
mod tests;
