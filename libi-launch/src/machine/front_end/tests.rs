use libi_core::dist::layout::Block;
use libi_core::ids::Rank;

use super::*;
use crate::failure::Exit;
use crate::machine::contract::Notice;
use crate::machine::host_table::Policy;
use crate::machine::message::ChildMessage;
use crate::options::{Engine, LaunchOptions};

const RULES: fn() -> Rules = Rules::default;
const DEADLINE: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn failure(cause: Cause) -> Failure {
    Failure::without_evidence(Phase::Starting, cause, Duration::from_secs(1))
}

fn failed(host: u32) -> ChildMessage {
    ChildMessage::Failed(HostIndex(host), Attempt::default(), failure(Cause::TimedOut))
}

fn joined(host: u32) -> ChildMessage {
    ChildMessage::Joined(HostIndex(host), Attempt::default(), LaunchTiming::default())
}

/// A launch of three hosts with two ranks each, at its beginning.
struct Launch {
    front: FrontEndState,
    hosts: Vec<HostSpec>,
    stage: SessionStage,
}

impl Launch {
    fn new(change: impl FnOnce(&mut LaunchOptions)) -> Self {
        let mut options = LaunchOptions { deadline: DEADLINE, ..LaunchOptions::default() };
        change(&mut options);
        let host = |host: u32| HostSpec {
            host: HostIndex(host),
            attempt: Attempt::default(),
            name: format!("n{host}"),
            user: None,
            port: None,
            blocks: vec![Block { first: Rank(2 * host), count: 2, distribution: 0 }],
            below: 0,
            faults: 0,
            restarts: 0,
        };
        let hosts: Vec<_> = (0..3).map(host).collect();
        let plan = LaunchPlan { hosts: hosts.clone(), programs: Vec::new(), size: 6, secret: None, options };
        let mut front = FrontEndState::new(&plan);
        front.begin(at(0));
        Self { front, hosts, stage: SessionStage::new() }
    }

    fn with_policy(policy: Policy) -> Self {
        Self::new(|options| options.policy = policy)
    }

    /// All hosts have joined, and the session is up.
    fn up() -> Self {
        Self::up_with(Engine::default())
    }

    fn up_with(engine: Engine) -> Self {
        let mut launch = Self::new(|options| options.engine = engine);
        assert_eq!(launch.step(1, &[joined(0), joined(1), joined(2)]), NextStep::GoUp);
        launch.go_up();
        launch
    }

    fn go_up(&mut self) -> Ranks {
        self.stage.go_up();
        self.front.leave_out_failed(self.hosts.iter())
    }

    fn record(&mut self, report: &ChildMessage) -> Vec<Notice> {
        let hosts = &self.hosts;
        let blocks = |host: HostIndex| hosts.get(host.0 as usize).map_or(&[][..], |spec| &spec.blocks);
        self.front.record(report, None, blocks, self.stage, at(1))
    }

    /// The next step at this time, after these reports.
    fn step(&mut self, seconds: u64, reports: &[ChildMessage]) -> NextStep {
        reports.iter().for_each(|report| {
            self.record(report);
        });
        self.front.next_step(self.stage, Fates::Known, &RULES(), at(seconds))
    }
}

#[test]
fn the_session_goes_up_when_all_hosts_have_joined() {
    let mut launch = Launch::with_policy(Policy::All);
    assert_eq!(launch.step(1, &[joined(0), joined(1)]), NextStep::Wait);
    assert_eq!(launch.step(1, &[joined(2)]), NextStep::GoUp);
    assert!(launch.go_up().is_empty());
}

#[test]
fn members_of_failed_hosts_are_absent_when_the_session_goes_up() {
    let mut launch = Launch::with_policy(Policy::AtLeast(2));
    assert_eq!(launch.step(1, &[joined(0), failed(1), joined(2)]), NextStep::GoUp);
    assert_eq!(launch.go_up().to_string(), "ranks 2-3");
    let gone = [0, 1, 4, 5].map(|rank| ChildMessage::Exited(Rank(rank), Exit::Code(0), None, 0));
    assert_eq!(launch.step(2, &gone), NextStep::Done, "absent members are not awaited");
}

