//! The settle time: a session with enough hosts goes up without the last ones.

use std::time::Duration;

use libi_core::sim::Sim;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_launch::failure::{Cause, Phase};
use libi_launch::machine::{HostState, Policy};

use crate::run;
use crate::scenario::{Scenario, Trouble};
use crate::world::{Cluster, FRONT};

impl Scenario {
    /// The scenario of a seed in which the launch may settle. Drawn from a separate stream.
    pub(crate) fn with_settle(seed: u64) -> Self {
        let mut scenario = Self::with_capacity(seed);
        let mut rng = Rng::new(seed).fork(19);
        if rng.chance(0.4) {
            let seconds = |seconds| Some(Duration::from_secs(seconds));
            scenario.settle = [None, None, seconds(0), seconds(1), seconds(20)][rng.below(5) as usize];
        }
        scenario
    }

    /// Whether the session may go up before every host has its verdict.
    pub(crate) fn settles(&self) -> bool {
        self.settle != Some(Duration::MAX)
    }

    /// A healthy cluster of eight hosts, of which the third hangs.
    pub(crate) fn with_one_host_that_hangs(settle: Option<Duration>) -> Self {
        let mut scenario = Self::new(3);
        (scenario.hosts, scenario.members, scenario.bad) = (8, 1, 0.0);
        (scenario.trouble, scenario.policy, scenario.settle) = (Trouble::Hang(1), Policy::AtLeast(7), settle);
        (scenario.deadline, scenario.ends) = (Duration::from_secs(300), Duration::from_secs(400));
        scenario.rules.attempts = 3;
        scenario.deaths.clear();
        scenario.freezes.clear();
        scenario.deaths_after_up.clear();
        scenario
    }
}

/// When the session was up, and what is said of the host that hangs.
fn outcome(settle: Option<Duration>) -> (Duration, HostState) {
    let scenario = Scenario::with_one_host_that_hangs(settle);
    let sim: Sim<Cluster> = run(&scenario).unwrap_or_else(|wrong| panic!("{wrong}\n{scenario:#?}"));
    let up = sim.world.up_at();
    let front = sim.agenda.machine(FRONT).unwrap();
    assert_eq!(front.progress(), (7, 1, 0));
    (up.unwrap().since(Instant::ZERO), front.host_states().nth(2).unwrap().clone())
}

#[test]
fn a_session_goes_up_without_a_host_that_hangs_once_the_launch_has_settled() {
    let second = Duration::from_secs(1);
    for (settle, least, most) in [(Some(second), second, 4 * second), (None, 2 * second, 8 * second)] {
        let (up, state) = outcome(settle);
        assert!((least..most).contains(&up), "{settle:?}: up after {up:?}");
        let HostState::Failed(failure) = state else { panic!("{state:?}") };
        assert_eq!((failure.cause, failure.phase), (Cause::SettleElapsed, Phase::Starting));
        assert!(failure.elapsed >= least, "{:?}", failure.elapsed);
    }
}

#[test]
fn without_a_settle_time_every_attempt_at_the_last_host_is_waited_for() {
    let (up, state) = outcome(Some(Duration::MAX));
    assert!(up > Duration::from_secs(60), "up after {up:?}");
    assert!(matches!(state, HostState::Failed(failure) if failure.cause == Cause::TimedOut));
}
