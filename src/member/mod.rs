//! The other side: a process that was started for a place in a session.
//!
//! # States
//!
//! ```text
//!   init()                    the session is up          finalize()
//!     Joining ----------------------> Member -----------------------> released: lives on by itself
//!        |                               |
//!        | the session ends, or the one that has started it is lost
//!        v                               v
//!     ended by the session's signal; killed when the grace is over
//! ```
//!
//! # What becomes of standard streams
//! After [`Member::init`] they are what a program expects, even where the link came through them: input is empty, what
//! is printed goes to the front end. Until it [finalises](Member::detach), a process that crashes loses no message
//! that it wrote to standard error; to standard output neither, unless it was started through a remote shell.
//!
//! # Talking
//! Between `init` and `detach` members [talk](crate::talk) to one another and to the front end. Each method starts an operation,
//! and comes back at once with a [`Pending`](crate::Pending) that can be waited for.
//!
//! # When a leader ends
//! The first process of each host carries for others. If it ends, so do the members that hang on it. A program that
//! does its work and ends calls [`Member::drain`] first, which waits until nobody needs this process any more; one that
//! lives on calls [`Member::detach`].

mod comm;
mod parent_death;
mod reactor;
mod runtime;
mod signals;
mod stdio;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;
use libi_launch::backend::{LINK_ENV, LINK_STDIO, LINK_STDIO_STDERR};
use libi_launch::machine::{Event as Input, Node};
use libi_launch::quote::DEATH_SIGNAL_ENV;

use crate::engine::session_io::{SessionIo, inherited_by_members};
use crate::engine::sys::is_main_thread;
use crate::front::Progress;
use runtime::{MemberRuntime, MemberStage};

/// How a process takes its place.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemberOptions {
    /// Who makes progress. With [`Progress::Manual`] nothing happens unless the process
    /// [dispatches](Member::dispatch) or waits in a call of ours: nobody below it hears anything, and it does not end
    /// with its session.
    pub progress: Progress,
}

/// A process that has taken its place in a session.
///
/// Dropping it releases nobody; it passes on what was printed, within a second. Call [`drain`](Self::drain) or
/// [`detach`](Self::detach).
pub struct Member {
    runtime: MemberRuntime,
    rank: Rank,
    size: u32,
    absent: Ranks,
    host: HostIndex,
    host_name: String,
}

/// A process that could not take a place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// It was started by hand.
    #[error(
        "this process was not started by libi: there is no {LINK_ENV} in its environment. Programs that call \
         Member::init are started by a front end, as by `libi run -n 2 PROGRAM`"
    )]
    StartedByHand,
    /// The variable is there, and the link is not: a process of a member, which has inherited its environment.
    #[error(
        "{LINK_ENV} says that the link is {link}, which is no link ({problem}): was this process started by a member, \
         and has inherited its environment?"
    )]
    NoLink {
        /// What the variable says.
        link: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A process has one place.
    #[error("this process has taken its place already")]
    Twice,
    /// The session ended before it was up.
    #[error("the session has ended before it was up")]
    Ended,
    /// The operating system refused something.
    #[error("cannot join: {0}")]
    System(#[from] std::io::Error),
}

/// Something a member wanted that did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// It took too long; it goes on in the background.
    #[error("{0} took longer than there was patience")]
    TimedOut(&'static str),
    /// The session ends, and this process with it.
    #[error("the session is ending")]
    Ending,
    /// The operating system refused something.
    #[error("{what}: {why}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Why it was refused.
        why: std::io::Error,
    },
}

impl Member {
    /// Takes the place that this process was started for; comes back when the session is up. A launch that goes on
    /// for long, or wrong, is bounded by the front end's deadline, and by the loss of the link.
    ///
    /// Call it once, early, and from the main thread: it takes over the standard streams that the link came through.
    ///
    /// # Errors
    /// The process was started by hand, or the session ended first.
    pub fn init() -> Result<Self, InitError> {
        Self::with(&MemberOptions::default())
    }

