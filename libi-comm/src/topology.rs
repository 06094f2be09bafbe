//! Decides which link leads to whom.

use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;

use crate::contract::Address;

/// Somebody below a process, and everybody below him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The link to him.
    pub link: LinkId,
    /// Who is there.
    pub ranks: Ranks,
    /// Whether he is on this host, and nobody is below him.
    pub local: bool,
}

/// The launch tree, as one process of a session sees it once the session is up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The rank of this process; the front end has none.
    pub me: Option<Rank>,
    /// How many ranks the session has, those included that did not come up.
    pub size: u32,
    /// Who did not come up. They take part in nothing.
    pub absent: Ranks,
    /// Whether there is a link to whoever has started this process.
    pub has_parent: bool,
    /// Whether this process is a further member of its host, whose leader is its parent.
    pub local: bool,
    /// Whether this process is where everybody meets: the one that is above all members and has more than one branch, or
    /// is a member.
    pub top: bool,
    /// Who is below, in the order in which ring and reductions take them.
    pub branches: Vec<Branch>,
}

/// Where something goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// It is here.
    Local,
    /// Over this link.
    Link(LinkId),
    /// There is no way.
    Unreachable,
}

/// Finds the link that leads to a rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    me: Option<Rank>,
    has_parent: bool,
    /// First and last rank of each run below, ascending, and where it is; nowhere, if it is gone.
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

    /// The way to somebody. Whoever is not below is above, and whether he exists is known there.
    pub(crate) fn to(&self, whom: Address) -> Hop {
        let above = if self.has_parent { Hop::Link(LinkId::PARENT) } else { Hop::Unreachable };
        match whom {
            Address::FrontEnd if self.me.is_none() => Hop::Local,
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

    /// A branch is gone.
    pub(crate) fn cut(&mut self, link: LinkId) {
        self.runs.iter_mut().filter(|run| run.2 == Some(link)).for_each(|run| run.2 = None);
    }
}
