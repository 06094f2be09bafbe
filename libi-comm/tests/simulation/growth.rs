//! Sessions that grow: new hosts with members, each at a random process of the session.
//!
//! A launch half is modelled: the order to grow reaches every process at another time, the process above
//! a new host before the host itself. Some new members are absent, and some hosts die while they arrive.
//! A member takes each step with as many members as it has been told of when it makes a collective call,
//! and new ones continue the program with the first call in which they take part. All results say how
//! many ranks there are.

use std::sync::Arc;

use libi_comm::{Address, Branch, Effect, Event, Group, Topology};
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;

use crate::masters::Watched;
use crate::member::Member;
use crate::scenario::{Scenario, Victim, up_to};
use crate::world::{Cluster, Happening};
use libi_cases::Session;
use libi_cases::heap::Heap;
use libi_cases::shape::Process;
use libi_cases::step::Step;
use libi_cases::transfers::Pattern;

/// A host that is about to join: the host above it among those that join with it, and its members.
struct NewHost {
    above: Option<usize>,
    ranks: Vec<Rank>,
}

impl Cluster {
    /// The ranks by which the session has grown.
    pub(crate) fn is_new(&self, rank: Rank) -> bool {
        rank.0 >= self.sessions[0].size
    }

    /// How many times the session has grown when it has so many ranks.
    fn version(&self, size: u32) -> Option<usize> {
        self.sessions.iter().position(|session| session.size == size)
    }

    /// Whether only the first members take part in a step: the front end does not know which step others
    /// are at when it hears that the session has grown.
    fn is_for_first(&self, step: u32) -> bool {
        let step = self.session.steps.get(step as usize);
        matches!(step, Some(Step::P2p { who: Pattern::ToFront | Pattern::FromFront, .. }))
    }

    /// How many times the session had grown, for what a process does at a step.
    pub(crate) fn version_of(&self, version: usize, step: u32) -> usize {
        if self.is_for_first(step) { 0 } else { version }
    }

    /// The session as a process knows it at a step.
    pub(crate) fn session_of(&self, version: usize, step: u32) -> &Arc<Session> {
        &self.sessions[self.version_of(version, step)]
    }

    /// A member begins a step: what it knows of the session counts from its next collective call on.
    pub(crate) fn version_at(&mut self, id: Id, step: &Step) -> usize {
        let member = self.member(id);
        if step.is_collective() {
            member.version = member.told_version;
        }
        member.version
    }

    /// Whether a process takes no part in a step because only the first members do.
    pub(crate) fn skips(&self, who: Address, step: u32) -> bool {
        self.is_for_first(step) && matches!(who, Address::Rank(rank) if self.is_new(rank))
    }

    /// The session grows.
    pub(crate) fn grow(&mut self, agenda: &mut Agenda<Self>) {
        let Some(parent) = self.host_above() else { return };
        let Session { size: before, present, .. } = &**self.sessions.last().expect("the first is there");
        let (before, mut present) = (*before, present.clone());
        let mut size = before;
        let mut hosts: Vec<NewHost> = Vec::new();
        for nth in 0..=self.rng.below(3) as usize {
            // No more than two hosts are below each other.
            let above =
                nth.checked_sub(1).filter(|above| hosts[*above].above.is_none() && self.rng.chance(0.6));
            let is_absent = self.rng.chance(0.1) || above.is_some_and(|above| hosts[above].ranks.is_empty());
            let mut ranks: Vec<Rank> = (0..=self.rng.below(3) as u32).map(|nth| Rank(size + nth)).collect();
            size += ranks.len() as u32;
            let absent = match ranks.len() {
                _ if is_absent => std::mem::take(&mut ranks),
                2.. if self.rng.chance(0.1) => ranks.pop().into_iter().collect(),
                _ => Vec::new(),
            };
            self.absent.add_all(&absent.into_iter().collect());
            hosts.push(NewHost { above, ranks });
        }
        present.extend((before..size).map(Rank).filter(|rank| !self.absent.contains(*rank)));
        let mut session = Session::clone(&self.session);
        (session.size, session.present) = (size, present);
        self.sessions.push(Arc::new(session));
        self.grown_at.push(agenda.now());
        self.tell_of_growth(size, agenda);
        for (nth, host) in hosts.iter().enumerate() {
            if host.above.is_some() || host.ranks.is_empty() {
                continue;
            }
            let below = hosts.iter().filter(|other| other.above == Some(nth) && !other.ranks.is_empty());
            let below = below.map(|host| host.ranks.clone()).collect();
            let soon = self.latency() * (1 + self.rng.below(20) as u32);
            let arrives = Happening::Arrives(Id(parent as u32), host.ranks.clone(), below, size);
            agenda.plan(agenda.now() + soon, arrives);
        }
    }