#[test]
fn a_session_without_its_first_host_is_given_up_at_once() {
    let mut launch = Launch::with_policy(Policy::AtLeast(1));
    assert_eq!(launch.step(1, &[failed(0)]), NextStep::GiveUp);
}

#[test]
fn launching_stops_when_enough_cannot_join_and_failure_linger_has_passed() {
    let mut launch = Launch::with_policy(Policy::All);
    assert_eq!(launch.step(10, &[joined(0), failed(1)]), NextStep::Wait);
    let linger = at(10) + RULES().failure_linger;
    assert_eq!(launch.front.deadline(launch.stage), Some(linger));
    assert_eq!(
        launch.front.next_step(launch.stage, Fates::Known, &RULES(), linger),
        NextStep::StopLaunching(Cause::Cancelled)
    );
    launch.stage.stop_launching();
    let cancelled = Failure::without_evidence(Phase::Waiting, Cause::Cancelled, Duration::ZERO);
    launch.record(&ChildMessage::Failed(HostIndex(2), Attempt::default(), cancelled));
    let why = launch.front.hosts().nth(2).cloned();
    assert!(
        matches!(&why, Some(HostState::Failed(failure)) if failure.cause == Cause::LaunchFailed(HostIndex(1))),
        "it names the host at fault: {why:?}"
    );
    assert_eq!(launch.step(12, &[]), NextStep::GiveUp);
}

#[test]
fn a_relaunched_host_ends_the_linger() {
    let mut launch = Launch::with_policy(Policy::All);
    assert_eq!(launch.step(10, &[joined(0), failed(1)]), NextStep::Wait);
    let next = Attempt::default().after_loss();
    assert_eq!(launch.step(11, &[ChildMessage::Relaunch(HostIndex(1), next, None)]), NextStep::Wait);
    assert_eq!(launch.step(30, &[]), NextStep::Wait);
}

#[test]
fn hosts_that_are_open_at_the_deadline_fail_after_twice_the_kill_grace() {
    let mut launch = Launch::with_policy(Policy::All);
    assert_eq!(launch.step(59, &[joined(0), joined(1)]), NextStep::Wait);
    assert_eq!(launch.step(60, &[]), NextStep::StopLaunching(Cause::TimedOut));
    launch.stage.stop_launching();
    let by = at(60) + RULES().kill_grace * 2;
    assert_eq!(launch.front.deadline(launch.stage), Some(by));
    assert_eq!(launch.step(61, &[]), NextStep::Wait, "verdicts are on their way");
    assert_eq!(launch.front.next_step(launch.stage, Fates::Known, &RULES(), by), NextStep::GiveUp);
    assert!(launch.front.has_given_up(HostIndex(2)) && !launch.front.has_given_up(HostIndex(1)));
}

#[test]
fn a_session_with_enough_hosts_goes_up_after_the_deadline() {
    let mut launch = Launch::new(|options| {
        (options.policy, options.settle) = (Policy::AtLeast(2), Some(Duration::MAX));
    });
    assert_eq!(launch.step(1, &[joined(0), joined(1)]), NextStep::Wait);
    assert_eq!(launch.step(60, &[]), NextStep::StopLaunching(Cause::TimedOut));
    launch.stage.stop_launching();
    assert_eq!(launch.step(90, &[]), NextStep::GoUp);
}

#[test]
fn open_hosts_are_given_up_when_the_launch_has_settled() {
    let mut launch = Launch::new(|options| {
        (options.policy, options.settle) = (Policy::AtLeast(2), Some(Duration::from_secs(5)));
    });
    assert_eq!(launch.step(1, &[joined(0)]), NextStep::Wait);
    assert_eq!(launch.step(9, &[]), NextStep::Wait, "too few have joined");
    assert_eq!(launch.step(10, &[joined(1)]), NextStep::Wait);
    assert_eq!(launch.front.deadline(launch.stage), Some(at(15)));
    assert_eq!(launch.step(15, &[]), NextStep::GiveUpOpen);
}

