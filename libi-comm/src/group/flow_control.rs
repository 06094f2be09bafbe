//! How the pieces of one collective call get from link to link: what waits to be sent, and how much may be.
//!
//! Every link has a lane in each direction for each call. Who sends in a lane may send [`EAGER`] bytes, and then as many as
//! are granted; who receives grants as much again as it has passed on or kept, up to its window. So a process that
//! passes something on never holds more of it than its windows, and a call that somebody is slow in holds up nobody in
//! another.
//!
//! A call with one sender passes on what has come at once. With many senders, what goes over a link waits until it is a
//! [`CHUNK`], or is all that will ever go: small calls take one frame per link. When somebody has sent all that he may and
//! waits for what is held here to go, the fullest lanes are emptied, and no more of them than he needs.
//!
//! When those are lost for whom something comes, a call may be over in a process over whose links more is to come. That is dropped,
//! and whoever sends it is granted all there is, or he would wait for ever with what he has.
//!
//! A piece that goes over several links is the same memory in all of them. It counts as passed on when it is in none any
//! more.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use libi_core::ids::LinkId;

use crate::contract::Frame;
use crate::message::{CollectiveHeader, Message};
use crate::piece::{MAX_HEAD, Piece};

/// How much may be sent before anything is granted.
pub(crate) const EAGER: u64 = 8 << 10;
/// How much of one call a process is ready to hold that it passes on, all its links together.
const WINDOW_POOL: u64 = 2 << 20;
/// How much goes into one frame.
pub(crate) const CHUNK: u64 = 128 << 10;
/// What a piece takes beside its bytes.
const PIECE_OVERHEAD: u64 = MAX_HEAD as u64;
/// A grant that is smaller than this, and than all there is, is not worth a frame.
const MIN_GRANT: u64 = 2 << 10;

/// Where a piece has come from: who can be granted more when it is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is this member's own.
    Here,
    /// It came over this link.
    Link(LinkId),
    /// It waits in several lanes; see there.
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

/// What goes out over a link.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: VecDeque<QueuedPiece>,
    /// The bytes of the queue, with what they take beside them.
    cost: u64,
    /// What is still to be put into the queue, ever.
    remaining: u64,
    sent: u64,
    allowed: u64,
}

impl Outgoing {
    /// Whether everything that goes over this link has gone.
    pub(crate) fn is_over(&self) -> bool {
        self.remaining == 0 && self.queue.is_empty()
    }

    /// How much may go into the next frame.
    fn credit(&self) -> u64 {
        self.allowed.saturating_sub(self.sent).min(CHUNK)
    }

    /// Whether something waits, and may go.
    fn can_send(&self) -> bool {
        self.queue.front().is_some_and(|first| is_worthwhile(self.credit(), cost(&first.piece)))
    }

    /// Whether pieces of this member itself are waiting.
    fn holds_own(&self) -> bool {
        self.queue.iter().any(|queued| queued.origin == Origin::Here)
    }
}

/// What comes in over a link.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// What is still to come, and what was to come in the beginning.
    pub(crate) remaining: u64,
    all: u64,
    received: u64,
    consumed: u64,
    granted: u64,
    blocked: bool,
}

