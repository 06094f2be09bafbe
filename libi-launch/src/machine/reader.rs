//! Takes apart what arrives on a link: foreign text, then our preamble, then frames.

use libi_core::wire::{
    Decoder, Event, FrameError, Header, Limits, PROTOCOL, PreambleScanner, Version, VersionMismatch,
};
use zeroize::Zeroize;

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
    Framed { decoder: Decoder, open: Option<(Header, Vec<u8>)> },
}

impl Reader {
    pub(super) fn new() -> Self {
        Self::Scanning(PreambleScanner::new())
    }

    /// From now on the peer may send frames of these sizes.
    pub(super) fn trust(&mut self, limits: Limits) {
        if let Self::Framed { decoder, .. } = self {
            decoder.limit(limits);
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
                let text = [&scan.held[..], scan.text].concat();
                let Some(found) = scan.found else {
                    *bytes = &[];
                    return Ok((!text.is_empty()).then_some(Item::Text(text)));
                };
                *bytes = found.rest;
                let version = PROTOCOL.agree(found.preamble.versions)?;
                *self = Self::Framed { decoder: Decoder::new(Limits::BEFORE_PROOF), open: None };
                Ok(Some(Item::Preamble(text, version)))
            }
            Self::Framed { decoder, open } => {
                while let Some(event) = decoder.step(bytes)? {
                    match (event, open.as_mut()) {
                        // A payload is set aside for as it comes, not for what its header claims.
                        (Event::Head(header), _) => *open = Some((header, Vec::new())),
                        (Event::Bytes(more), Some((_, payload))) => gather(payload, more),
                        (Event::Bytes(_), None) => {}
                        (Event::End, _) => {
                            if let Some((header, payload)) = open.take() {
                                return Ok(Some(Item::Frame(header, payload)));
                            }
                        }
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Appends bytes. One that grows by itself leaves what it had in freed memory, and that may be a secret.
fn gather(payload: &mut Vec<u8>, more: &[u8]) {
    let length = payload.len() + more.len();
    if length > payload.capacity() {
        let mut larger = Vec::with_capacity(length.max(2 * payload.capacity()));
        larger.extend_from_slice(payload);
        payload.zeroize();
        *payload = larger;
    }
    payload.extend_from_slice(more);
}
