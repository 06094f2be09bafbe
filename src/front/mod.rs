//! The front end: launches sessions, reports their events, ends them.
//!
//! A [`FrontEnd`] drives the launch state machines of its sessions, either in a background thread
//! or, with [`Progress::Manual`], whenever the caller [dispatches](FrontEnd::dispatch). A process
//! may have any number of front ends; they share nothing.

mod choice;
mod command;
mod distribution;
mod event;
pub(crate) mod keeper;
mod launching;
mod log_lines;
mod messages;
mod output_files;
mod program;
mod reactor;
mod report;
mod runtime;
mod session;
mod this_machine;
mod wording;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libi_core::dist::layout::{self, Layout, LayoutError};
use libi_core::ids::Rank;
use libi_launch::backend::{BackendError, LaunchMethod};
use libi_launch::machine::{GrowthError, Program, RestartError};
use libi_launch::options::{LaunchOptions, OnLoss, StandardInput};

pub use choice::{BACKEND_ENV, BackendReason, auto_backend};
pub use command::{Command, CommandReport, ProcessOutcome, ProcessReport, Spawned};
pub use distribution::{Distribution, DistributionError};
pub use event::Event;
pub use output_files::OutputError;
pub use report::{FlatFallback, HostReport, LaunchReport};
pub use session::{Growth, LaunchProgress, LinkCounts, Session, Stage};
pub use this_machine::are_this_machine;

use crate::engine::fd_budget::{FEWEST_FDS, explain};
use crate::engine::sys::is_main_thread;
use crate::executor::Progress;
use launching::Plan;
use program::program;
use runtime::{FrontCommand, FrontRuntime};
use this_machine::{all_hosts, resolve};

/// Why an operation of a front end failed.
///
/// `Debug` prints the same text as `Display`, so that an error that `main` returns is readable.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value in a distribution is invalid: an error of the caller.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    /// The distributions describe no launch, such as one without hosts: an error of the caller.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The environment names no back-end ([`BACKEND_ENV`]): an error of the caller.
    #[error("{BACKEND_ENV}: {0}")]
    Backend(#[from] BackendError),
    /// The session did not come up; the report has the cause for each host.
    #[error("{0}")]
    NotLaunched(Arc<LaunchReport>),
    /// A message to the master could not be sent.
    #[error(transparent)]
    Talk(libi_comm::CommError),
    /// The operation did not complete in time.
    #[error("timed out waiting for {0}")]
    TimedOut(&'static str),
    /// The remote shell sends everything in the clear, and the options do not allow that: an error
    /// of the caller.
    #[error(
        "{0} sends the session's secret and all data in the clear, so that anyone on the network can \
         read and change them; nothing was started. Use ssh, or, if the network is trusted, \
         LaunchOptions::allow_plain (--allow-plain)"
    )]
    Plain(String),
    /// Files are to be staged, or all programs are to get standard input, and there is no agent that
    /// could do that: an error of the caller.
    #[error("staged files and standard input for all need an agent on each host (LaunchOptions::agent)")]
    NoAgent,
    /// The signal number is invalid.
    #[error("invalid signal number {0}; expected 1 to 64")]
    NoSignal(i32),
    /// The launch was not [asked](LaunchOptions::input) to keep the master's standard input open.
    #[error("the master has no standard input: the launch was not asked for it (LaunchOptions::input)")]
    NoInput,
    /// The session has no [agents](LaunchOptions::agent), which run commands: an error of the caller.
    #[error("the session has no agents that could run a command (LaunchOptions::agent)")]
    NoAgents,
    /// The session is not up yet.
    #[error("the session is not up yet")]
    NotUp,
    /// A member was not [restarted](Session::restart), for this reason.
    #[error("{rank}{} was not restarted: {why}", event::on(host_name))]
    NotRestarted {
        /// The member.
        rank: Rank,
        /// The name of its host; empty if the session has no such rank.
        host_name: String,
        /// The reason.
        why: RestartError,
    },
    /// No further hosts are in a session, for this reason; [asked for](Session::add).
    #[error("the session has not grown: {}", event::NotGrown(why, hosts))]
    NotGrown {
        /// The reason.
        why: GrowthError,
        /// The names of the hosts that have failed, and why.
        hosts: Vec<(String, String)>,
    },
    /// Whether calls go on after a loss is chosen at the launch, and otherwise than this: an error of the
    /// caller.
    #[error("whether calls go on after a loss is chosen at the launch: it cannot be changed to {0}")]
    OnLossFixed(OnLoss),
    /// A command is to run on a host that is not in the session, or was lost.
    #[error("{0} is not in the session, or is lost")]
    NotInSession(String),
    /// The session has no host left that a command could run on.
    #[error("no host of the session is left")]
    NoHostLeft,
    /// The session, or the front end, has ended.
    #[error("the session has ended")]
    Closed,
    /// The directory for [output](crate::Output::Files) cannot be created, or is not writable.
    #[error("cannot write to the output directory {}: {why}", path.display())]
    OutputDirectory {
        /// The directory.
        path: std::path::PathBuf,
        /// The error of the system call.
        why: std::io::Error,
    },
    /// Several sessions of one launch cannot have one ticket file: an error of the caller.
    #[error("a launch with a ticket file (LaunchOptions::detached) is that of one session")]
    OneDetached,
    /// No program is known that could keep a [detached](LaunchOptions::detached) session: an error of the
    /// caller.
    #[error(
        "no program is known that could keep the session: this one has not called \
         libi::agent::serve_if_asked, and none is named (Detached::program)"
    )]
    NoKeeper,
    /// The process that is to keep a detached session cannot be started, or does not start it.
    #[error("cannot start a process that keeps the session: {0}")]
    Keeper(String),
    /// The session of a ticket file cannot be had.
    #[error("cannot attach to the session of {}: {why}", ticket.display())]
    NotAttached {
        /// The ticket file.
        ticket: std::path::PathBuf,
        /// Why not.
        why: String,
    },
    /// An operating system call failed that every launch needs.
    #[error("{what}: {why}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The error of the system call.
        why: std::io::Error,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Launches sessions. Dropping it ends them: members that have not detached are killed.
