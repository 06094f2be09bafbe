//! Relays: leaders that admit others of their bulk start, so that no process holds more than its
//! share of connections.
//!
//! All leaders of a bulk start come to the front end's rendezvous. The front end admits as many as
//! the [planner](libi_core::plan::relays) says, has each of them listen, and redirects the others
//! to them:
//!
//! ```text
//!   front end                    relay                       another leader of the start
//!     | <==== handshake, Claim ====|
//!     | Ticket, config ----------> |  a link like any other
//!     | Listen ------------------> |  listens
//!     | <--------------- Listening |
//!     | <======================== handshake, Claim ================|
//!     | Expect: the host --------> |  awaits it
//!     | Redirect: addresses -------------------------------------> |
//!     |                            | <===== handshake, Claim ===== |
//!     |                            | Ticket, config -------------> |  a link like any other
//! ```
//!
//! From then on the leader is the relay's child. The front end keeps what belongs to launches: a
//! host that the relay drops is launched again, or given up, by the front end. What the starter tells
//! of a host is passed on to its relay, as evidence for a leader that does not join. The exit of a
//! leader that had joined is reported by the front end: the relay would have to wait for it, and the
//! starter may wait for the relay.
//!
//! Where an arrival is placed:
//!
//! | relays of the start | the arrival is |
//! |---|---|
//! | none is wanted, or the host was launched before | admitted |
//! | fewer than wanted | admitted, and becomes a relay once it is up |
//! | one that listens has room | redirected to the one with the fewest |
//! | some do not listen yet | held, at most for [`HOLD`] |
//! | all that listen are full | redirected to the one with the fewest |
//! | none is left | admitted |
//!
//! | event | relay | leaders that are held |
//! |---|---|---|
//! | it listens | takes part from now on | placed again |
//! | it cannot listen, or is lost | does not; no further one is wanted if it cannot listen | placed again |
//! | leaders were held for too long | those that do not listen are not waited for | placed again |
//! | a leader comes back that could not reach it, and none has | does not | the leader is admitted |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use libi_core::ids::{HostIndex, LinkId, StartId};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::time::Instant;

use super::rendezvous::ArrivalId;
use crate::failure::{Exit, Failure};

/// How long leaders wait for relays. A leader listens as soon as it has its config.
const HOLD: Duration = Duration::from_secs(3);

/// What becomes of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// It becomes a link of this node.
    Admitted,
    /// It waits until a relay listens.
    Held,
    /// It goes to this relay.
    Redirected(LinkId),
}

/// A host below a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostBelow {
    pub(super) relay: LinkId,
    pub(super) start: StartId,
    pub(super) attempt: Attempt,
    /// How its leader has ended, if the starter has told.
    pub(super) exit: Option<Exit>,
}

/// A host that has left its relay. What follows from that waits until its exit is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HostLeft {
    pub(super) launch: Launch,
    /// Whether the exit of its leader is reported.
    pub(super) ends: bool,
    /// Why the host has failed, if it has.
    pub(super) failure: Option<Failure>,
    /// How long the exit is waited for.
    pub(super) until: Instant,
}

/// The relays of the front end's bulk starts. At a member: whether it is one.
#[derive(Debug, Default)]
pub(super) struct Relays {
    is_relay: bool,
    starts: BTreeMap<StartId, RelayedStart>,
    hosts: BTreeMap<HostIndex, HostBelow>,
    /// Hosts that have left their relays, with their starts.
    left: BTreeMap<HostIndex, (StartId, HostLeft)>,
    /// How long their exits are waited for.
    left_until: BTreeSet<(Instant, HostIndex)>,
}

/// The relays of one start.
#[derive(Debug, Default)]
struct RelayedStart {
    /// How many relays it is to have.
    wanted: usize,
    /// How many hosts each of them takes.
    room: usize,
    /// Children that are to become relays and do not listen yet.
    asked: BTreeSet<LinkId>,
    listening: BTreeMap<LinkId, Relay>,
    /// Those, by the number of hosts below them.
    fewest: BTreeSet<(usize, LinkId)>,
    /// Arrivals that wait, with the links that they should become.
    held: VecDeque<(ArrivalId, LinkId)>,
    held_until: Option<Instant>,
}

#[derive(Debug)]
struct Relay {
    addresses: Vec<SocketAddr>,
    /// How many hosts are below it.
    below: usize,
    /// Whether a host has joined through it.
    was_reached: bool,
}