#[test]
fn hosts_that_join_a_session_which_was_given_up_do_not_count() {
    let mut launch = Launch::with_policy(Policy::All);
    assert_eq!(launch.step(1, &[failed(0)]), NextStep::GiveUp);
    launch.front.close(launch.front.why_given_up(), &[], at(1));
    launch.stage.end(at(3));
    let before = launch.front.progress();
    assert_eq!((launch.record(&joined(1)), launch.front.progress()), (Vec::new(), before));
    assert_eq!(launch.step(2, &[]), NextStep::Wait);
}

#[test]
fn hosts_that_were_tried_keep_their_attempts_when_the_launch_is_given_up() {
    let mut launch = Launch::with_policy(Policy::All);
    assert_eq!(launch.step(1, &[failed(0)]), NextStep::GiveUp);
    let in_progress = Failure { cause: launch.front.why_given_up(), ..failure(Cause::Closed) };
    let tried = [ChildMessage::Failed(HostIndex(1), Attempt::default().after_failure(), in_progress.clone())];
    // What is known of a host is not replaced.
    let master_failed = Cause::MasterFailed(HostIndex(0));
    launch.front.close(master_failed.clone(), &[tried[0].clone(), failed(0)], at(2));
    let expected = [
        failure(Cause::TimedOut),
        in_progress,
        Failure::without_evidence(Phase::Waiting, master_failed, Duration::from_secs(2)),
    ];
    assert!(launch.front.hosts().eq(&expected.map(HostState::Failed)));
    assert_eq!(launch.front.attempts().collect::<Vec<_>>(), [1, 2, 0]);
}

#[test]
fn a_host_that_joins_when_the_session_is_up_without_it_does_not_count() {
    let mut launch = Launch::with_policy(Policy::AtLeast(1));
    assert_eq!(launch.step(1, &[joined(0), failed(1), failed(2)]), NextStep::GoUp);
    launch.stage.go_up();
    assert_eq!(launch.record(&joined(1)), []);
    assert_eq!(launch.record(&failed(1)), [], "it was no host of the session that could be lost");
    assert_eq!(launch.front.progress().0, 1);
}

#[test]
fn the_session_is_done_once_when_every_member_is_gone() {
    let mut launch = Launch::up();
    let exited = |rank| ChildMessage::Exited(Rank(rank), Exit::Code(0), None, 0);
    assert_eq!(launch.record(&exited(0)), [Notice::Exited(Rank(0), Exit::Code(0), None)]);
    assert_eq!(launch.record(&ChildMessage::Detached(Rank(1))), [Notice::Detached(Rank(1))]);
    assert_eq!(launch.step(2, &[exited(2), exited(3), exited(3)]), NextStep::Wait);
    assert!(matches!(&launch.record(&failed(2))[..], [Notice::Lost(HostIndex(2), _)]));
    assert_eq!(launch.step(3, &[]), NextStep::Done);
    assert_eq!(launch.step(4, &[]), NextStep::Wait);
}

#[test]
fn a_host_whose_members_had_all_left_is_not_lost() {
    let mut launch = Launch::up();
    launch.record(&ChildMessage::Detached(Rank(2)));
    launch.record(&ChildMessage::Exited(Rank(3), Exit::Code(0), None, 0));
    assert_eq!(launch.record(&failed(1)), []);
}

#[test]
fn how_a_host_was_linked_is_known_until_it_is_lost() {
    let mut launch = Launch::up();
    let links = [1, 2].map(|host| ChildMessage::Link(HostIndex(host), true));
    let left = [2, 3].map(|rank| ChildMessage::Exited(Rank(rank), Exit::Code(0), None, 0));
    links.iter().chain(&left).chain(&[failed(1)]).for_each(|report| drop(launch.record(report)));
    assert_eq!(launch.front.links().known(), [None, Some(true), Some(true)], "its members had left");
    launch.record(&failed(2));
    assert_eq!((launch.front.links().known()[2], launch.front.links().counts()), (None, (1, 0)));
}

