//! Splits the bytes of a link into foreign text, the preamble, and frames.
//!
//! Bytes are copied into the frame that they belong to. The missing part of a long data frame can
//! be read straight into its [buffer](FrameReader::receive_buffer).

use alloc::vec::Vec;

use thiserror::Error;
use zeroize::Zeroize;

use super::{
    Decoder, FrameError, FramePart, Header, Kind, Limits, PROTOCOL, PreambleScanner, Version, VersionMismatch,
};

/// How much of a frame has to be missing for a read of its own.
const LONG: usize = 16 << 10;

/// An item found on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkItem {
    /// Foreign bytes: a banner, or output of the program before it joined.
    Text(Vec<u8>),
    /// The preamble, with the last foreign text before it. The peer speaks the protocol from here
    /// on.
    Preamble(Vec<u8>, Version),
    /// A complete frame.
    Frame(Header, Vec<u8>),
}

/// Why a link cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The peer speaks other versions of the protocol.
    #[error(transparent)]
    Version(#[from] VersionMismatch),
    /// The next bytes are not the header of a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reads a stream of frames and what precedes it.
#[derive(Debug, Default)]
pub struct FrameReader(State);

#[derive(Debug)]
enum State {
    /// Before the preamble.
    Scanning(PreambleScanner),
    /// After the preamble, with the incomplete frame, if there is one.
    Framed { decoder: Decoder, partial: Option<PartialFrame> },
}

/// An incomplete frame.
#[derive(Debug)]
struct PartialFrame {
    header: Header,
    payload: Vec<u8>,
    /// The length of the payload that the decoder has seen; the rest was received in place.
    decoded: usize,
}

impl Default for State {
    fn default() -> Self {
        Self::Scanning(PreambleScanner::new())
    }
}

impl FrameReader {
    /// A reader at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the limits of frame sizes, once the peer is authenticated.
    pub fn trust(&mut self, limits: Limits) {
        if let State::Framed { decoder, .. } = &mut self.0 {
            decoder.set_limits(limits);
        }
    }

    /// Takes the next item off the front of `bytes`; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The peer speaks other versions, or the next bytes are no frame. The link has to end.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<LinkItem>, ReadError> {
        match &mut self.0 {
            State::Scanning(scanner) => {
                if bytes.is_empty() {
                    return Ok(None);
                }
                let scan = scanner.scan(bytes);
                let text = [&scan.held[..], scan.foreign].concat();
                let Some(found) = scan.found else {
                    *bytes = &[];
                    return Ok((!text.is_empty()).then_some(LinkItem::Text(text)));
                };
                *bytes = found.rest;
                let version = PROTOCOL.agree(found.preamble.versions)?;
                self.0 = State::Framed { decoder: Decoder::new(Limits::UNAUTHENTICATED), partial: None };
                Ok(Some(LinkItem::Preamble(text, version)))
            }
            State::Framed { decoder, partial } => {
                if let Some(partial) = partial
                    && partial.payload.len() > partial.decoded
                {
                    let mut received = &partial.payload[partial.decoded..];
                    decoder.step(&mut received)?;
                    partial.decoded = partial.payload.len() - received.len();
                    partial.payload.truncate(partial.decoded);
                }
                while let Some(event) = decoder.step(bytes)? {
                    match (event, partial.as_mut()) {
                        // Memory is allocated as the payload arrives, not as its header claims.
                        (FramePart::Head(header), _) => {
                            *partial = Some(PartialFrame { header, payload: Vec::new(), decoded: 0 });
                        }
                        (FramePart::Bytes(more), Some(partial)) => partial.append(more),
                        (FramePart::Bytes(_), None) => {}
                        (FramePart::End, _) => {
                            if let Some(PartialFrame { header, payload, .. }) = partial.take() {
                                return Ok(Some(LinkItem::Frame(header, payload)));
                            }
                        }
                    }
                }
                Ok(None)
            }
        }
    }

    /// The payload of a long data frame, to which the owner can append the missing bytes, and their
    /// number. The next call of [`next`](Self::next) notices the appended bytes.
    pub fn receive_buffer(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let State::Framed { partial: Some(PartialFrame { header, payload, decoded }), .. } = &mut self.0
        else {
            return None;
        };
        let missing = header.length().saturating_sub(*decoded);
        if header.kind() != Kind::Data || missing < LONG || payload.len() > *decoded {
            return None;
        }
        payload.reserve_exact(missing);
        Some((payload, missing))
    }
}

