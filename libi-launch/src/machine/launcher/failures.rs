//! What follows from a failed launch or a lost leader: a retry, or a report.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch, Retry};
use libi_core::time::Instant;

use super::{Launcher, Terms};
use crate::failure::{Cause, Failure, Phase};
use crate::machine::message::{ChildMessage, Rules};

/// How many losses are allowed for each attempt at a host; far more than trees are deep.
const LOSSES_FOR_AN_ATTEMPT: u16 = 32;
/// How many refusals by an overloaded server are allowed for each attempt at a host. A refusal
/// takes no time, and the number of other clients is not known here; the launch is retried with
/// growing delays until few enough clients are left. With the default rules that takes less than a
/// minute.
const REFUSALS_FOR_AN_ATTEMPT: u16 = 4;

/// How many attempts are made here, however many are allowed, before a host is left to others that may
/// reach it.
const ATTEMPTS_BEFORE_OTHERS: u16 = 3;

/// Why hosts fail that waited at a launcher which is gone: for what it was ended, if it was.
fn cause_below(launcher: HostIndex, failure: &Failure) -> Cause {
    match &failure.cause {
        cause @ (Cause::Cancelled | Cause::LaunchFailed(_)) => cause.clone(),
        _ => Cause::LauncherLost(launcher),
    }
}

/// The delay after this many failures and one more.
pub(super) fn back_off(rules: &Rules, made: u16) -> Duration {
    let back_off = rules.back_off.saturating_mul(1 << made.min(20));
    back_off.min(rules.back_off_max)
}

/// After how many failures a host is given up that has so many attempts, if the last one was this.
pub(super) fn attempts_allowed(attempts: u16, failure: &Failure) -> u16 {
    attempts.saturating_mul(if failure.is_throttled() { REFUSALS_FOR_AN_ATTEMPT } else { 1 })
}

/// Whether a host may be lost once more. A loss is not the host's fault, but a session whose
/// leaders are lost this often would never end, and attempt numbers are limited.
fn may_be_lost(rules: &Rules, attempt: Attempt) -> bool {
    attempt.lost < rules.attempts.saturating_mul(LOSSES_FOR_AN_ATTEMPT)
}

impl Launcher {
    /// Whether a launch is retried, and after which delay. Only failures of the host itself count:
    /// those since it was queued here, and those after it had been up here.
    pub(super) fn retry(&mut self, launch: Launch, failure: &Failure, terms: &Terms) -> Retry {
        let may_pass = failure.may_be_launcher_fault() && self.may_leave_to_others(launch.host, terms);
        let most = if may_pass { ATTEMPTS_BEFORE_OTHERS } else { u16::MAX };
        self.retry_up_to(most, launch, failure, terms)
    }

    /// As [`retry`](Self::retry), with at most this many attempts.
    pub(super) fn retry_up_to(
        &mut self,
        most: u16,
        launch: Launch,
        failure: &Failure,
        terms: &Terms,
    ) -> Retry {
        let rules = &terms.options.rules;
        let faults = self.faults.get(&launch.host).copied().unwrap_or(0);
        let made = launch.attempt.failed.saturating_add(faults);
        let another = terms.launches(launch.host) && failure.is_retryable();
        let turned_away = failure.is_throttled();
        if another && made.saturating_add(1) < attempts_allowed(rules.attempts.min(most), failure) {
            let back_off = back_off(rules, made);
            // Clients that were refused together must not come back together.
            let more = if turned_away { self.jitter.unit() } else { 0.0 };
            Retry::After(back_off + back_off.mul_f64(more))
        } else {
            Retry::Never
        }
    }

    /// The launch of a host has failed. `others_may`: another child could launch hosts for which
    /// this node has no resources.
    pub(in crate::machine) fn launch_failed(
        &mut self,
        launch: Launch,
        failure: Failure,
        others_may: bool,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        if !self.queue.is_in_flight(launch) {
            return; // it was withdrawn, or another attempt has taken its place
        }
        if !failure.is_out_of_resources() {
            self.health.set_out_of_resources(false);
        }
        if failure.is_overload() {
            let rem = self.queue.estimate().cost().rem;
            self.window.refused(terms.now, self.queue.in_flight(), rem);
        }
        if failure.is_out_of_resources() {
            return self.out_of_resources(launch, failure, others_may, terms, reports);
        }
        let retry = self.retry(launch, &failure, terms);
        let here = if self.health.is_unusable() { Retry::Never } else { retry };
        if matches!(here, Retry::After(_)) {
            self.last_printed.insert(launch.host, failure.tail.clone());
        }
        if self.queue.child_failed(launch, terms.now, here).is_ok() {
            self.judge(launch, failure, retry, terms, reports);
        }
    }

