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
        if self.arrival_lost(link, reason.as_ref()) {
            return;
        }
        if !self.view.is_in_tree(link) {
            return self.severed(link, &Ranks::first(u32::MAX), reason, now, out);
        }
        let branch = self.view.topology.branches.iter().find(|branch| branch.link == link);
        let Some(ranks) = branch.map(|branch| branch.ranks.clone()) else { return };
        if !self.view.cut.insert(link) {
            return;
        }
        self.view.routes.cut(link);
        self.view.joining_members.closed(link, ranks.clone(), reason.clone());
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
            collective.drop_branch(before, &mut CallContext { now, view, kvs, memory, out });
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
            let (round, changes) = (collective.round(), collective.tree_changes());
            let replaced = view.rebuild(&changes);
            let admitted = view.admit(&plan, &changes);
            view.grow(&plan);
            view.leave_out(&plan.missing);
            self.have_masters(plan.masters.clone(), out);
            self.welcome(&admitted, &plan, out);
            self.keys_moved(&replaced, out);
            let Self { collective, view, kvs, memory, .. } = self;
            let mut ctx = CallContext { now, view, kvs, memory, out };
            collective.resume(&plan, &before, &replaced, &mut ctx);
            for (nth, broken) in self.aborts_before_plan.drain(..) {
                collective.abort(nth, broken, None, &mut ctx);
            }
            if !admitted.back.is_empty() {
                self.forget_predecessors(&admitted, out);
            }
            self.members_moved(round, &plan, out);
            self.admitted(&admitted, now, out);
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
        let again = self.view.joining_members.have_joined(ranks);
        self.forget_losses(&again);
        self.unannounced.iter_mut().for_each(|(_, back)| back.remove_all(ranks));
        self.unannounced.retain(|(_, back)| !back.is_empty());
        if let Some(reason) = reason.clone() {
            self.losses.push(Loss { ranks: ranks.clone(), reason });
        }
        // A program that sees a call fail by the loss finds the loss among those that are known.
        let known = self.known_to_program(ranks);
        out.extend((!known.is_empty()).then(|| Effect::Lost(known, reason.clone())));
        let Self { collective, view, kvs, p2p, memory, .. } = self;
        let parent = Some(LinkId::PARENT).filter(|_| view.topology.has_parent);
        let branches = view.topology.branches.iter().map(|branch| branch.link).chain(view.joining_links());
        let joined = view.joining_members.rounds(ranks);
        let frame = Message::Lost { ranks: ranks.clone(), before, reason, joined }.frame(None);
        for link in parent.into_iter().chain(branches) {
            if Some(link) != from && !view.cut.contains(&link) {
                out.push(Effect::Send(link, frame.clone()));
            }
        }
        if !collective.continues() {
            collective.lost(ranks, before, &mut CallContext { now, view, kvs, memory, out });
        }
        p2p.lost(ranks, view, out);
    }
}

#[cfg(test)]
mod tests {
    use libi_core::ids::Rank;
    use libi_core::loss::LossKind;
    use libi_core::machine::Machine;
    use libi_core::topology::{Branch, Topology};

    use super::*;
    use crate::contract::{Address, Call, CallId, Event};
    use crate::error::CommError;

    #[test]
    fn a_loss_is_known_before_the_calls_that_it_fails() {
        let (mut group, mut out, link) = (Group::new(), Vec::new(), LinkId(1));
        let branches = vec![Branch { link, ranks: [Rank(1)].into_iter().collect(), local: false }];
        let topology = Topology { me: Some(Rank(0)), size: 2, top: true, branches, ..Topology::default() };
        group.on(Event::Up(topology), Instant::ZERO, &mut out);
        let calls = [Call::Barrier, Call::Receive { from: Address::Rank(Rank(1)), tag: 3 }];
        for (id, call) in (1..).map(CallId).zip(calls) {
            group.on(Event::Call(id, call), Instant::ZERO, &mut out);
        }
        out.clear();
        let reason = LossReason { host: "n1".to_owned(), is_leader: true, how: LossKind::Silent };
        group.on(Event::Cut(link, Some(reason)), Instant::ZERO, &mut out);
        let lost = out.iter().position(|effect| matches!(effect, Effect::Lost(..)));
        let is_failure =
            |effect: &Effect| matches!(effect, Effect::Finish(_, Err(CommError::PeerLost { .. })));
        let failures: Vec<_> = (0..out.len()).filter(|at| is_failure(&out[*at])).collect();
        assert!(failures.len() == 2 && lost < failures.first().copied(), "{out:?}");
    }
}
