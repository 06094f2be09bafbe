//! Why a job cannot be attached to.

use std::io;
use std::time::Duration;

use libi_core::dist::OsBytes;
use libi_core::ids::SessionId;

use crate::mpir::Flaw;

/// Why a job cannot be attached to. The job was left as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The process ID that was given.
        pid: i32,
    },
    /// The process has ended meanwhile, and another one may have its number.
    #[error("process {pid} ({executable}) ended while its table was being read")]
    Ended {
        /// The process ID that was given.
        pid: i32,
        /// What it has run.
        executable: OsBytes,
    },
    /// No `srun` of this machine has launched such a step of a Slurm job.
    #[error("no srun on this machine has launched job {step} of Slurm{}", others(.here))]
    NoStep {
        /// What was asked for.
        step: String,
        /// The steps whose `srun` is here.
        here: Vec<String>,
    },
    /// The Slurm job has several steps here.
    #[error("Slurm job {job} has several steps here, of which one has to be named: {}", .here.join(", "))]
    ManySteps {
        /// What was asked for.
        job: String,
        /// The steps whose `srun` is here.
        here: Vec<String>,
    },
    /// The process has no such session of libi.
    #[error("process {pid} has no {session}{}", those(.here))]
    NoSession {
        /// The process ID.
        pid: i32,
        /// What was asked for.
        session: SessionId,
        /// The sessions that it has.
        here: Vec<SessionId>,
    },
    /// The front end has several sessions.
    #[error("process {pid} has several sessions, of which one has to be named: {}", listed(.sessions))]
    ManySessions {
        /// The process ID.
        pid: i32,
        /// Its sessions.
        sessions: Vec<SessionId>,
    },
    /// The process is another user's.
    #[error("process {pid} belongs to user {owner}: only that user and root may read its table")]
    OtherUser {
        /// The process ID.
        pid: i32,
        /// The number of its user.
        owner: u32,
    },
    /// The system lets processes be read by their ancestors alone.
    #[error(
        "process {pid} may be read by its ancestors alone, as kernel.yama.ptrace_scope is {scope}: allow it by \
         `sysctl kernel.yama.ptrace_scope=0`, or by CAP_SYS_PTRACE"
    )]
    Yama {
        /// The process ID.
        pid: i32,
        /// What the system is set to.
        scope: u8,
    },
    /// The process has more rights than its user, or has forbidden to be read.
    #[error(
        "process {pid} may not be read: it has more rights than its user (a set-user-ID program or one with \
         capabilities), or has said so itself; CAP_SYS_PTRACE allows it"
    )]
    Forbidden {
        /// The process ID.
        pid: i32,
    },
    /// The process has no table for debuggers.
    #[error(
        "process {pid} ({executable}) is no launcher that keeps a process table (MPIR_proctable): neither the \
         program nor any of its {libraries} libraries has one{}",
        or(.above, *is_stripped)
    )]
    NoLauncher {
        /// The process ID.
        pid: i32,
        /// What it runs.
        executable: OsBytes,
        /// How many libraries were looked at.
        libraries: usize,
        /// Whether the program may have a table that cannot be found, since its symbols were removed.
        is_stripped: bool,
        /// The process above it that is a launcher, and its executable.
        above: Option<(i32, OsBytes)>,
    },
    /// The program has no libraries, and its symbols were removed.
    #[error(
        "process {pid} ({executable}) has no symbols: they were stripped, and with them the place of its \
         process table"
    )]
    Stripped {
        /// The process ID.
        pid: i32,
        /// What it runs.
        executable: OsBytes,
    },
    /// The program of the process is for other machines.
    #[error("process {pid} ({executable}) is not for a 64-bit little-endian machine")]
    Foreign {
        /// The process ID.
        pid: i32,
        /// What it runs.
        executable: OsBytes,
    },
    /// The table was wrong until the deadline.
    #[error("the process table of process {pid} ({executable}) is of no use after {waited:?}: {flaw}")]
    Flawed {
        /// The process ID.
        pid: i32,
        /// What it runs.
        executable: OsBytes,
        /// What was wrong the last time.
        flaw: Flaw,
        /// For how long it was tried.
        waited: Duration,
    },
    /// The launcher fills its table when it is asked to, and did not.
    #[error("process {pid} ({executable}) was asked to fill its process table by {fifo}: {why}")]
    NotAsked {
        /// The process ID.
        pid: i32,
        /// What it runs.
        executable: OsBytes,
        /// The named pipe by which launchers of Open MPI are asked.
        fifo: String,
        /// What the system said.
        why: io::Error,
    },
    /// The system refuses something that it should not.
    #[error("{what} of process {pid}: {why}")]
    System {
        /// The process ID.
        pid: i32,
        /// What could not be done.
        what: &'static str,
        /// Why.
        why: io::Error,
    },
}

fn or(above: &Option<(i32, OsBytes)>, is_stripped: bool) -> String {
    match above {
        Some((pid, executable)) => format!("; its launcher is process {pid} ({executable})"),
        None if is_stripped => ", and its own symbols were stripped".to_owned(),
        None => String::new(),
    }
}

impl AttachError {
    /// Says which process would have been the right one.
    pub(crate) fn with_launcher(self, launcher: impl FnOnce() -> Option<(i32, OsBytes)>) -> Self {
        match self {
            Self::NoLauncher { pid, executable, libraries, is_stripped, .. } => {
                Self::NoLauncher { pid, executable, libraries, is_stripped, above: launcher() }
            }
            other => other,
        }
    }
}

fn listed(sessions: &[SessionId]) -> String {
    sessions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn those(here: &[SessionId]) -> String {
    if here.is_empty() { String::new() } else { format!("; it has {}", listed(here)) }
}

fn others(here: &[String]) -> String {
    if here.is_empty() { String::new() } else { format!("; those here have launched {}", here.join(", ")) }
}
