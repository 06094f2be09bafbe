//! The tree of a session that comes up: tells children and the communication half which ranks are
//! below which link. The head of `membership.rs` tells how that is decided.
//!
//! From then on, frames of the communication half travel on the links of the tree, until a link is
//! [cut](Effect::Cut). The driver passes them on: none comes through the node.

use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::{Branch, Topology};
use libi_core::wire::Kind;

use super::{Child, Effect, LinkId, Node, Role};
use crate::failure::Cause;
use crate::machine::membership::RanksBehind;
use crate::machine::message::{Membership, ParentMessage};

impl Node {
    /// The session is up: sends the membership to all children, and the tree to the communication
    /// half. `top` tells whether this node is above all members, or the first node that is; the
    /// front end passes `None`.
    pub(super) fn session_up(
        &mut self,
        absent: Ranks,
        mut below: Ranks,
        top: Option<bool>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if let Some(me) = self.rank() {
            below.remove_all(&[me].into_iter().collect());
        }
        self.own_programs.set_session(self.size, &absent);
        self.start_programs(now, out);
        let mut branches = self.branches(&below, now, out);
        branches.sort_by_key(|branch| branch.ranks.lowest());
        let own = self.rank().map(|_| (LinkId::PARENT, 1));
        if let Some(merge) = self.relay.merge() {
            merge
                .open(own.into_iter().chain(branches.iter().map(|branch| (branch.link, branch.ranks.len()))));
        }
        self.commands.set_branches(&branches);
        let passes_through = branches.len() != 1 || self.options.replaces_master();
        let is_top = top.unwrap_or(passes_through);
        self.orphans.set_top(is_top);
        self.await_orphans(out);
        let ancestors = self.ancestors_of_children();
        for branch in branches.iter().filter(|branch| !branch.local) {
            self.orphans.set_behind(branch.link, branch.ranks.clone());
        }
        for branch in &branches {
            below.remove_all(&branch.ranks);
            let its_top = top.is_none() && !passes_through;
            if !branch.local && !ancestors.is_empty() {
                Self::send(branch.link, Kind::Control, &ParentMessage::Ancestors(ancestors.clone()), out);
            }
            let Some(child) = self.children.get_mut(branch.link) else { continue };
            child.enter_tree();
            if !child.is_running() {
                // Below a new host, all are new.
                let message = if self.has_joined_late() { ParentMessage::Join } else { ParentMessage::Go };
                self.send_membership(branch.link, message, (&absent, &branch.ranks), its_top, out);
            }
        }
        if let Role::Member(parent) = &mut self.role {
            parent.enter_tree();
        }
        out.push(Effect::SessionUp(Topology {
            me: self.rank(),
            size: self.size,
            absent,
            has_parent: !self.is_front(),
            top: is_top,
            local: !self.is_front() && self.leads().is_none(),
            branches,
            lost: below,
            joins: self.has_joined_late(),
        }));
    }

    /// The children in the session, with the ranks behind each. Children that are not expected are
    /// killed.
    fn branches(&mut self, below: &Ranks, now: Instant, out: &mut Vec<Effect>) -> Vec<Branch> {
        let mut behind = RanksBehind::default();
        for (hosts, link) in self.routes.drain() {
            behind.add_blocks(link, self.launcher.specs(hosts).flat_map(|spec| &spec.blocks));
        }
        for (link, child) in self.children.locals() {
            child.rank().into_iter().for_each(|rank| behind.add_member(link, rank));
        }
        let children = &self.children;
        let is_in = |child: &Child| child.is_up() || child.is_running();
        let expected = behind.branches(below, |link| children.get(link).is_some_and(is_in));
        let mut branches = Vec::new();
        for (link, ranks) in expected {
            let Some(child) = self.children.get(link) else { continue };
            if child.first_rank().is_some_and(|rank| ranks.contains(rank)) {
                branches.push(Branch { link, ranks, local: child.host().is_none() });
            } else {
                self.force_end(link, Cause::Cancelled, now, out);
            }
        }
        branches
    }

    /// Sends the membership to a child, as `Go`, `Join` or `Admit`.
    pub(super) fn send_membership(
        &self,
        link: LinkId,
        message: impl Fn(Membership) -> ParentMessage,
        (absent, below): (&Ranks, &Ranks),
        top: bool,
        out: &mut Vec<Effect>,
    ) {
        for part in Membership::in_parts(absent, below, top, (self.size, self.growth.settled())) {
            Self::send(link, Kind::Control, &message(part), out);
        }
    }

    /// Closes a link of the tree for the communication half.
    pub(super) fn cut(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let talks = match (&mut self.role, link) {
            (Role::Member(parent), LinkId::PARENT) => parent.leave_tree(),
            _ => self.children.get_mut(link).is_some_and(Child::leave_tree),
        };
        if talks {
            let reason = self.loss_reason(link);
            self.note_new_hosts_below(link);
            out.push(match self.severs(link, now) {
                Some(own) => Effect::Severed(link, own, reason),
                None => Effect::Cut(link, reason),
            });
            self.adopt_orphans(now, out);
        }
    }

