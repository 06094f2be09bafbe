//! The messages between groups.
//!
//! Each message is the payload of one data frame: an encoded head, and behind it the bytes that it
//! describes, if any. The frames of a link arrive in the order in which they were sent.

pub(crate) mod builder;
pub(crate) mod kvs;
pub(crate) mod p2p;

use bytes::{Buf, Bytes};
use libi_core::ids::Rank;
use libi_core::loss::LossReason;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use self::builder::FrameBuilder;
use crate::contract::Frame;
use crate::error::AbortCause;
use crate::group::joining::Welcome;
use crate::group::survival::{Plan, Report};
use crate::reduce::{Element, Op};

/// The head of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Part of a collective call. Pieces or another payload follow.
    Collective(CollectiveHeader),
    /// Part of a collective call: the shared memory that arrived last has all of the call's data.
    Region(CollectiveHeader),
    /// Credit for a collective call: the total number of bytes that may be sent over this link in
    /// the call. The highest number says that nothing more is wanted over this link.
    Grant { nth: u64, limit: u64 },
    /// A collective call fails at all members that have not completed it. `origin` is the call that
    /// was aborted first, for this cause.
    Aborted { nth: u64, origin: u64, why: AbortCause },
    /// All collective calls before this number are over in the process that sends it.
    Over { before: u64 },
    /// These ranks are lost, in this way if it is known. They took part in all collective calls before
    /// number `before`. Of those that had joined, the round in which they had.
    Lost { ranks: Ranks, before: u64, reason: Option<LossReason>, joined: Vec<(Rank, u64)> },
    /// The receiver is to confirm everything that was sent before.
    Confirm { number: u64 },
    /// The answer.
    Confirmed { number: u64 },
    /// A point-to-point message.
    P2p(p2p::Envelope),
    /// A message of the key-value store.
    Kvs(kvs::KvsMessage),
    /// So many bytes may be sent over this link in any collective call before something is granted.
    Eager { limit: u64 },
    /// Sent downwards: members are lost, and collective calls halt. A sender numbers these messages; it may
    /// send another in the same round.
    Halt { round: u64, nth: u64 },
    /// Sent upwards, in answer to the `Halt` of this number: calls have halted here and below, and have come
    /// so far.
    Halted { nth: u64, report: Report },
    /// Sent downwards: calls go on as this plan says.
    Resume { round: u64, plan: Plan },
    /// All members below, or downwards all members, have completed the calls before the first number. A
    /// process wants to hear when that is so of the second.
    Completed { before: u64, wanted: u64 },
    /// Sent upwards: the tree has changed, and calls must halt, in this round or a later one.
    TreeChanged { round: u64 },
    /// To the front end above the top: what was sent to and from these members may be lost.
    Moved { round: u64, moved: Vec<Ranks> },
    /// To a new process: how it takes part. It passes this on to its branches.
    Welcome(Welcome),
    /// To the front end above the top: these members have joined, in the places of lost ones or as new
    /// ranks. The session has so many ranks.
    Joined { round: u64, ranks: Ranks, size: u32, absent: Ranks },
    /// The answer: what the front end sends from now on is for these processes.
    KnowsOfJoined { round: u64 },
    /// To the parent, if that is another than the first, or if a host below is lost: this process is new, and
    /// has not had its welcome, like these members here and below.
    AwaitsWelcome(Ranks),
    /// To another parent: the members here and below.
    MovedWith(Ranks),
}

/// The header of a frame of a collective call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CollectiveHeader {
    /// The number of the collective call in the session.
    pub(crate) nth: u64,
    /// A member that has made the call, and what it called.
    pub(crate) by: (Rank, CallSignature),
    /// What else the frame says.
    pub(crate) flags: HeaderFlags,
}

/// What else a frame of a collective call says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeaderFlags {
    /// Sent upwards: all members below have called.
    pub(crate) entered: bool,
    /// Sent downwards: all members have called.
    pub(crate) done: bool,
    /// The sender has more data than it has credit for.
    pub(crate) blocked: bool,
    /// The payload continues in the next frame.
    pub(crate) more: bool,
    /// A member has waited in the call for some time. The frame has no other purpose than to carry
    /// the signature.
    pub(crate) probe: bool,
}

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants have the names of the calls")]
#[non_exhaustive]
pub enum Kind {
    Barrier,
    Broadcast,
    Gather,
    Scatter,
    AllGather,
    AllToAll,
    /// A reduction by a predefined operation.
    Reduce(Op, Element),
    /// A reduction by a function of the program.
    ReduceCustom,
    Ring,
    Fence,
    /// An inclusive prefix reduction by a predefined operation.
    Scan(Op, Element),
    /// An inclusive prefix reduction by a function of the program.
    ScanCustom,
    /// An exclusive prefix reduction by a predefined operation.
    ExScan(Op, Element),
    /// An exclusive prefix reduction by a function of the program.
    ExScanCustom,
}

