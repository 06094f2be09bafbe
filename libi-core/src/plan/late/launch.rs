//! What the queue and its user say to each other of one launch.

use alloc::collections::BTreeMap;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::HostIndex;
use crate::plan::estimate::Estimate;
use crate::plan::runs::HostRuns;
use crate::time::Instant;

/// What a launcher should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make this launch, which is in flight from now on.
    Launch(Launch),
    /// Nothing before this time, when a host's back-off ends.
    WaitUntil(Instant),
    /// Nothing: every host of this node is in flight, up, given to a child, or given up.
    Idle,
}

/// One launch of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Launch {
    /// Which host.
    pub host: HostIndex,
    /// Which of its launches.
    pub attempt: Attempt,
}

/// Which launch of a host this is. Later attempts are greater, whichever nodes make them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// How often the host was queued again because of a loss; what it was given to may have tried meanwhile.
    pub lost: u16,
    /// How often its launch has failed since.
    pub failed: u16,
}

/// What becomes of a host whose launch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Launch it again, not before this much time has passed.
    After(Duration),
    /// It is given up.
    Never,
}

/// A call that does not fit the state of the host it names; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// Only the launch in flight can become ready or fail.
    #[error("{} has no launch {:?} in flight here", .0.host, .0.attempt)]
    NotInFlight(Launch),
    /// Only a child that was ready can be lost.
    #[error("{0} is not a child that is up here")]
    NotUp(HostIndex),
    /// Only what a child was given can come back from it.
    #[error("{0} is not in the share of {1}")]
    NotGiven(HostIndex, HostIndex),
    /// A host is in one place at a time.
    #[error("{0} is here already: waiting, in flight, up, or in a child's share")]
    AlreadyHere(HostIndex),
}

/// What a child that is ready gets from its launcher: hosts, and what launching them should cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The hosts that are the child's to launch from now on.
    pub hosts: HostRuns,
    /// The next attempt at those of them for which it is not the first.
    pub attempts: BTreeMap<HostIndex, Attempt>,
    /// What its launcher believes of the costs.
    pub estimate: Estimate,
}
