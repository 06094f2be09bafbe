//! Which programs get standard input from the front end.

use serde::{Deserialize, Serialize};

/// Which programs get standard input from the front end, by `Session::write`; that of all others is
/// empty. From `bool`, `true` is [`Master`](Self::Master).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StandardInput {
    /// No program.
    #[default]
    Empty,
    /// The master.
    Master,
    /// All programs, each of which gets all of it; what the slowest has not read is at most one
    /// window. This needs an [`Agent`](super::Agent) on each host.
    All,
}

impl From<bool> for StandardInput {
    fn from(is_kept: bool) -> Self {
        if is_kept { Self::Master } else { Self::Empty }
    }
}
