//! A session, as its front end sees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use libi_core::dist::layout::Layout;
use libi_core::ids::{HostIndex, Rank, SessionId};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::failure::{Exit, Failure};
use libi_launch::machine::{Ending, Event as Input, Node, WINDOW};
use libi_launch::options::LaunchOptions;

use super::Error;
use super::choice::BackendReason;
use super::command::CommandStatuses;
use super::event::Event;
use super::log_lines::LoggedHosts;
use super::output_files::{OutputError, OutputFiles};
use super::report::LaunchReport;
use super::runtime::{FrontCommand, FrontRuntime};
use super::wording::plain_cause;

/// The number of a session among those of its front end.
pub(super) type SessionNumber = u64;

/// The stage of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Hosts that are connected directly to their launcher.
    pub direct: u32,
    /// Hosts that could not connect directly, and continue over the channels they were started
    /// with.
    pub fell_back: u32,
}

/// What is known of a session.
pub(super) struct SessionStatus {
    layout: Layout,
    /// Why the launch uses its back-end.
    pub(super) reason: BackendReason,
    began: Option<Instant>,
    pub(super) stage: Stage,
    pub(super) report: Option<Arc<LaunchReport>>,
    pub(super) files: Option<OutputFiles>,
    /// `Event::Done` is to follow when all output has been taken.
    pub(super) done_is_due: bool,
    /// How many bytes of input may still be sent to the master, if its input is open (credit).
    pub(super) input_credit: Option<usize>,
    /// The numbers of hosts that have joined, have failed, and are pending.
    pub(super) progress: (u32, u32, u32),
    links: LinkCounts,
    /// The state of links, where it is newer than the report.
    new_links: Option<Vec<Option<bool>>>,
    /// Members that have ended.
    ended: Ranks,
    detached: Ranks,
    /// Hosts that were lost after the session was up, with the cause in words.
    lost_hosts: BTreeMap<HostIndex, String>,
    /// How the leaders ended that have ended.
    leader_exits: BTreeMap<HostIndex, Exit>,
    pub(super) output_error: Option<OutputError>,
    pub(super) logged: LoggedHosts,
    pub(super) commands: CommandStatuses,
    /// Whether agents lead the hosts, and can run commands.
    has_agents: bool,
}

impl SessionStatus {
    pub(super) fn new(
        layout: Layout,
        reason: BackendReason,
        files: Option<OutputFiles>,
        options: &LaunchOptions,
    ) -> Self {
        let progress = (0, 0, layout.hosts().len() as u32);
        Self {
            layout,
            reason,
            began: None,
            stage: Stage::Launching,
            report: None,
            files,
            done_is_due: false,
            input_credit: options.input.then_some(WINDOW as usize),
            progress,
            links: LinkCounts::default(),
            new_links: None,
            ended: Ranks::new(),
            detached: Ranks::new(),
            lost_hosts: BTreeMap::new(),
            leader_exits: BTreeMap::new(),
            output_error: None,
            logged: LoggedHosts::default(),
            commands: CommandStatuses::default(),
            has_agents: options.agent.is_some(),
        }
    }

    pub(super) fn session(&self) -> SessionId {
        self.layout.session()
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.began = Some(now);
    }

