//! The ring: the neighbors of each member and the sum of the weights before it, with one message up
//! and one down on each link.
//!
//! The ring goes through the tree in depth-first order: a process, then everything below its first
//! branch, and so on. The members of a host are therefore neighbors. Upwards goes a summary of a
//! branch; downwards go the neighbors of the branch and the sums before it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::contract::RingPosition;

/// What a member contributes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RingInput {
    pub(crate) count: u64,
    pub(crate) left: Bytes,
    pub(crate) right: Bytes,
}

/// A summary of adjacent members of the ring.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RingSegment<'a> {
    members: u32,
    count: u64,
    /// What its first member has for the left neighbor.
    left: &'a [u8],
    /// What its last member has for the right neighbor.
    right: &'a [u8],
}

/// What precedes and follows a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentNeighbors<'a> {
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
    pub(crate) fn of(input: &'a RingInput) -> Self {
        Self { members: 1, count: input.count, left: &input.left, right: &input.right }
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok().filter(|segment: &Self| segment.members > 0)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The segment that consists of these.
    pub(crate) fn join(segments: &[Self]) -> Self {
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
    pub(crate) const fn whole(ring: &RingSegment<'a>) -> Self {
        Self { before: 0, size: ring.members, count: 0, left: ring.right, right: ring.left }
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The neighbors of each of these segments; `self` are the neighbors of all together.
    pub(crate) fn split(self, segments: &[RingSegment<'a>]) -> Vec<Self> {
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
    pub(crate) fn position(&self) -> RingPosition {
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

    fn input(count: u64, left: &'static str, right: &'static str) -> RingInput {
        RingInput { count, left: left.into(), right: right.into() }
    }

    #[test]
    fn every_member_gets_its_neighbors_and_the_sum_before_it() {
        let members = [input(3, "a<", "a>"), input(5, "b<", "b>"), input(7, "c<", "c>")];
        let below = [RingSegment::of(&members[1]), RingSegment::of(&members[2])];
        let branch = RingSegment::join(&below).encode();
        let ring = [RingSegment::of(&members[0]), RingSegment::decode(&branch).unwrap()];
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
        let one = input(9, "l", "r");
        let whole = SegmentNeighbors::whole(&RingSegment::of(&one));
        let position = RingPosition { rank: 0, size: 1, before: 0, left: "r".into(), right: "l".into() };
        assert_eq!(whole.split(&[RingSegment::of(&one)])[0].position(), position);
    }
}
