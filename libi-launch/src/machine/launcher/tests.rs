//! A launcher without a node: what it launches, gives away and reports.

use std::num::NonZeroU32;

use libi_core::dist::layout::Block;
use libi_core::ids::Rank;

use super::*;
use crate::failure::Exit;
use crate::machine::message::{ChildMessage, Spare};

mod doubt;

const ATTEMPTS: u16 = 3;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn spec(host: u32) -> HostSpec {
    HostSpec {
        host: HostIndex(host),
        attempt: Attempt::default(),
        name: format!("n{host}"),
        user: None,
        port: None,
        blocks: vec![Block { first: Rank(host), count: 1, distribution: 0 }],
        below: 0,
        faults: 0,
        restarts: 0,
    }
}

fn failure(cause: Cause) -> Failure {
    Failure {
        tail: "no route".to_owned(),
        ..Failure::without_evidence(Phase::Starting, cause, Duration::ZERO)
    }
}

/// A failure of the host, and of nothing else.
fn crash() -> Failure {
    Failure { phase: Phase::Handshaking, ..failure(Cause::TimedOut) }
}

/// A launcher with the terms of its decisions and its reports.
struct Leader {
    launcher: Launcher,
    options: LaunchOptions,
    is_launching: bool,
    staging: Option<StagingLoad>,
    reports: Vec<ChildMessage>,
}

impl Leader {
    /// A leader that was given these hosts.
    fn of(hosts: impl Iterator<Item = u32>) -> Self {
        let mut launcher = Launcher::of_leader(1);
        launcher.accept(hosts.map(spec).collect(), launcher.estimate(), false);
        let mut options = LaunchOptions::default();
        options.rules.attempts = ATTEMPTS;
        Self { launcher, options, is_launching: true, staging: None, reports: Vec::new() }
    }

