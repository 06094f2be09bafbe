//! Flow control of one collective call: which pieces wait for which link, and how many bytes may be
//! sent.
//!
//! Every call has a channel per link and direction. A sender may send some bytes
//! [eagerly](super::eager), and after that as many as it is granted. A receiver grants
//! what it has forwarded or consumed, up to the size of its window. A process therefore never holds
//! more of the data that it forwards than its windows, and a call that is slow at one member does not
//! delay other calls.
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

mod channel;

use std::collections::VecDeque;

use libi_core::ids::LinkId;
use slab::Slab;

use self::channel::{CHUNK, Incoming, Left, MIN_GRANT, Origin, Outgoing, cost};
use super::link_map::LinkMap;
use super::traffic::Amounts;
use crate::contract::Frame;
use crate::message::builder::FrameBuilder;
use crate::message::{CollectiveHeader, Message};
use crate::piece::Piece;

/// How many bytes may be sent before anything is granted, at least.
pub(crate) const EAGER: u64 = 8 << 10;
/// The same in a call with one sender, whose data arrive over one link.
pub(crate) const EAGER_OF_ROOT: u64 = 72 << 10;
/// How many bytes of one call a process holds at most for forwarding, over all links.
pub(crate) const WINDOW_POOL: u64 = 2 << 20;
/// The limit of a grant by a receiver that drops everything: nothing more is to be sent.
pub(crate) const UNWANTED: u64 = u64::MAX;

/// The links that a piece is sent over, of those with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    None,
    Over(LinkId),
    /// All but the link over which it has arrived.
    All,
}

#[derive(Debug)]
struct SharedPiece {
    channels: u32,
    from: LinkId,
    cost: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct FlowControl {
    pub(crate) out: LinkMap<Outgoing>,
    pub(crate) into: LinkMap<Incoming>,
    shared_pieces: Slab<SharedPiece>,
    /// Whether a sender may have more data than credit.
    has_blocked: bool,
    /// Whether data wait for more data to fill a frame.
    batches: bool,
    /// How many bytes are accepted over a link before anything is granted.
    eager: u64,
    arrived: u64,
}

impl FlowControl {
    pub(crate) fn new(batches: bool, eager: u64) -> Self {
        Self { batches, eager, ..Self::default() }
    }

    /// Opens the channels of links for these amounts of data. So many bytes may be sent eagerly.
    pub(crate) fn open(&mut self, links: impl Iterator<Item = (LinkId, Amounts, u64)>) {
        let (mut out, mut into) = (Vec::new(), Vec::new());
        for (link, amounts, eager) in links {
            if amounts.out > 0 {
                let (queue, remaining) = (VecDeque::new(), amounts.out);
                out.push((link, Outgoing { queue, cost: 0, remaining, sent: 0, allowed: eager }));
            }
            if amounts.into > 0 {
                let (remaining, all, granted) = (amounts.into, amounts.into, self.eager);
                into.push((link, Incoming { remaining, all, granted, ..Incoming::default() }));
            }
        }
        (self.out, self.into) = (out.into(), into.into());
    }

    /// Queues a piece for these links. `weight` is what its item counts for.
    pub(crate) fn put(&mut self, piece: &Piece, weight: u64, from: Option<LinkId>, onward: Onward) {
        let channels = match onward {
            Onward::None => 0,
            Onward::Over(link) => usize::from(self.out.contains(link)),
            Onward::All => self.out.len() - usize::from(from.is_some_and(|from| self.out.contains(from))),
        };
        let origin = match (from, channels as u32) {
            (None, _) => Origin::Here,
            (Some(from), 0) => return self.consume(from, cost(piece)),
            (Some(from), 1) => Origin::Link(from),
            (Some(from), channels) => {
                let shared = SharedPiece { channels, from, cost: cost(piece) };
                Origin::Shared(self.shared_pieces.insert(shared))
            }
        };
        let weight = if piece.is_last() { weight } else { 0 };
        let queue = |channel: &mut Outgoing| channel.push(piece.clone(), origin, weight);
        match onward {
            Onward::None => {}
            Onward::Over(link) => self.out.get_mut(link).into_iter().for_each(queue),
            Onward::All => {
                let others = self.out.iter_mut().filter(|(link, _)| Some(*link) != from);
                others.map(|(_, channel)| channel).for_each(queue);
            }
        }
    }

