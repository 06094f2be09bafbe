//! How a new process begins, and what it does before, if it loses its parent.
//!
//! | event before the welcome | what follows |
//! |---|---|
//! | `Welcome` | passed on to all branches; the process begins |
//! | `Severed` from the parent | none: it has no part in any plan |
//! | `Reattached` | `AwaitsWelcome` to the new parent |
//! | a host below is lost, or says that one below it is | `AwaitsWelcome` to the parent, without its members: they may come back elsewhere |
//! | `Halt` | `Halted`, with the members that wait here and below |
//! | `Joins` | a branch, if the welcome names its members; else after that |
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
use crate::group::survival::{Arrived, Missing, Plan, Report, SettledCall};
use crate::group::{Group, GroupView};
use crate::message::Message;

/// To a new process: when it begins, and what it has to know until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// It joins in this round or has before.
    pub(crate) round: u64,
    /// The members here and below that join with it. Others may have joined elsewhere with the ranks of a host
    /// that was below and is lost.
    pub(crate) ranks: Ranks,
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
            return self.joins(link, &stray.ranks.intersection(waiting), false);
        }
        if let Some(arrival) = self.view.joining_members.arriving.iter_mut().find(|it| it.link == link) {
            // A host below it is lost, and may come back elsewhere.
            arrival.gone.clone_from(&arrival.ranks);
            arrival.gone.remove_all(waiting);
            return;
        }
        let is_adopted = self.view.joining.iter().any(|adoption| adoption.link == link);
        if !is_adopted || !self.collective.continues() {
            return;
        }
        if self.view.joining_members.unwelcome.insert(link) {
            self.reports_arrival(now, out);
        }
        // All there are new: those that were awaited here are others, unless a plan has admitted these.
        let there = waiting.intersection(&self.view.joining_members.joins.ranks());
        self.has_moved_with(link, &there, now, out);
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
            let branch = self.view.topology.branches.iter().find(|branch| branch.link == link);
            // The data of a broadcast may have been handed over before it was there.
            let settled = plan.settled.iter().filter(|call| call.nth >= first).cloned().collect();
            let welcome = Welcome {
                round: self.collective.round(),
                ranks: branch.map_or_else(Ranks::new, |branch| branch.ranks.clone()),
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
        newcomer: Newcomer,
        frame: Bytes,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<Newcomer> {
        let welcome = match Message::decode(frame) {
            Some((Message::Welcome(welcome), _)) => welcome,
            Some((message, _)) => {
                newcomer.on_halt(&message, out);
                return Some(newcomer);
            }
            None => return Some(newcomer),
        };
        // All below are new as well.
        let Newcomer { mut topology, .. } = newcomer;
        topology.branches.retain_mut(|branch| {
            if !branch.local {
                branch.ranks = branch.ranks.intersection(&welcome.ranks);
            }
            branch.local || !branch.ranks.is_empty()
        });
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

    /// Hosts that have come below this process while it was an orphan may join by the plan that welcomes
    /// it, as the process that has adopted it knew of them.
    pub(in crate::group) fn take_early_arrivals(&mut self, welcome: &Welcome, topology: &mut Topology) {
        let mut take_part = Ranks::first(welcome.size);
        take_part.remove_all(&welcome.missing.ranks);
        take_part.remove_all(&welcome.lost);
        take_part.remove_all(&welcome.absent);
        self.early_events.retain(|event| {
            let Event::Joins { link, ranks, local } = event else { return true };
            let is_whole = ranks.intersection(&welcome.ranks) == *ranks;
            let ranks = ranks.intersection(&take_part);
            let is_later = ranks.is_empty() || !is_whole;
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
        if let Some(newcomer) = &mut self.awaiting_welcome {
            newcomer.is_orphan = false;
            newcomer.awaits_welcome(out);
        }
    }
}

/// A new process, until it is told its first call.
#[derive(Debug)]
pub(in crate::group) struct Newcomer {
    topology: Topology,
    /// Members of hosts below that are lost. Others may come back with these ranks, elsewhere.
    gone: Ranks,
    /// Whether it has no parent.
    is_orphan: bool,
}

impl Newcomer {
    pub(in crate::group) const fn new(topology: Topology) -> Self {
        Self { topology, gone: Ranks::new(), is_orphan: false }
    }

    /// The members here and below that a welcome is passed on to.
    fn waiting(&self) -> Ranks {
        let mut all: Ranks = self.topology.me.into_iter().collect();
        self.topology.branches.iter().for_each(|branch| all.add_all(&branch.ranks));
        all.remove_all(&self.gone);
        all
    }

    /// Something happens before the welcome. True if it is over with that: it need not be kept until then.
    pub(in crate::group) fn on(&mut self, event: &Event, out: &mut Vec<Effect>) -> bool {
        match event {
            Event::Severed(LinkId::PARENT, ..) => self.is_orphan = true,
            Event::Cut(link, _) => {
                let all = Ranks::first(u32::MAX);
                self.lost_below(*link, &all, out);
                return false;
            }
            Event::Severed(link, died, _) => {
                self.lost_below(*link, died, out);
                return false;
            }
            Event::Frame(link, frame) => {
                let Some((Message::AwaitsWelcome(waiting), _)) = Message::decode(frame.clone()) else {
                    return false;
                };
                let branch = self.topology.branches.iter().find(|branch| branch.link == *link);
                let Some(mut gone) = branch.map(|branch| branch.ranks.clone()) else { return false };
                gone.remove_all(&waiting);
                self.lost_below(*link, &gone, out);
            }
            _ => return false,
        }
        true
    }

    /// Members are lost with a host below. Those of this host come back here, if at all.
    fn lost_below(&mut self, link: LinkId, died: &Ranks, out: &mut Vec<Effect>) {
        let mut branches = self.topology.branches.iter();
        let Some(branch) = branches.find(|branch| branch.link == link && !branch.local) else { return };
        self.gone.add_all(&branch.ranks.intersection(died));
        if !self.is_orphan {
            self.awaits_welcome(out);
        }
    }

    /// Says which members wait.
    fn awaits_welcome(&self, out: &mut Vec<Effect>) {
        out.push(Effect::Send(LinkId::PARENT, Message::AwaitsWelcome(self.waiting()).frame(None)));
    }

    /// A frame has arrived from the parent. Another one than the first tells this process to halt, and hears
    /// which members wait.
    fn on_halt(&self, message: &Message, out: &mut Vec<Effect>) {
        let Message::Halt { round, nth } = message else { return };
        // It was reported by its first parent, in a round that is not known here.
        let joins = vec![Arrived { rounds: (0, *round), ranks: self.waiting() }];
        let report = Report { joins, ..Report::default() };
        out.push(Effect::Send(LinkId::PARENT, Message::Halted { nth: *nth, report }.frame(None)));
    }
}