    pub(super) fn since(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.since(began))
    }

    /// Notes the state of the links, which may still change after the report was made.
    pub(super) fn update_links(&mut self, node: &Node) {
        let (direct, fell_back) = node.link_counts();
        let links = LinkCounts { direct, fell_back };
        if std::mem::replace(&mut self.links, links) != links && self.report.is_some() {
            self.new_links = Some(node.links().to_vec());
        }
    }

    fn current_report(&mut self) -> Option<Arc<LaunchReport>> {
        let report = self.report.as_mut()?;
        if let Some(links) = self.new_links.take() {
            Arc::make_mut(report).update_links(&links);
        }
        Some(Arc::clone(report))
    }

    /// The name of a host; if it was replaced, that of the spare.
    pub(super) fn host_name(&self, host: HostIndex) -> String {
        if let Some(host) = self.report.as_ref().and_then(|report| report.hosts().get(host.0 as usize)) {
            return host.name.clone();
        }
        let host = self.layout.hosts().entry(host.0 as usize);
        host.map(|host| host.name.to_owned()).unwrap_or_default()
    }

    /// The hosts that have joined, and are not lost.
    pub(super) fn live_hosts(&self) -> Vec<HostIndex> {
        let hosts = self.report.iter().filter(|report| report.is_up()).flat_map(|report| report.hosts());
        let hosts = (0..).map(HostIndex).zip(hosts).filter(|(_, host)| host.failure.is_none());
        hosts.map(|(host, _)| host).filter(|host| !self.lost_hosts.contains_key(host)).collect()
    }

    /// Whether commands can be run in the session.
    pub(super) fn check_spawns(&self) -> Result<(), Error> {
        match self.stage {
            _ if !self.has_agents => Err(Error::NoAgents),
            Stage::Launching => Err(Error::NotUp),
            Stage::Up | Stage::Done => Ok(()),
            Stage::GivenUp | Stage::Over => Err(Error::Closed),
        }
    }

    /// Notes that a member has ended.
    pub(super) fn exited(&mut self, rank: Rank, exit: Exit) -> Event {
        self.ended.add(rank);
        let host = self.layout.host_of(rank);
        if let Some(host) = host.filter(|host| self.layout.leader(*host) == Some(rank)) {
            self.leader_exits.insert(host, exit);
        }
        let host_name = host.map(|host| self.host_name(host)).unwrap_or_default();
        Event::Exited { session: self.session(), rank, host_name, exit }
    }

    /// Notes that a member has detached.
    pub(super) fn detached(&mut self, rank: Rank) -> Event {
        self.detached.add(rank);
        Event::Detached { session: self.session(), rank }
    }

    /// Notes that a host is lost.
    pub(super) fn host_lost(&mut self, host: HostIndex, failure: Failure) -> Event {
        let reason = match self.leader_exits.get(&host) {
            Some(exit) => format!("its first member {exit}"),
            None => self.cause(&failure),
        };
        self.lost_hosts.insert(host, reason.clone());
        let (session, name) = (self.session(), self.host_name(host));
        Event::Lost { session, host, name, ranks: self.lost_on(host), failure, reason }
    }

    /// The cause of a failure, with the names of other hosts.
    pub(super) fn cause(&self, failure: &Failure) -> String {
        plain_cause(failure, |launcher| self.described(launcher))
    }

    /// How the members of the session ended, in one line.
    pub(super) fn summary(&self) -> String {
        let lost: usize = self.lost_hosts.keys().map(|host| self.lost_on(*host).len()).sum();
        let (session, ended, detached) = (self.session(), self.ended.len(), self.detached.len());
        format!("{session} is done: {ended} members ended, {detached} detached, {lost} lost")
    }

    /// A host that has ended or is lost, and how.
    fn described(&self, host: HostIndex) -> String {
        let name = self.host_name(host);
        match (self.leader_exits.get(&host), self.lost_hosts.get(&host)) {
            (Some(exit), _) => format!("{name}, whose first member {exit}"),
            (None, Some(reason)) => format!("{name}: {reason}"),
            (None, None) => name,
        }
    }

    /// The members of a lost host that had neither ended nor detached.
    fn lost_on(&self, host: HostIndex) -> Ranks {
        let ranks = self.layout.blocks(host).iter().flat_map(|block| block.ranks());
        ranks.filter(|rank| !self.ended.contains(*rank) && !self.detached.contains(*rank)).collect()
    }
}

/// A session that is up or being launched. Dropping it ends the session: members that have not
/// detached are killed.
///
/// Every call returns by its deadline.
pub struct Session {
    pub(super) runtime: Arc<FrontRuntime>,
    pub(super) number: SessionNumber,
    pub(super) layout: Layout,
}

impl Session {
    /// The id that its distributions have.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.layout.session()
    }

    /// The number of members.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.layout.size()
    }

    /// Which host has which ranks.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
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

    /// The outcome for each host when the session came up or was given up; `None` before that. Only
    /// [`HostReport::direct`](super::HostReport::direct) is updated afterwards, see
    /// [`links`](Self::links).
    #[must_use]
    pub fn report(&self) -> Option<Arc<LaunchReport>> {
        self.runtime.with(|state| state.sessions.get_mut(&self.number)?.current_report())
    }

    /// The members that have ended, however they ended. [`Event::Exited`] has their exit status.
    #[must_use]
    pub fn ended(&self) -> Ranks {
        self.status(|status| status.ended.clone()).unwrap_or_default()
    }

    /// The members that were lost with their hosts: they had neither ended nor detached, and how
    /// they end is not known. [`Event::Lost`] has the cause.
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

    /// The first failure to write output to a [file](super::Output::Files), if there was one. It is
    /// also reported as [`Event::OutputFailed`].
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

    /// Writes to the master's standard input, if the launch was
    /// [asked](super::LaunchOptions::input) to keep it open. Returns when everything is sent and at
    /// most one window of it has not been read by the program.
    ///
    /// # Errors
    /// The program does not read it in time, in which case part of it may have been written; the
    /// session has ended; or its master has no input.
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
            let chunk_len = chunk_len.unwrap_or(Err(Error::TimedOut("the master's input")))?;
            let (now, later) = bytes.split_at(chunk_len);
            self.runtime.send(FrontCommand::Tell(self.number, Input::Input(now.to_vec())));
            bytes = later;
        }
        Ok(())
    }

    /// Closes the master's standard input.
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
        let ending = Ending { signal: libc::SIGTERM, grace: Duration::ZERO };
        self.runtime.send(FrontCommand::Tell(self.number, Input::End(ending)));
        self.runtime.send(FrontCommand::Retire(self.number));
    }
}
