//! A session in which groups communicate: processes, the links between them, the calls of their
//! programs, and faults.
//!
//! The groups are not modelled: every process has a [`Group`], the same that a real process drives.
//! Their environment is. Frames arrive late and in order, as bytes. Programs take the steps of a
//! [`Session`], pause between them, have timeouts, stop calling, or call something else. Processes
//! die, and everything below them ends.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use libi_comm::{Address, Bytes, CallId, Effect, Event, Frame, Group};
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id, World};
use libi_core::time::Instant;

use crate::masters::{Watched, pass_through_front_end};
use crate::member::{Ending, Member, Traffic, in_order, other_end};
use crate::reasons;
use crate::scenario::{Scenario, Victim};
use libi_cases::heap::Heap;
use libi_cases::step::Step;
use libi_cases::{Oracle, Session};

/// Something that happens to the session.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A member continues its program.
    Acts(Id),
    /// The timeout of a call elapses.
    Expires(Id, CallId),
    /// A process ends.
    Dies(Id),
    /// A process whose program is over ends as soon as it has nothing left to send.
    Leaves(Id),
    /// A process finds a link closed.
    Cut(Id, LinkId),
    /// An orphan tries to connect to a process above, or ends if it has not by now.
    Seeks(Id),
    GivesUp(Id),
    /// A process waits no longer for those behind a link.
    Forsakes(Id, LinkId),
    /// Another process takes the place of this one, which has died.
    Returns(Id),
    /// Another host is started in the place of the one that this process led.
    HostReturns(Id),
    /// The session grows. A host with these members joins below a process, and with it hosts below, when
    /// there are so many ranks.
    Grows,
    Arrives(Id, Vec<Rank>, Vec<Vec<Rank>>, u32),
    /// A process is woken, as it has asked.
    Wakes(Id),
}

pub(crate) struct Cluster {
    pub(crate) session: Arc<Session>,
    /// The same each time that it has grown, and when; the first is that of the beginning.
    pub(crate) sessions: Vec<Arc<Session>>,
    pub(crate) grown_at: Vec<Instant>,
    /// The ranks that are absent.
    pub(crate) absent: Ranks,
    pub(crate) scenario: Scenario,
    pub(crate) ring: Option<Vec<Rank>>,
    /// What is expected without the members that are missing in some calls, each time that the session
    /// has grown.
    pub(crate) oracles: BTreeMap<(usize, Vec<Rank>), Oracle>,
    pub(crate) members: Vec<Member>,
    pub(crate) traffic: Traffic,
    /// The first violation that was seen during the run.
    pub(crate) wrong: Option<String>,
    /// Looked up once, when the run is over.
    pub(crate) some_call_waits_forever: OnceCell<bool>,
    /// The processes that each rank has had.
    pub(crate) by_rank: BTreeMap<Rank, Vec<usize>>,
    pub(crate) rng: Rng,
    arrivals: BTreeMap<(Id, LinkId), Instant>,
    /// The processes in the order of the tree.
    pub(crate) places: Vec<usize>,
    /// The parent of each process at the beginning.
    pub(crate) parents: Vec<Option<usize>>,
    /// When the last orphan instead of a link was adopted.
    pub(crate) connected: BTreeMap<(Id, LinkId), Instant>,
    /// From when until when an orphan has no parent.
    pub(crate) without_parent: BTreeMap<Id, (Instant, Instant)>,
    /// The leaders of lost hosts whose members are about to come back.
    pub(crate) lost_hosts: BTreeSet<usize>,
    /// How many orphans were adopted.
    pub(crate) adoptions: u64,
    /// How many members were restarted, and new hosts have come.
    pub(crate) returns: u64,
    pub(crate) growths: u64,
}

impl Cluster {
    pub(crate) fn new(session: Arc<Session>, scenario: Scenario) -> Self {
        let mut processes = session.shape.processes();
        if scenario.completion.replaces_master {
            pass_through_front_end(&mut processes);
        }
        let places = in_order(&processes);
        let parents = processes.iter().map(|process| process.parent.map(|(parent, _)| parent)).collect();
        let ring = places.iter().filter_map(|at| processes[*at].topology.me).collect();
        let absent = processes.first().map(|process| process.topology.absent.clone());
        let mut cluster = Self {
            sessions: vec![session.clone()],
            grown_at: vec![Instant::ZERO],
            absent: absent.unwrap_or_default(),
            // Members that come back have other neighbors.
            ring: Some(ring).filter(|_| !scenario.has_joining()),
            oracles: BTreeMap::new(),
            members: Vec::new(),
            traffic: Traffic::default(),
            wrong: None,
            some_call_waits_forever: OnceCell::new(),
            by_rank: BTreeMap::new(),
            rng: Rng::new(scenario.seed).fork(2),
            arrivals: BTreeMap::new(),
            places,
            parents,
            connected: BTreeMap::new(),
            without_parent: BTreeMap::new(),
            lost_hosts: BTreeSet::new(),
            adoptions: 0,
            returns: 0,
            growths: 0,
            session,
            scenario,
        };
        processes.into_iter().for_each(|process| cluster.add_process(Member::new(process)));
        cluster
    }

