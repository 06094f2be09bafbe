//! What can keep a remote shell from letting us in, as one who watches a login distinguishes it.

use std::fmt;

use super::Reached;
use crate::shell_error::{self, ShellError};

/// What stood in the way of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// The program does not accept its options or its configuration.
    Options,
    /// The name of the host has no address.
    Unresolved,
    /// There is no way to the address.
    NoRoute,
    /// Nothing has answered at the address.
    NoAnswer,
    /// Something has answered that nobody listens there.
    Refused,
    /// There is a connection, and nothing greets us on it.
    Mute,
    /// The connection was closed before the login: too many were coming in, or we are not welcome.
    TurnedAway,
    /// There is no algorithm that both sides know and allow.
    NoCommonAlgorithm,
    /// The key of the host is not known here.
    HostKeyUnknown,
    /// The key of the host is another one than it was.
    HostKeyChanged,
    /// So many keys were offered that the other side did not wait for the right one.
    TooManyKeys,
    /// We are not let in.
    Denied,
}

impl Trouble {
    /// What a line says, if it is one of those that are known: by the words that [verdicts](crate::shell_error) go by.
    pub(super) fn recognise(line: &str) -> Option<Self> {
        Some(match shell_error::of_line(line)? {
            ShellError::NameUnknown | ShellError::NameService => Self::Unresolved,
            ShellError::NoRoute | ShellError::NoPort => Self::NoRoute,
            ShellError::TimedOut if line.contains("during banner exchange") => Self::Mute,
            ShellError::TimedOut => Self::NoAnswer,
            ShellError::ConnectionRefused => Self::Refused,
            ShellError::HungUp => Self::TurnedAway,
            ShellError::NoAlgorithm => Self::NoCommonAlgorithm,
            ShellError::HostKeyUnknown => Self::HostKeyUnknown,
            ShellError::HostKeyChanged => Self::HostKeyChanged,
            ShellError::NotLetIn if line.contains("Too many authentication failures") => Self::TooManyKeys,
            ShellError::NotLetIn => Self::Denied,
            ShellError::BadOptions => Self::Options,
            // That is behind a login, or says nothing of it.
            ShellError::Broken
            | ShellError::NoDirectory
            | ShellError::NotExecutable
            | ShellError::NotFound => {
                return None;
            }
            ShellError::NotPrivileged | ShellError::LoginEnded => return None,
            ShellError::ShellMissing | ShellError::ShellFailed => return None,
        })
    }

    /// How far a login must have come for this to be in its way.
    pub(super) fn came_to(self) -> Reached {
        match self {
            Self::Options | Self::Unresolved | Self::NoRoute | Self::NoAnswer | Self::Refused => {
                Reached::Nothing
            }
            Self::Mute | Self::TurnedAway | Self::NoCommonAlgorithm => Reached::Connection,
            Self::HostKeyUnknown | Self::HostKeyChanged => Reached::Connection,
            Self::TooManyKeys | Self::Denied => Reached::Keys,
        }
    }

    /// One word for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Options => "options",
            Self::Unresolved => "unresolved",
            Self::NoRoute => "no-route",
            Self::NoAnswer => "no-answer",
            Self::Refused => "refused",
            Self::Mute => "mute",
            Self::TurnedAway => "turned-away",
            Self::NoCommonAlgorithm => "no-common-algorithm",
            Self::HostKeyUnknown => "host-key-unknown",
            Self::HostKeyChanged => "host-key-changed",
            Self::TooManyKeys => "too-many-keys",
            Self::Denied => "denied",
        }
    }
}

/// Said of a host.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Options => "cannot be called with these options",
            Self::Unresolved => "has a name without an address",
            Self::NoRoute => "cannot be reached",
            Self::NoAnswer => "does not answer",
            Self::Refused => "refuses the connection",
            Self::Mute => "accepts the connection and says nothing",
            Self::TurnedAway => "closes the connection before the login",
            Self::NoCommonAlgorithm => "has no algorithm in common with us",
            Self::HostKeyUnknown => "has a key that is not known here",
            Self::HostKeyChanged => "has another key than it had",
            Self::TooManyKeys => "was offered too many keys",
            Self::Denied => "does not let us in",
        })
    }
}
