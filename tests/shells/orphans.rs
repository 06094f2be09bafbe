//! Hosts that lose the one that has launched them find another parent: a dead host costs only itself.
//!
//! `LIBI_SEED` is the seed of the victims and of the moments.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use libi::{Engine, Exit, FrontEnd, LaunchOptions, LinkPolicy, OnLoss, Rank, Rules, Session, Shape};
use libi::{Strategy, Stream};
use libi_core::sim::rng::Rng;

use crate::scene::{Outcome, Process, Scene, What};
use libi_testkit::kills::{pick, seeded};

const HOSTS: &str = "n[00-11]:2";
const MEMBERS: usize = 24;
/// Inherited streams, and streams that pass through the shells.
const MODES: [&str; 2] = ["seq 1ms\nrem 5ms", "seq 1ms\nrem 5ms\nfault * relay"];
const CHAIN: Strategy = Strategy::Static(Shape::Chain);

/// A host has as long to find a parent as a peer may be silent: also on a machine that is busy.
fn options(scene: &Scene, strategy: Strategy) -> LaunchOptions {
    let long = Duration::from_secs(20);
    let options = scene.options().engine(Engine::Apart).strategy(strategy).loopback(true);
    let rules = Rules { hello_timeout: long, join_timeout: long, peer_timeout: long, ..options.rules };
    options.rules(rules).links(LinkPolicy::Auto).on_loss(OnLoss::Continue)
}

/// Launches members that make calls, each of which they check, and print how each call has ended. All
/// have made one: a host that does not know yet that the session is up is lost with its launcher.
fn launch(scene: &Scene, front: &FrontEnd, strategy: Strategy, rounds: u32) -> (Session, Outcome) {
    let calls = format!("talk:survive:{rounds}:7:9999");
    let (session, report) =
        scene.launch(front, HOSTS, &["join", &calls, "finish:30000"], &options(scene, strategy));
    assert!(report.is_up(), "{report}");
    let mut outcome = Outcome::new(report);
    let begun =
        |outcome: &Outcome| (0..MEMBERS as u32).all(|rank| outcome.printed(rank, Stream::Out).contains('\n'));
    while !begun(&outcome) {
        outcome.note(front.next_event(Duration::from_secs(20)).expect("all make calls"));
    }
    (session, outcome)
}

/// The processes that lead hosts other than the first.
fn leaders(scene: &Scene) -> Vec<Process> {
    let leads = |process: &Process| process.what == What::Leader && process.host != "n00";
    scene.processes().into_iter().filter(leads).collect()
}

/// Only these hosts are lost; all others agree on every call, and all of their output has come.
fn only_these_are_lost(outcome: &Outcome, victims: &BTreeSet<String>) {
    let lost: BTreeSet<String> = outcome.lost.keys().cloned().collect();
    assert_eq!(&lost, victims, "{:?}", outcome.lost);
    let well = outcome.exits.iter().filter(|(_, exit)| **exit == Exit::Code(0));
    let well: Vec<Rank> = well.map(|(rank, _)| *rank).collect();
    assert_eq!(well.len(), MEMBERS - 2 * victims.len(), "{:?}", outcome.exits);
    let first = outcome.printed(well[0].0, Stream::Out).to_owned();
    for rank in well {
        assert_eq!(outcome.printed(rank.0, Stream::Out), first, "{rank}");
    }
}

#[test]
fn a_host_that_dies_costs_only_itself() {
    for config in MODES {
        let scene = Scene::new(config);
        let front = FrontEnd::new().unwrap();
        let (session, mut outcome) = launch(&scene, &front, CHAIN, 150);
        let victim = leaders(&scene).into_iter().find(|process| process.host == "n01").unwrap();
        victim.kill();
        outcome.follow(&front, Duration::from_secs(30));
        only_these_are_lost(&outcome, &[victim.host].into());
        drop(session);
        scene.nothing_is_left();
    }
}

/// Kills a host that was not killed before: the process that leads it, or all of its processes.
fn kill_one(scene: &Scene, victims: &mut BTreeSet<String>, random: &mut Rng) {
    let left: Vec<_> =
        leaders(scene).into_iter().filter(|process| !victims.contains(&process.host)).collect();
    let Some(victim) = pick(&left.iter().collect::<Vec<_>>(), random).cloned() else { return };
    victims.insert(victim.host.clone());
    if random.chance(0.5) {
        return victim.kill();
    }
    scene.processes().iter().filter(|process| process.host == victim.host).for_each(Process::kill);
}

#[test]
fn hosts_that_die_at_any_moment_cost_only_themselves() {
    let mut random = seeded();
    let trees = [CHAIN, Strategy::Static(Shape::Kary(2.try_into().unwrap())), Strategy::Late];
    for strategy in trees {
        let scene = Scene::new(MODES[random.below(2) as usize]);
        let front = FrontEnd::new().unwrap();
        let (session, mut outcome) = launch(&scene, &front, strategy, 150);
        let mut victims = BTreeSet::new();
        for _ in 0..1 + random.below(3) {
            kill_one(&scene, &mut victims, &mut random);
            sleep(Duration::from_millis(random.below(200)));
        }
        println!("{strategy:?}: {victims:?} were killed");
        outcome.follow(&front, Duration::from_secs(30));
        only_these_are_lost(&outcome, &victims);
        drop(session);
        scene.nothing_is_left();
    }
}

#[test]
fn nothing_is_left_of_a_session_that_ends_while_hosts_look_for_a_parent() {
    for config in MODES {
        let scene = Scene::new(config);
        let front = FrontEnd::new().unwrap();
        let (session, _) = launch(&scene, &front, CHAIN, 1_000_000);
        let inner = leaders(&scene).into_iter().filter(|process| ["n03", "n04"].contains(&&*process.host));
        inner.for_each(|process| process.kill());
        drop(session);
        scene.nothing_is_left();
    }
}
