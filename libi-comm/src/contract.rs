//! What a group and whoever drives it say to each other: what can be called, what can happen, what is to be done.

use std::fmt;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use crate::error::CommError;
use crate::memory::SealedRegion;
use crate::reduce::Reducer;
use crate::topology::Topology;

/// The number of a call, given by whoever makes it. No number is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Somebody who can be sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Address {
    /// The front end.
    FrontEnd,
    /// A member.
    Rank(Rank),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrontEnd => f.write_str("the front end"),
            Self::Rank(rank) => rank.fmt(f),
        }
    }
}

/// How a key reaches those who ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum KeyScope {
    /// The next fence takes it to every host: for keys that most members want.
    Replicated,
    /// It stays on the host where it was put, and is fetched when somebody asks: for keys that few want.
    Local,
}

/// Something that a program wants to have done.
#[derive(Clone, Debug)]
pub enum Call {
    /// To wait until everybody has called.
    Barrier,
    /// To have the root's data.
    Broadcast {
        /// Who has it.
        root: Rank,
        /// At the root: the data.
        data: Option<Bytes>,
        /// How long it is, for whoever knows that before.
        length: Option<u64>,
    },
    /// To give the root everybody's data.
    Gather {
        /// Who gets it.
        root: Rank,
        /// This member's part.
        data: Bytes,
        /// Whether all parts have the same length.
        equal: bool,
    },
    /// To have one's part of what the root has.
    Scatter {
        /// Who has the parts.
        root: Rank,
        /// At the root: a part for every rank.
        parts: Option<Vec<Bytes>>,
        /// How long each part is, if all have the same length and this member knows it.
        length: Option<u64>,
    },
    /// To give everybody's data to everybody.
    AllGather {
        /// This member's part.
        data: Bytes,
        /// Whether all parts have the same length.
        equal: bool,
    },
    /// To give everybody something of one's own.
    AllToAll {
        /// What each rank gets from this member.
        parts: Vec<Bytes>,
        /// Whether all parts of all members have the same length.
        equal: bool,
    },
    /// To combine everybody's values.
    Reduce {
        /// Who gets the result; everybody if nobody is named.
        to: Option<Rank>,
        /// This member's value.
        data: Bytes,
        /// How two values become one.
        reducer: Reducer,
    },
    /// To find one's place in a ring of all members.
    Ring {
        /// How many this member counts for.
        count: u64,
        /// What the left neighbour gets.
        left: Bytes,
        /// What the right neighbour gets.
        right: Bytes,
    },
    /// To make everything that was put before visible to everybody.
    Fence,
    /// To send somebody a message.
    Send {
        /// Whom.
        to: Address,
        /// What it is about, as sender and receiver have agreed.
        tag: u32,
        /// The message.
        data: Bytes,
    },
    /// To receive the next message of somebody with this tag.
    Receive {
        /// Whose.
        from: Address,
        /// What it is about.
        tag: u32,
    },
    /// To put a value under a key.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Bytes,
        /// How it reaches others.
        scope: KeyScope,
    },
    /// To have the value of a key.
    Get {
        /// The key.
        key: String,
        /// If nobody has put it: whether to wait until somebody does.
        wait: bool,
    },
}

impl Call {
    /// Whether all members take part, and count it.
    pub(crate) const fn is_collective(&self) -> bool {
        !matches!(self, Self::Send { .. } | Self::Receive { .. } | Self::Put { .. } | Self::Get { .. })
    }
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// These data have come.
    Data(Bytes),
    /// Everybody's data, in the order of ranks, nothing of those that are absent. Nothing at all for a member that only had to
    /// contribute.
    Parts(Vec<Bytes>),
    /// The place in the ring.
    Ring(RingPosition),
    /// The value of a key, if there is one.
    Found(Option<Bytes>),
}

/// A member's place in a ring, in which the members of a host are neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingPosition {
    /// Its place, counted from 0.
    pub rank: u32,
    /// How many members the ring has.
    pub size: u32,
    /// What all members before it count for together.
    pub before: u64,
    /// What its left neighbour has for the right; of the first, the last's.
    pub left: Bytes,
    /// What its right neighbour has for the left; of the last, the first's.
    pub right: Bytes,
}

/// The payload of a frame, in parts that are sent one behind the other. Clones share the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame(pub Vec<Bytes>);

impl Frame {
    /// How long it is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In one piece.
    #[must_use]
    pub fn concat(&self) -> Bytes {
        match &self.0[..] {
            [one] => one.clone(),
            parts => parts.concat().into(),
        }
    }
}

/// What can happen to a group.
#[derive(Clone, Debug)]
pub enum Event {
    /// The session is up, and this is the tree.
    Up(Topology),
    /// A frame has come over a link.
    Frame(LinkId, Bytes),
    /// Memory has been lent over a link. The frame that says what it is comes after it.
    Region(LinkId, Bytes),
    /// Nothing will come over a link any more, nor go: whoever is there is lost, or has ended.
    Cut(LinkId),
    /// The program calls.
    Call(CallId, Call),
    /// The program does not wait for this call any more.
    Cancel(CallId),
}

/// What a group can want.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a frame over a link, behind all that was sent there before.
    Send(LinkId, Frame),
    /// Lend memory to a member of this host, with a frame that says what it is.
    SendRegion(LinkId, Frame, SealedRegion),
    /// Tell the program what came of a call.
    Finish(CallId, Result<Outcome, CommError>),
    /// Tell the program who is lost.
    Lost(Ranks),
}
