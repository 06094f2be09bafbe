//! Finds the frames in a stream that arrives in pieces of any size.
//!
//! The [`Decoder`] holds at most one incomplete header. Payload is returned as slices of the piece
//! it arrived in, so that a relay can pass a chunk on before the rest of it has arrived.

use super::{FrameError, Header, Limits};

/// The next part of a stream. A frame is one `Head`, its payload in any number of `Bytes`, and one
/// `End`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePart<'a> {
    /// A frame begins.
    Head(Header),
    /// The next bytes of its payload, at least one.
    Bytes(&'a [u8]),
    /// Its payload is complete.
    End,
}

/// Splits a stream into frames.
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: Limits,
    state: DecoderState,
}

#[derive(Clone, Debug)]
enum DecoderState {
    Head { bytes: [u8; Header::LEN], have: usize },
    Payload { left: usize },
    Refused(FrameError),
}

impl DecoderState {
    const BETWEEN: Self = Self::Head { bytes: [0; Header::LEN], have: 0 };
}

impl Decoder {
    /// A decoder at the start of a frame.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, state: DecoderState::BETWEEN }
    }

    /// Sets the limits, from the next header on.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether the stream may end here: not inside a frame, nor after an error.
    #[must_use]
    pub const fn is_between_frames(&self) -> bool {
        matches!(self.state, DecoderState::Head { have: 0, .. })
    }

    /// Takes the next part off the front of `input`; `None` when `input` is used up. Since an `End`
    /// needs no byte, `input` may be empty before the last part is out: call until `None`.
    ///
    /// # Errors
    /// The next bytes are not the header of a frame. Every later call returns the same error.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<FramePart<'a>>, FrameError> {
        match &mut self.state {
            DecoderState::Head { bytes, have } => {
                let piece = split_front(input, Header::LEN - *have);
                bytes[*have..*have + piece.len()].copy_from_slice(piece);
                *have += piece.len();
                if *have < Header::LEN {
                    return Ok(None);
                }
                match Header::decode(bytes, &self.limits) {
                    Ok(header) => {
                        self.state = DecoderState::Payload { left: header.length() };
                        Ok(Some(FramePart::Head(header)))
                    }
                    Err(error) => {
                        self.state = DecoderState::Refused(error);
                        Err(error)
                    }
                }
            }
            DecoderState::Payload { left: 0 } => {
                self.state = DecoderState::BETWEEN;
                Ok(Some(FramePart::End))
            }
            DecoderState::Payload { left } => {
                let piece = split_front(input, *left);
                *left -= piece.len();
                Ok((!piece.is_empty()).then_some(FramePart::Bytes(piece)))
            }
            DecoderState::Refused(error) => Err(*error),
        }
    }
}

/// Cuts up to `most` bytes off the front of `input`.
fn split_front<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    front
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Flags, Kind};
    use std::vec::Vec;

    fn events<'a>(decoder: &mut Decoder, mut input: &'a [u8]) -> Result<Vec<FramePart<'a>>, FrameError> {
        let mut events = Vec::new();
        while let Some(event) = decoder.step(&mut input)? {
            events.push(event);
        }
        assert!(input.is_empty());
        Ok(events)
    }

    fn header(kind: Kind, length: usize) -> Header {
        Header::new(kind, Flags::NONE, 0, length, &Limits::AUTHENTICATED).unwrap()
    }

    #[test]
    fn a_payload_is_handed_out_as_it_arrives() {
        let mut decoder = Decoder::new(Limits::AUTHENTICATED);
        let head = header(Kind::Data, 5);
        assert_eq!(events(&mut decoder, &head.encode()[..3]), Ok([].into()));
        assert_eq!(events(&mut decoder, &head.encode()[3..]), Ok([FramePart::Head(head)].into()));
        assert_eq!(events(&mut decoder, b"ab"), Ok([FramePart::Bytes(b"ab")].into()));
        assert!(!decoder.is_between_frames());
        assert_eq!(events(&mut decoder, b"cde"), Ok([FramePart::Bytes(b"cde"), FramePart::End].into()));
        assert!(decoder.is_between_frames());
    }

    #[test]
    fn an_empty_frame_ends_with_its_header() {
        let mut decoder = Decoder::new(Limits::AUTHENTICATED);
        let head = header(Kind::Heartbeat, 0);
        assert_eq!(events(&mut decoder, &head.encode()), Ok([FramePart::Head(head), FramePart::End].into()));
        assert!(decoder.is_between_frames());
    }

    #[test]
    fn an_error_is_given_ever_after() {
        let mut decoder = Decoder::new(Limits::AUTHENTICATED);
        let refused = Err(FrameError::UnknownKind { seen: 0 });
        assert_eq!(events(&mut decoder, &[0; 8]), refused);
        assert_eq!(events(&mut decoder, &header(Kind::Goodbye, 0).encode()), refused);
        assert!(!decoder.is_between_frames());
    }

    #[test]
    fn other_limits_hold_from_the_next_header_on() {
        let mut decoder = Decoder::new(Limits::UNAUTHENTICATED);
        let head = header(Kind::Data, 1);
        assert!(events(&mut decoder.clone(), &head.encode()).is_err());
        assert_eq!(events(&mut decoder, &head.encode()[..7]), Ok([].into()));
        decoder.set_limits(Limits::AUTHENTICATED);
        assert_eq!(events(&mut decoder, &head.encode()[7..]), Ok([FramePart::Head(head)].into()));
        decoder.set_limits(Limits::UNAUTHENTICATED);
        assert_eq!(events(&mut decoder, b"x"), Ok([FramePart::Bytes(b"x"), FramePart::End].into()));
    }
}
