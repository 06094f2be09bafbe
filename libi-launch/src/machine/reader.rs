//! Takes apart what arrives on a link: foreign text, then our preamble, then frames.
//!
//! What arrives is copied into the frame that it belongs to; of a long frame of data, what has not arrived yet can be put
//! [there](Reader::landing) at once.

use libi_core::wire::{
    Decoder, FrameError, FramePart, Header, Kind, Limits, PROTOCOL, PreambleScanner, Version, VersionMismatch,
};
use zeroize::Zeroize;

/// How much has to be missing of a frame for it to be worth reading by itself.
const LONG: usize = 16 << 10;

/// What was found on a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
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
pub(super) enum Reader {
    /// Before the preamble.
    Scanning(PreambleScanner),
    /// Behind it; with the frame that is incomplete, if one is.
    Framed { decoder: Decoder, open: Option<Open> },
}

/// A frame that is incomplete.
#[derive(Debug)]
pub(super) struct Open {
    header: Header,
    payload: Vec<u8>,
    /// How much of the payload the decoder knows of; the rest has landed there.
    have: usize,
}

impl Reader {
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
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Item>, ReadError> {
        match self {
            Self::Scanning(scanner) => {
                if bytes.is_empty() {
                    return Ok(None);
                }
                let scan = scanner.scan(bytes);
                let text = [&scan.held[..], scan.foreign].concat();
                let Some(found) = scan.found else {
                    *bytes = &[];
                    return Ok((!text.is_empty()).then_some(Item::Text(text)));
                };
                *bytes = found.rest;
                let version = PROTOCOL.agree(found.preamble.versions)?;
                *self = Self::Framed { decoder: Decoder::new(Limits::UNAUTHENTICATED), open: None };
                Ok(Some(Item::Preamble(text, version)))
            }
            Self::Framed { decoder, open } => {
                if let Some(open) = open
                    && open.payload.len() > open.have
                {
                    let mut landed = &open.payload[open.have..];
                    decoder.step(&mut landed)?;
                    open.have = open.payload.len() - landed.len();
                    open.payload.truncate(open.have);
                }
                while let Some(event) = decoder.step(bytes)? {
                    match (event, open.as_mut()) {
                        // A payload is set aside for as it comes, not for what its header claims.
                        (FramePart::Head(header), _) => {
                            *open = Some(Open { header, payload: Vec::new(), have: 0 });
                        }
                        (FramePart::Bytes(more), Some(open)) => open.gather(more),
                        (FramePart::Bytes(_), None) => {}
                        (FramePart::End, _) => {
                            if let Some(Open { header, payload, .. }) = open.take() {
                                return Ok(Some(Item::Frame(header, payload)));
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
    pub(super) fn landing(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let Self::Framed { open: Some(Open { header, payload, have }), .. } = self else { return None };
        let missing = header.length().saturating_sub(*have);
        if header.kind() != Kind::Data || missing < LONG || payload.len() > *have {
            return None;
        }
        payload.reserve_exact(missing);
        Some((payload, missing))
    }
}

impl Open {
    /// Appends bytes.
    fn gather(&mut self, more: &[u8]) {
        let Self { header, payload, have } = self;
        let length = payload.len() + more.len();
        if length > payload.capacity() && header.kind() != Kind::Data {
            // One that grows by itself leaves what it had in freed memory, and that may be a secret.
            let mut larger = Vec::with_capacity(length.max(2 * payload.capacity()));
            larger.extend_from_slice(payload);
            payload.zeroize();
            *payload = larger;
        }
        payload.extend_from_slice(more);
        *have = payload.len();
    }
}
