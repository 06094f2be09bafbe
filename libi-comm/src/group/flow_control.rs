//! Flow control of one collective call: which pieces wait for which link, and how many bytes may be
//! sent.
//!
//! Every call has a channel per link and direction. A sender may send [`EAGER`] bytes, or, in a call
//! with one sender, [`EAGER_OF_ROOT`], and after that as many as it is granted. A receiver grants what it has forwarded or consumed, up to the
//! size of its window. A process therefore never holds more of the data that it forwards than its
//! windows, and a call that is slow at one member does not delay other calls.
//!
//! - A call with one sender forwards data as they arrive. With many senders, data for a link wait
//!   until they fill a [`CHUNK`], or are all that will ever be sent there, so that small calls take
//!   one frame per link. If a sender has used up its credit and waits for data that are held here,
//!   the fullest queues are emptied, and no more of them than needed.
//! - When the receivers of data are lost, a call may be over in a process while more data are still
//!   arriving. These are dropped. Their sender is told that by a grant of [`UNWANTED`], or it would
//!   wait forever for credit: it drops what it would still send over that link.
//! - A piece that goes over several links is one buffer in all of their queues. It counts as
//!   forwarded when it has left the last queue.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use libi_core::ids::LinkId;
use slab::Slab;

use crate::contract::Frame;
use crate::message::{CollectiveHeader, Message};
use crate::piece::{MAX_HEAD, Piece};

/// How many bytes may be sent before anything is granted.
pub(crate) const EAGER: u64 = 8 << 10;
/// The same in a call with one sender, whose data arrive over one link.
pub(crate) const EAGER_OF_ROOT: u64 = 72 << 10;
/// How many bytes of one call a process holds at most for forwarding, over all links.
const WINDOW_POOL: u64 = 2 << 20;
/// The payload of a full frame.
pub(crate) const CHUNK: u64 = 128 << 10;
/// What a piece costs in addition to its bytes.
const PIECE_OVERHEAD: u64 = MAX_HEAD as u64;
/// The limit of a grant by a receiver that drops everything: nothing more is to be sent.
pub(crate) const UNWANTED: u64 = u64::MAX;
/// A smaller grant is not worth a frame, unless it is all that is left.
const MIN_GRANT: u64 = 2 << 10;

/// Where a queued piece came from: the link that gets credit when the piece has been forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is a contribution of this member.
    Here,
    /// It arrived over this link.
    Link(LinkId),
    /// It is in several queues; an index into `shared_pieces`.
    Shared(usize),
}

#[derive(Debug)]
struct SharedPiece {
    channels: u32,
    from: LinkId,
    cost: u64,
}

#[derive(Debug)]
struct QueuedPiece {
    piece: Piece,
    origin: Origin,
}

/// The channel out over a link.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: VecDeque<QueuedPiece>,
    /// The cost of everything in the queue, overhead included.
    cost: u64,
    /// How much is still to be queued until the end of the call.
    remaining: u64,
    sent: u64,
    allowed: u64,
}

impl Outgoing {
    /// Whether everything that goes over this link has been sent.
    pub(crate) fn is_over(&self) -> bool {
        self.remaining == 0 && self.queue.is_empty()
    }

    /// How many bytes may go into the next frame.
    fn credit(&self) -> u64 {
        self.allowed.saturating_sub(self.sent).min(CHUNK)
    }

    /// Whether a piece is queued, and credit allows to send it.
    fn can_send(&self) -> bool {
        self.queue.front().is_some_and(|first| is_worthwhile(self.credit(), cost(&first.piece)))
    }

    /// The bytes of this member's contributions that are queued.
    fn own_cost(&self) -> u64 {
        let own = self.queue.iter().filter(|queued| queued.origin == Origin::Here);
        own.map(|queued| cost(&queued.piece)).sum()
    }
}

/// The channel in over a link.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// How much is still to arrive; `all` is how much there was at the start.
    pub(crate) remaining: u64,
    all: u64,
    received: u64,
    consumed: u64,
    granted: u64,
    blocked: bool,
}

