//! The ring: who is whose neighbour, and how many come before, with one message up and one down on each link.
//!
//! The ring goes through the tree: a process comes first, then everybody below its first branch, and so on; so the
//! members of a host are neighbours. Upwards goes what a branch looks like from outside; downwards what lies before and behind it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::contract::RingPlace;

/// What a member brings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    pub(crate) count: u64,
    pub(crate) left: Bytes,
    pub(crate) right: Bytes,
}

/// A stretch of the ring, from outside.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stretch<'a> {
    members: u32,
    count: u64,
    /// What its first has for the left.
    left: &'a [u8],
    /// What its last has for the right.
    right: &'a [u8],
}

/// What lies around a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Around<'a> {
    /// Members before it, and in all.
    before: u32,
    size: u32,
    /// What those before it count for.
    count: u64,
    /// What its left neighbour has for the right, and its right neighbour for the left.
    left: &'a [u8],
    right: &'a [u8],
}

impl<'a> Stretch<'a> {
    pub(crate) fn of(own: &'a Own) -> Self {
        Self { members: 1, count: own.count, left: &own.left, right: &own.right }
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok().filter(|stretch: &Self| stretch.members > 0)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Several, one behind the other.
    pub(crate) fn join(stretches: &[Self]) -> Self {
        Self {
            members: stretches.iter().fold(0, |sum, stretch| sum.saturating_add(stretch.members)),
            count: stretches.iter().fold(0, |sum, stretch| sum.wrapping_add(stretch.count)),
            left: stretches.first().map_or(&[], |stretch| stretch.left),
            right: stretches.last().map_or(&[], |stretch| stretch.right),
        }
    }
}

impl<'a> Around<'a> {
    /// Of the whole ring: it is its own neighbour.
    pub(crate) const fn whole(ring: &Stretch<'a>) -> Self {
        Self { before: 0, size: ring.members, count: 0, left: ring.right, right: ring.left }
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// What lies around each of these, of which it is what lies around all.
    pub(crate) fn split(self, stretches: &[Stretch<'a>]) -> Vec<Self> {
        let mut here = self;
        let mut around = Vec::with_capacity(stretches.len());
        for (nth, stretch) in stretches.iter().enumerate() {
            here.right = stretches.get(nth + 1).map_or(self.right, |next| next.left);
            around.push(here);
            here.before = here.before.saturating_add(stretch.members);
            here.count = here.count.wrapping_add(stretch.count);
            here.left = stretch.right;
        }
        around
    }

    /// What a single member is told.
    pub(crate) fn place(&self) -> RingPlace {
        RingPlace {
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

    fn own(count: u64, left: &'static str, right: &'static str) -> Own {
        Own { count, left: left.into(), right: right.into() }
    }

    #[test]
    fn everybody_finds_its_neighbours_and_what_comes_before() {
        let members = [own(3, "a<", "a>"), own(5, "b<", "b>"), own(7, "c<", "c>")];
        let below = [Stretch::of(&members[1]), Stretch::of(&members[2])];
        let branch = Stretch::join(&below).encode();
        let ring = [Stretch::of(&members[0]), Stretch::decode(&branch).unwrap()];
        let whole = Around::whole(&Stretch::join(&ring));
        let top = whole.split(&ring);
        let sent = top[1].encode();
        let bottom = Around::decode(&sent).unwrap().split(&below);
        let place = |rank, before, left: &'static str, right: &'static str| RingPlace {
            rank,
            size: 3,
            before,
            left: left.into(),
            right: right.into(),
        };
        assert_eq!(top[0].place(), place(0, 0, "c>", "b<"));
        assert_eq!(bottom[0].place(), place(1, 3, "a>", "c<"));
        assert_eq!(bottom[1].place(), place(2, 8, "b>", "a<"));
    }

    #[test]
    fn one_alone_is_its_own_neighbour() {
        let one = own(9, "l", "r");
        let whole = Around::whole(&Stretch::of(&one));
        let place = RingPlace { rank: 0, size: 1, before: 0, left: "r".into(), right: "l".into() };
        assert_eq!(whole.split(&[Stretch::of(&one)])[0].place(), place);
    }
}
