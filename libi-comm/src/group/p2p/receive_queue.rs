//! Decides which receive gets which message, and how much of a message may be on its way.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use libi_core::ranks::Ranks;

use super::send_queue::{CHUNK, EAGER_LIMIT, EAGER_MAX, cost};
use super::{P2pContext, lost};
use crate::contract::{Address, CallId, Outcome};
use crate::error::CommError;
use crate::message::p2p::{Arrivals, P2pMessage, PartialArrival, RejectReason};

/// How much of a message may be on its way to this process: about 1 MiB, in whole chunks.
pub(super) const WINDOW: u64 = 8 * CHUNK as u64;

/// How much of all messages together, but at least a chunk of each. One process that receives from
/// thousands would otherwise fill the memory of those that forward.
const WINDOWS: u64 = 16 * WINDOW;

/// The messages and receives of this process.
#[derive(Debug, Default)]
pub(super) struct ReceiveQueue {
    peers: BTreeMap<Address, Peer>,
    calls: BTreeMap<CallId, PendingReceive>,
    /// The number of messages that are being transferred.
    active_transfers: u64,
    /// Whether senders are told when an offered message has arrived.
    pub(super) confirms: bool,
}

/// The state of a receive.
#[derive(Clone, Copy, Debug)]
enum PendingReceive {
    /// There is no message for it yet.
    Waiting { from: Address, tag: u32 },
    /// Its message is being transferred.
    Transferring { from: Address, id: u64 },
}

/// The messages from one process.
#[derive(Debug, Default)]
struct Peer {
    /// The number of its newest message.
    newest: u64,
    /// The bytes of eager messages that are buffered.
    buffered: u64,
    /// The bytes of eager messages that the program has consumed.
    consumed: u64,
    /// How much of that the sender knows.
    acknowledged: u64,
    tags: BTreeMap<u32, TagQueue>,
    transfers: BTreeMap<u64, Transfer>,
}

/// The unexpected messages with one tag, or the receives that wait for one. One of the two is
/// always empty.
#[derive(Debug, Default)]
struct TagQueue {
    messages: VecDeque<(u64, UnexpectedMessage)>,
    calls: VecDeque<CallId>,
}

#[derive(Debug)]
enum UnexpectedMessage {
    Eager(Bytes),
    Offer { total: u64 },
}

impl ReceiveQueue {
    pub(super) fn receive(&mut self, call: CallId, from: Address, tag: u32, ctx: &mut P2pContext<'_>) {
        // Messages that a lost process had sent can still be received.
        let first = self.peers.get_mut(&from).and_then(|peer| {
            let queue = peer.tags.get_mut(&tag)?;
            let first = queue.messages.pop_front()?;
            peer.prune(tag);
            Some(first)
        });
        if let Some((id, unexpected)) = first {
            return self.deliver(call, from, id, unexpected, ctx);
        }
        match ctx.view.route(from) {
            Ok(_) => {
                let peer = self.peers.entry(from).or_default();
                peer.tags.entry(tag).or_default().calls.push_back(call);
                self.calls.insert(call, PendingReceive::Waiting { from, tag });
            }
            Err(error) => ctx.finish(call, Err(error)),
        }
    }

    /// Cancels a receive. True if it is one of these.
    pub(super) fn cancel(&mut self, call: CallId, ctx: &mut P2pContext<'_>) -> bool {
        match self.calls.remove(&call) {
            Some(PendingReceive::Waiting { from, tag }) => {
                if let Some(peer) = self.peers.get_mut(&from) {
                    if let Some(queue) = peer.tags.get_mut(&tag) {
                        queue.calls.retain(|waiting| *waiting != call);
                    }
                    peer.prune(tag);
                }
            }
            Some(PendingReceive::Transferring { from, id }) => {
                self.remove(from, id);
                ctx.control(from, P2pMessage::Rejected { id, why: RejectReason::Cancelled });
            }
            None => return false,
        }
        true
    }

    /// The program has sent a message to its own process.
    pub(super) fn send_to_self(&mut self, tag: u32, bytes: Bytes, ctx: &mut P2pContext<'_>) {
        let me = ctx.view.me();
        let id = self.peers.get(&me).map_or(1, |peer| peer.newest + 1);
        self.arrive(me, id, tag, UnexpectedMessage::Eager(bytes), ctx);
    }

    /// An eager message has arrived.
    pub(super) fn eager(&mut self, from: Address, id: u64, tag: u32, bytes: Bytes, ctx: &mut P2pContext<'_>) {
        let peer = self.peers.entry(from).or_default();
        let buffered = peer.buffered + cost(bytes.len());
        // A peer that follows the protocol sends no more than this, and no message twice.
        if bytes.len() <= EAGER_MAX && buffered <= EAGER_LIMIT && id > peer.newest {
            peer.buffered = buffered;
            self.arrive(from, id, tag, UnexpectedMessage::Eager(bytes), ctx);
        }
    }

