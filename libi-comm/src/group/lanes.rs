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
use crate::message::{Flow, Message};
use crate::piece::{HEAD, Piece};

/// How much may be sent before anything is granted.
pub(crate) const EAGER: u64 = 8 << 10;
/// How much of one call a process is ready to hold that it passes on, all its links together.
const POOL: u64 = 2 << 20;
/// How much goes into one frame.
pub(crate) const CHUNK: u64 = 128 << 10;
/// What a piece takes beside its bytes.
const BESIDE: u64 = HEAD as u64;
/// A grant that is smaller than this, and than all there is, is not worth a frame.
const LITTLE: u64 = 2 << 10;

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
struct Shared {
    lanes: u32,
    from: LinkId,
    cost: u64,
}

#[derive(Debug)]
struct Waiting {
    piece: Piece,
    origin: Origin,
}

/// What goes out over a link.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: VecDeque<Waiting>,
    /// The bytes of the queue, with what they take beside them.
    cost: u64,
    /// What is still to be put into the queue, ever.
    left: u64,
    sent: u64,
    allowed: u64,
}

impl Outgoing {
    /// Whether everything that goes over this link has gone.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 && self.queue.is_empty()
    }

    /// How much may go into the next frame.
    fn room(&self) -> u64 {
        self.allowed.saturating_sub(self.sent).min(CHUNK)
    }

    /// Whether something waits, and may go.
    fn may_go(&self) -> bool {
        self.queue.front().is_some_and(|first| is_worth(self.room(), cost(&first.piece)))
    }

    /// Whether pieces of this member itself are waiting.
    fn holds_own(&self) -> bool {
        self.queue.iter().any(|waiting| waiting.origin == Origin::Here)
    }
}

/// What comes in over a link.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// What is still to come, and what was to come in the beginning.
    pub(crate) left: u64,
    all: u64,
    received: u64,
    consumed: u64,
    granted: u64,
    wants: bool,
}

impl Incoming {
    /// Whether the other end has more, and may not send it.
    fn stalls(&self) -> bool {
        self.wants && self.received + LITTLE >= self.granted
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) out: BTreeMap<LinkId, Outgoing>,
    pub(crate) into: BTreeMap<LinkId, Incoming>,
    shared: Vec<Shared>,
    free: Vec<usize>,
    /// Whether what waits may be joined by more from elsewhere.
    gathers: bool,
}

fn cost(piece: &Piece) -> u64 {
    piece.bytes.len() as u64 + BESIDE
}

impl Lanes {
    pub(crate) fn new(gathers: bool) -> Self {
        Self { gathers, ..Self::default() }
    }

    /// So much will go over this link, and come.
    pub(crate) fn open(&mut self, link: LinkId, outgoing: u64, incoming: u64) {
        if outgoing > 0 {
            let lane = Outgoing { queue: VecDeque::new(), cost: 0, left: outgoing, sent: 0, allowed: EAGER };
            self.out.insert(link, lane);
        }
        if incoming > 0 {
            let lane = Incoming { left: incoming, all: incoming, granted: EAGER, ..Incoming::default() };
            self.into.insert(link, lane);
        }
    }

    /// Puts a piece into these lanes; `weight` is what its item counts for.
    pub(crate) fn put(&mut self, piece: &Piece, weight: u64, from: Option<LinkId>, to: &[LinkId]) {
        let to: Vec<_> = to.iter().filter(|link| self.out.contains_key(link)).collect();
        let origin = match (from, to.len() as u32) {
            (None, _) => Origin::Here,
            (Some(from), 0) => return self.consume(from, cost(piece)),
            (Some(from), 1) => Origin::Link(from),
            (Some(from), lanes) => {
                let shared = Shared { lanes, from, cost: cost(piece) };
                match self.free.pop() {
                    Some(place) => {
                        self.shared[place] = shared;
                        Origin::Shared(place)
                    }
                    None => {
                        self.shared.push(shared);
                        Origin::Shared(self.shared.len() - 1)
                    }
                }
            }
        };
        let weight = if piece.is_last() { weight } else { 0 };
        for link in to {
            if let Some(lane) = self.out.get_mut(link) {
                lane.left = lane.left.saturating_sub(weight);
                lane.cost += cost(piece);
                lane.queue.push_back(Waiting { piece: piece.clone(), origin });
            }
        }
    }

