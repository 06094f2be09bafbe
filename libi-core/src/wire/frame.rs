//! Parses a frame at the front of a buffer that may hold less or more than one.
//!
//! [`parse`] looks at the front of a buffer and copies nothing: a [`Frame`] borrows its payload
//! from there.

use alloc::vec::Vec;

use super::{Flags, FrameError, Header, Kind, Limits};

/// A whole frame, its payload still where it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    header: Header,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The header.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The payload, whose length the header gives.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// A frame from its two parts, for callers that collect the payload elsewhere; `None` if the
    /// payload does not have the length in the header.
    #[must_use]
    pub const fn from_parts(header: Header, payload: &'a [u8]) -> Option<Self> {
        if header.length() == payload.len() { Some(Self { header, payload }) } else { None }
    }
}

/// The result of parsing the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole frame.
    Frame {
        /// The frame.
        frame: Frame<'a>,
        /// The bytes it occupies at the front of the buffer.
        consumed: usize,
    },
    /// Only the beginning of a frame.
    Incomplete {
        /// At least this many more bytes, never 0, are needed before another try can make progress.
        /// Once the header is complete, it is exactly the number of missing bytes.
        missing: usize,
    },
}

/// Parses the frame at the front of `input`.
///
/// An error is reported as soon as the header is complete, however much of the payload is there: a
/// caller that reserves [`missing`](Parsed::Incomplete) bytes never reserves more than `limits`
/// allow.
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

/// A whole frame of raw bytes, or of none, on the channel of the link itself.
///
/// # Errors
/// Frames of this kind have no payload, or not one as long as this.
pub fn encode_bytes(kind: Kind, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    let header = Header::new(kind, Flags::NONE, 0, payload.len(), &Limits::AUTHENTICATED)?;
    Ok([&header.encode()[..], payload].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn raw_bytes_are_written_as_they_are_read_and_only_where_their_kind_has_any() {
        let stdio = encode_bytes(Kind::Stdio, b"text").unwrap();
        let Ok(Parsed::Frame { frame, consumed }) = parse(&stdio, &Limits::AUTHENTICATED) else {
            panic!("a whole frame is there");
        };
        assert_eq!((frame.header().kind(), frame.payload(), consumed), (Kind::Stdio, &b"text"[..], 12));
        assert_eq!(encode_bytes(Kind::Goodbye, b"").unwrap().len(), Header::LEN);
        assert!(encode_bytes(Kind::Heartbeat, b"x").is_err());
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
