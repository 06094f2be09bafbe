//! What a group does when processes lose their parent, and are adopted by another process above.
//!
//! A process is lost, and those below it are not: *orphans*. The nearest process above that is left adopts
//! them. It learns from its driver that the link is [severed](Event::Severed), and then of every
//! orphan that is back [over a link of its own](Event::Adopted), until the others are
//! [given up](Event::Forsaken). An orphan learns that its parent is another one; what is below it, nothing.
//!
//! The tree changes with a [plan](super::survival), and calls halt until all orphans are back or lost:
//!
//! ```text
//!   orphan                   adopting process                              top
//!     |                        | severed: TreeChanged --------------------> | the next round
//!     |                        | <------------------------------------ Halt |
//!     | (connects)             | waits for Halted of all branches, and     |
//!     | <---- losses, aborts --| for orphans                               |
//!     | -- losses, aborts ---> |                                           |
//!     | <---------------- Halt |                                           |
//!     | Halted --------------> | Halted: these members have moved -------> |
//!     | <-------------- Resume | <---------------------------------- Resume |
//!     | (calls, messages, keys)| a branch like all others                  |
//! ```
//!
//! | event | where | what follows |
//! |---|---|---|
//! | `Severed` | above; not halted, or the halt is reported | asks the top for a later round |
//! | `Severed` | above, halted and not reported | the halt lasts until the orphans are back or lost |
//! | `Severed` | an orphan | goes on, and sends nothing upwards before it is adopted |
//! | `Adopted` | above | tells the orphan what it may have missed; both halt in the same round |
//! | `MovedWith`, from the orphan | above | of its members, those are lost that it does not have: others with their ranks have [come below it](super::joining) |
//! | `Adopted` instead of a link without members | above | the orphan halts with the next round; it may get members |
//! | `Forsaken` | above | the orphans that are not back are lost members |
//! | `Severed` again | above, of an orphan that is back | its members are awaited once more |
//! | frames of an orphan | before the plan | dropped, but news of losses, aborts and the halt |
//! | an aborted call is told, by an orphan or to it | before the plan | waits for the plan |
//!
//! Each round has all processes that are not lost in it, so a plan that an orphan has missed is contained
//! in the next. With the plan everything has a new route at the same time everywhere: a frame that
//! takes it finds only processes that know of it. What was on its way is lost, and this is how it is
//! made good:
//!
//! | what | how |
//! |---|---|
//! | collective calls | begin anew, or are settled, as after every loss |
//! | messages | both ends say what has arrived, and send the rest again (`p2p/resync.rs`) |
//! | keys | the orphan announces its keys again, and all lookups are sent again (`kvs/moves.rs`) |
//! | losses | are told again when an orphan is back |
//! | aborted calls | are told as well, and heard with the plan: a call that fails by what happened after an earlier plan, as the loss of its root, must not end before that plan is known |

use libi_core::ids::LinkId;
use libi_core::loss::{Loss, LossReason};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::Branch;

use super::Group;
use super::context::CallContext;
use super::joining::{Arrival, Joins};
use super::survival::{Plan, TreeChanges};
use super::view::{GroupView, WayUp};
use crate::contract::{Adoption, Effect};
use crate::message::Message;
use crate::routes::Routes;

/// Branches that have taken the place of a severed one.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) link: LinkId,
    pub(crate) by: Vec<LinkId>,
}

impl GroupView {
    /// The links to processes that become branches with a plan.
    pub(super) fn joining_links(&self) -> impl Iterator<Item = LinkId> {
        self.joining.iter().map(|adoption| adoption.link).filter(|link| !self.cut.contains(link))
    }

    /// The links over which processes have to report that calls have halted: those of branches, and
    /// severed ones as long as members behind them may come back.
    pub(super) fn awaited_links(&self) -> impl Iterator<Item = LinkId> {
        let severed = self.severed.iter().filter(|(_, ranks)| !ranks.is_empty()).map(|(link, _)| *link);
        self.live_branches().chain(self.joining_links()).chain(severed)
    }

    /// Whether a frame that has arrived over a link goes through the tree, which has this link.
    pub(super) fn is_in_tree(&self, link: LinkId) -> bool {
        self.joining.iter().all(|adoption| adoption.link != link) && !self.is_arriving(link)
    }

    /// Whether a new process is at the other end of a link, which is no branch yet.
    pub(super) fn is_arriving(&self, link: LinkId) -> bool {
        self.joining_members.arriving.iter().any(|arrival| arrival.link == link)
    }

    /// New processes below this one that take part from the next plan on.
    pub(super) fn arrived(&self) -> impl Iterator<Item = &Arrival> {
        let arriving = self.joining_members.arriving.iter();
        let is_free = |arrival: &&Arrival| self.taken(&arrival.left()).is_empty();
        arriving.filter(|arrival| !self.cut.contains(&arrival.link)).filter(is_free)
    }

