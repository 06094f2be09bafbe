//! A group: one process's part in the communication of its session.
//!
//! # Who takes part
//! The members that were up when the session was said to be up, connected as they were launched: every process has a
//! link to whoever has started it, and to everybody it has started. The front end is above all. Where the members'
//! tree has its *top* is said by the [topology](crate::topology): mostly the master, for whom the front end is nobody
//! but somebody to send to and receive from.
//!
//! # Collective calls
//! Every member makes the same collective calls in the same order; they are numbered, and any number of them may be under way. A call
//! is over for a member when everybody has called and its own data have come and gone.
//!
//! ```text
//!                 own call, and every branch             from above, or at the top:
//!                 says that it has called                everybody has called          nothing left to pass on
//!   (unknown) -> Open ---------------------> Entered -----------------------> Done ---------------------------> Over
//!                  |  says so upwards          |         says so downwards      |
//!                  +---------------------------+--------------------------------+
//!                         | somebody has called something else, or has given up, or cannot go on: Broken
//!                         v
//!                        Over, with an error for every member that was not over before
//! ```
//!
//! - **Agreement.** What a member has called travels with the sign that it has called. The first process that sees two
//!   different calls under one number says so to everybody, with the ranks and what each has called. Since no call is over
//!   for anybody before all have called, everybody gets this error, and nobody waits. The next call is a new chance.
//! - **Data** do not wait for agreement. They go from link to link as they come (`lanes.rs`, where the windows are), up to
//!   the lowest process below which both ends are, and down; how much goes over a link is known as soon as the
//!   call is (`expect.rs`).
//! - **Values** to be combined are combined where they meet (`tally.rs`); a **ring** is one message up and one down on each
//!   link (`ring.rs`), a **fence** as well (`keys.rs`).
//! - **Deadlines** are the caller's. When it has waited long enough the call is broken for everybody who is not over it,
//!   naming who has given up; members that make this call later are told at once. Some members may have what they
//!   wanted and others the error, and that is the only uncertainty: everybody goes on with the next number.
//!
//! # When somebody is lost
//! Whoever has a link to him is the witness. It knows up to which number everybody in that branch has called, and says so to
//! all, with their ranks: later calls cannot succeed any more, and fail at once wherever they are made. Earlier ones
//! go on, since everything that those below had to say for them has come through this link or has not: if not,
//! the witness breaks the call. Messages between others, and keys of others, are not touched. Who is *cut off from its
//! parent* is about to end, and all its calls end with [`CommError::Ended`].
//!
//! | what happens | what follows |
//! |---|---|
//! | calls differ in kind, root or length | [`CommError::Mismatch`] at every member, for this call alone |
//! | a member's patience ends | [`CommError::TimedOut`] there, [`CommError::Cancelled`] at those that were not over it |
//! | a member's arguments are wrong | the error there, [`CommError::Cancelled`] elsewhere |
//! | there is no memory for what comes | the same |
//! | a fence is broken off that the top had decided | the errors, and it counts for keys all the same: nobody would know what others have |
//! | a branch is lost | [`CommError::PeerLost`] for what it is needed for |
//! | a frame makes no sense | the call that it belongs to is broken; one that belongs to none is dropped |
//!
//! # Messages between two, and keys
//! The heads of `p2p.rs` and `keys.rs` have their states.

mod call_state;
mod collective;
mod context;
mod flow_control;
pub(crate) mod kvs;
pub(crate) mod p2p;
mod payload;
mod received;
mod reduction;
mod ring;
mod traffic;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::machine::Machine;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use self::collective::Collective;
use self::context::CallContext;
use crate::contract::{Address, Call, CallId, Effect, Event};
use crate::error::CommError;
use crate::memory::SharedMemory;
use crate::message::Message;
use crate::topology::{Hop, Routes, Topology};

/// Who this process is, who is where, and who is gone: what everybody in a group goes by.
#[derive(Debug, Default)]
pub(crate) struct GroupView {
    pub(crate) topology: Topology,
    pub(crate) routes: Routes,
    /// Members that were there and are gone.
    pub(crate) lost: Ranks,
    /// Links that have ended.
    pub(crate) cut: BTreeSet<LinkId>,
}

impl GroupView {
    fn new(topology: Topology) -> Self {
        let routes = Routes::new(&topology);
        Self { topology, routes, ..Self::default() }
    }

    /// This process.
    pub(crate) fn me(&self) -> Address {
        self.topology.me.map_or(Address::FrontEnd, Address::Rank)
    }

