//! Processes whose parent is lost, and that come back as children of another one.
//!
//! A launch half is modelled: the nearest process above that is left hears that the link is severed, and is
//! connected to each orphan some time later, in any order. Some orphans never come back.

use std::time::Duration;

use libi_comm::{Address, Adoption, Event};
use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;

use crate::member::Member;
use crate::reasons;
use crate::world::{Cluster, Happening};

impl Cluster {
    /// Whether the remote children of a process are orphans when it dies. All end with the front end or
    /// the top.
    pub(crate) fn leaves_orphans(&self, at: usize) -> bool {
        let process = &self.members[at].process;
        self.scenario.completion.reconnects && !process.topology.top && !process.topology.is_front_end()
    }

    /// The children of a process on its own host, or on others.
    pub(crate) fn children(&self, at: usize, local: bool) -> Vec<usize> {
        let process = &self.members[at].process;
        let of_host = |child: &usize| (self.members[*child].process.host == process.host) == local;
        process.links.values().copied().filter(of_host).collect()
    }

    /// The process and all below it, those below lost ones included.
    pub(crate) fn subtree(&self, at: usize) -> Vec<usize> {
        let mut all = vec![at];
        let mut next = 0;
        while let Some(at) = all.get(next) {
            all.extend(self.members[*at].process.links.values());
            next += 1;
        }
        all
    }

    /// The members among processes of hosts that are not lost. Another process may take the place of a member
    /// of these.
    fn ranks(&self, processes: &[usize]) -> Ranks {
        let is_led = |member: &Member| {
            let leader = member.process.parent.filter(|_| member.process.topology.local);
            leader.is_some_and(|(leader, _)| self.members[leader].lost.is_none())
        };
        let of_hosts = processes.iter().map(|at| &self.members[*at]);
        let of_hosts = of_hosts.filter(|member| member.lost.is_none() || is_led(member));
        let ranks = of_hosts.filter_map(|member| match member.process.address {
            Some(Address::Rank(rank)) => Some(rank),
            _ => None,
        });
        ranks.collect()
    }

    /// The nearest process above that is left, and its link in this direction.
    fn adopter(&self, mut at: usize) -> Option<(usize, LinkId)> {
        loop {
            let (parent, link) = self.members[at].process.parent?;
            if self.members[parent].alive {
                return Some((parent, link));
            }
            if !self.leaves_orphans(parent) {
                return None;
            }
            at = parent;
        }
    }

    /// A process finds the link to a branch closed. What it is told, if others behind the link may come back.
    pub(crate) fn severs(&mut self, id: Id, link: LinkId, agenda: &mut Agenda<Self>) -> Option<Event> {
        let lost = *self.members[id.0 as usize].process.links.get(&link)?;
        let mut host = self.children(lost, true);
        host.push(lost);
        let orphans = self.subtree(lost).into_iter().any(|at| self.members[at].alive && !host.contains(&at));
        if !self.leaves_orphans(lost) || !orphans {
            return None;
        }
        let topology = &self.members[lost].process.topology;
        let locals = topology.branches.iter().filter(|branch| branch.local);
        let mut own: Ranks = locals.flat_map(|branch| branch.ranks.iter()).collect();
        own.add_all(&topology.me.into_iter().collect());
        agenda.plan(agenda.now() + self.deadline(), Happening::Forsakes(id, link));
        Some(Event::Severed(link, own, reasons::of_cut(&self.members[id.0 as usize], link)))
    }

    /// How long orphans are awaited.
    fn deadline(&self) -> Duration {
        self.scenario.latency * 40 + Duration::from_millis(1)
    }

    /// A process is an orphan: it tries to come back.
    pub(crate) fn is_orphan(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        agenda.tell(agenda.now(), id, Event::Severed(LinkId::PARENT, Ranks::new(), None));
        self.without_parent.insert(id, (agenda.now(), Instant::FAR_FUTURE));
        agenda.plan(agenda.now() + self.deadline() * 2, Happening::GivesUp(id));
        if !self.rng.chance(0.1) {
            let soon = self.latency() * if self.scenario.hasty { 0 } else { 4 };
            agenda.plan(agenda.now() + soon, Happening::Seeks(id));
        }
    }

    /// An orphan that is not back ends.
    pub(crate) fn give_up(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        if self.members[id.0 as usize].cut.contains(&LinkId::PARENT) {
            self.die(id, agenda);
        }
    }

    /// An orphan connects to a process above, if that knows of the loss.
    pub(crate) fn seek(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let at = id.0 as usize;
        if !self.members[at].alive || !self.members[at].cut.contains(&LinkId::PARENT) {
            return;
        }
        let Some((parent, instead_of)) = self.adopter(at) else { return self.die(id, agenda) };
        let knows = self.members[parent].cut.contains(&instead_of);
        if !knows {
            let soon = self.latency() / if self.scenario.hasty { 20 } else { 1 };
            return agenda.plan(agenda.now() + soon, Happening::Seeks(id));
        }
        self.hear_of_growth_first(at);
        let ranks = self.ranks(&self.subtree(at));
        let place = self.places.iter().position(|place| *place == at).unwrap_or_default() as u32;
        let links = &mut self.members[parent].process.links;
        let last = links.keys().next_back().copied().unwrap_or(LinkId(0));
        let link = LinkId(last.0 + 1 + self.rng.below(3) as u32);
        links.insert(link, at);
        let new_parent = Id(parent as u32);
        self.members[at].process.parent = Some((parent, link));
        self.members[at].cut.remove(&LinkId::PARENT);
        let (above, below) =
            (self.arrival(new_parent, link, agenda), self.arrival(id, LinkId::PARENT, agenda));
        let last = self.connected.entry((new_parent, instead_of)).or_insert(above);
        *last = above.max(*last); // they arrive in any order
        agenda.tell(above, new_parent, Event::Adopted(Adoption { link, instead_of, ranks, place }));
        agenda.tell(below, id, Event::Reattached);
        if let Some((_, until)) = self.without_parent.get_mut(&id) {
            *until = below;
        }
        self.adoptions += 1;
    }

    /// A process waits no longer for those behind a severed link.
    pub(crate) fn forsake(&mut self, id: Id, link: LinkId, agenda: &mut Agenda<Self>) {
        let at = id.0 as usize;
        if !self.members[at].alive {
            return;
        }
        let Some(lost) = self.members[at].process.links.get(&link).copied() else { return };
        // What is connected by now is not given up.
        if let Some(until) = self.connected.get(&(id, link)).filter(|until| **until >= agenda.now()) {
            return agenda.plan(*until + Duration::from_nanos(1), Happening::Forsakes(id, link));
        }
        let reason = reasons::of_cut(&self.members[at], link);
        for orphan in self.subtree(lost) {
            if self.members[orphan].alive && self.adopter(orphan) == Some((at, link)) {
                self.die(Id(orphan as u32), agenda);
            }
        }
        agenda.tell(agenda.now(), id, Event::Forsaken(link, reason));
    }
}