    /// Those of these ranks whose processes are not known to be lost.
    pub(super) fn taken(&self, ranks: &Ranks) -> Ranks {
        let mut taken = ranks.intersection(&Ranks::first(self.topology.size));
        taken.remove_all(&self.lost);
        taken.remove_all(&self.topology.absent);
        taken
    }

    /// Members that have joined, as long as earlier calls are in progress.
    pub(super) const fn joins(&self) -> &Joins {
        &self.joining_members.joins
    }

    /// The members behind the link to a branch, which may be one with the next plan.
    fn members_behind(&self, link: LinkId) -> Option<&Ranks> {
        let branch = self.topology.branches.iter().find(|branch| branch.link == link);
        let joining = || self.joining.iter().find(|adoption| adoption.link == link);
        branch.map(|branch| &branch.ranks).or_else(|| joining().map(|adoption| &adoption.ranks))
    }

    /// Members are lost: they do not come back.
    pub(super) fn forsake(&mut self, lost: &Ranks) {
        self.severed.values_mut().for_each(|ranks| ranks.remove_all(lost));
    }

    /// Processes that have joined take the place of the severed branches above them. Severed branches from
    /// which all members are back or lost are no part of the tree any more.
    pub(super) fn rebuild(&mut self, TreeChanges { joined, gone, .. }: &TreeChanges) -> Vec<Replaced> {
        let mut replaced: Vec<Replaced> = Vec::new();
        let (joined, joining) = std::mem::take(&mut self.joining)
            .into_iter()
            .partition(|adoption| joined.contains(&adoption.link));
        self.joining = joining;
        let joined: Vec<Adoption> = joined;
        self.joining_members.are_branches(joined.iter().map(|adoption| adoption.link));
        // What is adopted instead of another adopted process has come later.
        for adoption in &joined {
            if replaced.iter().all(|severed| severed.link != adoption.instead_of) {
                let mut all: Vec<&Adoption> =
                    joined.iter().filter(|other| other.instead_of == adoption.instead_of).collect();
                all.sort_by_key(|adoption| adoption.place);
                self.replace(adoption.instead_of, &all);
                let by: Vec<LinkId> = all.iter().map(|adoption| adoption.link).collect();
                self.replaced.extend(by.iter().map(|new| (adoption.instead_of, *new)));
                replaced.push(Replaced { link: adoption.instead_of, by });
            }
        }
        for link in gone {
            self.severed.remove(link);
            self.topology.branches.retain(|branch| branch.link != *link);
            if replaced.iter().all(|severed| severed.link != *link) {
                replaced.push(Replaced { link: *link, by: Vec::new() });
            }
        }
        if !replaced.is_empty() {
            self.routes = Routes::new(&self.topology);
        }
        replaced
    }

    fn replace(&mut self, link: LinkId, by: &[&Adoption]) {
        let branches = &mut self.topology.branches;
        let place = branches.iter().position(|branch| branch.link == link).unwrap_or(branches.len());
        let new = by.iter().map(|adoption| Branch {
            link: adoption.link,
            ranks: adoption.ranks.clone(),
            local: false,
        });
        branches.splice(place..place, new);
    }
}

impl Group {
    /// The link to a branch or to the parent is closed, and those behind it may come back.
    pub(super) fn severed(
        &mut self,
        link: LinkId,
        died: &Ranks,
        reason: Option<LossReason>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if link == LinkId::PARENT {
            self.view.way_up = WayUp::Closed;
            self.regions.remove(&link);
            return;
        }
        if self.arrival_lost(link, reason.as_ref()) {
            return;
        }
        let Some(behind) = self.view.members_behind(link).cloned() else { return };
        if !self.view.cut.insert(link) {
            return;
        }
        let mut others = behind.clone();
        others.remove_all(died);
        let mut lost = behind.intersection(died);
        lost.remove_all(&self.view.lost);
        others.remove_all(&self.view.lost);
        self.view.severed.insert(link, others);
        self.view.joining_members.closed(link, died.clone(), reason.clone());
        let Self { collective, view, kvs, memory, .. } = self;
        collective.sever(link, &mut CallContext { now, view, kvs, memory, out });
        kvs.sever(link, out);
        if !lost.is_empty() {
            self.lost(&lost, u64::MAX, reason, None, now, out);
        }
        self.continue_without_lost(now, out);
    }

    /// An orphan is back.
    pub(super) fn adopted(&mut self, mut adoption: Adoption, now: Instant, out: &mut Vec<Effect>) {
        let Some(awaited) = self.view.severed.get_mut(&adoption.instead_of) else {
            return self.view.joining_members.strays(adoption);
        };
        self.view.joining_members.claims(adoption.link, adoption.ranks.clone());
        adoption.ranks = awaited.intersection(&adoption.ranks);
        awaited.remove_all(&adoption.ranks);
        self.joins_tree(adoption, now, out);
    }

