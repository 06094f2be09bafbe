//! A member: a process that was started as part of a session.

mod apart;
mod comm;
mod front_calls;
mod helper;
mod numbers;
mod p2p;
mod parent_death;
mod reactor;
mod rendezvous;
mod runtime;
mod signals;
mod stdio;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::loss::Loss;
use libi_core::ranks::Ranks;
use libi_launch::backend::{LINK_ENV, LINK_RENDEZVOUS, LINK_STDIO, LINK_STDIO_STDERR};
use libi_launch::machine::{Event as Input, Node, RESTARTS_ENV};
use libi_launch::quote::DEATH_SIGNAL_ENV;

use crate::engine::fd_budget::{FEWEST_FDS, explain};
use crate::engine::session_io::{OwnProgramSlot, SessionIo, inherited_by_members};
use crate::engine::sys::is_main_thread;
use crate::executor::Progress;
use runtime::{MemberRuntime, MemberStage};
use stdio::LinkStreams;

/// Options for joining a session.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MemberOptions {
    /// How the runtime makes progress. With [`Progress::Manual`] nothing happens unless the process
    /// [dispatches](Member::dispatch) or waits in a call: members below it receive nothing, and it
    /// does not end with its session.
    pub progress: Progress,
}

impl MemberOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`progress`](field@Self::progress).
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }
}

/// A process that has joined a session.
///
/// Dropping it does not detach the process; it passes on the remaining output, for at most one
/// second. Call [`drain`](Self::drain) or [`detach`](Self::detach) before.
///
/// # States
///
/// ```text
///   init()                    the session is up          detach()
///     Joining ----------------------> Up -----------------------> Detached: lives on by itself
///        |                            |
///        | the session ends, or the link to the parent is lost
///        v                            v
///     ended by the session's signal; killed when the grace period is over
/// ```
///
/// # Standard streams
/// After [`Member::init`] the standard streams are as a program expects, even if the link came
/// through them: standard input is empty, and output goes to the front end. Until a process
/// [detaches](Member::detach), nothing that it wrote to standard error is lost if it crashes; the
/// same holds for standard output, unless the process was started through a remote shell.
///
/// # Communication
/// Between `init` and `detach` members [communicate](crate::talk) with each other and with the
/// front end. Each method starts an operation and returns a [`Pending`](crate::Pending) at once.
///
/// # When a leader ends
/// On each host a process of its own relays for others: an [agent](crate::agent), or the parent of
/// the first member ([`Engine::Apart`](crate::Engine::Apart)). No member is needed by others, and
/// each may end at any time, by returning from `main` as well. [`drain`](Self::drain) returns when
/// all is with the process that leads the host, and dropping does the same, for at most a second.
///
/// With [`Engine::InProgram`](crate::Engine::InProgram), and where a program loads libi as it runs,
/// the first member of each host is its leader. If it ends, the members that depend on it end as
/// well. It calls [`Member::drain`] first, which waits until no other member needs this process; a
/// program that lives on calls [`Member::detach`].
///
/// # Processes that a member starts
/// Every member leads a process group. Processes that it starts stay in this group unless they or
/// their starter move them with `setpgid` or `setsid`, as shells with job control and daemons do.
/// Until the member detaches, its group gets SIGKILL
///
/// - when the session ends, after the grace period;
/// - when the member ends for whatever reason, if its parent has started it directly: all members
///   but those that a remote shell has started.
///
/// Libi does not end
///
/// - processes in other groups;
/// - the group of a member that a remote shell has started, if that member ends before the session;
/// - the group of a member whose parent, which may be the front end, crashes or is killed: the
///   kernel then kills the member itself and nothing else.
///
/// A program that needs more can give its children a parent-death signal (`PR_SET_PDEATHSIG`), or
/// become a subreaper (`PR_SET_CHILD_SUBREAPER`). Libi makes no process a subreaper: front ends and
/// members are users' programs, and their `waitpid(-1)` would return children that they have not
/// started.
pub struct Member {
    runtime: MemberRuntime,
    rank: Rank,
    host: HostIndex,
    host_name: String,
}

