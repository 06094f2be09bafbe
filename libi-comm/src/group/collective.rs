//! The collective calls of a process: their numbers, which members have called, which calls are
//! over and why. See the [parent module](super).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;

use super::GroupView;
use super::arguments::{Contribution, prepare};
use super::call_state::CallState;
use super::context::{CallContext, send_region};
use super::flow_control::UNWANTED;
use super::messages::apply_late;
use crate::contract::{Call, CallId, Effect, Outcome};
use crate::error::{AbortCause, CommError};
use crate::message::{CallSignature, CollectiveHeader, HeaderFlags, Length, Message};
use crate::piece::{ALL, Piece};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Collective {
    /// The number of this member's next call.
    next: u64,
    /// For each branch: the number before which all its members have made all calls.
    entered: BTreeMap<LinkId, u64>,
    open: BTreeMap<u64, CallState>,
    /// Calls that were aborted before this member made them.
    aborted: BTreeMap<u64, AbortCause>,
    completed: CompletedCalls,
    /// What has arrived from above of the messages of calls that were aborted here, if a decision of
    /// the top takes effect all the same.
    late_messages: BTreeMap<u64, Vec<u8>>,
    /// Lost ranks, and the first call in which they are missing.
    missing: Vec<(u64, Ranks)>,
    /// The calls of this member in their order, with their results. A result is reported only after
    /// those of all earlier calls.
    results: VecDeque<(u64, CallId, Option<CallResult>)>,
}

type CallResult = Result<Outcome, CommError>;

/// The set of calls that are over: all before a number, and some after it.
#[derive(Debug, Default)]
struct CompletedCalls {
    before: u64,
    others: BTreeSet<u64>,
}

impl CompletedCalls {
    fn contains(&self, nth: u64) -> bool {
        nth < self.before || self.others.contains(&nth)
    }

    fn add(&mut self, nth: u64) {
        if nth >= self.before {
            self.others.insert(nth);
        }
        while self.others.remove(&self.before) {
            self.before += 1;
        }
    }
}

impl Collective {
    pub(crate) fn up(&mut self, view: &GroupView) {
        self.entered = view.topology.branches.iter().map(|branch| (branch.link, 0)).collect();
    }