    /// So much of what has come over a link is not held any more.
    pub(crate) fn consume(&mut self, link: LinkId, bytes: u64) {
        if let Some(lane) = self.into.get_mut(&link) {
            lane.consumed += bytes;
            debug_assert!(lane.consumed <= lane.received, "more is passed on than has come");
        }
    }

    /// A piece has come over a link that is kept here.
    pub(crate) fn keep(&mut self, link: LinkId, piece: &Piece) {
        self.consume(link, cost(piece));
    }

    /// A piece has come over a link, whatever becomes of it.
    pub(crate) fn received(&mut self, link: LinkId, piece: &Piece) {
        if let Some(lane) = self.into.get_mut(&link) {
            lane.received += cost(piece);
        }
    }

    /// An item has come over a link to its end.
    pub(crate) fn arrived(&mut self, link: LinkId, weight: u64) {
        if let Some(lane) = self.into.get_mut(&link) {
            lane.left = lane.left.saturating_sub(weight);
        }
    }

    /// The other end of a link has more than it may send.
    pub(crate) fn wanted(&mut self, link: LinkId) {
        if let Some(lane) = self.into.get_mut(&link) {
            lane.wants = true;
        }
    }

    /// The other end of a link takes so much, counted from the beginning.
    pub(crate) fn allow(&mut self, link: LinkId, upto: u64) {
        if let Some(lane) = self.out.get_mut(&link) {
            lane.allowed = lane.allowed.max(upto);
        }
    }

    /// What is to be granted now: links, and how much each may send, counted from the beginning.
    pub(crate) fn grants(&mut self) -> Vec<(LinkId, u64)> {
        // One half in equal parts, the other for those who bring most: a host brings what all its members do.
        let equal = POOL / 2 / (self.into.len() as u64).max(1);
        let all = self.into.values().map(|lane| lane.all).fold(1, u64::saturating_add);
        let wanting = self.into.iter_mut().filter(|(_, lane)| lane.wants);
        let mut grants = Vec::new();
        for (&link, lane) in wanting {
            let own = (u128::from(POOL / 2) * u128::from(lane.all) / u128::from(all)) as u64;
            let window = (equal + own).max(EAGER);
            let upto = lane.consumed + window;
            if upto >= lane.granted + window / 2 {
                lane.granted = upto;
                lane.wants = lane.left > 0;
                grants.push((link, upto));
            }
        }
        grants
    }

    /// Nothing goes over this link in pieces.
    pub(crate) fn spare(&mut self, link: LinkId) {
        self.out.remove(&link);
    }

    /// Nobody is at the other end of a link any more: what waits there is dropped. What was still to come from there.
    pub(crate) fn cut(&mut self, link: LinkId) -> u64 {
        if let Some(lane) = self.out.remove(&link) {
            for waiting in lane.queue {
                self.passed(waiting.origin, cost(&waiting.piece));
            }
        }
        self.into.remove(&link).map_or(0, |lane| lane.left)
    }

    /// Whether nothing will go out any more.
    pub(crate) fn is_over(&self) -> bool {
        self.out.values().all(Outgoing::is_over)
    }

