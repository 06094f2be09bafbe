//! Whole sessions in virtual time: the groups of all their processes, with random faults, and what
//! must hold all the same. In some sessions calls complete locally, in others all are strict.
//!
//! `LIBI_SEEDS=17` replays one seed, and `LIBI_SEEDS=0..10000` runs many. Otherwise 200 seeds are
//! run from `LIBI_SEED_BASE` on, by default 0, or `LIBI_SEED_COUNT` of the test of everything, and a tenth
//! of that of those of losses after which calls go on. With `LIBI_SIMULATION_LOG=1` a session that fails prints the
//! states of its processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checks;
mod consensus;
mod ends;
mod growth;
mod large;
mod masters;
mod member;
mod orphans;
mod program;
mod reasons;
mod restarts;
mod returns;
mod scenario;
mod world;

use std::ops::Range;
use std::sync::Arc;

use libi_core::sim::{MachineId, Sim, StopReason};
use libi_core::time::Instant;

use libi_cases::Session;
use member::Member;
use scenario::Scenario;
use world::Cluster;

/// Seeds that have found defects: a call that was cancelled before the session was up, and had no
/// number; a lost root, which was reported as a cancelled call; a query that waited for a fence
/// that some members had passed and some had missed; data for lost members, which were sent all at once.
/// Of calls that complete locally: a root that had done its part and was lost; a call that the parent
/// of a lost member saw after the loss, and the same with the root among the lost; a call with much data
/// that was over before an earlier one, and not reported; signs of a later call, which stood for a
/// barrier that only one member had called; two of the checks, which took a call that an earlier one had
/// broken for one that was compared with those of others, and one that waited for a stalled member; calls
/// of which the parent of a lost member knew only a later one, which waited forever; and the first of these
/// checks again, where the earlier call had failed.
const FOUND: [u64; 13] = [
    131,
    764,
    11_473,
    479_352_926_888,
    245,
    7_932,
    7_157,
    20_850,
    1_040_050_481_021,
    832_018_254_266,
    900_018_321,
    900_005_496,
    594_239_348_514,
];

/// The same where calls go on without lost members: a replay that was over at a member before its data had
/// arrived; keys of a later fence, which an earlier one had cleared; a member that was alone, and forgot
/// calls that had not begun anew; the result of a member that was lost in the round after; an agent that did
/// not tell what all members below had completed once a branch was lost that had not; a call that began anew
/// although all that were left had completed it, and data of it that arrived when that was forgotten.
const FOUND_WITH_LOSSES: [u64; 6] = [3_855, 5_141, 13_666, 6_478, 19_166, 24_105];

/// The same with other faults as well: a member that waited for its part of a scatter and was not probed,
/// while the root waited in a barrier; and the agent of seed 19,166.
const FOUND_WITH_FAULTS: [u64; 4] = [1_361, 1_652, 1_977, 19_704];

/// The same where orphans find a new parent: an agent without members, which does not tell of completed
/// calls; the report of an earlier halt in the same round; an orphan that was severed again before the plan,
/// and no longer counted among those that had to complete a call; a copy of a key from below that hid where
/// the key is; keys behind a branch that was replaced twice in one plan; keys that were announced again
/// behind the fence that they belong to; and a member that was lost after it had halted, without which
/// the process above it went on, and those above that did not.
const FOUND_WITH_ORPHANS: [u64; 8] = [1_147, 3_729, 4_491, 12_658, 15_371, 29_925, 900_007_427, 960_010_646];

/// The same where other processes take the places of lost members: an orphan that reported to its new parent
/// what the old one had asked for, without restarts; a probe that hid a fence from an agent without members;
/// a loss that was told of a member that was back; members that move and join in one round; calls in which a
/// new process takes no part, and that were not over there; a report without a process that had come after it;
/// a call that only a lost member knew; a member that was lost again, and left calls of its first life; an orphan
/// that was severed again, from whose branch a second plan removed a member that had joined with the first.
const FOUND_WITH_RESTARTS: [u64; 9] = [51_194, 21_073, 209, 73, 2_543, 5_850, 7_454, 42_194, 609_971_629_494];

/// The same where hosts die as others are about to come back: a member that had joined by a plan that its host
/// missed, and was lost, which was noticed by no process; and a new process that was welcomed as another one came
/// back, and was not told how that had been lost; and one that began with a broadcast which its root had completed, and was
/// not told that fewer were missing then.
const FOUND_IN_HASTE: [u64; 3] = [1_002_000_220, 675_725_961_106, 72_624_617_890];

