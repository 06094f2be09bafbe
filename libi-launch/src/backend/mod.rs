//! Launch methods: how a program is started on a host.
//!
//! # Contract
//! A [`LaunchMethod`] turns a host and a program into a [`SpawnSpec`]: the process to start *here*
//! so that the program starts *there*. It is pure: it starts no process, opens no file and reads no
//! clock. The launching process spawns the process that the spec describes, watches it and kills
//! it.
//!
//! 1. The spawned process stands for the program on the host. It lives as long as the program, and
//!    its exit status is the program's where the method allows that. (`ssh` exits with 255 for
//!    failures of its own.) Where the method has no exit status, the host reports the status on the
//!    channel; see [`SpawnSpec::trailer`].
//! 2. A [`Channel`] connects the two. It carries bytes in both directions, unchanged and in order.
//!    The remote shell may print other text before the first frame; the receiver skips everything
//!    before the protocol's preamble.
//! 3. The program finds its end of the channel in the environment variable [`LINK_ENV`].
//! 4. When the spawned process is killed, or the process that spawned it dies, the channel reaches
//!    EOF on the host. A member that reads EOF ends.
//! 5. Executable, arguments, variables and directory arrive unchanged, whatever bytes they hold.
//! 6. A spec holds no secret: all users of this machine can read the arguments of a process.
//!
//! # Back-ends that start many hosts at once
//! A [`BulkMethod`] describes one process, the *starter*, that starts the program on many hosts. It
//! has no channel to each of them:
//!
//! 1. The starter gets a [`StartTicket`](crate::machine::StartTicket) on its standard input, and
//!    copies it to the standard input of every program. It holds a secret, which the
//!    starter must not disclose.
//! 2. [`LINK_ENV`] is [`LINK_RENDEZVOUS`]. Each program connects to the rendezvous that the ticket
//!    names, and tells its host by [`BulkMethod::host_variable`].
//! 3. The starter lives as long as the last of its programs, and ends them when it is ended. It may
//!    report what a host has printed, and how its program has ended.
//!
//! # Assumptions
//! Host names, users and ports have been parsed by [`libi_core::hosts`]; words hold no NUL. A spec
//! is carried out in the environment of the launching process, which may be the leader of another
//! host. A [`Backend`] therefore is serializable and refers to nothing that exists only on the
//! front end.
//!
//! # Back-ends
//!
//! A back-end is a file here and a line in the list of [`Backend`]. What other code has to know
//! about it is a function of the trait.
//!
//! | back-end | reaches | typical cost of a launch |
//! |---|---|---|
//! | [`Local`] | this machine; host names are only names | half a millisecond |
//! | [`Ssh`] | hosts that OpenSSH's `ssh` reaches | tenths of a second |
//! | [`Rsh`] | hosts that `rsh` reaches, on a trusted network | hundredths of a second |
//! | [`Srun`] | nodes of a cluster with Slurm, all by one start | tenths of a second for all |
//! | [`Starter`] | hosts that `clush` or `flux` reaches, many by one start | that of the program |
//! | [`Shell`] | hosts that a program called like `ssh`, such as `qrsh`, reaches | that of the program |
//!
//! The leader of a host starts the host's further members, always as [`Local`] does.

mod local;
mod managers;
mod parse;
mod rsh;
mod shell;
mod spec;
mod srun;
mod ssh;
mod starter;
mod words;

use std::fmt;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use libi_core::hosts::HostList;
use serde::{Deserialize, Serialize};

pub use local::Local;
pub use managers::UnfitCommand;
pub use parse::BackendError;
pub use rsh::{Rsh, may_be_progress, without_progress};
pub use shell::Shell;
pub use spec::{Channel, ClientUse, SpawnSpec, SpecError};
pub use srun::{SlurmJob, Srun};
pub use ssh::{Ssh, SshHosts, SshProfile, UnknownProfile};
pub use starter::{HOST_ENV, Starter};

use self::words::{env_var, names_only, operand, remote_command};
use crate::exit_trailer::TrailerTag;
use crate::failure::Exit;
use crate::machine::{HostSpec, Program};
use crate::process::Signal;
use crate::quote::CommandWriter;
use crate::shell_error::ShellError;

