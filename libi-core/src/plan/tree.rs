//! Launch trees and their schedules.
//!
//! A [`Tree`] says which host launches which, a [`Schedule`] when each launch is started and when
//! its host is up under one [`Cost`]. Nodes are numbered so that a parent comes before its children
//! and launches them in the order of their numbers; one array of parents is then the whole tree.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use super::as_index;
use crate::cost::Cost;
use crate::time::Instant;

/// What node 0 of a tree is, which is up when the launch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Root {
    /// The first host.
    #[default]
    Host,
    /// A front end, which is none of the hosts: host i is node i + 1.
    FrontEnd {
        /// How many launches it may have in flight; `None` does not limit them.
        launches: Option<NonZeroU32>,
    },
}

impl Root {
    /// Whether node 0 is no host.
    #[must_use]
    pub fn is_front_end(self) -> bool {
        matches!(self, Self::FrontEnd { .. })
    }

    /// The number of hosts in a tree of so many nodes.
    #[must_use]
    pub fn hosts(self, nodes: u32) -> u32 {
        nodes - u32::from(self.is_front_end())
    }

    /// The number of nodes of a tree over so many hosts.
    #[must_use]
    pub fn nodes(self, hosts: NonZeroU32) -> NonZeroU32 {
        hosts.saturating_add(u32::from(self.is_front_end()))
    }
}

/// A launch tree. Node 0 is the root, which is up when the launch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// `parents[i] < i` for every node but the root, whose entry is 0.
    parents: Vec<u32>,
}

/// The parents given do not describe a launch tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A tree has at least its root.
    #[error("a launch tree has at least one node")]
    Empty,
    /// A node's parent must come before it.
    #[error("node {node} names {parent} as its parent; a parent comes before its children")]
    ParentNotBefore {
        /// The node at fault.
        node: u32,
        /// What it names as its parent.
        parent: u32,
    },
    /// Nodes are counted in 32 bits.
    #[error("{0} nodes are more than a launch tree can number")]
    TooLarge(usize),
}

impl Tree {
    /// The tree in which node `i` is launched by `parents[i]`; the root's own entry is ignored.
    ///
    /// # Errors
    /// When there is no node, or a parent does not come before its child.
    pub fn from_parents(mut parents: Vec<u32>) -> Result<Self, TreeError> {
        if u32::try_from(parents.len()).is_err() {
            return Err(TreeError::TooLarge(parents.len()));
        }
        *parents.first_mut().ok_or(TreeError::Empty)? = 0;
        match (1..).zip(&parents[1..]).find(|&(node, &parent)| parent >= node) {
            Some((node, &parent)) => Err(TreeError::ParentNotBefore { node, parent }),
            None => Ok(Self { parents }),
        }
    }

    /// For planners, which number their nodes in order by construction.
    pub(super) fn from_ordered(parents: Vec<u32>) -> Self {
        debug_assert!(Self::from_parents(parents.clone()).is_ok());
        Self { parents }
    }

    /// This tree with a new root, which launches the present one and nothing else.
    #[must_use]
    pub fn below_front_end(&self) -> Self {
        let below = self.parents.iter().skip(1).map(|parent| parent + 1);
        Self::from_ordered([0, 0].into_iter().chain(below).collect())
    }

