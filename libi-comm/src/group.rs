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
//! the table of `operation.rs`. Calls are numbered, and any number of them can be in progress.
//!
//! A call is complete for a member when the member's own part is:
//!
//! | operation | complete at the root | elsewhere |
//! |---|---|---|
//! | broadcast, scatter | its data are handed over | its data have arrived |
//! | gather, reduce | the data of all have arrived | its data are handed over |
//! | scan | | the values of all lower ranks have arrived |
//! | allgather, alltoall, allreduce | | the data of all have arrived |
//! | barrier, fence, ring | | all members have called, as signs tell |
//!
//! Data are handed over when all but a few KiB of them have been sent, as far as credit
//! (`flow_control.rs`) and the lead over slower members (`progress.rs`) allow. With
//! [strict](Completion::strict) completion every call waits for the signs of all members as well.
//!
//! ```text
//!             own call, and every          from above, or at the
//!             branch has called            top: all have called        nothing left to send
//! (unknown) -> Open -------------> Entered ----------------> Done -----------------------> Over
//!     |         |   tells the parent  |  tells the branches   | ^
//!     |         +---------------------+-----------------------+ |
//!     |               | a call does not match, is cancelled, or |cannot continue: Aborted
//!     |               v                                         |
//!     |              Over, with an error for every member that has not completed it
//!     +---------------------------------------------------------+ a call without signs
//! ```
//!
//! | module | decides |
//! |---|---|
//! | `operation` | what each operation is; below it, how values are combined and what messages say |
//! | `arguments` | which arguments are valid, and what a caller contributes |
//! | `collective` | the numbers of calls, which members have called, what is over and why |
//! | `call_state` | the state of a call in a process, see there |
//! | `broken` | which calls were aborted, and when a member hears of it |
//! | `progress` | which calls are over here and at the neighbors, and how far a process may be ahead |
//! | `losses`, `survival` | what follows when members are lost |
//! | `orphans` | what follows when a process has another parent |
//! | `joining` | what follows when another process takes the place of a lost member, or new ones come |
//! | `growth` | how many ranks a session has that grows |
//! | `masters` | which member is the master, in each call |
//! | `frames` | which part a frame is for |
//! | `probe` | how members find out that they wait for each other in different calls |
//! | `traffic`, `flow_control` | how much passes over a link, and when |
//! | `received`, `sending` | what has arrived here; what is sent next |
//! | `combining`, `messages` | the interfaces to operations that are more than forwarding |
//!
//! - **Agreement.** The signature of a member's call travels with its data and its signs. The first
//!   process that sees two different signatures under one number aborts the call, naming two ranks
//!   and what each called. A process keeps the signatures of calls that are over until they are over
//!   at its neighbors. A member that has waited for some time sends its signature over all links.
//! - **An aborted call** fails for every member that has not completed it. A member that has hears of
//!   it in its next collective call at the latest (`broken.rs`): that call fails with the same error,
//!   for this member and for those that need it. All members continue with the same numbers, and the
//!   calls after it can succeed.
//! - **Data** are forwarded as they arrive, under flow control: up to the lowest process that has
//!   both ends below it, and down from there. The amount that passes over a link is known as soon as
//!   the call is known (`traffic.rs`).
//! - **Combined** values (`combining.rs`) meet on their way. **Messages** (`messages.rs`), of a ring
//!   or a fence, are one up and one down on each link.
//! - **Timeouts** are the caller's. A caller that cancels a call aborts it; the error names the
//!   caller. A member that makes the call later gets the error at once. Some members may have
//!   completed the call while others get the error.
//!
//! # Lost members
//! The parent of a lost member reports the loss. With it goes the number of the first call that the
//! parent does not know of: this call and later ones cannot succeed, and fail at once wherever they
//! are made. Of the calls before it, the parent aborts those in which something of the branch is
//! missing, a sign or data, and those whose only receiver is lost with data on their way. Everything
//! that the branch had to send for the others has arrived over this link, so they continue. A call
//! that the parent has not seen is judged in the same way when it does. With strict completion, all
//! calls that the branch had not completely made cannot succeed.
//!
//! All this is so unless calls are to [go on](Completion::continues): see `survival.rs`.
//!
//! Messages and keys of other members are not affected. A process that loses the link to its parent
//! is about to end, and all its calls fail with [`CommError::Ended`].
//!
//! | event | result |
//! |---|---|
//! | calls differ in kind, root or length | [`CommError::Mismatch`] at every member, in this call or the next |
//! | a timeout elapses | [`CommError::TimedOut`] there, [`CommError::Cancelled`] elsewhere |
//! | a member's arguments are invalid | its error there, [`CommError::Failed`] elsewhere |
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
mod broken;
mod call_state;
mod collective;
mod combining;
mod context;
mod eager;
mod flow_control;
mod frames;
mod growth;
pub(crate) mod joining;
pub(crate) mod kvs;
mod link_map;
mod losses;
pub(crate) mod masters;
mod messages;
pub(crate) mod operation;
mod orphans;
pub(crate) mod p2p;
pub(crate) mod probe;
mod progress;
mod received;
mod sending;
pub(crate) mod survival;
mod traffic;
mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::loss::Loss;
use libi_core::machine::Machine;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use self::collective::Collective;
use self::context::CallContext;
use self::joining::Newcomer;
pub(crate) use self::view::GroupView;
use self::view::LOST_LINK;
use crate::contract::{Call, CallId, Completion, Effect, Event};
use crate::error::CommError;
use crate::memory::SharedMemory;
use crate::message::Message;

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
    /// The losses whose reasons are known.
    losses: Vec<Loss>,
    /// Members that are back, and the first calls with them, of which this member does not know yet.
    unannounced: Vec<(u64, Ranks)>,
    /// Aborted calls that were told over links that are in the tree with the next plan.
    aborts_before_plan: Vec<(u64, broken::Break)>,
    /// The number of ranks that the program knows of.
    told_size: u32,
    /// What a new process knows until it is told its first call.
    awaiting_welcome: Option<Newcomer>,
    /// Whether it was an orphan then.
    was_orphan: bool,
    /// The last request to the parent to confirm, as long as it has not.
    unconfirmed: Option<u64>,
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

    /// Sets when collective calls complete, the same in all processes. It is called before the
    /// session is up.
    pub fn complete_by(&mut self, completion: Completion) {
        self.collective.complete_by(completion);
        if completion.reconnects {
            self.p2p.keep_messages();
        }
    }

    /// Whether this process has nothing left to send or to forward for any call.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ended || self.collective.is_idle() && self.p2p.is_idle() && self.kvs.is_idle()
    }

    /// Whether no other member needs what this process has kept for calls, which it tells only after
    /// [`Event::Leave`].
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let has_early_calls = || self.early_events.iter().any(|event| matches!(event, Event::Call(..)));
        self.ended
            || self.view.topology.me.map_or_else(|| !has_early_calls(), |_| self.collective.is_settled())
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

    fn on(&mut self, event: Event, now: Instant, out: &mut Vec<Effect>) {
        self.handle(event, now, out);
    }
}

