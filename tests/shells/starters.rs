//! Launches by a starter, which starts many hosts at once: their links arrive at the rendezvous, in
//! any order, late, twice, from another session, or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use libi::{
    Cause, Distribution, Engine, Exit, FrontEnd, HostReport, LaunchOptions, Policy, Rank, Rules, Starter,
    Stream,
};
use libi_testkit::programs;

use crate::scene::{MARK, Outcome, Scene, What, members, word};

pub(crate) const HOSTS: &str = "n[00-15]:2";
const WORK: [&str; 4] = ["join", "out:out {rank}", "err:err {rank}", "finish:20000"];

/// The options of a scene, with a starter that does this wrong.
pub(crate) fn by_starter(scene: &Scene, faults: &[&str]) -> LaunchOptions {
    let starter = Starter { args: faults.iter().map(|fault| word(fault)).collect(), ..starter(scene) };
    scene.options().backend(starter).policy(Policy::AtLeast(1))
}

/// The starter, which bears the mark of the scene, as everything does that it starts.
fn starter(scene: &Scene) -> Starter {
    let path = scene.lab.0.join("libi-test-starter");
    let (mark, program) = (&scene.mark, programs::starter());
    fs::write(&path, format!("#!/bin/sh\nexec env {MARK}={mark} {program} \"$@\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Starter::new(word(path.to_str().unwrap()))
}

fn host<'a>(outcome: &'a Outcome, name: &str) -> &'a HostReport {
    outcome.report.hosts().iter().find(|host| host.name == name).unwrap()
}

/// The hosts that have joined.
pub(crate) fn joined(outcome: &Outcome) -> usize {
    outcome.report.hosts().iter().filter(|host| host.failure.is_none()).count()
}

pub(crate) fn cause(outcome: &Outcome, name: &str) -> Cause {
    let failure = host(outcome, name).failure.as_ref();
    failure.unwrap_or_else(|| panic!("{name} has joined: {}", outcome.report)).cause.clone()
}

/// The engines, and how a process ends with each that the front end does not let in: the member says
/// so, or the process that leads its host.
const NOT_ADMITTED: [(Engine, Exit); 2] =
    [(Engine::InProgram, Exit::Code(70)), (Engine::Apart, Exit::Code(3))];

/// All hosts but this one have joined; its process ends like this and says why it could not connect.
fn assert_not_admitted(outcome: &Outcome, name: &str, others: usize, exit: Exit, why: &str) {
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!((joined(outcome), cause(outcome, name)), (others, Cause::Exited(exit)));
    let failure = host(outcome, name).failure.as_ref().unwrap();
    assert!(failure.tail.contains(why), "{}", failure.tail);
}

/// Two members on each of 16 hosts come up, print and end, with these options.
pub(crate) fn all_come_up_print_and_end(scene: &Scene, options: &LaunchOptions) -> Outcome {
    let work =
        ["out:early {host}", "join", "out:out {rank}", "err:err {rank}", "finish:20000", "only:6:exit:3"];
    let outcome = scene.play(HOSTS, &work, options);
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(joined(&outcome), 16);
    for rank in 0..32 {
        let (out, err) = (outcome.printed(rank, Stream::Out), outcome.printed(rank, Stream::Err));
        assert!(out.contains("early") && out.ends_with(&format!("out {rank}\n")), "{out:?}");
        assert_eq!(err, format!("err {rank}\n"));
    }
    assert_eq!(outcome.exits[&Rank(6)], Exit::Code(3));
    assert_eq!(outcome.exits[&Rank(7)], Exit::Code(0));
    outcome
}

#[test]
fn one_start_brings_up_all_hosts_and_their_output_and_exits_arrive() {
    let scene = Scene::new("");
    all_come_up_print_and_end(&scene, &by_starter(&scene, &[]));
}