impl Incoming {
    /// Whether the sender has more data and no credit left.
    fn is_stalled(&self) -> bool {
        self.blocked && self.received + MIN_GRANT >= self.granted
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct FlowControl {
    pub(crate) out: BTreeMap<LinkId, Outgoing>,
    pub(crate) into: BTreeMap<LinkId, Incoming>,
    shared_pieces: Slab<SharedPiece>,
    /// Whether data wait for more data to fill a frame.
    batches: bool,
    /// How many bytes may be sent over a link before anything is granted.
    eager: u64,
    arrived: u64,
}

fn cost(piece: &Piece) -> u64 {
    piece.bytes.len() as u64 + PIECE_OVERHEAD
}

impl FlowControl {
    pub(crate) fn new(batches: bool, eager: u64) -> Self {
        Self { batches, eager, ..Self::default() }
    }

    /// Opens the channels of a link for these amounts of data.
    pub(crate) fn open(&mut self, link: LinkId, outgoing: u64, incoming: u64) {
        if outgoing > 0 {
            let channel = Outgoing {
                queue: VecDeque::new(),
                cost: 0,
                remaining: outgoing,
                sent: 0,
                allowed: self.eager,
            };
            self.out.insert(link, channel);
        }
        if incoming > 0 {
            let channel =
                Incoming { remaining: incoming, all: incoming, granted: self.eager, ..Incoming::default() };
            self.into.insert(link, channel);
        }
    }

    /// Queues a piece for these links. `weight` is what its item counts for.
    pub(crate) fn put(&mut self, piece: &Piece, weight: u64, from: Option<LinkId>, to: &[LinkId]) {
        let to: Vec<_> = to.iter().filter(|link| self.out.contains_key(link)).collect();
        let origin = match (from, to.len() as u32) {
            (None, _) => Origin::Here,
            (Some(from), 0) => return self.consume(from, cost(piece)),
            (Some(from), 1) => Origin::Link(from),
            (Some(from), channels) => {
                let shared = SharedPiece { channels, from, cost: cost(piece) };
                Origin::Shared(self.shared_pieces.insert(shared))
            }
        };
        let weight = if piece.is_last() { weight } else { 0 };
        for link in to {
            if let Some(channel) = self.out.get_mut(link) {
                channel.remaining = channel.remaining.saturating_sub(weight);
                channel.cost += cost(piece);
                channel.queue.push_back(QueuedPiece { piece: piece.clone(), origin });
            }
        }
    }

    /// Bytes that arrived over a link are no longer held here.
    pub(crate) fn consume(&mut self, link: LinkId, bytes: u64) {
        if let Some(channel) = self.into.get_mut(&link) {
            channel.consumed += bytes;
            debug_assert!(channel.consumed <= channel.received, "more is passed on than has come");
        }
    }

    /// A piece that arrived over a link stays in this process.
    pub(crate) fn keep(&mut self, link: LinkId, piece: &Piece) {
        self.consume(link, cost(piece));
    }

    /// A piece has arrived over a link.
    pub(crate) fn received(&mut self, link: LinkId, piece: &Piece) {
        self.arrived += cost(piece);
        if let Some(channel) = self.into.get_mut(&link) {
            channel.received += cost(piece);
        }
    }

    /// The last piece of an item has arrived over a link.
    pub(crate) fn item_ended(&mut self, link: LinkId, weight: u64) {
        if let Some(channel) = self.into.get_mut(&link) {
            channel.remaining = channel.remaining.saturating_sub(weight);
        }
    }

    /// The sender at the other end has more data than credit.
    pub(crate) fn peer_blocked(&mut self, link: LinkId) {
        if let Some(channel) = self.into.get_mut(&link) {
            channel.blocked = true;
        }
    }

    /// Credit has arrived: the total that may be sent over this link, or [`UNWANTED`].
    pub(crate) fn allow(&mut self, link: LinkId, limit: u64) {
        if limit == UNWANTED {
            self.drop_outgoing(link);
        } else if let Some(channel) = self.out.get_mut(&link) {
            channel.allowed = channel.allowed.max(limit);
        }
    }

    /// The grants that are due: links, and the total that each sender may send.
    pub(crate) fn grants(&mut self) -> Vec<(LinkId, u64)> {
        // One half of the pool is shared equally, the other in proportion to the data: the leader
        // of a host sends the data of all its members.
        let equal = WINDOW_POOL / 2 / (self.into.len() as u64).max(1);
        let all = self.into.values().map(|channel| channel.all).fold(1, u64::saturating_add);
        let wanting = self.into.iter_mut().filter(|(_, channel)| channel.blocked);
        let mut grants = Vec::new();
        for (&link, channel) in wanting {
            let own = (u128::from(WINDOW_POOL / 2) * u128::from(channel.all) / u128::from(all)) as u64;
            let window = (equal + own).max(self.eager);
            let limit = channel.consumed + window;
            if limit >= channel.granted + window / 2 {
                channel.granted = limit;
                channel.blocked = channel.remaining > 0;
                grants.push((link, limit));
            }
        }
        grants
    }

    /// How many bytes have arrived, over all links.
    pub(crate) const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Shared memory of this length has arrived.
    pub(crate) const fn received_region(&mut self, length: u64) {
        self.arrived += length;
    }

    /// No pieces are sent over this link.
    pub(crate) fn remove_outgoing(&mut self, link: LinkId) {
        self.out.remove(&link);
    }

    /// Drops everything queued for a closed link. Returns how much was still to arrive over it.
    pub(crate) fn cut(&mut self, link: LinkId) -> u64 {
        self.drop_outgoing(link);
        self.into.remove(&link).map_or(0, |channel| channel.remaining)
    }

    /// Drops what is queued for a link, and what will be.
    fn drop_outgoing(&mut self, link: LinkId) {
        if let Some(channel) = self.out.remove(&link) {
            for queued in channel.queue {
                self.passed(queued.origin, cost(&queued.piece));
            }
        }
    }

    /// Whether everything has been sent.
    pub(crate) fn is_over(&self) -> bool {
        self.out.values().all(Outgoing::is_over)
    }

    /// The links over which data are still to arrive.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = LinkId> {
        self.into.iter().filter(|(_, channel)| channel.remaining > 0).map(|(link, _)| *link)
    }

    /// The bytes of this member's contributions that are queued for each link.
    pub(crate) fn own_costs(&self) -> impl Iterator<Item = (LinkId, u64)> {
        self.out.iter().map(|(link, channel)| (*link, channel.own_cost()))
    }

    /// Whether nothing is queued but what waits for more data.
    pub(crate) fn is_flushed(&self) -> bool {
        let waits = |channel: &Outgoing| self.batches && channel.remaining > 0;
        self.out.values().all(|channel| channel.queue.is_empty() || waits(channel))
    }

    /// A piece, or a part of one, has left a queue.
    fn passed(&mut self, origin: Origin, cost: u64) {
        match origin {
            Origin::Here => {}
            Origin::Link(from) => self.consume(from, cost),
            Origin::Shared(slot) => {
                let Some(shared) = self.shared_pieces.get_mut(slot) else { return };
                shared.channels -= 1;
                if shared.channels == 0 {
                    let (from, cost) = (shared.from, shared.cost);
                    self.shared_pieces.remove(slot);
                    self.consume(from, cost);
                }
            }
        }
    }

    /// The next frame for a link, if one is due or if `must` demands it for the flags of `header`.
    pub(crate) fn next_frame(&mut self, link: LinkId, header: CollectiveHeader, must: bool) -> Option<Frame> {
        let ripe = self.out.get(&link).is_some_and(|channel| {
            !channel.queue.is_empty()
                && (!self.batches || channel.remaining == 0 || channel.cost >= CHUNK || must)
        });
        let payload = if ripe { self.dequeue(link) } else { Vec::new() };
        (must || !payload.is_empty()).then(|| self.frame_for(link, header, payload))
    }

    /// A frame that frees space for stalled senders, on the link over which most bytes can go.
    ///
    /// Data from the parent go only to children, so any frame to a child helps a stalled parent.
    /// Data from a child may wait mostly for a link without credit. That resolves itself: data on
    /// their way up only wait for data on their way down, and these only for members to consume
    /// them. Small frames over other links would not help meanwhile.
    pub(crate) fn relieve(
        &mut self,
        header: &CollectiveHeader,
        may_send: impl Fn(LinkId) -> bool,
    ) -> Option<(LinkId, Frame)> {
        let from_parent = self.into.get(&LinkId::PARENT).is_some_and(Incoming::is_stalled);
        if !from_parent && !self.into.values().any(Incoming::is_stalled) {
            return None;
        }
        let ready = self.out.iter().filter(|(link, channel)| channel.can_send() && may_send(**link));
        let (&link, channel) = ready.max_by_key(|(_, channel)| channel.cost.min(channel.credit()))?;
        let held_up = || self.out.values().any(|channel| !channel.queue.is_empty() && !channel.can_send());
        if !from_parent && channel.cost.min(channel.credit()) < MIN_GRANT && held_up() {
            return None;
        }
        let payload = self.dequeue(link);
        Some((link, self.frame_for(link, header.clone(), payload)))
    }

    /// Takes as much from the queue of a link as fits into one frame.
    fn dequeue(&mut self, link: LinkId) -> Vec<Bytes> {
        let Some(channel) = self.out.get_mut(&link) else { return Vec::new() };
        let (mut payload, mut passed) = (Vec::new(), Vec::new());
        let mut credit = channel.credit();
        while let Some(first) = channel.queue.front_mut()
            && is_worthwhile(credit, cost(&first.piece))
        {
            let whole = cost(&first.piece) <= credit;
            let most = credit.saturating_sub(PIECE_OVERHEAD) as usize;
            let piece = if whole { first.piece.clone() } else { first.piece.split_to(most) };
            let took = cost(&piece);
            credit -= took;
            channel.sent += took;
            channel.cost -= if whole { took } else { took - PIECE_OVERHEAD };
            payload.extend([piece.head(), piece.bytes]);
            match (whole, first.origin) {
                (true, origin) => {
                    passed.push((origin, took));
                    channel.queue.pop_front();
                }
                (false, Origin::Link(from)) => passed.push((Origin::Link(from), took - PIECE_OVERHEAD)),
                (false, _) => {}
            }
        }
        for (origin, cost) in passed {
            self.passed(origin, cost);
        }
        payload
    }

    fn frame_for(&self, link: LinkId, mut header: CollectiveHeader, payload: Vec<Bytes>) -> Frame {
        header.flags.blocked = self
            .out
            .get(&link)
            .is_some_and(|channel| !channel.is_over() && channel.sent > channel.allowed / 2);
        Message::Collective(header).frame(compact(payload))
    }
}

/// Whether a piece of this cost, or a part of it, should be sent with this much credit.
fn is_worthwhile(credit: u64, cost: u64) -> bool {
    credit >= cost.min(MIN_GRANT)
}

/// Copies small parts together, so that a frame does not have thousands of them.
fn compact(parts: Vec<Bytes>) -> Vec<Bytes> {
    const SMALL: usize = 2 << 10;
    if parts.len() <= 2 {
        return parts;
    }
    let mut joined = Vec::new();
    let mut small: Vec<u8> = Vec::new();
    for part in parts {
        if part.len() <= SMALL {
            small.extend_from_slice(&part);
        } else {
            if !small.is_empty() {
                joined.push(std::mem::take(&mut small).into());
            }
            joined.push(part);
        }
    }
    if !small.is_empty() {
        joined.push(small.into());
    }
    joined
}

#[cfg(test)]
mod tests;