    /// How many members the group had at first.
    fn members(&self) -> u64 {
        u64::from(self.topology.size).saturating_sub(self.topology.absent.len() as u64)
    }

    /// How many of them this process is.
    fn here(&self) -> u64 {
        u64::from(self.topology.me.is_some())
    }

    /// The link to the next process above that takes part in collective calls.
    fn collective_parent(&self) -> Option<LinkId> {
        (self.topology.has_parent && !self.topology.top).then_some(LinkId::PARENT)
    }

    /// The link that leads to somebody, or why there is none. Whoever is here himself is `None`.
    pub(crate) fn route(&self, to: Address) -> Result<Option<LinkId>, CommError> {
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
            (Hop::Local, _) => Ok(None),
            (Hop::Link(link), _) => Ok(Some(link)),
            (Hop::Unreachable, Address::FrontEnd) => Err(CommError::FrontEndLost),
            (Hop::Unreachable, Address::Rank(rank)) => Err(lost(rank)),
        }
    }
}

fn lost(rank: Rank) -> CommError {
    CommError::PeerLost { ranks: [rank].into_iter().collect() }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Group {
    /// What has happened before the group knew its place.
    early_events: Vec<Event>,
    is_up: bool,
    ended: bool,
    view: GroupView,
    /// Calls of which nothing has been said yet.
    open: BTreeSet<CallId>,
    collective: Collective,
    p2p: p2p::PointToPoint,
    kvs: kvs::KeyStore,
    memory: Option<Box<dyn SharedMemory>>,
    /// What has been lent over each link, and not been said to be anything yet.
    regions: BTreeMap<LinkId, VecDeque<Bytes>>,
}

impl Group {
    /// The group of a process that does not know its place yet. Calls wait until it does.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One whose process can lend memory to others on its host.
    #[must_use]
    pub fn with_memory(memory: Box<dyn SharedMemory>) -> Self {
        Self { memory: Some(memory), ..Self::default() }
    }

    /// Whether nothing that was called here is still to leave this process, and nothing is on its way through it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ended || self.collective.is_idle() && self.p2p.is_idle() && self.kvs.is_idle()
    }

    /// Who did not come up.
    #[must_use]
    pub fn absent(&self) -> &Ranks {
        &self.view.topology.absent
    }
}

impl Machine for Group {
    type Event = Event;
    type Effect = Effect;

    fn on(&mut self, event: Event, _now: Instant, out: &mut Vec<Effect>) {
        self.handle(event, out);
    }
}

impl Group {
    fn handle(&mut self, event: Event, out: &mut Vec<Effect>) {
        let before = out.len();
        match event {
            Event::Up(topology) => {
                self.is_up = true;
                self.view = GroupView::new(topology);
                self.collective.up(&self.view);
                for event in std::mem::take(&mut self.early_events) {
                    match event {
                        Event::Call(id, call) => self.early_call(id, call, out),
                        event => self.handle(event, out),
                    }
                }
                return; // what was said of early calls was looked at with them
            }
            Event::Call(id, _) if self.ended => out.push(Effect::Finish(id, Err(CommError::Ended))),
            _ if self.ended => {}
            Event::Cut(LinkId::PARENT) => self.end(out),
            Event::Cancel(id) if !self.is_up => drop(self.open.remove(&id)),
            Event::Call(id, call) if !self.is_up => {
                self.open.insert(id);
                self.early_events.push(Event::Call(id, call));
            }
            event if !self.is_up => self.early_events.push(event),
            Event::Frame(link, frame) => self.on_frame(link, &frame, out),
            Event::Region(link, bytes) => self.regions.entry(link).or_default().push_back(bytes),
            Event::Cut(link) => self.cut(link, out),
            Event::Call(id, call) => {
                self.open.insert(id);
                self.call(id, call, out);
            }
            Event::Cancel(id) => self.cancel(id, out),
        }
        self.drop_closed(before, out);
    }

    /// A call that was made before the group knew its place, and perhaps given up before that.
    fn early_call(&mut self, id: CallId, call: Call, out: &mut Vec<Effect>) {
        let before = out.len();
        let is_open = self.open.contains(&id);
        if is_open || call.is_collective() {
            self.call(id, call, out);
        }
        if !is_open {
            // A collective call has had its number all the same, and others may wait for it.
            self.cancel(id, out);
        }
        self.drop_closed(before, out);
    }