    /// This launcher had no resources for a launch. That does not count as an attempt.
    fn out_of_resources(
        &mut self,
        launch: Launch,
        failure: Failure,
        others_may: bool,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        let rules = &terms.options.rules;
        let others = self.queue.in_flight() > 1 || others_may;
        if self.queue.child_failed(launch, terms.now, Retry::Never).is_err() {
            return;
        }
        let is_front = terms.front.is_some();
        let next = Launch { attempt: launch.attempt.after_loss(), ..launch };
        let waits = others && !self.health.is_unusable() && may_be_lost(rules, launch.attempt);
        let is_last = launch.attempt.lost >= rules.attempts;
        if !terms.launches(launch.host) || !waits && is_front && is_last {
            self.give_up_host(launch, failure, reports);
        } else if waits || is_front {
            let back_off = back_off(rules, launch.attempt.lost);
            if self.queue.adopt(next, (!waits).then(|| terms.now + back_off)).is_ok() {
                self.report_relaunch(next, None, reports);
            }
        } else {
            reports.push(ChildMessage::CannotLaunch(failure, false));
            reports.push(ChildMessage::HandBack(next.host, next.attempt, false));
        }
    }

    /// The starter of a host has ended it, because it could not start another one: the host is
    /// launched again. That does not count as an attempt. Once nothing is launched any more, it is cut
    /// short like hosts that wait. Where that has happened too often, the other host is to blame.
    pub(in crate::machine) fn ended_with_others(
        &mut self,
        launch: Launch,
        was_up: bool,
        failure: &Failure,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        let is_here = if was_up {
            self.queue.child_lost(launch.host).is_ok()
        } else {
            self.queue.child_failed(launch, terms.now, Retry::Never).is_ok()
        };
        if !is_here {
            return;
        }
        if !terms.launches(launch.host) {
            let cut_short = terms.failure_of_waiting(Cause::Cancelled);
            reports.push(ChildMessage::Failed(launch.host, launch.attempt.after_loss(), cut_short));
        } else if may_be_lost(&terms.options.rules, launch.attempt) {
            // All of them go into one start.
            let not_before = terms.now + terms.options.rules.back_off;
            self.relaunch(launch, not_before, failure, terms, reports);
        } else {
            let cause = self.ends_starts.map_or_else(|| failure.cause.clone(), Cause::LaunchFailed);
            self.give_up_host(launch, Failure { cause, ..failure.clone() }, reports);
        }
    }

    /// A host could not be started, and its starter may end all others for that.
    pub(in crate::machine) fn starts_may_end_for(&mut self, host: Option<HostIndex>) {
        self.ends_starts = host.or(self.ends_starts);
    }

    /// A leader that was up is gone, and with it all hosts that it had launched or should launch.
    pub(in crate::machine) fn leader_lost(
        &mut self,
        launch: Launch,
        failure: &Failure,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        let Ok(share) = self.queue.child_lost(launch.host) else { return };
        let rules = &terms.options.rules;
        self.health.set_out_of_resources(false);
        let below: Vec<HostIndex> = match terms.front.filter(|front| front.launchers().first_has_all()) {
            // Hosts that were given up stay given up; hosts that the front end launches are not
            // affected.
            Some(front) if launch.host == HostIndex(0) => {
                let here =
                    if front.launchers().include_front_end() { self.queue.hosts() } else { BTreeSet::new() };
                let others = self.specs.keys().copied().filter(|host| *host != launch.host);
                others.filter(|host| !front.has_given_up(*host) && !here.contains(host)).collect()
            }
            _ => share.hosts.iter().collect(),
        };
        // The latest attempts that were reported, by any node. No node knows of attempts that were
        // not reported.
        let heard = |host| Launch { host, attempt: self.attempt(host) };
        let below: Vec<Launch> = below.into_iter().map(heard).collect();
        match self.retry(launch, failure, terms) {
            Retry::After(back_off) if may_be_lost(rules, launch.attempt) => {
                self.relaunch(launch, terms.now + back_off, failure, terms, reports);
            }
            _ => reports.push(ChildMessage::Failed(launch.host, launch.attempt, failure.clone())),
        }
        let faults = self.faults.entry(launch.host).or_default();
        *faults = faults.saturating_add(launch.attempt.failed).saturating_add(1);
        for lost in below {
            let cause = cause_below(launch.host, failure);
            let failure = Failure::without_evidence(Phase::Waiting, cause, failure.elapsed);
            self.lost_with_launcher(lost, failure, terms, reports);
        }
    }

