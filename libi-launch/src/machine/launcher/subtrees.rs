//! Static trees: who launches whom is laid out before the launch.
//!
//! The front end lays out the tree, and every host spec carries the size of its subtree:
//!
//! ```text
//!   3 (below 2)   4 (below 0)   7 (below 0)   5 (below 1)   9 (below 0)   means   3 (4 7)   5 (9)
//! ```
//!
//! A leader launches 3 and 5, in this order, and no other host. After its hello, 3 is given 4 and
//! 7. The queue knows 4 and 7 from then on; before, they are kept [aside](StaticSubtrees). If 3 is
//! given up, its launcher adopts 4 and 7, with their subtrees. If 3 is lost, its launcher adopts
//! its whole subtree.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use libi_core::cost::Cost;
use libi_core::ids::HostIndex;
use libi_core::plan::Shape;

/// The hosts of a static tree that this node's children will launch.
#[derive(Debug, Default)]
pub(super) struct StaticSubtrees {
    /// The subtree of each child that is not up yet, in preorder, each host with the size of its
    /// own subtree.
    children: BTreeMap<HostIndex, Vec<(HostIndex, u32)>>,
    /// The tail of a share that has arrived in part: a child with an incomplete subtree.
    incomplete: Vec<(HostIndex, u32)>,
}

impl StaticSubtrees {
    /// Adds hosts in preorder; returns those that this node launches itself.
    pub(super) fn accept(&mut self, hosts: impl IntoIterator<Item = (HostIndex, u32)>) -> Vec<HostIndex> {
        self.incomplete.extend(hosts);
        let mut own = Vec::new();
        let mut rest = self.incomplete.as_slice();
        while let Some((&(child, below), others)) = rest.split_first()
            && let Some((subtree, behind)) = others.split_at_checked(below as usize)
        {
            if !subtree.is_empty() {
                self.children.insert(child, subtree.to_vec());
            }
            own.push(child);
            rest = behind;
        }
        self.incomplete = rest.to_vec();
        own
    }

    /// Takes over the subtree of a child; returns the hosts that this node launches itself.
    pub(super) fn promote(&mut self, child: HostIndex) -> Vec<HostIndex> {
        let subtree = self.children.remove(&child).unwrap_or_default();
        let incomplete = std::mem::take(&mut self.incomplete);
        let own = self.accept(subtree);
        self.incomplete = incomplete;
        own
    }

    /// Takes the subtree of a child that is up, in preorder.
    pub(super) fn take(&mut self, child: HostIndex) -> Vec<(HostIndex, u32)> {
        self.children.remove(&child).unwrap_or_default()
    }

    /// Drains all hosts of children that are not up.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = HostIndex> + use<> {
        let Self { children, incomplete } = std::mem::take(self);
        children.into_values().flatten().chain(incomplete).map(|(host, _)| host)
    }
}

/// Lays out the hosts in a tree of this shape. The first host, which is up, is left out; the others
/// follow in preorder, each with the size of its subtree.
pub(super) fn lay_out(shape: Shape, cost: &Cost, hosts: &[HostIndex]) -> Vec<(HostIndex, u32)> {
    let Some(count) = u32::try_from(hosts.len()).ok().and_then(NonZeroU32::new) else { return Vec::new() };
    let tree = shape.tree(count, cost);
    let launches: Vec<(u32, u32)> = tree.launches().collect();
    // Parents come before children. From the end, each subtree is complete when it is added to its
    // parent's.
    let mut sizes = vec![1u32; hosts.len()];
    for &(parent, node) in launches.iter().rev() {
        sizes[parent as usize] += sizes[node as usize];
    }
    // From the beginning, each node knows the position of its next child's subtree.
    let mut places = vec![0u32; hosts.len()];
    let mut next = vec![1u32; hosts.len()];
    let mut preorder = vec![(HostIndex(0), 0); hosts.len()];
    for &(parent, node) in &launches {
        let place = places[parent as usize] + next[parent as usize];
        next[parent as usize] += sizes[node as usize];
        places[node as usize] = place;
        preorder[place as usize] = (hosts[node as usize], sizes[node as usize] - 1);
    }
    preorder.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(numbers: &[u32]) -> Vec<HostIndex> {
        numbers.iter().copied().map(HostIndex).collect()
    }

    fn pairs(text: &[(u32, u32)]) -> Vec<(HostIndex, u32)> {
        text.iter().map(|&(host, below)| (HostIndex(host), below)).collect()
    }

    #[test]
    fn a_tree_is_laid_out_in_preorder_over_the_remaining_hosts() {
        let two = Shape::Kary(NonZeroU32::new(2).unwrap());
        // 0 (1 (3 4)  2 (5 6)), with other numbers.
        let tree = lay_out(two, &Cost::default(), &hosts(&[0, 10, 20, 30, 40, 50, 60]));
        assert_eq!(tree, pairs(&[(10, 2), (30, 0), (40, 0), (20, 2), (50, 0), (60, 0)]));
        assert_eq!(lay_out(two, &Cost::default(), &hosts(&[0])), []);
        assert_eq!(lay_out(two, &Cost::default(), &[]), []);
    }

    #[test]
    fn a_child_is_launched_once_its_subtree_is_complete() {
        let mut below = StaticSubtrees::default();
        assert_eq!(below.accept(pairs(&[(1, 2), (3, 0)])), []);
        assert_eq!(below.accept(pairs(&[(4, 0), (2, 0), (5, 1)])), hosts(&[1, 2]));
        assert_eq!(below.children[&HostIndex(1)], pairs(&[(3, 0), (4, 0)]));
        assert_eq!(below.accept(pairs(&[(6, 0), (7, u32::MAX)])), hosts(&[5]));
        assert_eq!(below.promote(HostIndex(1)), hosts(&[3, 4]), "though more is still to come");
        assert_eq!(below.abandon().collect::<Vec<_>>(), hosts(&[6, 7]));
    }
}
