//! The errors of handshakes and of encrypted streams.
//!
//! They are for this side's reports only. To the peer, all of them look the same: the connection
//! closes.

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
    /// The length of this message.
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
        /// The awaited message.
        awaited: HandshakeMessage,
        /// The bytes of it that had arrived.
        have: usize,
    },
    /// There is no key for the key id in an opening.
    #[error("awaited a link's opening: the peer's key id belongs to no open ticket")]
    UnknownKey,
    /// A message of the right length that was made without the key, or changed on its way.
    #[error("awaited a link's {awaited}: the peer did not prove that it holds the same ticket")]
    NotAuthentic {
        /// The awaited message.
        awaited: HandshakeMessage,
    },
}

/// Why a stream of records cannot go on. A record's number is its nonce: the parent's first record
/// is 0, the child's is 1, after its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// A length that no record has.
    #[error("record {record} claims {length} bytes; a record has {MIN_CIPHERTEXT} to {MAX_CIPHERTEXT}")]
    Length {
        /// The number of the record.
        record: u64,
        /// The claimed length.
        length: usize,
    },
    /// A record does not authenticate.
    #[error("record {record} is not what the peer sealed: changed, repeated, out of order or forged")]
    Damaged {
        /// The number of the awaited record.
        record: u64,
    },
    /// The stream ended inside a record.
    #[error("the link was cut after {have} bytes of record {record}")]
    Cut {
        /// The number of the record.
        record: u64,
        /// The bytes of it that had arrived, including those of the length.
        have: usize,
    },
    /// The key has no nonces left.
    #[error("the link has carried as many records as one key allows")]
    Exhausted,
}
