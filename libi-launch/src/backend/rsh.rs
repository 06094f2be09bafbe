//! `rsh`: what it lacks, and how that is made up for.
//!
//! # Security
//! **Everything crosses the network in plain text, and hosts trust each other's addresses.** An
//! eavesdropper learns the session's secret; an attacker who can also write takes part in the
//! session. `libi` therefore refuses such a launch unless the caller declares the network trusted,
//! and warns even then. Leaders launch their hosts the same way, so this holds for all hosts of a
//! session.
//!
//! # Limitations and remedies
//!
//! - **No exit status.** A POSIX shell on the host runs the program, waits for it, and reports its
//!   status in a [last line](crate::exit_trailer) on the channel. Without that line the connection
//!   or the host has failed: [`Exit::Shell`](crate::failure::Exit::Shell).
//! - **Status 0 although the login was refused.** [`shell_error`](crate::shell_error) recognizes
//!   what the server prints instead of starting a shell.
//! - **Short commands only:** Debian's server closes the connection beyond 1 KiB. The command only
//!   reads one line from its standard input. That line comes first on the channel and holds the
//!   actual command.
//! - **A second connection for standard error,** which Debian's client mishandles: it loses the
//!   data and spins once anything arrives. Nothing is sent on it. Until the program has joined, its
//!   standard error is part of its output; then the program forwards it itself
//!   ([`LINK_STDIO_STDERR`]). The last words of a leader that crashes may be lost.
//! - **No reason for a failed connection.** Debian's client prints one [when asked](Rsh::redone).
//! - **Needs a port below 1024 for each of the two connections, on either end;** there are 512. One
//!   host launches [250](LaunchMethod::max_children) at most. Like other failures by overload, a
//!   lack of ports slows the launches down and is retried, and hosts that are up launch the rest.
//!   One of the two ports stays in use for a minute after the program has ended, because the
//!   launching end closes first.
//! - **No signal reaches the program when the server hangs.** As with `ssh`, the channel reaches
//!   EOF when the local process is killed, and members then end. A program that has not joined ends
//!   when it chooses to.
//!
//! `rsh` has to be set-user-ID root, as it is installed, or be called by root. Firewalls have to
//! let hosts connect back to ports from 512 on. `.rhosts` or `hosts.equiv` of each host have to
//! name the hosts that launch it. Servers under inetd accept a limited number of calls per minute,
//! then none for ten minutes: 256 with Debian's inetd, unless its configuration says `nowait.0`.

use std::fmt;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use serde::{Deserialize, Serialize};

use super::parse::file_name;
use super::{Channel, LINK_ENV, LINK_STDIO_STDERR, LaunchMethod, SpawnSpec, SpecError, env_var, operand};
use crate::exit_trailer::TrailerTag;
use crate::machine::{HostSpec, Program};
use crate::quote;
use crate::shell_error::ShellError;

/// Maximum number of connections at a time. It leaves some ports to other programs.
const MAX_CHILDREN: usize = 250;

/// How to call `rsh`.
///
/// ```
/// use libi_launch::backend::{Backend, LaunchMethod, Rsh};
///
/// let backend = Backend::Rsh(Rsh { user: Some("batch".to_owned()), ..Rsh::redone() });
/// assert!(backend.is_plaintext());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rsh {
    /// Path of the program, or a name that the launching process looks up in its `PATH`.
    pub program: OsBytes,
    /// Arguments that come first.
    pub args: Vec<OsBytes>,
    /// User on hosts for which the host list names none; `None` means the user that launches.
    pub user: Option<String>,
    /// Option that precedes a port, if the program has one. Used for hosts with a port in the list.
    pub port: Option<OsBytes>,
    /// Expected cost of a launch; measurements replace it.
    pub cost: Cost,
    /// Tag of the session, set by the process that launches it.
    pub trailer_tag: TrailerTag,
}

impl Default for Rsh {
    fn default() -> Self {
        Self::new()
    }
}

impl Rsh {
    /// Any `rsh`, called with the options that all of them know.
    #[must_use]
    pub fn new() -> Self {
        let cost = Cost::new(Duration::from_millis(3), Duration::from_millis(50));
        let program = word("rsh").unwrap_or_default();
        Self { program, args: Vec::new(), user: None, port: None, cost, trailer_tag: TrailerTag::default() }
    }

    /// rsh-redone, which is Debian's `rsh`. It has an option for a port, and one to print why a
    /// connection has failed.
    #[must_use]
    pub fn redone() -> Self {
        Self { args: word("-v").into_iter().collect(), port: word("-p"), ..Self::new() }
    }
}

impl fmt::Display for Rsh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

