//! Invariants of launches and reports under each policy.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::join::MemberRole;
use libi_core::plan::Strategy;
use libi_core::plan::late::Attempt;
use libi_core::sim::Sim;
use libi_core::time::Instant;
use libi_launch::failure::{Cause, Failure, Phase};
use libi_launch::machine::{HostState, LinkPolicy, Node, Notice, Policy};

use crate::blocked_launchers;
use crate::scenario::{Fate, Scenario, Trouble};
use crate::srun_starts::{HostTrouble, queued};
use crate::world::{Cluster, FRONT, Start};

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

/// In a static tree, every host is launched by its parent there, unless the parent and all nodes
/// between them have failed.
pub(crate) fn tree(scenario: &Scenario, world: &Cluster, front: &Node) -> Result<(), String> {
    let Some(tree) = scenario.tree() else { return Ok(()) };
    let of_host = |host| world.starts.iter().filter(move |start| start.host == host);
    let by_others = scenario.blocked_launchers.is_some() || scenario.is_crowded();
    if scenario.has_faults() || by_others || of_host(HostIndex(0)).count() != 1 {
        return Ok(()); // another first leader has another tree, and blocked leaders hand hosts back
    }
    let replaced = |host| front.replaced().iter().any(|replaced| replaced.host == host);
    let all_is_well = scenario.hosts_are_well();
    let mut latest: BTreeMap<HostIndex, HostIndex> = BTreeMap::new();
    for start in world.starts.iter().filter(|start| start.host != HostIndex(0) && !replaced(start.host)) {
        let wrong = |what: &str| Err(format!("{what} launches {start:?}"));
        let by = match start.by {
            Some(MemberRole::Leader(by)) => by,
            // The front end takes over what the first leader hands back, if all its launches fail.
            None if !all_is_well => continue,
            _ => return wrong("a node outside the tree"),
        };
        let mut above = tree.parent(start.host.0);
        while let Some(parent) = above.filter(|parent| *parent != by.0) {
            if all_is_well || of_host(HostIndex(parent)).next().is_none() {
                return wrong("a node other than its parent");
            }
            above = tree.parent(parent);
        }
        if above.is_none() {
            return wrong("a node that is not above it");
        }
        if all_is_well && latest.insert(by, start.host).is_some_and(|before| before > start.host) {
            return wrong("a node out of order");
        }
    }
    Ok(())
}

/// Longer than any host may take to join.
const JOINING: Duration = Duration::from_secs(100);

/// With `Direct`, every host in the session has a direct link; with `Channel`, no host connects.
pub(crate) fn links(scenario: &Scenario, sim: &Sim<Cluster>, front: &Node) -> Result<(), String> {
    let world = &sim.world;
    if scenario.links == LinkPolicy::Channel && !world.direct.outcomes.is_empty() {
        return Err(format!("a host connects directly: {:?}", world.direct.outcomes));
    }
    // The launch does not wait for a host that reports that it cannot connect.
    let all_goes_well = scenario.hosts_are_well();
    let links_alone = all_goes_well && !scenario.is_crowded() && !world.was_cut;
    if scenario.may_be_unreachable() && links_alone && scenario.deaths.is_empty() && !scenario.may_be_silent()
    {
        let timed_out = |known: &&HostState| {
            matches!(known, HostState::Failed(failure)
                if failure.cause == Cause::TimedOut && failure.elapsed > scenario.rules.join_timeout)
        };
        if let Some(known) = front.host_states().find(timed_out).filter(|_| scenario.deadline > JOINING) {
            return Err(format!("was waited for although it could not connect: {known:?}"));
        }
    }
    let up = world.up_at();
    let Some(up) = up else { return Ok(()) };
    let leaders = world
        .alive()
        .filter(|(_, process)| process.told_up && matches!(process.place, Some(MemberRole::Leader(_))));
    for (id, process) in leaders {
        let outcome = world.direct.outcomes.get(&id);
        if scenario.links == LinkPolicy::Direct && outcome != Some(&true) {
            return Err(format!("is in the session, but not direct: {outcome:?} {process:?}"));
        }
    }
    if scenario.links == LinkPolicy::Auto && scenario.unreachable == 1.0 && world.direct.moved() > 0 {
        return Err("links have moved to nowhere".to_owned());
    }
    let settled = up + Duration::from_secs(8) < sim.agenda.now();
    // A link that has arrived at the rendezvous is direct from the beginning.
    if scenario.has_faults() || world.was_cut || !settled || scenario.bulk.is_some() {
        return Ok(());
    }
    // The front end's knowledge of links is correct.
    for (id, process) in world.alive() {
        let Some(MemberRole::Leader(host)) = process.place else { continue };
        let known = front.links().get(host.0 as usize).copied().flatten();
        let outcome = world.direct.outcomes.get(&id).copied();
        if known != outcome
            && *front.host_states().nth(host.0 as usize).unwrap_or(&HostState::Waiting) == HostState::Joined
        {
            return Err(format!("{host} has dialled: {outcome:?}, but is known as {known:?}"));
        }
    }
    Ok(())
}

