//! Output of members on its way to the front end, with flow control by credit.
//!
//! The receiver of a link grants [`WINDOW`] bytes of output at first, and then as many as it has
//! passed on itself. Output therefore waits at the process that has printed it when the front end's
//! user does not read. Output never delays the protocol, because a sender without credit can still
//! send all other frames. A node holds at most [`WINDOW`] bytes of each child, and reads its own
//! pipes only while it [has capacity](OutputRelay::has_capacity).
//!
//! The end of a member does not wait for its output: whoever does not read still learns of it. So
//! the two are told apart, and the front end knows when nothing is left to come:
//!
//! | state | event | message to the parent | next state |
//! |---|---|---|---|
//! | unmarked | an end is reported while output is held, here or below | `HoldsOutput(true)`, before it | marked |
//! | marked | the last of the output has been passed on | `HoldsOutput(false)`, behind it | unmarked |
//!
//! A node that lives on without its parent [discards](OutputRelay::discard) all output.

use std::collections::{BTreeSet, VecDeque};

use libi_core::ids::Rank;
use serde::{Deserialize, Serialize};

use super::contract::LinkId;

/// How many bytes of output may be in flight on a link, or held by its receiver.
pub const WINDOW: u32 = 64 << 10;
/// How much a node holds before it stops reading its own pipes.
const CAPACITY: usize = 128 << 10;
/// The most text in one frame, so that other frames do not wait long.
pub(super) const MAX_FRAME_TEXT: usize = 16 << 10;
/// The bytes before the text in a frame: rank and stream.
const HEADER: usize = 5;

/// The stream that a member has printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Output of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutputPiece {
    pub(super) rank: Rank,
    pub(super) stream: Stream,
    pub(super) text: Vec<u8>,
}

impl OutputPiece {
    /// Encodes the payload of a frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        let stream = match self.stream {
            Stream::Out => 1,
            Stream::Err => 2,
        };
        [&self.rank.0.to_le_bytes()[..], &[stream], &self.text].concat()
    }

    /// Decodes the payload of a frame; `None` if it is malformed.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let (head, text) = payload.split_at_checked(HEADER)?;
        let (rank, stream) = head.split_first_chunk::<4>()?;
        let stream = match stream {
            [1] => Stream::Out,
            [2] => Stream::Err,
            _ => return None,
        };
        Some(Self { rank: Rank(u32::from_le_bytes(*rank)), stream, text: text.to_vec() })
    }
}

/// The output that a node holds.
#[derive(Debug)]
pub(super) struct OutputRelay {
    buffered: VecDeque<(Option<LinkId>, OutputPiece)>,
    bytes: usize,
    credit: usize,
    is_discarding: bool,
    /// The children that hold output of members whose ends they have reported.
    below: BTreeSet<LinkId>,
    /// Whether the parent knows that output is held here or below.
    is_marked: bool,
}

impl OutputRelay {
    pub(super) fn new() -> Self {
        Self {
            buffered: VecDeque::new(),
            bytes: 0,
            credit: WINDOW as usize,
            is_discarding: false,
            below: BTreeSet::new(),
            is_marked: false,
        }
    }

    /// Adds output that a child has sent, or that this node has read from a pipe (`None`).
    pub(super) fn push(&mut self, from: Option<LinkId>, piece: OutputPiece) {
        self.bytes += piece.text.len();
        self.buffered.push_back((from, piece));
    }

    /// Whether pipes should be read.
    pub(super) fn has_capacity(&self) -> bool {
        self.is_discarding || self.bytes < CAPACITY
    }

    /// The number of bytes held.
    pub(super) fn buffered(&self) -> usize {
        self.bytes
    }

    /// Whether nothing is held, here or at a child that has said so.
    pub(super) fn is_drained(&self) -> bool {
        self.buffered.is_empty() && self.below.is_empty()
    }

    /// A child holds output of members whose ends it has reported, or does not any more.
    pub(super) fn set_below(&mut self, link: LinkId, holds: bool) {
        if holds {
            self.below.insert(link);
        } else {
            self.below.remove(&link);
        }
    }

    /// What the parent has to be told before ends of members are reported, or when the output is
    /// passed on; `None` if it knows.
    pub(super) fn mark(&mut self, reports_end: bool) -> Option<bool> {
        let is_marked = !self.is_drained() && (self.is_marked || reports_end);
        (std::mem::replace(&mut self.is_marked, is_marked) != is_marked).then_some(is_marked)
    }