impl LaunchMethod for Rsh {
    fn called(program: &OsBytes) -> Option<Self> {
        (file_name(program) == b"rsh").then(|| Self { program: program.clone(), ..Self::new() })
    }

    fn is_plaintext(&self) -> bool {
        true
    }

    fn has_exit_trailer(&self) -> bool {
        true
    }

    fn set_trailer_tag(&mut self, tag: TrailerTag) {
        self.trailer_tag = tag;
    }

    fn advice(&self, error: &ShellError, _: &str, one: &str) -> Option<String> {
        Some(match error {
            ShellError::ConnectionRefused => format!("check that an rsh server runs on {one}, at this port"),
            ShellError::ClosedBeforeLogin => format!(
                "the log of {one} has the reason: the server must be able to connect back to ports from 512 \
                 on; inetd refuses all calls for ten minutes after 256 calls in one, unless its line \
                 in inetd.conf says nowait.0"
            ),
            ShellError::LoginDenied => format!(
                "`rsh {one} true` has to work, also from hosts that launch others: name those hosts and \
                 users in .rhosts or hosts.equiv of {one}"
            ),
            ShellError::NoPort => {
                "each rsh needs two ports below 1024, and used ports are free again after a \
                 minute: let more hosts launch (--tree late), or use ssh"
                    .to_owned()
            }
            ShellError::BadOptions => {
                "see `man rsh` for its options; only rsh-redone's has options for ports".to_owned()
            }
            _ => return None,
        })
    }
    fn default_cost(&self) -> Cost {
        self.cost
    }

    fn max_children(&self) -> Option<usize> {
        Some(MAX_CHILDREN)
    }

    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError> {
        let mut args = self.args.clone();
        if let Some(user) = host.user.as_ref().or(self.user.as_ref()) {
            args.extend(word("-l").into_iter().chain([operand("user", user)?]));
        }
        if let Some(port) = host.port {
            let option =
                self.port.clone().ok_or_else(|| SpecError::NoOption(self.program.clone(), "port"))?;
            args.extend([option, operand("port", &port.to_string())?]);
        }
        args.extend([operand("host", &host.name)?, quote::read_command_from_stdin()]);
        Ok(SpawnSpec {
            program: self.program.clone(),
            args,
            env: Vec::new(),
            cwd: None,
            channel: Channel::Streams,
            initial_input: quote::stdin_line(&self.script(program)),
            trailer: Some(self.trailer_tag),
            client: None,
        })
    }
}

impl Rsh {
    /// Shell script that runs the program in a process of its own and reports its exit status.
    fn script(&self, program: &Program) -> Vec<u8> {
        let mut env = program.env.clone();
        env.extend(env_var(LINK_ENV, LINK_STDIO_STDERR));
        let line = quote::script_line(program.cwd.as_ref(), &env, &program.executable, &program.args);
        // Shells print which signal has ended a process; the status says so. The program leads a
        // process group, as after a login through ssh, so that its children can be killed with it.
        let begin = b"exec 3>&1 2>/dev/null; by=; command -v setsid >/dev/null && by=setsid; (".as_slice();
        // Closing a connection with unread input resets it, and output that is still in flight may
        // be lost. So this end waits for EOF, that is until the other end has read the status and
        // closed. It may not live that long; then `timeout` ends the wait.
        let wait = "by=; command -v timeout >/dev/null && by='timeout 9'; $by cat >/dev/null";
        let end = format!(") 2>&3 3>&-; {}; {wait}", self.trailer_tag.write_to(3));
        // The parentheses make the shell fork; the forked process then becomes the program.
        // `setsid` needs no further fork there, because that process leads no group.
        [begin, &line, end.as_bytes()].concat()
    }
}

/// What `rsh` has printed on its standard error, without the progress messages that Debian's prints
/// when it is asked for reasons.
#[must_use]
pub fn without_progress(printed: &[u8]) -> Vec<u8> {
    let is_progress = |line: &[u8]| {
        let line = line.trim_ascii_end();
        line.starts_with(b"Trying ") && line.ends_with(b"... Connected.")
    };
    printed
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !is_progress(line))
        .flatten()
        .copied()
        .collect()
}

/// Whether an incomplete line may become one that [`without_progress`] removes: a connection may take
/// longer than the end of other lines.
#[must_use]
pub fn may_be_progress(begun: &[u8]) -> bool {
    begun.starts_with(b"Trying ") && begun.ends_with(b"...")
}

/// One of libi's own words.
fn word(text: &str) -> Option<OsBytes> {
    OsBytes::try_from(text).ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")] // it takes processes to ask shells
mod tests;
