//! A group: one process's part in the communication of its session.
//!
//! # Members and tree
//! The members of a group are those that were up when the session was declared up. They are
//! connected as they were launched: each process has a link to its parent and one to each of its
//! children. The front end is the root of the launch tree. The [topology](libi_core::topology) says
//! where the members' tree has its *top*. This is mostly the master, and then the front end only
//! exchanges messages and uses keys.
//!
//! # Collective calls
//! All members make the same collective calls in the same order. What each operation is stands in
//! the table of `operation.rs`. Calls are numbered, and any number of them can be in progress. A
//! call is complete for a member when all members have called, and the member's own data have been
//! received and sent.
//!
//! ```text
//!             own call, and every          from above, or at the
//!             branch has called            top: all have called        nothing left to send
//! (unknown) -> Open -------------> Entered ----------------> Done -----------------------> Over
//!               |   tells the parent  |  tells the branches   |
//!               +---------------------+-----------------------+
//!                     | a call does not match, is cancelled, or cannot continue: Aborted
//!                     v
//!                    Over, with an error for every member that had not completed it
//! ```
//!
//! | module | decides |
//! |---|---|
//! | `operation` | what each operation is; below it, how values are combined and what messages say |
//! | `arguments` | which arguments are valid, and what a caller contributes |
//! | `collective` | the numbers of calls, which members have called, what is over and why |
//! | `call_state` | the state of a call in a process, see there |
//! | `traffic`, `flow_control` | how much passes over a link, and when |
//! | `received`, `sending` | what has arrived here; what is sent next |
//! | `combining`, `messages` | the interfaces to operations that are more than forwarding |
//!
//! - **Agreement.** The signature of a member's call travels with the sign that the member has
//!   called. The first process that sees two different signatures under one number aborts the call,
//!   naming two ranks and what each called. No call completes for any member before all have
//!   called, so every member gets this error and none keeps waiting. The next call can succeed.
//! - **Data** do not wait for agreement. They are forwarded as they arrive, under flow control
//!   (`flow_control.rs`): up to the lowest process that has both ends below it, and down from
//!   there. The amount that passes over a link is known as soon as the call is known
//!   (`traffic.rs`).
//! - **Combined** values (`combining.rs`) meet on their way. **Messages** (`messages.rs`), of a ring
//!   or a fence, are one up and one down on each link.
//! - **Timeouts** are the caller's. A caller that cancels a call aborts it for every member that
//!   has not completed it; the error names the caller. A member that makes the call later gets the
//!   error at once. Some members may have completed the call while others get the error. All
//!   continue with the next number.
//!
//! # Lost members
//! The parent of a lost member reports the loss. It knows up to which number the whole branch has
//! called, and sends this number to all processes together with the lost ranks. Later calls cannot
//! succeed and fail at once wherever they are made. Earlier calls continue: everything that the
//! branch had to send for them has arrived over this link. If it has not, the parent aborts the
//! call. Messages and keys of other members are not affected. A process that loses the link to its
//! parent is about to end, and all its calls fail with [`CommError::Ended`].
//!
//! | event | result |
//! |---|---|
//! | calls differ in kind, root or length | [`CommError::Mismatch`] at every member |
//! | a timeout elapses | [`CommError::TimedOut`] there, [`CommError::Cancelled`] elsewhere |
//! | a member's arguments are invalid | its error there, [`CommError::Cancelled`] elsewhere |
//! | no memory for received data | the same |
//! | a branch is lost | [`CommError::PeerLost`] for calls that need it |
//! | an invalid frame arrives | its call is aborted; a frame of no call is dropped |
//!
//! A fence that is aborted after the top had decided it fails like other calls, and takes effect
//! for keys all the same: no member knows what others have already seen.
//!
//! # Point-to-point messages and keys
//! Their protocols are described in `p2p.rs` and `kvs.rs`.

mod arguments;
mod call_state;
mod collective;
mod combining;
mod context;
mod flow_control;
pub(crate) mod kvs;
mod messages;
pub(crate) mod operation;
pub(crate) mod p2p;
mod received;
mod sending;
mod traffic;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::machine::Machine;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::{Branch, Topology};

