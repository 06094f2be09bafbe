//! Whole sessions in virtual time: the launch machines, injected faults, and the invariants that
//! must hold.
//!
//! The head of `seeds.rs` tells which seeds are run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod actions;
mod agents;
mod blocked_launchers;
mod bulk_starts;
mod checks;
mod consequences;
mod denied_logins;
mod direct;
mod driver;
mod many;
mod scenario;
mod seeds;
mod settling;
mod srun_starts;
mod tree_views;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::join::{MemberRole, SessionKey};
use libi_core::plan::Strategy;
use libi_core::sim::{Sim, StopReason};
use libi_core::time::Instant;
use libi_launch::failure::{Cause, Phase};
use libi_launch::machine::{Event, HostState, Node, Notice, Policy};

use driver::Driver;
use scenario::Scenario;
use seeds::{check_all, seeds_of_part};
use world::{Cluster, FRONT, Happening, Pick};

/// Seeds that have found defects: a wake-up in the past, repeated for ever; hosts that hung and
/// delayed all others; attempt numbers that restarted below a lost leader; a leader that gave up
/// hosts because it ended itself.
const FOUND: [u64; 4] = [33, 6_934, 6_717, 4_087];

/// Seeds that have found defects since policies are drawn: hosts that an ending leader gave up for
/// good.
const FOUND_WITH_POLICIES: [u64; 1] = [47];

/// Seeds that have found defects since links are direct, and members print, detach and receive
/// signals: detached leaders that were killed when the session ended; a leader that ended with its
/// host and reported no dependents; a host that was tried too often, because its new launcher did
/// not know of earlier attempts; and the defect of seed 47 with links.
const FOUND_WITH_LINKS: [u64; 4] = [5, 1_183, 3_850, 2_184];

/// Seeds that have found defects since some hosts cannot launch others: a host that joined a
/// session which was given up already, and counted.
const FOUND_WITH_BLOCKED_LAUNCHERS: [u64; 1] = [684];

/// Seeds that have found defects since the launch may settle: an estimate that took answers of a
/// narrow window for a queue; and in the checks, a blocked launcher whose failures were taken for
/// those of its hosts, a deadline of which launchers 30 levels deep hear late, and starts that the
/// system had refused and that took resources for ever, and messages that were still on their way
/// through 700 levels; and failures at a launcher that was in doubt when the session went up.
const FOUND_WITH_SETTLE: [u64; 6] = [10_171, 15_114, 26_047, 61_717, 5_007_556, 50_200_510_576];

/// The same, in small clusters: in the checks, a spare whose launch was refused for lack of resources; a
/// failure at a launcher that was in doubt when the session settled at once; links that ended just before
/// the user ended the session, because a process had been silent for long; and hosts whose attempts went
/// on below a frozen process.
const FOUND_WITH_SETTLE_AND_FEW_HOSTS: [u64; 5] =
    [630_175_690_049, 406_602_466_265, 406_602_564_885, 406_602_594_980, 406_602_611_955];

/// Seeds that have found defects since hosts are started in bulk: starters that counted as in flight
/// as long as their programs ran; hosts launched in the step in which the launch was given up;
/// evidence that a later, weaker one replaced.
const FOUND_WITH_BULK_STARTS: [u64; 4] = [33, 35, 40, 351];
/// The same, in small clusters; and a check that did not wait for the news of a death, and one that
/// missed the end of a program whose starter had ended before.
const FOUND_WITH_FEW_HOSTS: [u64; 5] = [7_002_162, 7_002_322, 8_002_687, 195_473_827_038, 403_090];

/// Seeds that have found defects since `srun` starts hosts: a host that was started although the
/// refusal of others had ended the launch; a session that went up while `srun` ended its hosts,
/// because one could not be started; hosts that were given up because they were ended like that;
/// and a spare for a host whose start was refused for good, which was never launched.
const FOUND_WITH_SRUN: [u64; 4] = [81, 201, 1_093, 345_453_659_369];

