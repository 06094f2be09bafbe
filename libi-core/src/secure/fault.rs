//! Decides how it is told that a peer is not who it should be, or a stream not what was sent.
//!
//! For our own reports only. To the peer, every one of these looks the same: the connection closes.

use core::fmt;

use thiserror::Error;

use super::record::{MAX_CIPHERTEXT, MIN_CIPHERTEXT};
use super::{OPENING_LEN, PROOF_LEN, REPLY_LEN};

/// A message of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeMessage {
    /// The child's first message.
    Opening,
    /// The parent's answer to it.
    Reply,
    /// The child's second message.
    Proof,
}

impl HandshakeMessage {
    /// How long this message is.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Opening => OPENING_LEN,
            Self::Reply => REPLY_LEN,
            Self::Proof => PROOF_LEN,
        }
    }
}

impl fmt::Display for HandshakeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "opening",
            Self::Reply => "reply",
            Self::Proof => "proof",
        })
    }
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum HandshakeFault {
    /// The stream ended first.
    #[error("the peer hung up after {have} of the {} bytes of the link's {awaited}", awaited.length())]
    Cut {
        /// What was awaited.
        awaited: HandshakeMessage,
        /// How much of it had come.
        have: usize,
    },
    /// There is no key for the link id in an opening.
    #[error("awaited a link's opening: no open ticket has the link id that came")]
    UnknownKey,
    /// A message of the right length that only somebody without the key can have sent, or that was changed
    /// on its way.
    #[error("awaited a link's {awaited}: what came does not prove that the peer holds the same ticket")]
    NotAuthentic {
        /// What was awaited.
        awaited: HandshakeMessage,
    },
}

/// Why a stream of records is at its end. A record's number is its nonce: the parent's first record is 0, the child's
/// is 1, after its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// A length that no record has.
    #[error("record {record} claims {length} bytes; a record has {MIN_CIPHERTEXT} to {MAX_CIPHERTEXT}")]
    Length {
        /// Which record.
        record: u64,
        /// Its claim.
        length: usize,
    },
    /// A record does not open.
    #[error("record {record} is not what the peer sealed: changed, repeated, out of order or forged")]
    Damaged {
        /// Which record was due.
        record: u64,
    },
    /// The stream ended inside a record.
    #[error("the link was cut after {have} bytes of record {record}")]
    Cut {
        /// Which record.
        record: u64,
        /// How many of its bytes had come, those of the length included.
        have: usize,
    },
    /// As many records were sealed as one key bears.
    #[error("the link has carried as many records as its key bears")]
    Exhausted,
}