impl Incoming {
    /// Whether the other end has more, and may not send it.
    fn is_stalled(&self) -> bool {
        self.blocked && self.received + MIN_GRANT >= self.granted
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct FlowControl {
    pub(crate) out: BTreeMap<LinkId, Outgoing>,
    pub(crate) into: BTreeMap<LinkId, Incoming>,
    shared_pieces: Vec<SharedPiece>,
    free: Vec<usize>,
    /// Whether what waits may be joined by more from elsewhere.
    batches: bool,
}

fn cost(piece: &Piece) -> u64 {
    piece.bytes.len() as u64 + PIECE_OVERHEAD
}

impl FlowControl {
    pub(crate) fn new(batches: bool) -> Self {
        Self { batches, ..Self::default() }
    }

    /// So much will go over this link, and come.
    pub(crate) fn open(&mut self, link: LinkId, outgoing: u64, incoming: u64) {
        if outgoing > 0 {
            let channel =
                Outgoing { queue: VecDeque::new(), cost: 0, remaining: outgoing, sent: 0, allowed: EAGER };
            self.out.insert(link, channel);
        }
        if incoming > 0 {
            let channel =
                Incoming { remaining: incoming, all: incoming, granted: EAGER, ..Incoming::default() };
            self.into.insert(link, channel);
        }
    }

    /// Puts a piece into these lanes; `weight` is what its item counts for.
    pub(crate) fn put(&mut self, piece: &Piece, weight: u64, from: Option<LinkId>, to: &[LinkId]) {
        let to: Vec<_> = to.iter().filter(|link| self.out.contains_key(link)).collect();
        let origin = match (from, to.len() as u32) {
            (None, _) => Origin::Here,
            (Some(from), 0) => return self.consume(from, cost(piece)),
            (Some(from), 1) => Origin::Link(from),
            (Some(from), channels) => {
                let shared = SharedPiece { channels, from, cost: cost(piece) };
                match self.free.pop() {
                    Some(slot) => {
                        self.shared_pieces[slot] = shared;
                        Origin::Shared(slot)
                    }
                    None => {
                        self.shared_pieces.push(shared);
                        Origin::Shared(self.shared_pieces.len() - 1)
                    }
                }
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

    /// So much of what has come over a link is not held any more.
    pub(crate) fn consume(&mut self, link: LinkId, bytes: u64) {
        if let Some(channel) = self.into.get_mut(&link) {
            channel.consumed += bytes;
            debug_assert!(channel.consumed <= channel.received, "more is passed on than has come");
        }
    }

    /// A piece has come over a link that is kept here.
    pub(crate) fn keep(&mut self, link: LinkId, piece: &Piece) {
        self.consume(link, cost(piece));
    }

    /// A piece has come over a link, whatever becomes of it.
    pub(crate) fn received(&mut self, link: LinkId, piece: &Piece) {
        if let Some(channel) = self.into.get_mut(&link) {
            channel.received += cost(piece);
        }
    }

    /// An item has come over a link to its end.
    pub(crate) fn item_ended(&mut self, link: LinkId, weight: u64) {
        if let Some(channel) = self.into.get_mut(&link) {
            channel.remaining = channel.remaining.saturating_sub(weight);
        }
    }

    /// The other end of a link has more than it may send.
    pub(crate) fn peer_blocked(&mut self, link: LinkId) {
        if let Some(channel) = self.into.get_mut(&link) {
            channel.blocked = true;
        }
    }

    /// The other end of a link takes so much, counted from the beginning.
    pub(crate) fn allow(&mut self, link: LinkId, limit: u64) {
        if let Some(channel) = self.out.get_mut(&link) {
            channel.allowed = channel.allowed.max(limit);
        }
    }

    /// What is to be granted now: links, and how much each may send, counted from the beginning.
    pub(crate) fn grants(&mut self) -> Vec<(LinkId, u64)> {
        // One half in equal parts, the other for those who bring most: a host brings what all its members do.
        let equal = WINDOW_POOL / 2 / (self.into.len() as u64).max(1);
        let all = self.into.values().map(|channel| channel.all).fold(1, u64::saturating_add);
        let wanting = self.into.iter_mut().filter(|(_, channel)| channel.blocked);
        let mut grants = Vec::new();
        for (&link, channel) in wanting {
            let own = (u128::from(WINDOW_POOL / 2) * u128::from(channel.all) / u128::from(all)) as u64;
            let window = (equal + own).max(EAGER);
            let limit = channel.consumed + window;
            if limit >= channel.granted + window / 2 {
                channel.granted = limit;
                channel.blocked = channel.remaining > 0;
                grants.push((link, limit));
            }
        }
        grants
    }

    /// Nothing goes over this link in pieces.
    pub(crate) fn remove_outgoing(&mut self, link: LinkId) {
        self.out.remove(&link);
    }

    /// Nobody is at the other end of a link any more: what waits there is dropped. What was still to come from there.
    pub(crate) fn cut(&mut self, link: LinkId) -> u64 {
        if let Some(channel) = self.out.remove(&link) {
            for queued in channel.queue {
                self.passed(queued.origin, cost(&queued.piece));
            }
        }
        self.into.remove(&link).map_or(0, |channel| channel.remaining)
    }

    /// Whether nothing will go out any more.
    pub(crate) fn is_over(&self) -> bool {
        self.out.values().all(Outgoing::is_over)
    }

    /// Over which links something is still to come.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = LinkId> {
        self.into.iter().filter(|(_, channel)| channel.remaining > 0).map(|(link, _)| *link)
    }

    /// Whether something waits that is this member's own.
    pub(crate) fn holds_own(&self) -> bool {
        self.out.values().any(Outgoing::holds_own)
    }

    /// Whether something waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.values().all(|channel| channel.queue.is_empty())
    }

    /// A piece, or a part of one, has left a lane.
    fn passed(&mut self, origin: Origin, cost: u64) {
        match origin {
            Origin::Here => {}
            Origin::Link(from) => self.consume(from, cost),
            Origin::Shared(slot) => {
                let Some(shared) = self.shared_pieces.get_mut(slot) else { return };
                shared.channels -= 1;
                if shared.channels == 0 {
                    let (from, cost) = (shared.from, shared.cost);
                    self.free.push(slot);
                    self.consume(from, cost);
                }
            }
        }
    }

    /// The next frame for a link, if something should go there, or if it is to be told by `header`'s signs anyway.
    pub(crate) fn next_frame(&mut self, link: LinkId, header: CollectiveHeader, must: bool) -> Option<Frame> {
        let ripe = self.out.get(&link).is_some_and(|channel| {
            !channel.queue.is_empty()
                && (!self.batches || channel.remaining == 0 || channel.cost >= CHUNK || must)
        });
        let payload = if ripe { self.dequeue(link) } else { Vec::new() };
        (must || !payload.is_empty()).then(|| self.frame_for(link, header, payload))
    }

    /// A frame that makes room for those who wait for some: the most that may go over one link, and which.
    ///
    /// What comes from the parent goes to children only, so it makes room to send them however little waits there. What comes
    /// from a child may wait mostly for a link over which nothing may go; that will come right by itself, because what is
    /// held up on its way up waits only for what goes down, and what goes down for members to take it. Little frames to others
    /// would not help meanwhile.
    pub(crate) fn relieve(&mut self, header: &CollectiveHeader) -> Option<(LinkId, Frame)> {
        let from_parent = self.into.get(&LinkId::PARENT).is_some_and(Incoming::is_stalled);
        if !from_parent && !self.into.values().any(Incoming::is_stalled) {
            return None;
        }
        let ready = self.out.iter().filter(|(_, channel)| channel.can_send());
        let (&link, channel) = ready.max_by_key(|(_, channel)| channel.cost.min(channel.credit()))?;
        let held_up = || self.out.values().any(|channel| !channel.queue.is_empty() && !channel.can_send());
        if !from_parent && channel.cost.min(channel.credit()) < MIN_GRANT && held_up() {
            return None;
        }
        let payload = self.dequeue(link);
        Some((link, self.frame_for(link, header.clone(), payload)))
    }

    /// As much as one frame takes of what waits for a link.
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

/// Whether a piece that costs so much, or a part of it, should go into so much room.
fn is_worthwhile(credit: u64, cost: u64) -> bool {
    credit >= cost.min(MIN_GRANT)
}

/// Small parts are copied together, so that a frame does not consist of thousands of them.
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
