//! What groups say to each other.
//!
//! Each message is the payload of one data frame: its head, and behind that the bytes that it is about, if it is about
//! any. Frames of a link arrive in the order in which they were sent.

use std::fmt;

use bytes::Bytes;
use libi_core::ids::Rank;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use crate::contract::Frame;
use crate::error::AbortCause;
use crate::reduce::{Element, Op};

/// The head of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Of a collective call: what has become known, with pieces or other payload behind it.
    Collective(CollectiveHeader),
    /// Of a collective call: the memory that was lent last holds all of this call's data.
    Region(CollectiveHeader),
    /// Of a collective call: so many bytes of it may be sent on this link, counted from its beginning.
    Grant { nth: u64, limit: u64 },
    /// A collective call is over for everybody.
    Aborted { nth: u64, why: AbortCause },
    /// These are gone. They have taken part in the collective calls before this one.
    Lost { ranks: Ranks, before: u64 },
    /// Something between two.
    P2p(crate::group::p2p::Envelope),
    /// About keys.
    Kvs(crate::group::kvs::KvsMessage),
}

/// What a frame says of a collective call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CollectiveHeader {
    /// Which of the session's collective calls.
    pub(crate) nth: u64,
    /// Somebody who has called it, and what he has called.
    pub(crate) by: (Rank, CallSignature),
    /// What else the frame means.
    pub(crate) flags: HeaderFlags,
}

/// What else a frame means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeaderFlags {
    /// From below: everybody there has called.
    pub(crate) entered: bool,
    /// From above: everybody has called.
    pub(crate) done: bool,
    /// The sender has more than it may send.
    pub(crate) blocked: bool,
    /// The payload goes on in the next frame.
    pub(crate) more: bool,
}

/// What a member has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSignature {
    /// Which operation.
    pub kind: Kind,
    /// Its root, if it has one.
    pub root: Option<Rank>,
    /// What the caller says of lengths.
    pub length: Length,
}

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "they are called as the calls are")]
#[non_exhaustive]
pub enum Kind {
    Barrier,
    Broadcast,
    Gather,
    Scatter,
    AllGather,
    AllToAll,
    /// Element by element.
    Reduce(Op, Element),
    /// By a function of the program's own.
    ReduceCustom,
    Ring,
    Fence,
}

/// What a caller says of the lengths of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Length {
    /// He does not know.
    Unknown,
    /// Each member's part has its own.
    Varies,
    /// All parts have this one.
    Equal(u64),
}

impl CallSignature {
    /// Whether both can be part of the same collective call.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        let lengths = match (self.length, other.length) {
            (Length::Unknown, _) | (_, Length::Unknown) => true,
            (one, other) => one == other,
        };
        self.kind == other.kind && self.root == other.root && lengths
    }
}

impl fmt::Display for CallSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Barrier => f.write_str("barrier"),
            Kind::Broadcast => f.write_str("broadcast"),
            Kind::Gather => f.write_str("gather"),
            Kind::Scatter => f.write_str("scatter"),
            Kind::AllGather => f.write_str("allgather"),
            Kind::AllToAll => f.write_str("alltoall"),
            Kind::Reduce(op, element) => {
                let all = if self.root.is_some() { "" } else { "all" };
                write!(f, "{all}reduce ({op:?} of {element:?})")
            }
            Kind::ReduceCustom if self.root.is_some() => f.write_str("reduce"),
            Kind::ReduceCustom => f.write_str("allreduce"),
            Kind::Ring => f.write_str("ring"),
            Kind::Fence => f.write_str("fence"),
        }?;
        if let Some(root) = self.root {
            let word = if matches!(self.kind, Kind::Broadcast | Kind::Scatter) { "from" } else { "to" };
            write!(f, " {word} {root}")?;
        }
        match self.length {
            Length::Equal(1) => f.write_str(" of 1 byte"),
            Length::Equal(length) => write!(f, " of {length} bytes"),
            Length::Varies => f.write_str(" of various lengths"),
            Length::Unknown => Ok(()),
        }
    }
}

impl Message {
    /// The frame in which it travels, with this payload.
    pub(crate) fn frame(&self, payload: impl IntoIterator<Item = Bytes>) -> Frame {
        // What messages consist of can always be written.
        let head = postcard::to_allocvec(self).unwrap_or_default();
        Frame(std::iter::once(Bytes::from(head)).chain(payload).collect())
    }

    /// Reads a frame's head; the rest is its payload. Nothing if it is no message.
    pub(crate) fn decode(frame: &Bytes) -> Option<(Self, Bytes)> {
        let (message, rest) = postcard::take_from_bytes(frame).ok()?;
        Some((message, frame.slice_ref(rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_as_programs_make_them() {
        let called = |kind, root, length| CallSignature { kind, root, length }.to_string();
        assert_eq!(called(Kind::Gather, Some(Rank(3)), Length::Equal(8)), "gather to rank 3 of 8 bytes");
        assert_eq!(called(Kind::Barrier, None, Length::Unknown), "barrier");
        assert_eq!(
            called(Kind::Reduce(Op::Sum, Element::I32), None, Length::Equal(1)),
            "allreduce (Sum of I32) of 1 byte"
        );
        assert_eq!(
            called(Kind::Scatter, Some(Rank(0)), Length::Varies),
            "scatter from rank 0 of various lengths"
        );
    }

    #[test]
    fn who_does_not_know_the_length_matches_everybody() {
        let called = |length| CallSignature { kind: Kind::Broadcast, root: Some(Rank(1)), length };
        assert!(called(Length::Unknown).matches(&called(Length::Equal(3))));
        assert!(!called(Length::Equal(4)).matches(&called(Length::Equal(3))));
        assert!(!called(Length::Varies).matches(&called(Length::Equal(3))));
    }
}
