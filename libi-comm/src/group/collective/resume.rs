//! What collective calls do when members are lost and calls go on. See
//! [`survival`](crate::group::survival).

use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;

use super::Collective;
use crate::contract::{Effect, Frame};
use crate::error::AbortCause;
use crate::group::arguments::Contribution;
use crate::group::broken::Break;
use crate::group::context::CallContext;
use crate::group::messages::send_message;
use crate::group::orphans::Replaced;
use crate::group::survival::{Next, Plan, Report, SettledCall, Settlement, TreeChanges, encoded_outcome};
use crate::group::view::{GroupView, WayUp};
use crate::message::{CallSignature, CollectiveHeader, HeaderFlags, Message};

impl Collective {
    /// Whether calls go on without lost members.
    pub(crate) const fn continues(&self) -> bool {
        self.completion.continues
    }

    /// All members have completed the calls before this number.
    pub(crate) const fn completed(&self) -> u64 {
        self.survival.completed()
    }

    pub(crate) const fn is_halted(&self) -> bool {
        self.survival.is_halted()
    }

    /// The round of the last halt.
    pub(crate) const fn round(&self) -> u64 {
        self.survival.round
    }

    /// The round of the last plan.
    pub(crate) const fn planned(&self) -> u64 {
        self.survival.planned
    }

    /// New members here and below of which a plan may know.
    pub(crate) fn reported(&self) -> Ranks {
        self.survival.reported()
    }

    /// Whether calls are halted, in this round.
    pub(crate) const fn is_halted_in(&self, round: u64) -> bool {
        self.survival.is_halted() && self.survival.round == round
    }

    /// The link to a branch is closed: nothing more is sent there, and calls that wait for it do so until
    /// the plan of the top.
    pub(crate) fn cut_off(&mut self, link: LinkId) {
        self.survival.cut(link);
        self.close(link);
    }

    fn close(&mut self, link: LinkId) {
        self.progress.cut(link);
        self.entered.remove(link);
        for state in self.open.values_mut() {
            state.to_notify.remove(link);
            state.region_receivers.remove(link);
            state.flow.cut(link);
        }
    }

    /// Members are lost. Returns the plan if calls go on at once.
    pub(crate) fn react_to_loss(&mut self, ctx: &mut CallContext<'_>) -> Option<Plan> {
        let is_news = ctx.view.lost.iter().any(|rank| !ctx.view.missing.contains(rank))
            || self.survival.wanted_round > self.survival.round
            || ctx.view.grows.is_some();
        if ctx.view.topology.top && is_news && !self.survival.is_halted() {
            self.halt(self.survival.round + 1, ctx);
        }
        self.halt_further(ctx)
    }

    /// The parent says that calls halt.
    pub(crate) fn on_halt(&mut self, round: u64, nth: u64, ctx: &mut CallContext<'_>) {
        self.survival.answers = nth;
        self.halt(round, ctx);
        self.halt_further(ctx);
    }

    /// All calls have halted below a branch. Returns the plan by which they go on, at the top.
    pub(crate) fn on_halted(
        &mut self,
        link: LinkId,
        nth: u64,
        report: Report,
        ctx: &mut CallContext<'_>,
    ) -> Option<Plan> {
        self.survival.has_halted(link, nth, report);
        self.halt_further(ctx)
    }

    fn halt(&mut self, round: u64, ctx: &mut CallContext<'_>) {
        let own = ctx.view.topology.me.map(|me| (me, self.completed_here()));
        self.survival.halt(round, own, ctx.view);
        let frame = self.halt_frame();
        for link in ctx.view.live_branches().chain(ctx.view.joining_links()) {
            ctx.out.push(Effect::Send(link, frame.clone()));
        }
    }

    /// The link to a branch is closed, but the members behind it may come back.
    pub(crate) fn sever(&mut self, link: LinkId, ctx: &mut CallContext<'_>) {
        self.close(link);
        if !self.survival.awaits(link) {
            self.tree_changed(self.survival.round + 1, ctx);
        }
    }