/// Two members on each of these hosts talk, and end without an error, with these options.
pub(crate) fn all_talk(scene: &Scene, hosts: &str, options: &LaunchOptions) {
    let work = [
        "join",
        "talk:barrier",
        "talk:allgather:1000",
        "talk:broadcast:0:100000",
        "talk:keys",
        "finish:20000",
    ];
    let outcome = scene.play(hosts, &work, options);
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert!(
        outcome.exits.values().all(|exit| *exit == Exit::Code(0)),
        "{:?} {:?}",
        outcome.exits,
        outcome.printed
    );
}

#[test]
fn members_that_a_starter_has_started_talk() {
    let scene = Scene::new("");
    all_talk(&scene, "n[0-4]:2", &by_starter(&scene, &[]));
}

#[test]
fn a_host_that_is_missing_fails_alone_and_is_named() {
    let scene = Scene::new("");
    let outcome = scene.play(HOSTS, &WORK, &by_starter(&scene, &["missing=n05"]));
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(joined(&outcome), 15);
    // The second start has this host only, and ends at once.
    assert!(matches!(cause(&outcome, "n05"), Cause::StarterExited(Exit::Code(0))), "{}", outcome.report);
    assert_eq!(host(&outcome, "n05").attempts, 2);
}

#[test]
fn a_host_that_arrives_late_is_refused_if_it_was_given_up() {
    let scene = Scene::new("");
    let outcome = scene.play(HOSTS, &WORK, &by_starter(&scene, &["late=n05:4000"]));
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!((joined(&outcome), cause(&outcome, "n05")), (15, Cause::TimedOut));
}

#[test]
fn a_host_that_arrives_late_joins_if_it_is_still_awaited() {
    let scene = Scene::new("");
    let outcome = scene.play(HOSTS, &WORK, &by_starter(&scene, &["late=n05:500"]));
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(joined(&outcome), 16);
}

#[test]
fn a_second_process_on_a_host_is_refused() {
    let scene = Scene::new("");
    let outcome = scene.play(HOSTS, &WORK, &by_starter(&scene, &["twice=n05", "twice=n00"]));
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(joined(&outcome), 16);
}

#[test]
fn a_process_with_the_ticket_of_another_session_does_not_join() {
    let scene = Scene::new("");
    let path = scene.lab.0.join("ticket");
    let keep = format!("keep={}", path.display());
    scene.play("n0:1", &WORK, &by_starter(&scene, &[&keep]));
    assert!(!fs::read(&path).unwrap().is_empty());
    let foreign = format!("ticket=n05:{}", path.display());
    for (engine, exit) in NOT_ADMITTED {
        let outcome = scene.play(HOSTS, &WORK, &by_starter(&scene, &[&foreign]).engine(engine));
        // The front end of that session does not listen any more.
        assert_not_admitted(&outcome, "n05", 15, exit, "none has let this process in");
    }
}

#[test]
fn a_host_counts_by_its_name_with_or_without_its_domain() {
    let scene = Scene::new("");
    let options = by_starter(&scene, &["alias=n1:n1.cluster", "alias=n2:nowhere"]);
    for (engine, exit) in NOT_ADMITTED {
        let outcome = scene.play("n[0-3]", &WORK, &options.clone().engine(engine));
        assert_not_admitted(&outcome, "n2", 3, exit, "does not await this process");
    }
}

#[test]
fn a_program_that_ends_before_it_joins_is_named_with_its_status_and_its_words() {
    let scene = Scene::new("");
    let outcome = scene.play("n[0-3]", &["err:out of luck", "exit:9"], &by_starter(&scene, &[]));
    assert!(!outcome.report.is_up());
    for host in outcome.report.hosts() {
        let failure = host.failure.as_ref().unwrap();
        let is_own = failure.cause == Cause::Exited(Exit::Code(9)) && failure.tail.contains("out of luck");
        assert!(is_own || failure.cause.is_cut_short(), "{failure:?}");
    }
}

#[test]
fn a_message_of_the_starter_itself_is_evidence_for_hosts_that_did_not_arrive() {
    let scene = Scene::new("");
    let outcome = scene.play("n[0-3]", &WORK, &by_starter(&scene, &["dies=Error: out of luck"]));
    assert!(!outcome.report.is_up());
    assert!(matches!(cause(&outcome, "n0"), Cause::StarterExited(Exit::Code(1))), "{}", outcome.report);
    assert!(outcome.report.to_string().contains("Error: out of luck"), "{}", outcome.report);
}

