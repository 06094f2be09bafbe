//! The front end's part of a node: host table, deadlines, decisions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::ids::HostIndex;
use libi_core::plan::late::Attempt;
use libi_core::plan::{Shape, Strategy};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::live_members::LiveMembers;
use super::session_end::TERMINATE;
use super::settling::SettleTimer;
use super::{Effect, LaunchPlan, Node, Notice, Role, SessionStage};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Failure, LaunchTiming, Phase};
use crate::machine::host_table::{HostState, HostTable, LaunchDecision, Replacement};
use crate::machine::message::{ChildMessage, Ending, ParentMessage, Spare};

/// The state that only the front end's node keeps.
#[derive(Debug)]
pub(super) struct FrontEndState {
    pub(super) table: HostTable,
    allowed: Duration,
    /// The launcher of each host, and the times of its launch.
    timings: Vec<LaunchTiming>,
    /// Whether the link of each host is direct, once that is known.
    links: Vec<Option<bool>>,
    /// How many links are direct, and how many are not.
    link_counts: (u32, u32),
    members: LiveMembers,
    /// When every host has to have its verdict.
    deadline: Instant,
    /// When too many hosts have failed: the time until which launching continues.
    linger_until: Instant,
    pub(super) settle: SettleTimer,
    /// Once launching has stopped: the cause, and the time by which every open host has to be
    /// reported.
    concluding: Option<(Cause, Instant)>,
    /// The static tree that was asked for, and the assumed cost for its layout.
    pub(super) shape: Option<Shape>,
    pub(super) cost: Cost,
    pub(super) spares: VecDeque<Spare>,
    pub(super) replaced: Vec<Replacement>,
    /// Hosts that were lost just when the session came up, with their failures, until it is known
    /// whether they are back.
    late_losses: BTreeMap<HostIndex, Box<Failure>>,
    pub(super) launchers: Launchers,
}

/// Which nodes launch the hosts after the first.
#[derive(Debug)]
pub(super) enum Launchers {
    /// The leader of the first host, and those that it launches.
    Leaders,
    /// The front end, by bulk starts.
    FrontEnd,
    /// The front end, because this leader could not launch, with this first failure.
    FrontEndInstead(Box<(HostIndex, Failure)>),
}

impl Launchers {
    /// Whether the front end launches all hosts.
    pub(super) fn is_front_end(&self) -> bool {
        !matches!(self, Self::Leaders)
    }

    /// Whether leaders could launch, but one had no resources for more.
    pub(super) fn lack_resources(&self) -> bool {
        matches!(self, Self::FrontEndInstead(why) if why.1.is_out_of_resources())
    }
}

/// What the host table records instead of a report.
enum LateLoss {
    /// The report itself.
    Unaffected,
    /// Nothing, until more is known.
    Pending,
    Resolved(ChildMessage),
}

impl FrontEndState {
    pub(super) fn new(plan: &LaunchPlan) -> Self {
        let table = HostTable::new(plan.hosts.len() as u32, plan.options.policy);
        let (deadline, linger_until) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
        let is_bulk = plan.options.launch_method().bulk().is_some();
        let shape = match plan.options.strategy {
            Strategy::Late => None,
            // A bulk start has no tree.
            Strategy::Static(shape) => Some(shape).filter(|_| !is_bulk),
        };
        Self {
            table,
            allowed: plan.options.deadline,
            timings: vec![LaunchTiming::default(); plan.hosts.len()],
            links: vec![None; plan.hosts.len()],
            link_counts: (0, 0),
            members: LiveMembers::new(plan.size),
            deadline,
            linger_until,
            settle: SettleTimer::new(plan.options.settle),
            concluding: None,
            shape,
            cost: plan.options.assumed_cost(),
            spares: plan.options.spares.iter().map(Spare::from).collect(),
            replaced: Vec::new(),
            late_losses: BTreeMap::new(),
            launchers: if is_bulk { Launchers::FrontEnd } else { Launchers::Leaders },
        }
    }

