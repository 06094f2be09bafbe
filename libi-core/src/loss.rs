//! How members that were up were lost.
//!
//! The launch half sees how a process or a host ends, and passes it to the communication half with the
//! link that is closed. There it goes to all other members with the lost ranks.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::ranks::Ranks;

/// Lost members, and how they were lost: all that were lost together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The lost members.
    pub ranks: Ranks,
    /// How they were lost.
    pub reason: LossReason,
}

/// How members were lost together, as the process above them has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossReason {
    /// The host of the process that was lost.
    pub host: String,
    /// Whether the process led its host, so that all members there were lost with it, and those below that
    /// have found no other parent.
    pub is_leader: bool,
    /// How it was lost.
    pub how: LossKind,
}

/// How a process was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LossKind {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// Nothing was heard of its host for too long.
    Silent,
    /// The link to it has closed, and how it has ended is not known.
    Closed,
}

impl fmt::Display for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited {status}"),
            Self::Killed(signal) => write!(f, "was killed by signal {signal}"),
            Self::Silent => f.write_str("was silent for too long"),
            Self::Closed => f.write_str("closed its connection"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, reason: LossReason { host, is_leader, how } } = self;
        match how {
            _ if !is_leader => write!(f, "{ranks} on {host} {how}"),
            LossKind::Exited(_) | LossKind::Killed(_) => {
                write!(f, "{ranks}: the process that led {host} {how}")
            }
            LossKind::Silent | LossKind::Closed => write!(f, "{ranks}: {host} {how}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::ids::Rank;

    #[test]
    fn a_loss_names_ranks_host_and_how_they_were_lost() {
        let loss = |ranks: &[u32], is_leader, how| {
            let ranks = ranks.iter().copied().map(Rank).collect();
            Loss { ranks, reason: LossReason { host: "n0010".into(), is_leader, how } }.to_string()
        };
        assert_eq!(loss(&[9], false, LossKind::Killed(11)), "rank 9 on n0010 was killed by signal 11");
        assert_eq!(loss(&[9], false, LossKind::Closed), "rank 9 on n0010 closed its connection");
        assert_eq!(loss(&[8, 9], true, LossKind::Silent), "ranks 8-9: n0010 was silent for too long");
        assert_eq!(loss(&[8], true, LossKind::Exited(1)), "rank 8: the process that led n0010 exited 1");
    }
}