/// Environment variable that tells a program where its link is: the number of a socket, or
/// [`LINK_STDIO`], or [`LINK_STDIO_STDERR`].
pub const LINK_ENV: &str = "LIBI_LINK";
/// Environment variable that asks a program to serve as a [helper](crate::machine::Effect::StartHelper):
/// the name of the orphan.
pub const HELPER_ENV: &str = "LIBI_HELPER";
/// What a helper prints when it is connected to the orphan. Bytes of that follow.
pub const HELPER_IS_CONNECTED: &[u8] = b"libi-helper\n";
/// Value of [`LINK_ENV`]: the link is standard input and output.
pub const LINK_STDIO: &str = "stdio";
/// Value of [`LINK_ENV`]: the link is standard input and output, and standard error leads to
/// standard output as well. The program has to keep its error output out of the link.
pub const LINK_STDIO_STDERR: &str = "stdio+stderr";
/// Value of [`LINK_ENV`]: the link is a connection to the rendezvous that the ticket on standard
/// input names.
pub const LINK_RENDEZVOUS: &str = "rendezvous";
/// File descriptor of the socket that a program started on this machine inherits.
pub const LINK_FD: u16 = 3;

/// Contract of every back-end; see the [module](self).
pub trait LaunchMethod: fmt::Display {
    /// The method for a program that the user names without further settings, if it is one of
    /// this kind. The back-ends are asked in the order of their list.
    fn called(program: &OsBytes) -> Option<Self>
    where
        Self: Sized;

    /// Expected cost of a launch. Measurements replace it.
    fn default_cost(&self) -> Cost;

    /// Describes the process to start here so that `program` starts on `host`.
    ///
    /// # Errors
    /// The back-end cannot express the launch.
    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError>;

    /// Maximum number of hosts that one process can have launched at a time; `None` means no limit
    /// of the back-end's own.
    fn max_children(&self) -> Option<usize> {
        None
    }

    /// How the back-end starts many hosts by one process; `None` if it starts one process for each
    /// host.
    fn bulk(&self) -> Option<&dyn BulkMethod> {
        None
    }

    /// Returns whether the start of one host may be ended at any time without harm to others.
    fn may_end_starts(&self) -> bool {
        self.bulk().is_none()
    }

    /// Returns whether everything is started on this machine, by no remote shell.
    fn is_local(&self) -> bool {
        false
    }

    /// Returns whether others on the network can read and change what its channels carry.
    fn is_plaintext(&self) -> bool {
        false
    }

    /// Returns whether hosts report the exit status of their programs on the channel, because the
    /// spawned process does not know it.
    fn has_exit_trailer(&self) -> bool {
        false
    }

    /// Sets the session's trailer tag, for back-ends that use one.
    fn set_trailer_tag(&mut self, _: TrailerTag) {}

    /// Takes over what the front end's environment tells, such as the job in which it runs.
    fn set_environment(&mut self, _variable: &dyn Fn(&str) -> Option<String>) {}

    /// What a user can do about an error of this remote shell at these hosts, of which `one` is the
    /// first; `None` where the advice is the same for all remote shells.
    fn advice(&self, _error: &ShellError, _hosts: &str, _one: &str) -> Option<String> {
        None
    }
}

/// What a line that a starter prints says.
#[derive(Clone, Debug, PartialEq)]
pub enum StarterLine<'a> {
    /// The programs on these hosts have ended.
    Ended(HostList, Exit),
    /// The program on this host has printed this, with the end of the line.
    Printed(&'a str, &'a [u8]),
    /// These hosts cannot be started; the line says why.
    Failed(HostList),
    /// The start waits for resources, for a time that [`BulkMethod::queue_timeout`] limits.
    Waits,
    /// The start waits no longer.
    Proceeds,
    /// All programs of the start will be ended for a reason that the line tells, and when.
    WillEndAll,
    /// All programs of the start are being ended; the line does not say why.
    EndsAll,
    /// The start has failed, and so would every other: this says why.
    Refused(&'a [u8]),
    /// Nothing that has to be kept.
    Nothing,
    /// Anything else: evidence for hosts that do not arrive.
    Other,
}

/// The part of the contract of back-ends that start many hosts by one process, the *starter*.
pub trait BulkMethod {
    /// The most hosts of one start.
    fn hosts_per_start(&self) -> usize;

    /// Describes the process to start here so that `program` starts on each of `hosts`. No other
    /// start has the name, so that what it starts can be found by it.
    ///
    /// # Errors
    /// The back-end cannot express the launch.
    fn bulk_spec(&self, hosts: &[&HostSpec], program: &Program, name: &str) -> Result<SpawnSpec, SpecError>;