    /// Records the state of a host's link. A host that is lost or relaunched has none.
    fn note_link(&mut self, report: &ChildMessage) {
        let (host, direct) = match report {
            ChildMessage::Link(host, direct) => (host, Some(*direct)),
            ChildMessage::Relaunch(host, ..) | ChildMessage::Failed(host, ..) => (host, None),
            _ => return,
        };
        let Some(known) = self.links.get_mut(host.0 as usize) else { return };
        let before = std::mem::replace(known, direct);
        for (is, count) in [(true, &mut self.link_counts.0), (false, &mut self.link_counts.1)] {
            *count = *count + u32::from(direct == Some(is)) - u32::from(before == Some(is));
        }
    }

    /// The report of a host that was given up before the session was up, with the reason, if that
    /// lies elsewhere.
    fn explain(&self, report: &ChildMessage, stage: SessionStage) -> Option<ChildMessage> {
        let ChildMessage::Failed(host, attempt, failure) = report else { return None };
        let stopped = matches!(self.concluding, Some((Cause::Cancelled, _)));
        let is_open = failure.cause == Cause::Cancelled && failure.phase == Phase::Waiting;
        let explains = is_open && stopped && stage.is_before_up();
        let cause = explains.then(|| self.table.why_given_up(true))?;
        Some(ChildMessage::Failed(*host, *attempt, Failure { cause, ..failure.clone() }))
    }

    /// Records the times of a launch; one that reached its hello is not replaced by one that did not.
    fn note_timing(&mut self, host: HostIndex, timing: &LaunchTiming) {
        if let Some(known) = self.timings.get_mut(host.0 as usize)
            && (timing.hello.is_some() || known.hello.is_none())
        {
            *known = *timing;
        }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.deadline = now + self.allowed;
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

    /// The next deadline before the session is up.
    pub(super) fn deadline(&self, stage: SessionStage) -> Option<Instant> {
        let settles = if self.concluding.is_none() { self.settle.due() } else { Instant::FAR_FUTURE };
        (stage.is_before_up()).then_some(self.verdicts_due().min(settles))
    }

    /// When launching has to stop, or open verdicts are not waited for any longer.
    fn verdicts_due(&self) -> Instant {
        self.concluding.as_ref().map_or(self.deadline.min(self.linger_until), |(_, by)| *by)
    }

    /// Whether enough hosts could still join at the last decision.
    pub(super) fn can_still_succeed(&self) -> bool {
        self.linger_until == Instant::FAR_FUTURE
    }
}

impl Node {
    /// The state of each host, in the order of their indices; empty at other nodes.
    pub fn host_states(&self) -> impl Iterator<Item = &HostState> {
        let table = match &self.role {
            Role::FrontEnd(front) => Some(front.table.hosts()),
            Role::Member(_) => None,
        };
        table.into_iter().flatten()
    }

    /// How often the launch of each host has been started; empty at other nodes.
    pub fn attempts(&self) -> impl Iterator<Item = u32> {
        let attempts = match &self.role {
            Role::FrontEnd(front) => Some(front.table.attempts()),
            Role::Member(_) => None,
        };
        attempts.into_iter().flatten()
    }

    /// The number of hosts that have joined, have failed, and are open, as far as the front end
    /// knows.
    #[must_use]
    pub fn progress(&self) -> (u32, u32, u32) {
        match &self.role {
            Role::FrontEnd(front) => front.table.progress(),
            Role::Member(_) => (0, 0, 0),
        }
    }

    /// The launcher of each host and the times of its launch, as far as the front end knows.
    #[must_use]
    pub fn timings(&self) -> &[LaunchTiming] {
        match &self.role {
            Role::FrontEnd(front) => &front.timings,
            Role::Member(_) => &[],
        }
    }

    /// Whether the link between each host and its launcher is direct. `None` if that is not known,
    /// or if the host was not asked to connect directly.
    #[must_use]
    pub fn links(&self) -> &[Option<bool>] {
        match &self.role {
            Role::FrontEnd(front) => &front.links,
            Role::Member(_) => &[],
        }
    }

