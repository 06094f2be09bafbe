//! Shares: which hosts a child is given after its hello, and what happens to the hosts that a node
//! is given.
//!
//! By default the [late-commit queue](libi_core::plan::late) decides when the child is up. In a
//! static tree, the front end has laid out the tree, and every host spec carries the size of its
//! subtree:
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
use libi_core::plan::estimate::Estimate;
use libi_core::plan::late::{Attempt, Launch, Share};
use libi_core::plan::{HostRuns, Shape};
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, LinkId, Node, Role};
use crate::machine::message::{HostSpec, ParentMessage};

/// How many hosts fit into one message.
const HOSTS_IN_A_MESSAGE: usize = 2_000;

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
    fn accept(&mut self, hosts: impl IntoIterator<Item = (HostIndex, u32)>) -> Vec<HostIndex> {
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
    fn promote(&mut self, child: HostIndex) -> Vec<HostIndex> {
        let subtree = self.children.remove(&child).unwrap_or_default();
        let incomplete = std::mem::take(&mut self.incomplete);
        let own = self.accept(subtree);
        self.incomplete = incomplete;
        own
    }

    /// Drains all hosts of children that are not up.
    fn abandon(&mut self) -> impl Iterator<Item = HostIndex> + use<> {
        let Self { children, incomplete } = std::mem::take(self);
        children.into_values().flatten().chain(incomplete).map(|(host, _)| host)
    }
}

