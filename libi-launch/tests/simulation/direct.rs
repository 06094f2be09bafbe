//! Direct connections: attempts to connect, the second stream of a link that has moved, and
//! failures there.
//!
//! A connection is a stream beside the channel, with its own latencies: bytes on one may overtake
//! earlier bytes on the other. The receiver holds bytes of the connection until its node
//! [switches](Effect::ReceiveDirect).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::secure::{KeyId, LinkKey};
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::machine::{ArrivalId, Effect, Event, LinkId, LinkPolicy};

use crate::driver::Input;
use crate::world::{Cluster, FRONT, Happening};

mod orphans;

/// One end of a link.
type End = (Id, LinkId);

/// An arrival on a connection.
#[derive(Debug)]
pub(crate) enum Arrival {
    Bytes(Vec<u8>),
    StopReason,
}

/// A process, and how often its link to the parent had begun anew when it began to connect: nothing is heard of
/// connections that were given up.
type Attempt = (Id, u32);

/// An event of a connection.
#[derive(Debug)]
pub(crate) enum DirectEvent {
    /// The parent receives a proof.
    DirectAccepted { parent: Id, key: KeyId, child: Attempt },
    /// A child learns that its connection has ended before its parent has moved.
    Forgotten(Attempt),
    /// A child learns whether it has reached what it connects to, and then an orphan proves who it is to this.
    Connected(Attempt, bool, Option<Id>),
    /// Something arrives on a connection.
    Arrives(End, Arrival, u32),
    /// A channel has ended.
    ChannelEnds(End, u32),
    /// A node hears of the connection of an orphan.
    OrphanArrives { parent: Id, child: Attempt },
    /// A helper that this node has started is up on a host.
    HelperIsUp { by: Id, host: HostIndex, key: KeyId, until: Instant },
    /// A helper was offered to this process.
    HelperWasOffered(Id),
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Connections {
    rng: Rng,
    admitted: BTreeMap<(Id, KeyId), LinkId>,
    /// The other end of each end of a connection.
    peers: BTreeMap<End, End>,
    switched: BTreeSet<End>,
    /// What was sent on connections of which the other end has not heard.
    early: BTreeMap<End, Vec<Vec<u8>>>,
    follows: BTreeSet<End>,
    held: BTreeMap<End, Vec<Arrival>>,
    ended: BTreeSet<End>,
    latest: BTreeMap<End, Instant>,
    /// The processes that have tried to connect, and whether they succeeded.
    pub(crate) outcomes: BTreeMap<Id, bool>,
    /// When they have last begun to.
    pub(crate) begun: BTreeMap<Id, Instant>,
    /// How many hosts have moved to a parent that has not started them.
    pub(crate) moved_hosts: usize,
    /// The nodes that accept orphans, with the key.
    orphan_keys: BTreeSet<(Id, KeyId)>,
    orphans: BTreeMap<ArrivalId, Attempt>,
    /// The processes that await a helper, with the key.
    await_helpers: BTreeMap<Id, KeyId>,
    /// The nodes whose helpers have reached an orphan that has not answered, and its host.
    helpers: BTreeMap<Id, (Id, HostIndex)>,
    /// The same, whose helper is the link of the orphan to its parent.
    carried: BTreeMap<Id, (Id, HostIndex)>,
    /// How many orphans have been reached by a helper.
    pub(crate) helped: usize,
    /// How often the link of a process to its parent has begun anew.
    generations: BTreeMap<Id, u32>,
    /// How many orphans have found another parent.
    pub(crate) adoptions: usize,
}

impl Connections {
    pub(crate) fn new(seed: u64) -> Self {
        let (admitted, peers, switched, early, follows) = Default::default();
        let (held, ended, latest, outcomes, begun) = Default::default();
        let rng = Rng::new(seed).fork(12);
        let moved_hosts = 0;
        Self {
            rng,
            admitted,
            peers,
            switched,
            early,
            follows,
            held,
            ended,
            latest,
            outcomes,
            begun,
            moved_hosts,
            orphan_keys: BTreeSet::new(),
            orphans: BTreeMap::new(),
            await_helpers: BTreeMap::new(),
            helpers: BTreeMap::new(),
            carried: BTreeMap::new(),
            helped: 0,
            generations: BTreeMap::new(),
            adoptions: 0,
        }
    }

