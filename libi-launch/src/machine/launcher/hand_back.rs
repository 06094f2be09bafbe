//! Hands back hosts that cannot be launched from here, and launches hosts that are handed back.
//!
//! A leader learns from its first launches whether launching works on its machine (see
//! `health.rs`). If it does not, the leader hands all its hosts back to its parent:
//!
//! ```text
//!   leader                                               parent
//!     | the first launches fail, none succeeds
//!     | CannotLaunch: failure, whether certain ------->  | counts it; a front end that left launching
//!     |                                                  | to it launches all hosts itself
//!     | HandBack: a host that waits, or has failed --->  | moves the host from the child's share
//!     | HandBack: a host, when its launch ends ------->  | to its own queue, and reports Relaunch
//!     | keeps hosts that come up nevertheless
//! ```
//!
//! - **Leader**, its launch health is unusable: hands back all hosts, launches none from then on,
//!   hands back shares that arrive later.
//! - **Leader**, and that is certain: kills launches in flight that have shown no sign of life.
//! - **Leader**, and that is not certain: gives launches in flight the rest of their time: a second
//!   attempt may succeed.
//! - **Parent** that cannot launch either, and has children that have moved there: passes a returned
//!   host on to its own parent.
//! - **Parent**, a returned host was not tried: launches it, or gives it to another child.
//! - **Parent**, a returned host was tried without success, or was cut short for the second time:
//!   launches it itself by a new attempt; it can launch, since it has launched the sender.
//! - **Parent**, more children cannot launch than have launched a host: gives no hosts to new
//!   children; the others keep what they have.
//! - **Front end** that left launching to the leader of the first host, which cannot launch: gives no
//!   hosts away any more, and launches all of them itself, within its window. Only if it lacks the
//!   resources, a child that is up gets the hosts that wait.
//! - **Any**, a host is returned after launching has stopped: reports it as given up.
//! - **Leader**, a host is returned after the leader has begun to end: says nothing. Its parent launches
//!   what was given to it.
//!
//! Termination: a leader hands back once, and only to its parent. A node that takes hosts back has a
//! child, and does not hand back, or passes them on if it has launched none of its children. The front end
//! is the last: hosts that cannot be launched from there are given up.
//!
//! Attempts: if the leader is certainly at fault, its failures do not count, and the host has all
//! its attempts left. If the leader had only few hosts, which may as well be dead, its failures
//! count, also those of launches in flight by then, but one attempt is left in any case; those that no
//! further attempt of a launcher mends, such as denied logins, do not count, and the parent launches the
//! host without a delay. Otherwise every dead host that is left to the last leaders would cost one timeout
//! more than other hosts. A host that was not launched keeps its next attempt.
//!
//! No passing around: hosts that deny all logins are left over when all others are up, and are then
//! all that new children are given. Each child would try them, conclude that it cannot launch, and
//! return them for the next child. Therefore a host that failed at a leader without confirmed
//! health is tried next by a parent, whose health is confirmed.
//!
//! A front end that cannot reach such a host does not leave it to a further child: each round of a
//! child and the front end takes timeouts beyond those of the attempts that a host has, and delays the
//! verdict. Consequence: if the first child was at fault itself, a child that could launch the host is
//! not asked.
//!
//! Loss of the first host's leader while the front end launches instead of it: only hosts that have joined below
//! that leader are lost with it. The front end relaunches them itself, and gives nothing to the
//! next leader of the first host.
//!
//! Lack of resources: a launcher may have no descriptors, processes or memory for one more launch.
//! Waiting hosts then go to the children that come up next, in parts. If no launch is in flight, or
//! all have been silent for long, a child that is up gets them, unless it has handed hosts back before. Without such a child, the
//! host goes back to the parent as not launched. The front end has no parent: it retries a few
//! times, and gives the host up. A front end that gets hosts back for lack of resources does not
//! launch all hosts itself.
//!
//! The front end may have a limit of launches. If as many are in flight, and all have been silent for
//! long, a child that is up gets the waiting hosts as well.
//!
//! Static trees are kept as far as possible: a parent that takes hosts back launches all that its
//! child should have had below it.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch, Retry};

use super::failures::{attempts_allowed, back_off};
use super::health::LauncherUnusable;
use super::{Launcher, Terms};
use crate::failure::{Cause, Failure};
use crate::machine::message::ChildMessage;

/// What happens to launches in flight without a sign of life, when launching proves not to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum SilentLaunches {
    /// They are cancelled.
    Cancel,
    /// They are cancelled this long after their start.
    Shorten(Duration),
}

impl Launcher {
    /// A launch from here has succeeded: gives up the failed hosts that were deferred.
    pub(in crate::machine) fn launching_confirmed(&mut self, reports: &mut Vec<ChildMessage>) {
        for (launch, failure) in self.health.confirm() {
            self.give_up_host(launch, failure, reports);
        }
    }

