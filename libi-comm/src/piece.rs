//! Pieces of what members send one another: who has sent it, to whom, and which bytes of the whole these are.
//!
//! A frame of a collective operation carries any number of them, one behind the other; each can go another way. None is
//! copied when it is passed on.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// In place of a receiver: everybody.
pub const ALL: u32 = u32::MAX;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is a piece of.
    pub item: Item,
    /// Where it begins there.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// Something that one member has for another, or for all; of a reduction, a value that stands for several members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Item {
    /// The sender's rank; of a reduction, where in the order of members the value begins, or which segment of it this is.
    pub from: u32,
    /// The receiver's rank, or [`ALL`]; of a reduction, for how many members the value stands.
    pub to: u32,
    /// How long the whole is.
    pub total: u64,
}

#[derive(Serialize, Deserialize)]
struct PieceHead {
    item: Item,
    offset: u64,
    length: u64,
}

/// The longest head of a piece.
pub(crate) const MAX_HEAD: usize = 5 + 5 + 10 + 10 + 10;

impl Piece {
    /// A whole item.
    #[must_use]
    pub const fn whole(from: u32, to: u32, bytes: Bytes) -> Self {
        Self { item: Item { from, to, total: bytes.len() as u64 }, offset: 0, bytes }
    }

    /// Whether it is the end of its item.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.offset + self.bytes.len() as u64 == self.item.total
    }

    /// Takes its first bytes off, so many at most.
    pub(crate) fn split_to(&mut self, most: usize) -> Self {
        let bytes = self.bytes.split_to(most.min(self.bytes.len()));
        let front = Self { item: self.item, offset: self.offset, bytes };
        self.offset += front.bytes.len() as u64;
        front
    }

    /// Its head, as it travels.
    pub(crate) fn head(&self) -> Bytes {
        let head = PieceHead { item: self.item, offset: self.offset, length: self.bytes.len() as u64 };
        // Numbers can always be written.
        postcard::to_allocvec(&head).unwrap_or_default().into()
    }

    /// Takes the next piece off a frame; an error if it is none.
    pub(crate) fn decode(frame: &mut Bytes) -> Result<Self, InvalidPiece> {
        let (head, rest) = postcard::take_from_bytes::<PieceHead>(frame).map_err(|_| InvalidPiece)?;
        let mut behind = frame.slice_ref(rest);
        let length = usize::try_from(head.length).map_err(|_| InvalidPiece)?;
        let end = head.offset.checked_add(head.length).ok_or(InvalidPiece)?;
        if length > behind.len() || end > head.item.total {
            return Err(InvalidPiece);
        }
        let bytes = behind.split_to(length);
        *frame = behind;
        Ok(Self { item: head.item, offset: head.offset, bytes })
    }
}

/// Bytes that are no piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidPiece;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_survive_their_frame_in_any_number_and_size() {
        let long = Bytes::from(vec![7; 1000]);
        let mut rest = Piece::whole(3, ALL, long);
        let pieces = [
            Piece::whole(0, 1, Bytes::new()),
            rest.split_to(10),
            rest.clone(),
            Piece::whole(u32::MAX - 1, 2, Bytes::from_static(b"x")),
        ];
        let frame: Vec<u8> =
            pieces.iter().flat_map(|piece| [piece.head(), piece.bytes.clone()]).flatten().collect();
        let mut frame = Bytes::from(frame);
        for piece in &pieces {
            assert!(piece.head().len() <= MAX_HEAD);
            assert_eq!(Piece::decode(&mut frame).as_ref(), Ok(piece));
        }
        assert!(frame.is_empty() && pieces[2].is_last() && !pieces[1].is_last());
    }

    #[test]
    fn what_is_cut_or_says_more_than_it_has_is_no_piece() {
        let piece =
            Piece { item: Item { from: 1, to: 2, total: 5 }, offset: 2, bytes: Bytes::from_static(b"abc") };
        let whole = [piece.head(), piece.bytes.clone()].concat();
        for length in 0..whole.len() {
            assert_eq!(Piece::decode(&mut Bytes::copy_from_slice(&whole[..length])), Err(InvalidPiece));
        }
        let beyond = Piece { offset: 3, ..piece };
        assert_eq!(
            Piece::decode(&mut [beyond.head(), beyond.bytes.clone()].concat().into()),
            Err(InvalidPiece)
        );
    }
}
