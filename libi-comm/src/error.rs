//! Why a call fails.

use std::fmt;

use libi_core::ids::Rank;
use libi_core::loss::Loss;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use crate::contract::Address;
use crate::message::CallSignature;
use crate::reduce::{Element, Op};

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// Members that the call needs are lost. Calls that do not need them still succeed.
    #[error(
        "{ranks} {} lost, and this call needs {}{}; calls that do not need {} still work",
        if .ranks.len() == 1 { "is" } else { "are" },
        them(.ranks), Reasons(.why), them(.ranks),
    )]
    PeerLost {
        /// The lost members that the call needs.
        ranks: Ranks,
        /// How they were lost, as far as that is known: once for all that were lost together.
        why: Vec<Loss>,
    },
    /// The call needs the front end, which is lost.
    #[error("the front end is lost: its process has ended, or the link to it has closed")]
    FrontEndLost,
    /// Members have called different operations where all have to call the same. Every member gets
    /// this error: in the call itself, or in the next one if it had completed the call. Later
    /// collective calls can succeed.
    #[error(
        "collective call {nth} does not match: {} called {}, {} called {}; \
         all members must make the same collective calls in the same order",
        one.0, one.1, other.0, other.1
    )]
    Mismatch {
        /// The number of the collective call in the session, counted from 0.
        nth: u64,
        /// One member, and what it called.
        one: (Rank, CallSignature),
        /// Another member, and what it called.
        other: (Rank, CallSignature),
    },
    /// Another member cancelled the collective call, or timed out in it. All members get this error:
    /// in the call itself, or in the next one if they had completed the call. Later collective calls
    /// can succeed.
    #[error(
        "{by} cancelled collective call {nth}: it timed out or gave up; the next collective call can succeed"
    )]
    Cancelled {
        /// The number of the collective call in the session, counted from 0.
        nth: u64,
        /// The member that cancelled it.
        by: Rank,
    },
    /// A process could not continue the collective call, or made it with invalid arguments. All other
    /// members get this error: in the call itself, or in the next one if they had completed the call.
    /// Later collective calls can succeed.
    #[error("collective call {nth} failed at {}: {why}; the next collective call can succeed", place(*.by))]
    Failed {
        /// The number of the collective call in the session, counted from 0.
        nth: u64,
        /// The member; `None` for the front end, and for the agent of a host.
        by: Option<Rank>,
        /// The error there.
        why: String,
    },
    /// The sender cancelled its message before all of it was received. The next receive gets the
    /// next message.
    #[error("{by} withdrew its message before all of it was received; receive again for its next message")]
    Withdrawn {
        /// The sender.
        by: Address,
    },
    /// The timeout of the caller has elapsed. A collective call then fails at all members that had
    /// not completed it; they can make the next one.
    #[error("{what} timed out")]
    TimedOut {
        /// What was called.
        what: &'static str,
    },
    /// The session is ending or has ended.
    #[error("the session has ended, or is ending")]
    Ended,
    /// The session has no such rank.
    #[error("the session has no {0}; ranks count from 0 to the size of the session less 1")]
    NoSuchPeer(Address),
    /// The launch of the member failed, and the session came up without it.
    #[error("{0} is absent: its launch failed, and the session came up without it")]
    Absent(Rank),
    /// Only members can make this call.
    #[error("the front end cannot make this call: only members make collective calls and use keys")]
    NotAMember,
    /// Only the master can make this call.
    #[error(
        "{0} is not the master, and only the master exchanges messages with the front end; \
         forward them through the master"
    )]
    NotMaster(Rank),
    /// The number of parts is not the number of ranks.
    #[error("{given} parts were given for {size} ranks; give one for each rank, absent ranks included")]
    WrongPartCount {
        /// The number of parts given.
        given: usize,
        /// The number of ranks.
        size: u32,
    },
    /// Parts that must have equal lengths differ.
    #[error("the parts must have equal lengths, and have {one} and {other} bytes")]
    UnequalLengths {
        /// One length.
        one: u64,
        /// Another length.
        other: u64,
    },
    /// The root of the call must give data, and gave none.
    #[error("this member is the root of the call, and gave no data for it")]
    MissingRootData,
    /// The length of an array is not a multiple of the size of its elements.
    #[error("{length} bytes are not a whole number of elements of {element} bytes")]
    NotAnArray {
        /// The length of the array in bytes.
        length: usize,
        /// The size of an element in bytes.
        element: usize,
    },
    /// The operation is not defined for elements of this type.
    #[error("the reduction {op:?} is not defined for elements of type {element:?}")]
    NotReducible {
        /// The operation.
        op: Op,
        /// The type of the elements.
        element: Element,
    },
    /// The key is too long.
    #[error("the key has {length} bytes; the limit is {limit}")]
    KeyTooLong {
        /// The length of the key in bytes.
        length: usize,
        /// The longest key that is accepted.
        limit: usize,
    },
    /// Memory could not be allocated.
    #[error("cannot allocate {0} bytes for the data of this call")]
    OutOfMemory(u64),
    /// A peer violated the protocol: its build of the library differs, or one of the two has a
    /// defect.
    #[error("a peer violated the protocol: {0}; check that all hosts run the same build of libi")]
    Protocol(&'static str),
}

