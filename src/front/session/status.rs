//! What a front end knows of a session, and how it puts that into words.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use libi_core::dist::layout::{Block, Layout};
use libi_core::hosts::HostRef;
use libi_core::ids::{HostIndex, Rank, SessionId};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_job::session::Note;
use libi_launch::failure::{Cause, Exit, Failure};
use libi_launch::machine::{Node, RestartError, Spare, WINDOW};
use libi_launch::options::{LaunchOptions, OnLoss, StandardInput};

use super::growth::GrowthStatus;
use super::{LinkCounts, Stage};
use crate::front::Error;
use crate::front::choice::BackendReason;
use crate::front::command::CommandStatuses;
use crate::front::event::Event;
use crate::front::log_lines::LoggedHosts;
use crate::front::output_files::{OutputError, OutputFiles};
use crate::front::report::LaunchReport;
use crate::front::wording::plain_cause;

/// What is known of a session.
pub(in crate::front) struct SessionStatus {
    pub(super) layout: Layout,
    /// Why the launch uses its back-end.
    pub(in crate::front) reason: BackendReason,
    pub(super) began: Option<Instant>,
    pub(in crate::front) stage: Stage,
    pub(in crate::front) report: Option<Arc<LaunchReport>>,
    pub(in crate::front) files: Option<OutputFiles>,
    /// `Event::Done` is to follow when all output has been taken.
    pub(in crate::front) done_is_due: bool,
    /// What follows a loss, as chosen last; and whether calls go on after one, as chosen at the launch.
    pub(in crate::front) on_loss: OnLoss,
    pub(super) calls_continue: bool,
    /// The master, and the one that the caller knows of: messages go to no other one than that.
    pub(in crate::front) master: Rank,
    pub(in crate::front) known_master: Rank,
    /// The session ends although the caller has not asked for that: a member is lost, and it ends with it, or
    /// its keeper ends it.
    pub(in crate::front) ends_unasked: bool,
    /// How many bytes of input may still be sent to the master, if its input is open (credit), and how many
    /// it has consumed.
    pub(in crate::front) input_credit: Option<usize>,
    pub(in crate::front) input_taken: u64,
    /// The numbers of hosts that have joined, have failed, and are pending.
    pub(in crate::front) progress: (u32, u32, u32),
    pub(super) links: LinkCounts,
    /// The state of links, where it is newer than the report.
    pub(super) new_links: Option<Vec<Option<bool>>>,
    /// Members that have ended.
    pub(super) ended: Ranks,
    pub(super) detached: Ranks,
    /// The restarts that callers wait for, and their answers.
    pub(in crate::front) restarts: BTreeMap<Rank, Option<Result<(), RestartError>>>,
    /// Why the last host that was to come back has not, if so.
    return_failure: Option<String>,
    pub(in crate::front) growth: GrowthStatus,
    /// Hosts that were lost after the session was up, with the cause in words.
    pub(super) lost_hosts: BTreeMap<HostIndex, String>,
    /// How those members ended that led their hosts.
    leader_exits: BTreeMap<HostIndex, Exit>,
    pub(in crate::front) output_error: Option<OutputError>,
    pub(in crate::front) logged: LoggedHosts,
    pub(in crate::front) commands: CommandStatuses,
    /// Whether agents lead the hosts, and can run commands.
    has_agents: bool,
    /// Whether another process keeps the session, and this is a copy of what that one knows; and how many
    /// bytes of output were dropped there while the session had no front end.
    pub(in crate::front) is_kept: bool,
    pub(super) missed: u64,
    /// The hosts, as tools find them that attach to the session.
    pub(in crate::front) noted: Note,
    pub(super) note_is_due: bool,
}