    /// No connection is awaited at this end any more.
    pub(crate) fn refuse(&mut self, end: End) {
        self.admitted.retain(|(whose, _), of| (*whose, *of) != end);
    }

    /// Whether an end sends to one that has not heard of it.
    pub(crate) fn is_early(&self, end: End) -> bool {
        self.early.contains_key(&end)
    }

    /// How often this end has begun anew.
    fn attempt(&self, child: Id) -> Attempt {
        (child, self.generation((child, LinkId::PARENT)))
    }

    pub(crate) fn generation(&self, end: End) -> u32 {
        if end.1 == LinkId::PARENT { self.generations.get(&end.0).copied().unwrap_or(0) } else { 0 }
    }

    /// How many links have moved in both directions.
    pub(crate) fn moved(&self) -> usize {
        self.follows.iter().filter(|end| end.1 == LinkId::PARENT).count()
    }
}

fn connected(
    at: Instant,
    child: Attempt,
    is_reached: bool,
    proves_to: Option<Id>,
    agenda: &mut Agenda<Cluster>,
) {
    agenda.plan(at, Happening::Direct(DirectEvent::Connected(child, is_reached, proves_to)));
}

/// The address of a process.
fn address(of: Id) -> SocketAddr {
    let [a, b, c, d] = of.0.to_be_bytes();
    SocketAddr::from(([10 + a, b, c, d], 1))
}

pub(crate) fn process_at(address: SocketAddr) -> Option<Id> {
    let SocketAddr::V4(address) = address else { return None };
    let [a, b, c, d] = address.ip().octets();
    Some(Id(u32::from_be_bytes([a - 10, b, c, d])))
}

impl Cluster {
    fn direct_latency(&mut self) -> Duration {
        let most = self.scenario.direct_latency.as_micros() as u64;
        Duration::from_micros(20 + self.direct.rng.below(most + 1))
    }

    pub(crate) fn connect(&mut self, from: Id, effect: Effect, agenda: &mut Agenda<Self>) {
        match effect {
            Effect::Listen { .. } => {
                let at = if self.scenario.no_listeners { Vec::new() } else { vec![address(from)] };
                agenda.tell(agenda.now(), from, Event::Listening(at).into());
            }
            Effect::AcceptDirect(link, key) => drop(self.direct.admitted.insert((from, key.id()), link)),
            Effect::RejectDirect(link) => self.direct.refuse((from, link)),
            // Some links never carry much.
            Effect::Watch(link) if self.direct.rng.chance(0.7) => {
                let after = Duration::from_micros(self.direct.rng.below(1_000_000));
                agenda.tell(agenda.now() + after, from, Event::Carries(link).into());
            }
            Effect::ConnectDirect(addresses, key) if self.direct.generations.contains_key(&from) => {
                self.seek(from, &addresses, &key, agenda);
            }
            Effect::ConnectDirect(addresses, key) => self.dial(from, &addresses, &key, agenda),
            Effect::AcceptOrphans(key) => drop(self.direct.orphan_keys.insert((from, key.id()))),
            Effect::AwaitHelper(key) => drop(self.direct.await_helpers.insert(from, key.id())),
            Effect::ForgetHelper => drop(self.direct.await_helpers.remove(&from)),
            Effect::TakeHelper => self.take_helper(from, agenda),
            Effect::StartHelper(what, key) => self.start_helper(from, what.0.host, key.id(), agenda),
            Effect::Reopen(link) => self.reopen((from, link), agenda),
            Effect::SendDirect(link) if self.direct.peers.contains_key(&(from, link)) => {
                self.direct.switched.insert((from, link));
            }
            // Its new parent has not heard of it yet.
            Effect::SendDirect(link) => drop(self.direct.early.insert((from, link), Vec::new())),
            Effect::ReceiveDirect(link) => {
                let end = (from, link);
                self.direct.follows.insert(end);
                for arrival in self.direct.held.remove(&end).unwrap_or_default() {
                    self.arrives_directly(end, arrival, agenda);
                }
            }
            _ => {}
        }
    }

