//! One direction of a link in a collective call. See the [parent module](super).

use std::collections::VecDeque;

use libi_core::ids::LinkId;

use crate::piece::{MAX_HEAD, Piece};

/// The payload of a full frame.
pub(super) const CHUNK: u64 = 128 << 10;
/// What a piece costs in addition to its bytes.
pub(super) const PIECE_OVERHEAD: u64 = MAX_HEAD as u64;
/// A smaller grant is not worth a frame, unless it is all that is left.
pub(super) const MIN_GRANT: u64 = 2 << 10;

/// Where a queued piece came from: the link that gets credit when the piece has been forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is a contribution of this member.
    Here,
    /// It arrived over this link.
    Link(LinkId),
    /// It is in several queues; an index into `shared_pieces`.
    Shared(usize),
}

/// What has left a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// A piece, or the last part of one, of this cost.
    Whole(u64),
    /// So many bytes of a piece.
    Part(u64),
}

#[derive(Debug)]
pub(super) struct QueuedPiece {
    pub(super) piece: Piece,
    pub(super) origin: Origin,
}

/// The channel out over a link.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(super) queue: VecDeque<QueuedPiece>,
    /// The cost of everything in the queue, overhead included.
    pub(super) cost: u64,
    /// How much is still to be queued until the end of the call.
    pub(super) remaining: u64,
    pub(super) sent: u64,
    pub(super) allowed: u64,
}

impl Outgoing {
    /// Whether everything that goes over this link has been sent.
    pub(crate) fn is_over(&self) -> bool {
        self.remaining == 0 && self.queue.is_empty()
    }

    /// How many bytes may go into the next frame.
    pub(super) fn credit(&self) -> u64 {
        self.allowed.saturating_sub(self.sent).min(CHUNK)
    }

    /// Whether a piece is queued, and credit allows to send it.
    pub(super) fn can_send(&self) -> bool {
        self.queue.front().is_some_and(|first| is_worthwhile(self.credit(), cost(&first.piece)))
    }

    /// Queues a piece. `weight` is what it counts for of what is still to be queued.
    pub(super) fn push(&mut self, piece: Piece, origin: Origin, weight: u64) {
        self.remaining = self.remaining.saturating_sub(weight);
        self.cost += cost(&piece);
        self.queue.push_back(QueuedPiece { piece, origin });
    }

    /// Takes the next piece, or as much of it as may be sent with this credit.
    pub(super) fn pop(&mut self, credit: &mut u64) -> Option<(Piece, Origin, Left)> {
        let first = self.queue.front_mut().filter(|first| is_worthwhile(*credit, cost(&first.piece)))?;
        let (piece, origin, left) = if cost(&first.piece) <= *credit {
            let QueuedPiece { piece, origin } = self.queue.pop_front()?;
            let all = cost(&piece);
            (piece, origin, Left::Whole(all))
        } else {
            let most = credit.saturating_sub(PIECE_OVERHEAD) as usize;
            let part = first.piece.split_to(most);
            let bytes = part.bytes.len() as u64;
            (part, first.origin, Left::Part(bytes))
        };
        let (Left::Whole(left_queue) | Left::Part(left_queue)) = left;
        self.cost -= left_queue;
        self.sent += cost(&piece);
        *credit -= cost(&piece);
        Some((piece, origin, left))
    }

    /// The bytes of this member's contributions that are queued.
    pub(super) fn own_cost(&self) -> u64 {
        let own = self.queue.iter().filter(|queued| queued.origin == Origin::Here);
        own.map(|queued| cost(&queued.piece)).sum()
    }
}

/// The channel in over a link.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// How much is still to arrive; `all` is how much there was at the start.
    pub(crate) remaining: u64,
    pub(super) all: u64,
    pub(super) received: u64,
    pub(super) consumed: u64,
    pub(super) granted: u64,
    pub(super) blocked: bool,
}

impl Incoming {
    /// Whether the sender has more data and no credit left.
    pub(super) fn is_stalled(&self) -> bool {
        self.blocked && self.received + MIN_GRANT >= self.granted
    }
}

/// What a piece costs: its bytes, and its head.
pub(super) fn cost(piece: &Piece) -> u64 {
    piece.bytes.len() as u64 + PIECE_OVERHEAD
}

/// Whether a piece of this cost, or a part of it, should be sent with this much credit.
fn is_worthwhile(credit: u64, cost: u64) -> bool {
    credit >= cost.min(MIN_GRANT)
}