    /// Takes its place in this way.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub fn with(options: &MemberOptions) -> Result<Self, InitError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let link = std::env::var(LINK_ENV).map_err(|_| InitError::StartedByHand)?;
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(InitError::Twice);
        }
        let no_link =
            |problem: std::io::Error| InitError::NoLink { link: link.clone(), problem: problem.to_string() };
        let streams = match link.as_str() {
            LINK_STDIO | LINK_STDIO_STDERR => {
                stdio::take_streams(link == LINK_STDIO_STDERR).map_err(no_link)?
            }
            number => stdio::take_socket(number).map_err(no_link)?,
        };
        let entropy = getrandom::u64().map_err(std::io::Error::from)?;
        let machine = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        let node = Node::member(std::process::id(), machine.unwrap_or_default(), entropy);
        let lasting = options.progress == Progress::Thread || is_main_thread();
        let session_io = SessionIo::new(node, inherited_by_members(), lasting);
        let has_death_signal = streams.output.is_none() || std::env::var_os(DEATH_SIGNAL_ENV).is_some();
        let runtime = MemberRuntime::new(session_io, streams, has_death_signal, options.progress)?;
        let up = runtime.wait(Duration::MAX, |state| match state.stage {
            MemberStage::Joining => None,
            MemberStage::Up => Some(Ok(())),
            MemberStage::Ending => Some(Err(InitError::Ended)),
        });
        let up = up.unwrap_or(Err(InitError::Ended));
        if up.is_err() {
            // Whoever waits for this process should hear the verdict on it before it ends.
            let _ = runtime.wait_flushed(Duration::from_secs(1), true);
        }
        up?;
        let place = runtime.with(|state| state.place.clone()).ok_or(InitError::Ended)?;
        let runtime::MemberInfo { rank, size, absent, host, host_name } = place;
        Ok(Self { runtime, rank, size, absent, host, host_name })
    }

    /// Its rank.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many members the session has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The members that did not come up, where the launch allowed that. They take part in nothing, and what they would have
    /// given is empty.
    #[must_use]
    pub fn absent(&self) -> &Ranks {
        &self.absent
    }

    /// The members that were there and cannot be talked to any more, because they have ended or are lost, as far as this process has
    /// heard. Calls that need them end with [`CommError::PeerLost`](crate::CommError::PeerLost); others go on.
    #[must_use]
    pub fn lost(&self) -> Ranks {
        self.runtime.with(|state| state.lost.clone())
    }

    /// Which of the session's hosts it is on.
    #[must_use]
    pub fn host(&self) -> HostIndex {
        self.host
    }

    /// What that host is called in the list that the session was launched with.
    #[must_use]
    pub fn host_name(&self) -> &str {
        &self.host_name
    }

    /// Whether it is the first of all.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.rank == Rank(0)
    }

    /// Waits until no other member needs this process: call it at the end of a program that ends when its work is
    /// done. The process stays ours, and how it ends is reported.
    ///
    /// # Errors
    /// Others go on for longer, or the session ends.
    pub fn drain(&self, timeout: Duration) -> Result<(), MemberError> {
        self.runtime.wait_flushed(timeout, true)
    }

    /// Releases this process from the session: from now on it is not signalled and not ended by it, and does not end
    /// when the front end does. Comes back when everything it had to pass on is with the next process, without
    /// waiting for other members. Members that hang on this process are carried on as long as it lives.
    ///
    /// It may close descriptors that it does not know: if it closes all, libi touches none of those any more that have the same numbers,
    /// nobody is carried any longer, and what comes after that is [`CommError::Ended`](crate::CommError::Ended).
    ///
    /// What it prints from now on goes to the front end as long as somebody carries it, and is thrown away after
    /// that. Before the process replaces itself (`exec`) or goes on in a child (`fork`), it has to give its standard
    /// streams another direction, as daemons do.
    ///
    /// # Errors
    /// It is not everything with the next process in time (it goes on in the background, and this process is
    /// released all the same); the session is ending; or it is tied to its starter, as it is when that is on the same machine or
    /// ssh's server, and has called [`init`](Self::init) in another thread than the one it began with, or has no thread of
    /// libi's: then this is to be called by that one, which alone can loosen that.
    pub fn detach(&self, timeout: Duration) -> Result<(), MemberError> {
        self.runtime.release()?;
        self.runtime.tell(Input::Detach);
        self.runtime.wait_flushed(timeout, false)
    }

    /// Without a thread: does what there is to do, and does not wait.
    ///
    /// # Errors
    /// The system refuses to say what has happened.
    pub fn dispatch(&self) -> Result<(), MemberError> {
        let done = self.runtime.dispatch();
        done.map_err(|why| MemberError::System { what: "cannot wait for descriptors", why })
    }

    /// Without a thread: how long nothing has to be dispatched unless the [descriptor](Self::descriptor) becomes
    /// readable.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        self.runtime.next_timeout()
    }

    /// Is readable as long as operations are over and nobody has [asked after](crate::Pending::poll) them, or
    /// [dropped](crate::Pending) them; or, without a thread, there is something to dispatch.
    #[must_use]
    pub fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.runtime.descriptor()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // What was printed last is still on its way out of this process.
        let _ = self.runtime.wait_flushed(Duration::from_secs(1), false);
    }
}