    fn act<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Launcher, &Terms, &mut Vec<ChildMessage>) -> T,
    ) -> T {
        let Self { launcher, options, is_launching, staging, reports } = self;
        let (is_launching, staging) = (*is_launching, *staging);
        let terms = Terms { now, began: at(0), options, is_launching, settled: 0, front: None, staging };
        act(launcher, &terms, reports)
    }

    fn launch(&mut self, now: Instant) -> Option<Launch> {
        self.launch_if_fewer_than(1_000, now)
    }

    fn launch_if_fewer_than(&mut self, most: usize, now: Instant) -> Option<Launch> {
        self.launcher.clear_wake();
        let launch = self.act(now, |launcher, terms, _| launcher.next(most, terms))?;
        self.launcher.begin(launch)?;
        self.launcher.launched(launch.host, true, now);
        Some(launch)
    }

    /// Launches a host, which is up a second later and is given a share of the others.
    fn launch_and_share(&mut self) -> (Launch, GivenHosts) {
        let first = self.launch(at(1)).unwrap();
        self.act(at(2), |launcher, terms, _| launcher.ready(LinkId(7), first, terms)).unwrap();
        let children = [(LinkId(7), first.host)];
        let share = |launcher: &mut Launcher, terms: &Terms, reports: &mut _| {
            launcher.share_out(children.into_iter().map(|(link, host)| (link, host, 1)), terms, reports)
        };
        let (_, given, withdrawn) = self.act(at(2), share).remove(0);
        assert_eq!(withdrawn, []);
        (first, given)
    }

    fn fail(&mut self, launch: Launch, failure: Failure, now: Instant) {
        self.act(now, |launcher, terms, reports| {
            launcher.launch_failed(launch, failure, false, terms, reports);
        });
    }

    /// The reports since the last call, a letter and the host each.
    fn reports(&mut self) -> String {
        let reports = std::mem::take(&mut self.reports);
        let text = reports.iter().map(|report| match report {
            ChildMessage::Failed(host, ..) => format!("F{}", host.0),
            ChildMessage::Relaunch(host, ..) => format!("R{}", host.0),
            ChildMessage::HandBack(host, ..) => format!("B{}", host.0),
            ChildMessage::CannotLaunch(..) => "C".to_owned(),
            other => format!("{other:?}"),
        });
        text.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_host_is_retried_after_a_delay_and_then_given_up() {
    let mut leader = Leader::of(5..6);
    for attempt in 1..=ATTEMPTS {
        let now = at(10 * u64::from(attempt));
        let launch = leader.launch(now).unwrap();
        assert_eq!(launch.attempt.failed, attempt - 1);
        leader.fail(launch, crash(), now);
        if attempt < ATTEMPTS {
            assert_eq!((leader.launch(now), leader.reports()), (None, String::new()));
            assert!(leader.launcher.next_wake().is_some_and(|at| at > now));
        }
    }
    assert_eq!((leader.launch(at(90)), leader.reports()), (None, "F5".to_owned()));
}

#[test]
fn no_more_than_the_limit_are_in_flight() {
    let mut leader = Leader::of(1..9);
    let launched = (0..10).map_while(|second| leader.launch_if_fewer_than(3, at(second))).count();
    assert_eq!((launched, leader.launcher.in_flight()), (3, 3));
}

#[test]
fn a_front_end_with_a_limit_keeps_few_hosts_and_leaves_all_to_a_child_when_its_launches_are_silent() {
    let given = |limit| {
        let mut front = Leader::of(0..0);
        let cost = Cost::new(Duration::from_millis(10), Duration::from_secs(1));
        front.launcher.accept((0..200).map(spec).collect(), Estimate::assumed(&cost), false);
        front.options.front_end_launches = NonZeroU32::new(limit);
        let launches: Vec<Launch> = (0..2).map_while(|_| front.launch(at(1))).collect();
        let share = |launcher: &mut Launcher, terms: &Terms, reports: &mut _| {
            launcher.ready(LinkId(7), launches[0], terms);
            launcher.share_out([(LinkId(7), launches[0].host, 1)].into_iter(), terms, reports)
        };
        let first = front.act(at(2), share).remove(0).1.specs.len();
        (front, first)
    };
    let (mut front, given_by_two) = given(2);
    let (_, given_by_many) = given(100);
    assert!(given_by_two > given_by_many + 10, "{given_by_two} {given_by_many}");

    let launch = |front: &mut Leader, now| front.launch_if_fewer_than(2, now);
    assert!(launch(&mut front, at(2)).is_some() && launch(&mut front, at(2)).is_none());
    let silent = front.launcher.next_wake().unwrap();
    assert!(silent < at(5) && !front.launcher.is_stuck(2, at(2)));
    assert_eq!(launch(&mut front, silent), None, "silent launches count");
    let silent = front.launcher.next_wake().unwrap();
    assert!(silent > at(5) && front.launcher.is_stuck(2, silent), "{silent}");
    assert!(!front.launcher.is_stuck(3, silent));
}

#[test]
fn children_that_lack_files_are_few_and_get_all_hosts() {
    let mut leader = Leader::of(1..33);
    let mut load = StagingLoad { children: 0, each: Some(Duration::from_secs(8)) };
    let mut launched = Vec::new();
    for second in 0..3 {
        leader.staging = Some(load);
        launched.extend(leader.launch(at(second)));
    }
    assert_eq!(launched.len(), 2, "no more than two at a time");
    let mut given = Vec::new();
    for launch in launched {
        leader.staging = Some(load);
        let ready = |launcher: &mut Launcher, terms: &Terms, _: &mut _| {
            launcher.ready(LinkId(launch.host.0), launch, terms)
        };
        given.push(leader.act(at(3), ready).unwrap().specs.len());
        load.children += 1;
        leader.staging = Some(load);
        assert_eq!(leader.launch(at(3)), None);
    }
    assert_eq!(given, [15, 15]);

    // Files that take no time leave everything to the window and the queue.
    let mut leader = Leader::of(1..33);
    leader.staging = Some(StagingLoad { children: 9, each: Some(Duration::ZERO) });
    let launched = (0..3).filter_map(|second| leader.launch(at(second))).count();
    assert_eq!(launched, 3);
}

#[test]
fn launches_that_are_silent_for_long_do_not_fill_the_window() {
    let mut leader = Leader::of(1..1_000);
    let mut launched = 0;
    while leader.launch(at(1)).is_some() {
        launched += 1;
    }
    assert!((1..999).contains(&launched), "{launched}");
    assert_eq!(leader.launch(at(3)), None);
    assert!(leader.launch(at(5)).is_some());
}

#[test]
fn a_launcher_without_resources_waits_for_launches_in_flight_until_they_are_silent() {
    let mut leader = Leader::of(1..40);
    let launches = [(); 3].map(|()| leader.launch(at(1)).unwrap());
    leader.fail(launches[2], failure(Cause::OutOfResources("no processes".to_owned())), at(1));
    leader.launcher.started(Duration::ZERO, true);
    assert_eq!(leader.launch(at(1)), None);
    let silent = leader.launcher.next_wake().unwrap();
    let given =
        leader.act(at(2), |launcher, terms, _| launcher.ready(LinkId(1), launches[0], terms)).unwrap();
    assert!((10..30).contains(&given.specs.len()), "the other one gets its part: {}", given.specs.len());
    assert!(!leader.launcher.is_stuck(usize::MAX, at(2)));
    assert!(
        silent > at(3) && leader.launcher.is_stuck(usize::MAX, silent),
        "what is silent gets none: {silent}"
    );
}

#[test]
fn what_comes_back_when_launching_has_stopped_is_given_up() {
    let mut leader = Leader::of(1..40);
    let (first, given) = leader.launch_and_share();
    let host = given.specs[0].host;
    let back = Launch { host, attempt: Attempt::default().after_loss() };
    leader.is_launching = false;
    leader.act(at(3), |launcher, terms, reports| {
        launcher.accept_hand_back(first.host, back, true, terms, reports);
    });
    assert_eq!(leader.reports(), format!("F{}", host.0));
}

#[test]
fn hosts_lost_with_their_leader_are_launched_again() {
    let mut leader = Leader::of(1..40);
    let (first, given) = leader.launch_and_share();
    assert!(!given.specs.is_empty() && given.specs.iter().all(|spec| spec.host != first.host));
    leader.act(at(3), |launcher, terms, reports| {
        launcher.leader_lost(first, &failure(Cause::Closed), terms, reports);
    });
    let again = leader.reports();
    assert_eq!(again.matches('R').count(), 1 + given.specs.len(), "{again}");
    let attempt = leader.launcher.spec(given.specs[0].host).unwrap().attempt;
    assert_eq!(attempt, Attempt::default().after_loss());
}

#[test]
fn a_launcher_that_cannot_launch_hands_all_hosts_back_once() {
    let mut leader = Leader::of(1..5);
    let launch = leader.launch(at(1)).unwrap();
    leader.fail(launch, failure(Cause::NotStarted("no ssh".to_owned())), at(1));
    let silent = leader.act(at(1), Launcher::evaluate_health);
    assert_eq!(silent, Some(SilentLaunches::Cancel));
    let mut reports = leader.reports();
    assert!(reports.starts_with('C'), "{reports}");
    assert_eq!(reports.matches('B').count(), 4, "{reports}");
    assert_eq!(leader.launch(at(2)), None);
    leader.launcher.accept(vec![spec(9)], leader.launcher.estimate(), false);
    leader.act(at(3), Launcher::hand_back_new_share);
    reports = leader.reports();
    assert_eq!((reports.as_str(), leader.launch(at(4))), ("B9", None));
}

#[test]
fn a_host_that_is_handed_back_is_launched_here() {
    let mut leader = Leader::of(1..40);
    let (first, given) = leader.launch_and_share();
    let host = given.specs[0].host;
    let back = Launch { host, attempt: Attempt::default().after_loss() };
    leader.act(at(3), |launcher, terms, reports| {
        launcher.accept_hand_back(first.host, back, true, terms, reports);
        launcher.accept_hand_back(first.host, back, true, terms, reports);
    });
    assert_eq!(leader.reports(), format!("R{}", host.0), "it comes back once");
    assert_eq!(leader.launch(at(4)), Some(back), "before the hosts that were not tried");
}

#[test]
fn hosts_that_wait_are_given_up_with_the_evidence_of_their_last_attempt() {
    let mut leader = Leader::of(1..3);
    let launch = leader.launch(at(1)).unwrap();
    leader.fail(launch, crash(), at(1));
    leader.is_launching = false;
    leader.act(at(2), |launcher, terms, reports| launcher.abandon(&Cause::Cancelled, terms, reports));
    let tails = leader.reports.iter().map(|report| match report {
        ChildMessage::Failed(host, _, failure) => (host.0, failure.tail.clone()),
        other => panic!("{other:?}"),
    });
    let mut tails: Vec<_> = tails.collect();
    tails.sort();
    assert_eq!(tails, [(1, "no route".to_owned()), (2, String::new())]);
}

#[test]
fn a_spare_takes_the_place_of_a_host_with_a_new_attempt() {
    let mut leader = Leader::of(1..2);
    let launch = leader.launch(at(1)).unwrap();
    leader.fail(launch, Failure { phase: Phase::Joining, ..failure(Cause::Exited(Exit::Code(127))) }, at(1));
    let spare = |_: &str| Some(Spare { name: "s1".to_owned(), user: None, port: Some(23) });
    let spec = leader.launcher.replace(launch, true, at(2), spare).unwrap();
    assert_eq!((&*spec.name, spec.port, spec.attempt), ("s1", Some(23), Attempt::default().after_loss()));
    assert_eq!(leader.launcher.next_wake(), Some(at(2)));
    assert_eq!(leader.launch(at(2)).map(|launch| launch.attempt), Some(spec.attempt));
    assert!(leader.launcher.replace(launch, true, at(3), |_| None).is_none(), "without spares it stays");
}
