//! What must hold where calls go on without lost members: all others agree which are missing in a call.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_comm::{Address, CommError};
use libi_core::ids::Rank;

use libi_cases::step::Step;

use crate::checks::some_call_waits_forever;
use crate::member::{Ending, Member, Record};
use crate::world::Cluster;

/// Of every collective call, all members that are not lost have the same result; if other members do
/// something wrong, all that have a result.
pub(crate) fn holds(world: &Cluster) -> Result<(), String> {
    for (at, step) in (0..).zip(&world.session.steps).filter(|(_, step)| step.is_collective()) {
        let mut first: Option<(&Member, &Record)> = None;
        for member in world.members.iter().filter(|member| member.lost.is_none()) {
            for record in member.calls.values().filter(|record| record.step == at) {
                is_true(world, member, step, record)?;
                match first {
                    None => first = Some((member, record)),
                    Some((other, like)) if differ(world, step, like, record) => {
                        let (one, two) = (&other.process, &member.process);
                        return Err(format!("{step:?}: {one} has {like:?}, {two} has {record:?}"));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    have_left_in_order(world)
}

/// Members that have left in order, when no other needed them, are missing in no call; and all that leave
/// do so, where members are only lost.
fn have_left_in_order(world: &Cluster) -> Result<(), String> {
    let (mut settled, mut unsettled) = (BTreeSet::new(), None);
    for member in &world.members {
        match (member.left_settled, member.process.address) {
            (Some(true), Some(Address::Rank(rank))) => drop(settled.insert(rank)),
            (Some(false), _) => unsettled = Some(&member.process),
            _ => {}
        }
    }
    // A member that waits in vain for a message keeps others from leaving.
    let lasts = |record: &Record| record.ended.as_ref().map(|(at, _)| at.since(record.at));
    let waits = |record: &Record| record.is_in_doubt && lasts(record) > Some(Duration::from_secs(1));
    let all_go_on = || !world.members.iter().any(|member| member.calls.values().any(waits));
    if let Some(who) = unsettled.filter(|_| are_only_lost(world) && all_go_on()) {
        return Err(format!("{who} has left although others may need it"));
    }
    let records = world.members.iter().flat_map(|member| member.calls.values().map(move |it| (member, it)));
    for (member, record) in records {
        let has_left = |rank: &&Rank| settled.contains(*rank) && !world.was_restarted(**rank);
        if let Some(rank) = record.missing.iter().find(has_left) {
            let who = &member.process;
            return Err(format!("{who} misses {rank}, which had completed all: {record:?}"));
        }
    }
    Ok(())
}

/// Whether a result names only members that were lost by then, and fails only for want of its root.
fn is_true(world: &Cluster, member: &Member, step: &Step, record: &Record) -> Result<(), String> {
    let who = &member.process;
    let Some((at, ending)) = &record.ended else { return Err(format!("{who}: is not over: {record:?}")) };
    let is_lost = |rank: &Rank| world.lost(*rank).is_some_and(|lost| lost <= *at);
    if let Some(rank) = record.missing.iter().find(|rank| !is_lost(rank)) {
        return Err(format!("{who} misses {rank}, which is not lost: {record:?}"));
    }
    let size = world.sessions[record.version].size;
    if let Some(rank) = record.missing.iter().find(|rank| rank.0 >= size) {
        return Err(format!("{who} misses {rank} of {size} ranks: {record:?}"));
    }
    if let Some(rank) = world.leaves_out(record.step, &record.missing) {
        return Err(format!("{who} misses {rank}, which is back: {record:?}"));
    }
    match ending {
        _ if !are_only_lost(world) => Ok(()),
        Ending::Right => Ok(()),
        Ending::Failed(CommError::PeerLost { ranks, .. })
            if root(step).is_some_and(|root| {
                ranks.contains(root) && world.leaves_out(record.step, &[root]).is_none()
            }) =>
        {
            Ok(())
        }
        other => Err(format!("{who} at {step:?}: {other:?}")),
    }
}

/// Whether two members have different results of a call.
fn differ(world: &Cluster, step: &Step, one: &Record, other: &Record) -> bool {
    if one.version != other.version {
        return true;
    }
    let kind = |record: &Record| record.ended.as_ref().map(|(_, ending)| ending == &Ending::Right);
    if !are_only_lost(world) && [one, other].iter().any(|record| kind(record) != Some(true)) {
        return false;
    }
    // What goes to a root is handed over, whether or not that is lost later.
    let is_for_root = matches!(step, Step::Gather { .. } | Step::Reduce { to: Some(_), .. });
    !is_for_root && (kind(one) != kind(other) || one.missing != other.missing)
}

const fn root(step: &Step) -> Option<Rank> {
    match step {
        Step::Broadcast { root, .. } | Step::Gather { root, .. } | Step::Scatter { root, .. } => Some(*root),
        Step::Reduce { to, .. } => *to,
        _ => None,
    }
}

/// Whether members do nothing wrong, and wait for nothing in vain, but some are lost.
fn are_only_lost(world: &Cluster) -> bool {
    world.scenario.has_only_losses() && !some_call_waits_forever(world)
}
