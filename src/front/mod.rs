//! The front end: launches sessions, hears of them, ends them.
//!
//! A [`FrontEnd`] has an engine that drives the launch machines of its sessions, either in a thread of its own or, with
//! [`Progress::Manual`], whenever the caller [dispatches](FrontEnd::dispatch). Any number of front ends may exist in a process;
//! they share nothing.
//!
//! # What may fail
//!
//! | what | how it shows |
//! |---|---|
//! | what leads to the hosts can be read by others, as with `rsh`, and is not [allowed](LaunchOptions::allow_plain) | [`Error::Plain`], before anything is started |
//! | the distributions make no sense | [`Error::Layout`], before anything is started |
//! | the system has no descriptors or threads left | [`Error::System`] |
//! | hosts do not join | [`Error::NotLaunched`] with a verdict on each, by the deadline; or they are named in the report, if the [policy](LaunchOptions::policy) allows it |
//! | a host is lost later | [`Event::Lost`] |
//! | this process ends, in whatever way | everything that it has started, and that was not released, ends by itself |

mod event;
mod messages;
mod options;
mod reactor;
mod report;
mod runtime;
mod session;
mod wording;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libi_core::dist::Distribution;
use libi_core::dist::layout::{Layout, LayoutError, lay_out};
use libi_core::ids::HostIndex;
use libi_core::join::SessionKey;
use libi_core::plan::late::Attempt;
use libi_core::secure::{Fresh, Secret};
use libi_launch::backend::Backend;
use libi_launch::exit_trailer::TrailerTag;
use libi_launch::machine::{
    Carried, Direct, HostSpec, LinkPolicy, Node, Output as Wanted, Plan, Program, Spare,
};

pub use event::Event;
pub use options::{LaunchOptions, Output};
pub use report::{FlatFallback, HostReport, LaunchReport};
pub use session::{LaunchProgress, LinkCounts, Session, Stage};

use crate::engine::session_io::{SessionIo, inherited};
use crate::engine::sys::is_main_thread;
use runtime::{FrontCommand, FrontRuntime};
use session::{OutputFiles, SessionStatus};

/// Who makes progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// A thread of libi's own, in which all signals are blocked.
    #[default]
    Thread,
    /// The caller: wait until [`FrontEnd::descriptor`] is readable or [`FrontEnd::next_timeout`] is over, then call
    /// [`FrontEnd::dispatch`]. Calls that wait do it as well. Call from one thread that lives as long as the process,
    /// best the main one: only then processes that never join are certain to end when this process is killed.
    Manual,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to launch in what was given. The caller's fault.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The session did not come up; the report has a verdict on every host.
    #[error("{0}")]
    NotLaunched(Arc<LaunchReport>),
    /// What was waited for did not come in time.
    #[error("{0} took longer than there was patience")]
    TimedOut(&'static str),
    /// What leads to the hosts can be read and changed by others, and nobody has said that they may. The caller's fault.
    #[error(
        "what goes through {0} can be read and changed by everybody on the way: the session's secret, and all that it says. Nothing was \
         started. If the network is trusted, LaunchOptions::allow_plain (--allow-plain) allows it; ssh does without"
    )]
    Plain(String),
    /// There is no signal of this number.
    #[error("there is no signal {0}")]
    NoSignal(i32),
    /// The launch was not [asked](LaunchOptions::input) to leave the master's standard input open.
    #[error("the master has no input")]
    NoInput,
    /// The session, or the front end, has ended.
    #[error("the session has ended")]
    Closed,
    /// The operating system refused something that every launch needs.
    #[error("{what}: {why}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Why it was refused.
        why: std::io::Error,
    },
}

/// Launches sessions. Dropping it ends them all: members that were not released are killed.
pub struct FrontEnd {
    runtime: Arc<FrontRuntime>,
    last_number: AtomicU64,
    /// Whether the thread that starts processes lives as long as this one, as far as anybody knows.
    lasting_thread: bool,
}

impl FrontEnd {
    /// A front end that makes progress in a thread of its own.
    ///
    /// # Errors
    /// The system has no descriptors or threads left.
    pub fn new() -> Result<Self, Error> {
        Self::with(Progress::Thread)
    }

    /// A front end that makes progress in this way.
    ///
    /// # Errors
    /// The system has no descriptors or threads left.
    pub fn with(progress: Progress) -> Result<Self, Error> {
        let runtime = FrontRuntime::new(progress)
            .map_err(|why| Error::System { what: "cannot set up the loop", why })?;
        let lasting_thread = progress == Progress::Thread || is_main_thread();
        Ok(Self { runtime: Arc::new(runtime), last_number: AtomicU64::new(0), lasting_thread })
    }

    /// Launches the sessions of these distributions side by side, and waits until all of them are up.
    ///
    /// # Errors
    /// Nothing could be launched, or one of the sessions did not come up; then the others are ended.
    pub fn launch(
        &self,
        distributions: &[Distribution],
        options: &LaunchOptions,
    ) -> Result<Vec<Session>, Error> {
        let sessions = self.start(distributions, options)?;
        for session in &sessions {
            session.wait_up(options.deadline.saturating_add(options.rules.kill_grace.saturating_mul(4)))?;
        }
        Ok(sessions)
    }

