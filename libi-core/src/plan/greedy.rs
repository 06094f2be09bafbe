//! The greedy tree: the host that is free first makes the next launch.
//!
//! With constant costs no tree has its last host up earlier. Launch times come out in ascending
//! order from two queues, so a plan takes linear time and needs no heap: a host that is up at `t`
//! has its first child up at `t + REM`, and a host that was launched and is up at `t` is followed
//! by its launcher's next child at `t + SEQ`. Both sequences ascend because the `t` do. The plan is
//! their merge, read from the array that it is written to.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::as_index;
use super::tree::{Schedule, Tree};
use crate::cost::Cost;
use crate::time::{Instant, nanos};

/// The times at which a fresh node and its descendants can have hosts up, ascending, each with its
/// launcher. The first is the node itself at 0; the sequence is infinite.
///
/// Of two hosts that could be up at the same time, the host with the older launcher comes first,
/// which keeps the tree shallow.
#[derive(Clone, Debug)]
struct GreedyOrder {
    seq: u64,
    rem: u64,
    up: Vec<u64>,
    parents: Vec<u32>,
    /// The node whose launcher has its next child now (never the root, which has no launcher).
    sibling: u32,
    /// The node that has its first child now.
    first_born: u32,
}

impl GreedyOrder {
    fn new(cost: &Cost, capacity: usize) -> Self {
        let mut up = Vec::with_capacity(capacity.max(1));
        let mut parents = Vec::with_capacity(capacity.max(1));
        up.push(0);
        parents.push(0);
        Self { seq: nanos(cost.seq), rem: nanos(cost.rem), up, parents, sibling: 1, first_born: 0 }
    }

    /// Adds the next host to be up.
    fn extend(&mut self) {
        let first_born = self.up[as_index(self.first_born)].saturating_add(self.rem);
        let sibling = self.up.get(as_index(self.sibling)).map(|up| up.saturating_add(self.seq));
        match sibling {
            Some(at) if at <= first_born => {
                self.parents.push(self.parents[as_index(self.sibling)]);
                self.up.push(at);
                self.sibling += 1;
            }
            _ => {
                self.parents.push(self.first_born);
                self.up.push(first_born);
                self.first_born += 1;
            }
        }
    }
}

/// The greedy tree over `hosts` hosts, with its schedule, which comes at no extra cost.
#[must_use]
pub fn plan(hosts: NonZeroU32, cost: &Cost) -> (Tree, Schedule) {
    let n = as_index(hosts.get());
    let mut launches = GreedyOrder::new(cost, n);
    while launches.up.len() < n {
        launches.extend();
    }
    let ready: Vec<Instant> = launches.up.into_iter().map(Instant::from_nanos).collect();
    let started = ready.iter().map(|at| Instant::from_nanos(at.as_nanos().saturating_sub(launches.rem)));
    let schedule = Schedule { started: started.collect(), ready, constant: cost.constant };
    (Tree::from_ordered(launches.parents), schedule)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::Shape;
    use crate::testing::cases;

    /// When the last host is up: computed from the definition, with a heap instead of merged
    /// queues.
    fn by_heap(hosts: u32, seq: u64, rem: u64) -> u64 {
        let mut free = std::collections::BinaryHeap::from([core::cmp::Reverse(0u64)]);
        let mut last = 0;
        for _ in 1..hosts {
            let core::cmp::Reverse(slot) = free.pop().unwrap();
            last = last.max(slot + rem);
            free.push(core::cmp::Reverse(slot + seq));
            free.push(core::cmp::Reverse(slot + rem));
        }
        last
    }

    /// The least launch time over every tree of `hosts` hosts, in every order of launches.
    fn by_exhaustion(hosts: u32, cost: &Cost) -> Duration {
        fn grow(parents: &mut Vec<u32>, hosts: usize, cost: &Cost, best: &mut Duration) {
            if parents.len() == hosts {
                *best = (*best).min(Tree::from_ordered(parents.clone()).schedule(cost).launch_time());
                return;
            }
            for parent in 0..parents.len() as u32 {
                parents.push(parent);
                grow(parents, hosts, cost, best);
                parents.pop();
            }
        }
        let mut best = Duration::MAX;
        grow(&mut std::vec![0], as_index(hosts), cost, &mut best);
        best
    }

    fn cost() -> impl Strategy<Value = Cost> {
        let nanos = || prop_oneof![0u64..20, 0u64..1_000_000_000];
        (nanos(), nanos())
            .prop_map(|(seq, rem)| Cost::new(Duration::from_nanos(seq), Duration::from_nanos(rem)))
    }

    proptest! {
        #![proptest_config(cases(40))]

        #[test]
        fn no_tree_of_up_to_eight_hosts_is_faster(cost in cost()) {
            for hosts in 1..=8 {
                let (_, schedule) = plan(NonZeroU32::new(hosts).unwrap(), &cost);
                prop_assert_eq!(schedule.launch_time(), by_exhaustion(hosts, &cost));
            }
        }

        #[test]
        fn never_worse_than_any_static_tree(
            hosts in 1u32..=5_000, cost in cost(), k in 1u32..600
        ) {
            let hosts = NonZeroU32::new(hosts).unwrap();
            let greedy = plan(hosts, &cost).1.launch_time();
            let kary = Shape::Kary(NonZeroU32::new(k).unwrap());
            for shape in [Shape::Chain, Shape::Flat, kary, Shape::Binomial, Shape::Rdc] {
                let other = shape.tree(hosts, &cost).schedule(&cost).launch_time();
                prop_assert!(greedy <= other, "{:?}: {:?} < {:?}", shape, other, greedy);
            }
        }

        #[test]
        fn the_merge_agrees_with_a_heap_and_with_the_schedule_of_its_own_tree(
            hosts in 1u32..=3_000, cost in cost()
        ) {
            let (tree, schedule) = plan(NonZeroU32::new(hosts).unwrap(), &cost);
            prop_assert_eq!(&tree.schedule(&cost), &schedule);
            let heap = by_heap(hosts, nanos(cost.seq), nanos(cost.rem));
            prop_assert_eq!(nanos(schedule.launch_time()), heap);
        }
    }

    #[test]
    fn equal_times_go_to_the_older_launcher() {
        let (tree, _) = plan(NonZeroU32::new(100).unwrap(), &Cost::default());
        assert_eq!((tree.depth(), tree.max_children()), (1, 99));
    }
}
