//! Bulk starts whose leaders are redirected: output, exits, calls, and what a lost relay takes along.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use libi::{Cause, Exit, FrontEnd, LaunchOptions, LaunchReport, Policy, Rank, Rules, Shape, Strategy};

use crate::scene::{Outcome, Scene, What};
use crate::starters::{HOSTS, all_come_up_print_and_end, all_talk, by_starter, cause, joined};

const WORK: [&str; 2] = ["join", "finish:20000"];

/// The options of a scene whose starts have so many relays. A host has time to come to its relay also
/// on a machine that is busy; one that is missing costs this time once.
fn with_relays(scene: &Scene, relays: u32, faults: &[&str]) -> LaunchOptions {
    let shape = Shape::Kary(NonZeroU32::new(relays).unwrap());
    let options = by_starter(scene, faults).strategy(Strategy::Static(shape));
    let long = Duration::from_secs(5);
    let rules = Rules { hello_timeout: long, join_timeout: long, peer_timeout: long, ..options.rules };
    options.rules(rules)
}

/// The hosts whose links lead to the front end, and those that have others below them.
fn tree(report: &LaunchReport) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let up = || report.hosts().iter().filter(|host| host.failure.is_none());
    let direct = up().filter(|host| host.launcher.is_none()).map(|host| host.name.as_str()).collect();
    let relays = up().filter_map(|host| host.launcher);
    (direct, relays.map(|relay| report.hosts()[relay.0 as usize].name.as_str()).collect())
}

#[test]
fn hosts_below_relays_print_and_end_as_others_do() {
    let scene = Scene::new("");
    let outcome = all_come_up_print_and_end(&scene, &with_relays(&scene, 3, &[]));
    let (direct, relays) = tree(&outcome.report);
    assert!(direct.len() == 3 && relays == direct, "{direct:?} {relays:?}");
}

#[test]
fn members_below_relays_talk() {
    let scene = Scene::new("");
    for relays in [1, 4] {
        all_talk(&scene, "n[0-8]:2", &with_relays(&scene, relays, &[]));
    }
}

#[test]
fn a_host_that_fails_behind_a_relay_fails_alone_and_is_named() {
    let scene = Scene::new("");
    let options = with_relays(&scene, 2, &["missing=n05", "twice=n07", "late=n09:300"]);
    let outcome = scene.play(HOSTS, &WORK, &options);
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(joined(&outcome), 15, "{}", outcome.report);
    assert!(matches!(cause(&outcome, "n05"), Cause::StarterExited(Exit::Code(0))), "{}", outcome.report);
    // The second member of a host ends before the host has joined.
    let work = ["only:9:out:last words", "join", "only:9:exit:3", "finish:20000"];
    let outcome = scene.play("n[0-7]:2", &work, &with_relays(&scene, 1, &[]));
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(outcome.exits[&Rank(9)], Exit::Code(3));
}

#[test]
fn a_relay_that_is_killed_takes_the_hosts_below_it_along_and_no_other() {
    let scene = Scene::new("");
    let front = FrontEnd::new().unwrap();
    let options = with_relays(&scene, 2, &[]).policy(Policy::All);
    let (session, report) = scene.launch(&front, HOSTS, &["join", "wait"], &options);
    assert!(report.is_up(), "{report}");
    let relay = report.hosts().iter().find(|host| host.launcher.is_none() && host.name != "n00").unwrap();
    let is_below = |launcher| report.hosts()[(launcher as libi::HostIndex).0 as usize].name == relay.name;
    let below = report.hosts().iter().filter(|host| host.launcher.is_some_and(is_below));
    let below: BTreeSet<String> = below.map(|host| host.name.clone()).collect();
    assert!(below.len() >= 6, "{report}");
    let mut processes = scene.processes().into_iter();
    processes.find(|it| it.host == relay.name && it.what == What::Leader).unwrap().kill();
    scene.gone_soon("of the lost hosts", |it| it.host == relay.name || below.contains(&it.host));
    session.terminate(Duration::from_secs(5)).unwrap();
    let mut outcome = Outcome::new(report.clone());
    session.wait_done(Duration::from_secs(20)).unwrap();
    outcome.follow(&front, Duration::ZERO);
    let lost: BTreeSet<String> = outcome.lost.keys().filter(|name| **name != relay.name).cloned().collect();
    assert_eq!(lost, below, "{:?}", outcome.lost);
    assert!(outcome.lost.contains_key(&relay.name), "{:?}", outcome.lost);
    drop((session, front));
    scene.nothing_is_left();
}