/// Why a process could not join a session.
///
/// `Debug` prints the same text as `Display`, so that an error that `main` returns is readable.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The process was not started by a front end.
    #[error(
        "this process was not started by libi: {LINK_ENV} is not set. A front end has to start programs that \
         call Member::init, for example `libi run -n 2 PROGRAM`"
    )]
    StartedByHand,
    /// The environment variable is set, but the link does not exist: typically a child process of a
    /// member, which inherited the environment.
    #[error(
        "{LINK_ENV}={link} names no link ({problem}): a process that a member started has inherited its \
         environment, but is not a member itself"
    )]
    NoLink {
        /// The value of the variable.
        link: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The process was started with many others, and could not connect to the front end.
    #[error("cannot connect to the front end: {0}")]
    NotAdmitted(String),
    /// A process joins a session once.
    #[error("this process has already joined its session; Member::init can be called only once")]
    Twice,
    /// The session ended before it was up.
    #[error("the session ended before it was up; the report of the front end has the cause")]
    Ended,
    /// A system call failed while joining.
    #[error("cannot join the session: {0}")]
    System(#[from] std::io::Error),
}

/// Why an operation of a member failed.
///
/// `Debug` prints the same text as `Display`, so that an error that `main` returns is readable.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// The operation did not complete in time; it continues in the background.
    #[error("timed out waiting for {0}")]
    TimedOut(&'static str),
    /// The session is ending, and this process with it.
    #[error("the session is ending")]
    Ending,
    /// A system call failed.
    #[error("{what}: {why}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The error of the system call.
        why: std::io::Error,
    },
}

impl fmt::Debug for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The link that this process was told of.
fn told_link() -> Option<String> {
    std::env::var(LINK_ENV).ok()
}

/// Connects this process to its parent over this link, and starts its runtime.
fn connect(options: &MemberOptions, link: Option<String>) -> Result<MemberRuntime, InitError> {
    // Keeps the entry in this executable.
    std::hint::black_box(apart::ENTRY);
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let link = link.ok_or(InitError::StartedByHand)?;
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(InitError::Twice);
    }
    let no_link =
        |problem: std::io::Error| InitError::NoLink { link: link.clone(), problem: problem.to_string() };
    let streams = match apart::take_link(&link) {
        Some(streams) => streams.map_err(no_link)?,
        None => take_link(&link)?,
    };
    start_runtime(options, streams, None)
}

/// The link that the launcher of this process has made.
fn take_link(link: &str) -> Result<LinkStreams, InitError> {
    let no_link =
        |problem: std::io::Error| InitError::NoLink { link: link.to_owned(), problem: problem.to_string() };
    match link {
        LINK_STDIO | LINK_STDIO_STDERR => stdio::take_streams(link == LINK_STDIO_STDERR).map_err(no_link),
        LINK_RENDEZVOUS => rendezvous::take_rendezvous(),
        number => stdio::take_socket(number).map_err(no_link),
    }
}

/// Starts the runtime of a member, or of a process that leads the host of its own program.
fn start_runtime(
    options: &MemberOptions,
    streams: LinkStreams,
    own_program: Option<OwnProgramSlot>,
) -> Result<MemberRuntime, InitError> {
    let entropy = getrandom::u64().map_err(std::io::Error::from)?;
    let machine = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    let node = Node::member(std::process::id(), machine.unwrap_or_default(), entropy);
    let lasting = options.progress == Progress::Thread || is_main_thread();
    let node = if own_program.is_some() { node.apart() } else { node };
    let session_io = SessionIo::new(node, inherited_by_members(), lasting);
    let session_io = session_io.with_own_program(own_program.unwrap_or_default());
    let has_death_signal = matches!(streams.channel, stdio::ParentChannel::Socket(_))
        || std::env::var_os(DEATH_SIGNAL_ENV).is_some();
    MemberRuntime::new(session_io, streams, has_death_signal, options.progress)
        .map_err(|why| explain(why, FEWEST_FDS).into())
}

/// Leads a host without being a member, until its part of the session is over.
pub(crate) fn serve() -> Result<(), InitError> {
    // An agent that is reached by a remote shell is told nothing else.
    let link = told_link().or_else(|| Some(LINK_STDIO.to_owned()));
    let runtime = connect(&MemberOptions::new().progress(Progress::Manual), link)?;
    runtime.wait(Duration::MAX, |state| state.is_over.then_some(()));
    // The parent should receive what there is to report before this process ends.
    let _ = runtime.wait_flushed(LAST_WORDS, true);
    Ok(())
}