    /// Begins to launch the sessions of these distributions, and does not wait.
    ///
    /// # Errors
    /// Nothing could be launched.
    pub fn start(
        &self,
        distributions: &[Distribution],
        options: &LaunchOptions,
    ) -> Result<Vec<Session>, Error> {
        let layouts = lay_out(distributions)?;
        if options.backend.is_plaintext() && !options.allow_plain {
            return Err(Error::Plain(options.backend.to_string()));
        }
        let programs: Vec<Program> = distributions.iter().map(program).collect();
        layouts.into_iter().map(|layout| self.start_one(layout, &programs, options)).collect()
    }

    fn start_one(
        &self,
        layout: Layout,
        programs: &[Program],
        options: &LaunchOptions,
    ) -> Result<Session, Error> {
        let random =
            || getrandom::u64().map_err(|why| Error::System { what: "no randomness", why: why.into() });
        let direct = direct(options)?;
        let mut mark = [0; 16];
        getrandom::fill(&mut mark).map_err(|why| Error::System { what: "no randomness", why: why.into() })?;
        let backend = options.backend.clone().with_trailer_tag(TrailerTag(mark));
        if backend.is_plaintext() {
            log::warn!(
                "session {} is launched through {backend}: everybody on the way can read and change what it says",
                layout.session().0
            );
        }
        let plan = Plan {
            direct,
            spares: options.spares.iter().map(spare).collect(),
            rules: options.rules,
            policy: options.policy,
            deadline: options.deadline,
            backend,
            output: if options.output == Output::Dropped { Wanted::Dropped } else { Wanted::Forwarded },
            strategy: options.strategy,
            input: options.input,
            ..Plan::new(host_specs(&layout), programs.to_vec(), layout.size(), options.believed_cost())
        };
        let files = match &options.output {
            Output::Files(directory) => Some(
                OutputFiles::new(directory)
                    .map_err(|why| Error::System { what: "cannot make the directory for output", why })?,
            ),
            _ => None,
        };
        let node = Node::front(SessionKey(random()?), &plan, random()?);
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let status = SessionStatus::new(layout.clone(), files, options.input);
        self.runtime.with(|state| state.sessions.insert(number, status));
        let session_io =
            SessionIo::new(node, inherited(), self.lasting_thread).with_here(options.here.clone());
        self.runtime.send(FrontCommand::Add(number, Box::new(session_io)));
        Ok(Session { runtime: Arc::clone(&self.runtime), number, layout })
    }

    /// The next thing that has happened, if something does within this time.
    pub fn next_event(&self, timeout: Duration) -> Option<Event> {
        self.runtime.next_event(timeout)
    }

    /// Is readable as long as [`next_event`](Self::next_event) has something; operations of its sessions are over and nobody has
    /// [asked after](crate::Pending::poll) them, or [dropped](crate::Pending) them; or, without a thread, there is something to
    /// [dispatch](Self::dispatch). For `poll` and the like; it is not to be read.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.runtime.descriptor()
    }

    /// Without a thread: how long nothing has to be dispatched unless the descriptor becomes readable.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        self.runtime.next_timeout()
    }

    /// Without a thread: does what there is to do, and does not wait.
    ///
    /// # Errors
    /// The system refuses to say what has happened.
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

/// What travels about direct links. On one machine there is nothing to be gained by them.
fn direct(options: &LaunchOptions) -> Result<Direct, Error> {
    let links = match (&options.backend, options.links) {
        (Backend::Local(_), LinkPolicy::Auto) => LinkPolicy::Channel,
        (_, links) => links,
    };
    let mut secret = None;
    if links != LinkPolicy::Channel {
        let mut bytes = [0; Fresh::LEN];
        getrandom::fill(&mut bytes)
            .map_err(|why| Error::System { what: "no randomness", why: why.into() })?;
        #[cfg(feature = "test-shell")]
        crate::testing::note_secret(&bytes);
        secret = Some(Carried(Secret::new(Fresh::new(&mut bytes))));
    }
    Ok(Direct { links, loopback: options.loopback, mode: options.link_security, secret })
}

fn spare(host: libi_core::hosts::HostRef<'_>) -> Spare {
    Spare { name: host.name.to_owned(), user: host.user.map(str::to_owned), port: host.port }
}

fn program(distribution: &Distribution) -> Program {
    Program {
        executable: distribution.executable.clone(),
        args: distribution.args.clone(),
        env: distribution.env.clone(),
        cwd: distribution.cwd.clone(),
    }
}

fn host_specs(layout: &Layout) -> Vec<HostSpec> {
    let spec = |(host, named): (u32, libi_core::hosts::HostRef<'_>)| HostSpec {
        host: HostIndex(host),
        attempt: Attempt::default(),
        name: named.name.to_owned(),
        user: named.user.map(str::to_owned),
        port: named.port,
        below: 0,
        faults: 0,
        blocks: layout.blocks(HostIndex(host)).to_vec(),
    };
    (0..).zip(layout.hosts()).map(spec).collect()
}
