//! Decides where a frame ends in a buffer that may hold less or more than one.
//!
//! [`parse`] looks at the front of a buffer and copies nothing: a [`Frame`] borrows its payload from there.

use super::{FrameError, Header, Limits};

/// A whole frame, its payload still where it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    header: Header,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// What the header says.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// As many bytes as the header says.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// A frame from its two parts, for who has collected the payload elsewhere; `None` if they do not
    /// belong together, because the payload has another length than the header says.
    #[must_use]
    pub const fn from_parts(header: Header, payload: &'a [u8]) -> Option<Self> {
        if header.length() == payload.len() { Some(Self { header, payload }) } else { None }
    }
}

/// What the front of a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole frame.
    Frame {
        /// The frame.
        frame: Frame<'a>,
        /// Bytes it takes at the front of the buffer.
        consumed: usize,
    },
    /// Only the beginning of a frame.
    Incomplete {
        /// At least this many more bytes, never 0, have to come before another try can find more. Once the
        /// header is in, it is exactly what the frame lacks.
        missing: usize,
    },
}

/// Looks at the front of `input`.
///
/// The error stands as soon as the header is in, however much of the payload is: a caller who makes room
/// for [`missing`](Parsed::Incomplete) bytes never makes more than `limits` allow.
///
/// # Errors
/// The bytes at the front are not the header of a frame.
pub fn parse<'a>(input: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, FrameError> {
    let Some((head, rest)) = input.split_first_chunk::<{ Header::LEN }>() else {
        return Ok(Parsed::Incomplete { missing: Header::LEN - input.len() });
    };
    let header = Header::decode(head, limits)?;
    Ok(match rest.get(..header.length()) {
        Some(payload) => {
            Parsed::Frame { frame: Frame { header, payload }, consumed: Header::LEN + payload.len() }
        }
        None => Parsed::Incomplete { missing: header.length() - rest.len() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Flags, Kind};

    const DATA: &[u8] = &[3, 0, 0, 0, 5, 1, 2, 0, b'a', b'b', b'c', 99];

    #[test]
    fn a_frame_ends_where_its_header_says() {
        let Ok(Parsed::Frame { frame, consumed }) = parse(DATA, &Limits::AUTHENTICATED) else {
            panic!("a whole frame is there");
        };
        assert_eq!(consumed, 11);
        assert_eq!(frame.payload(), b"abc");
        assert_eq!(
            frame.header(),
            Header::new(Kind::Data, Flags::MORE, 2, 3, &Limits::AUTHENTICATED).unwrap()
        );
    }

    #[test]
    fn a_payload_is_not_copied() {
        let Ok(Parsed::Frame { frame, .. }) = parse(DATA, &Limits::AUTHENTICATED) else {
            panic!("a whole frame is there");
        };
        assert_eq!(frame.payload().as_ptr(), DATA[8..].as_ptr());
    }

    #[test]
    fn every_part_of_a_frame_tells_what_is_missing() {
        for have in 0..11 {
            let missing = if have < 8 { 8 - have } else { 11 - have };
            assert_eq!(parse(&DATA[..have], &Limits::AUTHENTICATED), Ok(Parsed::Incomplete { missing }));
        }
    }

    #[test]
    fn an_overlong_payload_is_refused_before_its_first_byte() {
        let head = [0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0];
        let refused = parse(&head, &Limits::UNAUTHENTICATED);
        assert_eq!(
            refused,
            Err(FrameError::TooLong { kind: Kind::Ticket, length: 0xffff_ffff, allowed: 4096 })
        );
    }

    #[test]
    fn a_payload_of_another_length_does_not_join_the_header() {
        let header = Header::new(Kind::Data, Flags::NONE, 0, 3, &Limits::AUTHENTICATED).unwrap();
        assert_eq!(Frame::from_parts(header, b"ab"), None);
        assert_eq!(Frame::from_parts(header, b"abc").unwrap().payload(), b"abc");
    }
}