/// Seeds that have found defects since leaders are redirected to relays: a host that was sent to a
/// relay that was ending, and was given up with it; a host that was launched in the step in which the
/// deadline passed; and in the checks, sessions that had lost hosts by `srun` after they were up, a
/// start that had waited for too long and went on, and a host that cannot be started and has printed
/// nothing.
const FOUND_WITH_RELAYS: [u64; 6] =
    [977_116_515_280, 630_175_693_840, 45_758_904_364, 45_758_921_465, 77_124_338, 1_040_951_283_641];

/// Seeds that have found defects since agents lead hosts: hosts that the front end had given to a
/// child for lack of resources, and that were forgotten when the child handed them back; and in the
/// checks, agents behind long ways.
const FOUND_WITH_AGENTS: [u64; 2] = [326_222_390_825, 326_222_396_850];

#[test]
fn launches_that_have_found_defects_end_with_a_true_verdict() {
    let found = FOUND.into_iter().map(Scenario::new);
    let found = found.chain(FOUND_WITH_POLICIES.into_iter().map(Scenario::with_policies));
    let found = found.chain(FOUND_WITH_LINKS.into_iter().map(Scenario::with_links));
    let found = found.chain(FOUND_WITH_BLOCKED_LAUNCHERS.into_iter().map(Scenario::with_blocked_launchers));
    let found = found.chain(FOUND_WITH_SETTLE.into_iter().map(Scenario::with_settle));
    let found = found.chain(FOUND_WITH_BULK_STARTS.into_iter().map(Scenario::with_bulk_starts));
    let few = FOUND_WITH_FEW_HOSTS.into_iter().map(Scenario::with_bulk_starts);
    let by_srun = FOUND_WITH_SRUN.into_iter().chain(FOUND_WITH_RELAYS);
    let few = few.chain(by_srun.map(Scenario::with_srun));
    let few = few.chain(FOUND_WITH_AGENTS.into_iter().map(Scenario::with_agents));
    let few = few.chain(FOUND_WITH_SETTLE_AND_FEW_HOSTS.into_iter().map(Scenario::with_settle));
    let found = found.chain(few.map(Scenario::mostly_small));
    check_all(found, |scenario| run(scenario).map(drop));
}

/// The seeds of the run, divided into tests that run at the same time. Each kind runs one seed of so many.
macro_rules! in_parts {
    ($($test:ident: $scenario:path, 1 of $share:literal;)*) => {
        $(mod $test {
            use super::*;

            fn check_part(part: u64) {
                let scenarios = seeds_of_part(part, $share).map($scenario).map(Scenario::mostly_small);
                check_all(scenarios, |scenario| run(scenario).map(drop));
            }

            #[test]
            fn part_0() {
                check_part(0);
            }

            #[test]
            fn part_1() {
                check_part(1);
            }

            #[test]
            fn part_2() {
                check_part(2);
            }

            #[test]
            fn part_3() {
                check_part(3);
            }
        })*
    };
}

in_parts! {
    every_launch_ends_with_a_true_verdict_and_leaves_no_process: Scenario::with_settle, 1 of 2;
    every_bulk_start_ends_with_a_true_verdict_and_leaves_no_process: Scenario::with_srun, 1 of 4;
    every_session_of_agents_ends_with_a_true_verdict_and_leaves_no_process: Scenario::with_agents, 1 of 4;
}