    /// A leader is gone in a session that is up, and the hosts below it may come back, but new ones and those
    /// that were when its link was closed.
    pub(in crate::machine) fn lost_alone(
        &mut self,
        launch: Launch,
        new_then: &BTreeSet<HostIndex>,
        failure: Failure,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        let share = self.queue.child_lost(launch.host);
        let is_new = |host: &HostIndex| terms.is_new(*host) || new_then.contains(host);
        let new = share.iter().flat_map(|share| share.hosts.iter()).filter(is_new);
        let new: Vec<Launch> = new.map(|host| Launch { host, attempt: self.attempt(host) }).collect();
        for lost in new {
            let cause = cause_below(launch.host, &failure);
            let failure = Failure::without_evidence(Phase::Waiting, cause, failure.elapsed);
            self.lost_with_launcher(lost, failure, terms, reports);
        }
        reports.push(ChildMessage::Failed(launch.host, launch.attempt, failure));
    }

    /// A host has not come back.
    pub(in crate::machine) fn lost_for_good(
        &mut self,
        host: HostIndex,
        failure: Failure,
        reports: &mut Vec<ChildMessage>,
    ) {
        reports.push(ChildMessage::Failed(host, self.attempt(host).after_loss(), failure));
    }

    /// A host that the front end has launched cannot connect here: it is launched again, which is not its
    /// fault.
    pub(in crate::machine) fn relaunch_adopted(
        &mut self,
        launch: Launch,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        if self.queue.child_failed(launch, terms.now, Retry::Never).is_ok() {
            let failure = Failure::without_evidence(Phase::Starting, Cause::Unreachable, Duration::ZERO);
            self.lost_with_launcher(launch, failure, terms, reports);
        }
    }

    /// A host that the front end has launched has failed before it was up here. That says nothing about
    /// launches from here.
    pub(in crate::machine) fn adopted_failed(
        &mut self,
        launch: Launch,
        failure: Failure,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        // As a node does that loses its connection.
        let has_ended_by_itself = matches!(failure.cause, Cause::Exited(_)) && !failure.is_retryable();
        if has_ended_by_itself {
            return self.relaunch_adopted(launch, terms, reports);
        }
        let retry = self.retry(launch, &failure, terms);
        let is_handed_back = self.health.is_unusable() && retry != Retry::Never;
        let here = if is_handed_back { Retry::Never } else { retry };
        if self.queue.child_failed(launch, terms.now, here).is_err() {
            return;
        }
        let next = Launch { attempt: launch.attempt.after_failure(), ..launch };
        if is_handed_back {
            reports.push(ChildMessage::HandBack(next.host, next.attempt, false));
        } else if retry == Retry::Never {
            self.give_up_host(launch, failure, reports);
        } else {
            // The front end ends the process of the former attempt.
            self.report_relaunch(next, None, reports);
        }
    }

    /// A host that was redirected to a child is lost with that child.
    pub(in crate::machine) fn lost_below(
        &mut self,
        lost: Launch,
        failure: Failure,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        if self.queue.child_lost(lost.host).is_ok() {
            self.lost_with_launcher(lost, failure, terms, reports);
        }
    }

    /// A host is lost because its launcher, or its relay, is: that does not count as an attempt.
    fn lost_with_launcher(
        &mut self,
        lost: Launch,
        failure: Failure,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        self.unreached.forget(lost.host);
        if terms.launches(lost.host) && may_be_lost(&terms.options.rules, lost.attempt) {
            self.relaunch(lost, terms.now, &failure, terms, reports);
        } else {
            reports.push(ChildMessage::Failed(lost.host, lost.attempt.after_loss(), failure));
        }
    }

    /// Relaunches a host that was lost as a child, or with a child.
    fn relaunch(
        &mut self,
        lost: Launch,
        not_before: Instant,
        failure: &Failure,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        if self.health.is_unusable() {
            return reports.push(ChildMessage::HandBack(lost.host, lost.attempt.after_loss(), false));
        }
        let next = if !terms.launches_here(lost.host) {
            // The next leader of the first host launches this one, not the front end.
            lost.attempt.after_loss()
        } else {
            match self.queue.requeue(lost, not_before) {
                Ok(next) => next,
                Err(_) => return,
            }
        };
        self.report_relaunch(Launch { attempt: next, ..lost }, Some(failure), reports);
    }

    /// Reports the next attempt at a host to all nodes above, with the failure if the host was up
    /// and is lost.
    pub(super) fn report_relaunch(
        &mut self,
        next: Launch,
        lost: Option<&Failure>,
        reports: &mut Vec<ChildMessage>,
    ) {
        if let Some(spec) = self.specs.get_mut(&next.host) {
            spec.attempt = next.attempt;
        }
        reports.push(ChildMessage::Relaunch(next.host, next.attempt, lost.cloned().map(Box::new)));
    }

    /// Gives a host up after a failed launch.
    pub(super) fn give_up_host(&mut self, launch: Launch, failure: Failure, reports: &mut Vec<ChildMessage>) {
        self.adopt_subtree(launch.host);
        reports.push(ChildMessage::Failed(launch.host, launch.attempt, failure));
    }
}