    /// Of a call that nobody waits for any more, and of one that has been told of, nothing is said.
    fn drop_closed(&mut self, before: usize, out: &mut Vec<Effect>) {
        let mut at = before;
        while let Some(effect) = out.get(at) {
            let is_news = !matches!(effect, Effect::Finish(id, _) if !self.open.remove(id) && !self.ended);
            if is_news {
                at += 1;
            } else {
                out.remove(at);
            }
        }
    }

    fn call(&mut self, id: CallId, call: Call, out: &mut Vec<Effect>) {
        match (call, self.view.topology.me) {
            (Call::Send { to, tag, data }, _) => self.p2p.send(id, to, tag, data, &self.view, out),
            (Call::Receive { from, tag }, _) => self.p2p.receive(id, from, tag, &self.view, out),
            (_, None) => out.push(Effect::Finish(id, Err(CommError::NotAMember))),
            (Call::Put { key, value, scope }, _) => {
                self.kvs.put(id, key, value, scope, &self.view, out);
            }
            (Call::Get { key, wait }, _) => self.kvs.get(id, key, wait, &self.view, out),
            (call, Some(me)) => {
                let Self { collective, view, kvs, memory, .. } = self;
                collective.call(id, call, me, &mut CallContext { view, kvs, memory, out });
            }
        }
    }

    fn cancel(&mut self, id: CallId, out: &mut Vec<Effect>) {
        self.open.remove(&id);
        let Self { collective, view, kvs, p2p, memory, .. } = self;
        if p2p.cancel(id, view, out) || kvs.cancel(id, view, out) {
            return;
        }
        if let Some(me) = view.topology.me {
            collective.cancel(id, me, &mut CallContext { view, kvs, memory, out });
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: &Bytes, out: &mut Vec<Effect>) {
        if self.view.cut.contains(&link) {
            return;
        }
        let Self { collective, view, kvs, p2p, memory, .. } = self;
        let Some((message, payload)) = Message::decode(frame) else { return };
        match message {
            Message::Collective(flow) => {
                collective.on_frame(link, &flow, payload, &mut CallContext { view, kvs, memory, out });
            }
            Message::Region(flow) => {
                let bytes = self.regions.get_mut(&link).and_then(VecDeque::pop_front);
                collective.on_region(link, &flow, bytes, &mut CallContext { view, kvs, memory, out });
            }
            Message::Grant { nth, limit } => {
                collective.on_grant(link, nth, limit, &mut CallContext { view, kvs, memory, out });
            }
            Message::Aborted { nth, why } => {
                collective.abort(nth, why, Some(link), &mut CallContext { view, kvs, memory, out });
            }
            Message::Lost { ranks, before } => self.lost(&ranks, before, Some(link), out),
            Message::P2p(message) => p2p.on_frame(link, message, payload, view, out),
            Message::Kvs(message) => kvs.on_frame(link, message, payload, view, out),
        }
    }

    /// A branch is gone.
    fn cut(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let branch = self.view.topology.branches.iter().find(|branch| branch.link == link);
        let Some(ranks) = branch.map(|branch| branch.ranks.clone()) else { return };
        if !self.view.cut.insert(link) {
            return;
        }
        self.view.routes.cut(link);
        let before = self.collective.cut(link);
        self.lost(&ranks, before, None, out);
        let Self { collective, view, kvs, memory, .. } = self;
        kvs.cut(link, &ranks, view, out);
        collective.drop_branch(link, &ranks, &mut CallContext { view, kvs, memory, out });
    }

    /// These are gone, as this process has seen, or as was said over a link.
    fn lost(&mut self, ranks: &Ranks, before: u64, from: Option<LinkId>, out: &mut Vec<Effect>) {
        self.view.lost.add_all(ranks);
        let Self { collective, view, kvs, p2p, memory, .. } = self;
        let parent = Some(LinkId::PARENT).filter(|_| view.topology.has_parent);
        let branches = view.topology.branches.iter().map(|branch| branch.link);
        let frame = Message::Lost { ranks: ranks.clone(), before }.frame(None);
        for link in parent.into_iter().chain(branches) {
            if Some(link) != from && !view.cut.contains(&link) {
                out.push(Effect::Send(link, frame.clone()));
            }
        }
        collective.lost(ranks, before, &mut CallContext { view, kvs, memory, out });
        p2p.lost(ranks, view, out);
        out.push(Effect::Lost(ranks.clone()));
    }

    /// There is no way to anybody any more.
    fn end(&mut self, out: &mut Vec<Effect>) {
        self.ended = true;
        self.early_events.clear();
        let open = std::mem::take(&mut self.open);
        out.extend(open.into_iter().map(|id| Effect::Finish(id, Err(CommError::Ended))));
    }
}
