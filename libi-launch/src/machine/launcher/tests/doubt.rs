//! Leaders whose first launches speak against them, and what they hand back.

use super::*;

#[test]
fn refusals_by_an_overloaded_server_count_when_the_host_is_handed_back() {
    let refused = Failure {
        tail: "Connection closed by n5 port 22\r\n".to_owned(),
        ..failure(Cause::Exited(Exit::Code(255)))
    };
    let allowed = failures::attempts_allowed(ATTEMPTS, &refused);
    assert!(allowed > ATTEMPTS);
    // As long as one launch is open, the leader does not know what the refusals mean.
    let mut leader = Leader::of(5..7);
    let (mut next, open) = (leader.launch(at(1)).unwrap(), leader.launch(at(1)).unwrap());
    let mut launches = 1;
    leader.fail(next, refused.clone(), at(1));
    while let Some(again) = leader.launch(at(100 * u64::from(launches) + 50)) {
        next = again;
        launches += 1;
        leader.fail(next, refused.clone(), at(100 * u64::from(launches)));
    }
    assert_eq!((launches, next.attempt.failed + 1, leader.reports()), (allowed, allowed, String::new()));
    leader.fail(open, Failure { cause: Cause::TimedOut, ..refused }, at(10_000));
    leader.act(at(10_000), Launcher::evaluate_health);
    let of_host = |report: &ChildMessage| match report {
        ChildMessage::HandBack(host, attempt, true) => (*host == next.host).then_some(*attempt),
        _ => None,
    };
    // One attempt is left in any case.
    let back = leader.reports.iter().find_map(of_host).unwrap();
    assert_eq!(back.failed, allowed - 1);
}

#[test]
fn what_is_in_flight_when_all_of_few_hosts_have_failed_counts_as_what_has_failed_before() {
    let attempt = |failed, lost| Attempt { failed, lost, ..Attempt::default() };
    for (cause, before, expected) in [
        (Cause::TimedOut, 0, attempt(2, 0)),
        (Cause::TimedOut, 1, attempt(2, 1)), // one attempt is left in any case
        (Cause::Cancelled, 0, attempt(1, 1)),
    ] {
        let mut leader = Leader::of(0..0);
        let specs = (5..8).map(|host| HostSpec { attempt: attempt(before, 0), ..spec(host) }).collect();
        leader.launcher.accept(specs, leader.launcher.estimate(), false);
        let first: Vec<Launch> = (1..4).map_while(|second| leader.launch(at(second))).collect();
        leader.fail(first[0], failure(Cause::TimedOut), at(5));
        let again = leader.launch(at(500)).unwrap();
        assert_eq!(again, Launch { host: HostIndex(5), attempt: attempt(before + 1, 0) });
        first[1..].iter().for_each(|launch| leader.fail(*launch, failure(Cause::TimedOut), at(501)));
        leader.act(at(501), Launcher::evaluate_health);
        assert_eq!(leader.reports(), "C B6 B7");
        leader.fail(again, failure(cause.clone()), at(502));
        let [ChildMessage::HandBack(host, next, _)] = leader.reports[..] else {
            panic!("{:?}", leader.reports)
        };
        assert_eq!((host, next), (again.host, expected), "{cause:?} after {before}");
    }
}

/// A login that was denied.
fn denied() -> Failure {
    Failure {
        tail: "Permission denied (publickey).\r\n".to_owned(),
        ..failure(Cause::Exited(Exit::Code(255)))
    }
}

#[test]
fn a_leader_in_doubt_keeps_what_it_needs_to_decide_and_hands_back_the_rest() {
    let mut leader = Leader::of(5..15);
    leader.launcher.set_parent_takes_back(true);
    let launches: Vec<Launch> = (1..3).map_while(|second| leader.launch(at(second))).collect();
    leader.act(at(3), Launcher::evaluate_health);
    assert_eq!(leader.reports(), "", "no failure yet");
    leader.fail(launches[0], denied(), at(3));
    leader.act(at(3), Launcher::evaluate_health);
    assert_eq!(leader.reports(), "InDoubt(true) B8 B9 B10 B11 B12 B13 B14");
    // What children that have moved here hand back is for the parent.
    assert!(leader.launcher.passes_on());
    leader.launcher.accept(vec![spec(20)], leader.launcher.estimate(), false);
    leader.act(at(3), Launcher::evaluate_health);
    assert_eq!(leader.reports(), "B20", "a share that arrives");
    let third = leader.launch(at(4)).unwrap();
    assert_eq!((third.host, leader.launch(at(5))), (HostIndex(7), None));
    leader.act(at(6), |launcher, terms, _| launcher.ready(LinkId(7), launches[1], terms)).unwrap();
    leader.act(at(6), |launcher, _, reports| launcher.launching_confirmed(reports));
    leader.act(at(6), Launcher::evaluate_health);
    assert_eq!(leader.reports(), "F5 InDoubt(false)", "the host that denies logins is given up");
    assert!(!leader.launcher.passes_on());
}

#[test]
fn a_leader_whose_parent_does_not_launch_keeps_all_until_it_has_decided() {
    let mut leader = Leader::of(5..15);
    let launches: Vec<Launch> = (1..4).map_while(|second| leader.launch(at(second))).collect();
    for (number, launch) in launches.into_iter().enumerate() {
        assert_eq!(leader.reports(), "", "{number} have failed");
        leader.fail(launch, denied(), at(5));
        leader.act(at(5), Launcher::evaluate_health);
    }
    assert_eq!(leader.reports(), "C B5 B6 B7 B8 B9 B10 B11 B12 B13 B14");
}

#[test]
fn children_get_no_hosts_while_more_doubt_than_have_launched_any() {
    let mut leader = Leader::of(5..15);
    for (doubts, launched, may) in [(1, 0, false), (1, 1, true), (2, 1, false), (1, 1, true)] {
        leader.launcher.health = LaunchHealth::undecided();
        (0..doubts).for_each(|_| leader.launcher.child_doubts(true));
        (0..launched).for_each(|_| leader.launcher.child_has_launched());
        assert_eq!(leader.launcher.children_may_launch(), may, "{doubts} doubt, {launched} have launched");
        (0..doubts).for_each(|_| leader.launcher.child_doubts(false));
        assert!(leader.launcher.children_may_launch());
    }
}

#[test]
fn a_host_whose_login_was_denied_to_one_launcher_is_launched_by_the_next_at_once() {
    let mut leader = Leader::of(5..6);
    let launch = leader.launch(at(1)).unwrap();
    leader.fail(launch, denied(), at(1));
    leader.act(at(1), Launcher::evaluate_health);
    let back = leader.reports.iter().find_map(|report| match report {
        ChildMessage::HandBack(host, attempt, tried) => Some((*host, *attempt, *tried)),
        _ => None,
    });
    assert_eq!(back, Some((launch.host, launch.attempt.after_loss(), true)));
}
