//! Hands back hosts that cannot be launched from here, and launches hosts that are handed back.
//!
//! A leader learns from its first launches whether launching works on its machine (see
//! `launch_health.rs`). If it does not, the leader hands all its hosts back to its parent:
//!
//! ```text
//!   leader                                               parent
//!     | the first launches fail, none succeeds
//!     | CannotLaunch: failure, whether certain ------->  | counts it; the front end launches all
//!     |                                                  | hosts itself
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
//! - **Parent**, a returned host was not tried: launches it, or gives it to another child.
//! - **Parent**, a returned host was tried without success, or was cut short for the second time:
//!   launches it itself by a new attempt; it can launch, since it has launched the sender.
//! - **Parent**, more children cannot launch than have launched a host: gives no hosts to new
//!   children; the others keep what they have.
//! - **Front end**, the leader of the first host cannot launch: gives no hosts away any more, and
//!   launches all of them itself, within its window.
//! - **Any**, a host is returned after launching has stopped: reports it as given up.
//!
//! Termination: a leader hands back once, and only to its parent. A node that takes hosts back does
//! not hand back, since it has a child. The front end is the last: hosts that cannot be launched
//! from there are given up.
//!
//! Attempts: if the leader is certainly at fault, its failures do not count, and the host has all
//! its attempts left. If the leader had only few hosts, which may as well be dead, its failures
//! count, but one attempt is left in any case. Otherwise every dead host that is left to the last
//! leaders would cost one timeout more than other hosts. A host that was not launched keeps its
//! next attempt.
//!
//! No passing around: hosts that deny all logins are left over when all others are up, and are then
//! all that new children are given. Each child would try them, conclude that it cannot launch, and
//! return them for the next child. Therefore a host that failed at a leader without confirmed
//! health is tried next by a parent, whose health is confirmed.
//!
//! Loss of the first host's leader while the front end launches: only hosts that have joined below
//! that leader are lost with it. The front end relaunches them itself, and gives nothing to the
//! next leader of the first host.
//!
//! Lack of resources: a launcher may have no descriptors, processes or memory for one more launch.
//! Waiting hosts then go to the next child that comes up, all of them. If no launch is in flight, a
//! child that is up gets them, unless it has handed hosts back before. Without such a child, the
//! host goes back to the parent as not launched. The front end has no parent: it retries a few
//! times, and gives the host up. A front end that gets hosts back for lack of resources does not
//! launch all hosts itself.
//!
//! Static trees are kept as far as possible: a parent that takes hosts back launches all that its
//! child should have had below it.

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch, Retry};
use libi_core::time::Instant;

use super::launch_health::LauncherUnusable;
use super::{Effect, LinkId, Node, Role};
use crate::failure::{Cause, Failure, Phase};
use crate::machine::child::ChildState;
use crate::machine::message::ChildMessage;

impl Node {
    /// A launch from here has succeeded: gives up the failed hosts that were deferred.
    pub(super) fn launching_confirmed(&mut self) {
        for (launch, failure) in self.health.confirm() {
            self.give_up_host(launch, failure);
        }
    }

    /// Gives a host up after a failed launch.
    pub(super) fn give_up_host(&mut self, launch: Launch, failure: Failure) {
        self.adopt_subtree(launch.host);
        self.reports.push(ChildMessage::Failed(launch.host, launch.attempt, failure));
    }

    /// Decides what follows from a failed launch, which would be retried or not.
    pub(super) fn judge(&mut self, launch: Launch, failure: Failure, retry: Retry) {
        let speaks_of_here = failure.may_be_launcher_fault();
        let given_up = retry == Retry::Never;
        if !self.stage.is_launching() || failure.cause == Cause::SettleElapsed {
            return self.give_up_host(launch, failure);
        }
        if self.health.is_unusable() {
            // The launch was cut short, or would be retried, but not from here.
            if speaks_of_here || !given_up || failure.cause == Cause::Cancelled {
                let was_silent = failure.elapsed > self.timeout();
                let tried = speaks_of_here || failure.was_login_denied() || was_silent;
                self.reports.push(ChildMessage::HandBack(launch.host, superseding(launch.attempt), tried));
            } else {
                self.give_up_host(launch, failure);
            }
            return;
        }
        if !speaks_of_here {
            self.launching_confirmed();
        } else if self.health.record_failure(launch, &failure, !given_up) {
            return;
        }
        if given_up {
            self.give_up_host(launch, failure);
        }
    }