    /// Describes the process to start here if a signal has ended the starter that got `program` and
    /// `name`: it ends what that one may have left. `None` if nothing can be left.
    fn cleanup_spec(&self, _program: &Program, _name: &str) -> Option<SpawnSpec> {
        None
    }

    /// The environment variable that tells a started program the name of its host, as in the list
    /// of hosts. Where it is not set, the host counts by the address at which a server of ssh was
    /// reached, or by the name that it reports.
    fn host_variable(&self) -> &str;

    /// Why this host cannot be started, if that is known before.
    fn refuses(&self, _host: &HostSpec) -> Option<String> {
        None
    }

    /// How long a start may wait for resources.
    fn queue_timeout(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether the starter may end all hosts if it cannot start one of them. A launch then awaits
    /// the fate of each host, and starts without a known one are divided.
    fn is_all_or_nothing(&self) -> bool {
        false
    }

    /// The signal that ends the starter when the process that has started it ends.
    fn death_signal(&self) -> Signal {
        Signal::KILL
    }

    /// Whether another process in the group of the starter ends what the starter has started, if
    /// that is killed. SIGKILL then goes to the starter alone.
    fn has_cleanup_process(&self) -> bool {
        false
    }

    /// What a line that the starter prints says, and about which host of the start: `hosts` are
    /// their names in the order of the spec. The last line may have no end.
    fn read_line<'a>(&self, _hosts: &'a [String], _line: &'a [u8]) -> StarterLine<'a> {
        StarterLine::Other
    }

    /// How the programs ended whose end was not reported, if the exit of the starter tells.
    fn unnamed_exit(&self, _starter: Exit) -> Option<Exit> {
        None
    }
}

/// Defines [`Backend`]. A back-end is a type that implements [`LaunchMethod`], in a file of its own,
/// and one line here.
macro_rules! backends {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A back-end as the user names it, sent to every process that launches hosts.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Backend {
            $($(#[$doc])* $name($name),)*
        }

        impl Backend {
            fn method(&self) -> &dyn LaunchMethod {
                match self {
                    $(Self::$name(method) => method,)*
                }
            }

            fn first_called(program: &OsBytes) -> Option<Self> {
                None$(.or_else(|| $name::called(program).map(Self::$name)))*
            }

            fn method_mut(&mut self) -> &mut dyn LaunchMethod {
                match self {
                    $(Self::$name(method) => method,)*
                }
            }
        }

        $(impl From<$name> for Backend {
            fn from(method: $name) -> Self {
                Self::$name(method)
            }
        })*
    };
}

backends! {
    /// Starts everything on this machine.
    Local,
    /// OpenSSH's `ssh`.
    Ssh,
    /// `rsh`.
    Rsh,
    /// Slurm's `srun`.
    Srun,
    /// A program that starts a command on many hosts.
    Starter,
    /// A program that is called like `ssh` and `rsh`.
    Shell,
}

impl Default for Backend {
    fn default() -> Self {
        Self::Local(Local)
    }
}

impl LaunchMethod for Backend {
    fn called(program: &OsBytes) -> Option<Self> {
        Self::first_called(program)
    }

    fn default_cost(&self) -> Cost {
        self.method().default_cost()
    }

    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError> {
        self.method().spawn_spec(host, program)
    }

    fn max_children(&self) -> Option<usize> {
        self.method().max_children()
    }

    fn bulk(&self) -> Option<&dyn BulkMethod> {
        self.method().bulk()
    }

    fn may_end_starts(&self) -> bool {
        self.method().may_end_starts()
    }

    fn is_local(&self) -> bool {
        self.method().is_local()
    }

    fn is_plaintext(&self) -> bool {
        self.method().is_plaintext()
    }

    fn has_exit_trailer(&self) -> bool {
        self.method().has_exit_trailer()
    }

    fn set_trailer_tag(&mut self, tag: TrailerTag) {
        self.method_mut().set_trailer_tag(tag);
    }

    fn set_environment(&mut self, variable: &dyn Fn(&str) -> Option<String>) {
        self.method_mut().set_environment(variable);
    }

    fn advice(&self, error: &ShellError, hosts: &str, one: &str) -> Option<String> {
        self.method().advice(error, hosts, one)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.method().fmt(f)
    }
}

#[cfg(test)]
pub(crate) mod tests;