impl Group {
    fn handle(&mut self, event: Event, now: Instant, out: &mut Vec<Effect>) {
        let before = out.len();
        match event {
            Event::Up(topology) if topology.joins => {
                self.awaiting_welcome = Some(Newcomer::new(topology));
                for event in std::mem::take(&mut self.early_events) {
                    self.handle(event, now, out);
                }
            }
            Event::Up(topology) => {
                self.view = GroupView::new(topology);
                self.told_size = self.view.topology.size;
                self.collective.up(&self.view);
                return self.begin(now, out); // what was said of early calls was looked at with them
            }
            Event::Call(id, _) if self.ended => out.push(Effect::Finish(id, Err(CommError::Ended))),
            _ if self.ended => {}
            Event::Cut(LinkId::PARENT, _) => self.end(out),
            Event::Cancel(id) if !self.is_up => drop(self.open.remove(&id)),
            Event::Call(id, call) if !self.is_up => {
                self.open.insert(id);
                self.early_events.push(Event::Call(id, call));
            }
            Event::Confirm(_) if !self.is_up => {}
            Event::Frame(LinkId::PARENT, frame) if !self.is_up && self.awaiting_welcome.is_some() => {
                let Some(newcomer) = self.awaiting_welcome.take() else { return };
                self.awaiting_welcome = self.on_welcome(newcomer, frame, now, out);
                return;
            }
            Event::Reattached if self.awaiting_welcome.is_some() => self.reattached_before_welcome(out),
            event if !self.is_up => {
                let is_over = self.awaiting_welcome.as_mut().is_some_and(|newcomer| newcomer.on(&event, out));
                if !is_over {
                    self.early_events.push(event);
                }
            }
            Event::Confirm(number) => {
                if self.view.topology.has_parent {
                    self.unconfirmed = Some(number);
                    out.push(Effect::Send(LinkId::PARENT, Message::Confirm { number }.frame(None)));
                }
            }
            Event::Frame(link, frame) => self.on_frame(link, frame, now, out),
            Event::Region(link, bytes) => self.regions.entry(link).or_default().push_back(bytes),
            Event::Cut(link, reason) => self.cut(link, reason, now, out),
            Event::Severed(link, lost, reason) => self.severed(link, &lost, reason, now, out),
            Event::Adopted(adoption) => self.adopted(adoption, now, out),
            Event::Grows { size, absent } => self.grows(size, &absent, now, out),
            Event::Joins { link, ranks, local } => self.joins(link, &ranks, local),
            Event::Reattached => self.reattached(out),
            Event::Forsaken(link, reason) => self.forsaken(link, reason, now, out),
            Event::Call(id, call) => {
                self.open.insert(id);
                self.call(id, call, now, out);
            }
            Event::Cancel(id) => self.cancel(id, now, out),
            Event::Leave => {
                let Self { collective, view, kvs, memory, .. } = self;
                collective.leave(&mut CallContext { now, view, kvs, memory, out });
            }
            Event::Woken => {
                let Self { collective, view, kvs, memory, .. } = self;
                collective.on_woken(&mut CallContext { now, view, kvs, memory, out });
            }
        }
        self.ask_for_arrivals(now, out);
        self.forget_completed();
        self.drop_upward(before, out);
        self.drop_closed(before, out);
        self.announce_growth(before, out);
    }

