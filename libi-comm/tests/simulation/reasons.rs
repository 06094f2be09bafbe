//! The reasons of losses, as processes tell them, and whether they are true.

use libi_comm::Address;
use libi_core::ids::{LinkId, Rank};
use libi_core::loss::{Loss, LossKind, LossReason};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use crate::member::Member;
use crate::world::Cluster;
use libi_cases::step::Step;

/// The name of the place of a process.
fn place(process: usize) -> String {
    format!("place {process}")
}

/// How the process behind a link to a branch was lost.
pub(crate) fn of_cut(member: &Member, link: LinkId) -> Option<LossReason> {
    let lost = member.process.links.get(&link)?;
    Some(LossReason { host: place(*lost), is_leader: false, how: LossKind::Killed(*lost as i32) })
}

/// Whether the reason of each loss is known, and true: a process with the lost member in it or below it
/// had died.
pub(crate) fn are_true(world: &Cluster, ranks: &Ranks, why: &[Loss], at: Instant, step: u32) -> bool {
    let is_true = |rank: Rank, host: &str| {
        let of_rank = |member: &Member| member.process.address == Some(Address::Rank(rank));
        // A process that was adopted may have been lost with an earlier parent before.
        let above = |at: &usize| world.parents[*at];
        let own = (0..world.members.len()).filter(|process| of_rank(&world.members[*process]));
        let mut places = own.flat_map(|own| std::iter::successors(Some(own), above));
        let named = places.find(|process| place(*process) == host);
        named.is_some_and(|process| world.members[process].lost.is_some_and(|lost| lost <= at))
    };
    let told: Ranks = why.iter().flat_map(|loss| loss.ranks.iter()).collect();
    // Those by which the session has grown may have had no process.
    let mut ranks = ranks.clone();
    let never: Ranks =
        ranks.iter().filter(|rank| world.is_known_since(*rank).is_some() && !told.contains(*rank)).collect();
    ranks.remove_all(&never);
    // A value that was lost with a host stays lost when its members are back, and how is of no interest then.
    let is_get = matches!(world.session.steps[step as usize], Step::Get { .. });
    // The process above a lost host may be lost as well, before it has told how.
    let is_unsaid = |rank: Rank| {
        let parent = |member: &Member| member.process.parent.map(|(parent, _)| parent);
        let mut parents = world.processes_of(rank).filter(|it| it.lost.is_some()).filter_map(parent);
        world.scenario.host_returns && parents.any(|parent| world.members[parent].lost.is_some())
    };
    let may_be_unknown = |rank: Rank| world.was_restarted(rank) && (is_get || is_unsaid(rank));
    ranks = ranks.iter().filter(|rank| told.contains(*rank) || !may_be_unknown(*rank)).collect();
    let all_true = why.iter().all(|loss| loss.ranks.iter().all(|rank| is_true(rank, &loss.reason.host)));
    told == ranks && all_true
}
