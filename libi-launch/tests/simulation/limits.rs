//! A limit of the launches that the front end has in flight.

use std::num::NonZeroU32;
use std::time::Duration;

use libi_core::join::MemberRole;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_launch::machine::Policy;

use crate::agents::AgentTrouble;
use crate::run;
use crate::scenario::{Scenario, Trouble};
use crate::world::{Cluster, FRONT, MINIMAL_LATENCY};

impl Scenario {
    /// The scenario of a seed with a limit for the front end, mostly with agents. Drawn from a
    /// separate stream.
    pub(crate) fn with_a_limit(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(46);
        let mut scenario = if rng.chance(0.2) { Self::with_settle(seed) } else { Self::with_agents(seed) };
        scenario.limit = NonZeroU32::new([1, 1, 2, 3, 8, 40][rng.below(6) as usize]);
        scenario
    }
}

impl Cluster {
    /// Notes if a launch of the front end is one too many. A program that has not joined is in
    /// flight, or is being ended.
    pub(crate) fn check_limit(&mut self) {
        let front = &self.processes[FRONT.0 as usize];
        let in_flight = front.launches_in_flight();
        if self.scenario.limit.is_some_and(|limit| in_flight > limit.get() as usize) {
            self.over_limit.get_or_insert(in_flight);
        }
    }

    /// How long the front end may have waited for its own launches, beyond what it would wait
    /// without a limit, if a silent one takes this long.
    pub(crate) fn held_by_limit(&self, silent: Duration) -> Duration {
        let Some(limit) = self.scenario.limit else { return Duration::ZERO };
        let scenario = &self.scenario;
        let each = scenario.seq * 2 + scenario.rem * 2 + (scenario.latency + MINIMAL_LATENCY) * 4;
        let own = self.starts.iter().filter(|start| start.by.is_none());
        let took = own.map(|start| {
            let fate = self.fates.get(&(MemberRole::Leader(start.host), start.attempt));
            if fate.is_some_and(|fate| fate.joins()) { each } else { silent }
        });
        took.sum::<Duration>() / limit.get()
    }
}

#[test]
fn hosts_do_not_wait_for_silent_launches_that_hold_the_front_end_at_its_limit() {
    for (hosts, hang) in [(60, 11), (60, 12), (120, 11), (120, 12)] {
        let mut scenario = Scenario::with_one_host_that_hangs(None);
        (scenario.hosts, scenario.trouble) = (hosts, Trouble::Hang(hang));
        (scenario.agents, scenario.limit) = (Some(AgentTrouble::ending()), NonZeroU32::new(2));
        scenario.policy = Policy::AtLeast(hosts - hang);
        let world = run(&scenario).unwrap_or_else(|wrong| panic!("{wrong}\n{scenario:#?}")).world;
        let others = world.starts.iter().filter(|start| start.host.0 % 3 != 2 || start.host.0 / 3 >= hang);
        let last = others.map(|start| start.at).max().unwrap();
        assert!(last < Instant::ZERO + Duration::from_secs(5), "{hosts} hosts: launched at {last}");
    }
}