/// Runs a scenario and checks its invariants.
fn run(scenario: &Scenario) -> Result<Sim<Cluster>, String> {
    let mut sim = Sim::new(Cluster::new(scenario.clone()));
    let node = Node::front(SessionKey(scenario.seed), &scenario.plan(), scenario.seed);
    let front = sim.agenda.start(Driver::new(node));
    sim.agenda.tell(Instant::ZERO, front, Event::Begin.into());
    let at = |after: Duration| Instant::ZERO + after;
    for &(after, number) in &scenario.deaths {
        sim.agenda.plan(at(after), Happening::Dies(number.map_or(Pick::Front, Pick::Any)));
    }
    for &(after, number) in &scenario.freezes {
        sim.agenda.plan(at(after), Happening::Freezes(Pick::Any(number)));
    }
    sim.agenda.plan(at(scenario.ends), Happening::Ends);

    // Until just before the user ends the session.
    let members = u64::from(scenario.hosts * scenario.members);
    let steps = 500_000 + 5_000 * u64::from(scenario.hosts) + 2 * members * scenario.ends.as_secs();
    let before_end = at(scenario.ends - Duration::from_millis(1));
    if sim.run(before_end, steps) == StopReason::StepLimit {
        return Err(format!("something spins: {steps} steps by {}", sim.agenda.now()));
    }
    check_verdict(scenario, &sim)?;
    actions::checks(scenario, &sim.world, sim.agenda.now())?;
    tree_views::checks(scenario, &sim.world, sim.agenda.now())?;
    if let Some(front) = sim.agenda.machine(FRONT) {
        agents::checks(scenario, &sim.world, front, sim.agenda.now())?;
    }

    // From then on everything has to end by itself.
    let rules = &scenario.rules;
    let bound = rules.peer_timeout * 3 + rules.hello_timeout + rules.kill_grace * 8;
    if sim.run(at(scenario.ends) + bound, steps) == StopReason::StepLimit {
        return Err("something spins at the end".to_owned());
    }
    let released = |id| sim.world.is_detached(id, &sim.agenda);
    let left: Vec<_> = sim.world.alive().filter(|(id, _)| *id != FRONT && !released(*id)).collect();
    if !left.is_empty() {
        return Err(format!("left running: {left:?}"));
    }
    if let Some(wrong) = &sim.world.plain.wrong {
        return Err(wrong.clone());
    }
    if sim.world.has_programs() {
        return Err("a program is left running".to_owned());
    }
    if sim.world.alive().any(|(id, _)| id == FRONT) && sim.world.has_starters() {
        return Err("a starter is left running".to_owned());
    }
    if let Some(wrong) = &sim.world.bulk.wrong {
        return Err(wrong.clone());
    }
    if let Some(wrong) = &sim.world.trees.wrong {
        return Err(wrong.clone());
    }
    if let Some(wrong) = &sim.world.record.wrong {
        return Err(wrong.clone());
    }
    let front_lives = sim.world.processes[0].alive;
    if front_lives && !sim.world.notices.iter().any(|(_, notice)| *notice == Notice::Over) {
        return Err("the front end was not told that it is over".to_owned());
    }
    Ok(sim)
}

fn check_verdict(scenario: &Scenario, sim: &Sim<Cluster>) -> Result<(), String> {
    let Some(front) = sim.agenda.machine(FRONT) else { return Ok(()) }; // the front end was killed
    let verdict = sim.world.notices.iter().find(|(_, n)| matches!(n, Notice::Up | Notice::GivenUp));
    let Some((at, verdict)) = verdict else { return Err("no verdict".to_owned()) };
    // The deadline stands still while a start waits for resources.
    let queued = srun_starts::queued(&sim.world, sim.agenda.now());
    let mut latest = Instant::ZERO + scenario.deadline + queued + scenario.rules.kill_grace * 3;
    if scenario.srun.is_none()
        && !scenario.has_faults()
        && scenario.strategy == Strategy::Late
        && scenario.capacity.is_none()
    {
        // The overall deadline need not pass, because each attempt has its own.
        let rules = &scenario.rules;
        let attempt = rules.hello_timeout + rules.join_timeout + rules.kill_grace * 4 + rules.back_off * 16;
        let attempts = u32::from(rules.attempts) * (1 + scenario.spares);
        latest =
            latest.min(Instant::ZERO + Duration::from_secs(40) + attempt * attempts + rules.failure_linger);
    }
    if *at > latest {
        return Err(format!("the verdict came at {at}, after {latest}"));
    }
    let known: Vec<&HostState> = front.host_states().collect();
    if known.contains(&&HostState::Waiting) {
        return Err("a host has no verdict".to_owned());
    }
    let needed = match scenario.policy {
        Policy::All => scenario.hosts,
        Policy::AtLeast(least) => least,
    };
    // The hosts that were in the session when it came up: present, lost, or with members that have
    // ended.
    let was_in = |host: u32| {
        *known[host as usize] == HostState::Joined
            || sim.world.notices.iter().any(|(_, notice)| match notice {
                Notice::Lost(lost, _) => lost.0 == host,
                Notice::Exited(rank, _) | Notice::Detached(rank) => rank.0 / scenario.members == host,
                _ => false,
            })
    };
    let in_it = (0..scenario.hosts).filter(|host| was_in(*host)).count() as u32;
    if *verdict == Notice::Up && in_it < needed {
        return Err(format!("up with {in_it} hosts, but {needed} are needed"));
    }
    if *verdict == Notice::Up {
        check_places(scenario, sim, &known)?;
    }
    checks::links(scenario, sim, front)?;
    checks::starts(scenario, &sim.world, front)?;
    checks::deaths(scenario, sim)?;
    checks::losses(&sim.world)?;
    srun_starts::checks(scenario, sim, front)?;
    checks::tree(scenario, &sim.world, front)?;
    blocked_launchers::checks(scenario, sim, front)?;
    if !scenario.has_faults() {
        check_fates(scenario, sim, front, *verdict == Notice::Up)?;
        checks::cut_short(scenario, &sim.world, front)?;
    }
    Ok(())
}

