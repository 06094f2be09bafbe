//! A hundred thousand hosts that one start brings up: all arrive, and no process holds more than its
//! share of the links.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use libi_core::join::SessionKey;
use libi_core::plan::{Strategy, relays};
use libi_core::sim::rng::Rng;
use libi_core::sim::{Sim, StopReason};
use libi_core::time::Instant;
use libi_launch::machine::{Event, LinkPolicy, Node, Notice, Policy};

use crate::agents::AgentTrouble;
use crate::blocked_launchers::BlockedLaunchers;
use crate::driver::Driver;
use crate::folding::Folds;
use crate::scenario::{Fate, Scenario, Trouble, Turns};
use crate::world::{BulkTrouble, Cluster, FRONT, Process};

impl Scenario {
    /// A cluster of this many hosts without trouble, which one start brings up.
    fn of_one_start(hosts: u32) -> Self {
        let well = BulkTrouble::default();
        let mut scenario = Self::new(0);
        (scenario.hosts, scenario.members, scenario.hosts_per_start) = (hosts, 1, hosts);
        (scenario.bad, scenario.trouble, scenario.policy) = (0.0, Trouble::Nothing, Policy::All);
        (scenario.deaths, scenario.freezes, scenario.deaths_after_up) = Default::default();
        (scenario.strategy, scenario.links) = (Strategy::Late, LinkPolicy::Channel);
        (scenario.bulk, scenario.relays, scenario.relays_unreachable) = (Some(well), None, 0.0);
        (scenario.latency, scenario.rem) = (Duration::from_millis(1), Duration::from_millis(500));
        scenario.deadline = Duration::from_secs(60);
        scenario.ends = Duration::from_secs(70);
        scenario
    }
}

impl Scenario {
    /// Whether a host never answers.
    fn is_dead(&self, host: u32) -> bool {
        matches!(self.trouble, Trouble::Dead(percent) if self.is_selected(host, percent))
    }

    /// A cluster of this many hosts without trouble, in a tree, on each of which an agent runs four
    /// programs that end within three seconds.
    pub(crate) fn of_agents(hosts: u32) -> Self {
        let mut scenario = Self::of_one_start(hosts);
        (scenario.members, scenario.bulk, scenario.has_banners) = (4, None, false);
        (scenario.unreachable, scenario.lost_proofs, scenario.no_listeners) = (0.0, 0.0, false);
        scenario.agents = Some(AgentTrouble::ending());
        scenario
    }

    /// The same, where equal output is merged.
    pub(crate) fn of_equal_output(hosts: u32, folds: Folds) -> Self {
        Self { folds: Some(folds), ..Self::of_agents(hosts) }
    }
}

/// A session that has begun.
pub(crate) fn begun(scenario: &Scenario) -> Sim<Cluster> {
    let mut sim = Sim::new(Cluster::new(scenario.clone()));
    let node = Node::front(SessionKey(1), &scenario.plan(), 1);
    let front = sim.agenda.start(Driver::new(node));
    sim.agenda.tell(Instant::ZERO, front, Event::Begin.into());
    sim
}

fn up_at(sim: &Sim<Cluster>) -> Instant {
    sim.world.notices.iter().find(|(_, notice)| *notice == Notice::Up).unwrap().0
}

/// How many hosts. The checks of all scenarios are left out: they compare hosts with all events.
fn hosts() -> u32 {
    std::env::var("LIBI_SIMULATED_HOSTS").map_or(5_000, |hosts| hosts.parse().unwrap())
}

#[test]
fn all_hosts_of_a_large_start_arrive_and_share_their_links() {
    let hosts = hosts();
    let scenario = Scenario::of_one_start(hosts);
    let mut sim = begun(&scenario);
    let steps = 1_000 * u64::from(hosts);
    assert_ne!(sim.run(Instant::ZERO + Duration::from_secs(10), steps), StopReason::StepLimit);
    let up = up_at(&sim);
    let links = || sim.world.processes.iter().map(Process::children_count);
    let (front, most) = (links().next().unwrap(), links().skip(1).max().unwrap());
    println!("{hosts} hosts up at {up}: the front end holds {front} links, no relay more than {most}");
    let share = relays(hosts as usize);
    assert_eq!(front, share);
    assert!(most <= share + 1, "a relay holds {most} links, but {share} would do");
    let (redirected, came_back) = (sim.world.bulk.redirected, sim.world.bulk.came_back);
    assert_eq!((redirected, came_back), (hosts as usize - share, 0));
}

#[test]
fn hosts_that_can_launch_three_each_share_what_waits() {
    let hosts = 2_000;
    let mut scenario = Scenario::of_agents(hosts);
    (scenario.capacity, scenario.turns) = (Some(3), Turns::Places(1));
    (scenario.seq, scenario.rem) = (Duration::from_millis(9), Duration::from_millis(184));
    let mut sim = begun(&scenario);
    let steps = 1_000 * u64::from(hosts);
    assert_ne!(sim.run(Instant::ZERO + Duration::from_secs(10), steps), StopReason::StepLimit);
    let up = up_at(&sim);
    let depth = sim.world.starts.iter().map(|start| start.depth).max().unwrap();
    println!("{hosts} hosts up at {up}, in {depth} levels");
    // A full tree with three children each has seven levels.
    assert!(depth <= 16, "{depth} levels");
}