    fn dial(&mut self, from: Id, addresses: &[SocketAddr], key: &LinkKey, agenda: &mut Agenda<Self>) {
        let now = agenda.now();
        self.direct.begun.insert(from, now);
        let parent = addresses.first().copied().and_then(process_at);
        let (unreachable, slow) = (self.scenario.unreachable, Duration::from_secs(3));
        let is_behind = |parent: &Id| *parent == FRONT && self.scenario.front_is_behind;
        let parent = parent.filter(|parent| !is_behind(parent));
        let is_late = self.scenario.links == LinkPolicy::Auto && self.scenario.staging.is_none();
        let own = self.parent_of(from).map(|(own, _)| own);
        let child = self.direct.attempt(from);
        assert!(
            !is_late || own != parent || self.process(from).told_up,
            "{from:?} connects to its parent although the session is not up"
        );
        let Some(parent) = parent.filter(|_| !self.direct.rng.chance(unreachable)) else {
            let wait = if self.direct.rng.chance(0.5) { slow } else { Duration::from_millis(1) };
            self.direct.outcomes.insert(from, false);
            return connected(now + wait, child, false, None, agenda);
        };
        let known = self.direct.admitted.contains_key(&(parent, key.id()));
        if !known || !self.is_running(parent) {
            self.direct.outcomes.insert(from, false);
            return connected(now + slow, child, false, None, agenda);
        }
        // Opening, reply, proof.
        let reached = now + self.direct_latency() + self.direct_latency();
        connected(reached, child, true, None, agenda);
        let heard = reached + self.direct_latency();
        let lost = self.scenario.lost_proofs;
        if self.direct.rng.chance(lost) {
            self.direct.outcomes.insert(from, false);
            return agenda.plan(heard, Happening::Direct(DirectEvent::Forgotten(child)));
        }
        self.direct.outcomes.insert(from, true);
        let accepted = DirectEvent::DirectAccepted { parent, key: key.id(), child };
        agenda.plan(heard, Happening::Direct(accepted));
    }

    pub(crate) fn turn_direct(&mut self, turn: DirectEvent, agenda: &mut Agenda<Self>) {
        match turn {
            DirectEvent::Connected(child, ..)
            | DirectEvent::Forgotten(child)
            | DirectEvent::DirectAccepted { child, .. }
                if child != self.direct.attempt(child.0) => {}
            DirectEvent::Connected(child, is_reached, proves_to) => {
                agenda.tell(agenda.now(), child.0, Event::DirectConnected(is_reached).into());
                if let Some(parent) = proves_to {
                    let heard = agenda.now() + self.direct_latency();
                    agenda.plan(heard, Happening::Direct(DirectEvent::OrphanArrives { parent, child }));
                }
            }
            DirectEvent::DirectAccepted { parent, key, child: (child, _) } => {
                let link = self.direct.admitted.remove(&(parent, key));
                let link = link.filter(|_| self.is_running(parent));
                if let Some(link) = link.filter(|link| self.moves_to((parent, *link), child)) {
                    let end = (child, LinkId::PARENT);
                    self.pair((parent, link), child);
                    self.direct.switched.insert(end);
                    for bytes in self.direct.early.remove(&end).unwrap_or_default() {
                        self.send_directly(end, &bytes, agenda);
                    }
                    self.direct.moved_hosts += 1;
                    return agenda.tell(agenda.now(), parent, Event::DirectAccepted(link).into());
                }
                let own = self.parent_of(child);
                match link.filter(|link| own == Some((parent, *link)) && self.is_running(parent)) {
                    Some(link) => {
                        self.pair((parent, link), child);
                        agenda.tell(agenda.now(), parent, Event::DirectAccepted(link).into());
                    }
                    None => self.is_forgotten(child, agenda),
                }
            }
            DirectEvent::Forgotten((child, _)) => self.is_forgotten(child, agenda),
            DirectEvent::Arrives(end, _, generation) | DirectEvent::ChannelEnds(end, generation)
                if generation != self.direct.generation(end) => {}
            DirectEvent::OrphanArrives { parent, child } => self.orphan_arrives(parent, child, agenda),
            DirectEvent::HelperIsUp { by, host, key, until } => {
                self.helper_is_up((by, host, key), until, agenda);
            }
            DirectEvent::HelperWasOffered(to) => self.helper_was_offered(to, agenda),
            DirectEvent::Arrives(end, arrival, _) if self.direct.follows.contains(&end) => {
                self.arrives_directly(end, arrival, agenda);
            }
            DirectEvent::Arrives(end, arrival, _) => self.direct.held.entry(end).or_default().push(arrival),
            DirectEvent::ChannelEnds(end, _) => {
                // A child may have sent something directly; a parent is gone.
                let waits = end.1 != LinkId::PARENT && self.direct.follows.contains(&end);
                if !waits {
                    self.closes(end, agenda);
                }
            }
        }
    }

