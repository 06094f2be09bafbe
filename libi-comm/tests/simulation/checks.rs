//! What must hold at the end of a run, whatever has gone wrong in it.

mod mismatches;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use libi_comm::message::{CallSignature, Kind, Length};
use libi_comm::{Address, Call, CommError, Completion, Reducer};
use libi_core::ids::Rank;
use libi_core::sim::{MachineId as Id, Sim};
use libi_core::time::Instant;

use crate::member::{Ending, Member, Record};
use crate::reasons;
use crate::scenario::LONG;
use crate::world::Cluster;
use libi_cases::Session;
use libi_cases::step::Step;

/// Checks everything.
pub(crate) fn all(sim: &Sim<Cluster>) -> Result<(), String> {
    let world = &sim.world;
    if let Some(wrong) = &world.wrong {
        return Err(wrong.clone());
    }
    let history = History::new(world);
    for member in &world.members {
        // Agents make no calls.
        let Some(who) = member.process.address else { continue };
        for record in member.calls.values() {
            ended(world, member, record).map_err(|wrong| format!("{who}: {wrong}: {record:?}"))?;
            let Some((at, ending)) = &record.ended else { continue };
            let step = world.step(who, record.step);
            let verdict = match ending {
                Ending::Right if step.is_collective() => history.was_complete(world, who, record, *at),
                Ending::Right | Ending::GivenUp => Ok(()),
                Ending::Wrong(wrong) => Err(wrong.clone()),
                Ending::Failed(error) => history.justifies(world, member, record, *at, error),
            };
            verdict.map_err(|wrong| format!("{who} at {at}, {step:?}: {wrong}: {record:?}"))?;
        }
    }
    if world.scenario.completion.continues {
        crate::consensus::holds(world)?;
        world.have_joined_as_told()?;
        world.all_have_begun()?;
        crate::masters::are_agreed(sim)?;
    }
    history.mismatches_were_told(world)?;
    history.leavers_have_done_their_part(world)?;
    bounded(world)?;
    quiet(sim)
}

/// Every call of a living process is over by its deadline, and was cancelled only if there was
/// something to wait for.
fn ended(world: &Cluster, member: &Member, record: &Record) -> Result<(), String> {
    match &record.ended {
        None if member.lost.is_none() => Err("is not over".to_owned()),
        Some((at, _)) if *at > record.until => Err("ended after its deadline".to_owned()),
        Some((_, Ending::GivenUp)) => {
            let may = record.until.since(record.at) < LONG
                || member.lost.is_some()
                || some_call_waits_forever(world);
            if may { Ok(()) } else { Err("waits for nothing".to_owned()) }
        }
        _ => Ok(()),
    }
}

/// Whether a process has stopped calling, or waits for something that never happens; others wait
/// for it.
pub(crate) fn some_call_waits_forever(world: &Cluster) -> bool {
    *world.some_call_waits_forever.get_or_init(|| find_call_that_waits_forever(world))
}

fn find_call_that_waits_forever(world: &Cluster) -> bool {
    let in_vain = |member: &Member, record: &Record| {
        let given_up = matches!(record.ended, Some((_, Ending::GivenUp)));
        given_up
            && match world.session.steps[record.step as usize] {
                // The other end of a message that was cancelled.
                Step::P2p { .. } if record.is_in_doubt => world.peer_comes_later(member, record),
                Step::P2p { .. } => record.until.since(record.at) < LONG,
                Step::Get { wait: true, .. } => world.may_be_missing(member, record),
                _ => false,
            }
    };
    !world.scenario.stalls.is_empty()
        || world.members.iter().any(|member| member.calls.values().any(|record| in_vain(member, record)))
}

/// Which calls were made by which member, and when.
struct History {
    /// For each collective step, the calls that were made.
    called: BTreeMap<u32, BTreeMap<Rank, (Instant, CallSignature)>>,
    /// The collective steps in order.
    collective: Vec<u32>,
    /// When all members had called.
    complete: BTreeMap<u32, Instant>,
    /// The steps with calls that do not match.
    differ: BTreeSet<u32>,
    /// When all had called that are needed by a step, of each version of the session, without these
    /// members; `None` if some have not.
    all_called: RefCell<BTreeMap<CallOfMost, Option<Instant>>>,
}

/// The step of a call, the version of the session, and who is missing.
type CallOfMost = (u32, usize, Vec<Rank>);