    /// A process that leads a host at or below the top, and has nothing else to do than to stay.
    pub(crate) fn host_above(&mut self) -> Option<usize> {
        let is_one = |member: &Member| {
            let Process { address, topology, .. } = &member.process;
            let leaves = address.is_some_and(|address| self.scenario.leavers.contains(&address));
            member.alive && !topology.local && (topology.top || topology.has_parent) && !leaves
        };
        let all: Vec<usize> = (0..self.members.len()).filter(|at| is_one(&self.members[*at])).collect();
        (!all.is_empty()).then(|| all[self.rng.below(all.len() as u64) as usize])
    }

    /// The order reaches every process, the front end first.
    fn tell_of_growth(&mut self, size: u32, agenda: &mut Agenda<Self>) {
        for at in 0..self.members.len() {
            let most = if at == 0 { 1 } else { 1 + self.rng.below(12) as u32 };
            let reaches = agenda.now() + self.latency() * most;
            self.hears_of_growth(Id(at as u32), size, reaches, agenda);
        }
    }

    fn hears_of_growth(&mut self, id: Id, size: u32, at: Instant, agenda: &mut Agenda<Self>) {
        let member = self.member(id);
        let at = at.max(member.hears_at + std::time::Duration::from_nanos(1));
        member.hears_at = at;
        let absent = self.absent.intersection(&Ranks::first(size));
        agenda.tell(at, id, Event::Grows { size, absent });
    }

    /// What an orphan and those below it hear of growth comes before all that the new parent sends them: that
    /// repeats it.
    pub(crate) fn hear_of_growth_first(&mut self, orphan: usize) {
        for at in self.subtree(orphan) {
            let Member { hears_at, joins_at, .. } = self.members[at];
            self.arrivals_since(Id(at as u32), LinkId::PARENT, hears_at.max(joins_at));
        }
    }

    /// A new host is up, and those below it.
    pub(crate) fn arrive(
        &mut self,
        parent: Id,
        own: &[Rank],
        below: &[Vec<Rank>],
        size: u32,
        agenda: &mut Agenda<Self>,
    ) {
        let at = parent.0 as usize;
        let returns = self.has_been(own);
        if !self.members[at].alive {
            if returns {
                self.host_is_started(own.to_vec(), below.to_vec(), agenda);
            }
            return;
        }
        let first = self.members.len();
        let leader = self.add_host(at, own, size);
        for ranks in below {
            self.add_host(leader, ranks, size);
        }
        let added: Vec<usize> = (first..self.members.len()).collect();
        for at in added.iter().rev() {
            self.complete_topology(*at);
        }
        for at in &added {
            let lends = self.rng.chance(0.5);
            let mut group = if lends { Group::with_memory(Box::new(Heap)) } else { Group::new() };
            group.complete_by(self.scenario.completion);
            assert_eq!(agenda.start(Watched::new(group)), Id(*at as u32));
            let up = Event::Up(self.members[*at].process.topology.clone());
            let told = self.arrival(Id(*at as u32), LinkId::PARENT, agenda);
            agenda.tell(told, Id(*at as u32), up);
        }
        let link = self.members[leader].process.parent.map_or(LinkId(0), |(_, link)| link);
        let ranks = self.members[leader].process.ranks();
        let above = self.arrival(parent, link, agenda).max(self.members[at].hears_at);
        let joins_at = above + std::time::Duration::from_nanos(1);
        self.member(parent).joins_at = joins_at.max(self.members[at].joins_at);
        agenda.tell(joins_at, parent, Event::Joins { link, ranks, local: false });
        self.arrivals_since(parent, link, joins_at);
        if returns {
            self.returns += 1;
        } else {
            self.growths += 1;
        }
        // Some die while they arrive, others later.
        for at in added {
            if self.rng.chance(0.12) {
                let most = self.scenario.latency * [8, 40, 400][self.rng.below(3) as usize];
                let dies = agenda.now() + up_to(&mut self.rng, most);
                agenda.plan(dies, Happening::Dies(Id(at as u32)));
            }
        }
    }