/// Once everything has settled, every joined host is present exactly once, and no other host is.
fn check_places(scenario: &Scenario, sim: &Sim<Cluster>, known: &[&HostState]) -> Result<(), String> {
    let rules = &scenario.rules;
    let settled = sim.world.last_fault + rules.peer_timeout * 3 + rules.kill_grace * 8;
    let breaks = sim.world.last_fault > Instant::ZERO;
    if (scenario.has_faults() || breaks) && sim.agenda.now() < settled {
        return Ok(());
    }
    // Launchers with few resources make trees of hundreds of levels, through which a verdict travels
    // down, and what it changes up again.
    let deepest = sim.world.starts.iter().map(|start| start.depth).max().unwrap_or(0);
    let up = sim.world.notices.iter().find(|(_, notice)| *notice == Notice::Up).map(|(at, _)| *at);
    if up.is_some_and(|up| sim.agenda.now() < up + scenario.latency * (2 * deepest)) {
        return Ok(());
    }
    let mut places: BTreeMap<MemberRole, u32> = BTreeMap::new();
    for place in sim.world.alive().filter_map(|(_, process)| process.place) {
        *places.entry(place).or_default() += 1;
    }
    for (host, known) in (0..).zip(known) {
        let queue = places.get(&MemberRole::Leader(HostIndex(host))).copied().unwrap_or(0);
        // A member that ended after it had joined is known by its exit. An agent whose members have all
        // ended may live or not.
        let ended = |rank: Rank| {
            let mut notices = sim.world.notices.iter();
            notices.any(|(_, n)| matches!(n, Notice::Exited(of, _) | Notice::Detached(of) if *of == rank))
        };
        let leader = Rank(host * scenario.members);
        let exited = scenario.agents.is_none() && ended(leader);
        if scenario.agents.is_some() && (leader.0..leader.0 + scenario.members).map(Rank).all(ended) {
            continue;
        }
        let its_place = Some(MemberRole::Leader(HostIndex(host)));
        let mut released = sim.world.record.released.keys();
        if released.any(|id| sim.world.processes[id.0 as usize].place == its_place) {
            continue; // it may live or not
        }
        let expected = u32::from(**known == HostState::Joined && !exited);
        if queue != expected {
            return Err(format!("host {host}: {queue} leaders are there, and it is known as {known:?}"));
        }
    }
    if let Some(place) = places.iter().find(|(_, count)| **count > 1) {
        return Err(format!("taken more than once: {place:?}"));
    }
    let now = sim.agenda.now();
    let uninformed =
        sim.world.alive().find(|(_, it)| !it.told_up && !sim.world.has_just_joined(it.place, now));
    if let Some(process) = uninformed {
        return Err(format!("is not told that the session is up: {process:?}"));
    }
    Ok(())
}

