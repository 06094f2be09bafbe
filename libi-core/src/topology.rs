//! The launch tree as seen by one process when the session is up: which ranks are below which link.
//!
//! The launch half knows the tree when the session comes up; the communication half routes over it.

use alloc::vec::Vec;

use crate::ids::{LinkId, Rank};
use crate::ranks::Ranks;

/// The members of a session and the links to them, as one process knows them when the session comes
/// up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The rank of this process; `None` for the front end and for the agent of a host.
    pub me: Option<Rank>,
    /// The number of ranks of the session, absent ones included.
    pub size: u32,
    /// The ranks whose launch failed. They take part in nothing.
    pub absent: Ranks,
    /// Whether there is a link to a parent.
    pub has_parent: bool,
    /// Whether this process is a member beside the leader of its host, which is its parent.
    pub local: bool,
    /// Whether this process is the top of the members' tree, where collective calls are decided.
    /// The top is the lowest process above all members that has more than one branch or is itself a
    /// member; the front end, if the session outlives its first host.
    pub top: bool,
    /// The children, in the order in which rings and reductions take them: by the lowest rank of
    /// each branch.
    pub branches: Vec<Branch>,
    /// Ranks that the parent expects below this process, but which have failed before the session
    /// was up.
    pub lost: Ranks,
    /// Whether this process comes while the session is up: it takes the place of a lost member, or is of a
    /// host by which the session grows. Its parent tells it from which call on it takes part.
    pub joins: bool,
}

/// A child of a process, and the subtree below the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The link to the child.
    pub link: LinkId,
    /// The ranks in the subtree, the child included.
    pub ranks: Ranks,
    /// Whether the child is a further member of this host, which has no children.
    pub local: bool,
}

impl Topology {
    /// Whether this process is the front end.
    #[must_use]
    pub fn is_front_end(&self) -> bool {
        !self.has_parent
    }

    /// The rank that stands for the host that this process leads: its own, or the lowest that its
    /// agent has.
    #[must_use]
    pub fn host_rank(&self) -> Option<Rank> {
        let locals = self.branches.iter().filter(|branch| branch.local);
        self.me.or_else(|| locals.filter_map(|branch| branch.ranks.lowest()).min())
    }

    /// The links of this process in the tree.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        let parent = self.has_parent.then_some(LinkId::PARENT);
        parent.into_iter().chain(self.branches.iter().map(|branch| branch.link))
    }
}
