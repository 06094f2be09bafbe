//! Decides which process sends which messages to which, at a step of messages between two.

use libi_comm::{Address, Call};
use libi_core::ids::Rank;
use serde::Deserialize;

use super::case::Session;
use super::data::{DataId, Lengths, number};

/// Which process sends to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each rank to the next, the last to the first.
    Next,
    /// The first to the last, the second to the last but one.
    Mirror,
    /// Each rank to itself.
    ToSelf,
    /// All ranks to the first.
    ToFirst,
    /// The last rank to all.
    FromLast,
    /// All ranks to the front end.
    ToFront,
    /// The front end to all ranks.
    FromFront,
    /// All ranks to all.
    All,
}

/// A message of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    Sent { to: Address, tag: u32, id: DataId },
    Expected { from: Address, tag: u32, id: DataId },
}

impl Transfer {
    pub(super) fn call(self, lengths: Lengths) -> Call {
        match self {
            Self::Sent { to, tag, id } => Call::Send { to, tag, data: id.bytes(lengths.of(id.from, id.nth)) },
            Self::Expected { from, tag, .. } => Call::Receive { from, tag },
        }
    }
}

/// The messages of a process at a step: those that it sends, then those that it expects.
///
/// To each receiver, the messages of each tag are in order; tags are received in another order than
/// they are sent in.
pub(super) struct Transfers<'a> {
    step: u32,
    who: Address,
    receivers: Peers<'a>,
    senders: Peers<'a>,
    tags: &'a [u32],
    count: usize,
}

impl<'a> Transfers<'a> {
    pub(super) fn of(
        pattern: Pattern,
        tags: &'a [u32],
        count: u32,
        step: u32,
        session: &'a Session,
        who: Address,
    ) -> Self {
        let (receivers, senders) = (pattern.receivers(who, session), pattern.senders(who, session));
        Self { step, who, receivers, senders, tags, count: count as usize }
    }

    /// The number of messages from one process to another.
    fn each(&self) -> usize {
        self.tags.len() * self.count
    }

    pub(super) fn len(&self) -> usize {
        (self.receivers.len() + self.senders.len()) * self.each()
    }

    pub(super) fn nth(&self, nth: usize) -> Option<Transfer> {
        let peer = nth.checked_div(self.each())?;
        // Among the messages from or to that process.
        let (tag, nth) = ((nth % self.each()) / self.count, nth % self.count);
        let id = |from, to, tag: usize| DataId {
            nth: (tag * self.count + nth) as u32,
            ..DataId::one(self.step, number(from), number(to))
        };
        if let Some(to) = self.receivers.get(peer) {
            return Some(Transfer::Sent { to, tag: self.tags[tag], id: id(self.who, to, tag) });
        }
        let from = self.senders.get(peer - self.receivers.len())?;
        let tag = self.tags.len() - 1 - tag;
        Some(Transfer::Expected { from, tag: self.tags[tag], id: id(from, self.who, tag) })
    }
}

/// Some processes.
#[derive(Clone, Copy)]
enum Peers<'a> {
    Empty,
    One(Address),
    Ranks(&'a [Rank]),
}

impl Peers<'_> {
    fn rank(rank: Option<Rank>) -> Self {
        rank.map_or(Self::Empty, |rank| Self::One(Address::Rank(rank)))
    }

    fn len(self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(_) => 1,
            Self::Ranks(ranks) => ranks.len(),
        }
    }

    fn get(self, nth: usize) -> Option<Address> {
        match self {
            Self::Ranks(ranks) => ranks.get(nth).copied().map(Address::Rank),
            Self::One(peer) if nth == 0 => Some(peer),
            Self::One(_) | Self::Empty => None,
        }
    }
}

impl Pattern {
    /// The receivers of what a process sends.
    fn receivers(self, who: Address, session: &Session) -> Peers<'_> {
        let (first, last) = (session.present.first().copied(), session.present.last().copied());
        match (self, who) {
            (Self::FromFront, Address::FrontEnd) | (Self::All, Address::Rank(_)) => {
                Peers::Ranks(&session.present)
            }
            (Self::FromLast, Address::Rank(me)) if Some(me) == last => Peers::Ranks(&session.present),
            (Self::ToFront, Address::Rank(_)) => Peers::One(Address::FrontEnd),
            (Self::Next, Address::Rank(me)) => Peers::rank(session.next(me)),
            (Self::ToSelf, Address::Rank(me)) => Peers::rank(Some(me)),
            (Self::ToFirst, Address::Rank(_)) => Peers::rank(first),
            (Self::Mirror, Address::Rank(me)) => Peers::rank(session.mirror(me)),
            _ => Peers::Empty,
        }
    }

    /// The senders of what a process receives.
    fn senders(self, who: Address, session: &Session) -> Peers<'_> {
        let (first, last) = (session.present.first().copied(), session.present.last().copied());
        match (self, who) {
            (Self::ToFront, Address::FrontEnd) => Peers::Ranks(&session.present),
            (_, Address::Rank(me)) if !session.has(me) => Peers::Empty,
            (Self::All, Address::Rank(_)) => Peers::Ranks(&session.present),
            (Self::ToFirst, Address::Rank(me)) if Some(me) == first => Peers::Ranks(&session.present),
            (Self::FromFront, Address::Rank(_)) => Peers::One(Address::FrontEnd),
            (Self::FromLast, Address::Rank(_)) => Peers::rank(last),
            (Self::Next, Address::Rank(me)) => Peers::rank(session.previous(me)),
            (Self::ToSelf, Address::Rank(me)) => Peers::rank(Some(me)),
            (Self::Mirror, Address::Rank(me)) => Peers::rank(session.mirror(me)),
            _ => Peers::Empty,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Shape, Tree};

    const PATTERNS: [Pattern; 8] = [
        Pattern::Next,
        Pattern::Mirror,
        Pattern::ToSelf,
        Pattern::ToFirst,
        Pattern::FromLast,
        Pattern::ToFront,
        Pattern::FromFront,
        Pattern::All,
    ];

    /// What is sent somewhere is expected there, and nothing else.
    #[test]
    fn every_message_has_a_sender_and_a_receiver() {
        for (pattern, size) in
            PATTERNS.into_iter().flat_map(|pattern| (1..6).map(move |size| (pattern, size)))
        {
            let shape = Shape::plain(size, 1, Tree::Flat, 0);
            let session = Session::new(String::new(), shape, 1);
            let all = session.present.iter().copied().map(Address::Rank).chain([Address::FrontEnd]);
            let (mut sent, mut expected) = (Vec::new(), Vec::new());
            for who in all {
                let transfers = Transfers::of(pattern, &[5, 9], 2, 3, &session, who);
                for transfer in (0..transfers.len()).map(|nth| transfers.nth(nth).unwrap()) {
                    match transfer {
                        Transfer::Sent { tag, id, .. } => sent.push((id.from, id.to, tag, id.nth)),
                        Transfer::Expected { tag, id, .. } => expected.push((id.from, id.to, tag, id.nth)),
                    }
                }
                assert!(transfers.nth(transfers.len()).is_none());
            }
            sent.sort_unstable();
            expected.sort_unstable();
            assert!(!sent.is_empty());
            assert_eq!(sent, expected, "{pattern:?} of {size}");
        }
    }
}