impl CommError {
    /// Members are lost, in a way that the [group](crate::group::Group) adds.
    pub(crate) const fn lost(ranks: Ranks) -> Self {
        Self::PeerLost { ranks, why: Vec::new() }
    }
}

/// Why members are lost, in parentheses; nothing if there is no reason.
struct Reasons<'a>(&'a [Loss]);

impl fmt::Display for Reasons<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 3;
        for (nth, loss) in self.0.iter().take(MOST).enumerate() {
            write!(f, "{}{loss}", if nth == 0 { " (" } else { "; " })?;
        }
        match self.0.len() {
            0 => Ok(()),
            1..=MOST => f.write_str(")"),
            all => write!(f, "; and {} more losses)", all - MOST),
        }
    }
}

fn them(ranks: &Ranks) -> &'static str {
    if ranks.len() == 1 { "it" } else { "them" }
}

fn place(by: Option<Rank>) -> String {
    by.map_or_else(|| "the front end, or the agent of a host".to_owned(), |rank| rank.to_string())
}

/// Why a collective call fails at all members, as sent between processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AbortCause {
    /// Members have called different operations.
    Mismatch((Rank, CallSignature), (Rank, CallSignature)),
    /// A member has cancelled the call.
    Cancelled(Rank),
    /// Members that the call needs are lost.
    Lost(Ranks),
    /// A process could not continue the call; a member, if there is a rank.
    Failed(Option<Rank>, String),
}

impl AbortCause {
    pub(crate) fn into_error(self, nth: u64) -> CommError {
        match self {
            Self::Mismatch(one, other) => CommError::Mismatch { nth, one, other },
            Self::Cancelled(by) => CommError::Cancelled { nth, by },
            Self::Lost(ranks) => CommError::lost(ranks),
            Self::Failed(by, why) => CommError::Failed { nth, by, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use libi_core::loss::{LossKind, LossReason};

    use super::*;
    use crate::message::{Kind, Length};

    fn lost(ranks: &[u32]) -> String {
        CommError::lost(ranks.iter().copied().map(Rank).collect()).to_string()
    }

    #[test]
    fn a_loss_names_the_ranks_and_says_what_still_works() {
        assert_eq!(
            lost(&[3]),
            "rank 3 is lost, and this call needs it; calls that do not need it still work"
        );
        assert_eq!(
            lost(&[3, 5, 6, 7]),
            "ranks 3, 5-7 are lost, and this call needs them; calls that do not need them still work"
        );
    }

    #[test]
    fn a_loss_says_how_members_were_lost() {
        let loss = |rank, host: &str, how| Loss {
            ranks: [Rank(rank)].into_iter().collect(),
            reason: LossReason { host: host.to_owned(), is_leader: false, how },
        };
        let text = |why: Vec<Loss>| {
            let ranks = why.iter().flat_map(|loss| loss.ranks.iter()).collect();
            CommError::PeerLost { ranks, why }.to_string()
        };
        assert_eq!(
            text(vec![loss(9, "n0010", LossKind::Killed(11))]),
            "rank 9 is lost, and this call needs it (rank 9 on n0010 was killed by signal 11); \
             calls that do not need it still work"
        );
        let many = (0..5).map(|rank| loss(rank, "n1", LossKind::Exited(1))).collect();
        assert!(text(many).contains("rank 2 on n1 exited 1; and 2 more losses);"));
    }

    #[test]
    fn a_mismatch_names_two_members_and_what_each_called() {
        let call = |kind| CallSignature { kind, root: None, length: Length::Unknown };
        let one = (Rank(0), call(Kind::Barrier));
        let other = (Rank(3), call(Kind::Fence));
        assert_eq!(
            CommError::Mismatch { nth: 7, one, other }.to_string(),
            "collective call 7 does not match: rank 0 called barrier, rank 3 called fence; \
             all members must make the same collective calls in the same order"
        );
    }

    #[test]
    fn a_failure_elsewhere_names_the_process_and_its_error() {
        let failed = |by| CommError::Failed { nth: 3, by, why: CommError::OutOfMemory(9).to_string() };
        assert_eq!(
            failed(Some(Rank(4))).to_string(),
            "collective call 3 failed at rank 4: cannot allocate 9 bytes for the data of this call; \
             the next collective call can succeed"
        );
        assert!(failed(None).to_string().contains("failed at the front end, or the agent of a host: "));
    }

    #[test]
    fn a_call_for_the_master_names_the_member_that_is_not() {
        assert_eq!(
            CommError::NotMaster(Rank(4)).to_string(),
            "rank 4 is not the master, and only the master exchanges messages with the front end; \
             forward them through the master"
        );
        assert_eq!(CommError::TimedOut { what: "the barrier" }.to_string(), "the barrier timed out");
    }
}
