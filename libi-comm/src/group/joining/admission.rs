//! The view of a process while members join: which calls they take part in, and where they are in the tree.

use std::borrow::Cow;
use std::collections::BTreeMap;

use libi_core::ids::LinkId;
use libi_core::loss::LossReason;
use libi_core::ranks::Ranks;
use libi_core::topology::Branch;

use super::{Arrival, Joins};
use crate::group::GroupView;
use crate::group::survival::{Plan, TreeChanges};

/// The members that are back with a plan, as seen by one process.
#[derive(Debug, Default)]
pub(in crate::group) struct Admitted {
    /// They were lost here, and are not any more.
    pub(in crate::group) back: Ranks,
    /// Of these, those of whose loss this process has not heard.
    pub(in crate::group) unheard: Ranks,
    /// They are behind links that were closed meanwhile, in this way if it is known.
    pub(super) lost: Vec<(Ranks, Option<LossReason>)>,
    /// New processes, and their first calls.
    pub(super) here: Vec<(LinkId, u64)>,
}

impl GroupView {
    /// The view of a call: without the members that have joined, and take no part in it, and with as many
    /// ranks as it has.
    pub(in crate::group) fn of_call(&self, nth: u64) -> Cow<'_, Self> {
        let (later, size) = (self.joins().after(nth), self.size_in(nth));
        if later.is_empty() && size == self.topology.size {
            return Cow::Borrowed(self);
        }
        let mut view = self.clone();
        view.missing.add_all(&later);
        if size < view.topology.size {
            let ranks = Ranks::first(size);
            view.missing = view.missing.intersection(&ranks);
            view.topology.absent = view.topology.absent.intersection(&ranks);
            view.topology.size = size;
        }
        if !view.topology.local {
            // Fences pass here before the first call of this member.
            view.topology.me = view.topology.me.filter(|me| !later.contains(*me));
        }
        let branches = &mut view.topology.branches;
        branches.iter_mut().for_each(|branch| branch.ranks.remove_all(&later));
        branches.retain(|branch| !branch.local || !branch.ranks.is_empty());
        view.joining_members.joins = Joins::default();
        Cow::Owned(view)
    }

    /// The first call with members here or below, of those from a number on.
    pub(in crate::group) fn begins(&self, first: u64) -> u64 {
        let mut calls = std::iter::once(first).chain(self.joining_members.joins.firsts());
        let has_members = |nth: &u64| self.of_call(*nth).members_from_here() > 0;
        calls.find(has_members).map_or(first, |nth| nth.max(first))
    }

    /// The links with members on both sides, each with the first call that passes there, of those from a
    /// number on.
    pub(in crate::group) fn links_from(&self, first: u64) -> Vec<(LinkId, u64)> {
        let mut links: BTreeMap<LinkId, u64> = BTreeMap::new();
        for nth in std::iter::once(first).chain(self.joining_members.joins.firsts()) {
            for link in self.of_call(nth).links_between_members() {
                links.entry(link).or_insert(nth.max(first));
            }
        }
        links.into_iter().collect()
    }

    /// Members join by this plan.
    pub(in crate::group) fn admit(&mut self, plan: &Plan, changes: &TreeChanges) -> Admitted {
        let mut admitted = Admitted::default();
        let all = plan.joins.ranks();
        self.joining_members.joins.clone_from(&plan.joins);
        if all.is_empty() {
            return admitted;
        }
        for join in &plan.joins.those {
            for rank in join.ranks.iter() {
                let is_new = rank.0 >= self.topology.size;
                let before = self.joining_members.admitted.insert(rank, join.round);
                // A process that knows of its loss since then keeps to that.
                if before.is_none_or(|before| before < join.round) && self.topology.me != Some(rank) {
                    admitted.back.add(rank);
                    let had_process = !is_new || before.is_some();
                    if had_process && !self.lost.contains(rank) {
                        admitted.unheard.add(rank);
                    }
                }
            }
        }
        self.lost.remove_all(&admitted.back);
        self.missing.remove_all(&all);
        // The loss and the return may be in one plan, the first that names it, and the return elsewhere.
        self.topology.branches.iter_mut().for_each(|branch| branch.ranks.remove_all(&admitted.back));
        let mut placed = Ranks::new();
        for (link, arrived) in &changes.admitted {
            let ranks = plan.joins.of_all(arrived);
            let is_gone = self.cut.contains(link);
            let died = self.joining_members.died.get(link).filter(|_| is_gone).cloned();
            let (died, how) = died.map_or((None, None), |(died, how)| (Some(died), how));
            let severed = self.severed.get_mut(link);
            let branch = self.topology.branches.iter_mut().find(|branch| branch.link == *link);
            let mut left = ranks.clone();
            match (branch, severed, died) {
                (Some(branch), Some(awaited), Some(died)) => {
                    left.remove_all(&died);
                    branch.ranks.add_all(&left);
                    let mut missed = left.clone();
                    // Orphans that are back already bring theirs along.
                    for adoption in self.joining.iter_mut().filter(|joining| joining.instead_of == *link) {
                        let claimed = self.joining_members.claimed.get(&adoption.link);
                        let back = claimed.map_or_else(Ranks::new, |claimed| claimed.intersection(&missed));
                        missed.remove_all(&back);
                        adoption.ranks.add_all(&back);
                    }
                    awaited.add_all(&missed);
                }
                (Some(branch), ..) if !is_gone => branch.ranks.add_all(&left),
                _ => left = Ranks::new(),
            }
            placed.add_all(&left);
            admitted.lost.push((ranks, how));
        }
        self.place_arrivals(plan, changes, &mut placed, &mut admitted);
        self.joining_members.unwelcome.retain(|link| !self.cut.contains(link));
        for link in &self.joining_members.unwelcome {
            let branch = self.topology.branches.iter().find(|branch| branch.link == *link);
            let first = branch.and_then(|branch| plan.joins.first_of(&branch.ranks));
            admitted.here.extend(first.map(|first| (*link, first)));
        }
        let is_welcome = |link: &LinkId| admitted.here.iter().any(|(here, _)| here == link);
        self.joining_members.unwelcome.retain(|link| !is_welcome(link));
        admitted.lost.iter_mut().for_each(|(lost, _)| lost.remove_all(&placed));
        admitted.lost.retain(|(lost, _)| !lost.is_empty());
        self.rebuild_routes();
        let (branches, severed) = (&self.topology.branches, &self.severed);
        let is_of_use =
            |link: &LinkId| severed.contains_key(link) || branches.iter().any(|branch| branch.link == *link);
        self.joining_members.died.retain(|link, _| is_of_use(link));
        admitted
    }

    /// New processes that were reported become branches.
    fn place_arrivals(
        &mut self,
        plan: &Plan,
        changes: &TreeChanges,
        placed: &mut Ranks,
        admitted: &mut Admitted,
    ) {
        let mut joins = Vec::new();
        for mut arrival in std::mem::take(&mut self.joining_members.arriving) {
            arrival.ranks.remove_all(&plan.absent);
            let (link, left) = (&arrival.link, arrival.left());
            // What was not reported has joined elsewhere.
            let said = changes.reported.get(link).map_or(&[][..], Vec::as_slice);
            let ranks_in_plan = plan.joins.of_all(said);
            let is_cut = self.cut.contains(link);
            // An orphan may have reported it to an earlier parent, before the link was closed.
            let is_refused =
                is_cut || changes.arrived.contains(link) && ranks_in_plan.intersection(&left) != left;
            if is_refused {
                let how = self.joining_members.how_died(*link);
                let mut lost = ranks_in_plan;
                lost.remove_all(&self.lost);
                admitted.lost.push((lost, how));
            } else if changes.arrived.contains(link) && !ranks_in_plan.is_empty() {
                // Its process says that those are lost that were reported, and are gone since.
                arrival.ranks = ranks_in_plan;
                joins.push(arrival);
                continue;
            }
            // It joins as a whole, with a later plan.
            self.joining_members.arriving.extend((!is_cut).then_some(arrival));
        }
        for Arrival { link, ranks, local, .. } in joins {
            placed.add_all(&ranks);
            let branches = &mut self.topology.branches;
            let lowest = |branch: &Branch| branch.ranks.lowest();
            let place = branches.iter().position(|branch| lowest(branch) > ranks.lowest());
            let branch = Branch { link, ranks: ranks.clone(), local };
            branches.insert(place.unwrap_or(branches.len()), branch);
            admitted.here.extend(plan.joins.first_of(&ranks).map(|first| (link, first)));
        }
    }
}