    fn pair(&mut self, parent: End, child: Id) {
        self.direct.peers.insert(parent, (child, LinkId::PARENT));
        self.direct.peers.insert((child, LinkId::PARENT), parent);
    }

    /// The connection of a child ends that its parent has not heard of.
    fn is_forgotten(&mut self, child: Id, agenda: &mut Agenda<Self>) {
        let end = (child, LinkId::PARENT);
        if self.direct.follows.contains(&end) {
            return self.closes(end, agenda);
        }
        agenda.tell(agenda.now(), child, Event::DirectConnected(false).into());
    }

    fn arrives_directly(&mut self, end: End, arrival: Arrival, agenda: &mut Agenda<Self>) {
        match arrival {
            _ if self.direct.ended.contains(&end) => {}
            Arrival::Bytes(bytes) => agenda.tell(agenda.now(), end.0, Input::Bytes(end.1, bytes)),
            Arrival::StopReason => self.closes(end, agenda),
        }
    }

    fn closes(&mut self, end: End, agenda: &mut Agenda<Self>) {
        if self.direct.ended.insert(end) {
            agenda.tell(agenda.now(), end.0, Event::Closed(end.1).into());
        }
    }

    /// Sends on the connection, if this end has moved; returns whether it has.
    pub(crate) fn send_directly(&mut self, from: End, bytes: &[u8], agenda: &mut Agenda<Self>) -> bool {
        if let Some(early) = self.direct.early.get_mut(&from) {
            early.push(bytes.to_vec());
            return true;
        }
        let switched = self.direct.switched.contains(&from);
        if let Some(&to) = self.direct.peers.get(&from).filter(|_| switched) {
            self.travel(to, Arrival::Bytes(bytes.to_vec()), agenda);
        }
        switched
    }

    /// The connection of this end breaks or is closed; the other end notices.
    pub(crate) fn end_connection(&mut self, end: End, agenda: &mut Agenda<Self>) {
        if end.1 == LinkId::PARENT {
            self.helper_ends(end.0, agenda);
        }
        if let Some(to) = self.direct.peers.remove(&end) {
            self.direct.peers.remove(&to);
            self.helper_ends(to.0, agenda);
            self.travel(to, Arrival::StopReason, agenda);
        }
    }

    /// A connection breaks, and both ends notice.
    pub(crate) fn sever(&mut self, child: Id, agenda: &mut Agenda<Self>) {
        let end = (child, LinkId::PARENT);
        if let Some(to) = self.direct.peers.remove(&end) {
            self.direct.peers.remove(&to);
            self.helper_ends(child, agenda);
            self.travel(to, Arrival::StopReason, agenda);
            self.travel(end, Arrival::StopReason, agenda);
        }
    }

    fn travel(&mut self, to: End, arrival: Arrival, agenda: &mut Agenda<Self>) {
        if !self.is_running(to.0) {
            return;
        }
        let latest = self.direct.latest.get(&to).copied().unwrap_or_default();
        let at = (agenda.now() + self.direct_latency()).max(latest + Duration::from_nanos(1));
        self.direct.latest.insert(to, at);
        let generation = self.direct.generation(to);
        agenda.plan(at, Happening::Direct(DirectEvent::Arrives(to, arrival, generation)));
    }
}
