//! What members print, on its way to the front end: how much of it a node holds, and when it may go on.
//!
//! On every link the receiver grants how many bytes of output may come, at first [`WINDOW`], and again as many as it has
//! passed on itself. So output waits at whoever printed it when nobody reads it at the front end, and never in the way
//! of the protocol: who has no credit can still say everything else. A node holds at most [`WINDOW`] bytes of
//! each child, and reads pipes of its own only while it [has room](OutputRelay::has_capacity).
//!
//! A node that has lost its parent and lives on [is_discarding](OutputRelay::discard) what it gets.

use std::collections::VecDeque;

use libi_core::ids::Rank;

use super::contract::LinkId;

/// How many bytes of output may be on their way on a link, or held by its receiver.
pub const WINDOW: u32 = 64 << 10;
/// How much a node holds before it stops reading pipes of its own.
const CAPACITY: usize = 128 << 10;
/// How much goes into one frame, so that nothing else waits long behind it.
pub(super) const MAX_FRAME_TEXT: usize = 16 << 10;
/// What stands before the text in a frame: the rank, and the stream.
const HEADER: usize = 5;

/// Which of its streams a member has printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Something that a member has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutputPiece {
    pub(super) rank: Rank,
    pub(super) stream: Stream,
    pub(super) text: Vec<u8>,
}

impl OutputPiece {
    /// The payload of the frame in which it travels.
    pub(super) fn encode(&self) -> Vec<u8> {
        let stream = match self.stream {
            Stream::Out => 1,
            Stream::Err => 2,
        };
        [&self.rank.0.to_le_bytes()[..], &[stream], &self.text].concat()
    }

    /// Nothing if this is no such payload.
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
}

impl OutputRelay {
    pub(super) fn new() -> Self {
        Self { buffered: VecDeque::new(), bytes: 0, credit: WINDOW as usize, is_discarding: false }
    }

    /// Takes output, which a child has sent or this node has read from a pipe.
    pub(super) fn push(&mut self, from: Option<LinkId>, piece: OutputPiece) {
        self.bytes += piece.text.len();
        self.buffered.push_back((from, piece));
    }

    /// Whether more should be read from pipes.
    pub(super) fn has_capacity(&self) -> bool {
        self.is_discarding || self.bytes < CAPACITY
    }

    /// How many bytes it holds.
    pub(super) fn buffered(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffered.is_empty()
    }

    /// So much more may be passed on.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes as usize);
    }

    /// From now on nobody wants it.
    pub(super) fn discard(&mut self) {
        self.is_discarding = true;
        self.buffered.clear();
        self.bytes = 0;
    }

    /// The next that may be passed on, and the link that it came from.
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

    /// Whether what it gives out is to be thrown away.
    pub(super) fn is_discarding(&self) -> bool {
        self.is_discarding
    }
}

/// How much of a text goes next, if so much may: whole lines, unless they are long. None of it, if more may go soon and
/// until then a line would be cut.
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
        assert_eq!((passed, relay.is_empty()), (99_990, true));
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
