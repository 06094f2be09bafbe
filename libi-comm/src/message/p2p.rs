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
    /// So many bytes of eager messages have been consumed, in total, and the messages up to this number
    /// have arrived.
    Consumed { limit: u64, newest: u64 },
    /// Sent by a process on the way, in the name of the receiver: there is no route to it.
    Undeliverable,
    /// An offered message has arrived whole. Only where processes reconnect.
    Taken { id: u64 },
    /// The route has changed, in this round, and so much had arrived by then.
    Resync { round: u64, arrived: Arrivals },
}

/// What has arrived of the messages of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Arrivals {
    /// The number of the newest message.
    pub(crate) newest: u64,
    /// The bytes of eager messages that have been consumed.
    pub(crate) consumed: u64,
    /// The messages of which only the offer has arrived, or a part.
    pub(crate) parts: Vec<PartialArrival>,
}

/// An offered message that has not arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartialArrival {
    pub(crate) id: u64,
    pub(crate) tag: u32,
    /// How many bytes have arrived, and how many may have been sent, if it was pulled.
    pub(crate) pulled: Option<(u64, u64)>,
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
