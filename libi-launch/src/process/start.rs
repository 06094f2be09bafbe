//! Decides what a process is started with, and starts it.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use libi_core::dist::OsBytes;

use super::child::Child;
use super::environment::Environment;
use super::error::{Errno, StartError, StartStep};
use super::exit::Signal;
use super::image::{CloseMethod, Image};
use super::search;
use super::spawn::{self, SpawnFailure, SpawnStep, Spawned};
use super::sys::{self, Target, WaitMode};
use super::watch::{Waiter, Watch, WatchMethod};

/// A process to be started. It can be started any number of times.
///
/// Signal dispositions are all reset, no signal is blocked. Umask, resource limits, scheduling and what else the
/// system hands down are inherited.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// A path if there is a slash in it, otherwise a name to be looked up in the `PATH` of `env`. A relative path is
    /// relative to `cwd`.
    pub program: OsBytes,
    /// Its arguments, without the program itself, which is the first of what the process sees.
    pub args: Vec<OsBytes>,
    /// Its whole environment, in force before the program is loaded, so that `LD_LIBRARY_PATH` works.
    pub env: Environment,
    /// Its working directory; ours if none is given.
    pub cwd: Option<OsBytes>,
    /// Its descriptors, by number. It has no others, not even those that somebody forgot to mark close-on-exec.
    pub fds: BTreeMap<u16, FdSource<'a>>,
    /// Whether it leads a process group of its own, which can be signalled, and ends, as a whole. A terminal's ^C
    /// does not reach it then, and it cannot read from the terminal.
    pub own_group: bool,
    /// The signal it gets when the *thread* that started it ends, even if the process of that thread goes on, and
    /// however it ends. A program with set-user-id, and whatever the child starts itself, does not get it.
    pub parent_death_signal: Option<Signal>,
    /// Its soft limit of open files, at most the hard one; ours if none is given. For a front end that has raised its
    /// own: programs that use `select` break above 1024.
    pub open_files: Option<u64>,
    /// How its end is noticed.
    pub watch_method: WatchMethod,
    /// How the descriptors it does not get are closed: [`CloseMethod::Range`] unless a test wants to know whether the
    /// other ways work.
    pub close_method: CloseMethod,
}

/// Where a descriptor of the child leads.
#[derive(Clone, Copy, Debug)]
pub enum FdSource<'a> {
    /// Where ours of the same number leads; to `/dev/null` if we have none.
    Inherit,
    /// To `/dev/null`.
    Null,
    /// Where this one leads. Ours stays open, and is to be closed after the start by who has it: a pipe ends when all
    /// its ends are closed.
    File(BorrowedFd<'a>),
}

impl<'a> Start<'a> {
    /// This program in this environment: without arguments, in our working directory, with nothing to read, with our
    /// standard output and error, in a group of its own, surviving its starter until its `Child` is dropped.
    #[must_use]
    pub fn new(program: OsBytes, env: Environment) -> Self {
        Self {
            program,
            args: Vec::new(),
            env,
            cwd: None,
            fds: BTreeMap::from([(0, FdSource::Null), (1, FdSource::Inherit), (2, FdSource::Inherit)]),
            own_group: true,
            parent_death_signal: None,
            open_files: None,
            watch_method: WatchMethod::Best,
            close_method: CloseMethod::Range,
        }
    }

    /// With this file as the descriptor of this number.
    #[must_use]
    pub fn fd(mut self, number: u16, file: BorrowedFd<'a>) -> Self {
        self.fds.insert(number, FdSource::File(file));
        self
    }

    /// Starts it. When this returns, the program has been executed, or there is no process.
    ///
    /// # Errors
    /// The step that the system refused, and why.
    pub fn start(&self) -> Result<Child, StartError> {
        let file = search::find(&self.program, &self.env, self.cwd.as_ref())?;
        let thread = self.watch_method == WatchMethod::Thread || !sys::knows_pidfds();
        let waiter = if thread { Some(Waiter::new()?) } else { None };
        let pidfd = waiter.is_none();
        let spawned = match spawn::spawn(&mut Image::new(self, &file)?, pidfd) {
            // Only now it is known that the kernel cannot execute it by itself.
            Err(SpawnFailure { at: SpawnStep::Exec, errno: Errno(libc::ENOEXEC) }) => {
                self.by_shell(&file, pidfd)?
            }
            other => other.map_err(|failure| self.explain(&file, failure))?,
        };
        let watch = match (waiter, spawned.pidfd) {
            (Some(waiter), _) => waiter.watch(spawned.pid),
            (None, Some(pidfd)) => Watch::Pidfd(pidfd),
            (None, None) => watch_after_all(spawned.pid)?,
        };
        Ok(Child::new(spawned.pid, watch, self.own_group))
    }

    /// Starts a script that names no interpreter.
    fn by_shell(&self, file: &OsBytes, pidfd: bool) -> Result<Spawned, StartError> {
        if !search::is_shell_script(file, self.cwd.as_ref()) {
            return Err(refused(StartStep::Exec(file.clone()), Errno(libc::ENOEXEC)));
        }
        let mut image = Image::new(self, file)?;
        image.run_by_shell(self, file);
        spawn::spawn(&mut image, pidfd).map_err(|failure| match failure.at {
            SpawnStep::Exec => refused(StartStep::Shell(file.clone()), failure.errno),
            _ => self.explain(file, failure),
        })
    }

    fn explain(&self, file: &OsBytes, SpawnFailure { at, errno }: SpawnFailure) -> StartError {
        let step = match at {
            SpawnStep::Stack => StartStep::Stack,
            SpawnStep::Clone => StartStep::Clone,
            SpawnStep::DeathSignal => StartStep::DeathSignal,
            SpawnStep::Group => StartStep::Group,
            SpawnStep::Fd(number) => StartStep::Fd(number),
            SpawnStep::Limit => StartStep::Limit,
            SpawnStep::Directory => StartStep::Directory(self.cwd.clone().unwrap_or_default()),
            SpawnStep::Exec if errno == Errno(libc::ENOENT) => {
                return search::explain_missing(file.clone(), self.cwd.as_ref());
            }
            SpawnStep::Exec => StartStep::Exec(file.clone()),
        };
        refused(step, errno)
    }
}

fn refused(step: StartStep, errno: Errno) -> StartError {
    StartError::Refused { step, errno }
}

/// For a system that can wait for pidfds and makes none, such as a sandbox with half of the calls.
fn watch_after_all(pid: i32) -> Result<Watch, StartError> {
    Waiter::new().map(|waiter| waiter.watch(pid)).inspect_err(|_| {
        // Nobody would notice its end.
        let _ = sys::kill(pid, Signal::KILL);
        sys::await_end(pid);
        sys::exit_of(Target::Pid(pid), WaitMode::Collect);
    })
}
