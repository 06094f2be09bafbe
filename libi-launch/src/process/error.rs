//! Errors of starting and signalling processes, and their texts.

use std::fmt;

use libi_core::dist::OsBytes;

use super::sys;

/// A process was not started. It leaves nothing behind: no process, no zombie, no file descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program was given as a name, and no directory of the child's `PATH` has it.
    #[error("{program}: not found in PATH={path}")]
    NotFound {
        /// The name.
        program: OsBytes,
        /// The `PATH` that was searched.
        path: OsBytes,
    },
    /// The program is a script whose interpreter does not exist. The text quotes the interpreter,
    /// because the usual reason is an invisible carriage return at its end.
    #[error("exec {program}: its interpreter {interpreter:?} is missing")]
    InterpreterMissing {
        /// The script.
        program: OsBytes,
        /// The interpreter that its first line names.
        interpreter: OsBytes,
    },
    /// The program exists, but the dynamic loader that it was linked for does not.
    #[error("exec {program}: the dynamic loader that it was linked for is missing")]
    LoaderMissing {
        /// The program.
        program: OsBytes,
    },
    /// The operating system refused a step.
    #[error("{step}: {errno}")]
    Refused {
        /// The step.
        step: StartStep,
        /// The reason.
        errno: Errno,
    },
}

/// The steps of a start that the operating system can refuse, in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartStep {
    /// In the parent: opening `/dev/null`, for a descriptor that leads there.
    #[error("cannot open /dev/null")]
    Null,
    /// In the parent: the pipe or thread that notices the exit where there is no pidfd.
    #[error("cannot start the thread that waits for the process")]
    Waiter,
    /// In the parent: memory for the child's stack until it executes its program.
    #[error("cannot map a stack")]
    Stack,
    /// In the parent: creating the process.
    #[error("cannot create a process")]
    Clone,
    /// In the child, like all that follow: setting the parent death signal.
    #[error("cannot set the parent death signal")]
    DeathSignal,
    /// Creating a process group.
    #[error("cannot create a process group")]
    Group,
    /// Moving a file descriptor to this number.
    #[error("cannot pass on file descriptor {0}")]
    Fd(u16),
    /// Setting the limit of open files.
    #[error("cannot set the limit of open files")]
    Limit,
    /// Changing to the working directory.
    #[error("cannot change to directory {0}")]
    Directory(OsBytes),
    /// Executing the program.
    #[error("exec {0}")]
    Exec(OsBytes),
    /// Executing the shell for a script that names no interpreter.
    #[error("exec /bin/sh for {0}")]
    Shell(OsBytes),
}

/// A signal was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The process has ended, and another one may have its ID.
    #[error("the process has ended")]
    Ended,
    /// The process was started in this process's group, so a signal to the group would reach this
    /// process.
    #[error("the process has no process group of its own")]
    NoGroup,
    /// The operating system refused. Usually the process has changed its user.
    #[error("cannot signal the process: {0}")]
    Refused(Errno),
}

/// Error number of the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// The system's text, such as `Permission denied`.
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
    /// The number of a standard library error; 0 if it did not come from the operating system.
    pub(super) fn of(error: &std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(0))
    }
}
