//! The collective calls of a process: their numbers, which members have called, which calls are
//! over and why. See the [parent module](super).

mod aborts;
mod arrivals;
mod credit;
mod results;
mod resume;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use libi_core::ids::Rank;
use libi_core::ranks::Ranks;

use self::aborts::LostBranch;
use super::GroupView;
use super::arguments::{Contribution, is_for_size, prepare};
use super::broken::{BrokenCalls, Due};
use super::call_state::CallState;
use super::context::CallContext;
use super::eager::EagerLimits;
use super::flow_control::UNWANTED;
use super::joining::Welcome;
use super::link_map::LinkMap;
use super::probe::Waits;
use super::progress::Progress;
use super::survival::Survival;
use crate::contract::{Call, CallId, Completion, Effect, Outcome};
use crate::error::{AbortCause, CommError};
use crate::message::{CallSignature, Length, Message};
use crate::piece::{ALL, Piece};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Collective {
    completion: Completion,
    /// The first call in which this process takes part.
    first: u64,
    /// The number of this member's next call.
    next: u64,
    /// All calls that this process knows of are before this number.
    known_before: u64,
    /// For each branch: the number of the call after the last of which all its members have made a
    /// sign.
    entered: LinkMap<u64>,
    pub(super) open: BTreeMap<u64, Box<CallState>>,
    pub(super) progress: Progress,
    eager: EagerLimits,
    /// Calls that this member may complete, and that were not looked at since.
    freed: Range<u64>,
    /// Calls that this member waits for, and when they are probed.
    pub(super) waits: Waits,
    broken: BrokenCalls,
    /// What follows from losses without which calls go on.
    survival: Survival,
    /// The lost members that are missing in results that are not reported yet.
    missing_in: BTreeMap<u64, Ranks>,
    /// What has arrived from above of the messages of calls that were aborted here, if a decision of
    /// the top takes effect all the same.
    late_messages: BTreeMap<u64, Vec<u8>>,
    /// Branches whose link is closed.
    lost_branches: Vec<LostBranch>,
    /// Lost ranks, and the first call in which they are missing.
    missing: Vec<(u64, Ranks)>,
    /// The calls of this member in their order, with their results. A result is reported only after
    /// those of all earlier calls.
    results: VecDeque<(u64, CallId, Option<CallResult>)>,
}

type CallResult = Result<Outcome, CommError>;

impl Collective {
    /// From the beginning of the session on.
    pub(crate) const fn complete_by(&mut self, completion: Completion) {
        self.completion = completion;
    }

    pub(crate) fn up(&mut self, view: &GroupView) {
        let branches = &view.topology.branches;
        self.entered = branches.iter().map(|branch| (branch.link, 0)).collect();
        self.progress = Progress::new(self.completion, view.links_between_members());
        self.survival = Survival::new(&self.completion, view);
    }

    /// This process is new. Its first call has this number.
    pub(crate) fn begin_at(&mut self, welcome: &Welcome, view: &GroupView) {
        let first = welcome.first;
        (self.first, self.next, self.known_before) = (first, first, first);
        // Fences of earlier calls pass here on their way to all servers of keys.
        let early = if view.topology.local { first } else { 0 };
        self.progress.restart(early, first, view.links_from(first));
        self.survival.begin_at(welcome, view);
    }

    /// The number of this member's next call.
    pub(crate) const fn next_call(&self) -> u64 {
        self.next
    }

