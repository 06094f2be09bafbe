//! Further hosts in a session that is up.
//!
//! Only where calls [go on](crate::options::OnLoss::Continue), since they do from some call on with the new
//! members. The new hosts are launched as those before were, by the top of the members' tree, which gives
//! parts of them to others that are up, and to new ones. They take part together, once all have a verdict:
//!
//! ```text
//!   front end                  the top, and all other nodes             new hosts
//!     | -- Grow, to all -----------> | they know the programs, and may launch |
//!     | -- Share, to the top ------> | launches  ---------------------------> |
//!     | <-- Joined, Failed --------- | <------------------------------ Joined |
//!     | -- StopLaunching, to all --> | if the time is over, or all of them are needed and one has failed
//!     | -- Admit, to all ----------> | Joins at the parents of new hosts      |
//!     |                              | -- Join -----------------------------> | up
//! ```
//!
//! A host is *new* from its `Share` on until `Admit` has come to the node that looks at it: its index is not
//! below the number of settled ones. For new hosts the session is not up yet, at every node: their launches
//! are retried, and a loss has another launch as its consequence. For all others nothing changes.
//!
//! | state of a node | event | effect | next state |
//! |---|---|---|---|
//! | settled | `Grow` | passed on | growing |
//! | growing | `Share` | launched, or given to children | growing |
//! | growing | `StopLaunching` | passed on; new hosts that are not up are ended | stopped |
//! | growing | the parent is lost, and another one may be found | the same, also if they do not join | stopped |
//! | any | `Admit` | passed on; new hosts that have joined are in the tree, all others are ended | settled |
//!
//! A node that has lost its parent may miss `Admit`, and launches nothing: new hosts that have not joined are
//! launched by the node above the lost one. The next parent repeats the last `Admit`, by which new hosts that have
//! joined are in the session, or are ended because others are launched in their places.
//!
//! | state of the front end | event | effect | next state |
//! |---|---|---|---|
//! | settled | request | `Grow`, `Share` | growing |
//! | growing, stopped | request | refused | |
//! | growing | all new hosts have joined or failed | `Admit`, notice | settled |
//! | growing | one has failed, and [all](super::Policy::All) have to join | `StopLaunching` | stopped |
//! | growing | the time is over | `StopLaunching` | stopped |
//! | growing | the top, which launches, is lost or cannot launch | its new hosts have failed | growing |
//! | stopped | all have joined or failed, or twice `kill_grace` has passed | `Admit`, notice | settled |
//! | growing, stopped | the session ends | notice: not grown | settled |
//!
//! Ranks and indices of hosts that do not come up stay absent, and are given to no others. A host that is
//! lost after `Admit`, even before its members take part, is one that the session has lost.
//!
//! The links of new hosts become direct by a secret that all leaders derive from the one with which
//! [orphans](super::orphans) find a parent; they stay in their channels where there is none.

use std::ops::Range;
use std::time::Duration;

use libi_core::ids::{HostIndex, LinkId, Rank};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use serde::{Deserialize, Serialize};

use super::host_table::Policy;
use super::message::{HostSpec, Program};
use crate::failure::Failure;

/// Hosts that are to join a session that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrowthRequest {
    /// The hosts. Their ranks, and the programs that these run, are counted from 0 in this request.
    pub hosts: Vec<HostSpec>,
    /// The programs.
    pub programs: Vec<Program>,
    /// The number of members.
    pub size: u32,
    /// How many hosts have to join: all, or at least so many of these.
    pub policy: Policy,
    /// When every host has to have its verdict.
    pub deadline: Duration,
}

/// By what a session has grown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// The index of the first new host.
    pub first_host: HostIndex,
    /// The number of new hosts, with those that have not come up.
    pub hosts: u32,
    /// The rank of the first new member.
    pub first_rank: Rank,
    /// The number of new members, with those that have not come up.
    pub ranks: u32,
}

impl Grown {
    /// The indices of the new hosts.
    #[must_use]
    pub fn host_range(&self) -> Range<u32> {
        self.first_host.0..self.first_host.0 + self.hosts
    }

    /// The ranks of the new members.
    #[must_use]
    pub fn rank_range(&self) -> Range<u32> {
        self.first_rank.0..self.first_rank.0 + self.ranks
    }
}