#[test]
fn a_starter_that_ends_early_takes_only_what_it_has_not_brought_up() {
    let scene = Scene::new("");
    let options = by_starter(&scene, &["exits=600", "late=n2:60000"]);
    let outcome = scene.play("n[0-3]", &["join", "out:out {rank}", "wait"], &options);
    let text = outcome.report.to_string();
    assert!(matches!(cause(&outcome, "n2"), Cause::StarterExited(Exit::Code(1))), "{text}");
    assert!(text.contains("did not arrive before its starter exited 1"), "{text}");
}

#[test]
fn a_starter_that_ignores_sigterm_is_killed_with_everything_it_has_started() {
    let scene = Scene::new("");
    let front = FrontEnd::new().unwrap();
    let options = by_starter(&scene, &["stubborn", "missing=n1"]);
    let (session, report) = scene.launch(&front, "n[0-3]", &["join", "wait"], &options);
    assert!(report.is_up(), "{report}");
    let marked = scene.processes();
    assert!(marked.iter().filter(|process| process.what != What::Shell).count() >= 4, "{marked:?}");
    drop(session);
    drop(front);
    scene.nothing_is_left();
}

#[test]
fn a_starter_that_does_not_exist_is_the_verdict_of_every_host() {
    let scene = Scene::new("");
    let options = scene.options().backend(Starter::new(word("/no/such/starter")));
    let outcome = scene.play("n[0-3]", &WORK, &options);
    assert!(!outcome.report.is_up());
    assert!(matches!(cause(&outcome, "n0"), Cause::NotStarted(_)), "{}", outcome.report);
}

#[test]
fn members_have_the_variables_of_their_own_distribution_and_none_of_their_leaders() {
    let scene = Scene::new("");
    let front = FrontEnd::new().unwrap();
    let words = ["join", "env:LIBI_TEST_WORD", "env:LIBI_STARTED_ON", "finish:20000"];
    let first = members("n0,n1", &words).env("LIBI_TEST_WORD", "first");
    let distributions = [first, members("n0", &words)];
    let sessions = front.start_all(&distributions, &by_starter(&scene, &[])).unwrap();
    let report = sessions[0].wait_up(Duration::from_secs(30)).unwrap();
    let mut outcome = Outcome::new(report);
    outcome.follow(&front, Duration::from_secs(20));
    let texts = [0, 1, 2].map(|rank| outcome.printed(rank, Stream::Out));
    assert_eq!(texts, ["first\nn0\n", "first\nn1\n", "\n\n"]);
    drop((sessions, front));
    scene.nothing_is_left();
}

#[test]
fn a_thousand_hosts_that_arrive_together_are_all_admitted() {
    let scene = Scene::new("");
    let starter = Starter { hosts_per_start: 1_000, ..Starter::new(word(programs::arrivals())) };
    let options = LaunchOptions::new().backend(starter).loopback(true);
    let front_end = FrontEnd::new().unwrap();
    let hosts = Distribution::new("member").hosts("n[1-1000]").env(MARK, &scene.mark);
    let session = front_end.launch(&hosts, &options).unwrap();
    let report = session.report().unwrap();
    assert!(report.is_up() && report.hosts().iter().all(|host| host.attempts == 1), "{report}");
    session.terminate(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_thousand_processes_come_up_by_starts_of_fifty_hosts() {
    let scene = Scene::new("");
    let starter = Starter { hosts_per_start: 50, ..starter(&scene) };
    let options = scene.options().backend(starter).policy(Policy::All);
    let rules = Rules { hello_timeout: Duration::from_secs(20), ..options.rules };
    let options = options.rules(Rules { join_timeout: rules.hello_timeout, ..rules });
    let outcome = scene.play("n[000-199]:5", &["join", "finish:20000"], &options);
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
}
