//! What the front end knows of a launch, and what it decides from that.
//!
//! Each report of a child is [recorded](reports); then the table of hosts decides the next step:
//!
//! | stage | hosts | time | next step |
//! |---|---|---|---|
//! | before up | enough have joined, none is open, none may [end](Fates) | | `GoUp` |
//! | before up | the first has failed; or none is open, too few joined | | `GiveUp` |
//! | launching | some are open | the launch's deadline has passed | `StopLaunching(TimedOut)` |
//! | launching | enough cannot join | after `failure_linger` | `StopLaunching(Cancelled)` |
//! | launching | enough have joined | the [settle time](SettleTimer) has passed | `GiveUpOpen` |
//! | stopped | some are open | after twice `kill_grace` | they fail: a row above follows |
//! | up | a [growth](crate::machine::growth) is under way | see there | `StopLaunching`, `Admit` |
//! | up | no restart and no growth is under way | all members have ended, detached or are lost | `Done`, once |
//! | any | else | | `Wait` |

mod engines;
mod fates;
mod growing;
mod host_links;
mod late_losses;
mod launchers;
mod live_members;
mod reports;
mod restart_requests;
mod settle_timer;
mod source_order;
mod spares;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch};
use libi_core::plan::{Shape, Strategy};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use self::engines::HostEngines;
pub(super) use self::fates::Fates;
use self::growing::Growing;
use self::host_links::HostLinks;
use self::late_losses::LateLosses;
use self::launchers::Launchers;
use self::live_members::LiveMembers;
use self::restart_requests::RestartRequests;
use self::settle_timer::SettleTimer;
use self::source_order::SourceOrder;
use self::spares::Spares;
use super::contract::LaunchPlan;
use super::host_table::{HostState, HostTable, LaunchDecision, Replacement};
use super::message::{ChildMessage, HostSpec, Rules, Spare};
use super::returns::Returns;
use super::session_stage::SessionStage;
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Failure, LaunchTiming, Phase};
use crate::staging::Staging;

/// What the front end's node does next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NextStep {
    /// Nothing, until a report or a deadline.
    Wait,
    /// The session goes up.
    GoUp,
    /// The session cannot come up, and is ended.
    GiveUp,
    /// No host is launched any more; hosts that have not joined are given up with this cause.
    StopLaunching(Cause),
    /// The launch has settled: open hosts are given up.
    GiveUpOpen,
    /// The hosts by which the session grows have their verdicts: those that have joined take part.
    Admit,
    /// All members of the session are gone.
    Done,
}

/// The state that only the front end's node keeps.
#[derive(Debug)]
pub(super) struct FrontEndState {
    table: HostTable,
    began: Instant,
    allowed: Duration,
    /// The launcher of each host, and the times of its launch.
    timings: Vec<LaunchTiming>,
    links: HostLinks,
    members: LiveMembers,
    restarts: RestartRequests,
    pub(super) returns: Returns,
    growing: Option<Growing>,
    /// Which hosts are led by their first members.
    engines: HostEngines,
    /// Why ssh reaches these hosts, and not libi's own client.
    declined: BTreeMap<HostIndex, String>,
    /// When every host has to have its verdict.
    deadline: Instant,
    /// Since when the launch waits for resources, and how long it has waited before.
    queued_since: Option<Instant>,
    queued: Duration,
    /// When too many hosts have failed: the time until which launching continues.
    linger_until: Instant,
    settle: SettleTimer,
    /// Once launching has stopped: the cause, and the time by which every open host has to be
    /// reported.
    concluding: Option<(Cause, Instant)>,
    /// The static tree that was asked for.
    shape: Option<Shape>,
    /// The assumed cost, for the layout of a static tree.
    cost: Cost,
    spares: Spares,
    late_losses: LateLosses,
    launchers: Launchers,
    /// Which host gets staged files from which.
    source_order: SourceOrder,
}

impl FrontEndState {
    pub(super) fn new(plan: &LaunchPlan) -> Self {
        let is_bulk = plan.options.launch_method().bulk().is_some();
        let shape = match plan.options.strategy {
            Strategy::Late => None,
            // A bulk start has no tree.
            Strategy::Static(shape) => Some(shape).filter(|_| !is_bulk),
        };
        Self {
            table: HostTable::new(plan.hosts.len() as u32, plan.options.policy),
            began: Instant::ZERO,
            allowed: plan.options.deadline,
            timings: vec![LaunchTiming::default(); plan.hosts.len()],
            links: HostLinks::new(plan.hosts.len()),
            members: LiveMembers::new(plan.size),
            restarts: RestartRequests::default(),
            returns: Returns::default(),
            growing: None,
            engines: HostEngines::new(&plan.options),
            declined: BTreeMap::new(),
            deadline: Instant::FAR_FUTURE,
            queued_since: None,
            queued: Duration::ZERO,
            linger_until: Instant::FAR_FUTURE,
            settle: SettleTimer::new(plan.options.settle),
            concluding: None,
            shape,
            cost: plan.options.assumed_cost(),
            spares: Spares::new(plan.options.spares.iter().map(Spare::from)),
            late_losses: LateLosses::default(),
            launchers: Launchers::new(plan),
            source_order: SourceOrder::new(
                plan.hosts.len(),
                plan.options.stage.as_ref().map_or(0, Staging::bytes),
            ),
        }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.began = now;
        self.deadline = now + self.allowed;
    }

