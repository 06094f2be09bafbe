//! Connections over which hosts get staged files from each other: attempts to connect, and failures.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use libi_core::secure::{KeyId, LinkKey};
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::machine::{ArrivalId, Event, LinkId, LinkPolicy, Notice, Policy};

use crate::direct::process_at;
use crate::driver::Input;
use crate::run;
use crate::scenario::Scenario;
use crate::staging::StagingTrouble;
use crate::world::{Cluster, Happening};

/// How long a process tries to reach a source that does not answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// One end of a link.
type End = (Id, LinkId);

/// A source hears of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLinkEvent {
    from: End,
    source: Id,
}

/// All connections.
#[derive(Debug)]
pub(crate) struct FileLinks {
    rng: Rng,
    accepted: BTreeSet<(Id, KeyId)>,
    /// The ends that have connected and are not closed.
    open: BTreeSet<End>,
    arrivals: BTreeMap<ArrivalId, End>,
    /// The other end of each end.
    others: BTreeMap<End, End>,
    /// What was sent before the other end was there.
    early: BTreeMap<End, Vec<Vec<u8>>>,
    /// How many bytes may be sent from an end before the connection breaks.
    left: BTreeMap<End, usize>,
    /// How many connections were admitted, and how many of these broke.
    pub(crate) admitted: usize,
    pub(crate) broken: usize,
}

impl FileLinks {
    pub(crate) fn new(seed: u64) -> Self {
        let (accepted, open, arrivals, others, early, left) = Default::default();
        let rng = Rng::new(seed).fork(45);
        Self { rng, accepted, open, arrivals, others, early, left, admitted: 0, broken: 0 }
    }

    /// The host that gets files over this link.
    pub(crate) fn client(&self, from: End) -> Option<End> {
        self.others.get(&from).copied()
    }

    /// All links over which this process sends files, with the hosts that get them.
    pub(crate) fn clients(&self, from: Id) -> impl Iterator<Item = (LinkId, Id)> {
        let own = self.others.iter().filter(move |(end, _)| end.0 == from);
        own.map(|(end, other)| (end.1, other.0))
    }
}

impl Cluster {
    /// A process accepts connections of hosts that know this key.
    pub(crate) fn accept_file_links(&mut self, from: Id, key: &LinkKey) {
        self.file_links.accepted.insert((from, key.id()));
    }

    /// A process connects to its source.
    pub(crate) fn connect_source(
        &mut self,
        from: End,
        addresses: &[SocketAddr],
        key: &LinkKey,
        agenda: &mut Agenda<Self>,
    ) {
        let unreachable = self.scenario.unreachable;
        let source = addresses.first().copied().and_then(process_at);
        let is_refused = self.file_links.rng.chance(unreachable);
        self.file_links.open.insert(from);
        match source.filter(|_| !is_refused) {
            Some(source)
                if self.is_running(source) && self.file_links.accepted.contains(&(source, key.id())) =>
            {
                let reached = agenda.now() + self.latency() + self.latency();
                agenda.tell(reached, from.0, Event::SourceConnected(from.1).into());
                let heard = reached + self.latency();
                agenda.plan(heard, Happening::FileLink(FileLinkEvent { from, source }));
            }
            _ => {
                let at_once = is_refused && self.file_links.rng.chance(0.5);
                let wait = if at_once { Duration::from_millis(1) } else { CONNECT_TIMEOUT };
                self.file_links.open.remove(&from);
                agenda.tell(agenda.now() + wait, from.0, Event::Closed(from.1).into());
            }
        }
    }

    /// A source hears of a connection, which may be gone already.
    pub(crate) fn file_link_arrives(&mut self, event: FileLinkEvent, agenda: &mut Agenda<Self>) {
        let FileLinkEvent { from, source } = event;
        if !self.file_links.open.contains(&from) {
            return;
        }
        if !self.is_running(source) {
            // A frozen one is silent; of one that has ended, the host hears that.
            if !self.processes[source.0 as usize].alive {
                self.file_link_ends(from, agenda);
            }
            return;
        }
        let id = self.next_arrival();
        self.file_links.arrivals.insert(id, from);
        agenda.tell(agenda.now(), source, Event::FilesWanted(id).into());
    }

    /// The source answers a connection, if it is one for files: it becomes this link, or is refused.
    pub(crate) fn answer_file_link(
        &mut self,
        source: Id,
        arrival: ArrivalId,
        link: Option<LinkId>,
        agenda: &mut Agenda<Self>,
    ) -> bool {
        let Some(from) = self.file_links.arrivals.remove(&arrival) else { return false };
        let Some(link) = link else {
            self.file_link_ends(from, agenda);
            return true;
        };
        let own = (source, link);
        self.forget_program(own);
        if !self.file_links.open.contains(&from) {
            self.file_link_ends(own, agenda);
            return true;
        }
        let links = &mut self.file_links;
        links.admitted += 1;
        links.open.insert(own);
        links.others.insert(own, from);
        links.others.insert(from, own);
        let cuts = self.scenario.file_link_cuts();
        if links.rng.chance(cuts) {
            links.left.insert(own, links.rng.below(2_000_000) as usize);
        }
        for bytes in links.early.remove(&from).into_iter().flatten() {
            self.arrive(source, link, Input::Bytes(link, bytes), agenda);
        }
        true
    }