    /// Adds the processes of a host, its leader first.
    fn add_host(&mut self, parent: usize, ranks: &[Rank], size: u32) -> usize {
        let host = self.members.iter().map(|member| member.process.host).max().unwrap_or_default() + 1;
        let agent = self.session.shape.agents.then_some(None);
        let mut leader = None;
        for address in agent.into_iter().chain(ranks.iter().map(|rank| Some(Address::Rank(*rank)))) {
            let above = leader.unwrap_or(parent);
            let new = self.members.len();
            let last = self.members[above].process.links.keys().next_back().copied().unwrap_or(LinkId(0));
            let link = LinkId(last.0 + 1 + self.rng.below(3) as u32);
            self.members[above].process.links.insert(link, new);
            let me = if let Some(Address::Rank(rank)) = address { Some(rank) } else { None };
            let absent = self.absent.intersection(&Ranks::first(size));
            let topology = Topology {
                me,
                size,
                absent,
                has_parent: true,
                local: leader.is_some(),
                joins: true,
                ..Topology::default()
            };
            let parent = Some((above, link));
            let mut member = Member::new(Process { address, host, parent, links: [].into(), topology });
            // It begins when it is told where.
            member.next = u32::MAX;
            member.told_version = self.version(size).unwrap_or_default();
            self.add_process(member);
            self.parents.push(Some(above));
            self.places.push(new);
            leader = leader.or(Some(new));
        }
        leader.unwrap_or(parent)
    }

    fn complete_topology(&mut self, at: usize) {
        let Process { host, links, .. } = self.members[at].process.clone();
        let branch = |(link, child): (LinkId, usize)| {
            let child = &self.members[child].process;
            Branch { link, ranks: child.ranks(), local: child.host == host }
        };
        let mut branches: Vec<Branch> = links.into_iter().map(branch).collect();
        branches.sort_by_key(|branch| branch.ranks.lowest());
        self.members[at].process.topology.branches = branches;
    }

    /// A program is told that the session has grown.
    pub(crate) fn has_grown(&mut self, id: Id, effect: &Effect, now: Instant) {
        let Effect::Grown { size, absent } = effect else { return };
        let who = self.members[id.0 as usize].process.to_string();
        let expected = self.absent.intersection(&Ranks::first(*size));
        let Some(version) = self.version(*size).filter(|_| expected == *absent) else {
            self.wrong.get_or_insert(format!("{who} is told of {size} ranks without {absent}"));
            return;
        };
        let session = self.session.clone();
        let member = self.member(id);
        let begins = member.next == u32::MAX;
        let is_member = matches!(member.process.address, Some(Address::Rank(_)));
        let mut calls = member.calls.values();
        let last = calls.rfind(|record| session.steps[record.step as usize].is_collective());
        let is_over = last.is_none_or(|last| last.ended.as_ref().is_some_and(|(at, _)| *at < now));
        if version <= member.told_version && !begins {
            self.wrong.get_or_insert(format!("{who} is told of {size} ranks, which is no growth"));
        } else if is_member && !begins && is_over {
            self.wrong.get_or_insert(format!("{who} is told of {size} ranks between two calls"));
        }
        self.member(id).told_version = version;
    }

