//! What can keep a remote shell from letting us in, and by which words it is recognised.
//!
//! The words are those of OpenSSH; of the C library, which says of addresses and connections the same for every program; and
//! of what calls itself like `ssh` and speaks like it.

use std::fmt;

use super::Reached;

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
    /// What a line says, if it is one of those that are known.
    pub(super) fn recognise(line: &str) -> Option<Self> {
        /// In this order: of two that a line has in it the first counts.
        const WORDS: [(&str, Trouble); 31] = [
            ("Could not resolve hostname", Trouble::Unresolved),
            ("Name or service not known", Trouble::Unresolved),
            ("Temporary failure in name resolution", Trouble::Unresolved),
            ("Unknown host", Trouble::Unresolved),
            ("during banner exchange", Trouble::Mute),
            ("Connection refused", Trouble::Refused),
            ("No route to host", Trouble::NoRoute),
            ("Network is unreachable", Trouble::NoRoute),
            ("Host is down", Trouble::NoRoute),
            ("Connection timed out", Trouble::NoAnswer),
            ("Operation timed out", Trouble::NoAnswer),
            ("REMOTE HOST IDENTIFICATION HAS CHANGED", Trouble::HostKeyChanged),
            ("has changed and you have requested strict checking", Trouble::HostKeyChanged),
            ("host key is known for", Trouble::HostKeyUnknown),
            ("Host key verification failed", Trouble::HostKeyUnknown),
            ("Unable to negotiate with", Trouble::NoCommonAlgorithm),
            ("no matching key exchange method", Trouble::NoCommonAlgorithm),
            ("Too many authentication failures", Trouble::TooManyKeys),
            ("Permission denied", Trouble::Denied),
            ("No supported authentication methods available", Trouble::Denied),
            ("kex_exchange_identification", Trouble::TurnedAway),
            ("ssh_exchange_identification", Trouble::TurnedAway),
            ("Exceeded MaxStartups", Trouble::TurnedAway),
            ("Connection closed by", Trouble::TurnedAway),
            ("Connection reset by", Trouble::TurnedAway),
            ("Bad configuration option", Trouble::Options),
            ("Bad owner or permissions on", Trouble::Options),
            ("Unsupported KEX algorithm", Trouble::Options),
            ("Bad SSH2 KexAlgorithms", Trouble::Options),
            ("unknown option", Trouble::Options),
            ("illegal option", Trouble::Options),
        ];
        WORDS.iter().find(|(words, _)| line.contains(words)).map(|(_, trouble)| *trouble)
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
