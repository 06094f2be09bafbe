//! What follows from a failed launch or a lost leader: a retry, or a report.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch, Retry};
use libi_core::time::Instant;

use super::hand_back::superseding;
use super::{Node, Role};
use crate::failure::{Cause, Failure, Phase};
use crate::machine::message::ChildMessage;

/// How many losses are allowed for each attempt at a host; far more than trees are deep.
const LOSSES_FOR_AN_ATTEMPT: u16 = 32;
/// How many refusals by an overloaded server are allowed for each attempt at a host. A refusal
/// takes no time, and the number of other clients is not known here; the launch is retried with
/// growing delays until few enough clients are left. With the default rules that takes less than a
/// minute.
const REFUSALS_FOR_AN_ATTEMPT: u16 = 4;

impl Node {
    /// Whether a launch is retried, and after which delay. Only failures of the host itself count:
    /// those since it was queued here, and those after it had been up here.
    fn retry(&mut self, launch: Launch, failure: &Failure) -> Retry {
        let faults = self.faults.get(&launch.host).copied().unwrap_or(0);
        let made = launch.attempt.failed.saturating_add(faults);
        let another = self.stage.is_launching() && failure.is_retryable();
        let turned_away = failure.is_throttled();
        let refusals = if turned_away { REFUSALS_FOR_AN_ATTEMPT } else { 1 };
        if another && made.saturating_add(1) < self.options.rules.attempts.saturating_mul(refusals) {
            let back_off = self.back_off(made);
            // Clients that were refused together must not come back together.
            let more = if turned_away { self.nonces.unit() } else { 0.0 };
            Retry::After(back_off + back_off.mul_f64(more))
        } else {
            Retry::Never
        }
    }

    /// The delay after this many failures and one more.
    pub(super) fn back_off(&self, made: u16) -> Duration {
        let back_off = self.options.rules.back_off.saturating_mul(1 << made.min(20));
        back_off.min(self.options.rules.back_off_max)
    }

    /// Whether a host may be lost once more. A loss is not the host's fault, but a session whose
    /// leaders are lost this often would never end, and attempt numbers are limited.
    fn may_be_lost(&self, attempt: Attempt) -> bool {
        attempt.lost < self.options.rules.attempts.saturating_mul(LOSSES_FOR_AN_ATTEMPT)
    }

    pub(super) fn launch_failed(&mut self, launch: Launch, failure: Failure, now: Instant) {
        if !failure.is_out_of_resources() {
            self.health.set_out_of_resources(false);
        }
        if failure.is_overload() {
            let rem = self.queue.estimate().cost().rem;
            self.window.refused(now, self.queue.in_flight(), rem);
        }
        if failure.is_out_of_resources() {
            return self.launcher_out_of_resources(launch, failure, now);
        }
        let retry = self.retry(launch, &failure);
        let here = if self.health.is_unusable() { Retry::Never } else { retry };
        if matches!(here, Retry::After(_)) {
            self.last_printed.insert(launch.host, failure.tail.clone());
        }
        if self.queue.child_failed(launch, now, here).is_ok() {
            self.judge(launch, failure, retry);
        }
    }

    /// This launcher had no resources for a launch. That does not count as an attempt.
    fn launcher_out_of_resources(&mut self, launch: Launch, failure: Failure, now: Instant) {
        let others = self.queue.in_flight() > 1 || self.child_for_overflow().is_some();
        if self.queue.child_failed(launch, now, Retry::Never).is_err() {
            return;
        }
        let next = Launch { attempt: superseding(launch.attempt), ..launch };
        let waits = others && !self.health.is_unusable() && self.may_be_lost(launch.attempt);
        let is_last = launch.attempt.lost >= self.options.rules.attempts;
        if !self.stage.is_launching() || !waits && self.is_front() && is_last {
            self.give_up_host(launch, failure);
        } else if waits || self.is_front() {
            let back_off = self.back_off(launch.attempt.lost);
            if self.queue.adopt(next, (!waits).then(|| now + back_off)).is_ok() {
                self.report_relaunch(next, None);
            }
        } else {
            self.reports.push(ChildMessage::CannotLaunch(failure, false));
            self.reports.push(ChildMessage::HandBack(next.host, next.attempt, false));
        }
    }

    /// A leader that was up is gone, and with it all hosts that it had launched or should launch.
    pub(super) fn leader_lost(&mut self, launch: Launch, failure: &Failure, now: Instant) {
        let Ok(share) = self.queue.child_lost(launch.host) else { return };
        self.health.set_out_of_resources(false);
        let below: Vec<HostIndex> = match &self.role {
            // Hosts that were given up stay given up; hosts that the front end launches are not
            // affected.
            Role::FrontEnd(front) if launch.host == HostIndex(0) => {
                let here =
                    if front.launchers().is_front_end() { self.queue.hosts() } else { BTreeSet::new() };
                let others = self.host_specs.keys().copied().filter(|host| *host != launch.host);
                others.filter(|host| !front.has_given_up(*host) && !here.contains(host)).collect()
            }
            Role::FrontEnd(_) | Role::Member(_) => share.hosts.iter().collect(),
        };
        // The latest attempts that were reported, by any node. No node knows of attempts that were
        // not reported.
        let heard = |host| Launch { host, attempt: self.attempt(host) };
        let below: Vec<Launch> = below.into_iter().map(heard).collect();
        match self.retry(launch, failure) {
            Retry::After(back_off) if self.may_be_lost(launch.attempt) => {
                self.relaunch(launch, now + back_off, failure);
            }
            _ => self.reports.push(ChildMessage::Failed(launch.host, launch.attempt, failure.clone())),
        }
        let faults = self.faults.entry(launch.host).or_default();
        *faults = faults.saturating_add(launch.attempt.failed).saturating_add(1);
        for lost in below {
            let cause = Cause::LauncherLost(launch.host);
            let failure = Failure::without_evidence(Phase::Waiting, cause, failure.elapsed);
            if self.stage.is_launching() && self.may_be_lost(lost.attempt) {
                self.relaunch(lost, now, &failure);
            } else {
                self.reports.push(ChildMessage::Failed(lost.host, superseding(lost.attempt), failure));
            }
        }
    }

    /// Relaunches a host that was lost as a child, or with a child.
    fn relaunch(&mut self, lost: Launch, not_before: Instant, failure: &Failure) {
        if self.health.is_unusable() {
            return self.reports.push(ChildMessage::HandBack(lost.host, superseding(lost.attempt), false));
        }
        let next = if !self.launches_here(lost.host) {
            // The next leader of the first host launches this one, not the front end.
            superseding(lost.attempt)
        } else {
            match self.queue.requeue(lost, not_before) {
                Ok(next) => next,
                Err(_) => return,
            }
        };
        self.report_relaunch(Launch { attempt: next, ..lost }, Some(failure));
    }
}