    /// Bytes that arrived over a link are no longer held here.
    pub(crate) fn consume(&mut self, link: LinkId, bytes: u64) {
        if let Some(channel) = self.into.get_mut(link) {
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
        if let Some(channel) = self.into.get_mut(link) {
            channel.received += cost(piece);
        }
    }

    /// The last piece of an item has arrived over a link.
    pub(crate) fn item_ended(&mut self, link: LinkId, weight: u64) {
        if let Some(channel) = self.into.get_mut(link) {
            channel.remaining = channel.remaining.saturating_sub(weight);
        }
    }

    /// The sender at the other end has more data than credit.
    pub(crate) fn peer_blocked(&mut self, link: LinkId) {
        if let Some(channel) = self.into.get_mut(link) {
            channel.blocked = true;
            self.has_blocked = true;
        }
    }

    /// Credit has arrived: the total that may be sent over this link, or [`UNWANTED`]. False if that
    /// changes nothing.
    pub(crate) fn allow(&mut self, link: LinkId, limit: u64) -> bool {
        if limit == UNWANTED {
            self.drop_outgoing(link);
            return true;
        }
        let channel = self.out.get_mut(link).filter(|channel| channel.allowed < limit);
        channel.is_some_and(|channel| {
            channel.allowed = limit;
            true
        })
    }

    /// The grants that are due: links, and the total that each sender may send.
    pub(crate) fn grants(&mut self) -> Vec<(LinkId, u64)> {
        if !self.has_blocked {
            return Vec::new();
        }
        // One half of the pool is shared equally, the other in proportion to the data: the leader
        // of a host sends the data of all its members.
        let equal = WINDOW_POOL / 2 / (self.into.len() as u64).max(1);
        let all = self.into.values().map(|channel| channel.all).fold(1, u64::saturating_add);
        let wanting = self.into.iter_mut().filter(|(_, channel)| channel.blocked);
        let mut grants = Vec::new();
        self.has_blocked = false;
        for (link, channel) in wanting {
            let own = (u128::from(WINDOW_POOL / 2) * u128::from(channel.all) / u128::from(all)) as u64;
            let window = (equal + own).max(self.eager);
            let limit = channel.consumed + window;
            if limit >= channel.granted + window / 2 {
                channel.granted = limit;
                channel.blocked = channel.remaining > 0;
                grants.push((link, limit));
            }
            self.has_blocked |= channel.blocked;
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

    /// Drops everything queued for a closed link. Returns how much was still to arrive over it.
    pub(crate) fn cut(&mut self, link: LinkId) -> u64 {
        self.drop_outgoing(link);
        self.into.remove(link).map_or(0, |channel| channel.remaining)
    }

    /// Drops what is queued for a link, and what will be.
    fn drop_outgoing(&mut self, link: LinkId) {
        if let Some(channel) = self.out.remove(link) {
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
        self.into.iter().filter(|(_, channel)| channel.remaining > 0).map(|(link, _)| link)
    }

    /// The bytes of this member's contributions that are queued for each link.
    pub(crate) fn own_costs(&self) -> impl Iterator<Item = (LinkId, u64)> {
        self.out.iter().map(|(link, channel)| (link, channel.own_cost()))
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
                    let SharedPiece { from, cost, .. } = self.shared_pieces.remove(slot);
                    self.consume(from, cost);
                }
            }
        }
    }

    /// The next frame for a link, if one is due or if `must` demands it for the flags of `header`, and
    /// whether it carries data.
    pub(crate) fn next_frame(
        &mut self,
        link: LinkId,
        header: CollectiveHeader,
        must: bool,
    ) -> Option<(Frame, bool)> {
        let ripe = self.out.get(link).is_some_and(|channel| {
            !channel.queue.is_empty()
                && (!self.batches || channel.remaining == 0 || channel.cost >= CHUNK || must)
        });
        let payload = if ripe { self.dequeue(link) } else { FrameBuilder::default() };
        let carries_data = !payload.is_empty();
        (must || carries_data).then(|| (self.frame_for(link, header, payload), carries_data))
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
        if !self.has_blocked {
            return None;
        }
        let from_parent = self.into.get(LinkId::PARENT).is_some_and(Incoming::is_stalled);
        if !from_parent && !self.into.values().any(Incoming::is_stalled) {
            return None;
        }
        let ready = self.out.iter().filter(|(link, channel)| channel.can_send() && may_send(*link));
        let (link, channel) = ready.max_by_key(|(_, channel)| channel.cost.min(channel.credit()))?;
        let held_up = || self.out.values().any(|channel| !channel.queue.is_empty() && !channel.can_send());
        if !from_parent && channel.cost.min(channel.credit()) < MIN_GRANT && held_up() {
            return None;
        }
        let payload = self.dequeue(link);
        Some((link, self.frame_for(link, header.clone(), payload)))
    }

    /// Takes as much from the queue of a link as fits into one frame.
    fn dequeue(&mut self, link: LinkId) -> FrameBuilder {
        let mut payload = FrameBuilder::default();
        let Some(mut credit) = self.out.get(link).map(Outgoing::credit) else { return payload };
        while let Some(channel) = self.out.get_mut(link)
            && let Some((piece, origin, left)) = channel.pop(&mut credit)
        {
            payload.push_piece(piece);
            match (left, origin) {
                (Left::Whole(cost), origin) => self.passed(origin, cost),
                (Left::Part(bytes), Origin::Link(from)) => self.consume(from, bytes),
                (Left::Part(_), _) => {}
            }
        }
        payload
    }

    fn frame_for(&self, link: LinkId, mut header: CollectiveHeader, payload: FrameBuilder) -> Frame {
        header.flags.blocked = self
            .out
            .get(link)
            .is_some_and(|channel| !channel.is_over() && channel.sent > channel.allowed / 2);
        payload.frame_of(&Message::Collective(header))
    }
}

#[cfg(test)]
mod tests;