/// The operation that a member has called, as far as all members must agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSignature {
    /// The operation.
    pub kind: Kind,
    /// The root, if the operation has one.
    pub root: Option<Rank>,
    /// What the caller states about lengths.
    pub length: Length,
}

/// What a caller states about the lengths of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Length {
    /// The caller does not know the length.
    Unknown,
    /// The lengths of parts may differ.
    Varies,
    /// All parts have this length.
    Equal(u64),
}

impl CallSignature {
    /// Whether both can belong to the same collective call.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        let lengths = match (self.length, other.length) {
            (Length::Unknown, _) | (_, Length::Unknown) => true,
            (one, other) => one == other,
        };
        self.kind == other.kind && self.root == other.root && lengths
    }
}

impl Message {
    /// Whether it is of use from a process that is no branch before the next plan.
    pub(crate) const fn passes_before_a_plan(&self) -> bool {
        matches!(
            self,
            Self::Halted { .. }
                | Self::Lost { .. }
                | Self::Aborted { .. }
                | Self::TreeChanged { .. }
                | Self::Confirm { .. }
                | Self::AwaitsWelcome(_)
                | Self::MovedWith(_)
        )
    }

    /// The frame of this message with this payload.
    pub(crate) fn frame(&self, payload: impl IntoIterator<Item = Bytes>) -> Frame {
        let mut frame = FrameBuilder::default();
        payload.into_iter().for_each(|part| frame.push(part));
        frame.frame_of(self)
    }

    /// Splits a frame into its message and the payload. `None` if the frame has no valid message.
    pub(crate) fn decode(mut frame: Bytes) -> Option<(Self, Bytes)> {
        let (message, rest) = postcard::take_from_bytes(&frame).ok()?;
        let head = frame.len() - rest.len();
        frame.advance(head);
        Some((message, frame))
    }
}

/// Whether a frame that begins with these bytes belongs to what programs have called. Others are news of
/// the group, such as losses.
#[must_use]
pub fn is_of_a_call(frame: &[u8]) -> bool {
    // The number of the variant comes first, in one byte: there are few.
    matches!(frame.first(), Some(0 | 1 | 8 | 9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Address;
    use crate::group::kvs::Fences;
    use crate::group::masters::Masters;
    use crate::group::survival::Missing;

    #[test]
    fn frames_of_calls_are_told_from_news_of_the_group() {
        let of = |message: &Message| {
            let frame = FrameBuilder::default().frame_of(message);
            (frame.is_of_a_call(), is_of_a_call(&frame.0[0]))
        };
        let signature = CallSignature { kind: Kind::Barrier, root: None, length: Length::Unknown };
        let header = CollectiveHeader { nth: 1, by: (Rank(1), signature), flags: HeaderFlags::default() };
        let at = Address::Rank(Rank(1));
        let envelope = p2p::Envelope { from: at, to: at, message: p2p::P2pMessage::Eager { id: 1, tag: 1 } };
        let put = kvs::KvsMessage::CancelQuery { key: String::new(), wait: false };
        for call in [
            Message::Collective(header.clone()),
            Message::Region(header),
            Message::P2p(envelope),
            Message::Kvs(put),
        ] {
            assert_eq!(of(&call), (true, true), "{call:?}");
        }
        let ranks = [Rank(1)].into_iter().collect();
        for news in [
            Message::Grant { nth: 1, limit: 1 },
            Message::Over { before: 1 },
            Message::Lost { ranks, before: 1, reason: None, joined: Vec::new() },
            Message::Confirm { number: 1 },
            Message::Confirmed { number: 1 },
            Message::Eager { limit: 1 },
            Message::Halt { round: 1, nth: 1 },
            Message::Halted { nth: 1, report: Report::default() },
            Message::Resume { round: 1, plan: Plan::default() },
            Message::Completed { before: 1, wanted: 2 },
            Message::TreeChanged { round: 1 },
            Message::Moved { round: 1, moved: Vec::new() },
            Message::Welcome(Welcome {
                round: 1,
                ranks: Ranks::first(2),
                first: 1,
                missing: Missing::default(),
                settled: Vec::new(),
                before: Vec::new(),
                moved: Vec::new(),
                lost: Ranks::new(),
                losses: Vec::new(),
                size: 1,
                absent: Ranks::new(),
                fences: Fences::default(),
                masters: Masters::default(),
            }),
            Message::Joined { round: 1, ranks: Ranks::new(), size: 1, absent: Ranks::new() },
            Message::KnowsOfJoined { round: 1 },
            Message::AwaitsWelcome(Ranks::new()),
            Message::MovedWith(Ranks::new()),
        ] {
            assert_eq!(of(&news), (false, false), "{news:?}");
        }
    }

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
    fn an_unknown_length_matches_every_length() {
        let called = |length| CallSignature { kind: Kind::Broadcast, root: Some(Rank(1)), length };
        assert!(called(Length::Unknown).matches(&called(Length::Equal(3))));
        assert!(!called(Length::Equal(4)).matches(&called(Length::Equal(3))));
        assert!(!called(Length::Varies).matches(&called(Length::Equal(3))));
    }
}
