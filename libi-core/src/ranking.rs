//! Compares all strategies at constant costs.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::cost::Cost;
use crate::plan::{Schedule, Shape, Strategy, Tree};
use crate::sim::launch::Setup;

/// A strategy carried out at constant costs: the resulting tree and its schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The strategy.
    pub strategy: Strategy,
    /// Which host launches which.
    pub tree: Tree,
    /// The times of all launches.
    pub schedule: Schedule,
}

impl Plan {
    /// The plan of this strategy. Late commit has none in advance: its tree is the result of a
    /// simulated launch.
    #[must_use]
    pub fn new(strategy: Strategy, hosts: NonZeroU32, cost: &Cost) -> Self {
        let tree = match strategy {
            Strategy::Static(Shape::Greedy) => {
                let (tree, schedule) = crate::plan::greedy::plan(hosts, cost);
                return Self { strategy, tree, schedule };
            }
            Strategy::Static(shape) => shape.tree(hosts, cost),
            Strategy::Late => {
                // Setup::new has no dead, slow or refused hosts and no timeout: the tree is whole.
                let came_about = Setup::new(hosts, strategy, cost).run(0).tree();
                let (tree, schedule) = came_about.expect("every host is up");
                return Self { strategy, tree, schedule };
            }
        };
        let schedule = tree.schedule(cost);
        Self { strategy, tree, schedule }
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

/// The plans of all strategies, the fastest first; at equal times, fewer launches per host first.
#[must_use]
pub fn rank(hosts: NonZeroU32, cost: &Cost) -> Vec<Plan> {
    let mut plans: Vec<_> = all_strategies().map(|strategy| Plan::new(strategy, hosts, cost)).collect();
    plans.sort_by_cached_key(|plan| (plan.launch_time(), plan.tree.max_children(), plan.strategy));
    plans
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::string::ToString;

    use super::*;

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
            let plans = rank(NonZeroU32::new(1_000).unwrap(), &cost);
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
}
