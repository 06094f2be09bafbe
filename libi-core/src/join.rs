//! The first frames between a process and its parent: the interface between launching and
//! communicating.
//!
//! ```text
//!   parent                                        child
//!     | starts it; preamble, Ticket ----------------> |   nothing secret: any program may run
//!     | <------------------------- preamble, Hello    |   returns the ticket that it has read
//!     | the session configuration, with its secret -> |
//! ```
//!
//! The ticket is written before anything is known of the child, so that its hello takes no round
//! trip. It holds nothing secret: a program that echoes its input, or keeps a copy of it, betrays
//! nothing. Secrets are sent only to a child that has answered in the protocol.
//!
//! A ticket names the session, the role in it and the attempt, and its nonce is fresh. A process
//! that is still starting from an earlier attempt at the same role therefore cannot be mistaken for
//! the present one.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::ids::{HostIndex, Rank};
use crate::plan::late::Attempt;

/// Identifies a session among all sessions of all front ends: random, not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey(pub u64);

/// A number used once, which shows which ticket a hello answers: random, not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nonce(pub u64);

/// The role of a process in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemberRole {
    /// The first process of a host, which runs the tree for it.
    Leader(HostIndex),
    /// A further process of a host.
    Local(Rank),
}

/// Parent to child, the first frame: the role that the child takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The session.
    pub session: SessionKey,
    /// The role.
    pub place: MemberRole,
    /// The number of the attempt to fill the role.
    pub attempt: Attempt,
    /// To be returned in the hello.
    pub nonce: Nonce,
}

/// Child to parent, the first frame: the ticket it holds, and what it runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The ticket as it was read.
    pub ticket: Ticket,
    /// The process id.
    pub process: u32,
    /// The host name as the host itself reports it, for error messages.
    pub machine: String,
    /// Whether the process leads a host without being a member.
    pub is_apart: bool,
}