    /// Nothing waits here to be sent or forwarded.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.values().all(|state| state.is_idle())
    }

    /// The number of calls that are not over in this process.
    #[cfg(test)]
    pub(crate) fn open_calls(&self) -> usize {
        self.open.len()
    }

    /// This member makes a call.
    pub(crate) fn call(&mut self, id: CallId, call: Call, me: Rank, ctx: &mut CallContext<'_>) {
        let nth = self.next;
        self.next += 1;
        self.known_before = self.known_before.max(self.next);
        self.results.push_back((nth, id, None));
        if let Some(ranks) = self.missing_at(nth) {
            return self.finish(nth, Err(CommError::lost(ranks)), ctx);
        }
        match self.broken.due(nth) {
            Some(Due::Aborted(broken)) => return self.finish(nth, Err(broken.into_error()), ctx),
            Some(Due::Unreported(broken)) => return self.abort(nth, broken, None, ctx),
            None => {}
        }
        let call = match call {
            Call::Abort(None) => return self.begin_abort(nth, AbortCause::Cancelled(me), ctx),
            Call::Abort(Some(why)) => {
                let cause = AbortCause::Failed(Some(me), why.to_string());
                return self.fail(nth, why, cause, ctx);
            }
            call => call,
        };
        let (called, contribution) =
            match prepare(call, me, self.completion.continues, &ctx.view.of_call(nth)) {
                Ok(entered) => entered,
                Err(why) => {
                    // The other members would wait for this one.
                    let cause = match &why {
                        CommError::PeerLost { ranks, .. } => AbortCause::Lost(ranks.clone()),
                        _ => AbortCause::Failed(Some(me), why.to_string()),
                    };
                    return self.fail(nth, why, cause, ctx);
                }
            };
        if self.continues() {
            self.survival.keep(nth, called, &contribution);
        }
        if !self.survival.is_halted() {
            self.enter(nth, (me, called), contribution, ctx);
        }
    }

    /// This member takes part in a call, which may have begun before.
    fn enter(
        &mut self,
        nth: u64,
        by: (Rank, CallSignature),
        contribution: Contribution,
        ctx: &mut CallContext<'_>,
    ) {
        let me = by.0;
        let view = &*ctx.view.of_call(nth);
        let contribution = match self.settled(nth, by, contribution, view) {
            Ok(contribution) => contribution,
            Err(Some(cause)) => return self.begin_abort(nth, cause, ctx),
            Err(None) => return,
        };
        if let Err(why) = is_for_size(&by.1, &contribution, view.topology.size) {
            let cause = AbortCause::Failed(Some(me), why.to_string());
            return self.fail(nth, why, cause, ctx);
        }
        if let Some(cause) = self.register(nth, by, view) {
            return self.begin_abort(nth, cause, ctx);
        }
        let was_completed = self.has_completed(nth);
        let Some(state) = self.open.get_mut(&nth) else { return };
        let given = match &contribution {
            Contribution::One(bytes) => Some(Piece::whole(me.0, ALL, bytes.clone())),
            _ => None,
        };
        if let Some(piece) = &given {
            state.begin_region(piece, ctx.memory, view);
        }
        let contributed = state.contribute(contribution, me, view);
        if let Err(why) =
            contributed.and_then(|()| given.map_or(Ok(()), |piece| state.fill_region(&piece, view)))
        {
            return self.fail_here(nth, why, ctx);
        }
        if was_completed {
            state.was_reported();
        }
        self.advance(nth, ctx);
        self.await_result(nth, ctx);
    }

    /// This member cancels a call. True if it is a collective one.
    pub(crate) fn cancel(&mut self, id: CallId, me: Rank, ctx: &mut CallContext<'_>) -> bool {
        let Some(&(nth, _, ref result)) = self.results.iter().find(|(_, other, _)| *other == id) else {
            return false;
        };
        if result.is_none() {
            self.begin_abort(nth, AbortCause::Cancelled(me), ctx);
        }
        true
    }

    /// Whether a call can still be made or continued in this process.
    fn is_open(&self, nth: u64) -> bool {
        !self.progress.is_over(nth) && self.missing_at(nth).is_none()
    }

    /// Records a member's call. Returns a cause to abort if it does not match the calls of others.
    fn register(&mut self, nth: u64, by: (Rank, CallSignature), view: &GroupView) -> Option<AbortCause> {
        self.known_before = self.known_before.max(nth.saturating_add(1));
        let replayed_by = self.replayed_by(nth);
        let (lost, eager) = (&self.lost_branches, &self.eager);
        let mut lacking = None;
        let state = self.open.entry(nth).or_insert_with(|| {
            let mut state = Box::new(CallState::new(nth, by, &self.completion, replayed_by, eager, view));
            lacking = lost.iter().find(|branch| branch.fails(&mut state));
            state
        });
        if let Some(branch) = lacking {
            return Some(AbortCause::Lost(branch.ranks.clone()));
        }
        if !state.by.1.matches(&by.1) {
            return Some(AbortCause::Mismatch(state.by, by));
        }
        if state.by.1.length == Length::Unknown {
            state.by = by;
        }
        None
    }

    /// Takes the next steps that the state of a call allows, and of calls that have waited for it.
    fn advance(&mut self, nth: u64, ctx: &mut CallContext<'_>) {
        self.advance_one(nth, ctx);
        self.advance_freed(ctx);
    }

    fn advance_freed(&mut self, ctx: &mut CallContext<'_>) {
        while let Some(freed) = self.freed.next() {
            self.advance_one(freed, ctx);
            self.await_result(freed, ctx);
        }
    }

    fn advance_one(&mut self, nth: u64, ctx: &mut CallContext<'_>) {
        if self.survival.is_halted() {
            return;
        }
        // Twice at a member that is alone, if all have to confirm.
        while let Some(state) = self.open.get_mut(&nth)
            && state.enter()
        {
            match ctx.view.collective_parent() {
                Some(parent) => {
                    let view = ctx.view.of_call(nth);
                    if let Err(why) = state.message_up(parent, &mut ctx.seen_in(&view)) {
                        return self.fail_here(nth, why, ctx);
                    }
                    state.to_notify.insert(parent, ());
                }
                None => self.all_called(nth, ctx),
            }
        }
        let Some(state) = self.open.get_mut(&nth) else { return };
        state.send_ready(nth, &mut self.progress, ctx.out);
        if self.progress.may_complete(nth)
            && let view = ctx.view.of_call(nth)
            && let Some(outcome) = state.result(|link| self.progress.may_send(nth, link), &view)
        {
            self.finish(nth, Ok(outcome), ctx);
        }
        if self.open.get(&nth).is_some_and(|state| state.is_over())
            && let Some(state) = self.open.remove(&nth)
        {
            self.over(nth, Some(state.by), state.flow.arrived(), ctx);
            // What still arrives is for lost members, and is dropped. Its senders would wait for credit
            // forever.
            for link in state.flow.unfinished() {
                ctx.out.push(Effect::Send(link, Message::Grant { nth, limit: UNWANTED }.frame(None)));
            }
        }
    }

    /// A call is over in this process, with this signature, or aborted.
    fn over(&mut self, nth: u64, by: Option<(Rank, CallSignature)>, arrived: u64, ctx: &mut CallContext<'_>) {
        let freed = self.progress.over(nth, by, arrived);
        self.free(freed);
        self.report_over(ctx);
    }

    /// This member may complete these calls from now on.
    fn free(&mut self, freed: Range<u64>) {
        if self.freed.is_empty() {
            self.freed = freed;
        } else {
            self.freed.end = freed.end;
        }
    }

    fn report_over(&mut self, ctx: &mut CallContext<'_>) {
        if let Some(before) = self.progress.report() {
            ctx.send_to_all(&Message::Over { before }.frame(None), None);
        }
    }

    fn all_called(&mut self, nth: u64, ctx: &mut CallContext<'_>) {
        let Some(state) = self.open.get_mut(&nth).filter(|state| !state.is_done()) else { return };
        // Agents without members only hear of keys.
        let all_hear = state.operation.late_messages().is_some();
        let view = ctx.view.of_call(nth);
        let branches = view.topology.branches.iter();
        let hear = branches.filter(|branch| all_hear || !branch.ranks.is_empty()).map(|branch| branch.link);
        let links = hear.filter(|link| self.entered.contains(*link));
        links.for_each(|link| state.to_notify.insert(link, ()));
        // What a fence says is for all servers of keys, also for those that have come since.
        let decided_in = state.decided_in.take().filter(|_| !all_hear);
        if let Err(why) = state.all_called(&mut ctx.seen_in(decided_in.as_deref().unwrap_or(&view))) {
            return self.fail_here(nth, why, ctx);
        }
        if decided_in.is_some() {
            state.pass_messages_to(&ctx.view.replaced);
        }
        if self.completion.continues && state.repeats_messages() {
            self.survival.keep_messages(nth, state.by, &state.next_messages);
        }
    }
}