/// A process that is killed when the session is up is reported as ended, if its ancestors live.
pub(crate) fn deaths(scenario: &Scenario, sim: &Sim<Cluster>) -> Result<(), String> {
    let world = &sim.world;
    let up = world.up_at();
    let Some(up) = up.filter(|_| scenario.freezes.is_empty()) else { return Ok(()) };
    let known_by = |at: Instant| at + scenario.rules.peer_timeout * 3 + scenario.rules.kill_grace * 8;
    for death in world.deaths.iter().filter(|death| death.at > up + Duration::from_secs(5)) {
        // A process whose parent has just died is lost with that.
        let alive = death.above.last() == Some(&FRONT)
            && death.above.iter().all(|id| world.processes[id.0 as usize].alive);
        let rank = match death.place {
            // An agent with members is lost with its host.
            Some(MemberRole::Leader(_)) if !scenario.members_join() => continue,
            Some(MemberRole::Leader(host)) => Rank(host.0 * scenario.members),
            Some(MemberRole::Local(rank)) => rank,
            None => continue,
        };
        let mut reported = world.notices.iter();
        let reported = reported.any(|(_, notice)| match (notice, death.place) {
            (Notice::Lost(lost, _), Some(MemberRole::Leader(host))) => *lost == host,
            (Notice::Exited(whose, _), _) => *whose == rank,
            _ => false,
        });
        let released = world.notices.iter().any(|(_, notice)| *notice == Notice::Detached(rank));
        if alive && sim.agenda.now() > known_by(death.at) && !reported && !released && !death.released {
            return Err(format!("not reported: {death:?}"));
        }
    }
    Ok(())
}

/// Every lost host has a cause of its own, other than that launching had stopped.
pub(crate) fn losses(world: &Cluster) -> Result<(), String> {
    let has_no_reason = |lost: &Failure| lost.cause.is_cut_short() && lost.phase == Phase::Waiting;
    let mut notices = world.notices.iter();
    match notices.find(|(_, notice)| matches!(notice, Notice::Lost(_, lost) if has_no_reason(lost))) {
        Some(notice) => Err(format!("lost without a cause: {notice:?}")),
        None => Ok(()),
    }
}

