//! A piece of output: what one rank, or several ranks at once, have printed.
//!
//! | frame | content |
//! |---|---|
//! | of one rank | rank (4 bytes), stream (1 or 2), text |
//! | of several | number of runs (4 bytes), stream (3 or 4), the runs, text |
//! | of one rank, with its place | rank (4 bytes), stream (5 or 6), place (8 bytes), text |
//!
//! A run of consecutive ranks is two numbers: how many ranks are left out since the run before, and
//! how many follow its first. Numbers have seven bits in each byte, the lowest first; the eighth bit
//! says that more follow.

use libi_core::ids::Rank;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

/// The most runs of ranks in one piece: more travel in several.
pub(super) const MAX_RUNS: usize = 1_024;
/// What each run but the first costs in memory and credit.
const RUN_COST: usize = 8;

/// The stream that a member has printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Output that these ranks have printed, each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutputPiece {
    pub(super) ranks: Ranks,
    pub(super) stream: Stream,
    pub(super) text: Vec<u8>,
    /// How many bytes the rank had printed to the stream before, where a piece may come twice.
    pub(super) at: Option<u64>,
}

impl OutputPiece {
    /// Output of one rank.
    pub(super) fn new(rank: Rank, stream: Stream, text: Vec<u8>) -> Self {
        Self { ranks: [rank].into_iter().collect(), stream, text, at: None }
    }

    /// What the ranks of the piece cost in memory and credit: nothing, if they are consecutive.
    pub(super) fn ranks_cost(&self) -> usize {
        self.ranks.runs().count().saturating_sub(1) * RUN_COST
    }

    /// Encodes the payload of a frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (mut runs, mut head) = (self.ranks.runs().peekable(), Vec::new());
        let stream = if self.stream == Stream::Out { 1 } else { 2 };
        match runs.next() {
            Some((first, last)) if first == last && runs.peek().is_none() => {
                head.extend(first.0.to_le_bytes());
                match self.at {
                    None => head.push(stream),
                    Some(at) => {
                        head.push(stream + 4);
                        head.extend(at.to_le_bytes());
                    }
                }
            }
            _ => {
                let count = self.ranks.runs().count() as u32; // at most MAX_RUNS
                head.extend(count.to_le_bytes());
                head.push(stream + 2);
                let mut next = 0;
                for (first, last) in self.ranks.runs() {
                    push_number(first.0 - next, &mut head);
                    push_number(last.0 - first.0, &mut head);
                    next = last.0.saturating_add(1);
                }
            }
        }
        head.extend(&self.text);
        head
    }

    /// Decodes the payload of a frame; `None` if it is malformed.
    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let (head, rest) = payload.split_first_chunk::<4>()?;
        let (&stream, mut rest) = rest.split_first()?;
        let number = u32::from_le_bytes(*head);
        let stream_of = |number| if number == 1 { Stream::Out } else { Stream::Err };
        match stream {
            1 | 2 => Some(Self::new(Rank(number), stream_of(stream), rest.to_vec())),
            5 | 6 => {
                let (at, rest) = rest.split_first_chunk::<8>()?;
                let piece = Self::new(Rank(number), stream_of(stream - 4), rest.to_vec());
                Some(Self { at: Some(u64::from_le_bytes(*at)), ..piece })
            }
            3 | 4 => {
                if number as usize > MAX_RUNS {
                    return None;
                }
                let (mut runs, mut next) = (Vec::new(), Some(0_u32));
                for _ in 0..number {
                    let first = next?.checked_add(take_number(&mut rest)?)?;
                    let last = first.checked_add(take_number(&mut rest)?)?;
                    runs.push((first, last));
                    next = last.checked_add(1);
                }
                let ranks = Ranks::try_from(runs).ok().filter(|ranks| !ranks.is_empty())?;
                Some(Self { ranks, stream: stream_of(stream - 2), text: rest.to_vec(), at: None })
            }
            _ => None,
        }
    }
}

fn push_number(mut number: u32, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn take_number(from: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u64;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(ranks: &[u32], text: &[u8]) -> OutputPiece {
        let ranks = ranks.iter().copied().map(Rank).collect();
        OutputPiece { ranks, stream: Stream::Err, text: text.to_vec(), at: None }
    }

    #[test]
    fn pieces_round_trip() {
        for ranks in [&[7][..], &[0, 1, 2], &[0, 127, 128, 300, 20_000, 2_000_000], &[u32::MAX - 1, u32::MAX]]
        {
            for text in [&b""[..], b"x", &[b'x'; 1_000]] {
                assert_eq!(OutputPiece::decode(&piece(ranks, text).encode()), Some(piece(ranks, text)));
            }
        }
    }

    #[test]
    fn a_piece_with_its_place_round_trips() {
        for stream in [Stream::Out, Stream::Err] {
            let placed = OutputPiece { stream, at: Some(1 << 40), ..piece(&[7], b"x") };
            assert_eq!(OutputPiece::decode(&placed.encode()), Some(placed));
        }
        assert_eq!(OutputPiece::decode(&[7, 0, 0, 0, 5, 1]), None);
    }

    #[test]
    fn ten_thousand_consecutive_ranks_cost_three_bytes_more_than_one() {
        let ranks: Vec<u32> = (0..10_000).collect();
        assert_eq!(piece(&ranks, b"").encode().len(), 8);
    }

    #[test]
    fn malformed_pieces_are_rejected() {
        let runs = |count: u32, bytes: &[u8]| [&count.to_le_bytes()[..], &[3], bytes].concat();
        for wrong in [
            &[][..],
            &[0, 0, 0, 0],
            &[0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 7, b'x'],
            &runs(0, b"text"),
            &runs(1, &[]),
            &runs(2, &[0, 0, 0, 0]),
            &runs(1, &[0xff, 0xff, 0xff, 0xff, 0x7f, 0]),
            &runs(1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0]),
            &runs(2, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 1, 0]),
            &runs(MAX_RUNS as u32 + 1, &[1; 4 * MAX_RUNS]),
        ] {
            assert_eq!(OutputPiece::decode(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_arrives_panics(payload in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(piece) = OutputPiece::decode(&payload) {
                prop_assert_eq!(OutputPiece::decode(&piece.encode()), Some(piece));
            }
        }
    }
}
