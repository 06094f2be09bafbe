//! The tree of a session that comes up: which ranks are below which link.
//!
//! A node records over which link a host has last reported that it joined. The record of the nodes
//! above may be out of date when the session goes up, because the report of a lost child and `Go`
//! may cross. Therefore the tree is decided from the top. Every node tells each child which ranks
//! the node expects below it. A child that has lost some of them in the meantime counts them as
//! [lost](Topology::lost), and kills children that its parent did not list. All views of the tree
//! thus agree.
//!
//! From then on, frames of the communication half travel on the links of the tree, until a link is
//! [cut](Effect::Cut). The driver passes them on: none comes through the node.

use std::collections::BTreeMap;

use libi_core::ids::HostIndex;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::{Branch, Topology};
use libi_core::wire::Kind;

use super::{Child, Effect, LinkId, Node, Role};
use crate::failure::Cause;
use crate::machine::message::{ChildMessage, Membership, ParentMessage};

/// How many runs of ranks fit into one message.
const RUNS_IN_A_MESSAGE: usize = 100_000;

/// The link over which each host has joined, in runs of consecutive hosts.
#[derive(Debug, Default)]
pub(super) struct HostRoutes {
    /// The first host of each run, with the last one and the link.
    runs: BTreeMap<u32, (u32, LinkId)>,
}

impl HostRoutes {
    fn insert(&mut self, HostIndex(host): HostIndex, link: LinkId) {
        self.remove(HostIndex(host));
        let (mut first, mut last) = (host, host);
        if let Some((&start, &(end, of))) = self.runs.range(..host).next_back()
            && end + 1 == host
            && of == link
        {
            first = start;
        }
        if let Some(next) = host.checked_add(1)
            && let Some(&(end, of)) = self.runs.get(&next)
            && of == link
        {
            self.runs.remove(&next);
            last = end;
        }
        self.runs.insert(first, (last, link));
    }

    fn remove(&mut self, HostIndex(host): HostIndex) {
        let Some((&first, &(last, link))) = self.runs.range(..=host).next_back() else { return };
        if host > last {
            return;
        }
        match host.checked_sub(1).filter(|_| first < host) {
            Some(before) => self.runs.insert(first, (before, link)),
            None => self.runs.remove(&first),
        };
        if host < last {
            self.runs.insert(host + 1, (last, link));
        }
    }

    /// Forgets all hosts behind a link.
    pub(super) fn remove_link(&mut self, link: LinkId) {
        self.runs.retain(|_, (_, of)| *of != link);
    }
}

impl Node {
    /// Records the route to a host from a child's report.
    pub(super) fn note_route(&mut self, link: LinkId, report: &ChildMessage) {
        match report {
            ChildMessage::Joined(host, ..) if self.host_specs.contains_key(host) => {
                self.routes.insert(*host, link);
            }
            ChildMessage::Failed(host, ..) | ChildMessage::Relaunch(host, ..) => self.routes.remove(*host),
            _ => {}
        }
    }

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
        let mut branches = self.branches(&below, now, out);
        branches.sort_by_key(|branch| branch.ranks.lowest());
        for branch in &branches {
            below.remove_all(&branch.ranks);
            let its_top = top.is_none() && branches.len() == 1;
            Self::send_membership(branch.link, &absent, &branch.ranks, its_top, out);
            if let Some(child) = self.children.get_mut(branch.link) {
                child.enter_tree();
            }
        }
        if let Role::Member(parent) = &mut self.role {
            parent.enter_tree();
        }
        self.routes = HostRoutes::default();
        out.push(Effect::SessionUp(Topology {
            me: self.rank(),
            size: self.size,
            absent,
            has_parent: !self.is_front(),
            top: top.unwrap_or(branches.len() != 1),
            local: !self.is_front() && self.leads().is_none(),
            branches,
            lost: below,
        }));
    }

    /// The children in the session, with the ranks behind each. Children that are not expected are
    /// killed.
    fn branches(&mut self, below: &Ranks, now: Instant, out: &mut Vec<Effect>) -> Vec<Branch> {
        let mut runs: BTreeMap<LinkId, Vec<(u32, u32)>> = BTreeMap::new();
        for (&first, &(last, link)) in &self.routes.runs {
            let host_specs = self.host_specs.range(HostIndex(first)..=HostIndex(last));
            let blocks = host_specs.flat_map(|(_, spec)| &spec.blocks);
            runs.entry(link).or_default().extend(blocks.map(|block| (block.first.0, block.count)));
        }
        for (link, child) in self.children.locals() {
            runs.entry(link).or_default().extend(child.rank().map(|rank| (rank.0, 1)));
        }
        runs.retain(|link, _| self.children.get(*link).is_some_and(Child::is_up));
        let mut surplus = in_order(runs.values().flatten().copied().collect());
        surplus.remove_all(below);
        let mut branches = Vec::new();
        for (link, runs) in runs {
            let mut ranks = in_order(runs);
            ranks.remove_all(&surplus);
            let Some(child) = self.children.get(link) else { continue };
            if child.rank().is_some_and(|rank| ranks.contains(rank)) {
                branches.push(Branch { link, ranks, local: child.host().is_none() });
            } else {
                self.force_end(link, Cause::Cancelled, now, out);
            }
        }
        branches
    }

    /// Sends `Go` with the membership to a child.
    fn send_membership(link: LinkId, absent: &Ranks, below: &Ranks, top: bool, out: &mut Vec<Effect>) {
        let (mut absent, mut below) = (parts(absent), parts(below));
        loop {
            let membership = Membership {
                absent: absent.next().unwrap_or_default(),
                below: below.next().unwrap_or_default(),
                top,
                is_last: absent.len() == 0 && below.len() == 0,
            };
            let is_last = membership.is_last;
            Self::send(link, Kind::Control, &ParentMessage::Go(membership), out);
            if is_last {
                return;
            }
        }
    }

    /// Closes a link of the tree for the communication half.
    pub(super) fn cut(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let talks = match (&mut self.role, link) {
            (Role::Member(parent), LinkId::PARENT) => parent.leave_tree(),
            _ => self.children.get_mut(link).is_some_and(Child::leave_tree),
        };
        if talks {
            out.push(Effect::Cut(link));
        }
    }

    /// Whether bytes from the parent may still contain a secret. The driver wipes them.
    #[must_use]
    pub fn may_receive_secrets(&self) -> bool {
        self.stage.is_before_up()
    }
}

