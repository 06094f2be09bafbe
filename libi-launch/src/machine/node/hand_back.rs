//! Handing back what cannot be launched from here, and launching what is handed back.
//!
//! Leaders launch from where they are, and whether that works is known when it was tried (`footing.rs`). A leader that finds
//! that it does not hands everything back to whoever gave it:
//!
//! ```text
//!   leader                                            its parent
//!     | first launches fail, none succeeds
//!     | Unable: the first failure, whether it is sure ->  | counts it; the front end notes it, and launches all by itself
//!     | Back: a host that waits, or has failed ------->   | out of the child's share, into its own queue; Again is said
//!     | Back: one that was in flight, as it ends ----->   | of it, so that what was said before is out of date
//!     | what comes up all the same stays its child
//! ```
//!
//! | who | when | does |
//! |---|---|---|
//! | a leader | its footing is lost | hands back all it has; launches nothing from then on, and hands back what it is given later |
//! | | and it is sure | ends what is in flight and has said nothing |
//! | | and it is not | lets what is in flight have its time, as long as that is worth waiting for: what has failed once may come up now |
//! | a parent | a host comes back that was not tried | launches it, or gives it to another child |
//! | a parent | a host comes back that was tried in vain, or was cut short for the second time | launches it by a new attempt, and gives it to nobody: it can launch, since it has launched the one that says this |
//! | a parent | more children are unable than have launched somebody | gives nothing to children that come up; those that have something keep it until they say otherwise |
//! | the front end | its master is unable | gives nobody anything any more, and launches everything from where it is, as its window and its estimate allow |
//! | anybody | a host comes back when nothing is launched any more | reports it as given up |
//!
//! *It ends.* A leader hands back once, and only upwards; who takes back does not hand back, for it has a child. The front end
//! is the last: what cannot be launched from there is given up.
//!
//! *Whose fault it was.* If the leader is sure that it is to blame, its failures do not count: the host has all its
//! attempts before it. If it had so few hosts that they may as well be dead, they count, but one attempt is left in any
//! case; else every dead host that is left to the last leaders would cost one time-out more than others. A host that was
//! not launched comes back by the attempt that would have been its next.
//!
//! *Nobody is handed about.* Hosts that let nobody in are left over when all others are up, and then they are all that children
//! are given: each child would try them, find that it cannot launch anybody, and hand them on to the next by way of its parent.
//! So a host that was tried by somebody who cannot know is tried next by somebody who does.
//!
//! *When the master is lost* while the front end launches, only those are lost with it who had come up below it. The
//! front end launches them itself, and the next master is given nothing.
//!
//! *For want of room.* A launcher may have no descriptors, processes or memory left for one more launch. Then what waits is for
//! whoever comes up next, who gets all of it; if nobody is on the way, a child that is up gets it, unless that has handed something
//! back before; and if there is none, the host goes back to the parent, as one that was not launched. From the front end
//! it cannot go back: there it is tried a few times more, and given up. A front end that gets hosts back for that reason does not
//! launch all of them by itself, as it does when the master cannot launch anybody.
//!
//! Static trees are kept to as far as possible: who takes back launches all that the unable one was to have below it.

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch, Retry};
use libi_core::time::Instant;

use super::launch_health::LauncherUnusable;
use super::{Effect, LinkId, Node, Role, SessionStage};
use crate::failure::{Cause, Failure, Phase};
use crate::machine::child::ChildState;
use crate::machine::message::ChildMessage;

impl Node {
    /// A launch from here has got somewhere: who was held until that is known is given up.
    pub(super) fn launching_confirmed(&mut self) {
        for (launch, failure) in self.health.confirm() {
            self.give_up_host(launch, failure);
        }
    }

    /// A launch that failed is not repeated.
    pub(super) fn give_up_host(&mut self, launch: Launch, failure: Failure) {
        self.adopt_subtree(launch.host);
        self.reports.push(ChildMessage::Failed(launch.host, launch.attempt, failure));
    }

