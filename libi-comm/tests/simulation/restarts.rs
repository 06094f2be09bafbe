//! Members that are lost, and whose places other processes take.
//!
//! A launch half is modelled: some time after the parent of a member has noticed that it is lost, a new
//! process is started beside it. It continues the program with the first call that it takes part in.

use std::time::Duration;

use libi_comm::{Address, Event, Group};
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};

use crate::masters::Watched;
use crate::member::{Member, Record};
use crate::scenario::{LONG, Scenario, Victim, session_of, up_to, without_waiting};
use crate::world::{Cluster, Happening};
use libi_cases::Session;
use libi_cases::heap::Heap;
use libi_cases::shape::{Placement, Shape, Tree};

/// The timeout of a call that may wait in vain: shorter than that of all that wait for its member, and longer
/// than anything takes that ends at all.
pub(crate) const IN_DOUBT: Duration = Duration::from_secs(LONG.as_secs() / 60);

impl Cluster {
    /// All processes that this rank has had.
    pub(crate) fn processes_of(&self, rank: Rank) -> impl DoubleEndedIterator<Item = &Member> {
        let those = self.by_rank.get(&rank).map_or(&[][..], Vec::as_slice);
        those.iter().map(|at| &self.members[*at])
    }

    /// A further process is started.
    pub(crate) fn add_process(&mut self, member: Member) {
        if let Some(Address::Rank(rank)) = member.process.address {
            self.by_rank.entry(rank).or_default().push(self.members.len());
        }
        self.members.push(member);
    }

    /// The step from which on a rank takes part for good, if another process has taken its place.
    pub(crate) fn is_back_since(&self, rank: Rank) -> Option<u32> {
        self.processes_of(rank).last().filter(|last| last.lost.is_none())?.joined
    }

    /// Whether a rank has had more than one process.
    pub(crate) fn was_restarted(&self, rank: Rank) -> bool {
        self.processes_of(rank).count() > 1
    }

    /// A process has died: another one may take its place.
    pub(crate) fn may_come_back(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let process = &self.members[id.0 as usize].process;
        let is_one = process.topology.local && process.links.is_empty();
        if self.scenario.restarts && is_one && self.rng.chance(0.8) {
            let soon = self.latency() * (1 + self.rng.below(20) as u32);
            agenda.plan(agenda.now() + soon, Happening::Returns(id));
        }
    }

    /// A process is started in the place of a lost one, if its parent knows of the loss.
    pub(crate) fn comes_back(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let old = self.members[id.0 as usize].process.clone();
        let (Some((parent, link)), Some(Address::Rank(rank))) = (old.parent, old.address) else { return };
        if !self.members[parent].alive {
            return;
        }
        if !self.members[parent].cut.contains(&link) {
            let soon = self.latency();
            return agenda.plan(agenda.now() + soon, Happening::Returns(id));
        }
        let new = self.members.len();
        let last = self.members[parent].process.links.keys().next_back().copied().unwrap_or(LinkId(0));
        let link = LinkId(last.0 + 1 + self.rng.below(3) as u32);
        self.members[parent].process.links.insert(link, new);
        let mut process = old;
        process.parent = Some((parent, link));
        process.topology.joins = true;
        let up = Event::Up(process.topology.clone());
        let mut member = Member::new(process);
        // It begins when it is told where.
        member.next = u32::MAX;
        let size = member.process.topology.size;
        member.told_version =
            self.sessions.iter().position(|session| session.size == size).unwrap_or_default();
        self.add_process(member);
        self.parents.push(Some(parent));
        let lends = self.rng.chance(0.5);
        let mut group = if lends { Group::with_memory(Box::new(Heap)) } else { Group::new() };
        group.complete_by(self.scenario.completion);
        let started = agenda.start(Watched::new(group));
        assert_eq!(started, Id(new as u32));
        let ranks: Ranks = [rank].into_iter().collect();
        let parent = Id(parent as u32);
        let (above, below) =
            (self.arrival(parent, link, agenda), self.arrival(started, LinkId::PARENT, agenda));
        agenda.tell(above, parent, Event::Joins { link, ranks, local: true });
        agenda.tell(below, started, up);
        self.returns += 1;
    }

    /// The step of the collective call of this number.
    fn step_of(&self, call: u64) -> u32 {
        let steps = (0..).zip(&self.session.steps).filter(|(_, step)| step.is_collective());
        let step = steps.map(|(at, _)| at).nth(call as usize);
        step.unwrap_or(self.session.steps.len() as u32)
    }

    /// A new process is told its first call.
    pub(crate) fn begins(&mut self, id: Id, first: u64, agenda: &mut Agenda<Self>) {
        let step = self.step_of(first);
        let member = self.member(id);
        (member.next, member.joined) = (step, Some(step));
        member.version = member.told_version;
        agenda.plan(agenda.now(), Happening::Acts(id));
    }

    /// A process is told that others are back.
    pub(crate) fn is_told_of(&mut self, id: Id, ranks: &Ranks, first: u64) {
        let step = self.step_of(first);
        self.knows_of(id, ranks);
        let who = self.members[id.0 as usize].process.to_string();
        for rank in ranks.iter() {
            if !self.was_restarted(rank) && !self.is_new(rank) {
                self.wrong.get_or_insert(format!("{who} is told that {rank} is back, which is not"));
            }
            let member = self.member(id);
            member.told.insert(rank, step.max(member.next));
            if matches!(member.process.address, Some(Address::Rank(_))) {
                member.told_first.insert(rank, step);
            }
        }
    }

