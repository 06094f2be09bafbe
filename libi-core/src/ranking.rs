//! Compares all strategies at constant costs.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::cost::Cost;
use crate::plan::{Root, Schedule, Shape, Strategy, Tree};
use crate::sim::launch::Setup;

/// A strategy carried out at constant costs: the resulting tree and its schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the root of the tree is.
    pub root: Root,
    /// The strategy.
    pub strategy: Strategy,
    /// Which node launches which.
    pub tree: Tree,
    /// The times of all launches.
    pub schedule: Schedule,
}

impl Plan {
    /// The plan of this strategy, if the first host is up when the launch begins. Late commit has
    /// none in advance: its tree is the result of a simulated launch.
    #[must_use]
    pub fn new(strategy: Strategy, hosts: NonZeroU32, cost: &Cost) -> Self {
        Self::below(Root::Host, strategy, hosts, cost)
    }

    /// The plan of this strategy below this root. A front end takes part in late commit as a
    /// launcher; a static tree is laid out below the first host, which is all that a front end
    /// launches then.
    #[must_use]
    pub fn below(root: Root, strategy: Strategy, hosts: NonZeroU32, cost: &Cost) -> Self {
        let (tree, schedule) = match (strategy, root) {
            (Strategy::Static(Shape::Greedy), Root::Host) => crate::plan::greedy::plan(hosts, cost),
            (Strategy::Static(shape), _) => {
                let tree = shape.tree(hosts, cost);
                let tree = if root.is_front_end() { tree.below_front_end() } else { tree };
                let schedule = tree.schedule(cost);
                (tree, schedule)
            }
            (Strategy::Late, _) => {
                let mut setup = Setup::new(root.nodes(hosts), strategy, cost);
                if let Root::FrontEnd { launches } = root {
                    setup.root_launches = launches;
                }
                // Setup::new has no dead, slow or refused hosts and no timeout: the tree is whole.
                setup.run(0).tree().expect("every host is up")
            }
        };
        Self { root, strategy, tree, schedule }
    }

    /// The number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.root.hosts(self.tree.hosts())
    }

    /// How long the launch takes.
    #[must_use]
    pub fn launch_time(&self) -> Duration {
        self.schedule.launch_time()
    }
}

/// All strategies, k-ary trees with k = 2, 4, 8, … 512.
pub fn all_strategies() -> impl Iterator<Item = Strategy> {
    let kary = (1..=9).filter_map(|power| NonZeroU32::new(1 << power)).map(Shape::Kary);
    let others = [Shape::Chain, Shape::Flat, Shape::Binomial, Shape::Rdc, Shape::Greedy];
    others.into_iter().chain(kary).map(Strategy::Static).chain([Strategy::Late])
}

/// The plans of all strategies below this root, the fastest first; at equal times, fewer launches
/// per host first.
#[must_use]
pub fn rank(root: Root, hosts: NonZeroU32, cost: &Cost) -> Vec<Plan> {
    let mut plans: Vec<_> =
        all_strategies().map(|strategy| Plan::below(root, strategy, hosts, cost)).collect();
    plans.sort_by_cached_key(|plan| (plan.launch_time(), plan.tree.max_children(), plan.strategy));
    plans
}

#[cfg(test)]
mod tests {
    use core::cmp::Reverse;
    use std::collections::BTreeMap;
    use std::string::ToString;

    use super::*;
    use crate::time::Instant;

    /// The ranking published in the literature on launch trees for 1,000 hosts and a constant of 20
    /// ms, in milliseconds: greedy, flat, and k-ary for k = 2, 4, 8, … 512.
    const PUBLISHED: [(u64, u64, u64, u64, [u64; 9]); 3] = [
        (7, 172, 609, 7_178, [1_624, 971, 841, 753, 784, 896, 1_288, 2_156, 3_769]),
        (7, 2_000, 4_272, 9_006, [18_076, 10_111, 8_153, 6_237, 4_440, 4_552, 4_944, 5_812, 7_422]),
        (7, 10_000, 17_006, 17_006, [90_076, 50_111, 40_153, 30_237, 20_440, 20_552, 20_944, 21_812, 23_422]),
    ];

    #[test]
    fn all_33_values_of_the_published_ranking_come_out_to_the_printed_digit() {
        let ms = Duration::from_millis;
        for (seq, rem, greedy, flat, kary) in PUBLISHED {
            let cost = Cost::new(ms(seq), ms(rem)).with_constant(ms(20));
            let plans = rank(Root::Host, NonZeroU32::new(1_000).unwrap(), &cost);
            let times: BTreeMap<_, _> =
                plans.iter().map(|plan| (plan.strategy.to_string(), plan.launch_time())).collect();
            assert_eq!(times["greedy"], ms(greedy));
            assert_eq!(times["late"], ms(greedy), "late commit is as fast, which is ours to show");
            assert_eq!(times["flat"], ms(flat));
            for (power, expected) in (1..).zip(kary) {
                assert_eq!(times[&std::format!("kary:{}", 1 << power)], ms(expected));
            }
            assert!(plans.windows(2).all(|two| two[0].launch_time() <= two[1].launch_time()));
        }
    }

