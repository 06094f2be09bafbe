//! Invariants of launches and reports under each policy.

mod attempts;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::join::MemberRole;
use libi_core::sim::Sim;
use libi_core::time::Instant;
use libi_launch::failure::{Cause, Failure, Phase};
use libi_launch::machine::{HostState, LinkPolicy, Node, Notice};

use crate::blocked_launchers;
use crate::scenario::{Fate, Scenario, Trouble};
use crate::srun_starts::{HostTrouble, is_ended_too_often};
use crate::world::{Cluster, FRONT, Start};

pub(crate) use self::attempts::starts;
use self::attempts::{hopeless, repeated};

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
    // Children of a process connect a few at a time, some of them later than this.
    let is_over = |begun: Instant| begun + Duration::from_secs(8) < sim.agenda.now();
    let settled = is_over(up);
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
            && world.direct.begun.get(&id).copied().is_none_or(is_over)
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
            (Notice::Exited(whose, ..), _) => *whose == rank,
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
    hopeless(scenario, world, front, *at)?;
    let failed = |known: &HostState| matches!(known, HostState::Failed(_));
    let abandoned = |known: &HostState| matches!(known, HostState::Failed(f) if f.cause.is_cut_short() && f.cause != Cause::SettleElapsed);
    let before = scenario.deadline.min(scenario.rules.failure_linger);
    let in_time = *at < Instant::ZERO + scenario.deadline;
    let first_failed = known.first().is_some_and(|known| failed(known));
    // A host that was lost just when the session came up is not relaunched.
    let was_lost = |host: u32| {
        world.notices.iter().any(|(_, notice)| matches!(notice, Notice::Lost(lost, _) if lost.0 == host))
    };
    let cut_short = |&(host, known): &(u32, &&HostState)| {
        abandoned(known) && !was_lost(host) && !is_ended_too_often(scenario, world, front, host, known)
    };
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
            // Of a host that never answers, the last of many attempts may have failed for want of resources.
            Trouble::Hang(most) => {
                was_silent || failure.is_out_of_resources() && host.0 % 3 == 2 && host.0 / 3 < most
            }
            Trouble::DenyAll(_) => scenario.denies_all(host.0),
            Trouble::Dead(percent) => scenario.is_selected(host.0, percent),
            Trouble::Nothing | Trouble::RefuseOnce(_) | Trouble::FirstHangsOnce => false,
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
        // A node that takes a host back begins to count again.
        let starts = world.starts.iter().filter(|start| start.host == HostIndex(host));
        let rounds: BTreeSet<u16> = starts.map(|start| start.attempt.lost).collect();
        let most = usize::from(scenario.rules.attempts) * (rounds.len() + replaced(HostIndex(host)));
        if own > most {
            return Err(format!("host {host} was lost {own} times, and launched again"));
        }
    }
    Ok(())
}