    /// How many links are direct, and how many should be but are not.
    #[must_use]
    pub fn link_counts(&self) -> (u32, u32) {
        match &self.role {
            Role::FrontEnd(front) => front.link_counts,
            Role::Member(_) => (0, 0),
        }
    }

    /// Records reports in the host table, and acts on the decision that follows.
    pub(super) fn decide(&mut self, reports: &[ChildMessage], now: Instant, out: &mut Vec<Effect>) {
        let elapsed = now.since(self.began);
        for report in reports {
            // A host that joins a session which was given up is ended like all others.
            if self.stage.has_begun_to_end()
                && !self.stage.was_up()
                && matches!(report, ChildMessage::Joined(..))
            {
                continue;
            }
            let replaced = self.replace(report, now, out);
            let Role::FrontEnd(front) = &mut self.role else { return };
            front.note_link(report);
            match report {
                ChildMessage::Exited(rank, exit) => {
                    front.members.remove(*rank);
                    out.push(Effect::Notify(Notice::Exited(*rank, *exit)));
                }
                ChildMessage::InputTaken(bytes) => out.push(Effect::Notify(Notice::InputTaken(*bytes))),
                ChildMessage::Detached(rank) => {
                    front.members.remove(*rank);
                    out.push(Effect::Notify(Notice::Detached(*rank)));
                }
                ChildMessage::Joined(host, _, timing) => {
                    front.settle.joined(*host, timing);
                    front.note_timing(*host, timing);
                }
                ChildMessage::Failed(host, _, Failure { timing, .. }) => front.note_timing(*host, timing),
                ChildMessage::Relaunch(..)
                | ChildMessage::Link(..)
                | ChildMessage::NoDependents
                | ChildMessage::NotDirect => {}
                ChildMessage::CannotLaunch(..) | ChildMessage::HandBack(..) => {}
            }
            let instead = match self.resolve_late_loss(report, now, out) {
                LateLoss::Unaffected => replaced,
                LateLoss::Pending => continue,
                LateLoss::Resolved(instead) => Some(instead),
            };
            let Role::FrontEnd(front) = &mut self.role else { return };
            let explained = front.explain(instead.as_ref().unwrap_or(report), self.stage);
            let report = explained.as_ref().or(instead.as_ref()).unwrap_or(report);
            let was_lost = front.table.note(report);
            if let ChildMessage::Failed(host, _, failure) = report
                && was_lost
                && self.stage.is_up()
            {
                let blocks = self.host_specs.get(host).map_or(&[][..], |spec| &spec.blocks);
                // A host whose members had all left before is not lost.
                if front.members.any_left(blocks) {
                    front.members.remove_host(blocks);
                    let mut failure = failure.clone();
                    if matches!(failure.cause, Cause::LauncherLost(_)) {
                        // The reporting node may not have known that the host was up.
                        failure.phase = Phase::Joined;
                    }
                    out.push(Effect::Notify(Notice::Lost(*host, failure)));
                }
            }
        }
        let Role::FrontEnd(front) = &mut self.role else { return };
        if !self.stage.is_before_up() {
            if self.stage.is_up() && front.members.is_done() {
                out.push(Effect::Notify(Notice::Done));
            }
            return;
        }
        let decision = front.table.decide();
        front.linger_until = match decision {
            LaunchDecision::Hopeless => front.linger_until.min(now + self.options.rules.failure_linger),
            _ => Instant::FAR_FUTURE,
        };
        let late = now >= front.verdicts_due();
        match (decision, &front.concluding) {
            (LaunchDecision::Go, _) => self.go(now, out),
            (LaunchDecision::GiveUp, _) => self.give_up(now, out),
            (LaunchDecision::Wait | LaunchDecision::Hopeless, None) if late => {
                let why = if now >= front.deadline { Cause::TimedOut } else { Cause::Cancelled };
                front.concluding = Some((why.clone(), now + self.options.rules.kill_grace.saturating_mul(2)));
                self.conclude(&why, now, out);
                self.send_reports(now, out);
            }
            (LaunchDecision::Wait | LaunchDecision::Hopeless, Some((why, _))) if late => {
                let failure = Failure::without_evidence(Phase::Waiting, why.clone(), elapsed);
                front.table.close(&failure);
                self.decide(&[], now, out);
            }
            (LaunchDecision::Wait | LaunchDecision::Hopeless, _) => self.settle(now, out),
        }
    }

