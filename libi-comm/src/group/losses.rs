//! What a group does when members are lost: others hear of it, and collective calls fail or
//! [go on](super::survival). See the [parent module](super).

use libi_core::ids::LinkId;
use libi_core::loss::{Loss, LossReason};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use super::Group;
use super::context::CallContext;
use super::survival::Plan;
use crate::contract::Effect;
use crate::message::Message;

impl Group {
    /// The link to a branch is closed.
    pub(super) fn cut(
        &mut self,
        link: LinkId,
        reason: Option<LossReason>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if !self.view.is_in_tree(link) {
            return self.severed(link, Ranks::first(u32::MAX), reason, now, out);
        }
        let branch = self.view.topology.branches.iter().find(|branch| branch.link == link);
        let Some(ranks) = branch.map(|branch| branch.ranks.clone()) else { return };
        if !self.view.cut.insert(link) {
            return;
        }
        self.view.routes.cut(link);
        let continues = self.collective.continues();
        let before = if continues {
            self.collective.cut_off(link);
            u64::MAX
        } else {
            self.collective.cut(link, &ranks)
        };
        // All members of an agent may be lost before it is.
        if !ranks.is_empty() {
            self.lost(&ranks, before, reason, None, now, out);
        }
        let Self { collective, view, kvs, memory, .. } = self;
        kvs.cut(link, &ranks, view, out);
        if continues {
            self.continue_without_lost(now, out);
        } else {
            collective.drop_branch(&mut CallContext { now, view, kvs, memory, out });
        }
    }

    /// How these members were lost, as far as it is known.
    pub(super) fn reasons(&self, lost: &Ranks) -> Vec<Loss> {
        let mut reasons = self.losses.clone();
        for Loss { ranks, .. } in &mut reasons {
            let mut others = ranks.clone();
            others.remove_all(lost);
            ranks.remove_all(&others);
        }
        reasons.retain(|loss| !loss.ranks.is_empty());
        reasons
    }

    /// Members are lost: collective calls halt, or go on, if they are to continue.
    pub(super) fn continue_without_lost(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Self { collective, view, kvs, memory, .. } = self;
        if collective.continues() {
            let plan = collective.react_to_loss(&mut CallContext { now, view, kvs, memory, out });
            self.resume(plan, now, out);
        }
    }

    /// Collective calls go on without lost members, by this plan.
    pub(super) fn resume(&mut self, plan: Option<Plan>, now: Instant, out: &mut Vec<Effect>) {
        let mut next = plan;
        while let Some(plan) = next {
            let before = self.view.clone();
            let Self { collective, view, kvs, memory, .. } = self;
            collective.pass_on(&plan, &mut CallContext { now, view, kvs, memory, out });
            let (round, replaced) = (collective.round(), view.rebuild(&collective.tree_changes()));
            view.leave_out(&plan.missing);
            collective.resume(&plan, &before, &replaced, &mut CallContext { now, view, kvs, memory, out });
            self.members_moved(round, &plan.moved, &replaced, out);
            let Self { collective, view, kvs, memory, .. } = self;
            next = collective.react_to_loss(&mut CallContext { now, view, kvs, memory, out });
        }
    }

    /// These ranks are lost, as seen by this process or reported over a link.
    pub(super) fn lost(
        &mut self,
        ranks: &Ranks,
        before: u64,
        reason: Option<LossReason>,
        from: Option<LinkId>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        self.view.lost.add_all(ranks);
        self.view.forsake(ranks);
        if let Some(reason) = reason.clone() {
            self.losses.push(Loss { ranks: ranks.clone(), reason });
        }
        let Self { collective, view, kvs, p2p, memory, .. } = self;
        let parent = Some(LinkId::PARENT).filter(|_| view.topology.has_parent);
        let branches = view.topology.branches.iter().map(|branch| branch.link).chain(view.joining_links());
        let frame = Message::Lost { ranks: ranks.clone(), before, reason: reason.clone() }.frame(None);
        for link in parent.into_iter().chain(branches) {
            if Some(link) != from && !view.cut.contains(&link) {
                out.push(Effect::Send(link, frame.clone()));
            }
        }
        if !collective.continues() {
            collective.lost(ranks, before, &mut CallContext { now, view, kvs, memory, out });
        }
        p2p.lost(ranks, view, out);
        out.push(Effect::Lost(ranks.clone(), reason));
    }
}
