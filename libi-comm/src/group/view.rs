//! What a group knows of the session: this process, the tree, and the lost members.

use std::collections::{BTreeMap, BTreeSet};

use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use libi_core::topology::{Branch, Topology};

use super::joining::Joining;
use super::masters::Masters;
use crate::contract::{Address, Adoption};
use crate::error::CommError;
use crate::routes::{Hop, Routes};

/// The link of members that were lost before the session was up. It does not exist, and is cut
/// before the first call.
pub(super) const LOST_LINK: LinkId = LinkId(u32::MAX);

/// What a group knows of the session: this process, the tree, and the lost members.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupView {
    pub(crate) topology: Topology,
    pub(crate) routes: Routes,
    /// Members that were up and are lost.
    pub(crate) lost: Ranks,
    /// Members that take no part in collective calls: absent ones, and lost ones without which calls go
    /// on.
    pub(crate) missing: Ranks,
    /// Links that are closed.
    pub(crate) cut: BTreeSet<LinkId>,
    /// Of these, links behind which members are that may come back, with these members.
    pub(super) severed: BTreeMap<LinkId, Ranks>,
    /// Processes that are back, in the order of their arrival. They become branches with a plan.
    pub(super) joining: Vec<Adoption>,
    /// How the link to the parent is.
    pub(super) way_up: WayUp,
    /// Processes that take the places of lost members.
    pub(super) joining_members: Joining,
    /// Which member is the master.
    pub(super) masters: Masters,
    /// At the top: how many ranks the session has from the next plan on, if these are more, and which are
    /// absent.
    pub(super) grows: Option<(u32, Ranks)>,
    /// At the top: whether the session has ever grown.
    pub(super) has_grown: bool,
    /// Branches that were replaced, each with one of those that have taken their place, in that order.
    pub(super) replaced: Vec<(LinkId, LinkId)>,
}

/// How the link to the parent is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WayUp {
    /// In the tree.
    #[default]
    Works,
    /// Closed: nothing is sent upwards.
    Closed,
    /// With another process that has adopted this one. It is in the tree with the next plan.
    Joins,
}

impl GroupView {
    pub(super) fn new(mut topology: Topology) -> Self {
        let ranks = std::mem::take(&mut topology.lost);
        if !ranks.is_empty() {
            topology.branches.push(Branch { link: LOST_LINK, ranks, local: false });
        }
        let routes = Routes::new(&topology);
        let missing = topology.absent.clone();
        Self { topology, routes, missing, ..Self::default() }
    }

    /// The routes follow from the branches, and from the links of these that are closed.
    pub(super) fn rebuild_routes(&mut self) {
        self.routes = Routes::new(&self.topology);
        for Branch { link, .. } in &self.topology.branches {
            if self.cut.contains(link) && !self.severed.contains_key(link) {
                self.routes.cut(*link);
            }
        }
    }

    /// Collective calls go on without these lost members. Others that are lost since calls have halted take
    /// part until the next plan: the processes above wait for them.
    pub(super) fn leave_out(&mut self, lost: &Ranks) {
        self.missing.add_all(lost);
        let branches = &mut self.topology.branches;
        branches.iter_mut().for_each(|branch| branch.ranks.remove_all(lost));
        let is_left = |branch: &Branch| {
            let Branch { link, ranks, .. } = branch;
            !self.cut.contains(link) || self.severed.contains_key(link) || !ranks.is_empty()
        };
        branches.retain(is_left);
    }

    /// The branches that have members. An agent whose members are all lost has nothing to say in calls, but
    /// stores keys.
    pub(super) fn branches_with_members(&self) -> impl Iterator<Item = &Branch> {
        self.topology.branches.iter().filter(|branch| !branch.ranks.is_empty())
    }

    /// Whether there are members behind a link to a branch.
    pub(super) fn has_members(&self, link: LinkId) -> bool {
        self.branches_with_members().any(|branch| branch.link == link)
    }

    /// The number of members here and below.
    pub(super) fn members_from_here(&self) -> u64 {
        self.here() + self.branches_with_members().map(|branch| branch.ranks.len() as u64).sum::<u64>()
    }

    /// The links to branches that are not lost.
    pub(super) fn live_branches(&self) -> impl Iterator<Item = LinkId> {
        let links = self.topology.branches.iter().map(|branch| branch.link);
        links.filter(|link| !self.cut.contains(link))
    }

    /// The address of this process.
    pub(crate) fn me(&self) -> Address {
        self.topology.me.map_or(Address::FrontEnd, Address::Rank)
    }

    /// The number of members that take part in collective calls.
    pub(super) fn members(&self) -> u64 {
        u64::from(self.topology.size).saturating_sub(self.missing.len() as u64)
    }

    /// 1 if this process is a member, else 0.
    pub(super) fn here(&self) -> u64 {
        u64::from(self.topology.me.is_some())
    }

    /// The link to the parent, if collective calls use it.
    pub(super) fn collective_parent(&self) -> Option<LinkId> {
        (self.topology.has_parent && !self.topology.top).then_some(LinkId::PARENT)
    }

    /// The link in the direction of a member, even if it is closed. `None` for this process itself.
    pub(super) fn link_towards(&self, rank: Rank) -> Option<LinkId> {
        match self.routes.to(Address::Rank(rank)) {
            Hop::Local => None,
            Hop::Link(link) => Some(link),
            Hop::Unreachable => {
                let mut branches = self.topology.branches.iter();
                branches.find(|branch| branch.ranks.contains(rank)).map(|branch| branch.link)
            }
        }
    }

    /// The links with members on both sides: every collective call passes over them.
    pub(super) fn links_between_members(&self) -> impl Iterator<Item = LinkId> {
        let far = |branch: &Branch| branch.ranks.len() as u64;
        let branches = &self.topology.branches;
        let below = self.here() + branches.iter().map(far).sum::<u64>();
        let parent = self.collective_parent().filter(|_| (1..self.members()).contains(&below));
        let between = move |branch: &&Branch| (1..self.members()).contains(&far(branch));
        parent.into_iter().chain(branches.iter().filter(between).map(|branch| branch.link))
    }

    /// The link that leads to a process, or why there is none. `None` for this process itself.
    pub(crate) fn route(&self, to: Address) -> Result<Option<LinkId>, CommError> {
        if let Address::Rank(rank) = to {
            if rank.0 >= self.topology.size {
                return Err(CommError::NoSuchPeer(to));
            }
            if self.topology.absent.contains(rank) {
                return Err(CommError::Absent(rank));
            }
            if self.lost.contains(rank) {
                return Err(lost(rank));
            }
        }
        match (self.routes.to(to), to) {
            (Hop::Local, _) => Ok(None),
            (Hop::Link(link), _) => Ok(Some(link)),
            (Hop::Unreachable, Address::FrontEnd) => Err(CommError::FrontEndLost),
            (Hop::Unreachable, Address::Rank(rank)) => Err(lost(rank)),
        }
    }
}

pub(super) fn lost(rank: Rank) -> CommError {
    CommError::lost([rank].into_iter().collect())
}