    /// A message is offered.
    pub(super) fn offered(&mut self, from: Address, id: u64, tag: u32, total: u64, ctx: &mut P2pContext<'_>) {
        if self.peers.get(&from).is_none_or(|peer| id > peer.newest) {
            self.arrive(from, id, tag, UnexpectedMessage::Offer { total }, ctx);
        }
    }

    fn arrive(
        &mut self,
        from: Address,
        id: u64,
        tag: u32,
        unexpected: UnexpectedMessage,
        ctx: &mut P2pContext<'_>,
    ) {
        let peer = self.peers.entry(from).or_default();
        peer.newest = id;
        let queue = peer.tags.entry(tag).or_default();
        match queue.calls.pop_front() {
            Some(call) => {
                peer.prune(tag);
                self.calls.remove(&call);
                self.deliver(call, from, id, unexpected, ctx);
            }
            None => queue.messages.push_back((id, unexpected)),
        }
    }

    /// Gives a message to a receive.
    fn deliver(
        &mut self,
        call: CallId,
        from: Address,
        id: u64,
        unexpected: UnexpectedMessage,
        ctx: &mut P2pContext<'_>,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        match unexpected {
            UnexpectedMessage::Eager(bytes) => {
                if from != ctx.view.me() {
                    peer.eager_consumed(cost(bytes.len()), from, ctx);
                }
                ctx.finish(call, Ok(Outcome::Data(bytes)));
            }
            UnexpectedMessage::Offer { total } => {
                let mut transfer = Transfer { call, total, got: 0, granted: 0, bytes: Vec::new() };
                // Memory is reserved before anything is pulled, or the transfer would be wasted.
                if total > CHUNK as u64 && !transfer.reserve() {
                    ctx.control(from, P2pMessage::Rejected { id, why: RejectReason::OutOfMemory });
                    return ctx.finish(call, Err(CommError::OutOfMemory(total)));
                }
                self.active_transfers += 1;
                transfer.granted = total.min(window(self.active_transfers));
                ctx.control(from, P2pMessage::Pull { id, limit: transfer.granted });
                peer.transfers.insert(id, transfer);
                self.calls.insert(call, PendingReceive::Transferring { from, id });
            }
        }
    }

    /// Bytes have arrived. Those of cancelled receives may still be on their way.
    pub(super) fn chunk(
        &mut self,
        from: Address,
        id: u64,
        offset: u64,
        bytes: Bytes,
        ctx: &mut P2pContext<'_>,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(transfer) = peer.transfers.get_mut(&id) else { return };
        let call = transfer.call;
        let result = match transfer.take(offset, bytes) {
            Ok(None) => {
                if let Some(limit) = transfer.grant(window(self.active_transfers)) {
                    ctx.control(from, P2pMessage::Pull { id, limit });
                }
                return;
            }
            Ok(Some(whole)) => {
                if self.confirms {
                    ctx.control(from, P2pMessage::Taken { id });
                }
                Ok(Outcome::Data(whole))
            }
            Err(why) => {
                let error = match why {
                    RejectReason::OutOfMemory => CommError::OutOfMemory(transfer.total),
                    _ => CommError::Protocol("a chunk that does not continue its message"),
                };
                ctx.control(from, P2pMessage::Rejected { id, why });
                Err(error)
            }
        };
        self.remove(from, id);
        self.calls.remove(&call);
        ctx.finish(call, result);
    }

    /// The sender has withdrawn its message.
    pub(super) fn withdrawn(&mut self, from: Address, id: u64, tag: u32, ctx: &mut P2pContext<'_>) {
        if let Some(call) = self.remove(from, id) {
            self.calls.remove(&call);
            return ctx.finish(call, Err(CommError::Withdrawn { by: from }));
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(queue) = peer.tags.get_mut(&tag) else { return };
        // Messages are queued in the order of their numbers.
        let at = queue.messages.binary_search_by_key(&id, |message| message.0);
        if let Ok(at) = at
            && matches!(queue.messages[at].1, UnexpectedMessage::Offer { .. })
        {
            queue.messages.remove(at);
            peer.prune(tag);
        }
    }

    /// The processes of which something has arrived, or is awaited.
    pub(super) fn senders(&self) -> impl Iterator<Item = Address> {
        self.peers.keys().copied()
    }

    /// What has arrived of the messages of a process.
    pub(super) fn arrivals(&self, from: Address) -> Arrivals {
        let Some(Peer { newest, consumed, tags, transfers, .. }) = self.peers.get(&from) else {
            return Arrivals::default();
        };
        let offers = tags.iter().flat_map(|(tag, queue)| {
            let offers =
                queue.messages.iter().filter(|(_, it)| matches!(it, UnexpectedMessage::Offer { .. }));
            offers.map(|(id, _)| PartialArrival { id: *id, tag: *tag, pulled: None })
        });
        let parts = transfers.iter().map(|(id, transfer)| PartialArrival {
            id: *id,
            tag: 0,
            pulled: Some((transfer.got, transfer.granted)),
        });
        Arrivals { newest: *newest, consumed: *consumed, parts: offers.chain(parts).collect() }
    }

    /// Processes are lost. Their complete messages stay.
    pub(super) fn peers_lost(&mut self, among: &dyn Fn(Address) -> bool, ctx: &mut P2pContext<'_>) {
        for (from, peer) in self.peers.iter_mut().filter(|(from, _)| among(**from)) {
            self.active_transfers -= peer.transfers.len() as u64;
            let mut over: Vec<CallId> =
                std::mem::take(&mut peer.transfers).into_values().map(|transfer| transfer.call).collect();
            peer.tags.retain(|_, queue| {
                over.extend(queue.calls.drain(..));
                queue.messages.retain(|(_, unexpected)| matches!(unexpected, UnexpectedMessage::Eager(_)));
                !queue.messages.is_empty()
            });
            for call in over {
                self.calls.remove(&call);
                ctx.finish(call, Err(lost(*from)));
            }
        }
        self.peers.retain(|from, peer| !(among(*from) && peer.tags.is_empty()));
    }

    /// What lost members have sent and was not received is dropped: others take their places.
    pub(super) fn forget(&mut self, lost: &Ranks) {
        self.peers.retain(|from, _| !matches!(from, Address::Rank(rank) if lost.contains(*rank)));
    }

    /// Ends the transfer of a message. Returns its receive.
    fn remove(&mut self, from: Address, id: u64) -> Option<CallId> {
        let transfer = self.peers.get_mut(&from)?.transfers.remove(&id)?;
        self.active_transfers -= 1;
        Some(transfer.call)
    }

    #[cfg(test)]
    pub(super) fn buffered(&self, from: Address) -> u64 {
        self.peers.get(&from).map_or(0, |peer| peer.buffered)
    }

    #[cfg(test)]
    pub(super) fn counts_right(&self) -> bool {
        self.active_transfers == self.peers.values().map(|peer| peer.transfers.len() as u64).sum::<u64>()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let nothing = |peer: &Peer| peer.tags.is_empty() && peer.transfers.is_empty() && peer.buffered == 0;
        self.calls.is_empty() && self.active_transfers == 0 && self.peers.values().all(nothing)
    }
}