    /// The number of nodes, the root included.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.parents.len() as u32 // from_parents refuses more
    }

    /// The launcher of this node; `None` for the root and for a node that is not in the tree.
    #[must_use]
    pub fn parent(&self, node: u32) -> Option<u32> {
        if node == 0 { None } else { self.parents.get(as_index(node)).copied() }
    }

    /// Every launch as (launcher, node); the launches of one launcher are in order.
    pub fn launches(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        self.parents.iter().copied().zip(0..).skip(1)
    }

    /// The number of launches that each node makes.
    #[must_use]
    pub fn children(&self) -> Vec<u32> {
        let mut children = vec![0; self.parents.len()];
        for (parent, _) in self.launches() {
            children[as_index(parent)] += 1;
        }
        children
    }

    /// The largest number of launches any node makes.
    #[must_use]
    pub fn max_children(&self) -> u32 {
        self.children().into_iter().max().unwrap_or(0)
    }

    /// The number of launches between the root and the node furthest from it.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let mut depth = vec![0u32; self.parents.len()];
        for (parent, node) in self.launches() {
            depth[as_index(node)] = depth[as_index(parent)] + 1;
        }
        depth.into_iter().max().unwrap_or(0)
    }

    /// The schedule if every launch costs the same.
    #[must_use]
    pub fn schedule(&self, cost: &Cost) -> Schedule {
        let mut ready = vec![Instant::ZERO; self.parents.len()];
        let mut slot = ready.clone(); // when each node is free for its next launch
        let mut started = ready.clone();
        for (parent, node) in self.launches() {
            let (parent, node) = (as_index(parent), as_index(node));
            started[node] = slot[parent];
            slot[parent] += cost.seq;
            ready[node] = started[node] + cost.rem;
            slot[node] = ready[node];
        }
        Schedule { started, ready, constant: cost.constant }
    }
}

/// When each launch of a tree is started, and when its host is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) started: Vec<Instant>,
    pub(crate) ready: Vec<Instant>,
    pub(crate) constant: Duration,
}

impl Schedule {
    /// When the node's launch is started; the root's is at the beginning of time.
    #[must_use]
    pub fn started(&self, node: u32) -> Option<Instant> {
        self.started.get(as_index(node)).copied()
    }

    /// When the node can launch others.
    #[must_use]
    pub fn ready(&self, node: u32) -> Option<Instant> {
        self.ready.get(as_index(node)).copied()
    }

    /// The node that is up last: the first such, if several are.
    #[must_use]
    pub fn last(&self) -> u32 {
        let last = self.ready.iter().zip(0u32..).max_by_key(|&(&at, node)| (at, core::cmp::Reverse(node)));
        last.map_or(0, |(_, node)| node)
    }

    /// The part of the launch time that does not depend on the tree.
    #[must_use]
    pub fn constant(&self) -> Duration {
        self.constant
    }

    /// How long the whole launch takes, its constant part included.
    #[must_use]
    pub fn launch_time(&self) -> Duration {
        let last = self.ready.iter().copied().max().unwrap_or_default();
        last.since(Instant::ZERO).saturating_add(self.constant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn parents_must_come_before_their_children() {
        assert_eq!(Tree::from_parents(vec![]), Err(TreeError::Empty));
        assert_eq!(Tree::from_parents(vec![0, 0, 2]), Err(TreeError::ParentNotBefore { node: 2, parent: 2 }));
    }

    #[test]
    fn a_tree_below_a_front_end_is_the_same_one_launch_later() {
        let (tree, cost) = (Tree::from_parents(vec![0, 0, 0, 1]).unwrap(), Cost::new(MS(7), MS(100)));
        let below = tree.below_front_end();
        assert_eq!(below.launches().collect::<Vec<_>>(), [(0, 1), (1, 2), (1, 3), (2, 4)]);
        for node in 0..4 {
            let at = tree.schedule(&cost).ready(node).unwrap() + MS(100);
            assert_eq!(below.schedule(&cost).ready(node + 1), Some(at));
        }
        let lone = Tree::from_parents(vec![0]).unwrap().below_front_end();
        assert_eq!(lone.launches().collect::<Vec<_>>(), [(0, 1)]);
    }

    #[test]
    fn a_launcher_starts_its_children_seq_apart_and_each_is_up_after_rem() {
        let tree = Tree::from_parents(vec![0, 0, 0, 1]).unwrap();
        let schedule = tree.schedule(&Cost::new(MS(7), MS(100)).with_constant(MS(1)));
        let ready: Vec<_> = (0..4).map(|n| schedule.ready(n).unwrap().since(Instant::ZERO)).collect();
        assert_eq!(ready, [MS(0), MS(100), MS(107), MS(200)]);
        assert_eq!(schedule.last(), 3);
        assert_eq!(schedule.launch_time(), MS(201));
        assert_eq!((tree.depth(), tree.max_children(), tree.hosts()), (2, 2, 4));
    }
}
