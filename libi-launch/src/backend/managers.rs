//! Commands of resource managers that start programs on the hosts of a job, as data.
//!
//! A user names such a command like any other back-end (`--backend qrsh`), by its file name.
//!
//! A command fits if the programs that it starts can have a link:
//!
//! - as a [`Shell`](super::Shell), one start per host, if it connects the program's standard input
//!   and output to its own, every byte unchanged, in both directions. A row of [`SHELLS`].
//! - as a [`Starter`](super::Starter), many hosts by one start, if it copies its standard input to
//!   every program. A row of [`STARTERS`].
//!
//! Commands that do neither are rows of [`UNFIT`], with the reason: as a remote shell they would
//! only run into the timeout.
//!
//! All commands need the environment of a job. Tried with the real manager: `qrsh` of Grid Engine
//! 8.1.9. All others are called as their manuals say.

use std::fmt;

use libi_core::dist::OsBytes;

use super::parse::file_name;

/// A remote shell, called `NAME ARGS… HOST COMMAND`. It has no options for users and ports.
/// COMMAND is one word, and a shell on the host interprets it.
pub(super) struct ShellRow {
    pub(super) name: &'static str,
    /// Arguments before the host.
    pub(super) args: &'static [&'static str],
}

/// A starter, called by a script for `/bin/sh`; see [`Starter::script`](super::Starter::script).
pub(super) struct StarterRow {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
}

/// A command that cannot start members, and why.
pub(super) struct UnfitRow {
    pub(super) name: &'static str,
    pub(super) reason: &'static str,
}

/// All of these count as plaintext: no manual says that they encrypt.
pub(super) const SHELLS: [ShellRow; 2] = [
    // LSF, blaunch(1): `blaunch [-n] [host_name] [-use-login-shell | -no-shell] command`, "a
    // drop-in replacement for the rsh and ssh commands". Standard input is that of blaunch, unless
    // `-n` takes it from /dev/null. Without `-no-shell` an intermediate shell interprets the
    // command. `-z` names several hosts, but the manual does not say that all of them get the
    // input.
    ShellRow { name: "blaunch", args: &[] },
    // Grid Engine, sge_submit(1): `qrsh -inherit [options] hostname command` starts a task of the
    // surrounding parallel job. Standard input is that of qrsh, unless `-nostdin` is given. Without
    // `-noshell` the login shell interprets the command. Without `-pty y` there is no terminal.
    ShellRow { name: "qrsh", args: &["-inherit"] },
];

pub(super) const STARTERS: [StarterRow; 1] = [
    // Flux, flux-exec(1): "Standard input of flux exec is captured and broadcast to standard input
    // of the remote commands." The words of the command are executed as they are, hence
    // `/bin/sh -c`. Hosts are named by their ranks, which flux-overlay(1) tells: "Translate a
    // hostlist target to a rank idset". Signals are forwarded, and the exit status is the largest
    // of all.
    StarterRow {
        name: "flux",
        script: "ranks=$(\"$0\" overlay lookup \"$1\" </dev/null) || exit; command=$2; shift 2; \
                 exec \"$0\" exec --rank=\"$ranks\" \"$@\" /bin/sh -c \"$command\"",
    },
];

pub(super) const UNFIT: [UnfitRow; 4] = [
    // OpenPBS, src/cmds/pbs_tmrsh.c: it calls tm_spawn() and waits for the exit status. It reads no
    // standard input, and prints nothing of what the program prints.
    UnfitRow { name: "pbs_tmrsh", reason: NO_STREAMS },
    // PBS and TORQUE, pbsdsh(1B); src/cmds/pbsdsh.c of OpenPBS: as above.
    UnfitRow { name: "pbsdsh", reason: NO_STREAMS },
    // ALPS and PALS, aprun(1): it "handles standard input (stdin) on behalf of the user".
    UnfitRow { name: "aprun", reason: NOT_FOR_ALL },
    // PALS and MPI libraries, mpiexec(1): Open MPI's and MPICH's give it to rank 0 by default.
    UnfitRow { name: "mpiexec", reason: NOT_FOR_ALL },
];

const NO_STREAMS: &str = "it does not connect the standard input and output of what it starts";
const NOT_FOR_ALL: &str = "its manual does not say that every process gets its standard input";

/// A command of a resource manager that cannot start members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfitCommand {
    name: &'static str,
    reason: &'static str,
}

impl UnfitCommand {
    /// What is known against starting members by this program, going by its file name.
    #[must_use]
    pub fn of(program: &OsBytes) -> Option<Self> {
        let row = UNFIT.iter().find(|row| row.name.as_bytes() == file_name(program))?;
        Some(Self { name: row.name, reason: row.reason })
    }
}

impl fmt::Display for UnfitCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot start members: {}; use ssh", self.name, self.reason)
    }
}

/// The row for a program with this path or name.
pub(super) fn shell(program: &OsBytes) -> Option<&'static ShellRow> {
    SHELLS.iter().find(|row| row.name.as_bytes() == file_name(program))
}

/// The row for a program with this path or name.
pub(super) fn starter(program: &OsBytes) -> Option<&'static StarterRow> {
    STARTERS.iter().find(|row| row.name.as_bytes() == file_name(program))
}

#[cfg(test)]
mod tests;
