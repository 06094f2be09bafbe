//! Errors of a login, in the distinctions that a diagnosis needs.

use std::fmt;

use super::LoginStage;
use crate::shell_error::{self, ShellError};

/// What a login failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoginError {
    /// The program rejects its options or its configuration.
    BadOptions,
    /// The host name has no address.
    NameUnknown,
    /// No route to the address.
    NoRoute,
    /// No answer from the address.
    TimedOut,
    /// Nothing listens on the port.
    ConnectionRefused,
    /// The connection was accepted, and no banner arrived.
    NoBanner,
    /// The server closed the connection before authentication: it is under load or rejects this
    /// client.
    ClosedBeforeLogin,
    /// Client and server have no allowed algorithm in common.
    NoCommonAlgorithm,
    /// The host's key is unknown here.
    HostKeyUnknown,
    /// The host's key differs from the known one.
    HostKeyChanged,
    /// The server closed the connection because too many keys were offered.
    TooManyKeys,
    /// Authentication failed.
    Denied,
}

impl LoginError {
    /// Classifies a line, by the rules of [`shell_error`].
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
            // These occur after the login, or say nothing about it.
            ShellError::ConnectionLost
            | ShellError::DirectoryNotFound
            | ShellError::ProgramNotExecutable
            | ShellError::ProgramNotFound
            | ShellError::InterpreterMissing
            | ShellError::LibraryMissing(_) => {
                return None;
            }
            ShellError::NoPrivilegedPort | ShellError::LoginEnded => return None,
            ShellError::ShellNotFound | ShellError::ShellFailed => return None,
        })
    }

    /// How far the login had come when this occurred.
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

    /// Stable identifier for machine-readable output.
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

/// A predicate, to follow the name of a host.
impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadOptions => "cannot be called with these options",
            Self::NameUnknown => "has an unknown name",
            Self::NoRoute => "cannot be reached",
            Self::TimedOut => "does not answer",
            Self::ConnectionRefused => "refuses the connection",
            Self::NoBanner => "accepts the connection and sends nothing",
            Self::ClosedBeforeLogin => "closes the connection before the login",
            Self::NoCommonAlgorithm => "has no algorithm in common with this host",
            Self::HostKeyUnknown => "has an unknown key",
            Self::HostKeyChanged => "has a different key than before",
            Self::TooManyKeys => "was offered too many keys",
            Self::Denied => "denies the login",
        })
    }
}
