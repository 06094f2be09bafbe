//! What processes say of calls that have halted, and how these go on.

use std::collections::BTreeMap;

use bytes::Bytes;
use libi_core::ids::Rank;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::Survival;
use crate::contract::Outcome;
use crate::group::GroupView;
use crate::group::joining::Joins;
use crate::group::masters::Masters;
use crate::group::operation::{Operation, Receivers, Transport};
use crate::message::{CallSignature, Kind};

/// How a member gets the result of a call that another member has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Settlement {
    /// It has all data.
    InHand,
    /// The member that has the result sends it to all.
    Replay,
    /// The message from above is repeated.
    Repeat,
}

/// A call that a member has completed, with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SettledCall {
    pub(crate) nth: u64,
    /// A member that has the result.
    pub(crate) by: Rank,
    pub(crate) how: Settlement,
    /// The round after which the call has begun.
    pub(crate) round: u64,
}

/// How far the members here and below have come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// All of them have completed the calls before this number; `None` if there are none.
    pub(crate) completed: Option<u64>,
    /// Calls that one of them has completed with its result, in ascending order.
    pub(crate) settled: Vec<SettledCall>,
    /// The members behind each link that is new since the last plan.
    pub(crate) moved: Vec<Ranks>,
    /// One of them has made all calls before this number, or knows of them.
    pub(crate) called: u64,
    /// New processes that have arrived, with lost ranks or with those by which the session grows.
    pub(crate) joins: Vec<Arrived>,
}

/// The members of new processes that have arrived together, and join as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Arrived {
    /// The first round in which they were reported, as far as their parent knows, and the last. What has
    /// joined before or after is another process.
    pub(crate) rounds: (u64, u64),
    pub(crate) ranks: Ranks,
}

impl Arrived {
    /// What was said since a round, that included, counts no more.
    pub(super) fn withdraw_since(round: u64, said: &mut Vec<Self>) {
        said.retain(|arrived| arrived.rounds.0 < round);
        said.iter_mut().for_each(|arrived| arrived.rounds.1 = arrived.rounds.1.min(round.saturating_sub(1)));
    }
}

/// The members that are missing after a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    pub(crate) ranks: Ranks,
    /// Those that are missing only in calls before their first one.
    pub(crate) joins: Joins,
}

impl Missing {
    /// Those that are missing in a call.
    pub(crate) fn in_call(&self, nth: u64) -> Ranks {
        let mut all = self.ranks.clone();
        all.add_all(&self.joins.after(nth));
        self.joins.clipped(all, nth)
    }
}

/// How calls go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The lost members that are missing from now on.
    pub(crate) missing: Ranks,
    /// All members that are left have completed the calls before this number.
    pub(crate) first: u64,
    /// Later calls that are settled, in ascending order.
    pub(crate) settled: Vec<SettledCall>,
    /// The members that were missing after earlier rounds, as far as settled calls have begun then.
    pub(crate) before: Vec<(u64, Missing)>,
    /// The members behind each link that is new. What was sent to and from them may be lost.
    pub(crate) moved: Vec<Ranks>,
    /// The members that have joined, with their first calls, as long as not all have completed all earlier
    /// calls.
    pub(crate) joins: Joins,
    /// The number of ranks of the session from now on, and those that are absent.
    pub(crate) size: u32,
    pub(crate) absent: Ranks,
    /// Which member is the master in calls that are not over.
    pub(crate) masters: Masters,
}

impl Report {
    /// Adds what others have said.
    pub(super) fn join(&mut self, mut other: Self) {
        self.moved.append(&mut other.moved);
        self.called = self.called.max(other.called);
        self.joins.append(&mut other.joins);
        self.completed = [self.completed, other.completed].into_iter().flatten().min();
        let mut all: BTreeMap<u64, SettledCall> = BTreeMap::new();
        for call in std::mem::take(&mut self.settled).into_iter().chain(other.settled) {
            all.entry(call.nth).or_insert(call);
        }
        self.settled = all.into_values().collect();
    }
}