/// When a launch of agents at a usual cost (each REM is up to a half shorter or longer) is up.
fn up_after(scenario: &Scenario, from_front_end: bool) -> Duration {
    let mut sim = begun(scenario);
    assert_eq!(sim.agenda.machine(FRONT).unwrap().launches_as_leaders(), from_front_end);
    sim.run(Instant::ZERO + Duration::from_secs(10), 1_000 * u64::from(scenario.hosts));
    let up = up_at(&sim);
    up.since(Instant::ZERO)
}

#[test]
fn a_front_end_that_launches_from_the_first_moment_saves_the_login_of_the_first_host() {
    let rem = Duration::from_millis(172);
    for hosts in [2, 16, 64, 1_000] {
        let mut scenario = Scenario::of_agents(hosts);
        (scenario.seq, scenario.rem) = (Duration::from_millis(7), rem);
        scenario.latency = Duration::from_micros(50);
        let all = up_after(&scenario, true);
        scenario.folds = Some(Folds::of_equal_lines(Some(Duration::from_millis(100)), false));
        let leaders = up_after(&scenario, false);
        println!("{hosts} hosts are up after {all:?}, and after {leaders:?} where leaders launch");
        assert!(all + rem / 3 < leaders, "{hosts} hosts: {all:?} and {leaders:?}");
    }
}

#[test]
fn linked_hosts_that_the_front_end_has_launched_are_below_the_first_when_the_session_is_up() {
    let rem = Duration::from_millis(172);
    for hosts in [2, 16, 64, 1_000] {
        let mut scenario = Scenario { agents: None, links: LinkPolicy::Auto, ..Scenario::of_agents(hosts) };
        (scenario.seq, scenario.rem) = (Duration::from_millis(7), rem);
        (scenario.latency, scenario.direct_latency) = (Duration::from_micros(50), Duration::from_micros(50));
        let mut sim = begun(&scenario);
        sim.run(Instant::ZERO + Duration::from_secs(10), 1_000 * u64::from(hosts));
        let (up, front) = (up_at(&sim).since(Instant::ZERO), sim.agenda.machine(FRONT).unwrap());
        assert_eq!(front.direct_links().1, 1, "{hosts} hosts: only the leader of the first is its child");
        let moved = sim.world.direct.moved_hosts;
        let by_front = front.timings().iter().filter(|timing| timing.launcher.is_none()).count();
        assert!(moved > 0 && moved + 1 == by_front, "{hosts} hosts: {moved} have moved, of {by_front}");
        scenario.links = LinkPolicy::Channel;
        let leaders = up_after(&scenario, false);
        println!("{hosts} hosts are up after {up:?}, {moved} have moved; after {leaders:?} by leaders");
        assert!(up + rem / 3 < leaders, "{hosts} hosts: {up:?} and {leaders:?}");
    }
}

#[test]
fn where_no_host_can_launch_another_few_launches_are_refused() {
    let hosts = 128;
    for (links, most) in [(LinkPolicy::Auto, 90), (LinkPolicy::Channel, 40)] {
        let mut scenario = Scenario { agents: None, links, ..Scenario::of_agents(hosts) };
        (scenario.seq, scenario.rem) = (Duration::from_millis(7), Duration::from_millis(172));
        scenario.latency = Duration::from_micros(50);
        scenario.blocked_launchers = Some(BlockedLaunchers::ALL_DENIED);
        let mut sim = begun(&scenario);
        sim.run(Instant::ZERO + Duration::from_secs(20), 1_000 * u64::from(hosts));
        let in_vain = sim.world.starts.len() - hosts as usize;
        let up = up_at(&sim);
        println!("{links:?}: {hosts} hosts are up at {up}, {in_vain} were launched in vain");
        assert!(in_vain <= most, "{in_vain}");
    }
}

#[test]
fn linked_hosts_move_where_none_can_connect_to_the_front_end() {
    let mut scenario = Scenario { agents: None, links: LinkPolicy::Auto, ..Scenario::of_agents(40) };
    scenario.front_is_behind = true;
    let mut sim = begun(&scenario);
    assert_ne!(sim.run(Instant::ZERO + Duration::from_secs(30), 1_000_000), StopReason::StepLimit);
    let front = sim.agenda.machine(FRONT).unwrap();
    assert_eq!((front.progress(), front.direct_links()), ((40, 0, 0), (0, 1)));
    assert!(sim.world.direct.moved_hosts > 2, "{}", sim.world.direct.moved_hosts);
}

