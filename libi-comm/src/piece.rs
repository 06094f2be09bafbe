//! Pieces of the data of collective calls. Each names its sender, its receiver, and its range
//! within the whole.
//!
//! A frame of a collective call has any number of pieces, and each can take another route. Passing
//! a piece on does not copy its bytes.

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};

/// The receiver of data that are for all members.
pub const ALL: u32 = u32::MAX;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The item that it is a piece of.
    pub item: Item,
    /// The offset in the item.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// The data that one member has for another, or for all. In a reduction: a value that represents
/// several members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Item {
    /// The rank of the sender. In a reduction: the index of the segment of the array, or, with a
    /// function of the program, the position of the first member that the value represents.
    pub from: u32,
    /// The rank of the receiver, or [`ALL`]. In a reduction: how many members the value represents.
    pub to: u32,
    /// The length of the item.
    pub total: u64,
}

#[derive(Serialize, Deserialize)]
struct PieceHead {
    item: Item,
    offset: u64,
    length: u64,
}

/// The longest encoded head of a piece.
pub(crate) const MAX_HEAD: usize = 5 + 5 + 10 + 10 + 10;

impl Piece {
    /// A whole item.
    #[must_use]
    pub const fn whole(from: u32, to: u32, bytes: Bytes) -> Self {
        Self { item: Item { from, to, total: bytes.len() as u64 }, offset: 0, bytes }
    }

    /// Whether this is the only piece of its item.
    pub(crate) fn is_only(&self) -> bool {
        self.offset == 0 && self.is_last()
    }

    /// Whether this is the last piece of its item.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.offset + self.bytes.len() as u64 == self.item.total
    }

    /// Splits off the first bytes, at most `most`.
    pub(crate) fn split_to(&mut self, most: usize) -> Self {
        let bytes = self.bytes.split_to(most.min(self.bytes.len()));
        let front = Self { item: self.item, offset: self.offset, bytes };
        self.offset += front.bytes.len() as u64;
        front
    }

    /// Appends the encoded head.
    pub(crate) fn encode_head(&self, out: &mut Vec<u8>) {
        let head = PieceHead { item: self.item, offset: self.offset, length: self.bytes.len() as u64 };
        // A head is no longer than this.
        let mut room = [0; MAX_HEAD];
        out.extend_from_slice(postcard::to_slice(&head, &mut room).unwrap_or_default());
    }

    /// Splits the next piece off a frame.
    pub(crate) fn decode(frame: &mut Bytes) -> Result<Self, InvalidPiece> {
        let (head, rest) = postcard::take_from_bytes::<PieceHead>(frame).map_err(|_| InvalidPiece)?;
        let length = usize::try_from(head.length).map_err(|_| InvalidPiece)?;
        let end = head.offset.checked_add(head.length).ok_or(InvalidPiece)?;
        if length > rest.len() || end > head.item.total {
            return Err(InvalidPiece);
        }
        frame.advance(frame.len() - rest.len());
        let bytes = frame.split_to(length);
        Ok(Self { item: head.item, offset: head.offset, bytes })
    }
}

/// The bytes are not a valid piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidPiece;

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(piece: &Piece) -> Vec<u8> {
        let mut all = Vec::new();
        piece.encode_head(&mut all);
        all.extend_from_slice(&piece.bytes);
        all
    }

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
        let mut frame = Bytes::from(pieces.iter().flat_map(encoded).collect::<Vec<u8>>());
        for piece in &pieces {
            assert!(encoded(piece).len() <= MAX_HEAD + piece.bytes.len());
            assert_eq!(Piece::decode(&mut frame).as_ref(), Ok(piece));
        }
        assert!(frame.is_empty() && pieces[2].is_last() && !pieces[1].is_last());
    }

    #[test]
    fn truncated_or_oversized_pieces_are_invalid() {
        let piece =
            Piece { item: Item { from: 1, to: 2, total: 5 }, offset: 2, bytes: Bytes::from_static(b"abc") };
        let whole = encoded(&piece);
        for length in 0..whole.len() {
            assert_eq!(Piece::decode(&mut Bytes::copy_from_slice(&whole[..length])), Err(InvalidPiece));
        }
        let beyond = Piece { offset: 3, ..piece };
        assert_eq!(Piece::decode(&mut encoded(&beyond).into()), Err(InvalidPiece));
    }
}