impl RelayedStart {
    fn place(&mut self, child: LinkId) -> Placement {
        if self.asked.len() + self.listening.len() < self.wanted {
            self.asked.insert(child);
            return Placement::Admitted;
        }
        match self.fewest.first() {
            Some(&(below, relay)) if below < self.room || self.asked.is_empty() => {
                Placement::Redirected(relay)
            }
            _ if !self.asked.is_empty() => Placement::Held,
            _ => Placement::Admitted,
        }
    }

    /// Whether an arrival would be held.
    fn holds(&self) -> bool {
        let is_full = self.fewest.first().is_none_or(|&(below, _)| below >= self.room);
        is_full && !self.asked.is_empty() && self.asked.len() + self.listening.len() >= self.wanted
    }

    /// No further relays than those that are there are wanted.
    fn make_do(&mut self) {
        self.wanted = self.asked.len() + self.listening.len();
    }

    /// Changes what is known of a relay.
    fn change(&mut self, link: LinkId, change: impl FnOnce(&mut Relay)) {
        let Some(relay) = self.listening.get_mut(&link) else { return };
        self.fewest.remove(&(relay.below, link));
        change(relay);
        self.fewest.insert((relay.below, link));
    }

    fn remove(&mut self, link: LinkId) {
        if let Some(relay) = self.listening.remove(&link) {
            self.fewest.remove(&(relay.below, link));
        }
    }
}

/// At the front end.
impl Relays {
    /// A start of `hosts` hosts begins, which is to have this many relays.
    pub(super) fn begin(&mut self, start: StartId, hosts: usize, wanted: usize) {
        if (1..hosts).contains(&wanted) {
            let room = (hosts - wanted).div_ceil(wanted);
            self.starts.insert(start, RelayedStart { wanted, room, ..RelayedStart::default() });
        }
    }

    /// Decides what becomes of an arrival, which may become the link of this child.
    pub(super) fn place(
        &mut self,
        start: StartId,
        child: LinkId,
        arrival: ArrivalId,
        now: Instant,
    ) -> Placement {
        let Some(start) = self.starts.get_mut(&start) else { return Placement::Admitted };
        let placement = start.place(child);
        if placement == Placement::Held {
            start.held.push_back((arrival, child));
            start.held_until.get_or_insert(now + HOLD);
        }
        placement
    }

    /// Whether this child of a start is to become a relay.
    pub(super) fn is_asked(&self, start: StartId, child: LinkId) -> bool {
        self.starts.get(&start).is_some_and(|start| start.asked.contains(&child))
    }

    /// A child listens at these addresses, if there are any.
    pub(super) fn listens(&mut self, start: StartId, child: LinkId, addresses: Vec<SocketAddr>) {
        let Some(start) = self.starts.get_mut(&start) else { return };
        if !start.asked.remove(&child) {
            return;
        }
        if addresses.is_empty() {
            start.make_do();
        } else {
            start.listening.insert(child, Relay { addresses, below: 0, was_reached: false });
            start.fewest.insert((0, child));
        }
    }

    /// Takes the next arrival that waits and need not any longer, to be placed again.
    pub(super) fn next_held(&mut self, start: StartId) -> Option<(ArrivalId, LinkId)> {
        let start = self.starts.get_mut(&start).filter(|start| !start.holds())?;
        let next = start.held.pop_front();
        if start.held.is_empty() {
            start.held_until = None;
        }
        next
    }

    /// An arrival was redirected; returns the addresses of its relay.
    pub(super) fn redirect(&mut self, host: HostIndex, below: HostBelow) -> Vec<SocketAddr> {
        let Some(start) = self.starts.get_mut(&below.start) else { return Vec::new() };
        start.change(below.relay, |relay| relay.below += 1);
        self.hosts.insert(host, below);
        start.listening.get(&below.relay).map(|relay| relay.addresses.clone()).unwrap_or_default()
    }

    /// The relay of a host, if it has one.
    pub(super) fn of(&self, host: HostIndex) -> Option<HostBelow> {
        self.hosts.get(&host).copied()
    }

    /// The relays of a start that have hosts below them.
    pub(super) fn with_hosts(&self, start: StartId) -> BTreeSet<LinkId> {
        let hosts = self.hosts.values().filter(|below| below.start == start);
        hosts.map(|below| below.relay).collect()
    }

    /// A host has joined through its relay.
    pub(super) fn joined(&mut self, host: HostIndex) {
        let Some(below) = self.hosts.get(&host) else { return };
        let start = self.starts.get_mut(&below.start);
        if let Some(relay) = start.and_then(|start| start.listening.get_mut(&below.relay)) {
            relay.was_reached = true;
        }
    }

