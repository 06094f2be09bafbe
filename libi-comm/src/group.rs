//! A group: one process's part in the communication of its session.

pub(crate) mod keys;
pub(crate) mod mail;

use libi_core::ids::{LinkId, Rank};
use libi_core::machine::Machine;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use crate::contract::{Address, Call, CallId, Effect, Event};
use crate::error::CommError;
use crate::message::Message;
use crate::topology::{Hop, Routes, Topology};

/// Who this process is, who is where, and who is gone: what everybody in a group goes by.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) topology: Topology,
    pub(crate) routes: Routes,
    /// Members that were there and are gone.
    pub(crate) lost: Ranks,
}

impl Place {
    /// This process.
    pub(crate) fn me(&self) -> Address {
        self.topology.me.map_or(Address::FrontEnd, Address::Rank)
    }

    /// The link that leads to somebody, or why there is none. Whoever is here himself is `None`.
    pub(crate) fn way(&self, to: Address) -> Result<Option<LinkId>, CommError> {
        if let Address::Rank(rank) = to {
            if rank.0 >= self.topology.size {
                return Err(CommError::NoSuchPeer(to));
            }
            if self.topology.absent.contains(rank) {
                return Err(CommError::Absent(rank));
            }
            if self.lost.contains(rank) {
                return Err(lost(rank));
            }
        }
        match (self.routes.to(to), to) {
            (Hop::Here, _) => Ok(None),
            (Hop::Over(link), _) => Ok(Some(link)),
            (Hop::Nowhere, Address::FrontEnd) => Err(CommError::FrontEndLost),
            (Hop::Nowhere, Address::Rank(rank)) => Err(lost(rank)),
        }
    }
}

fn lost(rank: Rank) -> CommError {
    CommError::PeerLost { ranks: [rank].into_iter().collect() }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Group {
    place: Place,
    mail: mail::Office,
    keys: keys::Store,
}

impl Group {
    /// The group of a process that does not know its place yet. Calls wait until it does.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing that was called here is still to leave this process, and nothing is on its way through it.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.mail.is_quiet() && self.keys.is_quiet()
    }
}

impl Machine for Group {
    type Event = Event;
    type Effect = Effect;

    fn on(&mut self, event: Event, _now: Instant, out: &mut Vec<Effect>) {
        match event {
            Event::Up(topology) => {
                self.place.routes = Routes::new(&topology);
                self.place.topology = topology;
            }
            Event::Frame(link, frame) => match Message::take(&frame) {
                Some((Message::Mail(mail), cargo)) => self.mail.heard(link, mail, cargo, &self.place, out),
                Some((Message::Keys(message), cargo)) => {
                    self.keys.heard(link, message, cargo, &self.place, out);
                }
                _ => {}
            },
            Event::Cut(_) => {}
            Event::Call(id, call) => self.call(id, call, out),
            Event::Cancel(id) => {
                let _ = self.mail.cancel(id, &self.place, out) || self.keys.cancel(id, &self.place, out);
            }
        }
    }
}

impl Group {
    fn call(&mut self, id: CallId, call: Call, out: &mut Vec<Effect>) {
        match call {
            Call::Send { to, tag, data } => self.mail.send(id, to, tag, data, &self.place, out),
            Call::Receive { from, tag } => self.mail.receive(id, from, tag, &self.place, out),
            Call::Put { key, value, spread } => self.keys.put(id, key, value, spread, &self.place, out),
            Call::Get { key, wait } => self.keys.get(id, key, wait, &self.place, out),
            _ => {}
        }
    }
}