    /// Over which links something is still to come.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = LinkId> {
        self.into.iter().filter(|(_, lane)| lane.left > 0).map(|(link, _)| *link)
    }

    /// Whether something waits that is this member's own.
    pub(crate) fn holds_own(&self) -> bool {
        self.out.values().any(Outgoing::holds_own)
    }

    /// Whether something waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.values().all(|lane| lane.queue.is_empty())
    }

    /// A piece, or a part of one, has left a lane.
    fn passed(&mut self, origin: Origin, cost: u64) {
        match origin {
            Origin::Here => {}
            Origin::Link(from) => self.consume(from, cost),
            Origin::Shared(place) => {
                let Some(shared) = self.shared.get_mut(place) else { return };
                shared.lanes -= 1;
                if shared.lanes == 0 {
                    let (from, cost) = (shared.from, shared.cost);
                    self.free.push(place);
                    self.consume(from, cost);
                }
            }
        }
    }

    /// The next frame for a link, if something should go there, or if it is to be told by `flow`'s signs anyway.
    pub(crate) fn next_frame(&mut self, link: LinkId, flow: Flow, must: bool) -> Option<Frame> {
        let ripe = self.out.get(&link).is_some_and(|lane| {
            !lane.queue.is_empty() && (!self.gathers || lane.left == 0 || lane.cost >= CHUNK || must)
        });
        let cargo = if ripe { self.take(link) } else { Vec::new() };
        (must || !cargo.is_empty()).then(|| self.framed(link, flow, cargo))
    }

    /// A frame that makes room for those who wait for some: the most that may go over one link, and which.
    ///
    /// What comes from the parent goes to children only, so it makes room to send them however little waits there. What comes
    /// from a child may wait mostly for a link over which nothing may go; that will come right by itself, because what is
    /// held up on its way up waits only for what goes down, and what goes down for members to take it. Little frames to others
    /// would not help meanwhile.
    pub(crate) fn relief(&mut self, flow: &Flow) -> Option<(LinkId, Frame)> {
        let above = self.into.get(&LinkId::PARENT).is_some_and(Incoming::stalls);
        if !above && !self.into.values().any(Incoming::stalls) {
            return None;
        }
        let ready = self.out.iter().filter(|(_, lane)| lane.may_go());
        let (&link, lane) = ready.max_by_key(|(_, lane)| lane.cost.min(lane.room()))?;
        let held_up = || self.out.values().any(|lane| !lane.queue.is_empty() && !lane.may_go());
        if !above && lane.cost.min(lane.room()) < LITTLE && held_up() {
            return None;
        }
        let cargo = self.take(link);
        Some((link, self.framed(link, flow.clone(), cargo)))
    }

    /// As much as one frame takes of what waits for a link.
    fn take(&mut self, link: LinkId) -> Vec<Bytes> {
        let Some(lane) = self.out.get_mut(&link) else { return Vec::new() };
        let (mut cargo, mut passed) = (Vec::new(), Vec::new());
        let mut room = lane.room();
        while let Some(first) = lane.queue.front_mut()
            && is_worth(room, cost(&first.piece))
        {
            let whole = cost(&first.piece) <= room;
            let most = room.saturating_sub(BESIDE) as usize;
            let piece = if whole { first.piece.clone() } else { first.piece.split_to(most) };
            let took = cost(&piece);
            room -= took;
            lane.sent += took;
            lane.cost -= if whole { took } else { took - BESIDE };
            cargo.extend([piece.head(), piece.bytes]);
            match (whole, first.origin) {
                (true, origin) => {
                    passed.push((origin, took));
                    lane.queue.pop_front();
                }
                (false, Origin::Link(from)) => passed.push((Origin::Link(from), took - BESIDE)),
                (false, _) => {}
            }
        }
        for (origin, cost) in passed {
            self.passed(origin, cost);
        }
        cargo
    }

    fn framed(&self, link: LinkId, mut flow: Flow, cargo: Vec<Bytes>) -> Frame {
        flow.signs.wants =
            self.out.get(&link).is_some_and(|lane| !lane.is_over() && lane.sent > lane.allowed / 2);
        Message::Flow(flow).frame(compact(cargo))
    }
}

/// Whether a piece that costs so much, or a part of it, should go into so much room.
fn is_worth(room: u64, cost: u64) -> bool {
    room >= cost.min(LITTLE)
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
