//! What can keep a remote shell from letting us in, as one who watches a login distinguishes it.

use std::fmt;

use super::LoginStage;
use crate::shell_error::{self, ShellError};

/// What stood in the way of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoginError {
    /// The program does not accept its options or its configuration.
    BadOptions,
    /// The name of the host has no address.
    NameUnknown,
    /// There is no way to the address.
    NoRoute,
    /// Nothing has answered at the address.
    TimedOut,
    /// Something has answered that nobody listens there.
    ConnectionRefused,
    /// There is a connection, and nothing greets us on it.
    NoBanner,
    /// The connection was closed before the login: too many were coming in, or we are not welcome.
    ClosedBeforeLogin,
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

impl LoginError {
    /// What a line says, if it is one of those that are known: by the words that [verdicts](crate::shell_error) go by.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        Some(match shell_error::of_line(line)? {
            ShellError::NameUnknown | ShellError::NameService => Self::NameUnknown,
            ShellError::NoRoute | ShellError::NoPort => Self::NoRoute,
            ShellError::TimedOut if line.contains("during banner exchange") => Self::NoBanner,
            ShellError::TimedOut => Self::TimedOut,
            ShellError::ConnectionRefused => Self::ConnectionRefused,
            ShellError::ClosedBeforeLogin => Self::ClosedBeforeLogin,
            ShellError::NoCommonAlgorithm => Self::NoCommonAlgorithm,
            ShellError::HostKeyUnknown => Self::HostKeyUnknown,
            ShellError::HostKeyChanged => Self::HostKeyChanged,
            ShellError::LoginDenied if line.contains("Too many authentication failures") => Self::TooManyKeys,
            ShellError::LoginDenied => Self::Denied,
            ShellError::BadOptions => Self::BadOptions,
            // That is behind a login, or says nothing of it.
            ShellError::ConnectionLost
            | ShellError::DirectoryNotFound
            | ShellError::ProgramNotExecutable
            | ShellError::ProgramNotFound => {
                return None;
            }
            ShellError::NoPrivilegedPort | ShellError::LoginEnded => return None,
            ShellError::ShellNotFound | ShellError::ShellFailed => return None,
        })
    }

    /// How far a login must have come for this to be in its way.
    pub(super) fn stage(self) -> LoginStage {
        match self {
            Self::BadOptions
            | Self::NameUnknown
            | Self::NoRoute
            | Self::TimedOut
            | Self::ConnectionRefused => LoginStage::Nothing,
            Self::NoBanner | Self::ClosedBeforeLogin | Self::NoCommonAlgorithm => LoginStage::Connection,
            Self::HostKeyUnknown | Self::HostKeyChanged => LoginStage::Connection,
            Self::TooManyKeys | Self::Denied => LoginStage::Keys,
        }
    }

    /// One word for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BadOptions => "options",
            Self::NameUnknown => "unresolved",
            Self::NoRoute => "no-route",
            Self::TimedOut => "no-answer",
            Self::ConnectionRefused => "refused",
            Self::NoBanner => "mute",
            Self::ClosedBeforeLogin => "turned-away",
            Self::NoCommonAlgorithm => "no-common-algorithm",
            Self::HostKeyUnknown => "host-key-unknown",
            Self::HostKeyChanged => "host-key-changed",
            Self::TooManyKeys => "too-many-keys",
            Self::Denied => "denied",
        }
    }
}

/// Said of a host.
impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadOptions => "cannot be called with these options",
            Self::NameUnknown => "has a name without an address",
            Self::NoRoute => "cannot be reached",
            Self::TimedOut => "does not answer",
            Self::ConnectionRefused => "refuses the connection",
            Self::NoBanner => "accepts the connection and says nothing",
            Self::ClosedBeforeLogin => "closes the connection before the login",
            Self::NoCommonAlgorithm => "has no algorithm in common with us",
            Self::HostKeyUnknown => "has a key that is not known here",
            Self::HostKeyChanged => "has another key than it had",
            Self::TooManyKeys => "was offered too many keys",
            Self::Denied => "does not let us in",
        })
    }
}