/// The set of the ranks in these runs of first rank and length.
fn in_order(mut runs: Vec<(u32, u32)>) -> Ranks {
    runs.sort_unstable();
    let mut ranks = Ranks::new();
    runs.into_iter().for_each(|(first, count)| ranks.add_run(first, count));
    ranks
}

/// Splits a set into parts that fit into a message.
fn parts(ranks: &Ranks) -> impl ExactSizeIterator<Item = Ranks> + use<> {
    let runs = Vec::from(ranks.clone());
    let parts: Vec<_> = runs
        .chunks(RUNS_IN_A_MESSAGE)
        // A part of a sorted list of runs is sorted.
        .map(|part| Ranks::try_from(part.to_vec()).unwrap_or_default())
        .collect();
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use libi_core::dist::layout::Block;
    use libi_core::ids::Rank;
    use libi_core::plan::late::{Attempt, Launch};

    use super::*;
    use crate::machine::child::{ChildRole, tests as children};
    use crate::machine::message::HostSpec;
    use crate::machine::parent_link::tests as parent_link;

    #[test]
    fn routes_are_kept_in_runs_and_the_latest_report_holds() {
        let mut rng = libi_core::sim::rng::Rng::new(1);
        let (mut routes, mut single) = (HostRoutes::default(), BTreeMap::new());
        for _ in 0..3_000 {
            let (host, link) = (rng.below(40) as u32, LinkId(1 + rng.below(3) as u32));
            match rng.below(20) {
                0 => {
                    routes.remove_link(link);
                    single.retain(|_, of| *of != link);
                }
                1..6 => {
                    routes.remove(HostIndex(host));
                    single.remove(&host);
                }
                _ => {
                    routes.insert(HostIndex(host), link);
                    single.insert(host, link);
                }
            }
            let runs = routes.runs.iter();
            let noted: BTreeMap<u32, LinkId> = runs
                .flat_map(|(&first, &(last, link))| (first..=last).map(move |host| (host, link)))
                .collect();
            assert_eq!(noted, single);
            let pairs: Vec<_> = routes.runs.iter().collect();
            assert!(pairs.windows(2).all(|two| two[0].1.0 + 1 < *two[1].0 || two[0].1.1 != two[1].1.1));
        }
    }

    #[test]
    fn the_highest_host_index_has_a_route() {
        let mut routes = HostRoutes::default();
        for host in [u32::MAX, u32::MAX - 1, 0] {
            routes.insert(HostIndex(host), LinkId(1));
        }
        assert_eq!(routes.runs.len(), 2);
        for host in [u32::MAX, u32::MAX - 1, 0] {
            routes.remove(HostIndex(host));
        }
        assert!(routes.runs.is_empty());
    }

    /// The node of host 0, with hosts 1 to 3 behind links 1 to 3, rank 9 here, and host 4 below
    /// host 2.
    fn leader() -> Node {
        let mut node = Node::member(1, String::new(), 1);
        node.size = 10;
        node.role = Role::Member(parent_link::leader(0, 0));
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
            };
            node.host_specs.insert(host, spec);
            node.routes.insert(host, LinkId(if number == 4 { 2 } else { number }));
        }
        for number in 1..=4 {
            let host = (number < 4).then_some(HostIndex(number));
            let leader = |host| ChildRole::Leader(Launch { host, attempt: Attempt::default() });
            let role = host.map_or(ChildRole::Local(Rank(9)), leader);
            let blocks = host.map_or(Vec::new(), |host| node.host_specs[&host].blocks.clone());
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
        Node::send_membership(LinkId(1), &scattered, &Ranks::first(7), true, &mut out);
        assert_eq!(out.len(), 3, "a message that is too long is not sent");
        out.clear();
        Node::send_membership(LinkId(1), &Ranks::new(), &Ranks::new(), false, &mut out);
        assert_eq!(out.len(), 1);
    }
}
