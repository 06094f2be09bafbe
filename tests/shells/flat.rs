//! Hosts that cannot be launched from other hosts, but from the front end: no forwarded agent, no
//! keys, no way.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use libi::{Cause, Exit, LaunchOptions, Policy};
use libi_core::plan::{Shape, Strategy};

use crate::scene::{Outcome, Scene};

const HOSTS: &str = "n[00-63]:2";
const WORK: [&str; 3] = ["join", "out:{host}", "finish:20000"];

/// Plays a launch in which every host is wanted, and has to end well.
fn play(fault: &str, change: impl FnOnce(&mut LaunchOptions)) -> (Scene, Outcome) {
    let scene = Scene::new(&format!("seq 2ms\nrem 20ms\n{fault}"));
    let mut options = scene.options().policy(Policy::All);
    change(&mut options);
    let outcome = scene.play(HOSTS, &WORK, &options);
    let report = &outcome.report;
    assert!(report.is_up() && outcome.done, "{fault}: {report}");
    assert_eq!((report.joined(), outcome.lost.len()), (64, 0), "{fault}: {report}");
    assert_eq!(outcome.exits.len(), 128);
    assert!(outcome.exits.values().all(|exit| *exit == Exit::Code(0)), "{:?}", outcome.exits);
    println!("{fault}: {report}, {} calls", scene.lab.log().len());
    (scene, outcome)
}

/// The hosts whose commands were run by calls from the front end.
fn launched_by_front(scene: &Scene) -> BTreeSet<String> {
    let runs = scene.lab.log().into_iter().filter(|call| call["fate"].ends_with("run"));
    runs.filter(|call| call["from"] == "front").map(|mut call| call.remove("host").unwrap()).collect()
}

#[test]
fn hosts_that_cannot_launch_each_other_are_launched_from_the_front_end_and_the_report_says_so_once() {
    for (kind, saying) in [
        ("permission", "Permission denied (publickey)"),
        ("host-key", "Host key verification failed"),
        ("refused", "Connection refused"),
        ("unknown-host", "Could not resolve hostname"),
        ("timed-out after 100ms", "Connection timed out"),
    ] {
        let (scene, outcome) = play(&format!("fault * from n* refuse {kind}"), |_| {});
        let flat = outcome.report.flat().unwrap();
        assert!(flat.host == "n00" && flat.failure.tail.contains(saying), "{flat:?}");
        let report = outcome.report.to_string();
        assert_eq!(report.matches("hosts cannot launch each other (n00: \"").count(), 1, "{report}");
        assert_eq!(launched_by_front(&scene).len(), 64, "{kind}");
        assert_eq!(scene.launchers(), ["front", "n00"].map(str::to_owned).into(), "{kind}");
        assert!(outcome.report.hosts().iter().all(|host| host.launcher.is_none() && host.attempts <= 3));
    }
}

#[test]
fn hosts_that_never_answer_each_other_are_launched_from_the_front_end_after_one_time_out() {
    let (scene, outcome) = play("fault * from n* hang", |_| {});
    let flat = outcome.report.flat().unwrap();
    assert_eq!(flat.failure.cause, Cause::TimedOut);
    assert_eq!(launched_by_front(&scene).len(), 64);
    assert!(outcome.report.to_string().contains("each other (n00: timed out while starting)"));
}

#[test]
fn a_tree_that_was_asked_for_is_left_where_its_hosts_cannot_launch() {
    for shape in [Shape::Chain, Shape::Kary(NonZeroU32::new(4).unwrap()), Shape::Greedy] {
        let (scene, outcome) =
            play("fault * from n* refuse permission", |options| options.strategy = Strategy::Static(shape));
        assert!(outcome.report.flat().is_some());
        assert_eq!(launched_by_front(&scene).len(), 64);
    }
}

#[test]
fn hosts_that_cannot_launch_leave_it_to_those_that_can() {
    // The master can, and hosts with such a number.
    let barred = ["*1", "*3", "*4", "*6"].map(|callers| format!("fault * from {callers} refuse permission"));
    let (scene, outcome) = play(&barred.join("\n"), |_| {});
    assert!(outcome.report.flat().is_none(), "{}", outcome.report);
    assert_eq!(launched_by_front(&scene), ["n00".to_owned()].into());
}

#[test]
fn a_dead_host_is_named_though_all_are_launched_from_the_front_end() {
    let scene = Scene::new("seq 2ms\nrem 20ms\nfault n17 refuse\nfault * from n* refuse permission");
    let outcome = scene.play(HOSTS, &WORK, &scene.options());
    let report = &outcome.report;
    assert_eq!((report.joined(), report.flat().is_some()), (63, true), "{report}");
    let (host, failure) = report.failed().next().unwrap();
    assert!(host.name == "n17" && failure.tail.contains("Connection refused"), "{host:?}");
}

#[test]
fn a_master_lost_during_the_launch_is_launched_again_and_costs_only_itself() {
    // Before it has handed back anything, and meanwhile.
    for bytes in [150, 250, 350] {
        let config = format!("fault n00 once cut {bytes}\nfault * from n* refuse permission");
        let (scene, outcome) = play(&config, |_| {});
        assert_eq!(outcome.report.hosts()[0].attempts, 2, "{bytes}: {:?}", outcome.report.hosts()[0]);
        assert_eq!(launched_by_front(&scene).len(), 64, "{bytes}");
    }
}