    /// A launch has failed, and would be repeated or not.
    pub(super) fn judge(&mut self, launch: Launch, failure: Failure, retry: Retry) {
        let speaks_of_here = failure.may_be_launcher_fault();
        let given_up = retry == Retry::Never;
        if self.stage != SessionStage::Launching {
            return self.give_up_host(launch, failure);
        }
        if self.health.is_unusable() {
            // It was cut short, or would be launched again: but not here.
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

    /// Hands everything back if launching from here turns out not to work.
    pub(super) fn evaluate_launch_health(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let (timeout, in_flight, waiting) = (self.timeout(), self.queue.in_flight(), self.queue.waiting());
        let Some(collapse) = self.health.evaluate(now, timeout, in_flight, waiting) else { return };
        let LauncherUnusable { why, certain, deferred, failed } = collapse;
        self.reports.push(ChildMessage::CannotLaunch(why, certain));
        let silent = self
            .children
            .iter()
            .filter(|(_, child)| child.launch.is_some() && matches!(child.state, ChildState::Starting));
        let silent: Vec<(LinkId, Instant)> =
            silent.map(|(&link, child)| (link, child.by.min(child.started + timeout))).collect();
        let most = self.rules.attempts.saturating_sub(1);
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
                self.set_deadline(link, by);
            }
        }
    }

    /// Hands back what was given to a leader that has said that it cannot launch.
    pub(super) fn hand_back_new_share(&mut self) {
        if self.health.is_unusable() && self.stage == SessionStage::Launching {
            let given = self.drain_unlaunched();
            let back = given
                .into_iter()
                .map(|Launch { host, attempt }| ChildMessage::HandBack(host, attempt, false));
            self.reports.extend(back);
        }
    }

    /// A child cannot launch others.
    pub(super) fn child_cannot_launch(&mut self, child: HostIndex, why: &Failure, certain: bool) {
        if certain {
            self.health.child_cannot_launch();
        }
        if let Role::FrontEnd(front) = &mut self.role {
            front.flat_launch.get_or_insert_with(|| Box::new((child, why.clone())));
        }
    }

    /// A child hands back a host, to be launched by this attempt, which it may have tried in vain.
    pub(super) fn accept_hand_back(&mut self, child: HostIndex, back: Launch, tried: bool, now: Instant) {
        let Launch { host, attempt } = back;
        let is_old = match &self.role {
            Role::FrontEnd(front) => front.is_out_of_date(host, attempt),
            Role::Member(_) => false,
        };
        let Some(spec) = self.host_specs.get_mut(&host).filter(|_| !is_old) else { return };
        // Unless it is older than what was heard of already.
        let next = if attempt < spec.attempt { superseding(spec.attempt) } else { attempt };
        if self.stage != SessionStage::Launching {
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
            // What the master has is not noted in the front end's queue.
            Role::FrontEnd(_) => self.queue.adopt(launch, not_before),
            Role::Member(_) => self.queue.hand_back(child, launch, not_before),
        };
        // Otherwise it is not the child's to hand back.
        if taken.is_ok() {
            self.report_relaunch(launch, None);
        }
    }

    /// A host is to be launched by another attempt, which everybody above should know; and why, if it was lost.
    pub(super) fn report_relaunch(&mut self, next: Launch, lost: Option<&Failure>) {
        if let Some(spec) = self.host_specs.get_mut(&next.host) {
            spec.attempt = next.attempt;
        }
        self.reports.push(ChildMessage::Relaunch(next.host, next.attempt, lost.cloned().map(Box::new)));
    }

    /// At the front end: the leader that could not launch others, and its first failure, if everybody was launched from the
    /// front end since then; as far as somebody has been up to now.
    #[must_use]
    pub fn flat_launch(&self) -> Option<(HostIndex, &Failure)> {
        let Role::FrontEnd(front) = &self.role else { return None };
        let (host, why) = front.flat_launch.as_deref()?;
        let mut others = self.timings().iter().skip(1);
        let is_true = others.any(|timing| timing.launcher.is_none() && timing.hello.is_some());
        is_true.then_some((*host, why))
    }
}

/// The attempt at a host with which all that was tried before is out of date, and does not count.
pub(super) fn superseding(attempt: Attempt) -> Attempt {
    Attempt { lost: attempt.lost.saturating_add(1), failed: 0 }
}
