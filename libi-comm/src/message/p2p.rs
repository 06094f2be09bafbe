//! Point-to-point messages, as they travel. `group::p2p` says what they do.

use serde::{Deserialize, Serialize};

use crate::contract::Address;

/// A frame of a point-to-point message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) message: P2pMessage,
}

/// What one end says to the other. The sender numbers its messages in the order of its calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum P2pMessage {
    /// A whole message.
    Eager { id: u64, tag: u32 },
    /// A message of this length is available.
    Offer { id: u64, tag: u32, total: u64 },
    /// Bytes of a message that was pulled.
    Chunk { id: u64, offset: u64 },
    /// The sender has cancelled the message.
    Withdrawn { id: u64, tag: u32 },
    /// So many bytes of the message may be sent, in total.
    Pull { id: u64, limit: u64 },
    /// No more of this message is to be sent.
    Rejected { id: u64, why: RejectReason },
    /// So many bytes of eager messages have been consumed, in total.
    Consumed { limit: u64 },
    /// Sent by a process on the way, in the name of the receiver: there is no route to it.
    Undeliverable,
}

/// Why the rest of a message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RejectReason {
    /// The receive was cancelled.
    Cancelled,
    /// No memory for the message.
    OutOfMemory,
    /// The bytes do not match the offer.
    Protocol,
}
