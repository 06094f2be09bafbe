//! Hosts that lose the one that has launched them find another parent: a dead host costs only itself.
//!
//! `LIBI_SEED` is the seed of the victims and of the moments.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use libi::{Engine, Exit, FrontEnd, LaunchOptions, LinkPolicy, OnLoss, Rank, Rules, Session, Shape};
use libi::{Strategy, Stream};
use libi_core::sim::rng::Rng;

use crate::scene::{Outcome, Process, Scene, What};
use libi_testkit::kills::{calls_agree, moments, pick, seeded};
use libi_testkit::processes::parent;

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

/// Launches members that make calls.
fn launch(scene: &Scene, front: &FrontEnd, strategy: Strategy, rounds: u32) -> (Session, Outcome) {
    launch_on(scene, front, HOSTS, &format!("talk:survive:{rounds}:7:9999"), &options(scene, strategy))
}

/// Launches members that make calls, each of which they check, and print how each call has ended. All
/// have made one: a host that does not know yet that the session is up is lost with its launcher.
fn launch_on(
    scene: &Scene,
    front: &FrontEnd,
    hosts: &str,
    calls: &str,
    options: &LaunchOptions,
) -> (Session, Outcome) {
    let (session, report) = scene.launch(front, hosts, &["join", calls, "finish:30000"], options);
    assert!(report.is_up(), "{report}");
    let mut outcome = Outcome::new(report);
    let begun =
        |outcome: &Outcome| (0..session.size()).all(|rank| outcome.printed(rank, Stream::Out).contains('\n'));
    while !begun(&outcome) {
        outcome.note(front.next_event(Duration::from_secs(60)).expect("all make calls"));
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

/// A shell ends between two hosts that live, as when an `ssh` is killed: the host behind it counts as lost, and ends
/// when it is told so, and those below it find another parent.
#[test]
fn a_connection_that_breaks_costs_the_host_behind_it_alone() {
    for (from, lost) in [("n00", "n01"), ("n03", "n04"), ("n09", "n10")] {
        let scene = Scene::new(MODES[1]);
        let front = FrontEnd::new().unwrap();
        let options = options(&scene, CHAIN).links(LinkPolicy::Channel);
        let (session, mut outcome) = launch_on(&scene, &front, HOSTS, "talk:survive:150:7:9999", &options);
        let is_it = |process: &Process| process.what == What::Shell && process.host == from;
        let shells: Vec<Process> = scene.processes().into_iter().filter(is_it).collect();
        assert_eq!(shells.len(), 1, "{shells:?}");
        let began = Instant::now();
        shells[0].kill();
        outcome.follow(&front, Duration::from_secs(30));
        println!("{lost}: over after {:?}", began.elapsed());
        only_these_are_lost(&outcome, &[lost.to_owned()].into());
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

/// What is killed of a host.
#[derive(Debug)]
enum Kill {
    /// One of its members; the host lives on.
    Member(u32),
    /// The process that leads it, or all processes.
    Host(String),
}

/// A session of many hosts, and what was killed of it.
struct Many {
    scene: Scene,
    front: FrontEnd,
    outcome: Outcome,
    killed: Vec<Kill>,
}

impl Many {
    const HOSTS: u32 = 64;

    fn launch(strategy: Strategy, links: LinkPolicy, config: &str) -> (Self, Session) {
        let scene = Scene::new(config);
        let front = FrontEnd::new().unwrap();
        let hosts = format!("n[00-{:02}]", Self::HOSTS - 1);
        let options = options(&scene, strategy).links(links);
        let (session, outcome) = launch_on(&scene, &front, &hosts, "talk:survive:150:11:9999", &options);
        (Self { scene, front, outcome, killed: Vec::new() }, session)
    }

    fn note_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.front.next_event(left).into_iter().for_each(|event| self.outcome.note(event));
        }
    }

    /// Kills a process, or all processes of a host other than the first, as long as calls go on.
    fn kill_one(&mut self, random: &mut Rng) {
        let is_up = |host: &str| !self.killed.iter().any(|kill| matches!(kill, Kill::Host(of) if of == host));
        let leaders: Vec<_> = leaders(&self.scene).into_iter().filter(|leader| is_up(&leader.host)).collect();
        let Some(leader) = pick(&leaders.iter().collect::<Vec<_>>(), random) else { return };
        let of_host = |process: &Process| process.host == leader.host;
        let processes: Vec<_> = self.scene.processes().into_iter().filter(of_host).collect();
        match random.below(3) {
            0 => {
                let member = processes.iter().find(|process| parent(process.pid) == Some(leader.pid));
                let Some(member) = member.filter(|member| member.what == What::Other) else { return };
                member.kill();
                self.killed.push(Kill::Member(leader.host[1..].parse().unwrap()));
            }
            1 => {
                leader.kill();
                self.killed.push(Kill::Host(leader.host.clone()));
            }
            _ => {
                processes.iter().for_each(Process::kill);
                self.killed.push(Kill::Host(leader.host.clone()));
            }
        }
    }

    /// Only what was killed is lost; all others agree on every call, and all of their output has come once.
    fn only_the_victims_are_lost(&self) {
        let name = |host: usize| format!("n{host:02}");
        let is_victim =
            |host: usize| self.killed.iter().any(|kill| matches!(kill, Kill::Host(of) if *of == name(host)));
        let mut lost: BTreeSet<usize> = (0..Self::HOSTS as usize).filter(|host| is_victim(*host)).collect();
        // What is killed when calls are over may have nothing left that could be lost.
        let has_ended = |host: &usize| self.outcome.exits.get(&Rank(*host as u32)) == Some(&Exit::Code(0));
        lost.retain(|host| !has_ended(host));
        let alone = |kill: &Kill| match kill {
            Kill::Member(rank) => Some(*rank),
            Kill::Host(_) => None,
        };
        let alone: BTreeSet<u32> = self.killed.iter().filter_map(alone).collect();
        // A host whose member has ended before it has nothing left that could be lost.
        let had_members = |host: &usize| !alone.contains(&(*host as u32));
        let expected: BTreeSet<String> =
            lost.iter().filter(|host| had_members(host)).map(|host| name(*host)).collect();
        let without_members: BTreeSet<String> = alone.iter().map(|rank| name(*rank as usize)).collect();
        let named: BTreeSet<String> =
            self.outcome.lost.keys().filter(|name| !without_members.contains(*name)).cloned().collect();
        assert_eq!(named, expected, "{:?} after {:?}", self.outcome.lost, self.killed);
        let left: Vec<u32> = (0..Self::HOSTS)
            .filter(|rank| !lost.contains(&(*rank as usize)) && !alone.contains(rank))
            .collect();
        let first = self.outcome.printed(left[0], Stream::Out);
        for rank in left {
            let why = self.outcome.printed(rank, Stream::Err);
            assert_eq!(self.outcome.exits.get(&Rank(rank)), Some(&Exit::Code(0)), "rank {rank}: {why}");
            assert_eq!(self.outcome.printed(rank, Stream::Out), first, "rank {rank}");
        }
    }
}

/// `LIBI_KILLS` is the number of processes and hosts that are killed with each kind of links.
fn kill_many(links: LinkPolicy) {
    let mut random = seeded();
    let (wanted, mut done) = (moments(10), 0);
    let two = Strategy::Static(Shape::Kary(2.try_into().unwrap()));
    for nth in 0.. {
        let strategy = [Strategy::Late, two, CHAIN][nth % 3];
        let (mut many, session) = Many::launch(strategy, links, MODES[random.below(2) as usize]);
        let calls_go_on = |many: &Many| !many.outcome.exits.values().any(|exit| *exit == Exit::Code(0));
        while calls_go_on(&many) && many.killed.len() < 16 && done + many.killed.len() < wanted as usize {
            many.kill_one(&mut random);
            many.note_for(Duration::from_millis(random.below(250)));
        }
        println!("{links:?}, {strategy:?}: {:?} were killed", many.killed);
        many.outcome.follow(&many.front, Duration::from_secs(60));
        many.only_the_victims_are_lost();
        done += many.killed.len();
        drop(session);
        many.scene.nothing_is_left();
        if done >= wanted as usize {
            break;
        }
    }
}

#[test]
fn members_and_hosts_that_are_killed_at_many_moments_cost_only_themselves() {
    kill_many(LinkPolicy::Auto);
}

#[test]
fn where_links_stay_in_the_channels_they_cost_only_themselves_as_well() {
    kill_many(LinkPolicy::Channel);
}

/// A member crashes ten times and is restarted by its agent, which finds another parent when hosts above it
/// die, or leads hosts that do.
#[test]
fn a_member_is_restarted_amid_hosts_that_die_and_all_agree_on_every_call() {
    let mut random = seeded();
    for (strategy, host) in [(CHAIN, 9), (CHAIN, 2), (Strategy::Late, 11)] {
        let scene = Scene::new(MODES[random.below(2) as usize]);
        let front = FrontEnd::new().unwrap();
        let (calls, name) = (format!("talk:rejoin:{}:10", 2 * host + 1), format!("n{host:02}"));
        let mut options = options(&scene, strategy).restarts(10);
        options.rules.back_off_max = Duration::from_millis(80); // between restarts
        let (session, mut outcome) = launch_on(&scene, &front, HOSTS, &calls, &options);
        let mut victims = BTreeSet::from([name.clone()]);
        for _ in 0..2 {
            kill_one(&scene, &mut victims, &mut random);
            sleep(Duration::from_millis(random.below(30)));
        }
        victims.remove(&name);
        println!("{strategy:?}: {victims:?} were killed");
        outcome.follow(&front, Duration::from_secs(30));
        // A host whose members have ended before it has nothing left that could be lost.
        let has_ended = |rank: u32| outcome.exits.get(&Rank(rank)) == Some(&Exit::Code(0));
        let over = (0..MEMBERS as u32 / 2).filter(|host| has_ended(2 * host) && has_ended(2 * host + 1));
        over.map(|host| format!("n{host:02}")).for_each(|host| {
            victims.remove(&host);
        });
        let lost: BTreeSet<String> = outcome.lost.keys().cloned().collect();
        assert_eq!(lost, victims, "{:?}", outcome.lost);
        let is_left = |rank: &u32| !victims.contains(&format!("n{:02}", rank / 2));
        let left: Vec<u32> = (0..MEMBERS as u32).filter(is_left).collect();
        for rank in &left {
            let why = outcome.printed(*rank, Stream::Err);
            assert_eq!(outcome.exits.get(&Rank(*rank)), Some(&Exit::Code(0)), "rank {rank}: {why}");
        }
        calls_agree(left.iter().map(|rank| (*rank, outcome.printed(*rank, Stream::Out))));
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
