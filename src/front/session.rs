//! A session, as its front end sees it.

mod copy;
mod growth;
mod noted;
mod on_loss;
mod restart;
mod status;

use std::sync::Arc;
use std::time::Duration;

use libi_core::dist::layout::Layout;
use libi_core::ids::SessionId;
use libi_core::ranks::Ranks;
use libi_launch::machine::{Ending, Event as Input};
use serde::{Deserialize, Serialize};

pub(super) use self::copy::{Part, Snapshot, Told};
pub use self::growth::Growth;
pub(super) use self::status::SessionStatus;
use super::Error;
use super::output_files::OutputError;
use super::report::LaunchReport;
use super::runtime::{FrontCommand, FrontRuntime};

/// The number of a session among those of its front end.
pub(super) type SessionNumber = u64;

/// The stage of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// The session is being launched.
    Launching,
    /// The session is up.
    Up,
    /// Every member has ended, has detached, or is lost.
    Done,
    /// The session did not come up, and is being ended.
    GivenUp,
    /// The session is over; no process of it is left.
    Over,
}

/// The progress of a launch, in hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchProgress {
    /// Hosts that have joined.
    pub joined: u32,
    /// Hosts that have failed.
    pub failed: u32,
    /// Hosts that have neither joined nor failed yet.
    pub waiting: u32,
}

/// The links of a session's hosts that are meant to be direct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounts {
    /// Hosts that are connected directly to their launcher.
    pub direct: u32,
    /// Hosts that could not connect directly, and continue over the channels they were started
    /// with.
    pub fell_back: u32,
}

/// A session that is up or being launched. Dropping it ends the session: members that have not
/// detached are killed. A [detached](crate::LaunchOptions::detached) session goes on for its time instead, until
/// it is [terminated](Self::terminate).
///
/// Every call returns by its deadline.
pub struct Session {
    pub(super) runtime: Arc<FrontRuntime>,
    pub(super) number: SessionNumber,
    pub(super) layout: Layout,
    /// Whether another process keeps it.
    pub(super) is_kept: bool,
}