/// Why a session does not grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum GrowthError {
    /// The session is not up yet.
    #[error("the session is not up")]
    NotUp,
    /// The session ends, or all of its members have ended.
    #[error("the session ends")]
    Ending,
    /// Calls do not go on without lost members, nor with new ones.
    #[error("calls do not go on with other members in this session: see OnLoss::Continue")]
    NotContinuing,
    /// Hosts of this back-end are launched at the beginning alone.
    #[error("hosts of this back-end are all launched together, by one start")]
    AllAtOnce,
    /// The session uses no remote shell, and one of the hosts is another machine.
    #[error("all hosts of this session are this machine, and the new ones are not")]
    OtherMachines,
    /// The last request is not answered yet.
    #[error("the session is growing already")]
    UnderWay,
    /// The session would have too many hosts, members or programs.
    #[error("the session would have too many hosts, members or programs")]
    TooLarge,
    /// Too few of the new hosts have joined. The states of these hosts say why.
    #[error("too few of the new hosts have joined")]
    TooFew(Grown),
}

/// The session, as it is to become. To all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowOrder {
    /// The number of members, new ones included.
    pub size: u32,
    /// The number of hosts without the new ones.
    pub settled: u32,
    /// All programs, those of new hosts included.
    pub programs: Vec<Program>,
}

/// What a node knows of growth. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Hosts from this index on are new, once the session is up.
    settled: u32,
    is_launching: bool,
    /// How many hosts it came up with, and how many members it has without new ones.
    launched: u32,
    size: u32,
    began: Instant,
    /// At the front end: the child that launches all new hosts, if the front end does not. They are below it.
    pub(super) top: Option<(LinkId, HostIndex)>,
    /// Whether the session has ever grown, or was to, as far as this node knows.
    pub(super) has_grown: bool,
    /// All ranks that did not come up.
    pub(super) absent: Ranks,
    /// At the front end: why the top does not launch hosts, if it has said so.
    pub(super) why_not: Option<Failure>,
}

impl Growth {
    /// Whether a host is not in the session yet, which is up.
    pub(super) fn is_new(&self, host: HostIndex) -> bool {
        host.0 >= self.settled
    }

    /// Whether new hosts are launched.
    pub(super) fn is_launching(&self) -> bool {
        self.is_launching
    }

    /// New hosts are launched from now on.
    pub(super) fn begin(&mut self, settled: u32, now: Instant) {
        self.began = now;
        (self.settled, self.is_launching, self.has_grown) = (settled, true, true);
        self.why_not = None;
    }

    /// No more hosts are launched. Returns whether they were.
    pub(super) fn stop(&mut self) -> bool {
        std::mem::take(&mut self.is_launching)
    }

    /// The session has so many members and hosts, none of which is new any more, and these ranks are absent.
    pub(super) fn settle(&mut self, (size, hosts): (u32, u32), absent: &Ranks) {
        self.size = size;
        if self.settled == 0 {
            self.launched = hosts;
        }
        (self.settled, self.is_launching) = (hosts, false);
        self.absent.clone_from(absent);
    }

    /// Whether a host has come, or comes, when the session was up.
    pub(super) fn is_late(&self, host: HostIndex) -> bool {
        self.settled > 0 && host.0 >= self.launched
    }

    /// The first host that has come, or comes, when the session was up.
    pub(super) fn first_late(&self) -> HostIndex {
        HostIndex(self.launched)
    }

    /// When new hosts began to be launched.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// The number of members and of hosts of the session, without new ones.
    pub(super) fn settled_size(&self) -> (u32, u32) {
        (self.size, self.settled)
    }

    pub(super) fn settled(&self) -> u32 {
        self.settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_new_until_they_are_settled() {
        let mut growth = Growth::default();
        growth.settle((8, 4), &Ranks::new());
        assert!(
            !growth.is_new(HostIndex(3))
                && growth.is_new(HostIndex(4))
                && !growth.stop()
                && !growth.has_grown
        );
        growth.begin(4, Instant::ZERO);
        assert!(
            growth.is_launching()
                && growth.has_grown
                && growth.stop()
                && !growth.stop()
                && growth.is_new(HostIndex(4))
        );
        growth.settle((12, 6), &Ranks::new());
        assert!(!growth.is_new(HostIndex(5)) && growth.settled_size() == (12, 6));
        assert!(growth.is_late(HostIndex(4)) && !growth.is_late(HostIndex(3)));
    }
}
