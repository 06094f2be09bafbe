//! What the queue and its user say to each other of one launch.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::HostIndex;
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
