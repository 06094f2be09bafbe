//! How often and when hosts are launched, and by when it is known that a launch cannot succeed.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::MemberRole;
use libi_core::plan::Strategy;
use libi_core::plan::late::Attempt;
use libi_core::time::Instant;
use libi_launch::failure::{Cause, Phase};
use libi_launch::machine::{HostState, Node, Notice, Policy};

use crate::scenario::{Fate, Scenario};
use crate::srun_starts::queued;
use crate::world::{Cluster, Start};

/// The launches of each host, in the order of attempts.
fn by_host(world: &Cluster) -> BTreeMap<HostIndex, Vec<&Start>> {
    let mut hosts: BTreeMap<HostIndex, Vec<&Start>> = BTreeMap::new();
    world.starts.iter().for_each(|start| hosts.entry(start.host).or_default().push(start));
    hosts.values_mut().for_each(|starts| starts.sort_by_key(|start| start.attempt));
    hosts
}

/// The time after the deadline until a launch is late, without the way of the message.
const SLACK: Duration = Duration::from_millis(10);

/// Retries keep their delays and run on the machine that has the place; no host is launched after
/// the deadline.
pub(crate) fn starts(scenario: &Scenario, world: &Cluster, front: &Node) -> Result<(), String> {
    let rules = &scenario.rules;
    if let Some(vain) = world.futile_launch {
        return Err(format!("the front end had given up what was launched: {vain:?}"));
    }
    let mut known = (0..).map(HostIndex).zip(front.host_states());
    if let Some(again) =
        known.find(|(host, known)| world.given_up.contains(host) && !matches!(known, HostState::Failed(_)))
    {
        return Err(format!("was given up already: {again:?}"));
    }
    let replaced = front.replaced();
    if replaced.len() > scenario.spares as usize {
        return Err(format!("there are {} spares, but {replaced:?}", scenario.spares));
    }
    for (number, replaced) in replaced.iter().enumerate() {
        if replaced.by != format!("spare{number}") {
            return Err(format!("spares are not taken in order: {replaced:?}"));
        }
    }
    for (host, starts) in by_host(world) {
        for next in &starts {
            // A frozen node without a parent may make the same attempt as another, and later than that
            // was retried.
            let before = starts.iter().filter(|first| {
                (first.attempt.lost, first.attempt.withdrawn) == (next.attempt.lost, next.attempt.withdrawn)
                    && first.attempt.failed + 1 == next.attempt.failed
                    && first.at <= next.at
            });
            let Some(first) = before.min_by_key(|first| first.at) else { continue };
            let doublings = first.attempt.failed.min(20);
            let wait = rules.back_off.saturating_mul(1 << doublings).min(rules.back_off_max);
            if next.at < first.at + wait {
                return Err(format!(
                    "{host} is launched again before {wait:?} are over: {first:?}, {next:?}"
                ));
            }
        }
        let of_host = replaced.iter().filter(|replaced| replaced.host == host).map(|replaced| &replaced.by);
        let own = format!("node{}", host.0);
        let names: Vec<&String> = std::iter::once(&own).chain(of_host).collect();
        // Below a frozen process launchers go on with attempts that those above do not know. These take
        // the same numbers later, perhaps on another machine.
        let misplaced = if scenario.freezes.is_empty() {
            out_of_place(&names, &starts)
        } else {
            starts.iter().copied().find(|start| !names.contains(&&start.name))
        };
        if let Some(start) = misplaced {
            return Err(format!("{host} is launched where it has no place: {start:?} of {starts:?}"));
        }
        let place = MemberRole::Leader(host);
        let mut queue = world.alive().filter(|(_, process)| process.place == Some(place));
        let current = replaced.iter().rfind(|replaced| replaced.host == host).map_or(&own, |last| &last.by);
        if !scenario.has_faults() && queue.any(|(_, process)| process.name != *current) {
            return Err(format!("{host} is {current} by now, but another machine has its place"));
        }
    }
    // Launchers with resources for few launches make deep trees.
    let queued = queued(world, Instant::ZERO + scenario.ends);
    let heard_by =
        |start: &Start| Instant::ZERO + scenario.deadline + queued + world.way(start.depth + 1) + SLACK;
    let late = world.starts.iter().find(|start| start.at > heard_by(start));
    match late {
        Some(start) if !scenario.has_faults() && scenario.strategy == Strategy::Late => {
            Err(format!("launched after the deadline: {start:?}"))
        }
        _ => Ok(()),
    }
}

/// The first start of a host that is on none of these machines, or on one after the next had its place.
/// A launcher that is cut off goes on with the machine that it knows.
fn out_of_place<'a>(names: &[&String], starts: &[&'a Start]) -> Option<&'a Start> {
    let mut names = names.iter().peekable();
    starts.iter().copied().filter(|start| !start.cut_off).find(|start| {
        while names.peek().is_some_and(|name| ***name != start.name) {
            names.next();
        }
        names.peek().is_none()
    })
}

