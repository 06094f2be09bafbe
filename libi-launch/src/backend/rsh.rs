//! `rsh`: what it lacks, and what is done about that.
//!
//! # Who may use it
//! **Everything goes over the network as it is, and hosts believe each other's addresses.** Whoever can read along learns the
//! session's secret; whoever can write takes part. So `libi` refuses such a launch unless it is told that the network is trusted,
//! and warns even then. What a leader launches goes the same way, so this holds for all hosts of a session.
//!
//! # What is lacking
//!
//! | rsh | here |
//! |---|---|
//! | has no exit status | A POSIX shell runs the program, waits for it, and says its status in a [last line](crate::trailer) on the channel. If that does not come, the connection broke, or the host did: [`Exit::Shell`](crate::failure::Exit::Shell) |
//! | ends with 0 although nobody was let in | What its server says instead of starting a shell is read off by [`shell_error`](crate::shell_error) |
//! | takes short commands: Debian's server cuts the connection at 1 KiB | The command only reads one line of its input; that line, which comes first on the channel, says what to run |
//! | has a second connection for standard error, which Debian's client loses, using up a processor as soon as anything comes | Nothing is sent there: until the program takes its place its standard error is part of its output, and then the program passes it on itself ([`LINK_STDIO_STDERR`]). The very last words of a leader that crashes may be lost in it |
//! | cannot say why it has not connected | Debian's can, if it is [asked](Rsh::redone) |
//! | needs a port below 1024 for each of these connections, on either end, and there are 512 | One host launches [250](LaunchMethod::max_children) at most: as with all that is refused for being too much, it slows down and tries again, and others that are up launch the rest. One of the two stays in use for a minute after its program has ended, because this end is the first to hang up |
//! | is told to end by nobody when its server's end hangs | As with ssh: what has been killed here hangs up there, and a member that finds that nobody is there any more ends. What has not taken its place yet ends when it likes |
//!
//! So `rsh` has to be set-user-ID root, as it is installed, or be called by root; firewalls have to let hosts connect back to
//! ports from 512 on; `.rhosts` or `hosts.equiv` of each host have to name those that launch it. Servers under inetd are called
//! so many times a minute at most, then not at all for ten: 256 with Debian's, unless its configuration says `nowait.0`.

use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use serde::{Deserialize, Serialize};

use super::{Channel, LINK_ENV, LINK_STDIO_STDERR, LaunchMethod, SpawnSpec, SpecError, env_var, operand};
use crate::exit_trailer::TrailerTag;
use crate::machine::{HostSpec, Program};
use crate::quote;

/// How many connections there are ports for, with some for others.
const MAX_CHILDREN: usize = 250;

/// How to call `rsh`.
///
/// ```
/// use libi_launch::backend::{Rsh, Via};
///
/// let via = Via::Rsh(Rsh { user: Some("batch".to_owned()), ..Rsh::redone() });
/// assert!(via.is_plain());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rsh {
    /// The program, as a path or a name to be looked up where it is called.
    pub program: OsBytes,
    /// Arguments before everything else.
    pub args: Vec<OsBytes>,
    /// Whom to be on hosts of which the list says nothing; if nothing is said here either, whoever launches.
    pub user: Option<String>,
    /// The option before a port, if there is one; it is used for hosts that have one in the list.
    pub port: Option<OsBytes>,
    /// What a launch costs, to begin with.
    pub cost: Cost,
    /// The mark of the session, put in by whoever launches it.
    pub trailer_tag: TrailerTag,
}

impl Default for Rsh {
    fn default() -> Self {
        Self::new()
    }
}

impl Rsh {
    /// Any `rsh`, called with what all of them know.
    #[must_use]
    pub fn new() -> Self {
        let cost = Cost::new(Duration::from_millis(3), Duration::from_millis(50));
        let program = word("rsh").unwrap_or_default();
        Self { program, args: Vec::new(), user: None, port: None, cost, trailer_tag: TrailerTag::default() }
    }

    /// That of rsh-redone, which is Debian's: it knows an option for a port, and another to say why it has not connected.
    #[must_use]
    pub fn redone() -> Self {
        Self { args: word("-v").into_iter().collect(), port: word("-p"), ..Self::new() }
    }
}

impl LaunchMethod for Rsh {
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
        })
    }
}

impl Rsh {
    /// Runs the program in a process of its own, and says how it has ended.
    fn script(&self, program: &Program) -> Vec<u8> {
        let mut env = program.env.clone();
        env.extend(env_var(LINK_ENV, LINK_STDIO_STDERR));
        let line = quote::script_line(program.cwd.as_ref(), &env, &program.executable, &program.args);
        // Shells print which signal has ended a process; the status says so. The program leads a group of its own, as after a
        // login through ssh: with that goes what it has started.
        let begin = b"exec 3>&1 2>/dev/null; by=; command -v setsid >/dev/null && by=setsid; (".as_slice();
        // Who closes a connection on which something has arrived that he has not read resets it, and what he has said last may be
        // lost. So this end waits until the other has heard it and hangs up, which it may not live to do.
        let wait = "by=; command -v timeout >/dev/null && by='timeout 9'; $by cat >/dev/null";
        let end = format!(") 2>&3 3>&-; {}; {wait}", self.trailer_tag.write_to(3));
        // What a shell does in brackets it does in a process of its own, which then becomes the program: `setsid` needs no
        // further one, for this leads no group.
        [begin, &line, end.as_bytes()].concat()
    }
}

/// What it has printed beside its connection, without what Debian's says of its progress when it is to say what is wrong.
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

/// A word of ours.
fn word(text: &str) -> Option<OsBytes> {
    OsBytes::try_from(text).ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")] // it takes processes to ask shells
mod tests;