    /// An orphan that has lost all of its members is back: none was awaited.
    pub(super) fn adopted_without_members(
        &mut self,
        mut adoption: Adoption,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        adoption.ranks = Ranks::new();
        self.joins_tree(adoption, now, out);
        let Self { collective, view, kvs, memory, .. } = self;
        collective.arrives(&mut CallContext { now, view, kvs, memory, out });
        self.continue_without_lost(now, out);
    }

    /// An orphan is a branch from the next plan on.
    fn joins_tree(&mut self, adoption: Adoption, now: Instant, out: &mut Vec<Effect>) {
        let link = adoption.link;
        self.view.joining.push(adoption);
        self.tell_missed(link, out);
        let Self { collective, view, kvs, memory, .. } = self;
        collective.joins(link, &mut CallContext { now, view, kvs, memory, out });
        self.continue_without_lost(now, out);
    }

    /// This process has another parent.
    pub(super) fn reattached(&mut self, out: &mut Vec<Effect>) {
        self.view.way_up = WayUp::Joins;
        self.collective.has_new_parent();
        self.tell_missed(LinkId::PARENT, out);
        let mut all = self.collective.reported();
        all.add_all(&self.view.topology.me.into_iter().collect());
        self.view.topology.branches.iter().for_each(|branch| all.add_all(&branch.ranks));
        out.push(Effect::Send(LinkId::PARENT, Message::MovedWith(all).frame(None)));
        if let Some(number) = self.unconfirmed {
            out.push(Effect::Send(LinkId::PARENT, Message::Confirm { number }.frame(None)));
        }
    }

    /// An orphan that was adopted says which members have moved with it. Its host may count others that have
    /// come below it in the places of members that were awaited here: these do not come back.
    pub(super) fn has_moved_with(
        &mut self,
        link: LinkId,
        there: &Ranks,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Some(adoption) = self.view.joining.iter_mut().find(|adoption| adoption.link == link) else {
            return;
        };
        let mut lost = adoption.ranks.clone();
        lost.remove_all(there);
        adoption.ranks.remove_all(&lost);
        let instead_of = adoption.instead_of;
        if !lost.is_empty() {
            let how = self.view.joining_members.how_died(instead_of);
            self.lost(&lost, u64::MAX, how, None, now, out);
            self.continue_without_lost(now, out);
        }
    }

    /// Drops what goes upwards while there is no parent. A process that is to adopt this one first has to
    /// learn who it is.
    pub(super) fn drop_upward(&self, before: usize, out: &mut Vec<Effect>) {
        if self.view.way_up == WayUp::Closed {
            let goes_up = |effect: &mut Effect| {
                matches!(effect, Effect::Send(LinkId::PARENT, _) | Effect::SendRegion(LinkId::PARENT, ..))
            };
            out.extract_if(before.., goes_up).for_each(drop);
        }
    }

    /// Tells the process at the other end of a new link of losses and aborted calls.
    fn tell_missed(&self, link: LinkId, out: &mut Vec<Effect>) {
        let known = self.reasons(&self.view.lost);
        let mut unknown = self.view.lost.clone();
        known.iter().for_each(|loss| unknown.remove_all(&loss.ranks));
        let known = known.into_iter().map(|Loss { ranks, reason }| (ranks, Some(reason)));
        for (ranks, reason) in known.chain((!unknown.is_empty()).then_some((unknown, None))) {
            let before = u64::MAX;
            let joined = self.view.joining_members.rounds(&ranks);
            out.push(Effect::Send(link, Message::Lost { ranks, before, reason, joined }.frame(None)));
        }
        self.collective.tell_aborted(link, out);
    }

    /// All that are still behind a severed link are lost.
    pub(super) fn forsaken(
        &mut self,
        link: LinkId,
        reason: Option<LossReason>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Some(lost) = self.view.severed.get(&link).cloned() else { return };
        if !lost.is_empty() {
            self.lost(&lost, u64::MAX, reason, None, now, out);
        }
        self.continue_without_lost(now, out);
    }

    /// The tree has changed, and with it the ways to keys. All keys are announced before a fence goes on for which
    /// they have to be known.
    pub(super) fn keys_moved(&mut self, replaced: &[Replaced], out: &mut Vec<Effect>) {
        let Self { view, kvs, .. } = self;
        kvs.replace(replaced, view, out);
        if std::mem::take(&mut view.way_up) == WayUp::Joins {
            kvs.announce_again(view, out);
        }
    }

    /// The routes of these members have changed.
    pub(super) fn members_moved(&mut self, round: u64, plan: &Plan, out: &mut Vec<Effect>) {
        let moved = &plan.moved;
        let Self { view, p2p, .. } = self;
        if view.topology.top && view.topology.has_parent && !moved.is_empty() {
            let message = Message::Moved { round, moved: moved.to_vec() };
            out.push(Effect::Send(LinkId::PARENT, message.frame(None)));
        }
        p2p.moved(round, moved, &plan.joins.in_round(round), view, out);
    }
}

#[cfg(test)]
mod tests;
