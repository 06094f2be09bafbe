//! Losses after which collective calls [go on](crate::Completion::continues) without the lost members.
//!
//! A loss ends no call. All processes halt, say how far they have come, and go on by a plan of the top:
//!
//! ```text
//!             at the top: members are lost                  all branches have said
//!   (calls) ------------------------------------> Halted -----------------------------> (calls)
//!      |                                            ^ |       at the top: by its plan
//!      |      Halt, from above; passed on           | |
//!      +--------------------------------------------+ | Halted goes up; Resume, from above, goes down
//!                                                     +----------------------------------> (calls)
//! ```
//!
//! | event | where | what follows |
//! |---|---|---|
//! | members are lost | at the top, not halted | a new round: `Halt` to all branches |
//! | | at the top, halted | they are part of the plan; after it comes another round if they are not |
//! | a branch is lost | halted | its report is not waited for |
//! | a frame of a call | halted | dropped: it belongs to the time before |
//! | the member makes a call | halted | the call is kept, and begins with the plan |
//! | the member cancels a call | halted | the call is aborted, as always |
//! | a member that has reported a result is lost | at the top | the round begins again |
//!
//! The plan says from which call on the lost members are missing, and which calls are *settled*: a member
//! that is not lost has the result, so all get it, as if nothing had been lost since:
//!
//! | the call gives | because | so a member |
//! |---|---|---|
//! | all the same data | | gets them from one that has them |
//! | data to the root | the root has them | is done with its part |
//! | each its own data, or none | it completes when all have theirs | has its result |
//! | each its own, in messages from above | the top has decided them | gets the message again |
//!
//! Every other call begins anew among those that are left. A member therefore keeps what it has given to a
//! call, and the result if others may need it, until all members have completed the call. Each process
//! tells its parent, in `Completed`, which calls all members below have completed, whenever these are half
//! of the lead more; the top tells all. A process that keeps much, or whose member is about to leave, wants
//! to hear of certain calls as soon as all have completed these: `Completed` tells that as well, upwards
//! and then to all. Members that leave in order, and wait until then, are missing in no call that they have
//! completed. Of calls with different data for each member (a scatter, an exchange, a scan) the
//! data are complete at all members before one of them has its result.
//!
//! A report may be that of a member that is lost since, which had completed less than all others. So calls
//! may begin anew that all others have completed: they are over as soon as `Completed` says so, and what
//! still arrives of them is dropped.
//!
//! Frames need no number of the round: a process sends none between `Halt` and `Resume`, and frames of a
//! link stay in order. A plan reaches every process that is not lost, since all of them have the same
//! tree as before but for what has been cut off. The loss of a parent is the end of a process, unless
//! another process adopts it, see [`orphans`](super::orphans).

mod completed;
mod plan;

use std::collections::BTreeMap;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;

use self::plan::settlement;
pub(crate) use self::plan::{
    Arrived, Missing, Plan, Report, SettledCall, Settlement, encoded_outcome, replayed_outcome,
};
use super::arguments::Contribution;
use super::joining::Welcome;
use super::link_map::LinkMap;
use super::view::GroupView;
use crate::contract::{Completion, Outcome};
use crate::message::CallSignature;

/// A call of this member that some members may not have completed.
#[derive(Debug)]
pub(crate) struct KeptCall {
    pub(crate) called: CallSignature,
    pub(crate) contribution: Contribution,
    /// The result that others may need, and the round after which the call has begun.
    result: Option<(Outcome, u64)>,
    bytes: u64,
}

/// The message of a call that has gone down to each branch, and the member by whose call it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Repeated {
    pub(crate) by: (Rank, CallSignature),
    pub(crate) messages: BTreeMap<LinkId, Bytes>,
}

/// What a process waits for while calls are halted.
#[derive(Debug)]
struct Halt {
    awaited: LinkMap<()>,
    /// What members here and below have said.
    report: Report,
    /// The members that join behind each branch.
    below: Vec<(LinkId, Vec<Arrived>)>,
    is_told: bool,
}

impl Halt {
    /// What has arrived behind a link that is closed now is reported once more by those that come back.
    fn withdraw(&mut self, link: LinkId) {
        if !self.is_told {
            self.below.retain(|(other, _)| *other != link);
        }
    }
}

