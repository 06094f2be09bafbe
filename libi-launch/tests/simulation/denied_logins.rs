//! Hosts that deny all logins, among hosts that work. A leader that is given only such hosts cannot
//! know which side is at fault, and hands them back. They must not go from leader to leader.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::Attempt;
use libi_core::sim::rng::Rng;
use libi_launch::machine::Policy;

use crate::run;
use crate::scenario::{Scenario, Trouble};
use crate::seeds::{check_all, seeds};
use crate::world::Start;

/// How often such a host may be tried: by one launcher with unconfirmed health, and by its parent.
const MAX_DENIALS: usize = 2;
/// How often it may be launched: once more if a launch was cut short by a hand-back.
const MAX_LAUNCHES: usize = 3;
/// The number of denials after which a launcher is certain of its own fault.
const CERTAIN_DENIALS: usize = 8;

/// A seed that has found a defect: hosts that refused a connection narrowed the window of their
/// launcher, which had not launched all hosts by the deadline.
const FOUND_WITH_REFUSALS: [u64; 1] = [18_716];

impl Scenario {
    /// The scenario of a seed with no other trouble than this, on some percentage of the hosts.
    fn with_single_trouble(seed: u64, trouble: fn(u32) -> Trouble) -> Self {
        let (mut scenario, mut rng) = (Self::new(seed), Rng::new(seed).fork(17));
        scenario.hosts = 2 + rng.below(200) as u32;
        scenario.trouble = trouble([2, 10, 30, 50, 90][rng.below(5) as usize]);
        scenario.bad = 0.0;
        scenario.deaths.clear();
        scenario.freezes.clear();
        scenario.deaths_after_up.clear();
        scenario.policy = Policy::AtLeast(1);
        (scenario.deadline, scenario.ends) = (Duration::from_secs(60), Duration::from_secs(80));
        scenario
    }

    pub(crate) fn denies_all(&self, host: u32) -> bool {
        matches!(self.trouble, Trouble::DenyAll(percent) if self.is_selected(host, percent))
    }

    pub(crate) fn refuses_once(&self, host: u32) -> bool {
        matches!(self.trouble, Trouble::RefuseOnce(percent) if self.is_selected(host, percent))
    }

    pub(crate) fn is_selected(&self, host: u32, percent: u32) -> bool {
        host > 0 && Rng::new(self.seed).fork(18).fork(u64::from(host)).below(100) < u64::from(percent)
    }
}

#[test]
fn hosts_that_deny_all_logins_are_not_passed_from_leader_to_leader() {
    let scenarios = seeds().map(|seed| Scenario::with_single_trouble(seed, Trouble::DenyAll));
    check_all(scenarios, |scenario| {
        let sim = run(scenario)?;
        for host in (0..scenario.hosts).filter(|host| scenario.denies_all(*host)) {
            let starts = sim.world.starts.iter().filter(|start| start.host.0 == host);
            let tried: Vec<_> = starts.map(|start| (start.at, start.by, start.attempt)).collect();
            // A first launch that was withdrawn comes on top of these.
            let was_withdrawn = tried.iter().any(|(_, _, attempt)| attempt.withdrawn);
            let counts = |attempt: &Attempt| !was_withdrawn || *attempt != Attempt::default();
            let denied = sim.world.denials.get(&HostIndex(host));
            let denials = denied.into_iter().flatten().filter(|attempt| counts(attempt)).count();
            let launches = tried.iter().filter(|(_, _, attempt)| counts(attempt)).count();
            if denials > MAX_DENIALS || launches > MAX_LAUNCHES {
                return Err(format!("host {host} has denied {denied:?}, and was tried {tried:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn a_second_attempt_that_succeeds_is_not_cut_short() {
    let scenarios = FOUND_WITH_REFUSALS.into_iter().chain(seeds()).map(|seed| {
        let mut scenario = Scenario::with_single_trouble(seed, Trouble::RefuseOnce);
        scenario.rules.attempts = scenario.rules.attempts.max(2);
        scenario
    });
    check_all(scenarios, |scenario| {
        let sim = run(scenario)?;
        let refused =
            |start: &&Start| scenario.refuses_once(start.host.0) && start.attempt == Attempt::default();
        let first: Vec<_> = sim.world.starts.iter().filter(refused).collect();
        for &Start { host, .. } in &first {
            let starts = sim.world.starts.iter().filter(|start| start.host == *host);
            let tried: Vec<_> = starts.map(|start| (start.at, start.by, start.attempt)).collect();
            let is_sure = |by| first.iter().filter(|other| other.by == by).count() >= CERTAIN_DENIALS;
            let cut_short = tried[1..].iter().filter(|(_, by, _)| is_sure(*by)).count();
            if !(2..=2 + cut_short).contains(&tried.len()) {
                return Err(format!("{host} was tried {tried:?}"));
            }
        }
        Ok(())
    });
}
