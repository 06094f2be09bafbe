//! The interface between a group and its driver: calls, outcomes, events and effects.

use std::fmt;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::loss::LossReason;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::Topology;
use serde::{Deserialize, Serialize};

use crate::error::CommError;
use crate::memory::SealedRegion;
use crate::message::is_of_a_call;
use crate::reduce::Reducer;

/// The number of a call, chosen by its caller. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// When collective calls complete. It is the same in all processes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whether each call waits until all members have made it, and a mismatch or a timeout fails it
    /// at all of them. Otherwise a call is complete for a member when the member's own part is.
    pub strict: bool,
    /// The number of calls that a process may be ahead of a neighbor in the tree, at least 2.
    pub lead: u64,
    /// The number of bytes that a process may have sent to a neighbor in calls that are not over there,
    /// before it begins another one.
    pub lead_bytes: u64,
    /// Whether calls go on without members that are lost. Otherwise calls that need these fail.
    pub continues: bool,
    /// Whether processes below a lost one may come back over [other links](Adoption), where calls go on.
    /// Processes keep what they have sent for that, and a ring takes two messages more on each link.
    pub reconnects: bool,
    /// Whether a lost master is replaced by the next rank, where calls go on. The front end is the top of the
    /// tree then.
    pub replaces_master: bool,
}

impl Default for Completion {
    fn default() -> Self {
        Self {
            strict: false,
            lead: 128,
            lead_bytes: 4 << 20,
            continues: false,
            reconnects: false,
            replaces_master: false,
        }
    }
}

/// A process that can be sent messages.
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

/// Where the value of a key is stored, and how other hosts get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum KeyScope {
    /// The next fence copies it to every host. For keys that most members read.
    Replicated,
    /// It is stored on the host of its writer and fetched on demand. For keys that few members
    /// read.
    Local,
}

/// A call of the program.
#[derive(Clone, Debug)]
pub enum Call {
    /// Waits until all members have called.
    Barrier,
    /// Sends the data of the root to all members.
    Broadcast {
        /// The member that has the data.
        root: Rank,
        /// The data; only at the root.
        data: Option<Bytes>,
        /// The length of the data, if the caller knows it in advance.
        length: Option<u64>,
    },
    /// Collects the data of all members at the root.
    Gather {
        /// The member that gets the data.
        root: Rank,
        /// The part of this member.
        data: Bytes,
        /// Whether all parts have the same length.
        equal: bool,
    },
    /// Sends each member its part of the root's data.
    Scatter {
        /// The member that has the parts.
        root: Rank,
        /// A part for every rank; only at the root.
        parts: Option<Vec<Bytes>>,
        /// The length of each part, if all have the same and the caller knows it in advance.
        length: Option<u64>,
    },
    /// Collects the data of all members at all members.
    AllGather {
        /// The part of this member.
        data: Bytes,
        /// Whether all parts have the same length.
        equal: bool,
    },
    /// Sends every member a part from every member.
    AllToAll {
        /// The part for each rank.
        parts: Vec<Bytes>,
        /// Whether all parts of all members have the same length.
        equal: bool,
    },
    /// Combines the values of all members.
    Reduce {
        /// The member that gets the result; `None` for all members.
        to: Option<Rank>,
        /// The value of this member.
        data: Bytes,
        /// How two values are combined.
        reducer: Reducer,
    },
    /// Combines the values of all members before this one, in the order of ranks. The first member
    /// gets none from an exclusive call.
    Scan {
        /// Whether the value of this member is the last of those that are combined.
        inclusive: bool,
        /// The value of this member.
        data: Bytes,
        /// How two values are combined.
        reducer: Reducer,
    },
    /// Determines the position of this member in a ring of all members.
    Ring {
        /// The weight of this member in the prefix sum.
        count: u64,
        /// The data for the left neighbor.
        left: Bytes,
        /// The data for the right neighbor.
        right: Bytes,
    },
    /// Makes everything that was put before the fence visible to all members.
    Fence,
    /// Takes the place of a collective call that this member cannot make: others, which make it, get this
    /// error in [`CommError::Failed`], or [`CommError::Cancelled`] if there is none.
    Abort(Option<CommError>),
    /// Sends a message.
    Send {
        /// The receiver.
        to: Address,
        /// The tag, by which sender and receiver tell messages apart.
        tag: u32,
        /// The message.
        data: Bytes,
    },
    /// Receives the next message of a sender with this tag.
    Receive {
        /// The sender.
        from: Address,
        /// The tag.
        tag: u32,
    },
    /// Stores a value under a key.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Bytes,
        /// Where it is stored.
        scope: KeyScope,
    },
    /// Looks a key up.
    Get {
        /// The key.
        key: String,
        /// Whether to wait for a value if there is none.
        wait: bool,
    },
}

impl Call {
    /// Whether the call is numbered and all members take part in it.
    #[must_use]
    pub const fn is_collective(&self) -> bool {
        !matches!(self, Self::Send { .. } | Self::Receive { .. } | Self::Put { .. } | Self::Get { .. })
    }
}

/// The result of a successful call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call is complete and has no data.
    Done,
    /// The data of the call.
    Data(Bytes),
    /// The parts of all members in the order of ranks, empty for absent ranks. No parts at all for
    /// a member that only contributes.
    Parts(Vec<Bytes>),
    /// The position in the ring.
    Ring(RingPosition),
    /// The value of the key, or `None` if it has none.
    Found(Option<Bytes>),
}