#[test]
fn linked_hosts_that_cannot_connect_to_the_first_stay_with_the_front_end() {
    let mut scenario = Scenario { agents: None, links: LinkPolicy::Auto, ..Scenario::of_agents(40) };
    scenario.unreachable = 1.0;
    let mut sim = begun(&scenario);
    assert_ne!(sim.run(Instant::ZERO + Duration::from_secs(30), 1_000_000), StopReason::StepLimit);
    let front = sim.agenda.machine(FRONT).unwrap();
    let children = front.direct_links().1;
    println!("up at {}, with {children} children", up_at(&sim));
    assert_eq!((front.progress(), sim.world.direct.moved_hosts), ((40, 0, 0), 0));
    assert!(children > 2, "{children} children");
}

#[test]
fn hosts_that_only_the_first_host_reaches_are_launched_from_there() {
    for fate in [Fate::Denied, Fate::Refused, Fate::Hangs] {
        let mut scenario = Scenario::of_agents(40);
        (scenario.far, scenario.rules.attempts) = (Some(fate), 2);
        scenario.rules.hello_timeout = Duration::from_secs(5);
        let mut sim = begun(&scenario);
        assert_ne!(sim.run(Instant::ZERO + Duration::from_secs(30), 1_000_000), StopReason::StepLimit);
        let front = sim.agenda.machine(FRONT).unwrap();
        assert_eq!(front.progress(), (40, 0, 0), "{fate:?}");
    }
}

/// When all are up if each launcher fills its places again and again, whatever is free launches
/// the next host, and each launch takes as long as in the scenario: the mean of 20 such launches.
/// Without foresight no launch is faster.
fn optimum(scenario: &Scenario) -> Duration {
    let Turns::Places(places) = scenario.turns else { panic!("launchers without places") };
    let all_up = |seed: u64| {
        let mut rng = Rng::new(seed);
        // When each place is free, the first on top.
        let mut free: BinaryHeap<_> = core::iter::repeat_n(Reverse(Duration::ZERO), places).collect();
        let mut up = Duration::ZERO;
        for host in 0..scenario.hosts {
            let Reverse(turn) = free.pop().unwrap();
            let ready = turn + scenario.costs(&mut rng).0;
            free.push(Reverse(ready));
            if !scenario.is_dead(host) {
                up = up.max(ready);
                free.extend(core::iter::repeat_n(Reverse(ready), places));
            }
        }
        up
    };
    (0..20).map(all_up).sum::<Duration>() / 20
}

/// By how much a launch through launchers with so many places takes longer than the optimum, in the
/// mean of as many launches as seeds.
fn over_optimum(hosts: u32, places: usize, cost: Duration, scenario: &Scenario, seeds: u64) -> f64 {
    let scenario = Scenario {
        hosts,
        turns: Turns::Places(places),
        seq: cost,
        rem: Duration::from_millis(1),
        latency: Duration::from_micros(50),
        ..scenario.clone()
    };
    let all_up = |seed: u64| {
        let scenario = Scenario { seed, ..scenario.clone() };
        let live = (0..hosts).filter(|host| !scenario.is_dead(*host)).count() as u32;
        let mut sim = begun(&scenario);
        let mut up = Instant::ZERO;
        while sim.agenda.machine(FRONT).is_none_or(|front| front.progress().0 < live) {
            up += Duration::from_millis(1);
            assert_ne!(sim.run(up, 10_000 * u64::from(hosts)), StopReason::StepLimit);
            assert!(up < Instant::ZERO + scenario.deadline);
        }
        up.since(Instant::ZERO)
    };
    let up = (0..seeds).map(all_up).sum::<Duration>() / seeds as u32;
    let optimum = optimum(&scenario);
    let ratio = up.as_secs_f64() / optimum.as_secs_f64();
    let [up, optimum] = [up, optimum].map(|time| time.as_millis());
    println!(
        "{hosts:5} hosts, {places} at a time, {cost:?} each: up after {up} ms, {ratio:.2} of {optimum} ms"
    );
    ratio
}

#[test]
fn the_window_finds_how_many_launches_a_launcher_can_make_at_a_time() {
    let well = Scenario::of_agents(1);
    let scattered = Scenario { seq_spread: 0.5, ..well.clone() };
    let dead = Scenario { trouble: Trouble::Dead(2), policy: Policy::AtLeast(1), ..well.clone() };
    let all = [("equal launches", well, 1), ("\u{b1}50 %", scattered, 3), ("2 % dead", dead, 2)];
    for (what, scenario, seeds) in all {
        println!("{what}");
        let mut ratios = Vec::new();
        for cost in [50, 172, 500].map(Duration::from_millis) {
            for places in [1, 2, 4] {
                for hosts in [64, 128, 1_024] {
                    ratios.push(over_optimum(hosts, places, cost, &scenario, seeds));
                }
            }
        }
        // One round of two to ten is lost until the number of places is known.
        let (mean, worst) =
            (ratios.iter().sum::<f64>() / ratios.len() as f64, ratios.iter().fold(0.0f64, |a, b| a.max(*b)));
        println!("{what}: {mean:.2} in the mean, {worst:.2} at most");
        assert!(
            mean <= 1.35 && worst <= 1.5,
            "{what}: {mean:.2} of the optimum in the mean, {worst:.2} at most"
        );
    }
}