    /// A start waits for resources, or none does. The deadline of the launch stands still meanwhile.
    pub(super) fn set_queued(&mut self, is_queued: bool, now: Instant) {
        match self.queued_since {
            None if is_queued && self.concluding.is_none() => self.queued_since = Some(now),
            Some(since) if !is_queued => {
                let waited = now.since(since);
                self.queued_since = None;
                self.queued += waited;
                self.deadline += waited;
            }
            _ => {}
        }
    }

    /// A host asks for a source of staged files; returns the addresses of that, none for its parent.
    pub(super) fn place_source(&mut self, launch: Launch, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        self.source_order.place(launch, addresses)
    }

    /// A host gets staged files slowly; returns those that got them from it, and where they get them
    /// now.
    pub(super) fn source_is_slow(&mut self, host: HostIndex) -> Vec<(Launch, Vec<SocketAddr>)> {
        self.source_order.is_slow(host)
    }

    /// How long the launch has waited for resources.
    pub(super) fn queued(&self) -> Duration {
        self.queued
    }

    /// The next step, by the table at the head of this file.
    pub(super) fn next_step(
        &mut self,
        stage: SessionStage,
        fates: Fates,
        rules: &Rules,
        now: Instant,
    ) -> NextStep {
        if stage.is_up() && self.growing.is_some() {
            return self.next_step_of_growth(rules, now);
        }
        if !stage.is_before_up() {
            let may_be_over = stage.is_up() && !self.restarts.are_any_open();
            return if may_be_over && self.members.is_done() { NextStep::Done } else { NextStep::Wait };
        }
        let decision = self.table.decide();
        self.linger_until = match decision {
            LaunchDecision::Hopeless => self.linger_until.min(now + rules.failure_linger),
            _ => Instant::FAR_FUTURE,
        };
        let late = now >= self.verdicts_due();
        match (decision, &self.concluding) {
            (LaunchDecision::Go, None) if fates == Fates::Ending && !late => NextStep::Wait,
            (LaunchDecision::Go, _) => NextStep::GoUp,
            (LaunchDecision::GiveUp, _) => NextStep::GiveUp,
            (LaunchDecision::Wait | LaunchDecision::Hopeless, None) if late => {
                let is_over = self.queued_since.is_none() && now >= self.deadline;
                let why = if is_over { Cause::TimedOut } else { Cause::Cancelled };
                self.concluding = Some((why.clone(), now + rules.kill_grace.saturating_mul(2)));
                NextStep::StopLaunching(why)
            }
            (LaunchDecision::Wait | LaunchDecision::Hopeless, Some((why, _))) if late => {
                let elapsed = now.since(self.began);
                self.table.close(&Failure::without_evidence(Phase::Waiting, why.clone(), elapsed));
                self.next_step(stage, fates, rules, now)
            }
            (LaunchDecision::Wait | LaunchDecision::Hopeless, _) => {
                let waits = stage.is_launching() && decision == LaunchDecision::Wait;
                let enough = waits && fates == Fates::Known && self.table.has_enough();
                let settled = self.settle.expires(self.table.changes(), enough, rules, now);
                if settled { NextStep::GiveUpOpen } else { NextStep::Wait }
            }
        }
    }