impl History {
    fn new(world: &Cluster) -> Self {
        let steps = (0..).zip(&world.session.steps);
        let collective: Vec<u32> =
            steps.filter(|(_, step)| step.is_collective()).map(|(step, _)| step).collect();
        let mut called: BTreeMap<u32, BTreeMap<Rank, (Instant, CallSignature)>> = BTreeMap::new();
        for member in &world.members {
            let Some(Address::Rank(me)) = member.process.address else { continue };
            // A collective step is one call.
            for record in member.calls.values().filter(|record| record.nth == 0) {
                let step = world.step(Address::Rank(me), record.step);
                if !step.is_collective()
                    || world.scenario.bad_roots.contains(&(Address::Rank(me), record.step))
                {
                    continue;
                }
                if let Some(what) = step
                    .calls(record.step, world.session_of(record.version, record.step), Address::Rank(me))
                    .first()
                    && let Some(what) = what_is_called(what, me)
                {
                    // A process that takes the place of another may make the same call.
                    called.entry(record.step).or_default().entry(me).or_insert((record.at, what));
                }
            }
        }
        let all = called.iter().filter(|(_, called)| called.len() == world.session.present.len());
        let last =
            |called: &BTreeMap<Rank, (Instant, CallSignature)>| called.values().map(|(at, _)| *at).max();
        let complete = all.filter_map(|(step, called)| Some((*step, last(called)?))).collect();
        let differ = called
            .iter()
            .filter(|(_, called)| are_mixed(&called.values().map(|(_, what)| what).collect::<Vec<_>>()))
            .map(|(step, _)| *step)
            .collect();
        Self { called, collective, complete, differ, all_called: RefCell::default() }
    }

    fn at(&self, step: u32, who: Rank) -> Option<&(Instant, CallSignature)> {
        self.called.get(&step)?.get(&who)
    }

    /// Whether a step may have succeeded: the members that the result needs had made matching calls.
    fn was_complete(
        &self,
        world: &Cluster,
        who: Address,
        record: &Record,
        at: Instant,
    ) -> Result<(), String> {
        let step = record.step;
        if world.scenario.completion.strict && !world.scenario.completion.continues {
            if self.complete.get(&step).is_none_or(|complete| *complete > at) {
                return Err("is over before all members have called".to_owned());
            }
            let differ = self.differ.contains(&step);
            return if differ { Err("is over although calls differ".to_owned()) } else { Ok(()) };
        }
        let Address::Rank(me) = who else { return Ok(()) };
        let Some((_, own)) = self.at(step, me) else { return Err("was not made".to_owned()) };
        if self.all_had_called(world, record, step).is_some_and(|called| called <= at) {
            return Ok(());
        }
        let needed = needed(&world.sessions[record.version], world.step(who, step), me);
        for other in needed.into_iter().filter(|rank| !record.missing.contains(rank)) {
            match self.at(step, other) {
                Some((called, _)) if *called > at => {
                    return Err(format!("is over before {other} has called"));
                }
                Some((_, what)) if differ(own, what) => {
                    return Err(format!("is over although {other} has called something else"));
                }
                Some(_) => {}
                None => return Err(format!("is over, and {other} has not called")),
            }
        }
        Ok(())
    }

    /// When all members of a session had called but those that are missing in a result, if all calls match.
    fn all_had_called(&self, world: &Cluster, record: &Record, step: u32) -> Option<Instant> {
        let called = self.called.get(&step).filter(|_| !self.differ.contains(&step))?;
        let latest = || {
            let missing: BTreeSet<Rank> = record.missing.iter().copied().collect();
            let present = world.sessions[record.version].present.iter();
            let others = present.filter(|rank| !missing.contains(rank));
            others
                .map(|rank| called.get(rank).map(|(at, _)| *at))
                .try_fold(Instant::ZERO, |latest, at| Some(latest.max(at?)))
        };
        let key = (step, record.version, record.missing.clone());
        *self.all_called.borrow_mut().entry(key).or_insert_with(latest)
    }

