//! What follows when members are lost.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What follows when a member ends or is lost while the session is up. Its messages, its keys and the
/// session's events are the same with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnLoss {
    /// The default: collective calls that need the member fail, naming it. All later ones do.
    #[default]
    Fail,
    /// Collective calls go on among the members that are left. Each call says which members
    /// were missing, and says the same to all of them. A call whose root is lost fails.
    ///
    /// A member that ends is lost in the same way, and what it has given to calls that others have not
    /// completed is lost with it. One that ends in order drains before, which waits until all others have
    /// completed what it has.
    ///
    /// A member keeps what it has given to a call until all members have completed the call; it
    /// completes scatters, exchanges, rings and scans only when all members have their data.
    ///
    /// A member that is lost may be started again, on its host, if that is led by no member, or on another one
    /// if the host is lost: when the front end asks for it, or [automatically](crate::options::LaunchOptions::restarts).
    ///
    /// Hosts that were launched by a lost one find another parent: they connect to one, or it reaches them
    /// through the back-end, where nothing else comes through or links
    /// [stay in the channels](crate::machine::LinkPolicy::Channel). They are lost with it if it was the first
    /// host, where one process has started all of them, and with merged output, or standard input for all
    /// members.
    Continue,
    /// The session ends, if the member is lost, or has ended otherwise than with exit status 0.
    /// Members receive SIGTERM, and are killed after two seconds.
    End,
}

/// The names of the variants, as users write them.
const NAMES: [(&str, OnLoss); 3] =
    [("fail", OnLoss::Fail), ("continue", OnLoss::Continue), ("end", OnLoss::End)];

impl fmt::Display for OnLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, value)| value == self);
        f.pad(name.map_or("", |(name, _)| name))
    }
}

/// The text is not the name of an [`OnLoss`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown reaction to a loss {0:?}: expected fail, continue or end")]
pub struct OnLossError(String);

impl FromStr for OnLoss {
    type Err = OnLossError;

    fn from_str(text: &str) -> Result<Self, OnLossError> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| OnLossError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, value) in NAMES {
            assert_eq!((value.to_string().as_str(), name.parse()), (name, Ok(value)));
        }
        assert!("Fail".parse::<OnLoss>().is_err_and(|error| error.to_string().contains("\"Fail\"")));
    }
}
