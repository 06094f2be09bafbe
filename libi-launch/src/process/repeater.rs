//! A process that repeats a signal once this one has ended.
//!
//! The kernel sends a [parent death signal](super::Start::parent_death_signal) once. A program that has
//! cleanup to do takes note of it, and may miss it where it then waits for something else without a
//! deadline: `srun` does between its look at the signal and its wait for resources. It would wait for
//! ever, and nothing that survives would know of it.
//!
//! | event | effect |
//! |---|---|
//! | this process ends, in whichever way | the other gets the signal each second, and SIGKILL after [`LIMIT`] |
//! | the other has ended | the repeater ends |
//! | its number belongs to another process by then | the repeater ends: that process began at another time |
//! | the repeater is dropped | it is killed |
//!
//! The end of this process is the end of a pipe that the repeater reads from. It is a shell, since a program
//! with several threads can start other programs only.

use std::io::PipeWriter;
use std::os::fd::AsFd;

use libi_core::dist::OsBytes;

use super::child::Child;
use super::environment::Environment;
use super::error::{Errno, StartError, StartStep};
use super::exit::Signal;
use super::start::{FdSource, Start};

/// How many times the signal is repeated, once a second.
const LIMIT: u32 = 60;

/// When a process began: the 20th word behind its name.
const SCRIPT: &str = r#"
began() { read -r line < /proc/$1/stat && line=${line##*) } && set -- $line && echo ${20}; }
pid=$1 signal=$2 left=$3
first=$(began $pid) || exit 0
read -r line
while [ "$(began $pid)" = "$first" ]; do
    [ $left -gt 0 ] || signal=9
    kill -$signal $pid || exit 0
    [ $left -gt 0 ] || exit 0
    left=$((left - 1))
    sleep 1
done 2> /dev/null
"#;

/// A shell that sends a signal to a child each second once this process has ended, until the child has as well;
/// SIGKILL after a minute. Dropped, it is killed, and sends nothing.
#[derive(Debug)]
pub struct SignalRepeater {
    /// Dropped first: else the repeater would take the end of the pipe for that of this process.
    _child: Child,
    _pipe: PipeWriter,
}

impl SignalRepeater {
    /// Once this process has ended, this child gets this signal until it has ended as well.
    ///
    /// # Errors
    /// The shell cannot be started. The child gets its parent death signal then, once.
    pub fn start(child: &Child, signal: Signal) -> Result<Self, StartError> {
        let (theirs, pipe) = std::io::pipe()
            .map_err(|error| StartError::Refused { step: StartStep::Fd(0), errno: Errno::of(&error) })?;
        let word = |text: &str| OsBytes::try_from(text).ok();
        let args = ["-c", SCRIPT, "libi-repeater", &child.pid().to_string(), &signal.number().to_string()];
        let mut start = Start::new(word("/bin/sh").unwrap_or_default(), Environment::inherited());
        start.args = args.into_iter().chain([&*LIMIT.to_string()]).filter_map(word).collect();
        start.cwd = word("/");
        start.guarded = false;
        start.fds.insert(1, FdSource::Null);
        start.fds.insert(2, FdSource::Null);
        let repeater = start.fd(0, theirs.as_fd()).start()?;
        Ok(Self { _child: repeater, _pipe: pipe })
    }

    /// Does what the end of this process does, and returns the repeater.
    #[cfg(test)]
    pub(super) fn without_pipe(self) -> Child {
        let Self { _child: child, _pipe: pipe } = self;
        drop(pipe);
        child
    }
}