    /// A process is back from behind a severed link.
    pub(crate) fn joins(&mut self, link: LinkId, ctx: &mut CallContext<'_>) {
        if self.survival.awaits(link) {
            ctx.out.push(Effect::Send(link, self.halt_frame()));
        }
    }

    /// The parent is another process. What is reported before it tells to halt is no answer to it.
    pub(crate) const fn has_new_parent(&mut self) {
        self.survival.answers = 0;
    }

    /// A process of this host takes the place of a lost member with the next plan.
    pub(crate) fn arrives(&mut self, ctx: &mut CallContext<'_>) {
        if !self.survival.can_report() {
            self.tree_changed(self.survival.round + 1, ctx);
        }
    }

    fn halt_frame(&self) -> Frame {
        Message::Halt { round: self.survival.round, nth: self.survival.halts }.frame(None)
    }

    /// The tree has changed, so that calls must halt, in this round or a later one.
    pub(crate) fn tree_changed(&mut self, round: u64, ctx: &mut CallContext<'_>) {
        if ctx.view.topology.top {
            self.survival.wanted_round = round.max(self.survival.wanted_round);
        } else if let Some(parent) = ctx.view.collective_parent() {
            ctx.out.push(Effect::Send(parent, Message::TreeChanged { round }.frame(None)));
        }
    }

    /// Tells the process at the other end of a new link of all aborted calls.
    pub(crate) fn tell_aborted(&self, link: LinkId, out: &mut Vec<Effect>) {
        for (nth, Break { origin, why }) in self.broken.all() {
            let message = Message::Aborted { nth, origin: *origin, why: why.clone() };
            out.push(Effect::Send(link, message.frame(None)));
        }
    }

    fn halt_further(&mut self, ctx: &mut CallContext<'_>) -> Option<Plan> {
        loop {
            let (round, nth) = (self.survival.round, self.survival.answers);
            match self.survival.next(self.known_before, ctx.view) {
                Next::Waits => return None,
                Next::Resumes(plan) => return Some(plan),
                Next::HaltsAgain => self.halt(round + 1, ctx),
                Next::Reports(report) => {
                    let frame = Message::Halted { nth, report }.frame(None);
                    ctx.out.push(Effect::Send(LinkId::PARENT, frame));
                    return None;
                }
            }
        }
    }

    /// Passes the plan on to all branches, before anything else is sent to them.
    pub(crate) fn pass_on(&self, plan: &Plan, ctx: &mut CallContext<'_>) {
        let frame = Message::Resume { round: self.survival.round, plan: plan.clone() }.frame(None);
        let joined = ctx.view.joining_links().filter(|link| self.survival.changes.joined.contains(link));
        for link in ctx.view.live_branches().chain(joined) {
            ctx.out.push(Effect::Send(link, frame.clone()));
        }
    }

    /// The changes of the tree that take effect with the plan of this halt.
    pub(crate) fn tree_changes(&mut self) -> TreeChanges {
        std::mem::take(&mut self.survival.changes)
    }

