//! What a process and the one that started it say first: the seam between launching and communicating.
//!
//! ```text
//!   parent                                        child
//!     | starts it; preamble, Ticket ----------------> |   nothing secret: anybody may have been started
//!     | <------------------------- preamble, Hello    |   it has read the ticket, and says it back
//!     | the welcome, which holds the session's secret>|
//! ```
//!
//! The ticket is written before anything is known of the child, so that its hello takes no round trip. It
//! holds nothing that a program which echoes its input, or keeps a copy of it, could betray; what is secret is said
//! only to a child that has answered in the protocol.
//!
//! A ticket names the session, the place in it and the attempt, and its nonce is fresh: whoever is still coming up
//! from an earlier attempt at the same place cannot be taken for the present one.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::ids::{HostIndex, Rank};
use crate::plan::late::Attempt;

/// The number by which a session is known among all sessions of all front ends: random, not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey(pub u64);

/// A number used once, by which a hello shows which ticket it answers: random, not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nonce(pub u64);

/// A place in a session that a process can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemberRole {
    /// The first process of a host, which runs the tree for it.
    Leader(HostIndex),
    /// A further process of a host.
    Local(Rank),
}

/// Parent to child, its first frame: which place this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The session.
    pub session: SessionKey,
    /// The place.
    pub place: MemberRole,
    /// Which attempt at the place this is.
    pub attempt: Attempt,
    /// To be said back.
    pub nonce: Nonce,
}

/// Child to parent, its first frame: the ticket it holds, and who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The ticket as it was read.
    pub ticket: Ticket,
    /// The process's number on its machine.
    pub process: u32,
    /// What the machine calls itself, for reports.
    pub machine: String,
}