/// Leads the host of this program, which is a child of this process, until no member of the host is
/// left, and no host below.
fn lead(link: &str, own_program: OwnProgramSlot) -> Result<(), InitError> {
    let options = MemberOptions::new().progress(Progress::Manual);
    let runtime = start_runtime(&options, take_link(link)?, Some(own_program))?;
    runtime.wait(Duration::MAX, |state| (state.is_over || state.has_no_members).then_some(()));
    runtime.pass_on_all();
    let _ = runtime.wait_flushed(LAST_WORDS, true);
    Ok(())
}

/// How long a process that ends passes on what it has to report.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Member {
    /// Joins the session that this process was started for, and returns when the session is up. The
    /// wait is bounded by the deadline of the front end, and by the loss of the link.
    ///
    /// Call it once, early, and from the main thread: it takes over the standard streams that the
    /// link came through.
    ///
    /// # Errors
    /// The process was not started by a front end, or the session ended first.
    pub fn init() -> Result<Self, InitError> {
        Self::with(&MemberOptions::default())
    }

    /// Joins with these options.
    ///
    /// # Errors
    /// As for [`init`](Self::init).
    pub fn with(options: &MemberOptions) -> Result<Self, InitError> {
        let runtime = connect(options, told_link())?;
        let up = runtime.wait(Duration::MAX, |state| match state.stage {
            MemberStage::Joining => None,
            MemberStage::Up => Some(Ok(())),
            MemberStage::Ending => Some(Err(InitError::Ended)),
        });
        let up = up.unwrap_or(Err(InitError::Ended));
        if up.is_err() {
            // The parent should receive the outcome of the launch before this process ends.
            let _ = runtime.wait_flushed(LAST_WORDS, true);
        }
        up?;
        let place = runtime.with(|state| state.place.clone()).ok_or(InitError::Ended)?;
        let runtime::MemberInfo { rank, host, host_name, .. } = place;
        Ok(Self { runtime, rank, host, host_name })
    }

    /// The rank of this member.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of members of the session, including absent and lost ones. Where a session
    /// [grows](crate::Session::add), it changes with the result of a collective call, the same at all members,
    /// and holds for the calls after it. A program with several calls in progress does not know which of them
    /// it holds for.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.runtime.numbers().size()
    }

    /// The number of members, and those that did not come up, of one moment.
    fn extent(&self) -> (u32, Ranks) {
        let absent =
            |state: &mut runtime::MemberState| state.place.as_ref().map(|place| place.absent.clone());
        self.runtime.with(|state| (self.size(), absent(state).unwrap_or_default()))
    }

    /// The members that did not come up, if the launch allowed that. They take part in no
    /// operation; where their data is expected, it is empty.
    #[must_use]
    pub fn absent(&self) -> Ranks {
        self.extent().1
    }

    /// The members that came up: all that are not [absent](Self::absent).
    #[must_use]
    pub fn present(&self) -> Ranks {
        let (size, absent) = self.extent();
        let mut present = Ranks::first(size);
        present.remove_all(&absent);
        present
    }

    /// The members that were up and have ended or are lost, as far as this process knows. A member that
    /// was [restarted](crate::Session::restart) is none of them from the collective call on that this one
    /// makes next, which is the first with it, or earlier if this one makes no calls before that. Calls
    /// that need lost members fail with [`CommError::PeerLost`](crate::CommError::PeerLost), or collective ones
    /// [go on](crate::OnLoss::Continue) without them and [say so](crate::Pending::missing); others are
    /// not affected.
    #[must_use]
    pub fn lost(&self) -> Ranks {
        self.runtime.with(|state| state.lost.clone())
    }

    /// How members were [lost](Self::lost): their hosts, and how their processes have ended, as far as it
    /// is known. Members that were lost together are told of once.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        self.runtime.with(|state| state.losses.clone())
    }

    /// The number of the first collective call in which this member takes part, counted from 0 in the
    /// session: of a member that was [restarted](crate::Session::restart), after all calls that any member
    /// had made when it came. All members agree on it. With a number of its own for each round, a program
    /// finds the round to continue with.
    ///
    /// # Errors
    /// `timeout` has elapsed: the others have not learned of this member; or the session has ended.
    pub fn first_call(&self, timeout: Duration) -> Result<u64, MemberError> {
        let first = self.runtime.wait(timeout, |state| {
            state.first_call.map(Ok).or_else(|| state.is_over.then_some(Err(MemberError::Ending)))
        });
        first.unwrap_or(Err(MemberError::TimedOut("the first collective call")))
    }

    /// How often this member was [restarted](crate::Session::restart), attempts that failed included: 0 for
    /// a process that was launched with the session.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        let number = std::env::var(RESTARTS_ENV).ok();
        number.and_then(|number| number.parse().ok()).unwrap_or_default()
    }

    /// The host that it runs on.
    #[must_use]
    pub fn host(&self) -> HostIndex {
        self.host
    }

    /// The name of that host in the host list of the launch.
    #[must_use]
    pub fn host_name(&self) -> &str {
        &self.host_name
    }

    /// Whether it is the [master](Self::master).
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.rank == self.master()
    }

    /// The master, with which the front end exchanges messages, as far as it is known here: rank 0, or where
    /// a lost one is [replaced](field@crate::LaunchOptions::replace_master), the next that was left.
    #[must_use]
    pub fn master(&self) -> Rank {
        self.runtime.numbers().master()
    }

    /// Waits until what this process has sent is on its way, and no other member needs it. Where calls
    /// [go on](crate::OnLoss::Continue) without lost members, that is when all others have completed the
    /// collective calls that this member has made. Call it at the end of a program that ends when its work
    /// is done. The process remains part of the session, and its exit status is reported.
    ///
    /// # Errors
    /// Other members need this process for longer than `timeout`, or the session is ending.
    pub fn drain(&self, timeout: Duration) -> Result<(), MemberError> {
        self.runtime.wait_flushed(timeout, true)
    }

    /// Detaches this process from the session: from now on the session neither signals nor ends it,
    /// and it outlives the front end. Returns when everything that it had to pass on is with the
    /// next process, without waiting for other members. Members that depend on this process are
    /// relayed as long as it lives.
    ///
    /// The process may close file descriptors that it does not know. If it closes all, libi does
    /// not touch any new descriptor with the same number, relaying ends, and operations fail with
    /// [`CommError::Ended`](crate::CommError::Ended).
    ///
    /// Output that it prints from now on goes to the front end as long as its parent relays it, and
    /// is discarded after that. Before the process calls `exec`, or continues in a forked child, it
    /// has to redirect its standard streams, as daemons do.
    ///
    /// # Errors
    /// - Not everything is with the next process within `timeout`. It continues in the background,
    ///   and the process is detached all the same.
    /// - The session is ending.
    /// - The process has a parent-death signal that this thread cannot clear. A process has one if
    ///   its parent is on the same machine, or is a server of ssh. Only the thread that the process
    ///   began with can clear it; where libi has a thread of its own, and [`init`](Self::init) was
    ///   called in the first thread, libi does so. Otherwise call this method in the first thread.
    pub fn detach(&self, timeout: Duration) -> Result<(), MemberError> {
        self.runtime.release()?;
        self.runtime.tell(Input::Detach);
        self.runtime.wait_flushed(timeout, false)
    }

    /// With [`Progress::Manual`]: does the pending work, and does not wait.
    ///
    /// # Errors
    /// The system call that waits for file descriptors failed.
    pub fn dispatch(&self) -> Result<(), MemberError> {
        let done = self.runtime.dispatch();
        done.map_err(|why| MemberError::System { what: "cannot wait for descriptors", why })
    }

    /// With [`Progress::Manual`]: how long the caller may wait for the
    /// [descriptor](Self::descriptor) before it has to dispatch anyway. `None` if there is no
    /// deadline.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        self.runtime.next_timeout()
    }

    /// A file descriptor that is readable while a completed operation has not been
    /// [polled](crate::Pending::poll) or [dropped](crate::Pending), or, with [`Progress::Manual`],
    /// while there is something to dispatch.
    #[must_use]
    pub fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.runtime.descriptor()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The last output may still be on its way out of this process.
        let _ = self.runtime.wait_flushed(LAST_WORDS, false);
    }
}