impl Session {
    /// The id that its distributions have.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.layout.session()
    }

    /// The number of members, with those by which the session has [grown](Self::add).
    #[must_use]
    pub fn size(&self) -> u32 {
        self.status(|status| status.layout().size()).unwrap_or(self.layout.size())
    }

    /// Which host has which ranks, as the session was launched.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Which host has which ranks, with those by which the session has [grown](Self::add).
    #[must_use]
    pub fn current_layout(&self) -> Layout {
        self.status(|status| status.layout().clone()).unwrap_or_else(|| self.layout.clone())
    }

    /// The current stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.status(|status| status.stage).unwrap_or(Stage::Over)
    }

    pub(super) fn status<T>(&self, what: impl FnOnce(&SessionStatus) -> T) -> Option<T> {
        self.runtime.with(|state| state.sessions.get(&self.number).map(what))
    }

    /// The numbers of hosts that have joined, have failed, and are pending.
    #[must_use]
    pub fn progress(&self) -> LaunchProgress {
        let (joined, failed, waiting) = self.status(|status| status.progress).unwrap_or_default();
        LaunchProgress { joined, failed, waiting }
    }

    /// How many links between hosts are direct, and how many were meant to be and are not. Links
    /// that are undecided, or not meant to be direct, are not counted. A host tries for three
    /// seconds, possibly beyond the moment when the session is up, and delays nothing. The
    /// [report](Self::report) names the hosts.
    #[must_use]
    pub fn links(&self) -> LinkCounts {
        self.status(|status| status.links).unwrap_or_default()
    }

    /// The outcome for each host when the session came up or was given up; `None` before that. Afterwards
    /// [`HostReport::direct`](super::HostReport::direct) is updated, see [`links`](Self::links), and
    /// hosts are added by which the session [grows](Self::add).
    #[must_use]
    pub fn report(&self) -> Option<Arc<LaunchReport>> {
        self.runtime.with(|state| state.sessions.get_mut(&self.number)?.current_report())
    }

    /// The members whose last processes have ended, however they ended.
    /// [`Event::Exited`](super::Event::Exited) has their exit status.
    #[must_use]
    pub fn ended(&self) -> Ranks {
        self.status(|status| status.ended.clone()).unwrap_or_default()
    }

    /// The members that were lost with their hosts: they had neither ended nor detached, and how
    /// they end is not known. [`Event::Lost`](super::Event::Lost) has the cause.
    #[must_use]
    pub fn lost(&self) -> Ranks {
        let lost = |status: &SessionStatus| {
            status
                .lost_hosts
                .keys()
                .flat_map(|host| status.lost_on(*host).iter().collect::<Vec<_>>())
                .collect()
        };
        self.status(lost).unwrap_or_default()
    }

    /// How many bytes of output were dropped while a [detached](crate::LaunchOptions::detached) session had no front
    /// end, before this one has attached to it.
    #[must_use]
    pub fn missed_output(&self) -> u64 {
        self.status(SessionStatus::missed).unwrap_or_default()
    }

    /// The first failure to write output to a [file](crate::Output::Files), if there was one. It is
    /// also reported as [`Event::OutputFailed`](super::Event::OutputFailed).
    #[must_use]
    pub fn output_error(&self) -> Option<OutputError> {
        self.status(|status| status.output_error.clone()).flatten()
    }

    /// Waits until the session is up or given up, which happens by the deadline of the launch at
    /// the latest.
    ///
    /// # Errors
    /// The session did not come up, and the report says why; or `timeout` elapsed first.
    pub fn wait_up(&self, timeout: Duration) -> Result<Arc<LaunchReport>, Error> {
        let number = self.number;
        let verdict = self.runtime.wait(timeout, |state| {
            let Some(status) = state.sessions.get_mut(&number) else { return Some(Err(Error::Closed)) };
            status.current_report().map(Ok)
        });
        let report = verdict.unwrap_or(Err(Error::TimedOut("the launch")))?;
        if report.is_up() { Ok(report) } else { Err(Error::NotLaunched(report)) }
    }

    /// Waits until every member has ended, has detached, or is lost.
    ///
    /// # Errors
    /// `timeout` elapsed first.
    pub fn wait_done(&self, timeout: Duration) -> Result<(), Error> {
        self.wait_stage(timeout, Stage::Done, "the members")
    }

    fn wait_stage(&self, timeout: Duration, stage: Stage, what: &'static str) -> Result<(), Error> {
        let number = self.number;
        let reached = self.runtime.wait(timeout, |state| {
            let reached = state.sessions.get(&number).is_none_or(|status| status.stage >= stage);
            reached.then_some(())
        });
        reached.ok_or(Error::TimedOut(what))
    }

    /// Writes to the standard input of the master or of all programs, if the launch was
    /// [asked](super::LaunchOptions::input) to keep it open. Returns when everything is sent and at
    /// most one window of it has not been read by the slowest program. Programs that have ended, have
    /// closed their input, or are lost with their hosts are not waited for.
    ///
    /// # Errors
    /// A program does not read it in time, in which case part of it may have been written; the
    /// session has ended; or the launch was not asked.
    pub fn write(&self, mut bytes: &[u8], timeout: Duration) -> Result<(), Error> {
        let deadline = std::time::Instant::now().checked_add(timeout);
        while !bytes.is_empty() {
            let now = std::time::Instant::now();
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
            let chunk_len = self.runtime.wait(left, |state| match state.sessions.get_mut(&self.number) {
                Some(SessionStatus { stage: Stage::Launching | Stage::Up, input_credit: None, .. }) => {
                    Some(Err(Error::NoInput))
                }
                Some(SessionStatus { stage: Stage::Up, input_credit: Some(left), .. }) => {
                    let chunk_len = bytes.len().min(*left);
                    *left -= chunk_len;
                    (chunk_len > 0).then_some(Ok(chunk_len))
                }
                Some(SessionStatus { stage: Stage::Launching, .. }) => None,
                _ => Some(Err(Error::Closed)),
            });
            let chunk_len = chunk_len.unwrap_or(Err(Error::TimedOut("standard input")))?;
            let (now, later) = bytes.split_at(chunk_len);
            self.runtime.send(FrontCommand::Tell(self.number, Input::Input(now.to_vec())));
            bytes = later;
        }
        Ok(())
    }

    /// Closes that standard input.
    pub fn close_input(&self) {
        self.runtime.send(FrontCommand::Tell(self.number, Input::Input(Vec::new())));
    }

    /// Sends this signal to every member that has neither ended nor detached.
    ///
    /// The signal goes to the member's process alone, not to processes that it has started.
    ///
    /// # Errors
    /// The signal number is invalid.
    pub fn kill(&self, signal: i32) -> Result<(), Error> {
        if !(1..=64).contains(&signal) {
            return Err(Error::NoSignal(signal));
        }
        self.runtime.send(FrontCommand::Tell(self.number, Input::Signal(signal)));
        Ok(())
    }

    /// Ends the session: every remaining member receives SIGTERM, and is killed when `grace` has
    /// elapsed. Returns when no process of the session is left. A second call, and dropping the
    /// session, can shorten the grace period.
    ///
    /// # Errors
    /// Processes on some host could not even be killed in time.
    pub fn terminate(&self, grace: Duration) -> Result<(), Error> {
        self.runtime
            .send(FrontCommand::Tell(self.number, Input::End(Ending { signal: libc::SIGTERM, grace })));
        self.wait_stage(grace.saturating_add(TIMEOUT), Stage::Over, "the end of the members")
    }
}

/// How much longer than its grace period the end of a session may take.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_kept {
            let ending = Ending { signal: libc::SIGTERM, grace: Duration::ZERO };
            self.runtime.send(FrontCommand::Tell(self.number, Input::End(ending)));
        }
        self.runtime.send(FrontCommand::Retire(self.number));
    }
}