    /// Hands everything back if launching from here proves not to work.
    pub(super) fn evaluate_launch_health(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let (timeout, in_flight, waiting) = (self.timeout(), self.queue.in_flight(), self.queue.waiting());
        let Some(collapse) = self.health.evaluate(now, timeout, in_flight, waiting) else { return };
        let LauncherUnusable { why, certain, deferred, failed } = collapse;
        self.reports.push(ChildMessage::CannotLaunch(why, certain));
        let silent = self.children.leaders().filter(|(_, child)| child.state() == ChildState::Starting);
        let silent: Vec<(LinkId, Instant)> =
            silent.map(|(link, child)| (link, child.started() + timeout)).collect();
        let most = self.options.rules.attempts.saturating_sub(1);
        let next_deferred = |Launch { host, attempt }| {
            let failed = attempt.failed.saturating_add(1);
            let next = if failed <= most { Attempt { failed, ..attempt } } else { superseding(attempt) };
            Launch { host, attempt: Attempt { failed: failed.min(most), ..next } }
        };
        let deferred: Vec<Launch> = deferred.into_iter().map(next_deferred).collect();
        for Launch { host, attempt } in deferred.into_iter().chain(self.drain_unlaunched()) {
            let tried = failed.contains(&host);
            let next = if certain && tried { superseding(attempt) } else { attempt };
            self.reports.push(ChildMessage::HandBack(host, next, tried));
        }
        for (link, by) in silent {
            if certain {
                self.force_end(link, Cause::Cancelled, now, out);
            } else {
                let before = self.children.deadline(link).unwrap_or(by);
                self.children.set_deadline(link, by.min(before));
            }
        }
    }

    /// Hands back a new share, if launching does not work here.
    pub(super) fn hand_back_new_share(&mut self) {
        if self.health.is_unusable() && self.stage.is_launching() {
            let given = self.drain_unlaunched();
            let back = given
                .into_iter()
                .map(|Launch { host, attempt }| ChildMessage::HandBack(host, attempt, false));
            self.reports.extend(back);
        }
    }

    /// A child has reported that it cannot launch hosts.
    pub(super) fn child_cannot_launch(&mut self, child: HostIndex, why: &Failure, certain: bool) {
        if certain {
            self.health.child_cannot_launch();
        }
        if let Role::FrontEnd(front) = &mut self.role {
            front.launch_instead_of(child, why);
        }
    }

    /// A child hands back a host, with the next attempt, and whether it has tried the host without
    /// success.
    pub(super) fn accept_hand_back(&mut self, child: HostIndex, back: Launch, tried: bool, now: Instant) {
        let Launch { host, attempt } = back;
        let is_old = match &self.role {
            Role::FrontEnd(front) => front.is_out_of_date(host, attempt),
            Role::Member(_) => false,
        };
        let Some(spec) = self.host_specs.get_mut(&host).filter(|_| !is_old) else { return };
        // An attempt that is older than a known one is replaced.
        let next = if attempt < spec.attempt { superseding(spec.attempt) } else { attempt };
        if !self.stage.is_launching() {
            if self.queue.remove_from_share(child, host) || self.is_front() {
                let elapsed = now.since(self.began);
                let failure = Failure::without_evidence(Phase::Waiting, Cause::Cancelled, elapsed);
                self.reports.push(ChildMessage::Failed(host, next, failure));
            }
            return;
        }
        let not_before = match next.failed.checked_sub(1) {
            Some(made) => Some(now + self.back_off(made)),
            None => (tried || next.lost > 1).then_some(now),
        };
        let launch = Launch { host, attempt: next };
        let taken = match &self.role {
            // The front end's queue does not know the share of the first host's leader.
            Role::FrontEnd(_) => self.queue.adopt(launch, not_before),
            Role::Member(_) => self.queue.hand_back(child, launch, not_before),
        };
        // On an error, the host is not in the child's share.
        if taken.is_ok() {
            self.report_relaunch(launch, None);
        }
    }

    /// Reports the next attempt at a host to all nodes above, with the failure if the host was up
    /// and is lost.
    pub(super) fn report_relaunch(&mut self, next: Launch, lost: Option<&Failure>) {
        if let Some(spec) = self.host_specs.get_mut(&next.host) {
            spec.attempt = next.attempt;
        }
        self.reports.push(ChildMessage::Relaunch(next.host, next.attempt, lost.cloned().map(Box::new)));
    }

    /// At the front end: the leader that could not launch hosts, and its first failure, if the
    /// front end launches all hosts since then and one of them has been up.
    #[must_use]
    pub fn flat_launch(&self) -> Option<(HostIndex, &Failure)> {
        let (host, why) = self.front_end()?.launchers().replaced()?;
        let mut others = self.timings().iter().skip(1);
        let is_true = others.any(|timing| timing.launcher.is_none() && timing.hello.is_some());
        is_true.then_some((host, why))
    }
}

/// The next attempt at a host, which invalidates all earlier attempts and does not count their
/// failures.
pub(super) fn superseding(attempt: Attempt) -> Attempt {
    Attempt { lost: attempt.lost.saturating_add(1), failed: 0 }
}
