//! The types of the queue's interface that concern one launch.

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
    /// Make this launch, which counts as in flight from now on.
    Launch(Launch),
    /// Nothing to launch before this time, when a host's back-off ends.
    WaitUntil(Instant),
    /// Nothing to launch: every host of this node is in flight, up, given to a child, or given up.
    Idle,
}

/// One launch of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Launch {
    /// The host.
    pub host: HostIndex,
    /// The number of this launch among those of the host.
    pub attempt: Attempt,
}

/// Numbers the launches of a host. Later attempts compare greater, whichever node makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The number of times the host was queued again because of a loss; its former owner may have
    /// tried it meanwhile.
    pub lost: u16,
    /// The number of failed launches since.
    pub failed: u16,
    /// Whether the first launch was withdrawn before it had its turn. It may have reached the host
    /// all the same, so such a host may be asked once more than others.
    pub withdrawn: bool,
}

impl Attempt {
    /// The next attempt of a host that was lost, or may have been tried elsewhere: it invalidates
    /// all earlier attempts, and does not count their failures.
    #[must_use]
    pub fn after_loss(self) -> Self {
        Self { lost: self.lost.saturating_add(1), failed: 0, ..self }
    }

    /// The next attempt after one that has failed.
    #[must_use]
    pub fn after_failure(self) -> Self {
        Self { failed: self.failed.saturating_add(1), ..self }
    }

    /// A number that no other attempt at the host has, if it has failed less than 32,768 times.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from(self.lost) << 16 | u32::from(self.failed << 1) | u32::from(self.withdrawn)
    }
}

/// What to do with a host whose launch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Launch it again after this much time.
    After(Duration),
    /// Give it up.
    Never,
}

/// A call that does not fit the state of the host it names; the queue is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// Only the launch in flight can become ready or fail.
    #[error("{} has no launch {:?} in flight here", .0.host, .0.attempt)]
    NotInFlight(Launch),
    /// Only a child that is up can be lost.
    #[error("{0} is not a child that is up here")]
    NotUp(HostIndex),
    /// Only a host of a child's share can come back from that child.
    #[error("{0} is not in the share of {1}")]
    NotGiven(HostIndex, HostIndex),
    /// A host is in one place at a time.
    #[error("{0} is in this queue already: waiting, in flight, up, or in a child's share")]
    AlreadyHere(HostIndex),
}

/// What a ready child gets from its launcher: hosts, and an estimate of what launching them costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The hosts that the child has to launch from now on.
    pub hosts: HostRuns,
    /// The next attempt at those hosts for which it is not the first.
    pub attempts: BTreeMap<HostIndex, Attempt>,
    /// The launcher's estimate of the costs.
    pub estimate: Estimate,
}