    /// Calls go on by this plan. The view is the new one; `before`, the one before. Branches are replaced by
    /// others.
    pub(crate) fn resume(
        &mut self,
        plan: &Plan,
        before: &GroupView,
        replaced: &[Replaced],
        ctx: &mut CallContext<'_>,
    ) {
        let kept = self.survival.resume(plan, ctx.view);
        self.entered.retain(|link, _| !ctx.view.cut.contains(&link));
        self.join(plan.first, before.way_up == WayUp::Joins, replaced, ctx);
        let mut halted = std::mem::take(&mut self.open);
        self.freed = 0..0;
        let begins = ctx.view.begins(plan.first).max(self.first);
        let settled = plan.settled.iter().map(|call| call.nth);
        let over_before: Vec<u64> = settled.filter(|nth| self.progress.is_over(*nth)).collect();
        self.progress.restart(plan.first, begins, ctx.view.links_from(begins));
        for nth in self.broken.from(plan.first).collect::<Vec<_>>() {
            let _ = self.progress.over(nth, None, 0);
        }
        for SettledCall { nth, how, .. } in &plan.settled {
            if self.broken.contains(*nth) {
                continue;
            }
            match (how, halted.remove(nth)) {
                (Settlement::Replay, _) => {}
                (Settlement::Repeat, Some(mut state)) if !state.is_done() => {
                    // Its messages from below stay, and are used with the branches of that time.
                    state.decided_in = Some(Box::new(before.of_call(*nth).into_owned()));
                    self.open.insert(*nth, state);
                }
                // A fence that is on its way to a server of keys without members.
                (Settlement::Repeat, None) if self.progress.is_early(*nth) && !over_before.contains(nth) => {}
                (_, state) => {
                    self.repeat(*nth, ctx);
                    let view = ctx.view.of_call(*nth);
                    if let Some(outcome) = state.and_then(|mut state| state.settle(&view)) {
                        self.finish(*nth, Ok(outcome), ctx);
                    }
                    let _ = self.progress.over(*nth, None, 0);
                }
            }
        }
        // All neighbors know of the calls before the first alone.
        self.report_over(ctx);
        if let Some(me) = ctx.view.topology.me {
            self.begin_anew(kept, me, ctx);
        }
        // A branch that is lost may have been the last that had not completed some calls.
        self.tell_completed(ctx);
    }

    /// The links to these branches are new, and that to the parent is if this process was an orphan.
    fn join(&mut self, first: u64, is_orphan: bool, replaced: &[Replaced], ctx: &mut CallContext<'_>) {
        let all: Vec<LinkId> = replaced.iter().flat_map(|old| &old.by).copied().collect();
        // What is severed once more has completed no more than all others, either.
        let (before, wanted) = self.survival.joins(&all, is_orphan, first, ctx.view);
        let mut branches: Vec<LinkId> = all.into_iter().filter(|link| !ctx.view.cut.contains(link)).collect();
        branches.iter().for_each(|link| self.entered.insert(*link, 0));
        let frame = Message::Completed { before, wanted }.frame(None);
        ctx.out.extend(branches.iter().map(|link| Effect::Send(*link, frame.clone())));
        for Replaced { link, by } in replaced {
            for repeated in self.survival.repeated.values_mut() {
                if let Some(message) = repeated.messages.remove(link) {
                    repeated.messages.extend(by.iter().map(|link| (*link, message.clone())));
                }
            }
        }
        for branch in &ctx.view.topology.branches {
            // A process that has joined is a new branch.
            if !self.entered.contains(branch.link) && !ctx.view.cut.contains(&branch.link) {
                self.entered.insert(branch.link, first);
                branches.push(branch.link);
            }
        }
        let new = branches.into_iter().chain(ctx.view.collective_parent().filter(|_| is_orphan));
        for link in new {
            self.eager.forget(link);
            if let Some(limit) = self.eager.said() {
                ctx.out.push(Effect::Send(link, Message::Eager { limit }.frame(None)));
            }
        }
    }

    /// This member takes part once more in calls that not all have completed.
    fn begin_anew(&mut self, kept: Vec<u64>, me: Rank, ctx: &mut CallContext<'_>) {
        // A member that is alone would forget calls that have not begun anew.
        self.survival.begins_anew = true;
        for nth in kept {
            let Some(kept) = self.survival.kept.get(&nth).filter(|_| !self.broken.contains(nth)) else {
                continue;
            };
            let (called, contribution) = (kept.called, kept.contribution.clone());
            self.enter(nth, (me, called), contribution, ctx);
        }
        self.survival.begins_anew = false;
    }