use self::collective::Collective;
use self::context::CallContext;
use crate::contract::{Address, Call, CallId, Effect, Event};
use crate::error::CommError;
use crate::memory::SharedMemory;
use crate::message::Message;
use crate::routes::{Hop, Routes};

/// The link of members that were lost before the session was up. It does not exist, and is cut
/// before the first call.
const LOST_LINK: LinkId = LinkId(u32::MAX);

/// What a group knows of the session: this process, the tree, and the lost members.
#[derive(Debug, Default)]
pub(crate) struct GroupView {
    pub(crate) topology: Topology,
    pub(crate) routes: Routes,
    /// Members that were up and are lost.
    pub(crate) lost: Ranks,
    /// Links that are closed.
    pub(crate) cut: BTreeSet<LinkId>,
}

impl GroupView {
    fn new(mut topology: Topology) -> Self {
        let ranks = std::mem::take(&mut topology.lost);
        if !ranks.is_empty() {
            topology.branches.push(Branch { link: LOST_LINK, ranks, local: false });
        }
        let routes = Routes::new(&topology);
        Self { topology, routes, ..Self::default() }
    }

    /// The address of this process.
    pub(crate) fn me(&self) -> Address {
        self.topology.me.map_or(Address::FrontEnd, Address::Rank)
    }

    /// The number of members when the session came up.
    fn members(&self) -> u64 {
        u64::from(self.topology.size).saturating_sub(self.topology.absent.len() as u64)
    }

    /// 1 if this process is a member, else 0.
    fn here(&self) -> u64 {
        u64::from(self.topology.me.is_some())
    }

    /// The link to the parent, if collective calls use it.
    fn collective_parent(&self) -> Option<LinkId> {
        (self.topology.has_parent && !self.topology.top).then_some(LinkId::PARENT)
    }

    /// The link that leads to a process, or why there is none. `None` for this process itself.
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
    /// Events that arrived before the topology.
    early_events: Vec<Event>,
    is_up: bool,
    ended: bool,
    view: GroupView,
    /// Calls that have no result yet.
    open: BTreeSet<CallId>,
    collective: Collective,
    p2p: p2p::PointToPoint,
    kvs: kvs::KeyStore,
    memory: Option<Box<dyn SharedMemory>>,
    /// Shared memory that has arrived over each link, and whose frame has not.
    regions: BTreeMap<LinkId, VecDeque<Bytes>>,
}

impl Group {
    /// A group without a topology yet. Calls wait until it has one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A group that can share memory with other members of its host.
    #[must_use]
    pub fn with_memory(memory: Box<dyn SharedMemory>) -> Self {
        Self { memory: Some(memory), ..Self::default() }
    }

    /// Whether this process has nothing left to send or to forward for any call.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ended || self.collective.is_idle() && self.p2p.is_idle() && self.kvs.is_idle()
    }

    /// The ranks whose launch failed.
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
                self.cut(LOST_LINK, out);
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

    /// Makes a call that was queued before the topology was known, and may have been cancelled
    /// since.
    fn early_call(&mut self, id: CallId, call: Call, out: &mut Vec<Effect>) {
        let before = out.len();
        let is_open = self.open.contains(&id);
        if is_open || call.is_collective() {
            self.call(id, call, out);
        }
        if !is_open {
            // A cancelled collective call keeps its number, and other members may wait for it.
            self.cancel(id, out);
        }
        self.drop_closed(before, out);
    }

    /// Drops the results of calls that are cancelled or have had a result.
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

    /// The link to a branch is closed.
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

    /// These ranks are lost, as seen by this process or reported over a link.
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

    /// The parent is lost: no process can be reached.
    fn end(&mut self, out: &mut Vec<Effect>) {
        self.ended = true;
        self.early_events.clear();
        let open = std::mem::take(&mut self.open);
        out.extend(open.into_iter().map(|id| Effect::Finish(id, Err(CommError::Ended))));
    }
}
