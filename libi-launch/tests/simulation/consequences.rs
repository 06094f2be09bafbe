//! Hosts that are given up because of others: their cause names the host that is at fault.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_launch::failure::Cause;
use libi_launch::machine::{HostState, Policy};

use crate::run;
use crate::scenario::{Scenario, Trouble};
use crate::world::FRONT;

/// The causes of the hosts' failures in a session of eight hosts whose third hangs, or whose first
/// is up and breaks each time.
fn causes(trouble: Trouble, policy: Policy) -> Vec<Option<Cause>> {
    let mut scenario = Scenario::new(3);
    (scenario.hosts, scenario.members, scenario.bad) = (8, 1, 0.0);
    (scenario.trouble, scenario.policy) = (trouble, policy);
    (scenario.deadline, scenario.ends) = (Duration::from_secs(300), Duration::from_secs(400));
    scenario.rules.attempts = 1;
    scenario.deaths.clear();
    scenario.freezes.clear();
    scenario.deaths_after_up.clear();
    let sim = run(&scenario).unwrap_or_else(|wrong| panic!("{wrong}\n{scenario:#?}"));
    let states = sim.agenda.machine(FRONT).unwrap().host_states();
    let cause = |state: &HostState| match state {
        HostState::Failed(failure) => Some(failure.cause.clone()),
        HostState::Joined | HostState::Waiting => None,
    };
    states.map(cause).collect()
}

#[test]
fn hosts_behind_a_dead_first_host_name_it_as_the_reason() {
    let causes = causes(Trouble::Breaks(0, 10), Policy::AtLeast(1));
    let (first, others) = causes.split_first().unwrap();
    assert!(first.as_ref().is_some_and(|cause| !cause.is_cut_short()), "{first:?}");
    assert_eq!(others, vec![Some(Cause::MasterFailed(HostIndex(0))); 7]);
}

#[test]
fn a_failed_host_hides_no_other() {
    let causes = causes(Trouble::Hang(2), Policy::All);
    for host in [2, 5] {
        assert_eq!(causes[host], Some(Cause::TimedOut), "{causes:?}");
    }
}
