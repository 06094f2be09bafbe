//! Scenarios in which hosts are started in bulk, and small clusters.

use std::num::NonZeroU32;

use libi_core::plan::Strategy;
use libi_core::sim::rng::Rng;
use libi_launch::machine::{LinkPolicy, Policy};

use crate::scenario::Scenario;
use crate::world::BulkTrouble;

/// The most hosts of a small cluster.
const FEW: u32 = 40;

impl Scenario {
    /// The scenario of a seed with bulk starts. Drawn from a separate stream.
    pub(crate) fn with_bulk_starts(seed: u64) -> Self {
        let mut scenario = Self::with_settle(seed);
        let mut rng = Rng::new(seed).fork(20);
        scenario.strategy = Strategy::Late;
        (scenario.blocked_launchers, scenario.capacity) = (None, None);
        (scenario.links, scenario.severs) = (LinkPolicy::Channel, Vec::new());
        let mut fraction = |of: [f64; 4]| of[rng.below(4) as usize];
        scenario.bulk = Some(BulkTrouble {
            not_started: fraction([0.0, 0.0, 0.0, 0.2]),
            exits: fraction([0.0, 0.0, 0.1, 1.0]),
            twice: fraction([0.0, 0.1, 0.5, 1.0]),
            late: fraction([0.0, 0.5, 0.5, 1.0]),
            stubborn: fraction([0.0, 0.0, 0.3, 1.0]),
            strangers: fraction([0.0, 0.0, 1.0, 20.0]) as u64,
        });
        scenario.hosts_per_start = [1, 3, 50, 1_000][rng.below(4) as usize];
        let mut rng = Rng::new(seed).fork(26);
        scenario.relays = NonZeroU32::new([0, 0, 1, 2, 3, 7][rng.below(6) as usize]);
        scenario.relays_unreachable = [0.0, 0.0, 0.0, 0.1, 1.0][rng.below(5) as usize];
        scenario
    }

    /// The same for nine seeds of ten, with at most [`FEW`] hosts: most of what can go wrong does so
    /// there as well, in a hundredth of the time.
    pub(crate) fn mostly_small(mut self) -> Self {
        if self.seed.is_multiple_of(10) || self.hosts <= FEW {
            return self;
        }
        let half =
            self.policy == Policy::AtLeast(self.hosts.div_ceil(2)) && self.policy != Policy::AtLeast(1);
        self.hosts = 1 + (self.hosts + self.seed as u32) % FEW;
        if half {
            self.policy = Policy::AtLeast(self.hosts.div_ceil(2));
        }
        self
    }

    /// Whether bulk starts may fail as a whole.
    pub(crate) fn starters_fail(&self) -> bool {
        let by_srun = self.srun.is_some_and(|srun| srun.is_any());
        by_srun
            || self.bulk.is_some_and(|bulk| self.no_listeners || bulk.not_started > 0.0 || bulk.exits > 0.0)
    }
}