impl PartialFrame {
    /// Appends bytes to the payload.
    fn append(&mut self, more: &[u8]) {
        let Self { header, payload, decoded } = self;
        let length = payload.len() + more.len();
        if length > payload.capacity() && header.kind() != Kind::Data {
            // A vector that reallocates leaves its content in freed memory, and the content may be
            // secret.
            let mut larger = Vec::with_capacity(length.max(2 * payload.capacity()));
            larger.extend_from_slice(payload);
            payload.zeroize();
            *payload = larger;
        }
        payload.extend_from_slice(more);
        *decoded = payload.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Flags, Preamble, VersionRange, encode_control};

    /// Everything that a reader finds in these pieces.
    fn read(pieces: &[&[u8]]) -> Result<Vec<LinkItem>, ReadError> {
        let mut reader = FrameReader::new();
        let mut items = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(item) = reader.next(&mut piece)? {
                items.push(item);
            }
        }
        Ok(items)
    }

    fn text(items: &[LinkItem]) -> Vec<u8> {
        let text = items.iter().map(|item| match item {
            LinkItem::Text(text) | LinkItem::Preamble(text, _) => text.as_slice(),
            LinkItem::Frame(..) => &[],
        });
        text.collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_banner_before_the_preamble_is_text_at_every_split() {
        let mut stream = b"Last login: never\r\n\xff".to_vec();
        stream.extend(Preamble { versions: PROTOCOL }.encode());
        encode_control(&mut stream, Kind::Control, 0, &"news", &Limits::AUTHENTICATED).unwrap();
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            let items = read(&[a, b]).unwrap();
            assert_eq!(text(&items), b"Last login: never\r\n\xff", "cut at {cut}");
            let frames: Vec<_> = items.iter().filter(|item| matches!(item, LinkItem::Frame(..))).collect();
            assert!(matches!(frames[..], [LinkItem::Frame(header, _)] if header.kind() == Kind::Control));
        }
    }

    #[test]
    fn a_version_mismatch_is_distinguished_from_noise() {
        let future = VersionRange::new(Version(7), Version(9)).unwrap();
        let stream = Preamble { versions: future }.encode();
        assert!(matches!(read(&[&stream]), Err(ReadError::Version(_))));
        let noise = [&Preamble { versions: PROTOCOL }.encode()[..], &[0xaa; 32]].concat();
        assert!(matches!(read(&[&noise]), Err(ReadError::Frame(_))));
    }

    #[test]
    fn before_hello_frames_are_limited() {
        let mut stream = Preamble { versions: PROTOCOL }.encode().to_vec();
        let long = "x".repeat(Limits::UNAUTHENTICATED.control as usize + 1);
        encode_control(&mut stream, Kind::Hello, 0, &long, &Limits::AUTHENTICATED).unwrap();
        assert!(matches!(read(&[&stream]), Err(ReadError::Frame(_))));
    }

    #[test]
    fn long_frames_are_read_in_place_in_any_portions() {
        let payload: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
        let header = Header::new(Kind::Data, Flags::NONE, 1, payload.len(), &Limits::AUTHENTICATED).unwrap();
        let frame = [&header.encode()[..], &payload].concat();
        for first in [3, 8, 9, 70_000, 190_000, frame.len()] {
            for most in [1_000, 50_000, usize::MAX] {
                let mut reader = FrameReader::new();
                reader.next(&mut &Preamble { versions: PROTOCOL }.encode()[..]).unwrap();
                reader.trust(Limits::AUTHENTICATED);
                let (mut now, mut later) = frame.split_at(first);
                let mut whole = reader.next(&mut now).unwrap();
                while whole.is_none() {
                    whole = match reader.receive_buffer() {
                        Some((place, missing)) => {
                            assert_eq!(missing, later.len());
                            let landed = later.split_off(..missing.min(most)).unwrap();
                            place.extend_from_slice(landed);
                            reader.next(&mut &[][..]).unwrap()
                        }
                        None => reader.next(&mut later.split_off(..later.len().min(most)).unwrap()).unwrap(),
                    };
                }
                assert!(later.is_empty());
                assert!(
                    matches!(whole, Some(LinkItem::Frame(head, bytes)) if head == header && bytes == payload)
                );
                assert!(reader.receive_buffer().is_none());
            }
        }
    }
}