    /// Starts all processes, and schedules their faults.
    pub(crate) fn begin(&mut self, agenda: &mut Agenda<Self>) {
        for _ in &self.members {
            let lends = self.rng.chance(0.5);
            let mut group = if lends { Group::with_memory(Box::new(Heap)) } else { Group::new() };
            group.complete_by(self.scenario.completion);
            agenda.start(Watched::new(group));
        }
        for at in 0..self.members.len() {
            let id = Id(at as u32);
            // A process that is up tells its children so before it sends them anything else.
            let up = Event::Up(self.members[at].process.topology.clone());
            match self.members[at].process.parent {
                None => agenda.tell(Instant::ZERO, id, up),
                Some((parent, _)) => {
                    let told = self.arrivals.get(&(Id(parent as u32), LinkId::PARENT)).copied();
                    let at = told.unwrap_or_default() + self.latency();
                    self.arrivals.insert((id, LinkId::PARENT), at);
                    agenda.tell(at, id, up);
                }
            }
            // Some processes make calls before they are up.
            let begins = self.think(id, 0);
            agenda.plan(Instant::ZERO + begins, Happening::Acts(id));
        }
        for after in self.scenario.growths.clone() {
            agenda.plan(Instant::ZERO + after, Happening::Grows);
        }
        for (after, who) in self.scenario.kills.clone() {
            if let Some(at) = self.victim(who) {
                agenda.plan(Instant::ZERO + after, Happening::Dies(Id(at as u32)));
            }
        }
    }

    /// The process that is to die.
    fn victim(&self, who: Victim) -> Option<usize> {
        let (Victim::Process(address) | Victim::AgentOf(address) | Victim::HostOf(address)) = who;
        let process = self.members.iter().rposition(|member| member.process.address == Some(address))?;
        match (who, self.members[process].process.parent) {
            (Victim::AgentOf(_), Some((agent, _))) => Some(agent),
            (Victim::HostOf(_), _) => Some(self.leader_of(process)),
            _ => Some(process),
        }
    }

    pub(crate) fn member(&mut self, id: Id) -> &mut Member {
        &mut self.members[id.0 as usize]
    }

    /// When a rank was lost first.
    pub(crate) fn lost(&self, rank: Rank) -> Option<Instant> {
        let lost = self.processes_of(rank).filter_map(|member| member.lost);
        lost.chain(self.is_known_since(rank)).min()
    }

    /// The step of a process: that of the program, or its mistake.
    pub(crate) fn step(&self, who: Address, step: u32) -> &Step {
        let mistakes = self.scenario.mistakes.get(&(who, step));
        mistakes.unwrap_or(&self.session.steps[step as usize])
    }

    pub(crate) fn latency(&mut self) -> Duration {
        let most = self.scenario.latency.as_micros() as u64;
        Duration::from_nanos(1_000 + self.rng.below(most * 1_000 + 1))
    }

    fn send(
        &mut self,
        from: Id,
        link: LinkId,
        frame: &Frame,
        lent: Option<Bytes>,
        agenda: &mut Agenda<Self>,
    ) {
        let member = &self.members[from.0 as usize];
        if link == LinkId::PARENT
            && let Some((since, until)) = self.without_parent.get(&from)
            && (*since < agenda.now() && agenda.now() < *until)
        {
            self.wrong.get_or_insert(format!("{} sends upwards, and has no parent", member.process));
        }
        if member.cut.contains(&link) {
            return;
        }
        let Some((to, at)) = other_end(member, link) else {
            let who = &member.process;
            self.wrong.get_or_insert(format!("{who} sends over {link}, which it does not have"));
            return;
        };
        if !self.members[to.0 as usize].alive {
            return;
        }
        let arrives = self.arrival(to, at, agenda);
        self.traffic.sent((to, at), agenda.now(), arrives, frame.len());
        if let Some(lent) = lent {
            agenda.tell(arrives, to, Event::Region(at, lent));
        }
        agenda.tell(arrives, to, Event::Frame(at, frame.concat()));
    }

