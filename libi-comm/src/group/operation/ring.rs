//! The ring: the neighbors of each member and the sum of the weights before it, with one message up
//! and one down on each link.
//!
//! The ring goes through the tree in depth-first order: a process, then everything below its first
//! branch, and so on. The members of a host are therefore neighbors. Upwards goes a summary of a
//! branch; downwards go the neighbors of the branch and the sums before it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::contract::{Outcome, RingPosition};
use crate::error::CommError;
use crate::group::GroupView;
use crate::group::context::CallContext;
use crate::group::messages::{Arrived, Downward, Messages};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Ring;

impl Messages for Ring {
    fn up(&self, arrived: &mut Arrived, ctx: &mut CallContext<'_>) -> Result<Bytes, CommError> {
        Ok(RingSegment::join(&segments(arrived, ctx.view)?).encode())
    }

    fn down(
        &self,
        arrived: &mut Arrived,
        above: Option<Bytes>,
        ctx: &mut CallContext<'_>,
    ) -> Result<Downward, CommError> {
        let segments = segments(arrived, ctx.view)?;
        let whole = RingSegment::join(&segments);
        let neighbors = match &above {
            None => SegmentNeighbors::whole(&whole),
            Some(above) => SegmentNeighbors::decode(above).ok_or(INVALID)?,
        };
        let mut parts = neighbors.split(&segments).into_iter();
        let own = if ctx.view.topology.me.is_some() { parts.next() } else { None };
        let outcome = own.map_or(Outcome::Done, |own| Outcome::Ring(own.position()));
        let branches = ctx.view.branches_with_members().map(|branch| branch.link);
        Ok(Downward { outcome, messages: branches.zip(parts.map(|part| part.encode())).collect() })
    }
}

const INVALID: CommError = CommError::Protocol("an invalid ring segment");

/// The segments of the ring here and below, in their order.
fn segments<'a>(arrived: &'a Arrived, view: &GroupView) -> Result<Vec<RingSegment<'a>>, CommError> {
    let own = view.topology.me.is_some().then_some(&arrived.own[..]);
    let below = view.branches_with_members().map(|branch| arrived.below.get(&branch.link));
    let below = below.map(|message| message.map_or(&[][..], Vec::as_slice));
    own.into_iter().chain(below).map(|bytes| RingSegment::decode(bytes).ok_or(INVALID)).collect()
}

/// A summary of adjacent members of the ring.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RingSegment<'a> {
    members: u32,
    count: u64,
    /// What its first member has for the left neighbor.
    left: &'a [u8],
    /// What its last member has for the right neighbor.
    right: &'a [u8],
}

/// What precedes and follows a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentNeighbors<'a> {
    /// The number of members before it; `size` is the number of members in all.
    before: u32,
    size: u32,
    /// The sum of the weights before it.
    count: u64,
    /// What the left neighbor has for its right, and the right neighbor for its left.
    left: &'a [u8],
    right: &'a [u8],
}

impl<'a> RingSegment<'a> {
    /// The segment that consists of one member.
    pub(super) const fn of(count: u64, left: &'a [u8], right: &'a [u8]) -> Self {
        Self { members: 1, count, left, right }
    }

    fn decode(bytes: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok().filter(|segment: &Self| segment.members > 0)
    }

    pub(super) fn encode(&self) -> Bytes {
        postcard::to_allocvec(self).unwrap_or_default().into()
    }

    /// The segment that consists of these.
    fn join(segments: &[Self]) -> Self {
        Self {
            members: segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.members)),
            count: segments.iter().fold(0, |sum, segment| sum.wrapping_add(segment.count)),
            left: segments.first().map_or(&[], |segment| segment.left),
            right: segments.last().map_or(&[], |segment| segment.right),
        }
    }
}

impl<'a> SegmentNeighbors<'a> {
    /// The neighbors of the whole ring: it is its own neighbor.
    const fn whole(ring: &RingSegment<'a>) -> Self {
        Self { before: 0, size: ring.members, count: 0, left: ring.right, right: ring.left }
    }

    fn decode(bytes: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    fn encode(&self) -> Bytes {
        postcard::to_allocvec(self).unwrap_or_default().into()
    }

    /// The neighbors of each of these segments; `self` are the neighbors of all together.
    fn split(self, segments: &[RingSegment<'a>]) -> Vec<Self> {
        let mut here = self;
        let mut neighbors = Vec::with_capacity(segments.len());
        for (nth, segment) in segments.iter().enumerate() {
            here.right = segments.get(nth + 1).map_or(self.right, |next| next.left);
            neighbors.push(here);
            here.before = here.before.saturating_add(segment.members);
            here.count = here.count.wrapping_add(segment.count);
            here.left = segment.right;
        }
        neighbors
    }

    /// The position of the only member of the segment.
    fn position(&self) -> RingPosition {
        RingPosition {
            rank: self.before,
            size: self.size,
            before: self.count,
            left: Bytes::copy_from_slice(self.left),
            right: Bytes::copy_from_slice(self.right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_gets_its_neighbors_and_the_sum_before_it() {
        let own = RingSegment::of(3, b"a<", b"a>").encode();
        let below = [RingSegment::of(5, b"b<", b"b>"), RingSegment::of(7, b"c<", b"c>")];
        let branch = RingSegment::join(&below).encode();
        let ring = [&own, &branch].map(|segment| RingSegment::decode(segment).unwrap());
        let whole = SegmentNeighbors::whole(&RingSegment::join(&ring));
        let top = whole.split(&ring);
        let sent = top[1].encode();
        let bottom = SegmentNeighbors::decode(&sent).unwrap().split(&below);
        let position = |rank, before, left: &'static str, right: &'static str| RingPosition {
            rank,
            size: 3,
            before,
            left: left.into(),
            right: right.into(),
        };
        assert_eq!(top[0].position(), position(0, 0, "c>", "b<"));
        assert_eq!(bottom[0].position(), position(1, 3, "a>", "c<"));
        assert_eq!(bottom[1].position(), position(2, 8, "b>", "a<"));
    }

    #[test]
    fn a_single_member_is_its_own_neighbor() {
        let one = [RingSegment::of(9, b"l", b"r")];
        let whole = SegmentNeighbors::whole(&one[0]);
        let position = RingPosition { rank: 0, size: 1, before: 0, left: "r".into(), right: "l".into() };
        assert_eq!(whole.split(&one)[0].position(), position);
    }
}
