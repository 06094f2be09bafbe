//! Splits the bytes of a link into foreign text, the preamble, and frames.
//!
//! Bytes are copied into the frame that they belong to. The missing part of a long data frame can
//! be read straight into its [buffer](LinkReader::receive_buffer).

use libi_core::wire::{
    Decoder, FrameError, FramePart, Header, Kind, Limits, PROTOCOL, PreambleScanner, Version, VersionMismatch,
};
use zeroize::Zeroize;

/// How much of a frame has to be missing for a read of its own.
const LONG: usize = 16 << 10;

/// An item found on a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkItem {
    /// Foreign bytes: a banner, or output of the program before it joined.
    Text(Vec<u8>),
    /// The preamble, with the last foreign text before it. The peer speaks the protocol from here
    /// on.
    Preamble(Vec<u8>, Version),
    /// A complete frame.
    Frame(Header, Vec<u8>),
}

/// Why a link cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Version(#[from] VersionMismatch),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// The receiving direction of a link.
#[derive(Debug)]
pub(super) enum LinkReader {
    /// Before the preamble.
    Scanning(PreambleScanner),
    /// After the preamble, with the incomplete frame, if there is one.
    Framed { decoder: Decoder, partial: Option<PartialFrame> },
}

/// An incomplete frame.
#[derive(Debug)]
pub(super) struct PartialFrame {
    header: Header,
    payload: Vec<u8>,
    /// The length of the payload that the decoder has seen; the rest was received in place.
    decoded: usize,
}

impl LinkReader {
    pub(super) fn new() -> Self {
        Self::Scanning(PreambleScanner::new())
    }

    /// Raises the limits of frame sizes, once the peer is authenticated.
    pub(super) fn trust(&mut self, limits: Limits) {
        if let Self::Framed { decoder, .. } = self {
            decoder.set_limits(limits);
        }
    }

    /// Takes the next item off the front of `bytes`; `None` if more bytes are needed.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<LinkItem>, ReadError> {
        match self {
            Self::Scanning(scanner) => {
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
                *self = Self::Framed { decoder: Decoder::new(Limits::UNAUTHENTICATED), partial: None };
                Ok(Some(LinkItem::Preamble(text, version)))
            }
            Self::Framed { decoder, partial } => {
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
                        (FramePart::Bytes(more), Some(partial)) => partial.linger_until(more),
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

    /// The payload of a long data frame, to which the driver can append the missing bytes, and
    /// their number. The next call of [`next`](Self::next) notices the appended bytes.
    pub(super) fn receive_buffer(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let Self::Framed { partial: Some(PartialFrame { header, payload, decoded }), .. } = self else {
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
    fn linger_until(&mut self, more: &[u8]) {
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
