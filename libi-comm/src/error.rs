//! What may go wrong with a call.

use libi_core::ids::Rank;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use crate::contract::Address;
use crate::message::CallSignature;

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// Somebody who was needed is gone. Calls among others go on.
    #[error("{ranks} lost; this call needs them")]
    PeerLost {
        /// Who.
        ranks: Ranks,
    },
    /// The front end was needed, and is not there any more.
    #[error("the front end is lost")]
    FrontEndLost,
    /// Members have called different things where all have to call the same. All of them are told; the next collective call is a
    /// new chance.
    #[error(
        "collective call {nth} does not match: {} has called {}, {} has called {}",
        one.0, one.1, other.0, other.1
    )]
    Mismatch {
        /// Which of the session's collective calls, counted from 0.
        nth: u64,
        /// One who has called, and what.
        one: (Rank, CallSignature),
        /// Another, and what he has called.
        other: (Rank, CallSignature),
    },
    /// A member did not wait any longer, or could not go on, and with it the call is over for all who had not finished it. The next
    /// collective call is a new chance.
    #[error("{by} has given up collective call {nth}")]
    Cancelled {
        /// Which of the session's collective calls, counted from 0.
        nth: u64,
        /// Who has given up.
        by: Rank,
    },
    /// The sender of a message did not wait until all of it was received, and has taken it back. The next receive is a new
    /// chance.
    #[error("{by} has given up sending")]
    Withdrawn {
        /// Who.
        by: Address,
    },
    /// The caller's patience has ended. A collective call is over for all members that had not finished it; they may go on with the next.
    #[error("{what} took longer than there was patience")]
    TimedOut {
        /// What was called.
        what: &'static str,
    },
    /// The session ends.
    #[error("the session is ending")]
    Ended,
    /// There is nobody of that address.
    #[error("there is no {0} in this session")]
    NoSuchPeer(Address),
    /// A member that did not come up was addressed.
    #[error("{0} did not come up")]
    Absent(Rank),
    /// Only a member can call this.
    #[error("the front end takes no part in collective calls")]
    NotAMember,
    /// A part for every rank is needed.
    #[error("{given} parts were given for {size} ranks")]
    WrongPartCount {
        /// How many were given.
        given: usize,
        /// How many ranks there are.
        size: u32,
    },
    /// What was to have the same length has not.
    #[error("parts that are to be equally long are {one} and {other} bytes long")]
    UnequalLengths {
        /// The length of one.
        one: u64,
        /// Another length.
        other: u64,
    },
    /// The root has to have something that was not given.
    #[error("the root gives no data")]
    MissingRootData,
    /// The bytes of a value are not a whole number of its elements.
    #[error("{length} bytes are no array of elements of {element} bytes")]
    NotAnArray {
        /// The length.
        length: usize,
        /// The size of an element.
        element: usize,
    },
    /// A key has more bytes than there is room for.
    #[error("a key of {length} bytes is too long; {most} is the most")]
    KeyTooLong {
        /// How long it is.
        length: usize,
        /// How long it may be.
        most: usize,
    },
    /// There is not as much memory.
    #[error("there is no memory for {0} bytes")]
    OutOfMemory(u64),
    /// What came was not as announced: another build of this library, or a defect of it.
    #[error("a peer has sent what makes no sense here: {0}")]
    Protocol(&'static str),
}

/// Why a collective call is over for everybody, as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AbortCause {
    /// Members have called different things.
    Mismatch((Rank, CallSignature), (Rank, CallSignature)),
    /// A member has given up.
    Cancelled(Rank),
    /// Somebody is gone who was needed.
    Lost(Ranks),
}

impl AbortCause {
    pub(crate) fn into_error(self, nth: u64) -> CommError {
        match self {
            Self::Mismatch(one, other) => CommError::Mismatch { nth, one, other },
            Self::Cancelled(by) => CommError::Cancelled { nth, by },
            Self::Lost(ranks) => CommError::PeerLost { ranks },
        }
    }
}