/// At the top.
impl Survival {
    /// How calls go on, after all have said this.
    pub(super) fn plan(&mut self, report: Report, view: &GroupView) -> Plan {
        let mut joins = view.joins().clone();
        joins.remove_all(&view.lost);
        let mut first = report.completed.unwrap_or_default().max(self.completed);
        // Processes that have missed a plan have completed nothing since.
        first = joins.first_of(&joins.of_all(&report.joins)).unwrap_or(first).min(first);
        let (size, absent) = view.next_size();
        let grown = view.next_ranks();
        let new = self.admissible(&report.joins, &joins, &grown, view);
        let mut missing = view.lost.clone();
        missing.add_all(&grown);
        missing.remove_all(&new);
        let called = report.called.min(u64::MAX / 2).max(first);
        let grows = size > view.topology.size;
        let begins = (called + u64::from(grows)).max(joins.earliest());
        if grows {
            joins.grow(begins, view.topology.size);
        }
        joins.add(self.round, begins, new);
        let settled: Vec<_> = report.settled.into_iter().filter(|call| call.nth >= first).collect();
        let before = self.missing_since(&settled);
        let absent = absent.clone();
        let mut masters = view.masters.clone();
        if self.replaces_master && view.lost.contains(masters.last()) {
            let mut others = missing.clone();
            others.add_all(&absent);
            masters.replace(called, size, &others, &joins.ranks());
        }
        let moved = report.moved;
        Plan { missing, first, settled, before, moved, joins, size, absent, masters }
    }

    /// Of the members that were reported, those that join with the plan. The others are reported once more,
    /// in a round that follows.
    fn admissible(&mut self, reported: &[Arrived], joins: &Joins, grown: &Ranks, view: &GroupView) -> Ranks {
        let (size, absent) = view.next_size();
        let mut may_join = self.lost_before.clone();
        may_join.add_all(grown);
        let (mut once, mut twice) = (Ranks::new(), Ranks::new());
        for Arrived { ranks, .. } in reported {
            twice.add_all(&once.intersection(ranks));
            once.add_all(ranks);
        }
        // Of two processes with one rank, one was lost after it was reported.
        may_join.remove_all(&twice);
        let (mut new, mut is_left_out) = (Ranks::new(), false);
        for arrived in reported {
            let mut ranks = arrived.ranks.clone();
            ranks.remove_all(&joins.of(arrived));
            // If more ranks were reported, a round follows when the driver tells of them.
            ranks = ranks.intersection(&Ranks::first(size));
            ranks.remove_all(absent);
            let may_all = ranks.intersection(&may_join) == ranks;
            is_left_out |= !may_all;
            if may_all {
                new.add_all(&ranks);
            }
        }
        if is_left_out {
            self.wanted_round = self.round + 1;
            if view.has_grown {
                // Members of several hosts may be behind one link, and join as a whole.
                new = Ranks::new();
            }
        }
        new
    }

    /// The members that were missing after earlier rounds: of these, only those are needed after which a
    /// settled call has begun.
    fn missing_since(&self, settled: &[SettledCall]) -> Vec<(u64, Missing)> {
        let Some(oldest) = settled.iter().map(|call| call.round).min() else { return Vec::new() };
        let oldest = self.missing.range(..=oldest).next_back().map_or(oldest, |(round, _)| *round);
        self.missing.range(oldest..).map(|(round, missing)| (*round, missing.clone())).collect()
    }
}

/// How others get the result of a call that this member has completed, if it has a result.
/// A ring is complete at all members before one has its result, if `confirms`.
pub(super) fn settlement(called: &CallSignature, me: Rank, confirms: bool) -> Option<Settlement> {
    let Operation { receivers, transport, .. } = called.operation();
    match (transport, receivers) {
        (Transport::Messages(..), Receivers::Each) if confirms => Some(Settlement::InHand),
        (Transport::Messages(..), _) => Some(Settlement::Repeat),
        (_, Receivers::All) => Some(Settlement::Replay),
        (_, Receivers::Root) => (called.root == Some(me)).then_some(Settlement::InHand),
        (_, Receivers::Each | Receivers::None) => Some(Settlement::InHand),
    }
}

/// The result of a call that gives all members the same, as it is sent to them.
pub(crate) fn encoded_outcome(outcome: &Outcome) -> Bytes {
    match outcome {
        Outcome::Data(bytes) => bytes.clone(),
        Outcome::Parts(parts) => {
            let lengths: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
            // Serializing a list of numbers into a vector cannot fail.
            let mut bytes = postcard::to_allocvec(&lengths).unwrap_or_default();
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            bytes.into()
        }
        Outcome::Done | Outcome::Ring(_) | Outcome::Found(_) => Bytes::new(),
    }
}

/// The result of a call of this kind that has arrived.
pub(crate) fn replayed_outcome(kind: Kind, mut bytes: Bytes) -> Outcome {
    if kind != Kind::AllGather {
        return Outcome::Data(bytes);
    }
    let Ok((lengths, rest)) = postcard::take_from_bytes::<Vec<u64>>(&bytes) else {
        return Outcome::Parts(Vec::new());
    };
    bytes = bytes.slice_ref(rest);
    let part = |length: u64| bytes.split_to(usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len()));
    Outcome::Parts(lengths.into_iter().map(part).collect())
}