/// Without external faults, a verdict is what has happened to the host, or that its launch was cut
/// short.
pub(crate) fn cut_short(scenario: &Scenario, world: &Cluster, front: &Node) -> Result<(), String> {
    let verdict = world.notices.iter().find(|(_, n)| matches!(n, Notice::Up | Notice::GivenUp));
    let Some((at, verdict)) = verdict else { return Ok(()) };
    let known: Vec<&HostState> = front.host_states().collect();
    repeated(scenario, world, front, &known)?;
    hopeless(scenario, world, *at)?;
    let failed = |known: &HostState| matches!(known, HostState::Failed(_));
    let abandoned = |known: &HostState| matches!(known, HostState::Failed(f) if f.cause.is_cut_short() && f.cause != Cause::SettleElapsed);
    let before = scenario.deadline.min(scenario.rules.failure_linger);
    let in_time = *at < Instant::ZERO + scenario.deadline;
    let first_failed = known.first().is_some_and(|known| failed(known));
    // A host that was lost just when the session came up is not relaunched.
    let was_lost = |host: u32| {
        world.notices.iter().any(|(_, notice)| matches!(notice, Notice::Lost(lost, _) if lost.0 == host))
    };
    let cut_short = |&(host, known): &(u32, &&HostState)| abandoned(known) && !was_lost(host);
    if !first_failed && *at < Instant::ZERO + before && (0..).zip(&known).any(|it| cut_short(&it)) {
        let item: Vec<_> = (0..).zip(&known).filter(cut_short).take(3).collect();
        return Err(format!("given up at {at}, before {before:?} were over, with {item:?} open"));
    }
    let lost =
        world.notices.iter().any(|(_, notice)| matches!(notice, Notice::Lost(..) | Notice::Exited(..)));
    let spares_left = front.replaced().len() < scenario.spares as usize;
    for (host, known) in (0..).map(HostIndex).zip(&known) {
        let HostState::Failed(failure) = known else { continue };
        let mut tried = world.fates.iter().filter(|((place, _), _)| *place == MemberRole::Leader(host));
        let last = tried.next_back().map(|(_, fate)| *fate);
        let was_silent = matches!(last, Some(Fate::Hangs | Fate::HangsWithBanner));
        let own = !failure.cause.is_cut_short()
            && !matches!(failure.cause, Cause::LauncherLost(_) | Cause::OutOfResources(_));
        let too_early = failure.phase == Phase::Starting && failure.elapsed < scenario.rules.hello_timeout;
        if in_time && failure.cause == Cause::TimedOut && too_early {
            return Err(format!("{host} was cut short, but is reported as timed out: {failure:?}"));
        }
        // It had printed for so long that this was known when it was given up.
        let is_known = |start: &Start| {
            let printed = world.banners.get(&host).filter(|printed| **printed >= start.at);
            printed.is_some_and(|printed| *printed + Duration::from_secs(2) < start.at + failure.elapsed)
        };
        let was_started = failure.phase == Phase::Starting
            && world.starts.iter().rfind(|start| start.host == host).is_some_and(is_known);
        // A program whose start waits has printed nothing yet, and one that cannot be started never does.
        let may_wait = scenario.srun.is_some_and(|srun| srun.waits > 0.0);
        let has_run =
            !may_wait && scenario.can_start(world, host) && !matches!(failure.cause, Cause::NotStarted(_));
        let has_printed = was_started && last == Some(Fate::HangsWithBanner) && has_run;
        if has_printed && !failure.tail.contains("Welcome") {
            return Err(format!("what {host} has printed is forgotten: {failure:?}"));
        }
        // Where no start can succeed, a spare would not come up either.
        let is_refused = !world.bulk.srun.refused.is_empty() || !world.bulk.srun.cancelled.is_empty();
        // It may end later than all its members have left, which is told to no user.
        let has_left = |nth| {
            let rank = Rank(host.0 * scenario.members + nth);
            world.notices.iter().any(|(_, notice)| *notice == Notice::Detached(rank))
        };
        let was_left = failure.phase == Phase::Joined && (0..scenario.members).all(has_left);
        if *verdict == Notice::Up && in_time && !lost && !was_left && own && spares_left && !is_refused {
            return Err(format!("{host} is given up although there are spares: {failure:?}"));
        }
        let at_fault = match scenario.trouble {
            Trouble::Breaks(at_fault, _) => host == HostIndex(at_fault),
            Trouble::Hang(_) => was_silent,
            Trouble::DenyAll(_) => scenario.denies_all(host.0),
            Trouble::Dead(percent) => scenario.is_selected(host.0, percent),
            Trouble::Nothing | Trouble::RefuseOnce(_) => false,
        } || scenario.is_crowded() && failure.is_out_of_resources()
            || failure.cause == Cause::SettleElapsed
            || scenario.starters_fail()
            || scenario.may_lack_programs()
            || scenario.may_lack_files()
            || blocked_launchers::stands_in_doubt(scenario, world, front, failure);
        if *verdict == Notice::Up && in_time && !lost && scenario.bad == 0.0 && !at_fault {
            return Err(format!("{host} is not at fault, but given up: {failure:?}"));
        }
    }
    for replaced in front.replaced() {
        // A host that has failed before a start is cancelled may be replaced before that is known.
        let is_cancelled = !world.bulk.srun.cancelled.is_empty();
        let is_refused = is_cancelled || scenario.host_trouble(&replaced.by) == HostTrouble::Outside;
        let had_no_resources = world.without_resources.contains_key(&replaced.by);
        let launched =
            is_refused || had_no_resources || world.starts.iter().any(|start| start.name == replaced.by);
        if *verdict == Notice::Up && in_time && !launched && !scenario.is_crowded() && !scenario.settles() {
            return Err(format!("was never launched: {replaced:?}"));
        }
    }
    let replaced = |host| front.replaced().iter().filter(|replaced| replaced.host == host).count();
    if let Trouble::Breaks(host, _) = scenario.trouble
        && scenario.bad == 0.0
        // The hosts below one that fails are launched again.
        && !scenario.may_lack_files()
        && !scenario.is_crowded()
        && scenario.srun.is_none()
    // a node that takes a host back does not know how often it was lost
    {
        // A launch may also be lost with the host that had launched it, or that relays it.
        let place = Some(MemberRole::Leader(HostIndex(host)));
        let own = world.processes.iter().filter(|process| process.place == place && process.broke).count();
        let most = usize::from(scenario.rules.attempts) * (1 + replaced(HostIndex(host)));
        if own > most {
            return Err(format!("host {host} was lost {own} times, and launched again"));
        }
    }
    Ok(())
}

/// Transient failures are retried as often as allowed, and there is always a launch in flight while
/// hosts wait.
fn repeated(scenario: &Scenario, world: &Cluster, front: &Node, known: &[&HostState]) -> Result<(), String> {
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
fn hopeless(scenario: &Scenario, world: &Cluster, verdict: Instant) -> Result<(), String> {
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
                start.by.is_none() && (start.host == HostIndex(0) || scenario.agents.is_none())
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