    const FRONT_END: Root = Root::FrontEnd { launches: None };

    /// Hosts, SEQ and REM in milliseconds.
    const TABLE: [(u32, u64, u64); 12] = [
        (1, 7, 172),
        (2, 7, 172),
        (8, 7, 172),
        (60, 7, 172),
        (64, 10, 10),
        (64, 30, 5),
        (128, 1, 1_000),
        (500, 3, 90),
        (1_000, 7, 172),
        (1_000, 7, 10_000),
        (10_000, 7, 172),
        (20_000, 2, 500),
    ];

    #[test]
    fn late_commit_with_a_front_end_is_as_fast_as_the_greedy_tree_whose_root_it_is() {
        for (hosts, seq, rem) in TABLE {
            let cost = Cost::new(Duration::from_millis(seq), Duration::from_millis(rem));
            let plan = Plan::below(FRONT_END, Strategy::Late, NonZeroU32::new(hosts).unwrap(), &cost);
            let (_, best) = crate::plan::greedy::plan(NonZeroU32::new(hosts + 1).unwrap(), &cost);
            let wrong = std::format!("{hosts} hosts, SEQ {seq} ms, REM {rem} ms");
            assert_eq!((plan.hosts(), plan.tree.hosts()), (hosts, hosts + 1), "{wrong}");
            assert_eq!(plan.launch_time(), best.launch_time(), "{wrong}");
        }
    }

    #[test]
    fn a_static_tree_is_up_one_launch_later_with_a_front_end() {
        let ms = Duration::from_millis;
        let cost = Cost::new(ms(7), ms(172)).with_constant(ms(20));
        let plans = |root| rank(root, NonZeroU32::new(100).unwrap(), &cost);
        let times: BTreeMap<_, _> =
            plans(Root::Host).iter().map(|plan| (plan.strategy, plan.launch_time())).collect();
        for plan in plans(FRONT_END) {
            let later = plan.launch_time() - times[&plan.strategy];
            if plan.strategy == Strategy::Late {
                assert!(later < ms(10), "{later:?}");
            } else {
                assert_eq!(later, ms(172), "{}", plan.strategy);
            }
        }
        assert_eq!(plans(FRONT_END)[0].strategy, Strategy::Late);
    }

    /// When the last host is up if the root has at most `most` launches in flight, and of all
    /// launchers the first that is free makes the next launch.
    fn by_limited_root(hosts: u32, cost: &Cost, most: u32) -> Duration {
        let mut free = std::collections::BinaryHeap::from([Reverse((Duration::ZERO, true))]);
        let (mut last, mut own) = (Duration::ZERO, Vec::new());
        for _ in 0..hosts {
            let Reverse((slot, is_root)) = free.pop().unwrap();
            last = last.max(slot + cost.rem);
            free.push(Reverse((slot + cost.rem, false)));
            let mut next = slot + cost.seq;
            if is_root {
                own.push(slot);
                let before = own.len().checked_sub(most as usize);
                next = before.map_or(next, |before| next.max(own[before] + cost.rem));
            }
            free.push(Reverse((next, is_root)));
        }
        last
    }

    #[test]
    fn a_front_end_with_a_limit_keeps_it_and_no_launch_under_it_is_faster() {
        for (hosts, seq, rem) in TABLE {
            let cost = Cost::new(Duration::from_millis(seq), Duration::from_millis(rem));
            for most in [1, 2, 3, 8, 30, 20_000] {
                let root = Root::FrontEnd { launches: NonZeroU32::new(most) };
                let plan = Plan::below(root, Strategy::Late, NonZeroU32::new(hosts).unwrap(), &cost);
                let own = plan.tree.launches().filter(|(launcher, _)| *launcher == 0);
                let own: Vec<_> = own.filter_map(|(_, node)| plan.schedule.started(node)).collect();
                let is_kept = |(before, after): (&Instant, &Instant)| *after >= *before + cost.rem;
                assert!(own.iter().zip(own.iter().skip(most as usize)).all(is_kept), "{most}: {own:?}");
                let (time, best) = (plan.launch_time(), by_limited_root(hosts, &cost, most));
                assert_eq!(time, best, "{hosts} hosts, {cost:?}, {most}");
            }
        }
    }
}
