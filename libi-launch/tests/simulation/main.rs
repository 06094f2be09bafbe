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
mod commands;
mod consequences;
mod denied_logins;
mod direct;
mod driver;
mod feeding;
mod file_links;
mod folding;
mod found;
mod growth;
mod limits;
mod many;
mod one_way;
mod orphans;
mod restarts;
mod scenario;
mod seeds;
mod settling;
mod srun_starts;
mod staging;
mod tree_views;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::join::{MemberRole, SessionKey};
use libi_core::plan::Strategy;
use libi_core::plan::late::Attempt;
use libi_core::sim::{Sim, StopReason};
use libi_core::time::Instant;
use libi_launch::failure::{Cause, Phase};
use libi_launch::machine::{Event, HostState, Node, Notice, Policy};

use driver::Driver;
use scenario::{Fate, Scenario};
use seeds::{check_all, seeds_of_part};
use world::{Cluster, FRONT, Happening, Pick};

/// How long a launch without an answer counts towards those in flight, if REM is shorter.
const SILENCE: Duration = Duration::from_secs(3);

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
    every_bulk_start_ends_with_a_true_verdict_and_leaves_no_process: Scenario::with_srun, 1 of 5;
    every_session_of_agents_ends_with_a_true_verdict_and_leaves_no_process: Scenario::with_agents, 1 of 10;
    every_host_that_the_front_end_cannot_reach_is_launched_by_others: Scenario::with_a_far_front_end, 1 of 20;
    every_front_end_with_a_limit_keeps_it_and_ends_with_a_true_verdict: Scenario::with_a_limit, 1 of 20;
    every_output_arrives_whole_whether_it_is_merged_or_not: Scenario::with_folds, 1 of 10;
    every_command_ends_with_one_true_outcome_for_each_process: Scenario::with_commands, 1 of 10;
    every_program_gets_all_input_and_nothing_waits_for_what_is_lost: Scenario::with_input, 1 of 10;
    every_host_has_all_staged_files_or_fails_and_nothing_is_left_of_them: Scenario::with_staging, 1 of 10;
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
        staging::checks(scenario, &sim.world, front)?;
        feeding::checks(scenario, &sim.world, sim.agenda.now())?;
    }
    commands::checks(scenario, &sim.world, sim.agenda.now(), false)?;

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
    if sim.world.has_processes() {
        return Err("a process of a command is left running".to_owned());
    }
    commands::checks(scenario, &sim.world, sim.agenda.now(), true)?;
    if sim.world.alive().any(|(id, _)| id == FRONT) && sim.world.has_starters() {
        return Err("a starter is left running".to_owned());
    }
    if let Some(in_flight) = sim.world.over_limit {
        return Err(format!("{in_flight} launches of the front end were in flight"));
    }
    if let Some(wrong) = &sim.world.disks.wrong {
        return Err(wrong.clone());
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
        // Files may take long.
        && scenario.staging.is_none()
        && !scenario.has_faults()
        && scenario.strategy == Strategy::Late
        && scenario.capacity.is_none()
    {
        // The overall deadline need not pass, because each attempt has its own.
        let rules = &scenario.rules;
        let attempt = rules.hello_timeout + rules.join_timeout + rules.kill_grace * 4 + rules.back_off * 16;
        // Each launcher after the second to which a host is handed may wait for it once more.
        let mut launchers = BTreeMap::<HostIndex, BTreeSet<_>>::new();
        sim.world
            .starts
            .iter()
            .for_each(|start| _ = launchers.entry(start.host).or_default().insert(start.by));
        let most = launchers.values().map(BTreeSet::len).max().unwrap_or(0);
        let attempts = u32::from(rules.attempts) * (1 + scenario.spares) + most.saturating_sub(2) as u32;
        // A launcher that has few launches in flight, four at least, waits for silent ones.
        let is_silent = |fate: &&Fate| matches!(fate, Fate::Hangs | Fate::HangsWithBanner);
        let silent = sim.world.fates.values().filter(is_silent).count() as u32;
        let by = Duration::from_secs(40) + attempt * attempts + rules.failure_linger + SILENCE * silent / 4;
        latest = latest.min(Instant::ZERO + by + sim.world.held_by_limit(attempt));
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
                Notice::Exited(rank, ..) | Notice::Detached(rank) => rank.0 / scenario.members == host,
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
    let deepest = sim.world.deepest();
    let up = sim.world.up_at();
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
            notices.any(|(_, n)| matches!(n, Notice::Exited(of, ..) | Notice::Detached(of) if *of == rank))
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
        let mut launched: BTreeMap<(u16, bool), u16> = BTreeMap::new();
        for ((_, attempt), _) in &tried {
            *launched.entry((attempt.lost, attempt.withdrawn)).or_default() += 1;
        }
        if launched.values().any(|times| *times > scenario.rules.attempts) {
            return Err(format!("host {host} was launched so often after each loss: {launched:?}"));
        }
        // The last by number, and by time. They differ where one of them was made below a process that was
        // cut off.
        let by_number = tried.last().map(|((_, attempt), _)| *attempt);
        let last: BTreeSet<_> =
            by_number.into_iter().chain(world.last_attempts.get(&leader).copied()).collect();
        let any_last =
            |is: &dyn Fn(&(MemberRole, Attempt)) -> bool| last.iter().any(|last| is(&(leader, *last)));
        match known {
            HostState::Joined => {
                let is_known = up
                    || world.starts.iter().rfind(|start| start.host == HostIndex(host)).is_none_or(|start| {
                        verdict.is_some_and(|(at, _)| start.at + world.way(start.depth + 1) < *at)
                    });
                if is_known && !any_last(&|attempt| world.fates[attempt].joins()) {
                    return Err(format!("host {host} is reported as joined, but its fates are {tried:?}"));
                }
                let ranks = host * scenario.members + 1..(host + 1) * scenario.members;
                // Programs that may be any are started when the session is up.
                let ranks = ranks.filter(|_| scenario.members_join());
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
                let unarrived = matches!(failure.cause, Cause::StarterExited(_))
                    && any_last(&|last| {
                        world.bulk.unarrived.contains(last) && !world.bulk.srun.refused.contains(last)
                    });
                let name =
                    world.starts.iter().rfind(|start| start.host == HostIndex(host)).map(|it| &it.name);
                let by_srun = name.is_some_and(|name| {
                    any_last(&|last| srun_starts::explains(scenario, world, *last, name, failure))
                });
                let ended_with_others = srun_starts::blames_another(scenario, front, failure);
                let unreported = failure.cause == Cause::TimedOut
                    && any_last(&|last| world.bulk.unreported.contains(last));
                let by_fate = any_last(&|last| world.fates[last].explains(failure));
                let explained = unreported || by_srun || unarrived || by_fate || ended_with_others;
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