    /// Decides what follows from a failed launch, which would be retried or not.
    pub(super) fn judge(
        &mut self,
        launch: Launch,
        failure: Failure,
        retry: Retry,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        let speaks_of_here = failure.may_be_launcher_fault();
        let given_up = retry == Retry::Never;
        if !terms.launches(launch.host) || failure.cause == Cause::SettleElapsed {
            return self.give_up_host(launch, failure, reports);
        }
        if self.health.is_unusable() {
            // The launch was cut short, or would be retried, but not from here.
            if speaks_of_here || !given_up || failure.cause == Cause::Cancelled {
                let was_silent = failure.elapsed > self.timeout();
                let tried = speaks_of_here || failure.was_login_denied() || was_silent;
                let next = self.next_elsewhere(launch.attempt, &failure, terms);
                reports.push(ChildMessage::HandBack(launch.host, next, tried));
            } else {
                self.give_up_host(launch, failure, reports);
            }
            return;
        }
        if !speaks_of_here {
            self.launching_confirmed(reports);
        } else if self.health.record_failure(launch, &failure, !given_up)
            || given_up && self.leave_to_others(launch, &failure, terms)
        {
            return;
        }
        if given_up {
            self.give_up_host(launch, failure, reports);
        }
    }

    /// Hands everything back if launching from here proves not to work.
    pub(in crate::machine) fn evaluate_health(
        &mut self,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) -> Option<SilentLaunches> {
        let (timeout, in_flight, waiting) = (self.timeout(), self.queue.in_flight(), self.queue.waiting());
        let unusable = self.health.evaluate(terms.now, timeout, in_flight, waiting);
        let Some(LauncherUnusable { why, certain, deferred, failed }) = unusable else {
            self.review_doubt(terms, reports);
            return None;
        };
        reports.push(ChildMessage::CannotLaunch(why, certain));
        let next_deferred = |(Launch { host, attempt }, failure): (Launch, Failure)| {
            (host, self.next_elsewhere(attempt, &failure, terms), true)
        };
        let deferred: Vec<_> = deferred.into_iter().map(next_deferred).collect();
        let next_unlaunched = |Launch { host, attempt }| {
            let tried = failed.contains(&host);
            (host, if certain && tried { attempt.after_loss() } else { attempt }, tried)
        };
        let unlaunched = self.drain_unlaunched().into_iter().map(next_unlaunched);
        for (host, next, tried) in deferred.into_iter().chain(unlaunched) {
            reports.push(ChildMessage::HandBack(host, next, tried));
        }
        Some(if certain { SilentLaunches::Cancel } else { SilentLaunches::Shorten(timeout) })
    }

    /// The next attempt, by another launcher, at a host whose launch has failed here, where launching
    /// does not work.
    fn next_elsewhere(&self, attempt: Attempt, failure: &Failure, terms: &Terms) -> Attempt {
        let next = attempt.after_loss();
        if self.health.is_certainly_unusable() {
            return next;
        }
        if failure.cause == Cause::Cancelled && !failure.was_login_denied() {
            // It was cut short: the failures before it count.
            return Attempt { failed: attempt.failed, ..next };
        }
        if !failure.is_retryable() {
            return next; // another launcher can tell at once whose fault it is
        }
        let most = attempts_allowed(terms.options.rules.attempts, failure).saturating_sub(1);
        let failed = attempt.failed.saturating_add(1);
        let next = if failed <= most { attempt } else { next };
        Attempt { failed: failed.min(most), ..next }
    }

    /// Hands back a new share, if launching does not work here.
    pub(in crate::machine) fn hand_back_new_share(&mut self, terms: &Terms, reports: &mut Vec<ChildMessage>) {
        if self.health.is_unusable() && terms.is_launching {
            let given = self.drain_unlaunched().into_iter();
            reports
                .extend(given.map(|Launch { host, attempt }| ChildMessage::HandBack(host, attempt, false)));
        }
    }

    /// A child hands back a host, with the next attempt, and whether it has tried the host without
    /// success.
    pub(in crate::machine) fn accept_hand_back(
        &mut self,
        child: HostIndex,
        back: Launch,
        tried: bool,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        let Launch { host, attempt } = back;
        let is_old = terms.front.is_some_and(|front| front.is_out_of_date(host, attempt));
        let Some(spec) = self.specs.get_mut(&host).filter(|_| !is_old) else { return };
        // An attempt that is older than a known one is replaced.
        let next = if attempt < spec.attempt { spec.attempt.after_loss() } else { attempt };
        if !terms.launches(host) {
            if self.queue.remove_from_share(child, host) || terms.front.is_some() {
                let failure = terms.failure_of_waiting(Cause::Cancelled);
                reports.push(ChildMessage::Failed(host, next, failure));
            }
            return;
        }
        if self.passes_on() {
            // Children that have moved here may have hosts, although none can be launched from here.
            if self.queue.remove_from_share(child, host) {
                reports.push(ChildMessage::HandBack(host, next, tried));
            }
            return;
        }
        let not_before = match next.failed.checked_sub(1) {
            Some(made) => Some(terms.now + back_off(&terms.options.rules, made)),
            None => (tried || next.lost > 1).then_some(terms.now),
        };
        let launch = Launch { host, attempt: next };
        let taken = match self.queue.hand_back(child, launch, not_before) {
            // The front end's queue does not know the share of the first host's leader.
            Err(_) if terms.unlike_leaders().is_some() => self.queue.adopt(launch, not_before),
            taken => taken,
        };
        // On an error, the host is not in the child's share.
        if taken.is_ok() {
            if tried {
                self.unreached.tried_elsewhere(host);
            }
            self.report_relaunch(launch, None, reports);
        }
    }
}