#[test]
fn a_host_that_was_lost_with_its_launcher_had_joined() {
    let mut launch = Launch::up();
    let lost = failure(Cause::LauncherLost(HostIndex(0)));
    let notices = launch.record(&ChildMessage::Failed(HostIndex(1), Attempt::default(), lost.clone()));
    assert_eq!(notices, [Notice::Lost(HostIndex(1), Failure { phase: Phase::Joined, ..lost })]);
}

#[test]
fn the_exit_of_a_leader_that_was_lost_late_is_told_with_the_verdict() {
    let mut launch = Launch::up_with(Engine::InProgram);
    let exited = Box::new(failure(Cause::Exited(Exit::Code(3))));
    let next = |lost| Attempt { lost, ..Attempt::default() };
    assert_eq!(launch.record(&ChildMessage::Relaunch(HostIndex(1), next(1), Some(exited.clone()))), []);
    let cancelled = ChildMessage::Failed(HostIndex(1), next(2), failure(Cause::Cancelled));
    let notices = launch.record(&cancelled);
    assert_eq!(notices, [Notice::Exited(Rank(2), Exit::Code(3), None), Notice::Lost(HostIndex(1), *exited)]);
}

#[test]
fn a_spare_replaces_an_open_host_while_enough_can_still_join() {
    let first = Attempt::default();
    let mut launch = Launch::with_policy(Policy::AtLeast(2));
    let (out_of_time, settled) = (failure(Cause::TimedOut), failure(Cause::SettleElapsed));
    assert!(launch.front.may_replace(HostIndex(1), first, &out_of_time));
    assert!(!launch.front.may_replace(HostIndex(1), first, &settled));
    assert!(!launch.front.may_replace(HostIndex(3), first, &out_of_time), "no such host");
    let next = Attempt::default().after_loss();
    launch.record(&ChildMessage::Relaunch(HostIndex(1), next, None));
    assert!(!launch.front.may_replace(HostIndex(1), first, &out_of_time), "it is out of date");
    launch.record(&failed(2));
    assert!(!launch.front.may_replace(HostIndex(2), first, &out_of_time), "it was given up before");
    assert!(launch.front.may_replace(HostIndex(1), next, &out_of_time));
    let mut launch = Launch::with_policy(Policy::All);
    launch.step(1, &[failed(2)]);
    assert!(!launch.front.may_replace(HostIndex(1), first, &out_of_time), "the session cannot come up");
}

#[test]
fn times_of_a_launch_that_said_hello_are_kept() {
    let mut launch = Launch::with_policy(Policy::All);
    let timing = |hello| LaunchTiming { hello, ..LaunchTiming::default() };
    let good = timing(Some(Duration::from_secs(2)));
    launch.record(&ChildMessage::Joined(HostIndex(1), Attempt::default(), good));
    launch.record(&failed(1));
    assert_eq!(launch.front.timings()[1], good);
    let later = timing(Some(Duration::from_secs(3)));
    launch.record(&ChildMessage::Joined(HostIndex(1), Attempt::default(), later));
    assert_eq!(launch.front.timings()[1], later);
}

#[test]
fn the_deadline_stands_still_while_a_start_waits() {
    let mut launch = Launch::with_policy(Policy::All);
    launch.front.set_queued(true, at(10));
    launch.front.set_queued(true, at(20));
    assert_eq!(launch.front.deadline(launch.stage), Some(Instant::FAR_FUTURE));
    assert_eq!(launch.step(1_000, &[]), NextStep::Wait);
    launch.front.set_queued(false, at(1_010));
    assert_eq!(launch.front.queued(), Duration::from_secs(1_000));
    launch.front.set_queued(true, at(1_020));
    launch.front.set_queued(false, at(1_025));
    launch.front.set_queued(false, at(1_030));
    assert_eq!(launch.front.queued(), Duration::from_secs(1_005));
    let deadline = at(1_005) + DEADLINE;
    assert_eq!(launch.front.deadline(launch.stage), Some(deadline));
    assert_eq!(launch.step(1_064, &[]), NextStep::Wait);
    assert_eq!(launch.step(1_065, &[]), NextStep::StopLaunching(Cause::TimedOut));
}