/// Lays out the hosts in a tree of this shape. The first host, which is up, is left out; the others
/// follow in preorder, each with the size of its subtree.
fn lay_out(shape: Shape, cost: &Cost, hosts: &[HostIndex]) -> Vec<(HostIndex, u32)> {
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

impl Node {
    /// Gives a child that has said hello its share of hosts.
    pub(super) fn give(&mut self, link: LinkId, launch: Launch, now: Instant, out: &mut Vec<Effect>) {
        let order = match &self.role {
            // Other nodes can launch, but the first leader has too few resources for all hosts.
            Role::FrontEnd(front) if front.launchers().lack_resources() && front.static_tree().is_none() => {
                None
            }
            // Only the front end launches.
            Role::FrontEnd(front) if front.launchers().is_front_end() => Some(Vec::new()),
            // The front end launches only the first host; that leader gets all others.
            Role::FrontEnd(front) => {
                let open = self.host_specs.keys().copied().filter(|host| !front.has_given_up(*host));
                let others = open.filter(|host| *host != launch.host);
                match front.static_tree() {
                    None => Some(others.map(|host| (host, 0)).collect()),
                    Some((shape, cost)) => {
                        let hosts: Vec<_> = std::iter::once(launch.host).chain(others).collect();
                        Some(lay_out(shape, cost, &hosts))
                    }
                }
            }
            Role::Member(_) if self.options.is_static() => {
                Some(self.subtrees.children.remove(&launch.host).unwrap_or_default())
            }
            Role::Member(_) if !self.health.children_may_launch() => Some(Vec::new()),
            Role::Member(_) => None,
        };
        let share = match &order {
            Some(hosts) => {
                let hosts: HostRuns = hosts.iter().map(|(host, _)| *host).collect();
                // If the first leader is lost, the front end goes through all hosts anyway.
                let kept = if self.is_front() { HostRuns::new() } else { hosts };
                self.queue.child_ready_with(launch, now, kept)
            }
            None if self.health.is_out_of_resources() => self.queue.child_ready_with_all(launch, now),
            None => self.queue.child_ready(launch, now),
        };
        let Ok(share) = share else { return };
        if !share.hosts.is_empty() && !share.estimate.is_certain() {
            self.provisional_estimates.push((link, share.estimate));
        }
        self.correct_estimates(out);
        let order = order.unwrap_or_else(|| share.hosts.iter().map(|host| (host, 0)).collect());
        self.send_host_specs(link, &order, &share, out);
    }

    /// A child that is up and can take hosts for which this node has no resources.
    pub(super) fn child_for_overflow(&self) -> Option<(LinkId, HostIndex)> {
        let others_launch = match &self.role {
            Role::FrontEnd(front) => front.static_tree().is_none() && front.launchers().lack_resources(),
            Role::Member(_) => !self.options.is_static() && self.health.children_may_launch(),
        };
        let mut heirs = self.children.leaders().filter(|(_, child)| others_launch && child.takes_hosts());
        heirs.find_map(|(link, child)| Some((link, child.host()?)))
    }

    /// Gives waiting hosts to a child that is up, if this node has no resources and no launch is in
    /// flight that could take them.
    pub(super) fn hand_down(&mut self, out: &mut Vec<Effect>) {
        if !self.health.is_out_of_resources() || self.queue.in_flight() > 0 || !self.stage.is_launching() {
            return;
        }
        if let Some((link, child)) = self.child_for_overflow()
            && let Ok(share) = self.queue.give_waiting_to(child)
        {
            let order: Vec<_> = share.hosts.iter().map(|host| (host, 0)).collect();
            self.send_host_specs(link, &order, &share, out);
        }
    }

    fn send_host_specs(
        &self,
        link: LinkId,
        order: &[(HostIndex, u32)],
        share: &Share,
        out: &mut Vec<Effect>,
    ) {
        let host_specs = order.iter().filter_map(|&(host, below)| {
            let spec = self.host_specs.get(&host)?;
            let attempt = share.attempts.get(&host).copied().unwrap_or_default().max(spec.attempt);
            let faults = self.faults.get(&host).copied().unwrap_or(0);
            Some(HostSpec { attempt, below, faults, ..spec.clone() })
        });
        Self::send_share(link, host_specs, share.estimate, out);
    }

    fn send_share(
        link: LinkId,
        host_specs: impl Iterator<Item = HostSpec>,
        estimate: Estimate,
        out: &mut Vec<Effect>,
    ) {
        let mut part = Vec::new();
        let mut weight = 0;
        for spec in host_specs {
            weight += 1 + spec.blocks.len();
            part.push(spec);
            if weight >= HOSTS_IN_A_MESSAGE {
                weight = 0;
                Self::send(
                    link,
                    Kind::Control,
                    &ParentMessage::Share(std::mem::take(&mut part), estimate),
                    out,
                );
            }
        }
        if !part.is_empty() {
            Self::send(link, Kind::Control, &ParentMessage::Share(part, estimate), out);
        }
    }

    /// Accepts a share from the parent.
    pub(super) fn accept(&mut self, host_specs: Vec<HostSpec>, estimate: Estimate) {
        let hosts: HostRuns = if self.options.is_static() {
            self.subtrees.accept(host_specs.iter().map(|spec| (spec.host, spec.below))).into_iter().collect()
        } else {
            host_specs.iter().map(|spec| spec.host).collect()
        };
        for spec in host_specs {
            // A spare may have taken the host's place: what was known here of the host does not
            // apply any more.
            if spec.faults > 0 {
                self.faults.insert(spec.host, spec.faults);
            } else {
                self.faults.remove(&spec.host);
            }
            self.host_specs.insert(spec.host, spec);
        }
        let later = hosts.iter().map(|host| (host, self.attempt(host)));
        let attempts = later.filter(|(_, attempt)| *attempt != Attempt::default()).collect();
        self.queue.accept(Share { hosts, attempts, estimate });
    }

    /// The latest known attempt at a host.
    pub(super) fn attempt(&self, host: HostIndex) -> Attempt {
        self.host_specs.get(&host).map_or(Attempt::default(), |spec| spec.attempt)
    }

    /// A child of a static tree was given up: this node launches the children of that child.
    pub(super) fn adopt_subtree(&mut self, child: HostIndex) {
        let hosts: HostRuns = self.subtrees.promote(child).into_iter().collect();
        let attempts = hosts.iter().map(|host| (host, self.attempt(host))).collect();
        self.queue.accept(Share { hosts, attempts, estimate: self.queue.estimate() });
    }

    /// Drains all hosts that are not launched yet, with their next attempts.
    pub(super) fn drain_unlaunched(&mut self) -> Vec<Launch> {
        let mut launches: Vec<Launch> = self.queue.give_up_waiting().collect();
        let below: Vec<HostIndex> = self.subtrees.abandon().collect();
        launches.extend(below.into_iter().map(|host| Launch { host, attempt: self.attempt(host) }));
        launches
    }

    /// Whether this node launches a host that was lost or replaced. The front end leaves that to
    /// the first leader, except for the first host.
    pub(super) fn launches_here(&self, host: HostIndex) -> bool {
        match &self.role {
            Role::FrontEnd(front) => host == HostIndex(0) || front.launchers().is_front_end(),
            Role::Member(_) => true,
        }
    }

    pub(super) fn is_front(&self) -> bool {
        matches!(self.role, Role::FrontEnd(_))
    }
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