/// The same where sessions grow: new members that begin one after the other, of which the first did not
/// know the others; hosts of two growths below an orphan that was not welcome yet, of which a plan took
/// one part and the next the other; hosts that came below such an orphan, and that it did not welcome; a
/// host that was reported by an orphan to its old parent, and was lost before the next report; a host
/// that was reported by a process that was lost then, and found a parent when it was given up there; and one of
/// the checks, for which a member that is lost before it begins does not come back, and one that expected many
/// messages that are in doubt to be given up before the timeouts of others; one of the simulation, in which a
/// host that was an orphan did not come back with the members that were to be restarted; and one of the checks,
/// for which a message in doubt cannot be given up before its other end is made.
const FOUND_WITH_GROWTH: [u64; 9] =
    [317, 2_153, 5_063, 12_130, 42_682, 900_002_634, 950_004_014, 970_006_819, 594_239_341_919];

/// The same where the master is replaced: a member that was restarted below an orphan without members, which was
/// in no plan; an orphan that heard of calls that were aborted by a later plan before it had the plan; one of
/// the simulation, whose orphans were given up as soon as the first of them was connected; and a fence that was
/// settled when it had not passed an agent whose only member takes no part in it, and never did; and a host that
/// came below a new one, whose leader found another parent and did not know of it when both were welcomed.
const FOUND_WITH_MASTERS: [u64; 5] = [900_001_649, 53_428_182_893, 950_010_096, 960_018_478, 1_010_019_449];

/// The same where lost hosts come back elsewhere: a host below a new one that was lost before the welcome, and had
/// come back elsewhere, so that another one with its ranks was lost; a host that was reported to a parent that was lost
/// in the same round, and was lost itself, where the plan of the round had another one with its ranks, and the same
/// in a process between; a host below an orphan, with ranks of members that were awaited where the orphan
/// was adopted, which then counted as members that had never been lost, once where the orphan was new and once where
/// it was not; a link that was closed before the topology of a new process was known; and the top without
/// branches, which halted forever for a new host of a growth that it had not heard of.
const FOUND_WITH_RETURNS: [u64; 7] = [2_992, 3_001, 3_435, 406_265, 4_007, 306_097, 1_006_263];

/// The same with other faults as well: two hosts with one rank below each other; a host that was lost below one that
/// had been reported with it, and was lost for no process; a new process that had another parent before its first
/// call, and whose calls before that were awaited; and a new host for which the one before was taken where its
/// parent was lost, so that it was never admitted.
const FOUND_WITH_RETURNS_AND_FAULTS: [u64; 4] = [448, 201_156, 302_039, 408_280];

fn seeds(count: u64) -> Range<u64> {
    let Ok(text) = std::env::var("LIBI_SEEDS") else { return base()..base() + count };
    match text.split_once("..") {
        Some((first, end)) => first.parse().unwrap()..end.parse().unwrap(),
        None => {
            let seed = text.parse().unwrap();
            seed..seed + 1
        }
    }
}

fn base() -> u64 {
    std::env::var("LIBI_SEED_BASE").map_or(0, |base| base.parse().unwrap())
}

/// How many seeds are run at least.
const DEFAULT_COUNT: u64 = 200;

/// How many are run of the test of everything.
fn all() -> u64 {
    std::env::var("LIBI_SEED_COUNT").map_or(DEFAULT_COUNT, |count| count.parse().unwrap())
}

/// How many are run of each of the twelve tests of losses after which calls go on.
fn wanted() -> u64 {
    DEFAULT_COUNT.max(all() / 10)
}

/// The test of everything, divided into two that run at the same time.
mod whatever_goes_wrong_every_call_ends_with_its_result_or_a_true_error {
    use super::*;

    fn try_half(odd: u64) {
        let seeds = FOUND.into_iter().chain(seeds(all())).filter(|seed| seed % 2 == odd);
        try_all(seeds, Scenario::drawn);
    }

    #[test]
    fn even() {
        try_half(0);
    }

    #[test]
    fn odd() {
        try_half(1);
    }
}

#[test]
fn a_death_amid_large_transfers_stalls_no_other_call() {
    try_all(seeds(200), Scenario::with_losses);
}

#[test]
fn calls_go_on_without_lost_members_and_all_others_agree_which() {
    try_all(FOUND_WITH_LOSSES.into_iter().chain(seeds(wanted())), Scenario::surviving);
}

#[test]
fn calls_go_on_whatever_else_goes_wrong() {
    try_all(FOUND_WITH_FAULTS.into_iter().chain(seeds(wanted())), Scenario::drawn_and_surviving);
}

#[test]
fn orphans_find_a_new_parent_and_only_those_that_died_are_lost() {
    let adoptions = try_all(FOUND_WITH_ORPHANS.into_iter().chain(seeds(wanted())), Scenario::recovering);
    assert!(adoptions > 0, "no orphan was adopted in any session");
}

#[test]
fn orphans_find_a_new_parent_whatever_else_goes_wrong() {
    try_all(seeds(wanted()), Scenario::drawn_and_recovering);
}