    /// Adds credit.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes as usize);
    }

    /// Discards what is held, and all output from now on.
    pub(super) fn discard(&mut self) {
        self.is_discarding = true;
        self.buffered.clear();
        self.bytes = 0;
    }

    /// The next piece that the credit allows, with the link that it came from.
    pub(super) fn pop(&mut self) -> Option<(Option<LinkId>, OutputPiece)> {
        if self.is_discarding {
            self.bytes = 0;
            return self.buffered.pop_front();
        }
        let (from, first) = self.buffered.front_mut()?;
        let length = split_point(&first.text, self.credit);
        if length == 0 && !first.text.is_empty() {
            return None;
        }
        self.credit -= length;
        self.bytes -= length;
        if length < first.text.len() {
            let rest = first.text.split_off(length);
            let text = std::mem::replace(&mut first.text, rest);
            return Some((*from, OutputPiece { text, ..*first }));
        }
        self.buffered.pop_front()
    }

    /// Whether output is discarded.
    pub(super) fn is_discarding(&self) -> bool {
        self.is_discarding
    }
}

/// The length of the next piece of a text: whole lines, unless the lines are long. 0 if more credit
/// may come soon and a line would be split until then.
fn split_point(text: &[u8], credit: usize) -> usize {
    let end_of_line = |most: usize| text[..most].iter().rposition(|byte| *byte == b'\n').map(|end| end + 1);
    let most = text.len().min(MAX_FRAME_TEXT);
    let lines = if most < text.len() { end_of_line(most).unwrap_or(most) } else { most };
    if lines <= credit {
        return lines;
    }
    match end_of_line(credit) {
        Some(lines) => lines,
        None if end_of_line(most).is_some() => 0,
        None => credit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(length: usize) -> OutputPiece {
        OutputPiece { rank: Rank(7), stream: Stream::Err, text: vec![b'x'; length] }
    }

    #[test]
    fn output_pieces_round_trip_and_malformed_ones_are_rejected() {
        for length in [0, 1, 1_000] {
            assert_eq!(OutputPiece::decode(&piece(length).encode()), Some(piece(length)));
        }
        for wrong in [&[][..], &[0, 0, 0, 0], &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 3, b'x']] {
            assert_eq!(OutputPiece::decode(wrong), None);
        }
    }

    #[test]
    fn output_waits_for_credit_and_none_is_lost() {
        let mut relay = OutputRelay::new();
        relay.push(Some(LinkId(1)), piece(100_000));
        let mut passed = 0;
        while let Some((from, piece)) = relay.pop() {
            assert!(from == Some(LinkId(1)) && piece.text.len() <= MAX_FRAME_TEXT);
            passed += piece.text.len();
        }
        assert_eq!(passed, WINDOW as usize);
        relay.grant(10);
        assert_eq!(relay.pop().map(|(_, piece)| piece.text.len()), Some(10));
        assert_eq!(relay.pop(), None);
        relay.grant(u32::MAX);
        while let Some((_, piece)) = relay.pop() {
            passed += piece.text.len();
        }
        assert_eq!((passed, relay.is_drained()), (99_990, true));
    }

    #[test]
    fn only_long_lines_are_split() {
        let lines = [&[b'x'; 299][..], b"\n"].concat().repeat(100);
        assert_eq!(split_point(&lines, usize::MAX), MAX_FRAME_TEXT / 300 * 300);
        assert_eq!(split_point(&lines[..900], usize::MAX), 900);
        assert_eq!(split_point(&lines, 1_000), 900);
        assert_eq!(split_point(&lines, 299), 0, "more may go soon");
        assert_eq!(split_point(&[&lines[..600], b"prompt> "].concat(), 602), 600);
        assert_eq!(split_point(&[b'x'; MAX_FRAME_TEXT + 1], usize::MAX), MAX_FRAME_TEXT);
        assert_eq!(split_point(&[b'x'; MAX_FRAME_TEXT + 1], 7), 7);
    }

    #[test]
    fn pipes_are_not_read_while_the_relay_is_full() {
        let mut relay = OutputRelay::new();
        relay.push(None, piece(CAPACITY));
        assert!(!relay.has_capacity());
        relay.discard();
        assert!(relay.has_capacity() && relay.pop().is_none());
    }
}