/// What a process that is halted does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Waits,
    /// All below have halted: the parent is told.
    Reports(Report),
    /// At the top: calls go on.
    Resumes(Plan),
    /// At the top: a member whose result was relied on is lost.
    HaltsAgain,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Survival {
    /// The round of the last halt.
    pub(crate) round: u64,
    /// The number of the last `Halt` that was sent to branches, and of the last from the parent.
    pub(crate) halts: u64,
    pub(crate) answers: u64,
    halt: Option<Halt>,
    /// Whether the calls of this member are beginning anew.
    pub(crate) begins_anew: bool,
    pub(crate) kept: BTreeMap<u64, KeptCall>,
    pub(crate) repeated: BTreeMap<u64, Repeated>,
    settled: BTreeMap<u64, SettledCall>,
    /// The members that were missing after each round.
    missing: BTreeMap<u64, Missing>,
    /// What each branch has told of completed calls.
    completed_below: LinkMap<u64>,
    /// The last number that was told, and the last that has come from above.
    told: u64,
    completed: u64,
    /// A process wants to hear when all have completed the calls before this number, and the last such
    /// number that was told.
    wanted: u64,
    wanted_told: u64,
    /// The number of bytes that are kept, and how many are much.
    bytes: u64,
    much: u64,
    /// At the top: calls have to halt in this round, or a later one.
    pub(crate) wanted_round: u64,
    /// The members that were known to be lost when calls halted: all others have heard of these before they
    /// have halted, and have sent them nothing since.
    lost_before: Ranks,
    /// The round of the last plan.
    pub(crate) planned: u64,
    /// What was reported of each process that arrives here. Later reports may be without some members.
    reported: BTreeMap<LinkId, Vec<Arrived>>,
    /// The changes of the tree that were reported in the last halt.
    pub(crate) changes: TreeChanges,
    confirms: bool,
    replaces_master: bool,
}

/// Changes of the tree here that take effect with a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeChanges {
    /// The links to processes that become branches.
    pub(crate) joined: Vec<LinkId>,
    /// Severed links from behind which all members are back or lost.
    pub(crate) gone: Vec<LinkId>,
    /// The members that join behind each branch.
    pub(crate) admitted: Vec<(LinkId, Vec<Arrived>)>,
    /// The links to new processes below this one.
    pub(crate) arrived: Vec<LinkId>,
    /// What was reported of each, closed links included.
    pub(crate) reported: BTreeMap<LinkId, Vec<Arrived>>,
}

impl Survival {
    pub(crate) fn new(completion: &Completion, view: &GroupView) -> Self {
        let completed_below = view.live_branches().map(|link| (link, 0)).collect();
        let (much, confirms) = (completion.lead_bytes / 4, completion.reconnects);
        let replaces_master = completion.replaces_master;
        Self { completed_below, much, confirms, replaces_master, ..Self::default() }
    }

    pub(crate) const fn is_halted(&self) -> bool {
        self.halt.is_some()
    }

    /// This member has made a call.
    pub(crate) fn keep(&mut self, nth: u64, called: CallSignature, contribution: &Contribution) {
        let (contribution, bytes) = (contribution.clone(), contribution.len());
        self.bytes += bytes;
        self.kept.insert(nth, KeptCall { called, contribution, result: None, bytes });
    }

    /// This member has the result of a call.
    pub(crate) fn has_result(&mut self, nth: u64, me: Rank, outcome: &Outcome) {
        let round = self.round_of(nth);
        if let Some(kept) = self.kept.get_mut(&nth)
            && settlement(&kept.called, me, self.confirms).is_some()
        {
            let more = outcome.len();
            kept.bytes += more;
            self.bytes += more;
            kept.result = Some((outcome.clone(), round));
        }
    }

    /// A call of this member has failed: it does not begin anew.
    pub(crate) fn fails(&mut self, nth: u64) {
        if let Some(kept) = self.kept.remove(&nth) {
            self.bytes -= kept.bytes;
        }
    }

    /// The round after which a call that goes on here has begun.
    fn round_of(&self, nth: u64) -> u64 {
        self.settled.get(&nth).map_or(self.round, |settled| settled.round)
    }

