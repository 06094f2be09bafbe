//! What can go wrong while a process is started or signalled, and how it is said.

use std::fmt;

use libi_core::dist::OsBytes;

use super::sys;

/// A process that was not started. Nothing of it is left: no process, no zombie, no descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program was given as a name, and no directory of the child's `PATH` has it.
    #[error("{program}: not found in PATH={path}")]
    NotFound {
        /// The name.
        program: OsBytes,
        /// Where it was looked for.
        path: OsBytes,
    },
    /// The program is a script, and what its first line names does not exist. It is shown in quotes because
    /// the usual reason is an invisible carriage return at its end.
    #[error("exec {program}: its interpreter {interpreter:?} is missing")]
    InterpreterMissing {
        /// The script.
        program: OsBytes,
        /// What its first line asks for.
        interpreter: OsBytes,
    },
    /// The program exists, and the dynamic loader that it was linked for does not.
    #[error("exec {program}: the file is there, but the loader it was linked for is missing")]
    LoaderMissing {
        /// The program.
        program: OsBytes,
    },
    /// The system refused a step.
    #[error("{step}: {errno}")]
    Refused {
        /// The step.
        step: StartStep,
        /// Its reason.
        errno: Errno,
    },
}

/// The steps of a start that the system can refuse, in their order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartStep {
    /// In the parent: `/dev/null`, for a descriptor that gets it.
    #[error("cannot open /dev/null")]
    Null,
    /// In the parent: the pipe or the thread by which an exit is noticed where there is no pidfd.
    #[error("cannot start the thread that waits for the process")]
    Waiter,
    /// In the parent: memory for the child's first few steps.
    #[error("cannot map a stack")]
    Stack,
    /// In the parent: the process itself.
    #[error("cannot create a process")]
    Clone,
    /// In the child, as all that follow: the signal for the end of the starting thread.
    #[error("cannot be told of the end of the starting thread")]
    DeathSignal,
    /// The process group of its own.
    #[error("cannot become a process group")]
    Group,
    /// The descriptor of this number.
    #[error("cannot hand over descriptor {0}")]
    Fd(u16),
    /// The limit of open files.
    #[error("cannot set the limit of open files")]
    Limit,
    /// The working directory.
    #[error("cannot change to directory {0}")]
    Directory(OsBytes),
    /// The program.
    #[error("exec {0}")]
    Exec(OsBytes),
    /// The shell for a script that names no interpreter.
    #[error("exec /bin/sh for {0}")]
    Shell(OsBytes),
}

/// A signal that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// There is no such process any more, and its number may be somebody else's.
    #[error("it has ended")]
    Ended,
    /// It was started in our own group; to signal that would hit us.
    #[error("it has no process group of its own")]
    NoGroup,
    /// The system refused: as a rule the process has become another user's.
    #[error("cannot signal it: {0}")]
    Refused(Errno),
}

/// The number by which the system says why it refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// In the words of the system, such as `Permission denied`.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sys::error_text(self.0))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({self})", self.0)
    }
}

impl Errno {
    /// Of an error of the standard library; 0 if it did not come from the system.
    pub(super) fn of(error: &std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(0))
    }
}