    /// Sends the message of a settled call to all branches once more.
    fn repeat(&self, nth: u64, ctx: &mut CallContext<'_>) {
        let Some(repeated) = self.survival.repeated.get(&nth) else { return };
        let flags = HeaderFlags { done: true, ..HeaderFlags::default() };
        let header = CollectiveHeader { nth, by: repeated.by, flags };
        for (link, message) in &repeated.messages {
            if !ctx.view.cut.contains(link) {
                send_message(*link, &header, message.clone(), ctx.out);
            }
        }
    }

    /// What this member contributes to a call, or why it is aborted; or neither, if the result comes
    /// without it.
    pub(super) fn settled(
        &self,
        nth: u64,
        (me, called): (Rank, CallSignature),
        contribution: Contribution,
        view: &GroupView,
    ) -> Result<Contribution, Option<AbortCause>> {
        match self.survival.settled(nth) {
            Some(call) if call.how != Settlement::Replay => Err(None),
            Some(call) if call.by == me => {
                let result = self.survival.result(nth).map(encoded_outcome);
                Ok(Contribution::One(result.unwrap_or_default()))
            }
            Some(_) => Ok(Contribution::Nothing),
            None => match called.root.filter(|root| view.missing.contains(*root)) {
                Some(root) => Err(Some(AbortCause::Lost([root].into_iter().collect()))),
                None => Ok(contribution),
            },
        }
    }

    /// The member that sends the result of a call to all others.
    pub(super) fn replayed_by(&self, nth: u64) -> Option<Rank> {
        let call = self.survival.settled(nth).filter(|call| call.how == Settlement::Replay)?;
        Some(call.by)
    }

    /// Tells which calls the members here and below have completed, if it is time.
    pub(super) fn tell_completed(&mut self, ctx: &mut CallContext<'_>) {
        if !self.continues() || self.survival.begins_anew {
            return;
        }
        let own = ctx.view.topology.me.map(|_| self.completed_here());
        let Some((before, wanted)) = self.survival.completes(own, self.completion.lead) else { return };
        if ctx.view.topology.top {
            return self.all_have_completed(before, wanted, ctx);
        }
        if let Some(parent) = ctx.view.collective_parent() {
            ctx.out.push(Effect::Send(parent, Message::Completed { before, wanted }.frame(None)));
        }
    }

    /// A neighbor has told of completed calls, and of what is wanted.
    pub(crate) fn on_completed(&mut self, link: LinkId, before: u64, wanted: u64, ctx: &mut CallContext<'_>) {
        if Some(link) == ctx.view.collective_parent() {
            self.survival.hears_of_wanted(wanted);
            self.all_have_completed(before, wanted, ctx);
        } else {
            self.survival.has_completed(link, before, wanted);
        }
        self.tell_completed(ctx);
    }

    fn all_have_completed(&mut self, before: u64, wanted: u64, ctx: &mut CallContext<'_>) {
        self.survival.forget_before(before);
        let frame = Message::Completed { before, wanted }.frame(None);
        for link in ctx.view.live_branches() {
            ctx.out.push(Effect::Send(link, frame.clone()));
        }
        // What is still open of these calls is needed by none.
        self.open = self.open.split_off(&before);
        let freed = self.progress.all_over(before);
        self.free(freed);
        self.report_over(ctx);
        self.advance_freed(ctx);
    }

    /// This member is about to leave.
    pub(crate) fn leave(&mut self, ctx: &mut CallContext<'_>) {
        self.survival.want(self.next);
        self.tell_completed(ctx);
    }

    /// Whether no other member needs what this one has kept.
    pub(crate) fn is_settled(&self) -> bool {
        !self.continues() || self.survival.have_all_completed(self.next)
    }

    /// Whether a member that has completed an aborted call need not hear of it: calls go on.
    pub(super) const fn is_silent(&self, why: &AbortCause) -> bool {
        self.continues() && matches!(why, AbortCause::Lost(_))
    }
}
