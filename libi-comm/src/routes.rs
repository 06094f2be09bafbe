//! Decides which link leads to which rank.

use libi_core::ids::{LinkId, Rank};
use libi_core::topology::Topology;

use crate::contract::Address;

/// The next hop towards a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    /// This process is the destination.
    Local,
    /// The link to use.
    Link(LinkId),
    /// There is no route.
    Unreachable,
}

/// Finds the link that leads to a rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    me: Option<Rank>,
    has_parent: bool,
    /// The first and the last rank of each run of ranks below, ascending, with the link that leads
    /// there; `None` if that link is closed.
    runs: Vec<(u32, u32, Option<LinkId>)>,
}

impl Routes {
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut runs = Vec::new();
        for branch in &topology.branches {
            runs.extend(branch.ranks.runs().map(|(first, last)| (first.0, last.0, Some(branch.link))));
        }
        runs.sort_unstable();
        Self { me: topology.me, has_parent: topology.has_parent, runs }
    }

    /// The next hop towards a process. Ranks that are not below are routed to the parent; the top
    /// knows whether they exist.
    pub(crate) fn to(&self, whom: Address) -> Hop {
        let above = if self.has_parent { Hop::Link(LinkId::PARENT) } else { Hop::Unreachable };
        match whom {
            Address::FrontEnd if !self.has_parent => Hop::Local,
            Address::FrontEnd => above,
            Address::Rank(rank) if self.me == Some(rank) => Hop::Local,
            Address::Rank(rank) => {
                let at = self.runs.partition_point(|&(_, last, _)| last < rank.0);
                match self.runs.get(at) {
                    Some(&(first, _, link)) if first <= rank.0 => link.map_or(Hop::Unreachable, Hop::Link),
                    _ => above,
                }
            }
        }
    }

    /// The link to a branch is closed.
    pub(crate) fn cut(&mut self, link: LinkId) {
        self.runs.iter_mut().filter(|run| run.2 == Some(link)).for_each(|run| run.2 = None);
    }
}
