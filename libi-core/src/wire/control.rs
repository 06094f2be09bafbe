//! Encodes messages into frames and decodes them.
//!
//! Messages are serde types in postcard's encoding, and only [`Content::Message`] frames carry
//! them; raw bytes never pass through here. Both directions are bounded by the bytes that are
//! really there: a claimed element count reserves nothing, and an encoder stops at the limit.
//!
//! Two kinds of types do not belong in a message, because a few bytes could make them arbitrarily
//! costly: a list of zero-sized elements (a `Vec<()>` of any length is five bytes), and a recursive
//! type (its depth becomes the reader's). A third kind, whose few bytes stand for many hosts (a
//! [`HostList`](crate::hosts::HostList) is folded, up to its own bounds), belongs only in messages
//! of an authenticated peer, and not in a list there.

use alloc::vec::Vec;

use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Content, Flags, Frame, FrameError, Header, Kind, Limits};

/// Appends a whole frame with `message` in it to `out`. On an error `out` is as it was.
///
/// # Errors
/// `kind` does not carry a message or has no channels; `message` is longer than `limits` allow,
/// which have to be the reader's; or its serialisation fails.
pub fn encode_control<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    kind: Kind,
    channel: u16,
    message: &T,
    limits: &Limits,
) -> Result<(), EncodeError> {
    if kind.content() != Content::Message {
        return Err(EncodeError::NoMessage { kind });
    }
    let start = out.len();
    let written = append(out, kind, channel, message, limits);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// The message in a frame. It may borrow from the payload.
///
/// # Errors
/// The frame's kind does not carry a message, or the payload is not exactly one message of this
/// type.
pub fn decode_control<'a, T: Deserialize<'a>>(frame: &Frame<'a>) -> Result<T, DecodeError> {
    let kind = frame.header().kind();
    if kind.content() != Content::Message {
        return Err(DecodeError::NoMessage { kind });
    }
    let (message, rest) = postcard::take_from_bytes(frame.payload())
        .map_err(|source| DecodeError::Malformed { kind, source })?;
    if rest.is_empty() { Ok(message) } else { Err(DecodeError::Trailing { kind, count: rest.len() }) }
}

/// Why a message could not be encoded. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Frames of this kind do not carry messages.
    #[error("a {kind} frame carries no message")]
    NoMessage {
        /// The requested kind.
        kind: Kind,
    },
    /// The message is too long for the reader. Its length is unknown, because encoding stopped at
    /// the limit.
    #[error("{kind} message of more than {allowed} bytes, the most that the reader accepts")]
    TooLong {
        /// What the message is.
        kind: Kind,
        /// The limit in bytes.
        allowed: usize,
    },
    /// The header would break the rules of its kind.
    #[error(transparent)]
    Header(#[from] FrameError),
    /// The type's serialisation failed.
    #[error("{kind} message cannot be serialised")]
    Refused {
        /// What the message is.
        kind: Kind,
        /// The error of the serialisation.
        source: postcard::Error,
    },
}

/// Why a frame is not the awaited message. The peer is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Frames of this kind do not carry messages.
    #[error("a {kind} frame carries no message")]
    NoMessage {
        /// What the frame is.
        kind: Kind,
    },
    /// The payload is not a message of the awaited type.
    #[error("malformed {kind} message")]
    Malformed {
        /// What the frame is.
        kind: Kind,
        /// The error of the deserialisation.
        source: postcard::Error,
    },
    /// There are bytes behind the message.
    #[error("{count} bytes too many after a {kind} message")]
    Trailing {
        /// What the frame is.
        kind: Kind,
        /// Bytes after the message.
        count: usize,
    },
}

fn append<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    kind: Kind,
    channel: u16,
    message: &T,
    limits: &Limits,
) -> Result<(), EncodeError> {
    let start = out.len();
    // Checks kind and channel before the message is encoded; the length is filled in afterwards.
    out.extend_from_slice(&Header::new(kind, Flags::NONE, channel, 0, limits)?.encode());
    let body = out.len();
    let allowed = limits.max_payload(kind);
    postcard::serialize_with_flavor(message, Bounded { out: &mut *out, room: allowed }).map_err(
        |source| match source {
            postcard::Error::SerializeBufferFull => EncodeError::TooLong { kind, allowed },
            source => EncodeError::Refused { kind, source },
        },
    )?;
    let header = Header::new(kind, Flags::NONE, channel, out.len() - body, limits)?;
    out[start..body].copy_from_slice(&header.encode());
    Ok(())
}

/// Appends to a vector, but no more than `room` bytes.
struct Bounded<'a> {
    out: &'a mut Vec<u8>,
    room: usize,
}

