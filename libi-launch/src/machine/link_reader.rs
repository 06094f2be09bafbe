//! Takes apart what arrives on a link: foreign text, then our preamble, then frames.
//!
//! What arrives is copied into the frame that it belongs to; of a long frame of data, what has not arrived yet can be put
//! [there](LinkReader::receive_buffer) at once.

use libi_core::wire::{
    Decoder, FrameError, FramePart, Header, Kind, Limits, PROTOCOL, PreambleScanner, Version, VersionMismatch,
};
use zeroize::Zeroize;

/// How much has to be missing of a frame for it to be worth reading by itself.
const LONG: usize = 16 << 10;

/// What was found on a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkItem {
    /// Bytes that are not ours: a banner, or what a program printed before it joined.
    Text(Vec<u8>),
    /// The preamble, with the last of the text in front of it: from here on the peer speaks our protocol.
    Preamble(Vec<u8>, Version),
    /// A whole frame.
    Frame(Header, Vec<u8>),
}

/// Why nothing more can be read from a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Version(#[from] VersionMismatch),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// One direction of a link, as it is read.
#[derive(Debug)]
pub(super) enum LinkReader {
    /// Before the preamble.
    Scanning(PreambleScanner),
    /// Behind it; with the frame that is incomplete, if one is.
    Framed { decoder: Decoder, partial: Option<PartialFrame> },
}

/// A frame that is incomplete.
#[derive(Debug)]
pub(super) struct PartialFrame {
    header: Header,
    payload: Vec<u8>,
    /// How much of the payload the decoder knows of; the rest has landed there.
    decoded: usize,
}

impl LinkReader {
    pub(super) fn new() -> Self {
        Self::Scanning(PreambleScanner::new())
    }

    /// From now on the peer may send frames of these sizes.
    pub(super) fn trust(&mut self, limits: Limits) {
        if let Self::Framed { decoder, .. } = self {
            decoder.set_limits(limits);
        }
    }

    /// Reads the next item off the front of `bytes`; nothing if more bytes are needed.
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
                        // A payload is set aside for as it comes, not for what its header claims.
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

    /// The payload of a long frame of data, to which what is missing can be appended, and how much that is. What has been
    /// appended is noticed with the next call of [`next`](Self::next).
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
    /// Appends bytes.
    fn linger_until(&mut self, more: &[u8]) {
        let Self { header, payload, decoded } = self;
        let length = payload.len() + more.len();
        if length > payload.capacity() && header.kind() != Kind::Data {
            // One that grows by itself leaves what it had in freed memory, and that may be a secret.
            let mut larger = Vec::with_capacity(length.max(2 * payload.capacity()));
            larger.extend_from_slice(payload);
            payload.zeroize();
            *payload = larger;
        }
        payload.extend_from_slice(more);
        *decoded = payload.len();
    }
}