    /// Whether an error has a true reason.
    fn justifies(
        &self,
        world: &Cluster,
        member: &Member,
        record: &Record,
        at: Instant,
        error: &CommError,
    ) -> Result<(), String> {
        let may = match error {
            CommError::PeerLost { ranks, why } => {
                let lost = |rank| world.lost(rank).is_some_and(|lost| lost <= at);
                !ranks.is_empty()
                    && ranks.iter().all(lost)
                    && reasons::are_true(world, ranks, why, at, record.step)
            }
            CommError::FrontEndLost => world.members[0].lost.is_some_and(|lost| lost <= at),
            CommError::Ended => member.lost.is_some_and(|lost| lost <= at),
            CommError::Mismatch { nth, one, other } => {
                let step = self.collective.get(*nth as usize).copied().unwrap_or(u32::MAX);
                let said = |(rank, what): &(Rank, CallSignature)| {
                    self.at(step, *rank).is_some_and(|(called, really)| *called <= at && really == what)
                };
                may_report(world, step, record)
                    && one.0 != other.0
                    && said(one)
                    && said(other)
                    && differ(&one.1, &other.1)
            }
            CommError::Cancelled { nth, by } => {
                let step = self.collective.get(*nth as usize).copied().unwrap_or(u32::MAX);
                may_report(world, step, record) && has_given_up(world, Address::Rank(*by), step, at)
            }
            CommError::Failed { nth, by: Some(by), .. } => {
                let step = self.collective.get(*nth as usize).copied().unwrap_or(u32::MAX);
                let (who, bad_roots) = (Address::Rank(*by), &world.scenario.bad_roots);
                let is_bad = bad_roots.contains(&(who, step));
                may_report(world, step, record) && is_bad && has_given_up(world, who, step, at)
            }
            CommError::NoSuchPeer(_) => {
                let who = member.process.address;
                who.is_some_and(|who| world.scenario.bad_roots.contains(&(who, record.step)))
            }
            CommError::Withdrawn { by } => has_given_up(world, *by, record.step, at),
            _ => false,
        };
        if may { Ok(()) } else { Err("there was no reason for this error".to_owned()) }
    }

