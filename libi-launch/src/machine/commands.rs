//! Commands: programs that run on hosts of a session that is up, without a further launch.
//!
//! The hosts of the session are led by [agents](crate::options::Agent). The front end sends a command
//! down the tree, to the links below which a chosen host is. Each agent starts the processes of its
//! host as its own children, and sends their output and their ends to the front end.
//!
//! # Numbers
//! Each process of a command has a number, as each member has a rank. The numbers begin far behind the
//! ranks, of which a session may get [more](super::growth), so that output of both travels in the same
//! frames, under the same credit. The process `index` on host `host` of a command with `per_host`
//! processes on each host has the number `first + host * per_host + index`, which every node can compute.
//!
//! # A process, as the front end knows it
//! The end of a process is a report, and reports overtake output that waits for credit. Therefore the
//! report says how much the process has printed, and waits until that has been passed on.
//!
//! | state | event | outcome | next state |
//! |---|---|---|---|
//! | chosen | its host is not in the session, or was lost | `Lost` | done |
//! | chosen | the command is sent | | open |
//! | open | output | passed on, and counted | open |
//! | open | its end is reported, all it has printed was passed on | `Exited`, `NotStarted` | done |
//! | open | its end is reported, output is on its way | | held |
//! | held | the last of its output | passed on; `Exited` | done |
//! | open, held | its host is lost | `Lost` | done |
//! | open, held | the deadline of the command | `TimedOut`; it is killed | done |
//! | open, held | the session is over | `Lost` | done |
//! | done | anything | ignored; its output is dropped | done |
//!
//! When the last process of a command is done, so is the command.
//!
//! # A process, as its agent knows it
//!
//! | state | event | effect | next state |
//! |---|---|---|---|
//! | | the command names its host, the session is up | it is started | running |
//! | | the same, the session ends | none: the front end has given it up | |
//! | running | it cannot be started | `CommandEnded` with the reason | gone |
//! | running | its start was cancelled by a signal | `CommandEnded` by that signal | gone |
//! | running | it prints | output of its number | running |
//! | running | a signal for its command | it gets the signal, with its group | running |
//! | running | it exits | `CommandEnded` with its exit, and how much it has printed | gone |
//! | running | the session ends | it gets the signal of the end; after the grace period SIGKILL | running |
//! | running | the parent is lost | SIGKILL | running |
//! | running, killed | `kill_grace` has passed | none: it cannot be killed | gone |
//!
//! The kernel kills the processes of an agent that dies.

mod processes;
mod table;

use std::num::NonZeroU16;
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

/// No process of a command has a lower number.
pub(super) const LOWEST_NUMBER: u32 = 1 << 31;

pub(super) use self::processes::{CommandProcesses, Overdue};
pub(super) use self::table::CommandTable;
use super::contract::Notice;
use super::message::Program;
use crate::failure::{Exit, Failure};

/// A command of a session. The user of the front end numbers the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommandId(pub u64);

/// A process of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandProcess {
    /// The command.
    pub command: CommandId,
    /// The host that the process runs on.
    pub host: HostIndex,
    /// Its number among the processes of the command on that host.
    pub index: u32,
}

/// A command, as the user of the front end asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandRequest {
    /// Its number, which no command of the session has had before.
    pub command: CommandId,
    /// What is run.
    pub program: Program,
    /// The hosts that it runs on, each once.
    pub hosts: Vec<HostIndex>,
    /// How many processes run on each of them.
    pub per_host: NonZeroU16,
    /// The time after which its processes are killed.
    pub timeout: Option<Duration>,
}

/// How a process of a command ended.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandOutcome {
    /// It has exited.
    Exited(Exit),
    /// It could not be started, for this reason.
    NotStarted(String),
    /// Its host was lost before its end was known.
    Lost(Failure),
    /// It had not ended, or not passed on all of its output, when the time of the command was over.
    TimedOut,
}

/// A command on its way to the agents of its hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The number of the first process of the session's first host.
    pub first: u32,
    /// How many processes run on each chosen host.
    pub per_host: u16,
    /// The chosen hosts, by the ranks that they have.
    pub ranks: Ranks,
    /// What is run.
    pub program: Program,
}

/// A signal on its way to processes of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSignal {
    /// The `first` of the command.
    pub first: u32,
    /// The hosts whose processes get it, by the ranks that they have.
    pub ranks: Ranks,
    /// The signal.
    pub signal: i32,
}

impl CommandRequest {
    /// The outcomes of its processes if none of them is started, for this reason.
    pub(super) fn refused(&self, why: &str) -> impl Iterator<Item = Notice> {
        let all = self
            .hosts
            .iter()
            .flat_map(|host| (0..u32::from(self.per_host.get())).map(|index| (*host, index)));
        all.map(move |(host, index)| {
            let process = CommandProcess { command: self.command, host, index };
            Notice::CommandEnded(process, CommandOutcome::NotStarted(why.to_owned()))
        })
    }
}

/// How a process of a command ended, as its agent knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandEnd {
    /// It has exited.
    Exited(Exit),
    /// It could not be started, for this reason.
    NotStarted(String),
}

/// The number of a process; `None` if 32 bits cannot count it.
pub(super) fn process_number(first: u32, per_host: u16, host: HostIndex, index: u32) -> Option<Rank> {
    let before = host.0.checked_mul(u32::from(per_host))?;
    first.checked_add(before)?.checked_add(index).map(Rank)
}