///
/// # What may fail
///
/// - The remote shell, such as `rsh`, sends in the clear, and that is not
///   [allowed](LaunchOptions::allow_plain): [`Error::Plain`], before anything is started.
/// - The distributions are invalid: [`Error::Distribution`] or [`Error::Layout`], before anything
///   is started.
/// - No file descriptors or threads are available: [`Error::System`].
/// - Hosts do not join: [`Error::NotLaunched`] by the deadline, with the cause for each host. If
///   the [policy](LaunchOptions::policy) allows the launch to go on without them, the report names
///   them instead.
/// - A host is lost later: [`Event::Lost`].
/// - This process ends, for whatever reason: all processes that it started and that have not
///   detached end as well.
///
/// # File descriptors
///
/// A launcher keeps up to five file descriptors for each host that it has launched itself, of which
/// one is for its direct connection. When the soft limit of open files (`RLIMIT_NOFILE`) is nearly
/// used up, it is raised as far as needed, at most to the hard limit. The limit belongs to the whole
/// process, hence to the embedding program as well; a program that uses `select` sets a hard limit of
/// 1,024. Started processes get the original soft limit. When the limit is reached, other hosts
/// launch the remaining ones. If there are none, these hosts fail with
/// [`Cause::OutOfResources`](crate::Cause::OutOfResources).
pub struct FrontEnd {
    runtime: Arc<FrontRuntime>,
    last_number: AtomicU64,
    /// Whether the thread that starts processes is known to live as long as this process.
    lasting_thread: bool,
}

impl FrontEnd {
    /// A front end with a background thread.
    ///
    /// # Errors
    /// No file descriptors or threads are available.
    pub fn new() -> Result<Self, Error> {
        Self::with(Progress::Thread)
    }

    /// A front end that makes progress in the given way.
    ///
    /// # Errors
    /// No file descriptors or threads are available.
    pub fn with(progress: Progress) -> Result<Self, Error> {
        let runtime = FrontRuntime::new(progress)
            .map_err(|why| explain(why, FEWEST_FDS))
            .map_err(|why| Error::System { what: "cannot set up the event loop", why })?;
        let lasting_thread = progress == Progress::Thread || is_main_thread();
        Ok(Self { runtime: Arc::new(runtime), last_number: AtomicU64::new(0), lasting_thread })
    }

    /// Launches the session of one distribution, and waits until it is up.
    ///
    /// ```no_run
    /// use libi::{Distribution, FrontEnd, LaunchOptions};
    ///
    /// let front_end = FrontEnd::new()?;
    /// let daemons = Distribution::new("daemon").hosts("node[1-4]");
    /// let session = front_end.launch(&daemons, &LaunchOptions::new())?;
    /// # let _ = session;
    /// # Ok::<(), libi::Error>(())
    /// ```
    ///
    /// # Errors
    /// The arguments are invalid, or the session did not come up; its report names the causes.
    pub fn launch(&self, distribution: &Distribution, options: &LaunchOptions) -> Result<Session, Error> {
        let session = self.start(distribution, options)?;
        wait_launched(&session, options)?;
        Ok(session)
    }

    /// Launches all sessions of these distributions concurrently, and waits until all of them are
    /// up. There is one session for each [session id](Distribution::session), in the order in which
    /// these first occur.
    ///
    /// # Errors
    /// The arguments are invalid, or a session did not come up; the other sessions are then ended.
    pub fn launch_all(
        &self,
        distributions: &[Distribution],
        options: &LaunchOptions,
    ) -> Result<Vec<Session>, Error> {
        let sessions = self.start_all(distributions, options)?;
        for session in &sessions {
            wait_launched(session, options)?;
        }
        Ok(sessions)
    }

