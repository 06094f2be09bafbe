//! What this process receives in one collective call, until it is complete.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::error::CommError;
use crate::memory::{Region, SealedRegion};
use crate::piece::{Item, Piece};

/// An item that arrives in consecutive pieces.
#[derive(Debug)]
pub(crate) struct ItemAssembly {
    item: Item,
    bytes: Vec<u8>,
}

/// An item that is assembled in shared memory.
#[derive(Debug)]
pub(crate) struct RegionAssembly {
    region: Box<dyn Region>,
    item: Item,
    filled: u64,
}

impl RegionAssembly {
    pub(crate) fn new(region: Box<dyn Region>, item: Item) -> Self {
        Self { region, item, filled: 0 }
    }

    /// Appends the next piece. True if it was the last.
    pub(crate) fn push(&mut self, piece: &Piece) -> Result<bool, CommError> {
        if piece.item != self.item || piece.offset != self.filled {
            return Err(CommError::Protocol("a piece that does not continue its item"));
        }
        if !self.region.append(&piece.bytes) {
            return Err(CommError::OutOfMemory(self.item.total));
        }
        self.filled += piece.bytes.len() as u64;
        Ok(piece.is_last())
    }

    pub(crate) fn seal(self) -> Result<SealedRegion, CommError> {
        let length = self.item.total;
        self.region.seal().ok_or(CommError::OutOfMemory(length))
    }
}

impl ItemAssembly {
    fn begin(item: Item) -> Result<Self, CommError> {
        let mut bytes = Vec::new();
        let total = usize::try_from(item.total).map_err(|_| CommError::OutOfMemory(item.total))?;
        bytes.try_reserve_exact(total).map_err(|_| CommError::OutOfMemory(item.total))?;
        Ok(Self { item, bytes })
    }

    /// Appends the next piece. Returns the item if it is complete. An item in one piece is not
    /// copied.
    pub(crate) fn push(open: &mut Option<Self>, piece: Piece) -> Result<Option<(Item, Bytes)>, CommError> {
        if piece.is_only() && open.is_none() {
            return Ok(Some((piece.item, piece.bytes)));
        }
        let assembly = match open {
            Some(assembly) => assembly,
            None => open.insert(Self::begin(piece.item)?),
        };
        if piece.item != assembly.item || piece.offset != assembly.bytes.len() as u64 {
            return Err(CommError::Protocol("a piece that does not continue its item"));
        }
        assembly.bytes.extend_from_slice(&piece.bytes);
        if !piece.is_last() {
            return Ok(None);
        }
        Ok(open.take().map(|assembly| (assembly.item, assembly.bytes.into())))
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct ReceivedItems {
    /// How many items are still to arrive; in reductions, the number of members that missing values
    /// represent.
    remaining: u64,
    /// Incomplete items by their senders.
    open: BTreeMap<u32, Option<ItemAssembly>>,
    /// Complete items and their senders, values and their positions; in order once none is missing.
    whole: Vec<(u32, Bytes)>,
}

impl ReceivedItems {
    pub(crate) fn new(awaited: u64) -> Self {
        Self { remaining: awaited, ..Self::default() }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.remaining == 0
    }

    /// Takes a piece for this process.
    pub(crate) fn push(&mut self, piece: Piece) -> Result<(), CommError> {
        let from = piece.item.from;
        if self.open.is_empty() && piece.is_only() {
            return self.take(from, 1, piece.bytes);
        }
        let open = self.open.entry(from).or_default();
        if let Some((_, bytes)) = ItemAssembly::push(open, piece)? {
            self.open.remove(&from);
            self.take(from, 1, bytes)?;
        }
        Ok(())
    }

    /// Takes a complete item, or a value that represents `weight` members.
    pub(crate) fn take(&mut self, from: u32, weight: u64, bytes: Bytes) -> Result<(), CommError> {
        if weight == 0 {
            return Err(CommError::Protocol("a value of no member"));
        }
        let remaining =
            self.remaining.checked_sub(weight).ok_or(CommError::Protocol("more items than members"))?;
        self.remaining = remaining;
        self.whole.push((from, bytes));
        if remaining == 0 && self.whole.len() > 1 {
            self.whole.sort_unstable_by_key(|(from, _)| *from);
            if self.whole.windows(2).any(|two| two[0].0 == two[1].0) {
                return Err(CommError::Protocol("a duplicate item"));
            }
        }
        Ok(())
    }

    /// All complete items by their senders, or values by their position, in order.
    pub(crate) fn take_all(&mut self) -> Vec<(u32, Bytes)> {
        std::mem::take(&mut self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from: u32, total: u64, offset: u64, bytes: &'static [u8]) -> Piece {
        Piece { item: Item { from, to: 0, total }, offset, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn items_are_assembled_from_interleaved_pieces() {
        let mut received = ReceivedItems::new(3);
        for piece in
            [piece(2, 4, 0, b"ab"), piece(0, 2, 0, b"xy"), piece(1, 0, 0, b""), piece(2, 4, 2, b"cd")]
        {
            assert!(!received.is_complete());
            received.push(piece).unwrap();
        }
        assert!(received.is_complete());
        let parts = received.take_all().into_iter();
        let parts: Vec<_> =
            parts.map(|(from, bytes)| (from, String::from_utf8(bytes.into()).unwrap())).collect();
        assert_eq!(parts, [(0, "xy".to_owned()), (1, String::new()), (2, "abcd".to_owned())]);
    }

    #[test]
    fn invalid_pieces_are_refused() {
        let mut received = ReceivedItems::new(2);
        received.push(piece(2, 4, 0, b"ab")).unwrap();
        assert!(received.push(piece(2, 4, 3, b"d")).is_err(), "a gap");
        assert!(received.push(piece(2, 5, 2, b"c")).is_err(), "another length");
        assert!(matches!(received.push(piece(7, u64::MAX, 0, b"z")), Err(CommError::OutOfMemory(_))));
        let mut received = ReceivedItems::new(2);
        received.push(piece(1, 1, 0, b"z")).unwrap();
        assert!(received.push(piece(1, 1, 0, b"z")).is_err(), "twice");
        assert!(received.push(piece(3, 1, 0, b"z")).is_err(), "one too many");
        assert!(received.take(4, 0, Bytes::new()).is_err(), "of no member");
    }
}