    /// Nothing waits here to be sent or forwarded.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.values().all(|state| !state.is_done() || state.flow.is_empty())
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
        self.results.push_back((nth, id, None));
        if let Some(why) = self.aborted.remove(&nth) {
            return self.finish(nth, Err(why.into_error(nth)), ctx);
        }
        if let Some(ranks) = self.missing_at(nth) {
            return self.finish(nth, Err(CommError::PeerLost { ranks }), ctx);
        }
        let (called, contribution) = match prepare(call, me, ctx.view) {
            Ok(entered) => entered,
            Err(why) => {
                // The other members would wait for this one.
                let cause = match &why {
                    CommError::PeerLost { ranks } => AbortCause::Lost(ranks.clone()),
                    _ => AbortCause::Cancelled(me),
                };
                self.finish(nth, Err(why), ctx);
                return self.abort(nth, cause, None, ctx);
            }
        };
        if let Some(cause) = self.register(nth, (me, called), ctx.view) {
            return self.abort(nth, cause, None, ctx);
        }
        let Some(state) = self.open.get_mut(&nth) else { return };
        let given = match &contribution {
            Contribution::One(bytes) => Some(Piece::whole(me.0, ALL, bytes.clone())),
            _ => None,
        };
        if let Some(piece) = &given {
            state.begin_region(piece.item, ctx.memory, ctx.view);
        }
        let contributed = state.contribute(contribution, me, ctx.view);
        let sealed = contributed.and_then(|()| given.map_or(Ok(None), |piece| state.fill_region(&piece)));
        if let Err(why) = sealed.map(|sealed| send_region(nth, state.by, sealed, ctx)) {
            return self.fail(nth, why, ctx);
        }
        self.advance(nth, ctx);
    }

    /// This member cancels a call. True if it is a collective one.
    pub(crate) fn cancel(&mut self, id: CallId, me: Rank, ctx: &mut CallContext<'_>) -> bool {
        let Some(&(nth, _, ref result)) = self.results.iter().find(|(_, other, _)| *other == id) else {
            return false;
        };
        if result.is_none() {
            self.abort(nth, AbortCause::Cancelled(me), None, ctx);
        }
        true
    }

    /// A frame of a collective call has arrived.
    pub(crate) fn on_frame(
        &mut self,
        link: LinkId,
        header: &CollectiveHeader,
        payload: Bytes,
        ctx: &mut CallContext<'_>,
    ) {
        let CollectiveHeader { nth, by, flags } = *header;
        let whole = !flags.more;
        let is_open = !self.completed.contains(nth) && self.missing_at(nth).is_none();
        let cause = if is_open { self.register(nth, by, ctx.view) } else { None };
        if flags.entered
            && whole
            && let Some(entered) = self.entered.get_mut(&link)
            && *entered <= nth
        {
            *entered = nth + 1;
            if let Some(state) = self.open.get_mut(&nth) {
                state.branch_has_called();
            }
        }
        if let Some(cause) = cause {
            return self.abort(nth, cause, None, ctx);
        }
        if !is_open {
            return self.on_late_message(link, header, &payload, ctx);
        }
        if let Err(why) = self.take_payload(nth, link, payload, flags, ctx) {
            return self.fail(nth, why, ctx);
        }
        if flags.done && whole && Some(link) == ctx.view.collective_parent() {
            self.all_called(nth, ctx);
        }
        self.advance(nth, ctx);
    }

    /// Applies a decision of the top in a call that was aborted here. It must take effect here and
    /// below, or members that have passed the call would rely on what others do not have.
    fn on_late_message(
        &mut self,
        link: LinkId,
        header: &CollectiveHeader,
        payload: &[u8],
        ctx: &mut CallContext<'_>,
    ) {
        let CollectiveHeader { nth, by, flags } = *header;
        let Some(messages) = by.1.operation().late_messages() else { return };
        if !flags.done || Some(link) != ctx.view.collective_parent() {
            return;
        }
        self.late_messages.entry(nth).or_default().extend_from_slice(payload);
        if flags.more {
            return;
        }
        let message = Bytes::from(self.late_messages.remove(&nth).unwrap_or_default());
        apply_late(messages, header, message, ctx);
    }

    fn take_payload(
        &mut self,
        nth: u64,
        link: LinkId,
        mut payload: Bytes,
        flags: HeaderFlags,
        ctx: &mut CallContext<'_>,
    ) -> Result<(), CommError> {
        let Some(state) = self.open.get_mut(&nth) else { return Ok(()) };
        if state.operation.messages().is_some() {
            state.arrived.push(link, &payload);
            return Ok(());
        }
        if flags.blocked {
            state.flow.peer_blocked(link);
        }
        while !payload.is_empty() {
            let piece = Piece::decode(&mut payload).map_err(|_| CommError::Protocol("an invalid piece"))?;
            state.begin_region(piece.item, ctx.memory, ctx.view);
            state.receive(link, piece.clone(), ctx.view)?;
            let sealed = state.fill_region(&piece)?;
            send_region(nth, state.by, sealed, ctx);
        }
        Ok(())
    }

    /// Shared memory with all data of a call has arrived.
    pub(crate) fn on_region(
        &mut self,
        link: LinkId,
        header: &CollectiveHeader,
        bytes: Option<Bytes>,
        ctx: &mut CallContext<'_>,
    ) {
        let CollectiveHeader { nth, by, .. } = *header;
        if self.completed.contains(nth) || self.missing_at(nth).is_some() {
            return;
        }
        if let Some(cause) = self.register(nth, by, ctx.view) {
            return self.abort(nth, cause, None, ctx);
        }
        let root = by.1.root.unwrap_or(by.0);
        let Some(bytes) = bytes else {
            return self.fail(nth, CommError::Protocol("shared memory that is missing or not sealed"), ctx);
        };
        let taken = self.open.get_mut(&nth).map(|state| state.take_region(link, root, bytes));
        match taken {
            Some(Err(why)) => self.fail(nth, why, ctx),
            _ => self.advance(nth, ctx),
        }
    }

    /// Credit has arrived.
    pub(crate) fn on_grant(&mut self, link: LinkId, nth: u64, limit: u64, ctx: &mut CallContext<'_>) {
        if let Some(state) = self.open.get_mut(&nth) {
            state.flow.allow(link, limit);
            self.advance(nth, ctx);
        }
    }

    /// Records a member's call. Returns a cause to abort if it does not match the calls of others.
    fn register(&mut self, nth: u64, by: (Rank, CallSignature), view: &GroupView) -> Option<AbortCause> {
        let pending_branches = || self.entered.values().filter(|entered| **entered <= nth).count();
        let state = self.open.entry(nth).or_insert_with(|| CallState::new(by, pending_branches(), view));
        if !state.by.1.matches(&by.1) {
            return Some(AbortCause::Mismatch(state.by, by));
        }
        if state.by.1.length == Length::Unknown {
            state.by = by;
        }
        None
    }

    /// Takes the next steps that the state of a call allows.
    fn advance(&mut self, nth: u64, ctx: &mut CallContext<'_>) {
        let Some(state) = self.open.get_mut(&nth) else { return };
        if state.enter() {
            match ctx.view.collective_parent() {
                Some(parent) => {
                    if let Err(why) = state.message_up(parent, ctx) {
                        return self.fail(nth, why, ctx);
                    }
                    state.to_notify.insert(parent);
                }
                None => self.all_called(nth, ctx),
            }
        }
        let Some(state) = self.open.get_mut(&nth) else { return };
        state.send_ready(nth, ctx.out);
        if let Some(outcome) = state.result(ctx.view) {
            self.finish(nth, Ok(outcome), ctx);
        }
        if self.open.get(&nth).is_some_and(CallState::is_over)
            && let Some(state) = self.open.remove(&nth)
        {
            self.completed.add(nth);
            // What still arrives is for lost members, and is dropped. Its senders would wait for credit
            // forever.
            for link in state.flow.unfinished() {
                ctx.out.push(Effect::Send(link, Message::Grant { nth, limit: UNWANTED }.frame(None)));
            }
        }
    }

    fn all_called(&mut self, nth: u64, ctx: &mut CallContext<'_>) {
        let Some(state) = self.open.get_mut(&nth).filter(|state| !state.is_done()) else { return };
        state.to_notify.extend(self.entered.keys());
        if let Err(why) = state.all_called(ctx) {
            self.fail(nth, why, ctx);
        }
    }

    /// This process cannot continue a call, so no process can.
    fn fail(&mut self, nth: u64, why: CommError, ctx: &mut CallContext<'_>) {
        let by = ctx.view.topology.me.unwrap_or(Rank(0));
        self.finish(nth, Err(why), ctx);
        self.abort(nth, AbortCause::Cancelled(by), None, ctx);
    }

    /// Aborts a call, and tells all neighbors except the one that has said so.
    pub(crate) fn abort(
        &mut self,
        nth: u64,
        why: AbortCause,
        from: Option<LinkId>,
        ctx: &mut CallContext<'_>,
    ) {
        if self.completed.contains(nth) || self.missing_at(nth).is_some() {
            return;
        }
        self.completed.add(nth);
        let late = |state: &CallState| state.operation.late_messages().is_some();
        let begun = self.open.remove(&nth).filter(late).map(|state| state.arrived.above);
        self.late_messages.extend(begun.filter(|above| !above.is_empty()).map(|above| (nth, above)));
        let frame = Message::Aborted { nth, why: why.clone() }.frame(None);
        ctx.send_to_all(&frame, from);
        if nth >= self.next {
            self.aborted.insert(nth, why);
        } else {
            self.finish(nth, Err(why.into_error(nth)), ctx);
        }
    }

    /// These ranks are lost and take part in no call from number `before` on.
    pub(crate) fn lost(&mut self, ranks: &Ranks, before: u64, ctx: &mut CallContext<'_>) {
        self.missing.push((before, ranks.clone()));
        let ended = self.open.split_off(&before);
        for nth in ended.into_keys().filter(|nth| *nth < self.next).collect::<Vec<_>>() {
            self.finish(nth, Err(CommError::PeerLost { ranks: ranks.clone() }), ctx);
        }
    }

    /// The link to a branch is closed. Returns the first call in which the branch is missing.
    pub(crate) fn cut(&mut self, link: LinkId) -> u64 {
        self.entered.remove(&link).unwrap_or_default()
    }

    /// Continues or aborts the calls that a lost branch had completely made.
    pub(crate) fn drop_branch(&mut self, link: LinkId, ranks: &Ranks, ctx: &mut CallContext<'_>) {
        for nth in self.open.keys().copied().collect::<Vec<_>>() {
            let Some(state) = self.open.get_mut(&nth) else { continue };
            state.to_notify.remove(&link);
            if state.flow.cut(link) > 0 {
                self.abort(nth, AbortCause::Lost(ranks.clone()), None, ctx);
            } else {
                self.advance(nth, ctx);
            }
        }
    }

    /// The ranks that are missing in a call.
    fn missing_at(&self, nth: u64) -> Option<Ranks> {
        let mut all = Ranks::new();
        self.missing.iter().filter(|(before, _)| nth >= *before).for_each(|(_, ranks)| all.add_all(ranks));
        (!all.is_empty()).then_some(all)
    }

    /// Records the result of this member's call, and reports all results that are due.
    fn finish(&mut self, nth: u64, result: CallResult, ctx: &mut CallContext<'_>) {
        if let Some(entry) = self.results.iter_mut().find(|entry| entry.0 == nth) {
            entry.2.get_or_insert(result);
        }
        while let Some((_, id, Some(_))) = self.results.front() {
            let id = *id;
            if let Some((_, _, Some(result))) = self.results.pop_front() {
                ctx.out.push(Effect::Finish(id, result));
            }
        }
    }
}
