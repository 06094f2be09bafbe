//! Description of a process to start, and the start itself.

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
/// All signal dispositions are reset, and no signal is blocked. Umask, resource limits, scheduling
/// and other attributes are inherited.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// A path if it contains a slash, otherwise a name that is searched in the `PATH` of `env`.
    /// Relative paths are relative to `cwd`.
    pub program: OsBytes,
    /// Arguments, without `argv[0]`, which is the program.
    pub args: Vec<OsBytes>,
    /// Complete environment. It is in force before the program is loaded, so `LD_LIBRARY_PATH`
    /// works.
    pub env: Environment,
    /// Working directory; `None` keeps that of this process.
    pub cwd: Option<OsBytes>,
    /// File descriptors by number. The process gets no others, not even those that lack
    /// close-on-exec.
    pub fds: BTreeMap<u16, FdSource<'a>>,
    /// Whether it leads a process group of its own, which can be signalled and killed as a whole.
    /// It then does not receive a terminal's ^C and cannot read from the terminal.
    pub own_group: bool,
    /// Whether the [guardian](super::guard) of this process, if it has one, kills this group when this
    /// process is killed.
    pub guarded: bool,
    /// Signal that it gets when the *thread* that started it ends, for whatever reason, even if the
    /// thread's process lives on. Set-user-ID programs do not get it, nor do processes that the
    /// child starts.
    pub parent_death_signal: Option<Signal>,
    /// Soft limit of open files, capped at the hard limit; `None` inherits the limit. For processes
    /// that have raised their own: programs that use `select` fail above 1024.
    pub open_files: Option<u64>,
    /// How the end is noticed.
    pub watch_method: WatchMethod,
    /// How the child closes the descriptors that it is not given. Other values than
    /// [`CloseMethod::Range`] are for tests.
    pub close_method: CloseMethod,
}

/// Where a file descriptor of the child leads.
#[derive(Clone, Copy, Debug)]
pub enum FdSource<'a> {
    /// Where this process's descriptor of the same number leads; to `/dev/null` if there is none.
    Inherit,
    /// To `/dev/null`.
    Null,
    /// Where this one leads. The caller's descriptor stays open, and the caller has to close it
    /// after the start: a pipe reaches EOF only when all its write ends are closed.
    File(BorrowedFd<'a>),
}

impl<'a> Start<'a> {
    /// Starts a program with this environment, without arguments, in the current directory, with an
    /// empty standard input, with this process's standard output and error, and in a process group
    /// of its own. It lives until its `Child` is dropped, even if the starting thread ends.
    #[must_use]
    pub fn new(program: OsBytes, env: Environment) -> Self {
        Self {
            program,
            args: Vec::new(),
            env,
            cwd: None,
            fds: BTreeMap::from([(0, FdSource::Null), (1, FdSource::Inherit), (2, FdSource::Inherit)]),
            own_group: true,
            guarded: true,
            parent_death_signal: None,
            open_files: None,
            watch_method: WatchMethod::Best,
            close_method: CloseMethod::Range,
        }
    }

    /// Adds this file as the descriptor of this number.
    #[must_use]
    pub fn fd(mut self, number: u16, file: BorrowedFd<'a>) -> Self {
        self.fds.insert(number, FdSource::File(file));
        self
    }

    /// Looks for the program without starting it. A start may fail all the same: whether the system can
    /// execute the file is not tried.
    ///
    /// # Errors
    /// There is no such program, it is not executable, or there is no such working directory.
    pub fn look_up(&self) -> Result<(), StartError> {
        if let Some(cwd) = &self.cwd {
            search::check_directory(cwd)?;
        }
        let file = search::find(&self.program, &self.env, self.cwd.as_ref())?;
        search::check_program(&file, self.cwd.as_ref())
    }

    /// Starts the process. On success the program has been executed; on failure no process is left.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub fn start(&self) -> Result<Child, StartError> {
        let file = search::find(&self.program, &self.env, self.cwd.as_ref())?;
        let thread = self.watch_method == WatchMethod::Thread || !sys::knows_pidfds();
        let waiter = if thread { Some(Waiter::new()?) } else { None };
        let pidfd = waiter.is_none();
        let spawned = match spawn::spawn(&mut Image::new(self, &file)?, pidfd) {
            // The kernel cannot execute the file itself.
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

/// For systems that can wait for pidfds but do not create them, such as sandboxes that filter
/// system calls.
fn watch_after_all(pid: i32) -> Result<Watch, StartError> {
    Waiter::new().map(|waiter| waiter.watch(pid)).inspect_err(|_| {
        // Its end could not be noticed.
        let _ = sys::kill(pid, Signal::KILL);
        sys::await_end(pid);
        sys::exit_of(Target::Pid(pid), WaitMode::Collect);
    })
}
