//! What a back-end describes: the process that is started here so that a program starts on a host.

use libi_core::dist::{EnvVar, OsBytes};

use crate::exit_trailer::TrailerTag;

/// The process to start here so that a program starts on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnSpec {
    /// Program to start on this machine.
    pub program: OsBytes,
    /// Its arguments.
    pub args: Vec<OsBytes>,
    /// Variables to set, in addition to the environment of the launching process.
    pub env: Vec<EnvVar>,
    /// Working directory; `None` keeps the current one.
    pub cwd: Option<OsBytes>,
    /// The first link to the process.
    pub channel: Channel,
    /// Bytes to send on the channel before everything else.
    pub initial_input: Vec<u8>,
    /// Tag of the line by which the host reports the program's exit status on the channel, if it
    /// does. Then the exit status of the spawned process says nothing about the program.
    pub trailer: Option<TrailerTag>,
    /// Whether libi's own client of ssh may do what the process would do.
    pub client: Option<ClientUse>,
}

/// How libi's own client of ssh may do what a process would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientUse {
    /// The client: a path, or a name that is looked for beside this program, then in `PATH`.
    pub program: OsBytes,
    /// Whether nothing else will do.
    pub required: bool,
    /// Whether a key exchange that is not safe from quantum computers will do.
    pub fast: bool,
}

/// The first link to a started process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A socket that the process inherits as [`LINK_FD`](super::LINK_FD). Its standard output and error are
    /// captured separately.
    Socket,
    /// None: the process takes no part in the session. Its standard input is empty; standard output
    /// and error are captured.
    None,
    /// Standard input and output. Only its standard error is captured separately.
    Streams,
    /// None: each started program connects to the rendezvous. The process gets the
    /// [`StartTicket`](crate::machine::StartTicket) on its standard input, which is closed behind it;
    /// standard output and error are captured.
    Rendezvous,
}

/// A launch that the back-end cannot express. A retry cannot succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The remote shell would parse the text as an option.
    #[error("the {what} {text:?} begins with a dash, which a remote shell takes for an option")]
    OptionLike {
        /// Which part it is: `host`, `user`, `port`.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// The program named has no option for the part named.
    #[error("{0} has no option for a {1}")]
    NoOption(OsBytes, &'static str),
}