    /// The session goes up: removes the members of failed hosts, and returns their ranks. `hosts`
    /// are all hosts of the session in the order of their indices.
    pub(super) fn leave_out_failed<'a>(&mut self, hosts: impl Iterator<Item = &'a HostSpec>) -> Ranks {
        let mut absent = Ranks::new();
        let hosts = self.table.hosts().zip(hosts);
        for (_, spec) in hosts.filter(|(known, _)| matches!(known, HostState::Failed(_))) {
            self.members.remove_host(&spec.blocks);
            spec.blocks.iter().for_each(|block| absent.add_run(block.first.0, block.count));
        }
        absent
    }

    /// Why hosts are given up that are not at fault.
    pub(super) fn why_given_up(&self) -> Cause {
        self.table.why_given_up(self.has_stopped())
    }

    /// Gives all open hosts a verdict, for this reason: no host is launched any more. `tried` are those
    /// of hosts that were launched at least once from here.
    pub(super) fn close(&mut self, why: Cause, tried: &[ChildMessage], now: Instant) {
        for report in tried {
            let ChildMessage::Failed(host, ..) = report else { continue };
            if self.table.at(*host).is_some_and(|(_, known)| *known == HostState::Waiting) {
                self.table.note(report);
            }
        }
        let elapsed = now.since(self.began);
        self.table.close(&Failure::without_evidence(Phase::Waiting, why, elapsed));
    }

    /// Whether a spare may take the place of a host that has failed like this.
    pub(super) fn may_replace(&self, host: HostIndex, attempt: Attempt, failure: &Failure) -> bool {
        let is_open = self
            .table
            .at(host)
            .is_some_and(|(noted, known)| attempt >= *noted && !matches!(known, HostState::Failed(_)));
        is_open && Spares::could_help(failure) && self.can_still_succeed()
    }

    /// Puts the next spare in the place of a host, whose machine of this name has failed.
    pub(super) fn take_spare(&mut self, host: HostIndex, name: &str, failure: &Failure) -> Option<Spare> {
        self.spares.take(host, name, failure)
    }

    /// Whether launching has stopped because too many hosts have failed.
    fn has_stopped(&self) -> bool {
        matches!(self.concluding, Some((Cause::Cancelled, _)))
    }

    /// Whether a host was given up, or was lost after the session was up.
    pub(super) fn has_given_up(&self, host: HostIndex) -> bool {
        matches!(self.table.at(host), Some((_, HostState::Failed(_))))
    }

    /// Whether a report of this attempt at a host is out of date.
    pub(super) fn is_out_of_date(&self, host: HostIndex, attempt: Attempt) -> bool {
        self.table
            .at(host)
            .is_none_or(|(latest, known)| attempt < *latest || matches!(known, HostState::Failed(_)))
    }

    /// The next deadline before the session is up, or of a growth.
    pub(super) fn deadline(&self, stage: SessionStage) -> Option<Instant> {
        if stage.is_up() {
            return self.growth_due();
        }
        let settles = if self.concluding.is_none() { self.settle.due() } else { Instant::FAR_FUTURE };
        (stage.is_before_up()).then_some(self.verdicts_due().min(settles))
    }

    /// When launching has to stop, or open verdicts are not waited for any longer.
    fn verdicts_due(&self) -> Instant {
        let deadline = if self.queued_since.is_some() { Instant::FAR_FUTURE } else { self.deadline };
        self.concluding.as_ref().map_or(deadline.min(self.linger_until), |(_, by)| *by)
    }

    /// Whether enough hosts could still join at the last decision.
    fn can_still_succeed(&self) -> bool {
        self.linger_until == Instant::FAR_FUTURE
    }

    /// Which nodes launch the hosts after the first.
    pub(super) fn launchers(&self) -> &Launchers {
        &self.launchers
    }

    /// The front end launches the hosts by which the session grows.
    pub(super) fn launch_too(&mut self) {
        self.launchers.add_front_end();
    }

    /// A leader could not launch hosts. `certain`: no host is at fault.
    pub(super) fn leader_cannot_launch(&mut self, leader: HostIndex, why: &Failure, certain: bool) {
        self.launchers.cannot_launch(leader, why, certain);
    }

    /// The shape of the static tree that was asked for, and the assumed cost for its layout.
    pub(super) fn static_tree(&self) -> Option<(Shape, &Cost)> {
        self.shape.map(|shape| (shape, &self.cost))
    }

    /// The state of each host, in the order of their indices.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &HostState> {
        self.table.hosts()
    }

    /// The state of a host.
    pub(super) fn host(&self, host: HostIndex) -> Option<&HostState> {
        self.table.at(host).map(|(_, known)| known)
    }

    /// Whether the first launch of each host was withdrawn, which is no attempt.
    pub(super) fn withdrawn(&self) -> impl Iterator<Item = bool> {
        self.table.withdrawn()
    }

    /// How often the launch of each host has been started.
    pub(super) fn attempts(&self) -> impl Iterator<Item = u32> {
        self.table.attempts()
    }

    /// The number of hosts that have joined, have failed, and are open.
    pub(super) fn progress(&self) -> (u32, u32, u32) {
        self.table.progress()
    }

    /// The launcher of each host, and the times of its launch.
    pub(super) fn timings(&self) -> &[LaunchTiming] {
        &self.timings
    }

    /// Which hosts are led by their first members.
    pub(super) fn engines(&self) -> &HostEngines {
        &self.engines
    }

    /// Why ssh reaches this host, and not libi's own client, if that was tried.
    pub(super) fn declined(&self, host: HostIndex) -> Option<&str> {
        self.declined.get(&host).map(String::as_str)
    }

    /// Whether the links of hosts are direct.
    pub(super) fn links(&self) -> &HostLinks {
        &self.links
    }

    /// The hosts that spares have replaced, in order.
    pub(super) fn replaced(&self) -> &[Replacement] {
        self.spares.replaced()
    }
}