    /// Sends on a connection for files; returns whether the link is one.
    pub(crate) fn send_to_source_or_client(
        &mut self,
        from: End,
        bytes: &[u8],
        agenda: &mut Agenda<Self>,
    ) -> bool {
        if !self.file_links.open.contains(&from) {
            return false;
        }
        let Some(to) = self.file_links.client(from) else {
            self.file_links.early.entry(from).or_default().push(bytes.to_vec());
            return true;
        };
        if let Some(left) = self.file_links.left.get_mut(&from) {
            *left = left.saturating_sub(bytes.len());
            if *left == 0 {
                self.file_links.broken += 1;
                self.close_file_link(from, agenda);
                self.file_link_ends(from, agenda);
                return true;
            }
        }
        self.arrive(to.0, to.1, Input::Bytes(to.1, bytes.to_vec()), agenda);
        true
    }

    /// An end notices that the connection is closed.
    fn file_link_ends(&mut self, end: End, agenda: &mut Agenda<Self>) {
        self.file_links.open.remove(&end);
        self.arrive(end.0, end.1, Event::Closed(end.1), agenda);
    }

    /// An end is closed by its process; the other notices.
    pub(crate) fn close_file_link(&mut self, end: End, agenda: &mut Agenda<Self>) {
        self.file_links.open.remove(&end);
        if let Some(other) = self.file_links.others.remove(&end) {
            self.file_links.others.remove(&other);
            self.file_link_ends(other, agenda);
        }
    }

    /// A process ends, and with it all its ends.
    pub(crate) fn end_file_links(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let ends: Vec<_> = self.file_links.open.iter().filter(|end| end.0 == id).copied().collect();
        for end in ends {
            self.close_file_link(end, agenda);
        }
        let waiting = self.file_links.arrivals.iter().filter(|(_, from)| from.0 == id).map(|(id, _)| *id);
        for arrival in waiting.collect::<Vec<_>>() {
            self.file_links.arrivals.remove(&arrival);
        }
    }
}

#[test]
fn hosts_get_long_files_from_each_other_and_each_sends_them_once() {
    // Three million bytes are 46 pieces.
    for (hosts, links, most_copies) in
        [(20, LinkPolicy::Auto, Some(1)), (60, LinkPolicy::Auto, Some(2)), (20, LinkPolicy::Channel, None)]
    {
        let mut scenario = Scenario::of_agents(hosts);
        (scenario.links, scenario.staging) = (links, Some(StagingTrouble::of_the_largest(0.0, 0.0)));
        let sim = run(&scenario).unwrap();
        let total = scenario.staged_bytes();
        let mut sent = BTreeMap::<Id, u64>::new();
        for ((from, _), bytes) in &sim.world.disks.sent {
            *sent.entry(*from).or_default() += bytes;
        }
        let most = *sent.values().max().unwrap();
        assert_eq!(sent.values().sum::<u64>(), total * u64::from(hosts), "each host gets them once");
        assert!(
            most_copies.is_none_or(|copies| most <= total * copies),
            "{hosts} hosts: a node sends {most}"
        );
        let from_others = most_copies.map_or(0, |_| hosts as usize - 1);
        assert_eq!(sim.world.file_links.admitted, from_others);
    }
}

#[test]
fn files_arrive_although_connections_between_hosts_break() {
    let mut scenario = Scenario::of_agents(20);
    let trouble = StagingTrouble::of_the_largest(1.0, 0.0);
    (scenario.links, scenario.staging) = (LinkPolicy::Auto, Some(trouble));
    let sim = run(&scenario).unwrap();
    assert!(sim.world.notices.iter().any(|(_, notice)| *notice == Notice::Up));
    assert!(sim.world.file_links.broken > 5, "{}", sim.world.file_links.broken);
}

#[test]
fn a_host_that_freezes_while_it_passes_files_on_costs_only_itself() {
    for after in [1_000, 2_000, 3_000, 5_000] {
        let mut scenario = Scenario::of_agents(20);
        let trouble = StagingTrouble::of_the_largest(0.0, 1.0);
        (scenario.links, scenario.staging) = (LinkPolicy::Auto, Some(trouble));
        (scenario.freezes, scenario.policy) = (vec![(Duration::from_millis(after), 7)], Policy::AtLeast(19));
        let sim = run(&scenario).unwrap();
        assert!(sim.world.notices.iter().any(|(_, notice)| *notice == Notice::Up), "{after}");
        let complete = sim.world.completions().len();
        assert!(complete >= 19, "{after}: {complete}");
    }
}

#[test]
fn a_slow_host_does_not_hold_up_those_behind_it() {
    for slow in ["node1", "node7", "node18"] {
        let mut scenario = Scenario::of_agents(20);
        let mut trouble = StagingTrouble::of_the_largest(0.0, 0.0);
        trouble.slow_host = Some(slow);
        (scenario.links, scenario.staging) = (LinkPolicy::Auto, Some(trouble));
        let sim = run(&scenario).unwrap();
        let times = sim.world.completions();
        let [.., before, last] = times[..] else { panic!("{times:?}") };
        assert!(last > Instant::ZERO + Duration::from_secs(12), "{slow}: it takes 4 us for a byte: {last}");
        assert!(before < Instant::ZERO + Duration::from_secs(5), "{slow}: {times:?}");
    }
}