    /// A host is not below its relay any more.
    pub(super) fn remove_host(&mut self, host: HostIndex) -> Option<HostBelow> {
        let below = self.hosts.remove(&host)?;
        if let Some(start) = self.starts.get_mut(&below.start) {
            start.change(below.relay, |relay| relay.below -= 1);
        }
        Some(below)
    }

    /// A leader has come back that could not reach this relay: no other is sent there, unless one
    /// has reached it.
    pub(super) fn not_reached(&mut self, start: StartId, relay: LinkId) {
        let Some(start) = self.starts.get_mut(&start) else { return };
        if start.listening.get(&relay).is_some_and(|relay| !relay.was_reached) {
            // The hosts below it are known by `hosts`, and come back as well.
            start.remove(relay);
            start.make_do();
        }
    }

    /// A child is gone: returns its arrival if it was held, and the hosts below it.
    pub(super) fn lost(
        &mut self,
        start: StartId,
        child: LinkId,
    ) -> (Option<ArrivalId>, Vec<(HostIndex, HostBelow)>) {
        let Some(relayed) = self.starts.get_mut(&start) else { return (None, Vec::new()) };
        let place = relayed.held.iter().position(|(_, of)| *of == child);
        let held = place.and_then(|place| relayed.held.remove(place)).map(|(arrival, _)| arrival);
        relayed.asked.remove(&child);
        relayed.remove(child);
        let below = self.hosts.iter().filter(|(_, below)| below.relay == child);
        let below: Vec<_> = below.map(|(&host, &below)| (host, below)).collect();
        self.hosts.retain(|_, below| below.relay != child);
        (held, below)
    }

    /// An arrival that was held has left.
    pub(super) fn left(&mut self, arrival: ArrivalId) {
        for start in self.starts.values_mut() {
            start.held.retain(|(of, _)| *of != arrival);
        }
    }

    /// A host has left its relay; returns its exit if what follows need not wait.
    pub(super) fn host_left(&mut self, left: HostLeft) -> Option<Exit> {
        let below = self.remove_host(left.launch.host)?;
        let waits = left.failure.is_some() || left.ends;
        let exit = below.exit.or((!waits).then_some(Exit::Unknown));
        self.left_until.insert((left.until, left.launch.host));
        self.left.insert(left.launch.host, (below.start, left));
        exit
    }

    /// Takes a host that has left its relay, with its start.
    pub(super) fn take_left(&mut self, host: HostIndex) -> Option<(StartId, HostLeft)> {
        let (start, left) = self.left.remove(&host)?;
        self.left_until.remove(&(left.until, host));
        Some((start, left))
    }

    /// The starter has told how the leader of a host has ended; returns whether the host has left
    /// its relay already.
    pub(super) fn set_exit(&mut self, start: StartId, host: HostIndex, exit: Exit) -> bool {
        if let Some(below) = self.hosts.get_mut(&host).filter(|below| below.start == start) {
            below.exit = Some(exit);
        }
        self.left.get(&host).is_some_and(|(of, _)| *of == start)
    }

    /// The starter tells no further exit: all that are not known are this. Returns the hosts that
    /// have left.
    pub(super) fn set_unnamed_exits(&mut self, start: StartId, exit: Exit) -> Vec<HostIndex> {
        for below in self.hosts.values_mut().filter(|below| below.start == start) {
            below.exit.get_or_insert(exit);
        }
        self.left.iter().filter(|(_, (of, _))| *of == start).map(|(&host, _)| host).collect()
    }

    /// The next host whose exit was not told in time.
    pub(super) fn exit_is_late(&self, now: Instant) -> Option<HostIndex> {
        self.left_until.first().filter(|(until, _)| *until <= now).map(|&(_, host)| host)
    }

    /// The next time at which leaders were held, or an exit was waited for, for too long.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let exit = self.left_until.first().map(|&(until, _)| until);
        exit.into_iter().chain(self.starts.values().filter_map(|start| start.held_until)).min()
    }

    /// The next start whose leaders were held for too long: they do not wait for those that are to
    /// become relays any longer.
    pub(super) fn expire(&mut self, now: Instant) -> Option<StartId> {
        let is_due = |start: &&mut RelayedStart| start.held_until.is_some_and(|until| until <= now);
        let (&id, start) = self.starts.iter_mut().find(|(_, start)| is_due(start))?;
        start.asked.clear();
        start.make_do();
        start.held_until = None;
        Some(id)
    }
}

/// At a member.
impl Relays {
    pub(super) fn become_relay(&mut self) {
        self.is_relay = true;
    }

    pub(super) fn is_relay(&self) -> bool {
        self.is_relay
    }
}

#[cfg(test)]
mod tests;
