//! The static trees, decided before the first launch.
//!
//! [`Shape`] names them. They exist for comparison and for users who want one; only
//! [`Shape::Greedy`] looks at the cost.

use alloc::collections::VecDeque;
use alloc::vec;
use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::greedy;
use super::tree::Tree;
use crate::cost::Cost;

/// The shape of a tree that is decided in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Shape {
    /// Every host launches one other.
    Chain,
    /// The root launches every other host.
    Flat,
    /// Every host launches up to k others; levels are filled one after the other.
    Kary(NonZeroU32),
    /// Every host launches subtrees of 2^k, 2^(k-1), …, 1 hosts, the largest first.
    Binomial,
    /// Recursive divide and conquer: every host gives the larger half of its remaining hosts to its
    /// next child and keeps the rest, until none are left.
    Rdc,
    /// The tree whose last host is up earliest, if costs are constant and as given.
    Greedy,
}

impl Shape {
    /// The tree of this shape over `hosts` hosts, the root included.
    #[must_use]
    pub fn tree(self, hosts: NonZeroU32, cost: &Cost) -> Tree {
        let n = hosts.get();
        match self {
            Self::Chain => Tree::from_ordered((0..n).map(|node| node.saturating_sub(1)).collect()),
            Self::Flat => Tree::from_ordered((0..n).map(|_| 0).collect()),
            Self::Kary(k) => Tree::from_ordered((0..n).map(|node| node.saturating_sub(1) / k).collect()),
            Self::Binomial => halving(n, |rest| 1 << rest.ilog2()),
            Self::Rdc => halving(n, |rest| rest.div_ceil(2)),
            Self::Greedy => greedy::plan(hosts, cost).0,
        }
    }
}

/// Breadth first: every node gives `piece(rest)` of its remaining hosts to each child in turn; the
/// child itself is one of them.
fn halving(hosts: u32, piece: impl Fn(u32) -> u32) -> Tree {
    let mut parents = vec![0];
    let mut open = VecDeque::from([(0u32, hosts - 1)]);
    while let Some((node, mut rest)) = open.pop_front() {
        while rest > 0 {
            let share = piece(rest);
            rest -= share;
            if share > 1 {
                open.push_back((parents.len() as u32, share - 1));
            }
            parents.push(node);
        }
    }
    Tree::from_ordered(parents)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn parents(shape: Shape, hosts: u32) -> Vec<u32> {
        let tree = shape.tree(NonZeroU32::new(hosts).unwrap(), &Cost::default());
        assert_eq!(tree.hosts(), hosts);
        tree.launches().map(|(parent, _)| parent).collect()
    }

    #[test]
    fn a_single_host_needs_no_launch_in_any_shape() {
        let two = NonZeroU32::new(2).unwrap();
        for shape in [Shape::Chain, Shape::Flat, Shape::Kary(two), Shape::Binomial, Shape::Rdc, Shape::Greedy]
        {
            assert_eq!(parents(shape, 1), []);
        }
    }

    #[test]
    fn chain_flat_and_k_ary_have_the_parents_one_draws() {
        assert_eq!(parents(Shape::Chain, 4), [0, 1, 2]);
        assert_eq!(parents(Shape::Flat, 4), [0, 0, 0]);
        assert_eq!(parents(Shape::Kary(NonZeroU32::new(2).unwrap()), 7), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn eight_hosts_in_a_binomial_tree_are_launched_largest_subtree_first() {
        // The root's children hold 4, 2 and 1 hosts.
        assert_eq!(parents(Shape::Binomial, 8), [0, 0, 0, 1, 1, 2, 4]);
    }

    #[test]
    fn a_full_binomial_tree_and_divide_and_conquer_are_the_same() {
        for power in 0..12 {
            assert_eq!(parents(Shape::Binomial, 1 << power), parents(Shape::Rdc, 1 << power));
        }
        assert_ne!(parents(Shape::Binomial, 12), parents(Shape::Rdc, 12));
    }
}
