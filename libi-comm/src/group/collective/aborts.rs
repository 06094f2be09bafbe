//! What ends collective calls without a result: failures, aborts and lost members. See
//! [`broken`](crate::group::broken) for how a member hears of an abort.

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;

use super::Collective;
use crate::error::{AbortCause, CommError};
use crate::group::broken::Break;
use crate::group::call_state::CallState;
use crate::group::context::CallContext;
use crate::group::messages::apply_late;
use crate::message::{CollectiveHeader, Message};

/// A branch whose link is closed.
#[derive(Clone, Debug)]
pub(super) struct LostBranch {
    link: LinkId,
    pub(super) ranks: Ranks,
}

impl LostBranch {
    /// Drops the link from a call. True if the call cannot complete without more from the branch, or
    /// if the branch had the only receiver.
    pub(super) fn fails(&self, state: &mut CallState) -> bool {
        let lacks_sign = state.lacks_sign(self.link);
        let lacks_receiver = state.lacks_receiver(self.link, &self.ranks);
        state.flow.cut(self.link) > 0 || lacks_sign || lacks_receiver
    }
}

impl Collective {
    /// This process cannot continue a call, so no process can.
    pub(super) fn fail_here(&mut self, nth: u64, why: CommError, ctx: &mut CallContext<'_>) {
        let cause = AbortCause::Failed(ctx.view.topology.me, why.to_string());
        self.fail(nth, why, cause, ctx);
    }

    /// A call fails for this member, and is aborted at the others for a cause.
    pub(super) fn fail(&mut self, nth: u64, own: CommError, why: AbortCause, ctx: &mut CallContext<'_>) {
        let is_told = self.fail_unreported(nth, own, ctx);
        let broken = Break { origin: nth, why };
        if self.spread_abort(nth, &broken, None, ctx) && !is_told {
            self.tell_member(nth, broken, ctx);
        }
    }

    /// Aborts a call for a cause that was found here.
    pub(super) fn begin_abort(&mut self, nth: u64, why: AbortCause, ctx: &mut CallContext<'_>) {
        self.abort(nth, Break { origin: nth, why }, None, ctx);
    }

    /// Aborts a call here and at all neighbors except the one that has said so.
    pub(crate) fn abort(&mut self, nth: u64, broken: Break, from: Option<LinkId>, ctx: &mut CallContext<'_>) {
        if self.spread_abort(nth, &broken, from, ctx) {
            self.tell_member(nth, broken, ctx);
        }
    }

    /// Removes an aborted call, and tells all neighbors except the one that has said so. False if it
    /// was aborted before, or cannot succeed for another reason.
    fn spread_abort(
        &mut self,
        nth: u64,
        broken: &Break,
        from: Option<LinkId>,
        ctx: &mut CallContext<'_>,
    ) -> bool {
        // With strict completion, a call that is over here is complete at all members.
        let is_past = self.completion.strict && self.progress.is_over(nth) || nth < self.first;
        if is_past || self.missing_at(nth).is_some() || !self.broken.add(nth, broken) {
            return false;
        }
        self.known_before = self.known_before.max(nth.saturating_add(1));
        let begun = self.open.remove(&nth).filter(|state| state.operation.late_messages().is_some());
        let begun = begun.map(|state| state.arrived.above);
        self.late_messages.extend(begun.filter(|above| !above.is_empty()).map(|above| (nth, above)));
        let Break { origin, why } = broken.clone();
        let frame = Message::Aborted { nth, origin, why }.frame(None);
        ctx.send_to_all(&frame, from);
        ctx.send_to_joining(&frame, from);
        self.over(nth, None, 0, ctx);
        self.advance_freed(ctx);
        true
    }

    /// This member hears of an aborted call, now or in its next call.
    fn tell_member(&mut self, nth: u64, broken: Break, ctx: &mut CallContext<'_>) {
        if ctx.view.topology.me.is_none() {
            return;
        }
        if nth >= self.next {
            return self.broken.add_future(nth, broken);
        }
        let is_told = self.fail_unreported(nth, broken.clone().into_error(), ctx);
        if is_told || broken.origin != nth || self.completion.strict || self.is_silent(&broken.why) {
            return;
        }
        match self.results.iter().find(|(_, _, result)| result.is_none()) {
            Some(&(waiting, ..)) => self.abort(waiting, broken, None, ctx),
            None => self.broken.owe(broken),
        }
    }

    /// These ranks are lost and take part in no call from number `before` on.
    pub(crate) fn lost(&mut self, ranks: &Ranks, before: u64, ctx: &mut CallContext<'_>) {
        self.missing.push((before, ranks.clone()));
        let ended = self.open.split_off(&before);
        for nth in ended.into_keys().filter(|nth| *nth < self.next).collect::<Vec<_>>() {
            self.finish(nth, Err(CommError::lost(ranks.clone())), ctx);
        }
    }

    /// The link to a branch is closed. Returns the first call in which the branch is missing.
    pub(crate) fn cut(&mut self, link: LinkId, ranks: &Ranks) -> u64 {
        self.progress.cut(link);
        let entered = self.entered.remove(link).unwrap_or_default();
        self.lost_branches.push(LostBranch { link, ranks: ranks.clone() });
        if self.completion.strict { entered } else { entered.max(self.known_before) }
    }

    /// Continues the calls that do not need anything more of the branch that was lost last, and
    /// aborts the others: also those before the first in which it is missing of which nothing has come yet, as
    /// other processes may wait for a sign from here.
    pub(crate) fn drop_branch(&mut self, before: u64, ctx: &mut CallContext<'_>) {
        let Some(branch) = self.lost_branches.last().cloned() else { return };
        let unknown = self.progress.not_over(before).filter(|nth| !self.open.contains_key(nth));
        for nth in unknown.collect::<Vec<_>>() {
            self.begin_abort(nth, AbortCause::Lost(branch.ranks.clone()), ctx);
        }
        for nth in self.open.keys().copied().collect::<Vec<_>>() {
            let Some(state) = self.open.get_mut(&nth) else { continue };
            state.to_notify.remove(branch.link);
            if branch.fails(state) {
                self.begin_abort(nth, AbortCause::Lost(branch.ranks.clone()), ctx);
            } else {
                self.advance(nth, ctx);
            }
        }
    }

    /// The ranks that are missing in a call.
    pub(super) fn missing_at(&self, nth: u64) -> Option<Ranks> {
        let mut all = Ranks::new();
        self.missing.iter().filter(|(before, _)| nth >= *before).for_each(|(_, ranks)| all.add_all(ranks));
        (!all.is_empty()).then_some(all)
    }

    /// Applies a decision of the top in a call that was aborted here. It must take effect here and
    /// below, or members that have passed the call would rely on what others do not have.
    pub(super) fn on_late_message(
        &mut self,
        link: LinkId,
        header: &CollectiveHeader,
        payload: &[u8],
        ctx: &mut CallContext<'_>,
    ) {
        let CollectiveHeader { nth, by, flags } = *header;
        let Some(messages) = by.1.operation().late_messages() else { return };
        // Messages are repeated after losses.
        if !flags.done || !self.broken.contains(nth) || Some(link) != ctx.view.collective_parent() {
            return;
        }
        self.late_messages.entry(nth).or_default().extend_from_slice(payload);
        if flags.more {
            return;
        }
        let message = Bytes::from(self.late_messages.remove(&nth).unwrap_or_default());
        let view = ctx.view.of_call(nth);
        apply_late(messages, header, message, &mut ctx.seen_in(&view));
    }
}
