//! Output that comes twice, or not at all, where a node on its way is lost and hosts
//! [find another parent](super::orphans).
//!
//! The host on which a member runs gives every piece its place: how many bytes the member had printed to
//! that stream before. Every host keeps the last [`KEPT`] bytes of all that it has passed on, which is more
//! than one lost node can have held of it and not passed on: a window of output from the host, and one that
//! was on its way from the lost node. It sends them again to another parent, and the front end drops
//! what it has.

use std::collections::{BTreeMap, VecDeque};

use libi_core::ids::Rank;

use super::output_piece::{OutputPiece, Stream};
use super::output_relay::WINDOW;

/// How many bytes of output a host keeps that it has passed on.
const KEPT: usize = 3 * WINDOW as usize;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct OutputOrder {
    /// How many bytes each rank of this host has printed; at the front end, how many have come.
    places: BTreeMap<(Rank, Stream), u64>,
    kept: VecDeque<OutputPiece>,
    bytes: usize,
}

impl OutputOrder {
    /// Output of a member of this host gets its place.
    pub(super) fn place(&mut self, piece: &mut OutputPiece) {
        if let Some(rank) = piece.ranks.lowest() {
            let place = self.places.entry((rank, piece.stream)).or_default();
            piece.at = Some(*place);
            *place += piece.text.len() as u64;
        }
    }

    /// A piece is passed on to the parent.
    pub(super) fn keep(&mut self, piece: &OutputPiece) {
        if piece.at.is_none() {
            return;
        }
        self.bytes += piece.text.len();
        self.kept.push_back(piece.clone());
        while let Some(first) = self.kept.front().filter(|first| self.bytes - first.text.len() >= KEPT) {
            self.bytes -= first.text.len();
            self.kept.pop_front();
        }
    }

    /// What may be lost.
    pub(super) fn take_kept(&mut self) -> Vec<OutputPiece> {
        self.bytes = 0;
        std::mem::take(&mut self.kept).into()
    }

    /// At the front end: takes away what has come before. Returns how many bytes that is.
    pub(super) fn drop_known(&mut self, piece: &mut OutputPiece) -> usize {
        let (Some(at), Some(rank)) = (piece.at, piece.ranks.lowest()) else { return 0 };
        let known = self.places.entry((rank, piece.stream)).or_default();
        let twice = usize::try_from(known.saturating_sub(at)).unwrap_or(usize::MAX).min(piece.text.len());
        piece.text.drain(..twice);
        *known = (at + (twice + piece.text.len()) as u64).max(*known);
        twice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(rank: u32, text: &str) -> OutputPiece {
        OutputPiece::new(Rank(rank), Stream::Out, text.into())
    }

    #[test]
    fn what_comes_twice_is_dropped_and_nothing_else() {
        let (mut host, mut front) = (OutputOrder::default(), OutputOrder::default());
        let mut texts = Vec::new();
        for text in ["one ", "two ", "three"] {
            let mut piece = piece(3, text);
            host.place(&mut piece);
            host.keep(&piece);
            if text != "three" {
                texts.push((front.drop_known(&mut piece), piece.text));
            }
        }
        let mut cut = host.take_kept();
        assert_eq!((cut.len(), host.take_kept().len()), (3, 0));
        // Pieces are divided otherwise on another way.
        let rest = cut[1].text.split_off(1);
        cut[2] = OutputPiece { text: [&rest[..], &cut[2].text].concat(), at: Some(5), ..cut[2].clone() };
        texts.extend(cut.into_iter().map(|mut piece| (front.drop_known(&mut piece), piece.text)));
        let expected: [(usize, &[u8]); 5] = [(0, b"one "), (0, b"two "), (4, b""), (1, b""), (3, b"three")];
        assert_eq!(texts, expected.map(|(twice, text)| (twice, text.to_vec())));
        let mut other = piece(3, "of the front end");
        assert_eq!((front.drop_known(&mut other), other.text.len()), (0, 16), "it has no place");
    }

    #[test]
    fn a_host_keeps_as_much_as_a_lost_node_can_have_held() {
        let mut host = OutputOrder::default();
        for _ in 0..100 {
            let mut piece = piece(0, &"x".repeat(10_000));
            host.place(&mut piece);
            host.keep(&piece);
        }
        let kept: usize = host.take_kept().iter().map(|piece| piece.text.len()).sum();
        assert!((KEPT..KEPT + 10_000).contains(&kept), "{kept}");
    }
}
