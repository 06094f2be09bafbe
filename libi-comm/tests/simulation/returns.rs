//! Hosts that are lost, and whose members come back with other hosts, each at a random process of the session.
//!
//! A launch half is modelled: some time after the process above a lost host has noticed, a new host is started
//! somewhere else, alone or with others, some of them below each other. The process above the new host may
//! not have heard of the loss yet.

use libi_comm::Address;
use libi_core::ids::{LinkId, Rank};
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};

use crate::member::Member;
use crate::scenario::{Scenario, Victim, up_to};
use crate::world::{Cluster, Happening};
use libi_cases::Session;
use libi_cases::shape::Process;

impl Cluster {
    /// A process has died: if it led a host, its members may come back with another one.
    pub(crate) fn host_may_return(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let Member { process: Process { topology, .. }, leaves, .. } = &self.members[id.0 as usize];
        let is_leader = topology.has_parent && !topology.local && !topology.top && leaves.is_none();
        if self.scenario.host_returns && is_leader && self.rng.chance(0.85) {
            self.lost_hosts.insert(id.0 as usize);
            self.host_returns_soon(id, 30, agenda);
        }
    }

    fn host_returns_soon(&mut self, id: Id, most: u64, agenda: &mut Agenda<Self>) {
        let soon = self.latency() * (1 + self.rng.below(most) as u32);
        agenda.plan(agenda.now() + soon, Happening::HostReturns(id));
    }

    /// Whether the nearest process above a lost host has noticed, if one is left, and its processes are gone.
    fn is_noticed(&self, leader: usize) -> Option<bool> {
        let mut parents = std::iter::successors(self.members[leader].process.parent, |(parent, _)| {
            self.members[*parent].process.parent
        });
        let (above, link): (usize, LinkId) = parents.find(|(parent, _)| self.members[*parent].alive)?;
        let is_gone = self.children(leader, true).iter().all(|local| !self.members[*local].alive);
        Some(is_gone && self.members[above].cut.contains(&link))
    }

    /// The ranks of a lost host, that of its leader first.
    fn ranks_of_host(&self, leader: usize) -> Vec<Rank> {
        let mut ranks = Vec::new();
        for at in std::iter::once(leader).chain(self.children(leader, true)) {
            if let Some(Address::Rank(rank)) = self.members[at].process.address
                && !ranks.contains(&rank)
            {
                ranks.push(rank);
            }
        }
        ranks
    }

    /// Other hosts are started with the members of lost ones.
    pub(crate) fn hosts_return(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let leader = id.0 as usize;
        let Some(is_noticed) = self.is_noticed(leader).filter(|_| self.lost_hosts.contains(&leader)) else {
            return;
        };
        if !is_noticed {
            return self.host_returns_soon(id, 1, agenda);
        }
        let others = self.lost_hosts.iter().copied();
        let mut ready: Vec<usize> =
            others.filter(|other| *other != leader && self.is_noticed(*other) == Some(true)).collect();
        ready.retain(|_| self.rng.chance(0.5));
        self.lost_hosts.remove(&leader);
        let (mut below, mut alone) = (Vec::new(), vec![leader]);
        for other in ready {
            self.lost_hosts.remove(&other);
            if self.rng.chance(0.5) { below.push(other) } else { alone.push(other) }
        }
        for leader in alone {
            let below = std::mem::take(&mut below);
            let below = below.into_iter().map(|leader| self.ranks_of_host(leader)).collect();
            self.host_is_started(self.ranks_of_host(leader), below, agenda);
        }
    }

    /// A host is started below any process, and others below it.
    pub(crate) fn host_is_started(
        &mut self,
        own: Vec<Rank>,
        below: Vec<Vec<Rank>>,
        agenda: &mut Agenda<Self>,
    ) {
        let Some(parent) = self.host_above() else { return };
        let size = self.sessions.last().map_or(0, |session| session.size);
        let most = [2, 20][self.rng.below(2) as usize];
        let soon = self.latency() * (1 + self.rng.below(most) as u32);
        agenda.plan(agenda.now() + soon, Happening::Arrives(Id(parent as u32), own, below, size));
    }

    /// Every process that has come and is not lost takes part.
    pub(crate) fn all_have_begun(&self) -> Result<(), String> {
        let waits = |member: &&Member| {
            member.lost.is_none() && member.process.address.is_some() && member.next == u32::MAX
        };
        let waiting = self.members.iter().find(waits);
        waiting.map_or(Ok(()), |Member { process, .. }| Err(format!("{process} has never begun")))
    }

    /// Whether a host with these members is one in the place of a lost one.
    pub(crate) fn has_been(&self, ranks: &[Rank]) -> bool {
        ranks.iter().any(|rank| self.processes_of(*rank).next().is_some())
    }

    /// The process that leads the host of this one.
    pub(crate) fn leader_of(&self, process: usize) -> usize {
        let Process { parent, topology, .. } = &self.members[process].process;
        parent.filter(|_| topology.local).map_or(process, |(leader, _)| leader)
    }
}

/// Sessions.
impl Scenario {
    /// A session in which hosts die and others come in their places, while members are restarted, orphans find
    /// other parents, and the session may grow.
    pub(crate) fn returning(seed: u64) -> (Session, Self) {
        let (mut session, mut scenario) = Self::restarting(seed);
        let mut rng = Rng::new(seed).fork(41);
        scenario.restarts = rng.chance(0.6);
        scenario.completion.reconnects = rng.chance(0.8);
        scenario.completion.replaces_master = rng.chance(0.25);
        scenario.hasty = scenario.completion.reconnects && rng.chance(0.3);
        scenario.kills.truncate(rng.below(6) as usize);
        scenario.leavers.clear();
        scenario.lose_hosts(&session, &mut rng);
        if rng.chance(0.3) {
            session.flight = 1;
            let duration = scenario.duration(&session);
            scenario.growths.extend((0..1 + rng.below(2)).map(|_| up_to(&mut rng, duration)));
            scenario.growths.sort_unstable();
        }
        (session, scenario)
    }

    /// A session with any faults in which hosts come in the places of lost ones.
    pub(crate) fn drawn_and_returning(seed: u64) -> (Session, Self) {
        let (session, mut scenario) = Self::drawn_and_surviving(seed);
        let mut rng = Rng::new(seed).fork(42);
        scenario.completion.reconnects = rng.chance(0.5);
        scenario.restarts = rng.chance(0.5);
        scenario.lose_hosts(&session, &mut rng);
        (session, scenario)
    }

    /// Hosts die, some of them together, some once more when they are back or about to be.
    fn lose_hosts(&mut self, session: &Session, rng: &mut Rng) {
        self.host_returns = true;
        let duration = self.duration(session);
        for _ in 0..1 + rng.below(3) {
            let mut at = up_to(rng, duration);
            for _ in 0..1 + rng.below(3) {
                let who = Address::Rank(session.present[rng.below(session.present.len() as u64) as usize]);
                self.kills.push((at, Victim::HostOf(who)));
                if rng.chance(0.4) {
                    self.kills.push((at + up_to(rng, self.latency * 80), Victim::HostOf(who)));
                }
                at += up_to(rng, self.latency * 12);
            }
        }
    }
}