    /// Whether the other end of a message may have passed this step with another process, or in none.
    pub(crate) fn may_wait_in_vain(&self, id: Id, step: u32, nth: usize) -> bool {
        let member = &self.members[id.0 as usize];
        let may = self.scenario.has_joining();
        let Some(who) = member.process.address.filter(|_| may) else { return false };
        let session = self.session_of(member.version, step);
        let Some(peer) = self.step(who, step).peer(step, session, who, nth) else { return false };
        match (who, peer) {
            (Address::FrontEnd, Address::Rank(rank)) | (Address::Rank(rank), Address::FrontEnd) => {
                self.was_restarted(rank)
            }
            (Address::Rank(me), Address::Rank(rank)) => {
                let mut new = self.processes_of(rank).skip(usize::from(!self.is_new(rank)));
                // The other may have been at this step when it was told of this process, or is as new.
                let peer = self.processes_of(rank).last();
                let as_new =
                    peer.and_then(|peer| peer.joined).filter(|joined| Some(*joined) >= member.joined);
                let passed = peer.and_then(|peer| peer.told.get(&me).copied()).or(as_new);
                new.any(|process| process.joined.is_none_or(|joined| step < joined))
                    || member.joined.is_some() && passed.is_none_or(|passed| step < passed)
            }
            (_, Address::FrontEnd) => false,
        }
    }

    /// Whether the other end of a message comes to its step only when this one has given it up: several
    /// calls before it may have waited in vain.
    pub(crate) fn peer_comes_later(&self, member: &Member, record: &Record) -> bool {
        let (Some(who), Some((ended, _))) = (member.process.address, &record.ended) else { return false };
        let session = self.session_of(record.version, record.step);
        let peer = self.step(who, record.step).peer(record.step, session, who, record.nth);
        let Some(Address::Rank(peer)) = peer else { return false };
        let mut calls = self.processes_of(peer).flat_map(|peer| peer.calls.values());
        calls.any(|call| call.step == record.step && call.at >= *ended)
    }

    /// Whether a result of a step that members have had together is without one that takes part.
    pub(crate) fn leaves_out(&self, step: u32, missing: &[Rank]) -> Option<Rank> {
        let is_back = |rank: &&Rank| self.is_back_since(**rank).is_some_and(|since| since <= step);
        missing.iter().find(is_back).copied()
    }
}

/// Sessions.
impl Scenario {
    /// Whether processes join.
    pub(crate) fn has_joining(&self) -> bool {
        self.restarts || self.host_returns || !self.growths.is_empty()
    }

    /// A session with any faults in which other processes take the places of lost members.
    pub(crate) fn drawn_and_restarting(seed: u64) -> (Session, Self) {
        let (session, mut scenario) = Self::drawn_and_surviving(seed);
        scenario.completion.reconnects = Rng::new(seed).fork(13).chance(0.5);
        scenario.restarts = true;
        (session, scenario)
    }

    /// A session in which other processes take the places of members that die, and orphans may find a new
    /// parent.
    pub(crate) fn restarting(seed: u64) -> (Session, Self) {
        let mut rng = Rng::new(seed).fork(12);
        let shape = Shape {
            size: 2 + rng.below(24) as u32,
            per_host: [1, 2, 3, 5][rng.below(4) as usize],
            tree: [Tree::Star, Tree::Chain, Tree::Binary, Tree::Late][rng.below(4) as usize],
            placement: if rng.chance(0.7) { Placement::Blocks } else { Placement::Cyclic },
            absent: rng.chance(0.2),
            agents: rng.chance(0.7),
            seed,
        };
        let mut session = session_of(shape, |rng| 4 + rng.below(16), &mut rng);
        let mut scenario = Self::healthy(seed);
        (scenario.completion.continues, scenario.restarts) = (true, true);
        scenario.completion.reconnects = rng.chance(0.6);
        without_waiting(&mut session);
        let duration = scenario.duration(&session);
        let who: Vec<Address> = session.present.iter().copied().map(Address::Rank).collect();
        for _ in 0..1 + rng.below(8) {
            let victim = who[rng.below(who.len() as u64) as usize];
            let is_agent = session.shape.agents && rng.chance(0.15);
            let kill = if is_agent { Victim::AgentOf(victim) } else { Victim::Process(victim) };
            let at = up_to(&mut rng, duration);
            scenario.kills.push((at, kill));
            // Once more, when another process has taken its place or is about to.
            if rng.chance(0.4) {
                let later = up_to(&mut rng, scenario.latency * 40);
                scenario.kills.push((at + later, Victim::Process(victim)));
            }
        }
        for _ in 0..rng.below(3) {
            let (slow, step) =
                (who[rng.below(who.len() as u64) as usize], rng.below(session.steps.len() as u64));
            scenario.slow.insert((slow, step as u32), duration / 4);
        }
        if rng.chance(0.2) {
            scenario.leavers.extend(who.iter().copied().filter(|_| rng.chance(0.2)));
        }
        (session, scenario)
    }

    /// The same, and hosts die as others are about to come back. Their orphans have another parent at once.
    pub(crate) fn restarting_in_haste(seed: u64) -> (Session, Self) {
        let (session, mut scenario) = Self::restarting(seed);
        let mut rng = Rng::new(seed).fork(17);
        (scenario.completion.reconnects, scenario.hasty) = (true, true);
        for (at, _) in scenario.kills.clone() {
            let soon = up_to(&mut rng, scenario.latency * 60);
            let beside = session.present[rng.below(session.present.len() as u64) as usize];
            scenario.kills.push((at + soon, Victim::AgentOf(Address::Rank(beside))));
        }
        (session, scenario)
    }
}
