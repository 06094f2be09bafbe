//! The states of launch health, and the weights of failures.

use libi_core::plan::late::Attempt;

use super::*;
use crate::failure::{Exit, Phase};

const TIMEOUT: Duration = Duration::from_secs(3);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn launch(host: u32) -> Launch {
    Launch { host: HostIndex(host), attempt: Attempt::default() }
}

fn failure(cause: Cause) -> Failure {
    Failure::without_evidence(Phase::Starting, cause, Duration::ZERO)
}

fn refused() -> Failure {
    failure(Cause::Exited(Exit::Code(255)))
}

fn denied() -> Failure {
    Failure { tail: "me@n1: Permission denied (publickey).\r\n".to_owned(), ..refused() }
}

/// A leader that has launched these hosts at intervals of 10 ms.
fn leader(hosts: u32) -> LaunchHealth {
    let mut health = LaunchHealth::undecided();
    (0..hosts).for_each(|host| health.note_launch(HostIndex(host), at(10 * u64::from(host))));
    health
}

/// Whether it is certain at this time that the leader cannot launch, with many launches open.
fn certain(health: &mut LaunchHealth, millis: u64) -> bool {
    health.evaluate(at(millis), TIMEOUT, 100, 100).is_some_and(|verdict| verdict.certain)
}

#[test]
fn only_failures_without_an_earlier_open_launch_count() {
    for (failed, why, expected) in [
        (&[0, 1, 2][..], denied(), true),
        (&[2, 0, 1], denied(), true),
        (&[0, 1], denied(), false),
        (&[0, 0, 0], denied(), false),
        (&[1, 2, 3, 4, 5, 6], denied(), false),
        (&[0, 1, 3, 4, 5, 6], denied(), false),
        (&[0, 1, 2, 3, 4, 5, 6], refused(), false),
        (&[7, 6, 5, 4, 3, 2, 1, 0], refused(), true),
        (&[9, 8, 7, 6, 5, 4, 3, 2, 1], refused(), false),
    ] {
        let mut health = leader(20);
        for host in failed {
            assert!(!health.record_failure(launch(*host), &why, true));
        }
        assert_eq!(certain(&mut health, 200), expected, "{failed:?}");
        assert_eq!(health.is_unusable(), expected);
    }
}

#[test]
fn three_failures_suffice_if_these_are_all_hosts() {
    for (hosts, others, expected) in [(3, 0, true), (4, 0, true), (3, 1, false), (2, 0, false)] {
        let mut health = leader(hosts);
        for host in 0..hosts {
            health.record_failure(launch(host), &refused(), true);
        }
        // One launch is in flight again.
        let verdict = health.evaluate(at(500), TIMEOUT, 1, hosts as usize - 1 + others);
        assert_eq!(verdict.is_some_and(|verdict| !verdict.certain), expected, "{hosts} {others}");
    }
}

#[test]
fn a_silent_launch_does_not_delay_the_decision() {
    let mut health = leader(20);
    for host in [0, 2, 3] {
        health.record_failure(launch(host), &denied(), true);
    }
    assert!(!certain(&mut health, 200));
    assert_eq!(health.next_wake(), Some(at(3_010) + Duration::from_nanos(1)));
    assert!(!certain(&mut health, 3_010));
    assert!(certain(&mut health, 3_011));
}

#[test]
fn one_missing_shell_is_certain_if_it_was_the_first_launch() {
    let cause = || failure(Cause::NotStarted("No such file or directory".to_owned()));
    let mut health = leader(20);
    assert!(health.record_failure(launch(0), &cause(), false));
    assert!(certain(&mut health, 200));
    let mut health = leader(20);
    assert!(health.record_failure(launch(5), &cause(), false));
    assert!(!certain(&mut health, 200));
}

#[test]
fn a_leader_with_only_dead_hosts_hands_back_without_certainty() {
    let evaluate = |health: &mut LaunchHealth, in_flight, waiting| {
        health.evaluate(at(40_000), TIMEOUT, in_flight, waiting).map(|verdict| verdict.certain)
    };
    let mut health = leader(2);
    health.record_failure(launch(0), &failure(Cause::TimedOut), true);
    assert_eq!(evaluate(&mut health, 1, 1), None, "the other may come");
    health.record_failure(launch(1), &refused(), true);
    assert_eq!(evaluate(&mut health, 0, 2), None, "it is refused again first");
    assert!(health.record_failure(launch(1), &refused(), false));
    assert_eq!(evaluate(&mut health, 0, 1), Some(false));
}

#[test]
fn a_leader_with_one_failing_host_hands_it_back_after_three_attempts() {
    let mut health = leader(1);
    for count in 1..=3 {
        health.record_failure(launch(0), &refused(), true);
        let verdict = health.evaluate(at(1_000), TIMEOUT, 0, 1);
        assert_eq!(verdict.map(|verdict| verdict.certain), (count == 3).then_some(false));
    }
}

#[test]
fn failed_hosts_are_deferred_until_launching_is_confirmed() {
    let mut health = leader(20);
    assert!(health.record_failure(launch(0), &refused(), false));
    assert!(!certain(&mut health, 100));
    let deferred = health.confirm();
    assert_eq!(deferred.len(), 1);
    assert_eq!(deferred[0].0, launch(0));
    assert!(!health.record_failure(launch(1), &refused(), false), "no host is deferred any more");
    for host in 1..20 {
        health.record_failure(launch(host), &refused(), true);
    }
    assert!(!certain(&mut health, 200) && !health.is_unusable());
}

#[test]
fn children_launch_unless_more_are_unable_than_able() {
    let mut health = LaunchHealth::undecided();
    assert!(health.children_may_launch());
    health.child_cannot_launch();
    assert!(!health.children_may_launch());
    health.child_has_launched();
    assert!(health.children_may_launch());
}