    /// A host that is lost just when the session comes up, below a node that has not heard of that
    /// yet, is relaunched until the node hears of it and reports the host's fate. If the host is
    /// not back by then, the first failure is its verdict.
    fn resolve_late_loss(&mut self, report: &ChildMessage, now: Instant, out: &mut Vec<Effect>) -> LateLoss {
        let Role::FrontEnd(front) = &mut self.role else { return LateLoss::Unaffected };
        match report {
            ChildMessage::Relaunch(host, attempt, lost) if !self.stage.is_before_up() => {
                if let Some(lost) = lost {
                    front.late_losses.insert(*host, lost.clone());
                }
                if front.late_losses.contains_key(host) {
                    return LateLoss::Pending;
                }
                // The host had not been up.
                let elapsed = now.since(self.began);
                let abandoned = Failure::without_evidence(Phase::Waiting, Cause::Cancelled, elapsed);
                LateLoss::Resolved(ChildMessage::Failed(*host, *attempt, abandoned))
            }
            ChildMessage::Joined(host, ..) => {
                front.late_losses.remove(host);
                LateLoss::Unaffected
            }
            ChildMessage::Failed(host, attempt, failure) => match front.late_losses.remove(host) {
                Some(lost) if matches!(failure.cause, Cause::Cancelled | Cause::SettleElapsed) => {
                    let leader = self.host_specs.get(host).and_then(|spec| spec.blocks.first());
                    if let (Some(block), Cause::Exited(exit)) = (leader, &lost.cause) {
                        front.members.remove(block.first);
                        out.push(Effect::Notify(Notice::Exited(block.first, *exit)));
                    }
                    LateLoss::Resolved(ChildMessage::Failed(*host, *attempt, *lost))
                }
                _ => LateLoss::Unaffected,
            },
            _ => LateLoss::Unaffected,
        }
    }

    fn go(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.stage.go_up();
        self.direct.forget_secret();
        let (mut absent, mut present) = (Ranks::new(), Ranks::first(self.size));
        if let Role::FrontEnd(front) = &mut self.role {
            let hosts = front.table.hosts().zip(self.host_specs.values());
            for (_, spec) in hosts.filter(|(known, _)| matches!(known, HostState::Failed(_))) {
                front.members.remove_host(&spec.blocks);
                spec.blocks.iter().for_each(|block| absent.add_run(block.first.0, block.count));
            }
        }
        present.remove_all(&absent);
        // A host that has not joined, and has not ended when asked to, has no place in the session.
        self.end_those_before(Phase::Joined, &Cause::Cancelled, now, out);
        self.session_up(absent, present, None, now, out);
        out.push(Effect::Notify(Notice::Up));
    }

    fn give_up(&mut self, now: Instant, out: &mut Vec<Effect>) {
        out.push(Effect::Notify(Notice::GivenUp));
        self.end(Ending { signal: TERMINATE, grace: self.options.rules.kill_grace }, now, out);
    }

    /// Gives all open hosts a verdict: no host is launched any more.
    pub(super) fn close_host_table(&mut self, now: Instant) {
        let elapsed = now.since(self.began);
        if let Role::FrontEnd(front) = &mut self.role {
            let stopped = matches!(front.concluding, Some((Cause::Cancelled, _)));
            let cause = front.table.why_given_up(stopped);
            front.table.close(&Failure::without_evidence(Phase::Waiting, cause, elapsed));
        }
    }

    /// Sends a message to every child that is up.
    pub(super) fn send_to_children(&mut self, message: &ParentMessage, out: &mut Vec<Effect>) {
        for (link, _) in self.children.up() {
            Self::send(link, Kind::Control, message, out);
        }
    }
}