    /// A process without children that ends after a collective call was over for it is not missing
    /// in that call.
    fn leavers_have_done_their_part(&self, world: &Cluster) -> Result<(), String> {
        let lost = || world.members.iter().filter(|member| member.lost.is_some());
        // With local completion, a member that is killed may not have sent what it has handed over.
        let Completion { strict, continues, .. } = world.scenario.completion;
        let are_killed = !strict && !world.scenario.kills.is_empty();
        // Where calls go on, `consensus.rs` says what holds.
        if are_killed || continues || lost().any(|member| !member.process.links.is_empty()) {
            return Ok(());
        }
        for member in world.members.iter().filter(|member| member.lost.is_none()) {
            for record in member.calls.values() {
                let Some((_, Ending::Failed(CommError::PeerLost { .. }))) = &record.ended else { continue };
                let step = &world.session.steps[record.step as usize];
                let had_done = |other: &Member| {
                    let done = |it: &&Record| it.step == record.step;
                    other.calls.values().filter(done).all(|it| matches!(it.ended, Some((_, Ending::Right))))
                        && other.next > record.step
                };
                if (step.is_collective() || matches!(step, Step::P2p { .. })) && lost().all(had_done) {
                    let who = &member.process;
                    return Err(format!(
                        "{who} misses a member that had done its part, {step:?}: {record:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The data of a collective call on their way over a link never exceed the windows.
fn bounded(world: &Cluster) -> Result<(), String> {
    const WINDOW: usize = (2 << 20) + (256 << 10);
    let windowed = |step: &Step| {
        let load = matches!(step, Step::Ring { .. } | Step::Fence | Step::Put { .. });
        step.is_collective() && !load
    };
    // A member that is over one call begins another while others still forward the first.
    let most = (world.session.flight + 1) * WINDOW;
    if world.session.steps.iter().all(windowed) && world.traffic.most > most {
        return Err(format!("{} bytes were on their way over a link, of {most}", world.traffic.most));
    }
    Ok(())
}

/// Nothing is left in the groups of living processes. With local completion, some calls are complete
/// at members although others never make them; data for these wait.
fn quiet(sim: &Sim<Cluster>) -> Result<(), String> {
    let scenario = &sim.world.scenario;
    if !scenario.completion.strict && !scenario.stalls.is_empty() {
        return Ok(());
    }
    for (id, member) in (0..).zip(&sim.world.members).filter(|(_, member)| member.lost.is_none()) {
        if sim.agenda.machine(Id(id)).is_some_and(|group| !group.is_idle()) {
            return Err(format!("something is left at {}", member.process));
        }
    }
    Ok(())
}

/// Whether a call may fail because of what happened at a step: the same, or, if calls complete
/// locally, one before it.
fn may_report(world: &Cluster, step: u32, record: &Record) -> bool {
    step == record.step || !world.scenario.completion.strict && step < record.step
}

/// The members without whose calls a step cannot be complete for a member.
fn needed(session: &Session, step: &Step, me: Rank) -> Vec<Rank> {
    let all = || session.present.clone();
    match step {
        Step::Broadcast { root, .. } | Step::Scatter { root, .. } => vec![*root],
        Step::Gather { root, .. } | Step::Reduce { to: Some(root), .. } if *root != me => Vec::new(),
        Step::Scan { .. } => all().into_iter().filter(|rank| *rank <= me).collect(),
        _ => all(),
    }
}

/// Whether a process had cancelled a call of a step, or made an invalid one.
fn has_given_up(world: &Cluster, who: Address, step: u32, at: Instant) -> bool {
    let bad_roots = world.scenario.bad_roots.contains(&(who, step));
    let mut processes = world.members.iter().filter(|member| member.process.address == Some(who));
    let given_up = |(when, ending): &(Instant, Ending)| *ending == Ending::GivenUp && *when <= at;
    let call = |record: &Record| {
        let made = bad_roots && record.at <= at;
        record.step == step && (made || record.ended.as_ref().is_some_and(given_up))
    };
    processes.any(|process| process.calls.values().any(call))
}

/// Whether some of these calls of one step are different ones.
fn are_mixed(calls: &[&CallSignature]) -> bool {
    // An unknown length matches every length.
    let known = calls.iter().find(|what| what.length != Length::Unknown).or_else(|| calls.first());
    known.is_some_and(|known| calls.iter().any(|what| differ(known, what)))
}

fn differ(one: &CallSignature, other: &CallSignature) -> bool {
    let unknown = [one.length, other.length].contains(&Length::Unknown);
    one.kind != other.kind || one.root != other.root || !unknown && one.length != other.length
}

/// The signature of a member's call.
fn what_is_called(call: &Call, me: Rank) -> Option<CallSignature> {
    let equal = |length: usize| Length::Equal(length as u64);
    let known = |length: Option<u64>| length.map_or(Length::Unknown, Length::Equal);
    let (kind, root, length) = match call {
        Call::Barrier => (Kind::Barrier, None, Length::Unknown),
        Call::Fence => (Kind::Fence, None, Length::Unknown),
        Call::Ring { .. } => (Kind::Ring, None, Length::Unknown),
        Call::Broadcast { root, data: Some(data), .. } if *root == me => {
            (Kind::Broadcast, Some(*root), equal(data.len()))
        }
        Call::Broadcast { root, length, .. } => (Kind::Broadcast, Some(*root), known(*length)),
        Call::Scatter { root, length, .. } => (Kind::Scatter, Some(*root), known(*length)),
        Call::Gather { root, data, equal: true } => (Kind::Gather, Some(*root), equal(data.len())),
        Call::Gather { root, .. } => (Kind::Gather, Some(*root), Length::Varies),
        Call::AllGather { data, equal: true } => (Kind::AllGather, None, equal(data.len())),
        Call::AllGather { .. } => (Kind::AllGather, None, Length::Varies),
        Call::AllToAll { parts, equal: true } => (Kind::AllToAll, None, equal(parts.first()?.len())),
        Call::AllToAll { .. } => (Kind::AllToAll, None, Length::Varies),
        Call::Reduce { to, data, reducer: Reducer::Elements(op, element) } => {
            (Kind::Reduce(*op, *element), *to, equal(data.len()))
        }
        Call::Reduce { to, .. } => (Kind::ReduceCustom, *to, Length::Unknown),
        Call::Scan { inclusive, data, reducer: Reducer::Elements(op, element) } => {
            let kind = if *inclusive { Kind::Scan(*op, *element) } else { Kind::ExScan(*op, *element) };
            (kind, None, equal(data.len()))
        }
        Call::Scan { inclusive: true, .. } => (Kind::ScanCustom, None, Length::Unknown),
        Call::Scan { .. } => (Kind::ExScanCustom, None, Length::Unknown),
        Call::Abort(_) | Call::Send { .. } | Call::Receive { .. } | Call::Put { .. } | Call::Get { .. } => {
            return None;
        }
    };
    Some(CallSignature { kind, root, length })
}