    /// Whether bytes from the parent may still contain a secret. The driver wipes them.
    #[must_use]
    pub fn may_receive_secrets(&self) -> bool {
        self.stage.is_before_up()
    }
}

#[cfg(test)]
mod tests {
    use libi_core::dist::layout::Block;
    use libi_core::ids::{HostIndex, Rank};
    use libi_core::plan::late::{Attempt, Launch};

    use super::*;
    use crate::failure::LaunchTiming;
    use crate::machine::child::{ChildRole, tests as children};
    use crate::machine::message::{ChildMessage, HostSpec};
    use crate::machine::parent_link::tests as parent_link;

    /// The node of host 0, with hosts 1 to 3 behind links 1 to 3, rank 9 here, and host 4 below
    /// host 2.
    fn leader() -> Node {
        let mut node = Node::member(1, String::new(), 1);
        node.size = 10;
        node.role = Role::Member(Box::new(parent_link::leader(0, 0)));
        for number in 1..=4 {
            let block = Block { first: Rank(2 * number - 1), count: 2, distribution: 0 };
            let (host, attempt, name) = (HostIndex(number), Attempt::default(), String::new());
            let spec = HostSpec {
                host,
                attempt,
                name,
                user: None,
                port: None,
                blocks: vec![block],
                below: 0,
                faults: 0,
                restarts: 0,
            };
            node.launcher.accept(vec![spec], node.launcher.estimate(), false);
            let joined = ChildMessage::Joined(host, attempt, LaunchTiming::default());
            node.routes.note(LinkId(if number == 4 { 2 } else { number }), &joined, |_| true);
        }
        for number in 1..=4 {
            let host = (number < 4).then_some(HostIndex(number));
            let leader = |host| ChildRole::Leader(Launch { host, attempt: Attempt::default() });
            let role = host.map_or(ChildRole::Local(Rank(9)), leader);
            let blocks = host.map_or(Vec::new(), |host| node.launcher.spec(host).unwrap().blocks.clone());
            let child = children::joined(role, blocks, Instant::ZERO);
            node.children.add(child, Instant::FAR_FUTURE);
        }
        node
    }

    fn session_up(node: &mut Node, below: &Ranks) -> (Topology, Vec<LinkId>) {
        let mut out = Vec::new();
        node.session_up(Ranks::new(), below.clone(), Some(true), Instant::ZERO, &mut out);
        let killed = out.iter().filter_map(|effect| match effect {
            Effect::Kill(link) => Some(*link),
            _ => None,
        });
        let killed = killed.collect();
        let tree = out.into_iter().find_map(|effect| match effect {
            Effect::SessionUp(tree) => Some(tree),
            _ => None,
        });
        (tree.unwrap(), killed)
    }

    fn branches(tree: &Topology) -> Vec<(u32, String)> {
        tree.branches.iter().map(|branch| (branch.link.0, branch.ranks.to_string())).collect()
    }

    #[test]
    fn each_branch_holds_the_ranks_that_joined_over_it() {
        let (tree, killed) = session_up(&mut leader(), &Ranks::first(10));
        let expected = [(1, "ranks 1-2"), (2, "ranks 3-4, 7-8"), (3, "ranks 5-6"), (4, "rank 9")]
            .map(|(link, ranks)| (link, ranks.to_owned()));
        assert_eq!(branches(&tree), expected);
        assert!(tree.lost.is_empty() && killed.is_empty());
    }

    #[test]
    fn unexpected_children_are_killed_and_missing_ones_are_lost() {
        let mut node = leader();
        node.children.remove(LinkId(3));
        let mut below = Ranks::first(10);
        below.remove_all(&[1, 2, 7, 8].map(Rank).into_iter().collect());
        let (tree, killed) = session_up(&mut node, &below);
        assert_eq!(branches(&tree), [(2, "ranks 3-4".to_owned()), (4, "rank 9".to_owned())]);
        assert_eq!((tree.lost.to_string(), killed), ("ranks 5-6".to_owned(), vec![LinkId(1)]));
    }

    #[test]
    fn a_large_membership_is_split_into_messages() {
        let scattered: Ranks = (0..250_000).map(|number| Rank(u32::MAX - 2 * number)).collect();
        let mut out = Vec::new();
        let node = Node::member(1, String::new(), 1);
        node.send_membership(LinkId(1), ParentMessage::Go, (&scattered, &Ranks::first(7)), true, &mut out);
        assert_eq!(out.len(), 3, "a message that is too long is not sent");
        out.clear();
        let none = Ranks::new();
        node.send_membership(LinkId(1), ParentMessage::Join, (&none, &none), false, &mut out);
        assert_eq!(out.len(), 1);
    }
}