    /// Begins to launch the session of one distribution, and returns without waiting.
    ///
    /// # Errors
    /// The arguments are invalid, or the launch cannot begin.
    pub fn start(&self, distribution: &Distribution, options: &LaunchOptions) -> Result<Session, Error> {
        let mut sessions = self.start_all(std::slice::from_ref(distribution), options)?;
        // One distribution belongs to exactly one session.
        sessions.pop().ok_or(Error::Closed)
    }

    /// Begins to launch all sessions of these distributions, and returns without waiting.
    ///
    /// # Errors
    /// The arguments are invalid, or the launch cannot begin.
    pub fn start_all(
        &self,
        distributions: &[Distribution],
        options: &LaunchOptions,
    ) -> Result<Vec<Session>, Error> {
        let mut distributions =
            distributions.iter().map(Distribution::checked).collect::<Result<Vec<_>, _>>()?;
        let elsewhere = keeper::launched_elsewhere(options, &all_hosts(&distributions, &options.spares))?;
        let options = elsewhere.as_ref().unwrap_or(options);
        let (mut backend, reason, options) = resolve(&mut distributions, options)?;
        backend.set_environment(&|name| std::env::var(name).ok());
        let layouts = layout::lay_out(&distributions)?;
        if backend.is_plaintext() && !options.allow_plain {
            return Err(Error::Plain(backend.to_string()));
        }
        let needs_agent = options.stage.is_some() || options.input == StandardInput::All;
        if needs_agent && options.agent.is_none() {
            return Err(Error::NoAgent);
        }
        let named = |program: Program| match &options.stage {
            Some(files) => files.named(program),
            None => program,
        };
        let programs: Vec<Program> = distributions.iter().map(program).map(named).collect();
        let plan = |layout| Plan {
            layout,
            programs: &programs,
            backend: &backend,
            reason: &reason,
            options: &options,
        };
        match (&options.detached, layouts.as_slice()) {
            (None, _) => layouts.iter().map(|layout| self.start_one(&plan(layout))).collect(),
            (Some(detached), [layout]) => Ok(vec![self.start_detached(&plan(layout), detached)?]),
            (Some(_), _) => Err(Error::OneDetached),
        }
    }

    fn start_one(&self, plan: &Plan<'_>) -> Result<Session, Error> {
        let (session_io, status) = plan.prepare(self.lasting_thread)?;
        let number = self.next_number();
        self.runtime.with(|state| state.sessions.insert(number, status));
        self.runtime.send(FrontCommand::Add(number, Box::new(session_io)));
        Ok(Session {
            runtime: Arc::clone(&self.runtime),
            number,
            layout: plan.layout.clone(),
            is_kept: false,
        })
    }

    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The next event, if there is one within `timeout`.
    pub fn next_event(&self, timeout: Duration) -> Option<Event> {
        self.runtime.next_event(timeout)
    }

    /// A file descriptor that is readable while [`next_event`](Self::next_event) has an event,
    /// while a completed operation has not been [polled](crate::Pending::poll) or
    /// [dropped](crate::Pending), or, with [`Progress::Manual`], while there is something to
    /// [dispatch](Self::dispatch). It is for `poll` and the like; do not read from it.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.runtime.descriptor()
    }

    /// With [`Progress::Manual`]: how long the caller may wait for the descriptor before it has to
    /// dispatch anyway. `None` if there is no deadline.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        self.runtime.next_timeout()
    }

    /// With [`Progress::Manual`]: does the pending work, and does not wait.
    ///
    /// # Errors
    /// The system call that waits for file descriptors failed.
    pub fn dispatch(&self) -> Result<(), Error> {
        let done = self.runtime.dispatch();
        done.map_err(|why| Error::System { what: "cannot wait for descriptors", why })
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        self.runtime.stop();
    }
}

/// The layout of each session of these distributions: which host has which ranks. Launches nothing.
///
/// # Errors
/// The distributions are invalid.
pub fn lay_out(distributions: &[Distribution]) -> Result<Vec<Layout>, Error> {
    let distributions = distributions.iter().map(Distribution::checked).collect::<Result<Vec<_>, _>>()?;
    Ok(layout::lay_out(&distributions)?)
}

/// Waits until a launch has an outcome, which it has soon after its deadline at the latest.
fn wait_launched(session: &Session, options: &LaunchOptions) -> Result<(), Error> {
    let timeout = options.deadline.saturating_add(options.rules.kill_grace.saturating_mul(4));
    session.wait_up(timeout).map(drop)
}