    /// The lost members that are missing in a call that this member completes.
    pub(crate) fn missing_in(&self, nth: u64) -> Ranks {
        let before = self.missing.range(..=self.round_of(nth)).next_back();
        before.map_or_else(Ranks::new, |(_, missing)| missing.in_call(nth))
    }

    /// How a call is settled that not all members have completed.
    pub(crate) fn settled(&self, nth: u64) -> Option<&SettledCall> {
        self.settled.get(&nth)
    }

    /// The result that this member has of a settled call.
    pub(crate) fn result(&self, nth: u64) -> Option<&Outcome> {
        self.kept.get(&nth)?.result.as_ref().map(|(outcome, _)| outcome)
    }

    /// Calls halt. The member, if there is one, has completed the calls before this number.
    pub(crate) fn halt(&mut self, round: u64, own: Option<(Rank, u64)>, view: &GroupView) {
        let settled = |(nth, kept): (&u64, &KeptCall)| {
            let (_, round) = kept.result.as_ref()?;
            let (by, _) = own?;
            Some(SettledCall {
                nth: *nth,
                by,
                how: settlement(&kept.called, by, self.confirms)?,
                round: *round,
            })
        };
        let report = Report {
            completed: own.map(|(_, completed)| completed),
            settled: self.kept.iter().filter_map(settled).collect(),
            ..Report::default()
        };
        // What was reported in this round before, to another parent, is not in its plan.
        let below = self.changes.admitted.iter_mut().map(|(_, said)| said);
        self.reported.values_mut().chain(below).for_each(|said| Arrived::withdraw_since(round, said));
        self.round = round;
        self.halts += 1;
        self.lost_before.clone_from(&view.lost);
        let awaited = view.awaited_links().map(|link| (link, ())).collect();
        self.halt = Some(Halt { awaited, report, below: Vec::new(), is_told: false });
    }

    /// A branch has halted, as the `Halt` of this number has told it to.
    pub(crate) fn has_halted(&mut self, link: LinkId, nth: u64, mut report: Report) {
        if let Some(halt) = self.halt.as_mut().filter(|_| nth == self.halts)
            && halt.awaited.remove(link).is_some()
        {
            if !report.joins.is_empty() {
                halt.below.push((link, std::mem::take(&mut report.joins)));
            }
            halt.report.join(report);
        }
    }

    /// A branch is lost.
    pub(crate) fn cut(&mut self, link: LinkId) {
        self.completed_below.remove(link);
        if let Some(halt) = &mut self.halt {
            halt.awaited.remove(link);
            halt.withdraw(link);
        }
    }

    /// A process is to halt before calls go on, or those behind a severed link are. False if that takes
    /// another round.
    pub(crate) fn awaits(&mut self, link: LinkId) -> bool {
        let halt = self.halt.as_mut().filter(|halt| !halt.is_told);
        halt.is_some_and(|halt| {
            halt.awaited.insert(link, ());
            halt.withdraw(link);
            true
        })
    }

    /// Whether what joins now is in the report of this halt.
    pub(crate) const fn can_report(&self) -> bool {
        matches!(&self.halt, Some(halt) if !halt.is_told)
    }

    /// The members here and below that were reported since the last plan, one of which may have them.
    pub(crate) fn reported(&self) -> Ranks {
        let below = self.changes.admitted.iter().map(|(_, said)| said);
        let all = self.reported.values().chain(below).flatten();
        all.fold(Ranks::new(), |mut all, arrived| {
            all.add_all(&arrived.ranks);
            all
        })
    }

