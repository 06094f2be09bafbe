//! The front end's record of a growth that is under way. The head of
//! [`growth`](crate::machine::growth) has the table.

use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use super::{FrontEndState, NextStep};
use crate::failure::{Cause, Failure, LaunchTiming, Phase};
use crate::machine::commands::LOWEST_NUMBER;
use crate::machine::growth::{Grown, GrowthError, GrowthRequest};
use crate::machine::host_table::{HostState, Policy};
use crate::machine::message::{ChildMessage, HostSpec, Rules};
use crate::machine::session_stage::SessionStage;

/// A growth that is under way.
#[derive(Debug)]
pub(super) struct Growing {
    grown: Grown,
    policy: Policy,
    began: Instant,
    deadline: Instant,
    /// Once launching has stopped: the cause, and by when every new host has its verdict.
    stopped: Option<(Cause, Instant)>,
}

impl Growing {
    /// The indices of the new hosts.
    fn hosts(&self) -> impl Iterator<Item = HostIndex> + use<> {
        self.grown.host_range().map(HostIndex)
    }

    fn needed(&self) -> u32 {
        match self.policy {
            Policy::All => self.grown.hosts,
            Policy::AtLeast(least) => least.clamp(1, self.grown.hosts),
        }
    }
}

impl FrontEndState {
    /// The session, which is up and has so many members, is to grow.
    pub(in crate::machine) fn begin_growth(
        &mut self,
        request: &GrowthRequest,
        size: u32,
        now: Instant,
    ) -> Result<Grown, GrowthError> {
        if self.members.was_done() {
            return Err(GrowthError::Ending);
        } else if self.growing.is_some() {
            return Err(GrowthError::UnderWay);
        }
        let first_host = self.table.hosts().count();
        let hosts = u32::try_from(request.hosts.len()).map_err(|_| GrowthError::TooLarge)?;
        // The highest index stands for the front end in some places.
        let sum = (first_host as u64) + u64::from(hosts);
        let has_numbers = size.checked_add(request.size).is_some_and(|size| size < LOWEST_NUMBER);
        if sum >= u64::from(u32::MAX) || !has_numbers {
            return Err(GrowthError::TooLarge);
        }
        let grown = Grown {
            first_host: HostIndex(first_host as u32),
            hosts,
            first_rank: Rank(size),
            ranks: request.size,
        };
        self.table.grow(hosts);
        self.timings.resize(sum as usize, LaunchTiming::default());
        self.links.grow(hosts);
        self.members.grow(request.size);
        let deadline = now + request.deadline;
        let policy = request.policy;
        self.growing = Some(Growing { grown: grown.clone(), policy, began: now, deadline, stopped: None });
        Ok(grown)
    }

    /// Whether a growth is under way.
    pub(in crate::machine) fn is_growing(&self) -> bool {
        self.growing.is_some()
    }

    /// How far the session has come for a host.
    pub(super) fn stage_of(&self, host: HostIndex, stage: SessionStage) -> SessionStage {
        let is_new = self.growing.as_ref().is_some_and(|growing| growing.grown.first_host <= host);
        if is_new && stage.is_up() { SessionStage::new() } else { stage }
    }

    /// The next step of a growth, in a session that is up.
    pub(super) fn next_step_of_growth(&mut self, rules: &Rules, now: Instant) -> NextStep {
        let Some(growing) = &mut self.growing else { return NextStep::Wait };
        let table = &self.table;
        let state = |host| table.at(host).map(|(_, known)| known);
        let count =
            |is_it: fn(&HostState) -> bool| growing.hosts().filter_map(state).filter(|it| is_it(it)).count();
        let waiting = count(|state| *state == HostState::Waiting);
        let failed = count(|state| matches!(state, HostState::Failed(_))) as u32;
        let is_hopeless = growing.grown.hosts - failed < growing.needed();
        match &growing.stopped {
            _ if waiting == 0 => NextStep::Admit,
            None if is_hopeless || now >= growing.deadline => {
                // As when a launch is given up: the first that is at fault is named.
                let at_fault = |host: &HostIndex| {
                    matches!(state(*host), Some(HostState::Failed(failure))
                        if !failure.cause.is_cut_short() && !matches!(failure.cause, Cause::LauncherLost(_)))
                };
                let culprit = growing.hosts().find(at_fault).map_or(Cause::Cancelled, Cause::LaunchFailed);
                let why = if is_hopeless { culprit } else { Cause::TimedOut };
                growing.stopped = Some((why.clone(), now + rules.kill_grace.saturating_mul(2)));
                NextStep::StopLaunching(why)
            }
            Some((why, by)) if now >= *by => {
                let failure =
                    Failure::without_evidence(Phase::Waiting, why.clone(), now.since(growing.began));
                self.table.close(&failure);
                NextStep::Admit
            }
            _ => NextStep::Wait,
        }
    }

    /// When a growth has to go on.
    pub(super) fn growth_due(&self) -> Option<Instant> {
        let growing = self.growing.as_ref()?;
        Some(growing.stopped.as_ref().map_or(growing.deadline, |(_, by)| *by))
    }

    /// How long the new hosts have been launched.
    pub(in crate::machine) fn growth_took(&self, now: Instant) -> Duration {
        self.growing.as_ref().map_or(Duration::ZERO, |growing| now.since(growing.began))
    }

    /// All new hosts have their verdicts: returns the ranks that are in the session, none if too few hosts
    /// have joined. `specs` are those of the new hosts.
    pub(in crate::machine) fn end_growth<'a>(
        &mut self,
        specs: impl Iterator<Item = &'a HostSpec>,
        now: Instant,
    ) -> Option<(Grown, Ranks)> {
        let growing = self.growing.take()?;
        let mut joined = 0;
        let mut present = Ranks::new();
        for spec in specs.filter(|spec| matches!(self.host(spec.host), Some(HostState::Joined))) {
            joined += 1;
            spec.blocks.iter().for_each(|block| present.add_run(block.first.0, block.count));
        }
        if joined < growing.needed() {
            present = Ranks::new();
            self.close_joined(&growing, now);
        }
        present.iter().for_each(|rank| self.members.revive(rank));
        Some((growing.grown, present))
    }

    /// New hosts that have joined are ended, because there are too few.
    fn close_joined(&mut self, growing: &Growing, now: Instant) {
        let elapsed = now.since(growing.began);
        for host in growing.hosts() {
            if let Some((attempt, HostState::Joined)) = self.table.at(host) {
                let why = growing.stopped.as_ref().map_or(Cause::Cancelled, |(why, _)| why.clone());
                let failure = Failure::without_evidence(Phase::Joined, why, elapsed);
                let failed = ChildMessage::Failed(host, *attempt, failure);
                self.table.note(&failed);
            }
        }
    }
}
