//! How a process is started on a host: the contract of back-ends, and those there are.
//!
//! # What a back-end provides
//! A back-end is asked for a [`SpawnSpec`]: which process to start *here* so that a program starts *there*. It does nothing
//! itself: no process, no file, no clock. Whoever launches follows the recipe, watches the process, and ends it.
//!
//! 1. The process that the recipe starts stands for the one on the host. It lives as long as that does, and its exit
//!    status is that one's, as well as the means allow: a remote shell says 255 for itself. Where it has none, the host says on
//!    the channel how the program has ended ([`SpawnSpec::trailer`]).
//! 2. There is a [`Channel`] between the two, for bytes in both directions, untouched and in order. Other text may come
//!    before ours on it, from whatever starts a shell there; our preamble is found behind it.
//! 3. The program finds in its environment, under [`LINK_ENV`], where its end of the channel is.
//! 4. When the process here is killed, or whoever started it, the channel ends over there. That is
//!    how a member learns that nobody wants it any more.
//! 5. Executable, arguments, variables and directory arrive as they are, whatever bytes they hold.
//! 6. Nothing secret is in the recipe: everybody on this machine can read the arguments of a process.
//!
//! # What it may assume
//! Names, users and ports have been read by [`libi_core::hosts`], words hold no NUL. The recipe is followed in
//! the environment of the launching process, which may be the leader of another host: so a back-end is a value that travels
//! ([`Backend`]), and refers to nothing that only the front end has.
//!
//! # Which there are
//!
//! | back-end | a host is | a launch costs about |
//! |---|---|---|
//! | [`Local`] | a name; everything runs on this machine | half a millisecond |
//! | [`Ssh`] | whatever OpenSSH's `ssh` reaches | tenths of a second |
//! | [`Rsh`] | whatever `rsh` reaches, and for whoever trusts the network | hundredths of a second |
//! | [`Shell`] | whatever another program called like `ssh` or `rsh` reaches | what the shell takes |
//!
//! A host's further members are started by its leader, always as [`Local`] does.

mod local;
mod rsh;
mod shell;
mod ssh;

use std::fmt;

use libi_core::cost::Cost;
use libi_core::dist::{EnvVar, OsBytes};
use serde::{Deserialize, Serialize};

pub use local::Local;
pub use rsh::{Rsh, without_progress};
pub use shell::Shell;
pub use ssh::{Ssh, SshHosts, SshProfile, UnknownProfile};

use crate::exit_trailer::TrailerTag;
use crate::machine::{HostSpec, Program};
use crate::quote::CommandWriter;

/// The variable that tells a program where its link is: the number of a socket, or [`LINK_STDIO`].
pub const LINK_ENV: &str = "LIBI_LINK";
/// The value of [`LINK_ENV`] for standard input and output.
pub const LINK_STDIO: &str = "stdio";
/// The same where standard error is the same as standard output, and the program has to keep it out of its link.
pub const LINK_STDIO_STDERR: &str = "stdio+stderr";
/// The number of the socket that a program started on this machine inherits.
pub const LINK_FD: u16 = 3;

/// What to start here so that a program starts on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnSpec {
    /// What is started on this machine.
    pub program: OsBytes,
    /// Its arguments.
    pub args: Vec<OsBytes>,
    /// Variables to set for it, in addition to those of whoever launches.
    pub env: Vec<EnvVar>,
    /// Where to start it; where we are, if nothing is said.
    pub cwd: Option<OsBytes>,
    /// What its first link is.
    pub channel: Channel,
    /// What is to be said on the channel before everything else.
    pub initial_input: Vec<u8>,
    /// If the host says on the channel how the program has ended: the mark of the line that does. Then the status of what
    /// is started here means nothing for the program.
    pub trailer: Option<TrailerTag>,
}

/// The first link to a started process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A socket that it inherits as [`LINK_FD`]; its standard output and error are its own.
    Socket,
    /// Its standard input and output; only its standard error is its own.
    Streams,
}

/// A launch that a back-end cannot make, and never will.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The remote shell would take it for something else.
    #[error("the {what} {text:?} begins with a dash, which a remote shell takes for an option")]
    OptionLike {
        /// What it was to be.
        what: &'static str,
        /// How it reads.
        text: String,
    },
    /// This back-end knows no way to say it.
    #[error("{0} has no option for a {1}")]
    NoOption(OsBytes, &'static str),
}

