//! How a new process begins, and what it does before, if it loses its parent.
//!
//! | event before the welcome | what follows |
//! |---|---|
//! | `Welcome` | passed on to all branches; the process begins |
//! | `Severed` from the parent | none: it has no part in any plan |
//! | `Reattached` | `AwaitsWelcome` to the new parent |
//! | `Halt` | `Halted`, with the members that wait here and below |
//! | `Joins` | a branch, if its members join by the plan that welcomes this process; else after that |
//! | events of other branches, calls | kept until it begins |

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::loss::Loss;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::{Branch, Topology};
use serde::{Deserialize, Serialize};

use super::admission::Admitted;
use crate::contract::{Effect, Event};
use crate::group::kvs::Fences;
use crate::group::masters::Masters;
use crate::group::survival::{Missing, Plan, Report, SettledCall};
use crate::group::{Group, GroupView};
use crate::message::Message;

/// To a new process: when it begins, and what it has to know until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// It joins in this round or has before.
    pub(crate) round: u64,
    /// The number of its first call.
    pub(crate) first: u64,
    /// The members that are missing since this round, in which others have moved.
    pub(crate) missing: Missing,
    /// Of its calls, those that another member has completed before, and who was missing in earlier rounds.
    pub(crate) settled: Vec<SettledCall>,
    pub(crate) before: Vec<(u64, Missing)>,
    pub(crate) moved: Vec<Ranks>,
    /// Others may be lost since.
    pub(crate) lost: Ranks,
    pub(crate) losses: Vec<Loss>,
    /// The number of ranks since this round, and the absent ones.
    pub(crate) size: u32,
    pub(crate) absent: Ranks,
    pub(crate) fences: Fences,
    pub(crate) masters: Masters,
}

/// In the process above.
impl Group {
    /// A process at the other end of a new link was adopted, and has no part in any plan.
    pub(in crate::group) fn awaits_welcome(
        &mut self,
        link: LinkId,
        waiting: &Ranks,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if let Some(stray) = self.view.joining_members.take_stray(link) {
            // Hosts that have come below it since are reported when they can be told of their welcome.
            return self.joins(link, &stray.ranks.intersection(waiting), false, now, out);
        }
        if self.view.is_arriving(link) || link == LinkId::PARENT || !self.collective.continues() {
            return;
        }
        self.view.joining_members.unwelcome.insert(link);
        self.reports_arrival(now, out);
    }

    /// Tells new processes when they begin, before anything else is sent to them.
    pub(in crate::group) fn welcome(&self, admitted: &Admitted, plan: &Plan, out: &mut Vec<Effect>) {
        for &(link, first) in &admitted.here {
            let mut ranks = self.view.missing.clone();
            ranks.remove_all(&self.view.topology.absent);
            // Those that are back, but not there yet for this process, fail its calls by their old losses.
            let mut not_there = self.view.lost.clone();
            let later = self.view.joins().those.iter().filter(|join| join.first > first);
            later.for_each(|join| not_there.add_all(&join.ranks));
            // The data of a broadcast may have been handed over before it was there.
            let settled = plan.settled.iter().filter(|call| call.nth >= first).cloned().collect();
            let welcome = Welcome {
                round: self.collective.round(),
                first,
                missing: Missing { ranks, joins: self.view.joins().clone() },
                settled,
                before: plan.before.clone(),
                moved: plan.moved.clone(),
                lost: self.view.lost.clone(),
                losses: self.reasons(&not_there),
                size: self.view.topology.size,
                absent: self.view.topology.absent.clone(),
                fences: self.kvs.fences(),
                masters: self.view.masters.clone(),
            };
            out.push(Effect::Send(link, Message::Welcome(welcome).frame(None)));
            self.collective.tell_aborted(link, out);
        }
    }
}

