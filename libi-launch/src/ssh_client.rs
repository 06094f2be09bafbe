//! What a launching process and its *client of ssh* tell each other. The client is the program
//! `libi-ssh`: one process that holds the connections for which `ssh` needs a process each.
//!
//! # The socket of the client
//! The client inherits one end of a socket pair that keeps the bounds of messages
//! (`SOCK_SEQPACKET`) as [`CLIENT_FD`]. Each message is a [`ClientStart`], with four descriptors:
//! the pipes that are the start's standard input, output and error, and a socket of the
//! same kind for that start, on which the client answers.
//!
//! # The socket of a start
//!
//! | state | message or event | then |
//! |---|---|---|
//! | asked | [`Received`](ClientAnswer::Received) | the client lives |
//! | received | [`Taken`](ClientAnswer::Taken) | the client uses the streams; the launching process closes its copies |
//! | | [`Declined`](ClientAnswer::Declined) | over: the client has left the streams as they were, for an `ssh` |
//! | received, taken | [`Ended`](ClientAnswer::Ended) | over: what the command printed is in the streams |
//! | | the launching process closes its end | the client closes the connection, and the streams |
//! | | the client's end is closed without `Ended` | the client has ended |
//! | taken | [`Keep`](ClientRequest::Keep) | the connection outlives the socket of the start and that of the client |
//!
//! When the socket of the client is closed, it closes all connections but those to keep, and ends
//! with the last of them.

use libi_core::dist::OsBytes;
use serde::{Deserialize, Serialize};

/// The descriptor that the client inherits.
pub const CLIENT_FD: u16 = 3;
/// The name of the program.
pub const CLIENT_PROGRAM: &str = "libi-ssh";
/// How messages begin that the client prints about itself, in place of those that `ssh` has.
pub const CLIENT_SAYS: &str = "libi-ssh: ";
/// How a message goes on about a host that it cannot reach as configured, where nothing else may.
pub const CLIENT_DECLINES: &str = "cannot do what is configured: ";
/// What it is said to have met if it ends without its connections.
pub const CLIENT_HAS_ENDED: &str = "its process has ended";
/// The longest message. Longer commands are left to `ssh`.
pub const LONGEST_MESSAGE: usize = 96 << 10;

/// By which program connections of ssh are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SshClient {
    /// By libi's own client where that is installed and does all that is in effect for the host; by
    /// `ssh` otherwise.
    #[default]
    Auto,
    /// By `ssh`.
    OpenSsh,
    /// By libi's own client. Hosts for which it cannot do what is in effect fail.
    Builtin,
}

/// There is no client of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no client {0:?} of ssh; there are auto, openssh and builtin")]
pub struct UnknownClient(pub String);

impl std::str::FromStr for SshClient {
    type Err = UnknownClient;

    fn from_str(text: &str) -> Result<Self, UnknownClient> {
        match text {
            "auto" => Ok(Self::Auto),
            "openssh" => Ok(Self::OpenSsh),
            "builtin" => Ok(Self::Builtin),
            _ => Err(UnknownClient(text.to_owned())),
        }
    }
}

impl std::fmt::Display for SshClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::OpenSsh => "openssh",
            Self::Builtin => "builtin",
        })
    }
}

/// A start that the client may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStart {
    /// The program that would be started otherwise; it is asked what is in effect for the host.
    pub program: OsBytes,
    /// Its arguments.
    pub args: Vec<OsBytes>,
    /// Whether a key exchange that is not safe from quantum computers will do.
    pub fast: bool,
}

/// What the launching process says on the socket of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientRequest {
    /// The connection is to outlive the launching process.
    Keep,
}

/// What the client says on the socket of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAnswer {
    /// It has received the start.
    Received,
    /// It does what `ssh` would do.
    Taken,
    /// It does nothing.
    Declined {
        /// What it cannot do, as a clause: *`ProxyCommand` is set*.
        why: String,
        /// Whether it would say so of every other host as well.
        of_all: bool,
    },
    /// The exit status of the command, or 255 as of `ssh` for a failure that is printed.
    Ended(i32),
}

/// The bytes of a message; `None` if it is too long.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Option<Vec<u8>> {
    postcard::to_allocvec(message).ok().filter(|bytes| bytes.len() <= LONGEST_MESSAGE)
}

/// The message of these bytes; `None` if it is none.
#[must_use]
pub fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_and_nothing_else_does() {
        let declined = ClientAnswer::Declined { why: "`ProxyCommand` is set".to_owned(), of_all: false };
        for answer in [ClientAnswer::Received, ClientAnswer::Taken, declined, ClientAnswer::Ended(-1)] {
            let bytes = encode(&answer).unwrap();
            assert_eq!(decode(&bytes), Some(answer));
            assert_eq!(decode::<ClientAnswer>(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(decode::<ClientAnswer>(&[]), None);
        let long = OsBytes::new(vec![b'x'; LONGEST_MESSAGE]).unwrap();
        let start = ClientStart { program: long, args: Vec::new(), fast: false };
        assert_eq!(encode(&start), None);
    }

    #[test]
    fn a_client_is_named_as_it_is_printed() {
        for client in [SshClient::Auto, SshClient::OpenSsh, SshClient::Builtin] {
            assert_eq!(client.to_string().parse(), Ok(client));
        }
        assert!("putty".parse::<SshClient>().is_err());
    }

    #[test]
    fn a_host_that_is_declined_is_not_tried_again_and_one_that_is_lost_is() {
        let says = |what: &str| crate::shell_error::of_line(&format!("{CLIENT_SAYS}{what}")).unwrap();
        assert!(!says(&format!("{CLIENT_DECLINES}`ProxyCommand` is set")).is_retryable());
        for lost in [CLIENT_HAS_ENDED, "declined a host, and clone: Resource temporarily unavailable"] {
            assert!(says(lost).is_retryable() && says(lost).is_overload(), "{lost}");
        }
    }
}