/// A back-end, as it travels to everybody who launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backend {
    /// Everything on this machine.
    Local(Local),
    /// A program that is called like `ssh` and `rsh`.
    Shell(Shell),
    /// `ssh`, as OpenSSH has it.
    Ssh(Ssh),
    /// `rsh`.
    Rsh(Rsh),
}

/// Programs that send everything as it is, by which a [`Shell`] may be called.
const PLAINTEXT_SHELLS: [&str; 4] = ["rsh", "remsh", "rsh-redone-rsh", "netkit-rsh"];

impl Backend {
    /// Whether others on the network can read what goes over its channels, and change it.
    #[must_use]
    pub fn is_plaintext(&self) -> bool {
        match self {
            Self::Local(_) | Self::Ssh(_) => false,
            Self::Rsh(_) => true,
            Self::Shell(shell) => {
                let name = shell.program.as_bytes().rsplit(|byte| *byte == b'/').next();
                PLAINTEXT_SHELLS.iter().any(|operand| name == Some(operand.as_bytes()))
            }
        }
    }

    /// Whether hosts say how their programs have ended, because what is started here does not know.
    #[must_use]
    pub fn has_exit_trailer(&self) -> bool {
        matches!(self, Self::Rsh(_))
    }

    /// Takes the mark of a session, if it needs one.
    #[must_use]
    pub fn with_trailer_tag(self, trailer_tag: TrailerTag) -> Self {
        match self {
            Self::Rsh(rsh) => Self::Rsh(Rsh { trailer_tag, ..rsh }),
            other => other,
        }
    }
}

impl Default for Backend {
    fn default() -> Self {
        Self::Local(Local)
    }
}

/// What every back-end provides; see the [module](self).
pub trait LaunchMethod {
    /// What a launch usually costs, to begin with; measurements take its place.
    fn default_cost(&self) -> Cost;

    /// What to start here for this program to start on that host.
    ///
    /// # Errors
    /// The launch cannot be expressed.
    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError>;

    /// How many hosts whoever launches can hold at a time; no limit of its own if nothing is said.
    fn max_children(&self) -> Option<usize> {
        None
    }
}

impl LaunchMethod for Backend {
    fn default_cost(&self) -> Cost {
        match self {
            Self::Local(local) => local.default_cost(),
            Self::Shell(shell) => shell.default_cost(),
            Self::Ssh(ssh) => ssh.default_cost(),
            Self::Rsh(rsh) => rsh.default_cost(),
        }
    }

    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError> {
        match self {
            Self::Local(local) => local.spawn_spec(host, program),
            Self::Shell(shell) => shell.spawn_spec(host, program),
            Self::Ssh(ssh) => ssh.spawn_spec(host, program),
            Self::Rsh(rsh) => rsh.spawn_spec(host, program),
        }
    }

    fn max_children(&self) -> Option<usize> {
        match self {
            Self::Local(_) | Self::Shell(_) | Self::Ssh(_) => None,
            Self::Rsh(rsh) => rsh.max_children(),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(_) => f.write_str("local"),
            Self::Shell(shell) => write!(f, "{}", shell.program),
            Self::Ssh(ssh) => write!(f, "{}", ssh.program),
            Self::Rsh(rsh) => write!(f, "{}", rsh.program),
        }
    }
}

/// A variable of ours: both parts are known to be words.
fn env_var(name: &str, value: &str) -> Vec<EnvVar> {
    let word = |text: &str| OsBytes::try_from(text).ok();
    let env_var = word(name).zip(word(value)).and_then(|(name, value)| EnvVar::new(name, value).ok());
    env_var.into_iter().collect()
}

/// What a remote shell is to be told to run, if our link is its standard streams.
fn remote_command(program: &Program, written: CommandWriter) -> OsBytes {
    let mut env = program.env.clone();
    env.extend(env_var(LINK_ENV, LINK_STDIO));
    written(program.cwd.as_ref(), &env, &program.executable, &program.args)
}

/// A word that no option parser takes for an option.
fn operand(what: &'static str, text: &str) -> Result<OsBytes, SpecError> {
    let refused = || SpecError::OptionLike { what, text: text.to_owned() };
    if text.starts_with('-') {
        return Err(refused());
    }
    OsBytes::try_from(text).map_err(|_| refused())
}

#[cfg(test)]
pub(crate) mod tests;