impl Outcome {
    /// The number of bytes of data.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Done | Self::Found(None) => 0,
            Self::Data(bytes) | Self::Found(Some(bytes)) => bytes.len() as u64,
            Self::Parts(parts) => parts.iter().map(|part| part.len() as u64).sum(),
            Self::Ring(ring) => (ring.left.len() + ring.right.len()) as u64,
        }
    }
}

/// The position of a member in the ring. The members of a host are neighbors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingPosition {
    /// The position, counted from 0.
    pub rank: u32,
    /// The number of members of the ring.
    pub size: u32,
    /// The sum of the weights of all members before this one.
    pub before: u64,
    /// The data that the left neighbor gave for its right one. The left neighbor of the first
    /// member is the last.
    pub left: Bytes,
    /// The data that the right neighbor gave for its left one. The right neighbor of the last
    /// member is the first.
    pub right: Bytes,
}

/// The payload of a frame as a list of parts that are sent in order. Clones share the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame(pub Vec<Bytes>);

impl Frame {
    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether it belongs to what programs have called. Others are news of the group, such as losses.
    #[must_use]
    pub fn is_of_a_call(&self) -> bool {
        self.0.first().is_some_and(|head| is_of_a_call(head))
    }

    /// Whether the payload has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload in one piece.
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
    /// The session is up, and has this tree.
    Up(Topology),
    /// A frame has arrived over a link.
    Frame(LinkId, Bytes),
    /// Shared memory has arrived over a link. The frame that describes it follows.
    Region(LinkId, Bytes),
    /// The link is closed in both directions. The process at its other end is lost or has ended, in
    /// this way if it is known.
    Cut(LinkId, Option<LossReason>),
    /// The link to a branch is closed in both directions. These members were lost with the process at its
    /// other end, in this way if it is known; all others there may come back over other links. Or the link
    /// to the parent is closed, and another may take its place. Only where processes
    /// [reconnect](Completion::reconnects).
    Severed(LinkId, Ranks, Option<LossReason>),
    /// A process from behind a severed link to a branch is back.
    Adopted(Adoption),
    /// This process is back: the link to the parent now leads to another process, which has adopted it.
    Reattached,
    /// The session has this many ranks from now on. `absent` are all that did not come up, earlier ones
    /// included. Every process is told, each at another time, and before [`Joins`](Self::Joins) for new
    /// ranks there. Only where calls [go on](Completion::continues).
    Grows {
        /// The number of ranks, absent ones included.
        size: u32,
        /// The ranks whose launch failed.
        absent: Ranks,
    },
    /// A new process is at the other end of this new link, in the place of lost members, or with ranks by
    /// which the session grows. It has a [topology](Topology::joins) that says so. The lost members may have
    /// been on a host elsewhere, and this process need not have heard of their loss. Only where calls
    /// [go on](Completion::continues).
    Joins {
        /// The link that leads to it. Its number was not used before.
        link: LinkId,
        /// All members at its other end.
        ranks: Ranks,
        /// Whether it is a further member of this host. Otherwise it leads a new one, and may have
        /// branches.
        local: bool,
    },
    /// What has not come back from behind a severed link until now is lost, in this way.
    Forsaken(LinkId, Option<LossReason>),
    /// The program makes a call.
    Call(CallId, Call),
    /// The program cancels a call; its timeout may have elapsed.
    Cancel(CallId),
    /// The time of the last [`Effect::WakeAt`] has come.
    Woken,
    /// The program is about to end in order. Where calls [go on](Completion::continues), all other members
    /// tell when they have completed what this one has.
    Leave,
    /// Ask the parent to confirm everything that was sent to it. The answer is
    /// [`Effect::Confirmed`] with this number; there is none before the session is up.
    Confirm(u64),
}

/// A process that was behind a severed link, and is back over another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The link that leads to it. Its number was not used before.
    pub link: LinkId,
    /// The severed link.
    pub instead_of: LinkId,
    /// The members at its other end.
    pub ranks: Ranks,
    /// Its place among all that are adopted instead of the same link, in the order of the tree.
    pub place: u32,
}

/// What the driver has to do for a group.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a frame over a link, after everything sent there before.
    Send(LinkId, Frame),
    /// Send a handle of shared memory, and the frame that describes it, to a member of this host.
    SendRegion(LinkId, Frame, SealedRegion),
    /// Report the result of a call to the program.
    Finish(CallId, Result<Outcome, CommError>),
    /// These lost members are missing in the result that is reported next, that of this call.
    Missing(CallId, Ranks),
    /// Report lost members to the program, and how they were lost, if that is known.
    Lost(Ranks, Option<LossReason>),
    /// The session has this many ranks, from the collective call on that this member makes next. It comes
    /// with the result of its last call before that, so between two calls of a program that waits for each.
    /// A program with several calls in progress must not rely on the number of ranks in these.
    Grown {
        /// The number of ranks, absent ones included.
        size: u32,
        /// The ranks whose launch failed.
        absent: Ranks,
    },
    /// Processes have taken the places of these lost members, or are new, and take part in the collective
    /// calls of the session from this number on. This member has made all earlier calls.
    Joined(Ranks, u64),
    /// This process has taken the place of a lost member, or is new. Its first collective call has this
    /// number, counted from 0 in the session.
    Begins(u64),
    /// The master is this member from now on, in place of a lost one, as far as is known here.
    Master(Rank),
    /// Pass in [`Event::Woken`] at this time. It replaces an earlier time.
    WakeAt(Instant),
    /// The parent has received everything that was sent before the request of this number.
    Confirmed(u64),
}