/// Without external faults, every verdict follows from the fates of the host's attempts.
fn check_fates(scenario: &Scenario, sim: &Sim<Cluster>, front: &Node, up: bool) -> Result<(), String> {
    let world = &sim.world;
    let verdict = world.notices.iter().find(|(_, n)| matches!(n, Notice::Up | Notice::GivenUp));
    let in_time = verdict.is_some_and(|(at, _)| *at < Instant::ZERO + scenario.deadline);
    for (host, known) in (0..).zip(front.host_states()) {
        let leader = MemberRole::Leader(HostIndex(host));
        let tried: Vec<_> = world.fates.iter().filter(|((place, _), _)| *place == leader).collect();
        let mut launched: BTreeMap<u16, u16> = BTreeMap::new();
        for ((_, attempt), _) in &tried {
            *launched.entry(attempt.lost).or_default() += 1;
        }
        if launched.values().any(|times| *times > scenario.rules.attempts) {
            return Err(format!("host {host} was launched so often after each loss: {launched:?}"));
        }
        let last = tried.last().map(|(_, fate)| **fate);
        match known {
            HostState::Joined => {
                let is_known = up
                    || world.starts.iter().rfind(|start| start.host == HostIndex(host)).is_none_or(|start| {
                        verdict.is_some_and(|(at, _)| start.at + checks::way(scenario, start) < *at)
                    });
                if is_known && !last.is_some_and(scenario::Fate::joins) {
                    return Err(format!("host {host} is reported as joined, but its fates are {tried:?}"));
                }
                let ranks = host * scenario.members + 1..(host + 1) * scenario.members;
                // Programs that may be any are started when the session is up.
                let ranks = ranks.filter(|_| !scenario.has_any_programs());
                let places = ranks.map(|rank| MemberRole::Local(Rank(rank))).chain([leader]);
                let missing: Vec<_> = places.filter(|place| !world.present_at_up.contains(place)).collect();
                if up && !missing.is_empty() {
                    return Err(format!("when the session was reported as up, {missing:?} were missing"));
                }
            }
            HostState::Failed(failure) => {
                let cut_short = failure.cause == Cause::SettleElapsed;
                let in_doubt = blocked_launchers::stands_in_doubt(scenario, world, front, failure);
                let all_goes_well = scenario.hosts_are_well() && !scenario.starters_fail();
                if up && in_time && all_goes_well && !scenario.is_crowded() && !cut_short && !in_doubt {
                    return Err(format!("host {host} has met with nothing bad, but: {failure:?}"));
                }
                // A launch that was cut short says nothing about the host.
                let own = matches!(failure.phase, Phase::Starting | Phase::Handshaking);
                let last_attempt = tried.last().map(|((place, attempt), _)| (*place, *attempt));
                let unarrived = matches!(failure.cause, Cause::StarterExited(_))
                    && last_attempt.is_some_and(|last| world.bulk.unarrived.contains(&last))
                    && !last_attempt.is_some_and(|last| world.bulk.srun.refused.contains(&last));
                let name =
                    world.starts.iter().rfind(|start| start.host == HostIndex(host)).map(|it| &it.name);
                let by_srun = last_attempt
                    .zip(name)
                    .is_some_and(|(last, name)| srun_starts::explains(scenario, world, last, name, failure));
                let unreported = failure.cause == Cause::TimedOut
                    && last_attempt.is_some_and(|last| world.bulk.unreported.contains(&last));
                let explained =
                    unreported || by_srun || unarrived || last.is_some_and(|fate| fate.explains(failure));
                if up && in_time && own && !cut_short && !explained {
                    return Err(format!(
                        "host {host} has the fates {tried:?}, but is reported as {failure:?}"
                    ));
                }
            }
            HostState::Waiting => {}
        }
    }
    Ok(())
}
