//! Puts the frame of a message together: its head, and the payload.
//!
//! Small parts are copied together, so that a small message is one buffer, and no frame has
//! thousands of parts. Large ones are not copied.

use bytes::Bytes;

use super::Message;
use crate::contract::Frame;
use crate::piece::Piece;

/// Up to this length a part is copied.
const SMALL: usize = 2 << 10;
/// Most heads are shorter.
const HEAD: usize = 64;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct FrameBuilder {
    /// The payload before `small`.
    parts: Vec<Bytes>,
    small: Vec<u8>,
}

impl FrameBuilder {
    /// Whether there is no payload.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.small.is_empty()
    }

    /// Adds a piece of an item, with its head.
    pub(crate) fn push_piece(&mut self, piece: Piece) {
        if self.small.capacity() == 0 {
            let copied = if piece.bytes.len() <= SMALL { piece.bytes.len() } else { 0 };
            self.small.reserve_exact(HEAD + copied);
        }
        piece.encode_head(&mut self.small);
        self.push(piece.bytes);
    }

    /// Adds a part of the payload.
    pub(crate) fn push(&mut self, part: Bytes) {
        if part.len() <= SMALL {
            return self.small.extend_from_slice(&part);
        }
        if !self.small.is_empty() {
            self.parts.push(std::mem::take(&mut self.small).into());
        }
        self.parts.push(part);
    }

    /// The frame of this message with this payload.
    pub(crate) fn frame_of(self, message: &Message) -> Frame {
        let mut room = [0; HEAD];
        match postcard::to_slice(message, &mut room) {
            Ok(head) => self.behind(head),
            // Serializing a message into a vector cannot fail.
            Err(_) => self.behind(&postcard::to_allocvec(message).unwrap_or_default()),
        }
    }

    fn behind(mut self, head: &[u8]) -> Frame {
        if self.parts.is_empty() && self.small.len() <= SMALL {
            return Frame(vec![[head, &self.small].concat().into()]);
        }
        if !self.small.is_empty() {
            self.parts.push(self.small.into());
        }
        match self.parts.first_mut() {
            Some(first) if first.len() <= SMALL => *first = [head, first].concat().into(),
            _ => self.parts.insert(0, Bytes::copy_from_slice(head)),
        }
        Frame(self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::ALL;

    #[test]
    fn small_parts_are_copied_together_and_large_ones_are_not_copied() {
        let small = Bytes::from_static(b"small");
        let large = Bytes::from(vec![7; SMALL + 1]);
        let message = Message::Confirm { number: 3 };
        let head = postcard::to_allocvec(&message).unwrap();
        for (payload, parts) in [
            (vec![], 1),
            (vec![&small], 1),
            (vec![&small, &small, &large], 2),
            (vec![&large, &small, &small], 3),
            (vec![&large, &large], 3),
            (vec![&small, &large, &small, &large, &small], 5),
        ] {
            let mut builder = FrameBuilder::default();
            payload.iter().for_each(|part| builder.push((*part).clone()));
            assert_eq!(builder.is_empty(), payload.is_empty());
            let frame = builder.frame_of(&message);
            let all: Vec<u8> =
                head.iter().copied().chain(payload.iter().flat_map(|part| part.iter().copied())).collect();
            assert_eq!((frame.0.len(), frame.concat()), (parts, all.into()), "{payload:?}");
            let is_shared = |part: &&Bytes| part.as_ptr() == large.as_ptr();
            let larges = payload.iter().filter(|part| part.len() > SMALL).count();
            assert_eq!(frame.0.iter().filter(is_shared).count(), larges);
        }
    }

    #[test]
    fn pieces_have_their_heads_and_many_small_ones_are_one_buffer() {
        let mut builder = FrameBuilder::default();
        (0..1_000).for_each(|from| builder.push_piece(Piece::whole(from, ALL, Bytes::from_static(b"data"))));
        let frame = builder.frame_of(&Message::Over { before: 1 });
        assert_eq!(frame.0.len(), 2, "the pieces together are large");
        let (message, mut payload) = Message::decode(frame.concat()).unwrap();
        assert_eq!(message, Message::Over { before: 1 });
        for from in 0..1_000 {
            assert_eq!(Piece::decode(&mut payload), Ok(Piece::whole(from, ALL, Bytes::from_static(b"data"))));
        }
        assert!(payload.is_empty());
    }

    #[test]
    fn a_long_head_is_encoded_as_well() {
        let ranks = (0..100).map(|nth| libi_core::ids::Rank(2 * nth)).collect();
        let message = Message::Lost { ranks, before: 9, reason: None, joined: Vec::new() };
        let frame = FrameBuilder::default().frame_of(&message);
        assert_eq!(Message::decode(frame.concat()).map(|(message, _)| message), Some(message));
    }
}