    /// What follows from what the branches have said. All calls that are known here are before this number.
    pub(crate) fn next(&mut self, called: u64, view: &GroupView) -> Next {
        let Some(halt) = self.halt.as_mut().filter(|halt| !halt.is_told) else { return Next::Waits };
        halt.awaited.retain(|link, ()| view.severed.get(&link).is_none_or(|ranks| !ranks.is_empty()));
        if !halt.awaited.is_empty() {
            return Next::Waits;
        }
        halt.is_told = true;
        let mut report = std::mem::take(&mut halt.report);
        report.moved.extend(view.joining.iter().map(|adoption| adoption.ranks.clone()));
        report.called = report.called.max(called);
        self.reported.retain(|link, _| view.is_arriving(*link));
        for arrival in view.arrived() {
            let (said, ranks) = (self.reported.entry(arrival.link).or_default(), arrival.left());
            match said.last_mut().filter(|last| last.ranks == ranks) {
                Some(last) => last.rounds.1 = self.round,
                None => said.push(Arrived { rounds: (self.round, self.round), ranks: ranks.clone() }),
            }
            let first = said.first().map_or(self.round, |first| first.rounds.0);
            report.joins.push(Arrived { rounds: (first, self.round), ranks });
        }
        let mut admitted = std::mem::take(&mut halt.below);
        admitted.iter().for_each(|(_, below)| report.joins.extend_from_slice(below));
        // The plan of an earlier halt may have named these, and was missed.
        admitted.extend(self.changes.admitted.extract_if(.., |(link, _)| view.cut.contains(link)));
        self.changes = TreeChanges {
            admitted,
            arrived: view.arrived().map(|arrival| arrival.link).collect(),
            reported: self.reported.clone(),
            joined: view.joining.iter().map(|adoption| adoption.link).collect(),
            gone: view.severed.keys().copied().collect(), // none has members left
        };
        if !view.topology.top {
            return Next::Reports(report);
        }
        if report.settled.iter().any(|call| view.lost.contains(call.by)) {
            return Next::HaltsAgain;
        }
        Next::Resumes(self.plan(report, view))
    }

    /// This process begins, as its parent says.
    pub(crate) fn begin_at(&mut self, welcome: &Welcome, view: &GroupView) {
        let Welcome { round, first, missing, before, settled, .. } = welcome;
        // Earlier calls are those of others, which need nothing of it.
        (self.round, self.told, self.completed) = (*round, *first, *first);
        self.completed_below = view.branches_with_members().map(|branch| (branch.link, *first)).collect();
        self.missing = before.iter().cloned().collect();
        self.missing.insert(*round, missing.clone());
        self.settled = settled.iter().map(|call| (call.nth, call.clone())).collect();
    }

    /// Calls go on by this plan. Returns the calls of this member that not all have completed.
    pub(crate) fn resume(&mut self, plan: &Plan, view: &GroupView) -> Vec<u64> {
        self.halt = None;
        self.planned = self.round;
        self.completed_below.retain(|link, _| view.has_members(link));
        self.missing = plan.before.iter().cloned().collect();
        let missing = Missing { ranks: plan.missing.clone(), joins: plan.joins.clone() };
        self.missing.insert(self.round, missing);
        // What is new has no part in earlier calls.
        for branch in view.branches_with_members() {
            let is_left = !view.cut.contains(&branch.link) || view.severed.contains_key(&branch.link);
            if self.completed_below.get(branch.link).is_none() && is_left {
                let first = plan.joins.first_of(&branch.ranks).unwrap_or(plan.first);
                self.completed_below.insert(branch.link, first);
            }
        }
        self.forget_before(plan.first);
        self.settled = plan.settled.iter().map(|call| (call.nth, call.clone())).collect();
        self.kept.keys().copied().collect()
    }

    /// The process has another parent, or branches are new: nothing was told there. Returns what is to be told
    /// to these branches of completed calls, and of those that are wanted.
    pub(crate) fn joins(
        &mut self,
        branches: &[LinkId],
        is_orphan: bool,
        first: u64,
        view: &GroupView,
    ) -> (u64, u64) {
        for branch in view.branches_with_members().filter(|branch| branches.contains(&branch.link)) {
            // A new process that was an orphan tells nothing of calls before its first.
            let are_new = view.joins().ranks().intersection(&branch.ranks) == branch.ranks;
            let begins = view.joins().first_of(&branch.ranks).filter(|_| are_new);
            self.completed_below.insert(branch.link, begins.unwrap_or(first).max(first));
        }
        if is_orphan {
            (self.told, self.wanted_told) = (first, 0);
        }
        (self.completed, self.wanted)
    }

    /// Keeps the messages of a call that go down.
    pub(crate) fn keep_messages(
        &mut self,
        nth: u64,
        by: (Rank, CallSignature),
        messages: &BTreeMap<LinkId, Bytes>,
    ) {
        if nth >= self.completed {
            self.repeated.insert(nth, Repeated { by, messages: messages.clone() });
        }
    }
}