#[test]
fn a_launch_that_is_hopeless_while_a_start_waits_has_not_timed_out() {
    let mut launch = Launch::with_policy(Policy::All);
    launch.front.set_queued(true, at(1));
    assert_eq!(launch.step(100, &[failed(1)]), NextStep::Wait);
    assert_eq!(launch.step(110, &[]), NextStep::StopLaunching(Cause::Cancelled));
}

#[test]
fn once_launching_has_stopped_no_start_delays_the_verdicts() {
    let mut launch = Launch::with_policy(Policy::All);
    assert_eq!(launch.step(60, &[]), NextStep::StopLaunching(Cause::TimedOut));
    launch.stage.stop_launching();
    launch.front.set_queued(true, at(61));
    assert_eq!(launch.front.deadline(launch.stage), Some(at(60) + RULES().kill_grace * 2));
    assert_eq!(launch.step(70, &[]), NextStep::GiveUp);
}

#[test]
fn a_launch_does_not_settle_while_an_open_host_could_end_the_others() {
    let mut launch = Launch::new(|options| {
        (options.policy, options.settle) = (Policy::AtLeast(2), Some(Duration::from_secs(1)));
    });
    assert_eq!(launch.step(1, &[joined(0), joined(1)]), NextStep::Wait);
    let step = |launch: &mut Launch, fates, now| launch.front.next_step(launch.stage, fates, &RULES(), now);
    assert_eq!(step(&mut launch, Fates::Open, at(50)), NextStep::Wait);
    assert_eq!(launch.front.deadline(launch.stage), Some(Instant::ZERO + DEADLINE));
    assert_eq!(step(&mut launch, Fates::Known, at(50)), NextStep::GiveUpOpen);
}

#[test]
fn a_session_does_not_go_up_while_its_hosts_may_end_but_when_the_deadline_passes() {
    let mut launch = Launch::with_policy(Policy::AtLeast(2));
    launch.step(1, &[joined(0), joined(1)]);
    launch.record(&failed(2));
    let step = |launch: &mut Launch, fates, now| launch.front.next_step(launch.stage, fates, &RULES(), now);
    assert_eq!(step(&mut launch, Fates::Ending, at(2)), NextStep::Wait);
    assert_eq!(step(&mut launch, Fates::Known, at(2)), NextStep::GoUp);
    assert_eq!(step(&mut launch, Fates::Ending, Instant::ZERO + DEADLINE), NextStep::GoUp);
}

#[test]
fn a_host_that_has_failed_or_is_launched_again_is_no_source_of_files() {
    let first = Attempt::default();
    let again = Attempt { failed: 1, ..first };
    for report in [failed(1), ChildMessage::Relaunch(HostIndex(1), again, None)] {
        let mut launch = Launch::new(|_| {});
        launch.front.source_order = SourceOrder::new(3, 1 << 30);
        let place = |launch: &mut Launch, host: u32| {
            let address = SocketAddr::from(([10, 0, 0, host as u8], 1));
            let asks = libi_core::plan::late::Launch { host: HostIndex(host), attempt: first };
            launch.front.place_source(asks, vec![address])
        };
        assert_eq!(place(&mut launch, 0), []);
        assert_eq!(place(&mut launch, 1)[0].ip().to_string(), "10.0.0.0");
        launch.record(&report);
        assert_eq!(place(&mut launch, 2)[0].ip().to_string(), "10.0.0.0");
    }
}