impl SessionStatus {
    pub(in crate::front) fn new(
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
            on_loss: options.on_loss,
            calls_continue: options.on_loss == OnLoss::Continue,
            master: Rank(0),
            known_master: Rank(0),
            ends_unasked: false,
            input_taken: 0,
            input_credit: (options.input != StandardInput::Empty).then_some(WINDOW as usize),
            progress,
            links: LinkCounts::default(),
            new_links: None,
            ended: Ranks::new(),
            detached: Ranks::new(),
            restarts: BTreeMap::new(),
            return_failure: None,
            growth: GrowthStatus::new(options),
            lost_hosts: BTreeMap::new(),
            leader_exits: BTreeMap::new(),
            output_error: None,
            logged: LoggedHosts::default(),
            commands: CommandStatuses::default(),
            has_agents: options.agent.is_some(),
            is_kept: false,
            missed: 0,
            noted: Note::default(),
            note_is_due: false,
        }
    }

    pub(in crate::front) fn session(&self) -> SessionId {
        self.layout.session()
    }

    pub(in crate::front) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(in crate::front) fn begin(&mut self, now: Instant) {
        self.began = Some(now);
    }

    pub(in crate::front) fn since(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.since(began))
    }

    /// Notes the state of the links, which may still change after the report was made.
    pub(in crate::front) fn update_links(&mut self, node: &Node) {
        let (direct, fell_back) = node.link_counts();
        let links = LinkCounts { direct, fell_back };
        if std::mem::replace(&mut self.links, links) != links && self.report.is_some() {
            self.new_links = Some(node.links().to_vec());
        }
    }

    pub(super) fn current_report(&mut self) -> Option<Arc<LaunchReport>> {
        let report = self.report.as_mut()?;
        if let Some(links) = self.new_links.take() {
            Arc::make_mut(report).update_links(&links);
        }
        Some(Arc::clone(report))
    }

    /// The name of a host; if it was replaced, that of the spare.
    pub(in crate::front) fn host_name(&self, host: HostIndex) -> String {
        if let Some(host) = self.report.as_ref().and_then(|report| report.hosts().get(host.0 as usize)) {
            return host.name.clone();
        }
        let host = self.layout.hosts().entry(host.0 as usize);
        host.map(|host| host.name.to_owned()).unwrap_or_default()
    }

    /// The name of the host of a rank, if the session has it.
    pub(super) fn host_name_of(&self, rank: Rank) -> String {
        self.layout.host_of(rank).map(|host| self.host_name(host)).unwrap_or_default()
    }

    /// The hosts that have joined, and are not lost.
    pub(in crate::front) fn live_hosts(&self) -> Vec<HostIndex> {
        let hosts = self.report.iter().filter(|report| report.is_up()).flat_map(|report| report.hosts());
        let hosts = (0..).map(HostIndex).zip(hosts).filter(|(_, host)| host.failure.is_none());
        hosts.map(|(host, _)| host).filter(|host| !self.lost_hosts.contains_key(host)).collect()
    }

    /// Whether commands can be run in the session.
    pub(in crate::front) fn check_spawns(&self) -> Result<(), Error> {
        match self.stage {
            _ if !self.has_agents => Err(Error::NoAgents),
            Stage::Launching => Err(Error::NotUp),
            Stage::Up | Stage::Done => Ok(()),
            Stage::GivenUp | Stage::Over => Err(Error::Closed),
        }
    }

    /// Notes that a member has ended. The node knows whether it has led its host.
    pub(in crate::front) fn exited(
        &mut self,
        rank: Rank,
        exit: Exit,
        killed: Option<Cause>,
        node: &Node,
    ) -> Event {
        self.ended.add(rank);
        let host = self.layout.host_of(rank);
        let is_leader =
            |host: &HostIndex| self.layout.leader(*host) == Some(rank) && node.is_led_by_member(*host);
        if let Some(host) = host.filter(is_leader) {
            self.leader_exits.insert(host, exit);
        }
        let host_name = self.host_name_of(rank);
        Event::Exited { session: self.session(), rank, host_name, exit, killed }
    }

    /// Notes that a member lives again.
    pub(in crate::front) fn restarted(&mut self, rank: Rank) -> Event {
        self.ended.remove_all(&[rank].into_iter().collect());
        self.restart_answered(rank, Ok(()));
        Event::Restarted { session: self.session(), rank, host_name: self.host_name_of(rank) }
    }

    /// Notes that a new host has the members of a lost one, in these blocks; none if it has not come up.
    pub(in crate::front) fn returned(
        &mut self,
        host: HostIndex,
        place: &Spare,
        blocks: &[Block],
        node: &Node,
        now: Instant,
    ) {
        let named = HostRef { user: place.user.as_deref(), port: place.port, ..HostRef::new(&place.name) };
        // The launch half has no more hosts than a list.
        let _ = self.layout.move_to(named, blocks);
        let began = self.began.unwrap_or(now);
        if let Some(report) = &mut self.report {
            let report = Arc::make_mut(report);
            report.grow(&self.layout, node, host, now.since(began));
            let failed = report.failures_of(host.0..host.0 + 1).pop();
            self.return_failure = failed.map(|(name, why)| format!("{name}: {why}"));
        }
        self.progress = node.progress();
        self.note_hosts(node);
    }

    /// Another member is the master.
    pub(in crate::front) fn has_master(&mut self, rank: Rank) -> Event {
        self.master = rank;
        Event::MasterReplaced { session: self.session(), rank, host_name: self.host_name_of(rank) }
    }

    /// Notes that a member was not restarted.
    pub(in crate::front) fn not_restarted(&mut self, rank: Rank, why: RestartError) -> Event {
        // The report has it in more words.
        let why = match (why, &self.return_failure) {
            (RestartError::NoHost(_), Some(failure)) => RestartError::NoHost(failure.clone()),
            (why, _) => why,
        };
        // The attempt that is under way has an answer of its own, for which callers wait.
        if why != RestartError::UnderWay {
            self.restart_answered(rank, Err(why.clone()));
        }
        Event::NotRestarted { session: self.session(), rank, host_name: self.host_name_of(rank), why }
    }

    pub(in crate::front) fn restart_answered(&mut self, rank: Rank, answer: Result<(), RestartError>) {
        if let Some(known) = self.restarts.get_mut(&rank) {
            known.get_or_insert(answer);
        }
    }

    /// Notes that a member has detached.
    pub(in crate::front) fn detached(&mut self, rank: Rank) -> Event {
        self.detached.add(rank);
        Event::Detached { session: self.session(), rank }
    }

    /// Notes that a host is lost.
    pub(in crate::front) fn host_lost(&mut self, host: HostIndex, failure: Failure) -> Event {
        let reason = match self.leader_exits.get(&host) {
            Some(exit) => format!("its first member {exit}"),
            None => self.cause(&failure),
        };
        self.lost_hosts.insert(host, reason.clone());
        self.note_is_due = true;
        let (session, name) = (self.session(), self.host_name(host));
        Event::Lost { session, host, name, ranks: self.lost_on(host), failure, reason }
    }

    /// The cause of a failure, with the names of other hosts.
    pub(in crate::front) fn cause(&self, failure: &Failure) -> String {
        plain_cause(failure, |launcher| self.described(launcher))
    }

    /// How the members of the session ended, in one line.
    pub(in crate::front) fn summary(&self) -> String {
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
    pub(super) fn lost_on(&self, host: HostIndex) -> Ranks {
        let ranks = self.layout.blocks(host).iter().flat_map(|block| block.ranks());
        ranks.filter(|rank| !self.ended.contains(*rank) && !self.detached.contains(*rank)).collect()
    }
}