    /// What is sent to a process over a link arrives after this.
    pub(crate) fn arrivals_since(&mut self, to: Id, link: LinkId, at: Instant) {
        let latest = self.arrivals.entry((to, link)).or_default();
        *latest = at.max(*latest);
    }

    /// The arrival time of what is sent now, after everything sent before.
    pub(crate) fn arrival(&mut self, to: Id, link: LinkId, agenda: &Agenda<Self>) -> Instant {
        let latest = self.arrivals.get(&(to, link)).copied().unwrap_or_default();
        let at = (agenda.now() + self.latency()).max(latest + Duration::from_nanos(1));
        self.arrivals.insert((to, link), at);
        at
    }
}

impl World for Cluster {
    type Machine = Watched;
    type WorldEvent = Happening;

    fn carry_out(&mut self, from: Id, effect: Effect, agenda: &mut Agenda<Self>) {
        match effect {
            Effect::Send(link, frame) => self.send(from, link, &frame, None, agenda),
            Effect::SendRegion(link, frame, lent) => self.send(from, link, &frame, Some(lent.bytes), agenda),
            Effect::Finish(call, result) => {
                let ending = self.checked(from, call, result);
                self.finish(from, call, ending, agenda);
            }
            Effect::Confirmed(_) | Effect::Master(_) => {}
            Effect::Missing(call, ranks) => {
                if let Some(record) = self.member(from).calls.get_mut(&call) {
                    record.missing = ranks.iter().collect();
                }
            }
            Effect::Grown { .. } => self.has_grown(from, &effect, agenda.now()),
            Effect::Joined(ranks, first) => self.is_told_of(from, &ranks, first),
            Effect::Begins(first) => self.begins(from, first, agenda),
            Effect::WakeAt(at) => agenda.plan(at, Happening::Wakes(from)),
            Effect::Lost(ranks, _) => {
                self.knows_of(from, &ranks);
                let who = &self.members[from.0 as usize].process;
                if let Some(rank) = ranks.iter().find(|rank| self.lost(*rank).is_none()) {
                    self.wrong.get_or_insert(format!("{who} is told that {rank} is lost, who is not"));
                }
            }
        }
    }

    fn on_world_event(&mut self, what: Happening, agenda: &mut Agenda<Self>) {
        match what {
            Happening::Acts(id) => self.act(id, agenda),
            Happening::Expires(id, call) => {
                let member = &self.members[id.0 as usize];
                if member.alive && member.calls.get(&call).is_some_and(|record| record.ended.is_none()) {
                    agenda.tell(agenda.now(), id, Event::Cancel(call));
                    self.finish(id, call, Ending::GivenUp, agenda);
                }
            }
            Happening::Dies(id) => self.die(id, agenda),
            Happening::Returns(id) => self.comes_back(id, agenda),
            Happening::HostReturns(id) => self.hosts_return(id, agenda),
            Happening::Grows => self.grow(agenda),
            Happening::Arrives(parent, own, below, size) => self.arrive(parent, &own, &below, size, agenda),
            Happening::Seeks(id) => self.seek(id, agenda),
            Happening::GivesUp(id) => self.give_up(id, agenda),
            Happening::Forsakes(id, link) => self.forsake(id, link, agenda),
            Happening::Leaves(id) => self.leave(id, agenda),
            Happening::Wakes(id) => {
                if self.members[id.0 as usize].alive {
                    agenda.tell(agenda.now(), id, Event::Woken);
                }
            }
            Happening::Cut(id, link) => {
                if !self.members[id.0 as usize].alive {
                    return;
                }
                self.member(id).cut.insert(link);
                let member = &self.members[id.0 as usize];
                let is_local = member.process.topology.local;
                let leaves_orphans = |(parent, _): (usize, LinkId)| self.leaves_orphans(parent);
                if link == LinkId::PARENT && !is_local && member.process.parent.is_some_and(leaves_orphans) {
                    return self.is_orphan(id, agenda);
                }
                let reason = reasons::of_cut(self.member(id), link);
                let event = self.severs(id, link, agenda).unwrap_or(Event::Cut(link, reason));
                agenda.tell(agenda.now(), id, event);
                if link == LinkId::PARENT {
                    let soon = self.latency();
                    agenda.plan(agenda.now() + soon, Happening::Dies(id));
                }
            }
        }
    }
}