impl Flavor for Bounded<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let left = self.room.checked_sub(bytes.len());
        self.room = left.ok_or(postcard::Error::SerializeBufferFull)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Parsed, parse};
    use core::fmt;
    use proptest::prelude::*;
    use serde::de::{Deserializer, SeqAccess, Visitor};
    use std::collections::BTreeMap;
    use std::error::Error as _;
    use std::string::{String, ToString};
    use std::vec;

    const LIMITS: Limits = Limits { payload: 0, control: 16 };

    fn control(payload: &[u8]) -> Frame<'_> {
        let header =
            Header::new(Kind::Control, Flags::NONE, 0, payload.len(), &Limits::AUTHENTICATED).unwrap();
        Frame::from_parts(header, payload).unwrap()
    }

    #[test]
    fn a_message_may_borrow_from_the_frame() {
        let mut out = vec![];
        encode_control(&mut out, Kind::Hello, 0, &(7u8, "node17"), &LIMITS).unwrap();
        let Ok(Parsed::Frame { frame, consumed }) = parse(&out, &LIMITS) else {
            panic!("a whole frame was written");
        };
        assert_eq!(consumed, out.len());
        let (number, name): (u8, &str) = decode_control(&frame).unwrap();
        assert_eq!((number, name), (7, "node17"));
        assert!(out.as_ptr_range().contains(&name.as_ptr()));
    }

    #[test]
    fn a_message_up_to_the_limit_is_written_and_one_byte_more_leaves_no_trace() {
        let mut out = b"before".to_vec();
        encode_control(&mut out, Kind::Control, 3, &[0u8; 16], &LIMITS).unwrap();
        assert_eq!(out.len(), 6 + 8 + 16);
        let before = out.clone();
        let refused = encode_control(&mut out, Kind::Control, 3, &[0u8; 17], &LIMITS);
        assert_eq!(refused, Err(EncodeError::TooLong { kind: Kind::Control, allowed: 16 }));
        assert_eq!(out, before);
    }

    #[test]
    fn a_long_message_is_given_up_at_the_limit() {
        let mut out = vec![];
        assert!(encode_control(&mut out, Kind::Control, 0, &vec![0u8; 1 << 20], &LIMITS).is_err());
        assert!(out.capacity() < 64, "{} bytes were written before giving up", out.capacity());
    }

    #[test]
    fn a_kind_without_message_neither_takes_nor_gives_one() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.content() != Content::Message) {
            let mut out = vec![];
            let refused = encode_control(&mut out, kind, 0, &(), &LIMITS);
            assert_eq!(refused, Err(EncodeError::NoMessage { kind }));
            let header = Header::new(kind, Flags::NONE, 0, 0, &LIMITS).unwrap();
            let frame = Frame::from_parts(header, &[]).unwrap();
            assert_eq!(decode_control::<()>(&frame), Err(DecodeError::NoMessage { kind }));
        }
    }

    #[test]
    fn a_hello_on_a_channel_is_not_written() {
        let refused = encode_control(&mut vec![], Kind::Hello, 1, &(), &LIMITS);
        assert_eq!(refused, Err(FrameError::Channel { kind: Kind::Hello, seen: 1 }.into()));
    }

    #[test]
    fn bytes_after_the_message_are_counted_and_refused() {
        let refused = decode_control::<u8>(&control(&[1, 2, 3]));
        assert_eq!(refused, Err(DecodeError::Trailing { kind: Kind::Control, count: 2 }));
        assert_eq!(refused.unwrap_err().to_string(), "2 bytes too many after a control message");
    }

    #[test]
    fn a_malformed_message_keeps_its_cause() {
        let refused = decode_control::<bool>(&control(&[2])).unwrap_err();
        assert_eq!(refused.to_string(), "malformed control message");
        assert!(refused.source().is_some());
    }

    /// The size hint that a visitor of a list gets, which it would reserve.
    #[derive(Debug, PartialEq)]
    struct Expected(Option<usize>);

    impl<'de> Deserialize<'de> for Expected {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Look;
            impl<'de> Visitor<'de> for Look {
                type Value = Expected;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a list")
                }
                fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Expected, A::Error> {
                    Ok(Expected(list.size_hint()))
                }
            }
            deserializer.deserialize_seq(Look)
        }
    }

    const FOUR_BILLION: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x0f];

    #[test]
    fn a_claim_of_four_billion_elements_reserves_nothing() {
        assert_eq!(decode_control(&control(&FOUR_BILLION)), Ok(Expected(None)));
    }

    #[test]
    fn a_claim_of_four_billion_elements_fails_where_the_bytes_end() {
        fn refuse<'a, T: Deserialize<'a> + fmt::Debug>(frame: &Frame<'a>) {
            let refused = decode_control::<T>(frame).unwrap_err();
            assert!(matches!(refused, DecodeError::Malformed { .. }), "{refused}");
        }
        let payload = [&FOUR_BILLION[..], &[0; 3]].concat();
        let frame = control(&payload);
        refuse::<Vec<u64>>(&frame);
        refuse::<Vec<[u64; 32]>>(&frame);
        refuse::<Vec<Vec<u64>>>(&frame);
        refuse::<BTreeMap<u32, String>>(&frame);
        refuse::<String>(&frame);
        refuse::<&str>(&frame);
    }

    proptest! {
        #[test]
        fn a_message_survives_its_frame(
            message: (u64, i32, Option<String>, Vec<(u16, bool)>, BTreeMap<u8, char>),
            channel: u16,
        ) {
            let mut out = vec![];
            encode_control(&mut out, Kind::Control, channel, &message, &Limits::AUTHENTICATED).unwrap();
            let Ok(Parsed::Frame { frame, .. }) = parse(&out, &Limits::AUTHENTICATED) else {
                panic!("a whole frame was written");
            };
            prop_assert_eq!(frame.header().channel(), channel);
            prop_assert_eq!(decode_control(&frame), Ok(message));
        }

        #[test]
        fn no_bytes_make_decoding_panic(payload: Vec<u8>) {
            let _ = decode_control::<(Vec<Vec<&str>>, Option<i64>)>(&control(&payload));
            let _ = decode_control::<BTreeMap<String, Vec<u128>>>(&control(&payload));
        }
    }
}