    /// Whether a program knows of ranks.
    pub(crate) fn knows_of(&mut self, id: Id, ranks: &Ranks) {
        let member = &self.members[id.0 as usize];
        let size = self.sessions[member.told_version].size;
        if member.process.address.is_some() && ranks.iter().any(|rank| rank.0 >= size) {
            let wrong = format!("{} knows of {size} ranks, and hears of {ranks}", member.process);
            self.wrong.get_or_insert(wrong);
        }
    }

    /// When the session has grown by this rank: until its process takes part, it is lost.
    pub(crate) fn is_known_since(&self, rank: Rank) -> Option<Instant> {
        let later = self.sessions.iter().zip(&self.grown_at).skip(1);
        let mut by = later.filter(|(session, _)| rank.0 < session.size);
        by.next().map(|(_, at)| *at).filter(|_| self.is_new(rank) && !self.absent.contains(rank))
    }

    /// Whether a process above this one, where that began, is lost.
    fn has_lost_above(&self, id: usize) -> bool {
        std::iter::successors(self.parents[id], |parent| self.parents[*parent])
            .any(|parent| self.members[parent].lost.is_some())
    }

    /// What members are told of those that have joined is true, and those that make calls with them are
    /// told.
    pub(crate) fn have_joined_as_told(&self) -> Result<(), String> {
        let is_member = |member: &&Member| matches!(member.process.address, Some(Address::Rank(_)));
        for member in self.members.iter().filter(|member| member.lost.is_none()).filter(is_member) {
            let who = &member.process;
            for (rank, told) in &member.told_first {
                // One that is lost at once does not hear of its first call; it begins with a later one if it is
                // a new host's, was lost with the host above, and is back.
                let begins = |(id, new): (usize, &Member)| {
                    let is_back = |joined| self.is_new(*rank) && joined > *told && self.has_lost_above(id);
                    new.joined.map_or(new.lost.is_some(), |joined| joined == *told || is_back(joined))
                };
                let address = Some(Address::Rank(*rank));
                let mut processes =
                    self.members.iter().enumerate().filter(|(_, member)| member.process.address == address);
                if !processes.any(begins) {
                    return Err(format!("{who} was told that {rank} begins at step {told}"));
                }
            }
            let is_collective = |step: u32| self.session.steps[step as usize].is_collective();
            let calls = member.calls.values().map(|record| record.step);
            let last = calls.filter(|step| is_collective(*step)).max();
            for new in self.members.iter().filter(|new| new.lost.is_none()) {
                let (Some(joined), Some(Address::Rank(rank))) = (new.joined, new.process.address) else {
                    continue;
                };
                let is_older = member.joined.is_none_or(|own| own < joined);
                if is_older && last >= Some(joined) && member.told_first.get(&rank) != Some(&joined) {
                    return Err(format!("{who} is not told of {rank}, which begins at step {joined}"));
                }
            }
        }
        Ok(())
    }
}

/// Sessions.
impl Scenario {
    /// A session that grows, also while others are restarted, lost or moved.
    pub(crate) fn growing(seed: u64) -> (Session, Self) {
        let (mut session, mut scenario) = Self::restarting(seed);
        let mut rng = Rng::new(seed).fork(21);
        session.flight = 1;
        scenario.restarts = rng.chance(0.7);
        if rng.chance(0.4) {
            scenario.kills.clear();
        }
        scenario.kills.truncate(rng.below(8) as usize);
        scenario.leavers.clear();
        let duration = scenario.duration(&session);
        let mut at = up_to(&mut rng, duration);
        for _ in 0..1 + rng.below(4) {
            scenario.growths.push(at);
            let soon = rng.chance(0.4);
            at = if soon { at + up_to(&mut rng, scenario.latency * 12) } else { up_to(&mut rng, duration) };
        }
        scenario.growths.sort_unstable();
        if rng.chance(0.3) {
            let victim = session.present[rng.below(session.present.len() as u64) as usize];
            let kill = if session.shape.agents {
                Victim::AgentOf(Address::Rank(victim))
            } else {
                Victim::Process(Address::Rank(victim))
            };
            let grows = scenario.growths[0];
            scenario.kills.push((grows + up_to(&mut rng, scenario.latency * 30), kill));
        }
        (session, scenario)
    }
}
