//! How the processes of a command ended.

use std::fmt;

use libi_core::ids::HostIndex;
use libi_launch::failure::Exit;
use serde::{Deserialize, Serialize};

/// How a process of a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ProcessOutcome {
    /// It has exited.
    Exited(Exit),
    /// It could not be started, for this reason.
    NotStarted(String),
    /// Its host was lost, for this reason, or the session has ended. How the process ended is not
    /// known.
    Lost(String),
    /// It had not ended when the [time](super::Command::timeout) of the command was over, or its
    /// output had not been taken. It was killed.
    TimedOut,
}

impl ProcessOutcome {
    /// Whether the process has exited with 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        *self == Self::Exited(Exit::Code(0))
    }
}

impl fmt::Display for ProcessOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(exit) => exit.fmt(f),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::Lost(why) => write!(f, "is lost: {why}"),
            Self::TimedOut => f.write_str("had not ended in time, and was killed"),
        }
    }
}

/// How a process of a command ended, and where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessReport {
    /// The host.
    pub host: HostIndex,
    /// Its name.
    pub host_name: String,
    /// The number of the process among those of the command on its host.
    pub index: u32,
    /// How it ended.
    pub outcome: ProcessOutcome,
}

/// How a command ended. Its [`Display`](fmt::Display) text has one line for each process that has not
/// exited with 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandReport {
    pub(super) processes: Vec<ProcessReport>,
}

impl CommandReport {
    /// The processes, in the order of the hosts of the session.
    #[must_use]
    pub fn processes(&self) -> &[ProcessReport] {
        &self.processes
    }

    /// Whether all processes have exited with 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.processes.iter().all(|process| process.outcome.is_success())
    }

    /// The names of the hosts with a process that had not ended in time, each once.
    #[must_use]
    pub fn late_hosts(&self) -> Vec<&str> {
        self.hosts_with(|outcome| *outcome == ProcessOutcome::TimedOut)
    }

    /// The names of the hosts that were lost while the command ran, or before, each once.
    #[must_use]
    pub fn lost_hosts(&self) -> Vec<&str> {
        self.hosts_with(|outcome| matches!(outcome, ProcessOutcome::Lost(_)))
    }

    fn hosts_with(&self, which: impl Fn(&ProcessOutcome) -> bool) -> Vec<&str> {
        let processes = self.processes.iter().filter(|process| which(&process.outcome));
        let mut names: Vec<_> = processes.map(|process| process.host_name.as_str()).collect();
        names.dedup();
        names
    }
}

impl fmt::Display for CommandReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for process in self.processes.iter().filter(|process| !process.outcome.is_success()) {
            writeln!(f, "{}: process {} {}", process.host_name, process.index, process.outcome)?;
        }
        Ok(())
    }
}
