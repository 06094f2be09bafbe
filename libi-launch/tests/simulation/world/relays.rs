//! Redirected connections: processes that arrive at a relay, do not reach it, and come back.

use std::net::SocketAddr;
use std::time::Duration;

use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::machine::{ArrivalId, Claim, Event, LinkId, StartId};

use super::bulk::{Arrival, BulkEvent};
use super::{Cluster, FRONT, Happening, MINIMAL_LATENCY};
use crate::direct::process_at;

/// How long a process tries to arrive at its relay.
const RELAY_TIMEOUT: Duration = Duration::from_secs(3);

impl Cluster {
    /// A connection has proved itself at a rendezvous, and makes its claim. Returns when it is heard.
    pub(super) fn arrives_at(&mut self, at: Id, arrival: Arrival, agenda: &mut Agenda<Self>) -> Instant {
        self.bulk.last += 1;
        let id = ArrivalId(self.bulk.last);
        let names = vec!["localhost".to_owned(), arrival.name.clone()];
        let claim = Claim { names, is_back: arrival.is_back };
        let start = arrival.start;
        self.bulk.arrivals.insert(id, arrival);
        let arrives = agenda.now() + self.latency();
        agenda.tell(arrives, at, Event::Arrived(start, id, claim).into());
        arrives
    }

    pub(super) fn redirect(
        &mut self,
        arrival: ArrivalId,
        addresses: &[SocketAddr],
        agenda: &mut Agenda<Self>,
    ) {
        let Some(mut redirected) = self.bulk.arrivals.remove(&arrival) else {
            return self.bulk.wrong = Some(format!("{arrival:?} is redirected without having arrived"));
        };
        let Some(relay) = addresses.first().copied().and_then(process_at) else {
            return self.bulk.wrong = Some(format!("{arrival:?} is redirected to nowhere"));
        };
        if redirected.is_back || redirected.relay.is_some() {
            return self.bulk.wrong = Some(format!("{arrival:?} is redirected a second time"));
        }
        self.bulk.redirected += 1;
        if redirected.link.is_none() {
            // A second connection of a host; its program never joins.
            return;
        }
        redirected.relay = Some((relay, agenda.now() + RELAY_TIMEOUT));
        let at = agenda.now() + self.latency();
        agenda.plan(at, Happening::Bulk(BulkEvent::Connects(redirected)));
    }

    /// A redirected process connects to its relay, if it can.
    pub(super) fn connects_to_relay(&mut self, arrival: Arrival, agenda: &mut Agenda<Self>) {
        let Some((relay, until)) = arrival.relay.filter(|_| !self.is_gone(&arrival)) else { return };
        let unreachable = self.scenario.relays_unreachable;
        if agenda.now() >= until || !self.is_running(relay) || self.rng.chance(unreachable) {
            self.bulk.came_back += 1;
            let back = Arrival { relay: None, is_back: true, ..arrival };
            // It tries again and again.
            let at = agenda.now().max(until);
            self.bulk.last += 1;
            let id = ArrivalId(self.bulk.last);
            self.bulk.arrivals.insert(id, back);
            return agenda.plan(at, Happening::Bulk(BulkEvent::Returns(id)));
        }
        let arrives = self.arrives_at(relay, arrival, agenda);
        let id = ArrivalId(self.bulk.last);
        // Its relay hears that it leaves after it has heard of it.
        let leaves = until.max(arrives + MINIMAL_LATENCY);
        agenda.plan(leaves, Happening::Bulk(BulkEvent::Returns(id)));
    }

    /// A process that has no answer of its relay goes back to the front end.
    pub(super) fn returns(&mut self, id: ArrivalId, agenda: &mut Agenda<Self>) {
        let Some(arrival) = self.bulk.arrivals.remove(&id).filter(|arrival| !self.is_gone(arrival)) else {
            return;
        };
        if let Some((relay, _)) = arrival.relay {
            agenda.tell(agenda.now(), relay, Event::Left(id).into());
        }
        self.arrives_at(FRONT, Arrival { relay: None, is_back: true, ..arrival }, agenda);
    }

    /// A connection is closed without an answer, and tries again.
    pub(super) fn turn_away(&mut self, arrival: ArrivalId, agenda: &mut Agenda<Self>) {
        let Some(turned_away) = self.bulk.arrivals.remove(&arrival) else { return };
        let pause = Duration::from_millis(100 + self.rng.below(100));
        agenda.plan(agenda.now() + pause, Happening::Bulk(BulkEvent::Connects(turned_away)));
    }

    /// Whether the program of a connection was ended.
    fn is_gone(&self, arrival: &Arrival) -> bool {
        let starter = self.bulk.starters.get(&arrival.start);
        arrival.link.zip(starter).is_some_and(|(link, starter)| starter.gone.contains(&link))
    }

    /// The process on a host of a start, wherever its link leads.
    pub(super) fn process_of(&self, start: StartId, link: LinkId) -> Option<Id> {
        let mut elsewhere = self.bulk.elsewhere.iter().filter(|(_, of)| **of == (start, link));
        let (at, link) = elsewhere.next_back().map_or((FRONT, link), |(end, _)| *end);
        self.processes[at.0 as usize].children.get(&link).copied().flatten()
    }
}