#[test]
fn other_processes_take_the_places_of_lost_members_and_all_agree_from_which_call_on() {
    let restarts = try_all(FOUND_WITH_RESTARTS.into_iter().chain(seeds(wanted())), Scenario::restarting);
    assert!(restarts > 0, "no member was restarted in any session");
}

#[test]
fn other_processes_take_the_places_of_lost_members_while_orphans_find_a_parent_at_once() {
    try_all(FOUND_IN_HASTE.into_iter().chain(seeds(wanted())), Scenario::restarting_in_haste);
}

#[test]
fn other_processes_take_the_places_of_lost_members_whatever_else_goes_wrong() {
    try_all(seeds(wanted()), Scenario::drawn_and_restarting);
}

#[test]
fn sessions_grow_and_all_members_agree_from_which_call_on() {
    let joined = try_all(FOUND_WITH_GROWTH.into_iter().chain(seeds(wanted())), Scenario::growing);
    assert!(joined > 0, "no host has joined any session");
}

#[test]
fn lost_hosts_come_back_elsewhere_and_all_members_agree_from_which_call_on() {
    let returned = try_all(FOUND_WITH_RETURNS.into_iter().chain(seeds(wanted())), Scenario::returning);
    assert!(returned > 0, "no host has come back in any session");
}

#[test]
fn lost_hosts_come_back_elsewhere_whatever_else_goes_wrong() {
    try_all(FOUND_WITH_RETURNS_AND_FAULTS.into_iter().chain(seeds(wanted())), Scenario::drawn_and_returning);
}

#[test]
fn another_member_is_the_master_when_that_is_lost_and_all_agree_from_which_call_on() {
    try_all(FOUND_WITH_MASTERS.into_iter().chain(seeds(wanted())), Scenario::replacing);
}

/// Returns how many orphans were adopted, members restarted, and hosts added.
fn try_all(seeds: impl Iterator<Item = u64>, drawn: fn(u64) -> (Session, Scenario)) -> u64 {
    let mut adoptions = 0;
    for seed in seeds {
        let (session, scenario) = drawn(seed);
        match run(session.clone(), scenario.clone()) {
            Ok(adopted) => adoptions += adopted,
            Err(wrong) => panic!(
                "LIBI_SEEDS={seed} cargo test -p libi-comm --test simulation (LIBI_SEED_BASE={})\n{wrong}\n{scenario:#?}\n{session:#?}",
                base()
            ),
        }
    }
    adoptions
}

macro_rules! cases {
    ($($test:ident: $file:literal;)*) => {
        $(
            #[test]
            fn $test() {
                every_case_of($file);
            }
        )*
    };
}

cases! {
    collective_calls_give_what_a_serial_run_gives: "collective";
    reductions_give_what_a_serial_run_gives: "reduce";
    exchanges_give_what_a_serial_run_gives: "exchange";
    messages_arrive_once_and_in_order: "p2p";
    keys_are_found_after_the_fence_that_follows_their_put: "kvs";
    mixed_calls_give_what_a_serial_run_gives: "mixed";
}

fn every_case_of(file: &str) {
    let (_, text) = libi_cases::FILES.into_iter().find(|(name, _)| *name == file).unwrap();
    let seeds = if std::env::var_os("LIBI_SEEDS").is_some() { 0..5 } else { 0..1 };
    for (nth, session) in libi_cases::sessions(text).unwrap().into_iter().enumerate() {
        for seed in seeds.clone().map(|seed| seed * 1_000 + nth as u64) {
            if let Err(wrong) = run(session.clone(), Scenario::healthy(seed)) {
                panic!("{file}, {}, seed {seed}: {wrong}", session.name);
            }
        }
    }
}

/// Runs a session, and checks what must hold. Returns how many orphans were adopted and members restarted.
fn run(session: Session, scenario: Scenario) -> Result<u64, String> {
    let session = Arc::new(session);
    let mut sim = Sim::new(Cluster::new(session, scenario));
    sim.world.begin(&mut sim.agenda);
    if sim.run(Instant::FAR_FUTURE, 50_000_000) != StopReason::Quiescent {
        return Err(format!("something spins, at {}", sim.agenda.now()));
    }
    let checked = checks::all(&sim);
    if checked.is_err() && std::env::var_os("LIBI_SIMULATION_LOG").is_some() {
        for (id, Member { process, lost, calls, .. }) in (0..).zip(&sim.world.members) {
            eprintln!("{process}, lost at {lost:?}: {:?}", sim.agenda.machine(MachineId(id)));
            calls.values().for_each(|call| eprintln!("  {call:?}"));
        }
    }
    checked.map(|()| sim.world.adoptions + sim.world.returns + sim.world.growths)
}
