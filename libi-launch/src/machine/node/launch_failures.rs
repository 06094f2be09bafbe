//! What a node does when a launch has failed, or a leader is lost: repeat it, or report it.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch, Retry};
use libi_core::time::Instant;

use super::hand_back::superseding;
use super::{Node, Role, SessionStage};
use crate::failure::{Cause, Failure, Phase};
use crate::machine::message::ChildMessage;

/// How often a host may be lost for each of its attempts: far more often than trees are deep.
const LOSSES_FOR_AN_ATTEMPT: u16 = 32;
/// How often a server may hang up that has too many callers, for each of a host's attempts. Hanging up takes no time, and who else
/// calls is not known here: it is tried until those who wait longer each time are few enough. With the usual rules
/// that is within a minute.
const REFUSALS_FOR_AN_ATTEMPT: u16 = 4;

impl Node {
    /// Whether a launch is to be repeated, and after how long. Only what the host itself has done counts: since it was
    /// queued here, and when it was up here and lost.
    fn retry(&mut self, launch: Launch, failure: &Failure) -> Retry {
        let faults = self.faults.get(&launch.host).copied().unwrap_or(0);
        let made = launch.attempt.failed.saturating_add(faults);
        let another = self.stage == SessionStage::Launching && failure.is_retryable();
        let turned_away = failure.is_throttled();
        let refusals = if turned_away { REFUSALS_FOR_AN_ATTEMPT } else { 1 };
        if another && made.saturating_add(1) < self.rules.attempts.saturating_mul(refusals) {
            let back_off = self.back_off(made);
            // Who was refused together is not to come back together.
            let more = if turned_away { self.nonces.unit() } else { 0.0 };
            Retry::After(back_off + back_off.mul_f64(more))
        } else {
            Retry::Never
        }
    }

    /// How long to wait after so many failures and one more.
    pub(super) fn back_off(&self, made: u16) -> Duration {
        let back_off = self.rules.back_off.saturating_mul(1 << made.min(20));
        back_off.min(self.rules.back_off_max)
    }

    /// Whether a host may be lost once more. Losses are no fault of the hosts below, but a session whose leaders are lost
    /// as often as this would go on for ever, and attempts must have a number.
    fn may_be_lost(&self, attempt: Attempt) -> bool {
        attempt.lost < self.rules.attempts.saturating_mul(LOSSES_FOR_AN_ATTEMPT)
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
        if self.queue.child_failed(launch, now, here).is_ok() {
            self.judge(launch, failure, retry);
        }
    }

    /// There was no room here for a launch. That is no attempt at its host.
    fn launcher_out_of_resources(&mut self, launch: Launch, failure: Failure, now: Instant) {
        let others = self.queue.in_flight() > 1 || self.child_for_overflow().is_some();
        if self.queue.child_failed(launch, now, Retry::Never).is_err() {
            return;
        }
        let next = Launch { attempt: superseding(launch.attempt), ..launch };
        let waits = others && !self.health.is_unusable() && self.may_be_lost(launch.attempt);
        let is_last = launch.attempt.lost >= self.rules.attempts;
        if self.stage != SessionStage::Launching || !waits && self.is_front() && is_last {
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

    /// A leader that was up is gone, and with it everybody whom it had launched or was to launch.
    pub(super) fn leader_lost(&mut self, launch: Launch, failure: &Failure, now: Instant) {
        let Ok(share) = self.queue.child_lost(launch.host) else { return };
        self.health.set_out_of_resources(false);
        let below: Vec<HostIndex> = match &self.role {
            // What was given up below stays so, whoever is the next master; and whoever is launched from here stays.
            Role::FrontEnd(front) if launch.host == HostIndex(0) => {
                let here = if front.flat_launch.is_some() { self.queue.hosts() } else { BTreeSet::new() };
                let others = self.host_specs.keys().copied().filter(|host| *host != launch.host);
                others.filter(|host| !front.has_given_up(*host) && !here.contains(host)).collect()
            }
            Role::FrontEnd(_) | Role::Member(_) => share.hosts.iter().collect(),
        };
        // The latest attempt that was heard of, by whomever: what was not heard of here is known to nobody.
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
            if self.stage == SessionStage::Launching && self.may_be_lost(lost.attempt) {
                self.relaunch(lost, now, &failure);
            } else {
                self.reports.push(ChildMessage::Failed(lost.host, superseding(lost.attempt), failure));
            }
        }
    }

    /// Launches a host again that was lost with, or as, a child.
    fn relaunch(&mut self, lost: Launch, not_before: Instant, failure: &Failure) {
        if self.health.is_unusable() {
            return self.reports.push(ChildMessage::HandBack(lost.host, superseding(lost.attempt), false));
        }
        let next = if !self.launches_here(lost.host) {
            // Not the front end's to launch, but that of the next master.
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