/// Transient failures are retried as often as allowed, and there is always a launch in flight while
/// hosts wait.
pub(super) fn repeated(
    scenario: &Scenario,
    world: &Cluster,
    front: &Node,
    known: &[&HostState],
) -> Result<(), String> {
    let rules = &scenario.rules;
    let deadline = Instant::ZERO + scenario.deadline;
    let up = world.notices.iter().any(|(at, notice)| *notice == Notice::Up && *at < deadline);
    let mut waited = false;
    for (host, known) in (0..).map(HostIndex).zip(known) {
        let HostState::Failed(failure) = known else { continue };
        waited |= failure.phase == Phase::Waiting && failure.cause == Cause::TimedOut;
        let tried = world.fates.iter().filter(|((place, _), _)| *place == MemberRole::Leader(host));
        let tried: Vec<_> = tried.map(|((_, attempt), fate)| (*attempt, *fate)).collect();
        let Some((last, fate)) = tried.last() else { continue };
        let is_retryable =
            matches!(fate, Fate::Refused | Fate::Hangs | Fate::HangsWithBanner | Fate::ClosesOnly);
        // Of the attempts before a hand-back, some may count.
        let is_latest = |attempt: &Attempt| (attempt.lost, attempt.withdrawn) == (last.lost, last.withdrawn);
        let latest = tried.iter().filter(|(attempt, _)| is_latest(attempt));
        let counted = latest.clone().map(|(attempt, _)| attempt.failed).min().unwrap_or(0);
        let times = latest.count() + usize::from(counted);
        let was_up = tried.iter().any(|(_, fate)| fate.joins());
        // Its program did not run.
        let no_start = matches!(failure.cause, Cause::NotStarted(_) | Cause::NotScheduled);
        let own = !failure.cause.is_cut_short()
            && !no_start
            && !matches!(failure.cause, Cause::LauncherLost(_) | Cause::OutOfResources(_));
        if up && own && is_retryable && !was_up && times != usize::from(rules.attempts) {
            return Err(format!("{host} is given up after {times} launches: {tried:?}, {failure:?}"));
        }
    }
    let attempt = rules.hello_timeout + rules.join_timeout + rules.kill_grace * 4 + rules.back_off_max;
    // What is refused for lack of resources is tried again.
    let refused = world.without_resources.values().max().copied();
    let latest = world.starts.last().map(|start| start.at).max(refused).unwrap_or(Instant::ZERO);
    let idle = deadline.since(latest);
    // What the front end takes for waiting may have been launched: the news are on their way.
    if waited
        && idle > attempt + world.way(world.deepest() + 1)
        && !scenario.is_crowded()
        && scenario.srun.is_none()
    {
        let replaced = front.replaced();
        return Err(format!("hosts have waited, but nothing was launched for {idle:?}; {replaced:?}"));
    }
    Ok(())
}

/// If a host has failed for good and all are required, the verdict comes soon after
/// `failure_linger`.
pub(super) fn hopeless(
    scenario: &Scenario,
    world: &Cluster,
    front: &Node,
    verdict: Instant,
) -> Result<(), String> {
    let breaks = world.fates.values().any(|fate| matches!(fate, Fate::Joins { cut: Some(_), .. }));
    let retried = scenario.srun.is_some() || scenario.bulk.is_some_and(|bulk| bulk.exits > 0.0);
    if breaks
        || retried
        || scenario.policy != Policy::All
        || scenario.spares > 0
        || scenario.strategy != Strategy::Late
    {
        return Ok(());
    }
    let was_withdrawn = |start: &Start| {
        let later = |other: &Start| other.host == start.host && other.attempt.withdrawn;
        start.attempt == Attempt::default() && world.starts.iter().any(later)
    };
    let is_hopeless = |start: &&Start| {
        let fate = world.fates.get(&(MemberRole::Leader(start.host), start.attempt));
        match fate {
            Some(Fate::NotFound | Fate::ExitsEarly | Fate::Garbage | Fate::Stale) => true,
            // A leader may be at fault itself, and then hands the host back; a front end that launches
            // beside leaders leaves it to them.
            Some(Fate::NotStarted) => {
                start.by.is_none() && (start.host == HostIndex(0) || !front.launches_as_leaders())
            }
            _ => false,
        }
    };
    let hopeless = world.starts.iter().find(|start| is_hopeless(start) && !was_withdrawn(start));
    let Some(hopeless) = hopeless else { return Ok(()) };
    let rules = &scenario.rules;
    let latest = hopeless.at + rules.failure_linger + rules.kill_grace * 5 + Duration::from_secs(5);
    if verdict > latest {
        return Err(format!("it was hopeless since {hopeless:?}, but the verdict came at {verdict}"));
    }
    Ok(())
}
