//! Decides which call gets which message, and how much of one may come.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::send_queue::{CHUNK, EAGER_LIMIT, EAGER_MAX, cost};
use super::{P2pContext, P2pMessage, RejectReason, lost};
use crate::contract::{Address, CallId, Outcome};
use crate::error::CommError;

/// As much of a message may be on its way to here: about 1 MiB, in whole chunks.
pub(super) const WINDOW: u64 = 8 * CHUNK as u64;

/// As much as that of all messages together, as long as it is a chunk for each: one process that receives from thousands
/// would fill the memory of those that pass it all on.
const WINDOWS: u64 = 16 * WINDOW;

/// What this process receives.
#[derive(Debug, Default)]
pub(super) struct ReceiveQueue {
    peers: BTreeMap<Address, Peer>,
    calls: BTreeMap<CallId, PendingReceive>,
    /// How many messages are transfer.
    active_transfers: u64,
}

/// Where a call for a message stands.
#[derive(Clone, Copy, Debug)]
enum PendingReceive {
    /// Nothing is there for it.
    Waiting { from: Address, tag: u32 },
    /// This message is transfer.
    Transferring { from: Address, id: u64 },
}

/// What has come from somebody.
#[derive(Debug, Default)]
struct Peer {
    /// The number of its newest message.
    newest: u64,
    /// What is kept of messages that came unasked.
    buffered: u64,
    /// What the program has taken of such messages.
    consumed: u64,
    /// How much of that the sender knows.
    acknowledged: u64,
    tags: BTreeMap<u32, TagQueue>,
    transfers: BTreeMap<u64, Transfer>,
}

/// The messages with one tag that nobody has called for, or the calls that nothing has come for; never both.
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
        // What has come of those that are lost now can still be had.
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

    /// Gives a call up, if it is one of these.
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

    /// The program has sent itself something.
    pub(super) fn send_to_self(&mut self, tag: u32, bytes: Bytes, ctx: &mut P2pContext<'_>) {
        let me = ctx.view.me();
        let id = self.peers.get(&me).map_or(1, |peer| peer.newest + 1);
        self.arrive(me, id, tag, UnexpectedMessage::Eager(bytes), ctx);
    }

    /// A message has come unasked.
    pub(super) fn eager(&mut self, from: Address, id: u64, tag: u32, bytes: Bytes, ctx: &mut P2pContext<'_>) {
        let peer = self.peers.entry(from).or_default();
        let buffered = peer.buffered + cost(bytes.len());
        // No peer that keeps to the rules sends more, or a message twice.
        if bytes.len() <= EAGER_MAX && buffered <= EAGER_LIMIT && id > peer.newest {
            peer.buffered = buffered;
            self.arrive(from, id, tag, UnexpectedMessage::Eager(bytes), ctx);
        }
    }

    /// A message is announced.
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

    /// Gives a message to the call that is for it.
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
                // Before anything comes, or it would have come for nothing.
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

    /// Bytes have come. Of messages that nobody waits for any more, some may be on their way still.
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
            Ok(Some(whole)) => Ok(Outcome::Data(whole)),
            Err(why) => {
                let error = match why {
                    RejectReason::OutOfMemory => CommError::OutOfMemory(transfer.total),
                    _ => CommError::Protocol("bytes that do not continue their message"),
                };
                ctx.control(from, P2pMessage::Rejected { id, why });
                Err(error)
            }
        };
        self.remove(from, id);
        self.calls.remove(&call);
        ctx.finish(call, result);
    }

    /// The sender has given up.
    pub(super) fn withdrawn(&mut self, from: Address, id: u64, tag: u32, ctx: &mut P2pContext<'_>) {
        if let Some(call) = self.remove(from, id) {
            self.calls.remove(&call);
            return ctx.finish(call, Err(CommError::Withdrawn { by: from }));
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(queue) = peer.tags.get_mut(&tag) else { return };
        // Messages stand in line as they were numbered.
        let at = queue.messages.binary_search_by_key(&id, |message| message.0);
        if let Ok(at) = at
            && matches!(queue.messages[at].1, UnexpectedMessage::Offer { .. })
        {
            queue.messages.remove(at);
            peer.prune(tag);
        }
    }

    /// Some are gone. What has come from them whole stays.
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

    /// Nothing more of this message is waited for; whose it was.
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
    /// The program has taken a message that came unasked.
    fn eager_consumed(&mut self, cost: u64, from: Address, ctx: &mut P2pContext<'_>) {
        self.buffered = self.buffered.saturating_sub(cost);
        self.consumed += cost;
        // Meanwhile the sender announces what he has no budget for; nothing waits.
        if self.consumed - self.acknowledged >= EAGER_LIMIT / 4 {
            self.acknowledged = self.consumed;
            ctx.control(from, P2pMessage::Consumed { limit: self.consumed });
        }
    }

    fn prune(&mut self, tag: u32) {
        if self.tags.get(&tag).is_some_and(|queue| queue.messages.is_empty() && queue.calls.is_empty()) {
            self.tags.remove(&tag);
        }
    }
}

/// As much of each message may be on its way, if there are so many.
fn window(messages: u64) -> u64 {
    let chunks = WINDOWS / CHUNK as u64 / messages.max(1);
    (chunks * CHUNK as u64).clamp(CHUNK as u64, WINDOW)
}

/// A message that is transfer.
#[derive(Debug)]
struct Transfer {
    call: CallId,
    total: u64,
    got: u64,
    /// So much may have been sent.
    granted: u64,
    bytes: Vec<u8>,
}

impl Transfer {
    /// Takes its next bytes; the message, if these are the last. One that comes in one piece is not copied.
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

    /// Sets memory aside for the whole message, unless it is already; whether there is enough.
    fn reserve(&mut self) -> bool {
        self.bytes.capacity() > 0
            || usize::try_from(self.total).is_ok_and(|total| self.bytes.try_reserve_exact(total).is_ok())
    }

    /// Lets more come, if half of what was let come has, or more.
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