impl Peer {
    /// The program has consumed an eager message.
    fn eager_consumed(&mut self, cost: u64, from: Address, ctx: &mut P2pContext<'_>) {
        self.buffered = self.buffered.saturating_sub(cost);
        self.consumed += cost;
        // The sender offers messages that exceed its budget, so nothing waits for this.
        if self.consumed - self.acknowledged >= EAGER_LIMIT / 4 {
            self.acknowledged = self.consumed;
            ctx.control(from, P2pMessage::Consumed { limit: self.consumed, newest: self.newest });
        }
    }

    fn prune(&mut self, tag: u32) {
        if self.tags.get(&tag).is_some_and(|queue| queue.messages.is_empty() && queue.calls.is_empty()) {
            self.tags.remove(&tag);
        }
    }
}

/// The window of each of so many messages.
fn window(messages: u64) -> u64 {
    let chunks = WINDOWS / CHUNK as u64 / messages.max(1);
    (chunks * CHUNK as u64).clamp(CHUNK as u64, WINDOW)
}

/// A message that is being transferred.
#[derive(Debug)]
struct Transfer {
    call: CallId,
    total: u64,
    got: u64,
    /// How many bytes may have been sent.
    granted: u64,
    bytes: Vec<u8>,
}

impl Transfer {
    /// Appends bytes. Returns the message if they complete it. A message in one chunk is not
    /// copied.
    fn take(&mut self, offset: u64, bytes: Bytes) -> Result<Option<Bytes>, RejectReason> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(RejectReason::Protocol)?;
        if offset != self.got || end > self.granted || (bytes.is_empty() && self.total > 0) {
            return Err(RejectReason::Protocol);
        }
        if bytes.len() as u64 == self.total {
            return Ok(Some(bytes));
        }
        if !self.reserve() {
            return Err(RejectReason::OutOfMemory);
        }
        self.bytes.extend_from_slice(&bytes);
        self.got = end;
        Ok((end == self.total).then(|| std::mem::take(&mut self.bytes).into()))
    }

    /// Reserves memory for the whole message, once. False if there is none.
    fn reserve(&mut self) -> bool {
        self.bytes.capacity() > 0
            || usize::try_from(self.total).is_ok_and(|total| self.bytes.try_reserve_exact(total).is_ok())
    }

    /// Grants more once half of the window has arrived.
    fn grant(&mut self, window: u64) -> Option<u64> {
        let limit = self.total.min(self.got + window);
        let coming = self.granted - self.got;
        if self.granted == self.total || coming > window / 2 || limit <= self.granted {
            return None;
        }
        self.granted = limit;
        Some(limit)
    }
}