/// In the new process.
impl Group {
    /// A frame has arrived before this process takes part.
    pub(in crate::group) fn on_welcome(
        &mut self,
        mut topology: Topology,
        frame: Bytes,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<Topology> {
        let welcome = match Message::decode(frame) {
            Some((Message::Welcome(welcome), _)) => welcome,
            Some((message, _)) => {
                Self::on_halt_before_welcome(&topology, &message, out);
                return Some(topology);
            }
            None => return Some(topology),
        };
        // All below are new as well.
        self.take_early_arrivals(&welcome, &mut topology);
        for branch in &topology.branches {
            out.push(Effect::Send(branch.link, Message::Welcome(welcome.clone()).frame(None)));
        }
        let expected = topology.size;
        (topology.size, topology.absent) = (welcome.size, welcome.absent.clone());
        self.view = GroupView::new(topology);
        self.view.leave_out(&welcome.missing.ranks);
        self.view.rebuild_routes();
        self.have_masters(welcome.masters.clone(), out);
        self.view.joining_members.joins = welcome.missing.joins.clone();
        for join in &welcome.missing.joins.those {
            let joined: Vec<_> = join.ranks.iter().map(|rank| (rank, join.round)).collect();
            self.view.joining_members.had_joined(&joined);
        }
        self.collective.up(&self.view);
        self.collective.begin_at(&welcome, &self.view);
        let Welcome { round, first, moved, lost, losses, fences, .. } = welcome;
        self.kvs.begin_at(fences);
        self.told_size = self.view.size_in(first);
        if self.told_size != expected {
            let absent = self.known_to_program(&self.view.topology.absent);
            out.push(Effect::Grown { size: self.told_size, absent });
        }
        out.push(Effect::Begins(first));
        (self.view.lost, self.losses) = (lost, losses);
        // For this program, others that begin later are not there before that.
        let later = self.view.joins().those.iter().filter(|join| join.first > first);
        self.unannounced = later.map(|join| (join.first, join.ranks.clone())).collect();
        let mut not_there = self.view.lost.clone();
        self.unannounced.iter().for_each(|(_, ranks)| not_there.add_all(ranks));
        self.tell_lost(self.known_to_program(&not_there), out);
        // Others may have known of this process before its parent did, which had moved.
        let new = self.view.joins().in_round(round);
        let is_new = self.view.topology.me.is_some_and(|me| new.contains(me));
        if !is_new {
            self.p2p.moved(round, &moved, &new, &self.view, out);
        }
        if std::mem::take(&mut self.was_orphan) {
            self.kvs.announce_again(&self.view, out);
        }
        self.begin(now, out);
        None
    }

    /// A frame has arrived from the parent, and this process awaits its welcome. Another parent than the
    /// first tells it to halt, and hears which members wait.
    pub(in crate::group) fn on_halt_before_welcome(
        topology: &Topology,
        message: &Message,
        out: &mut Vec<Effect>,
    ) {
        let Message::Halt { nth, .. } = message else { return };
        let report = Report { joins: waiting(topology), ..Report::default() };
        out.push(Effect::Send(LinkId::PARENT, Message::Halted { nth: *nth, report }.frame(None)));
    }

    /// Hosts that have come below this process while it was an orphan may join by the plan that welcomes
    /// it, as the process that has adopted it knew of them.
    pub(in crate::group) fn take_early_arrivals(&mut self, welcome: &Welcome, topology: &mut Topology) {
        let mut take_part = Ranks::first(welcome.size);
        take_part.remove_all(&welcome.missing.ranks);
        take_part.remove_all(&welcome.lost);
        take_part.remove_all(&welcome.absent);
        self.early_events.retain(|event| {
            let Event::Joins { link, ranks, local } = event else { return true };
            let ranks = ranks.intersection(&take_part);
            let is_later = ranks.is_empty();
            if !is_later {
                // It may take the place of one that was lost before it began.
                topology.branches.iter_mut().for_each(|branch| branch.ranks.remove_all(&ranks));
                topology.branches.retain(|branch| !branch.ranks.is_empty());
                topology.branches.push(Branch { link: *link, ranks, local: *local });
            }
            is_later
        });
        topology.branches.sort_by_key(|branch| branch.ranks.lowest());
    }

    /// This process has another parent, and awaits its welcome.
    pub(in crate::group) fn reattached_before_welcome(&mut self, out: &mut Vec<Effect>) {
        self.was_orphan = true;
        let waiting = self.awaiting_welcome.as_ref().map_or_else(Ranks::new, waiting);
        out.push(Effect::Send(LinkId::PARENT, Message::AwaitsWelcome(waiting).frame(None)));
    }
}

/// The members here and below that a welcome is passed on to.
fn waiting(topology: &Topology) -> Ranks {
    let mut all: Ranks = topology.me.into_iter().collect();
    topology.branches.iter().for_each(|branch| all.add_all(&branch.ranks));
    all
}