    /// This process takes part from now on.
    fn begin(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.is_up = true;
        self.cut(LOST_LINK, None, now, out);
        for event in std::mem::take(&mut self.early_events) {
            match event {
                Event::Call(id, call) => self.early_call(id, call, now, out),
                event => self.handle(event, now, out),
            }
        }
    }

    /// Makes a call that was queued before the topology was known, and may have been cancelled
    /// since.
    fn early_call(&mut self, id: CallId, call: Call, now: Instant, out: &mut Vec<Effect>) {
        let before = out.len();
        let is_open = self.open.contains(&id);
        if is_open || call.is_collective() {
            self.call(id, call, now, out);
        }
        if !is_open {
            // A cancelled collective call keeps its number, and other members may wait for it.
            self.cancel(id, now, out);
        }
        self.drop_closed(before, out);
    }

    /// Drops the results of calls that are cancelled or have had a result, and adds to the others how
    /// members were lost.
    fn drop_closed(&mut self, before: usize, out: &mut Vec<Effect>) {
        let mut at = before;
        while let Some(effect) = out.get_mut(at) {
            if let Effect::Finish(_, Err(CommError::PeerLost { ranks, why })) = effect {
                *why = self.reasons(ranks);
            }
            let is_news = !matches!(effect, Effect::Finish(id, _) if !self.open.remove(id) && !self.ended);
            if is_news {
                at += 1;
            } else {
                out.remove(at);
            }
        }
    }

    fn call(&mut self, id: CallId, call: Call, now: Instant, out: &mut Vec<Effect>) {
        if let Some(why) = self.not_there(&call).or_else(|| self.not_back(&call)) {
            return out.push(Effect::Finish(id, Err(why)));
        }
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
                collective.call(id, call, me, &mut CallContext { now, view, kvs, memory, out });
                self.announce(out);
            }
        }
    }

    fn cancel(&mut self, id: CallId, now: Instant, out: &mut Vec<Effect>) {
        self.open.remove(&id);
        let Self { collective, view, kvs, p2p, memory, .. } = self;
        if p2p.cancel(id, view, out) || kvs.cancel(id, view, out) {
            return;
        }
        if let Some(me) = view.topology.me {
            collective.cancel(id, me, &mut CallContext { now, view, kvs, memory, out });
        }
    }

    /// The parent is lost: no process can be reached.
    fn end(&mut self, out: &mut Vec<Effect>) {
        self.ended = true;
        self.early_events.clear();
        let open = std::mem::take(&mut self.open);
        out.extend(open.into_iter().map(|id| Effect::Finish(id, Err(CommError::Ended))));
    }
}
