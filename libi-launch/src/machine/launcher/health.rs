//! Decides from the first launches of a node whether launching works on its machine at all.
//!
//! A refused launch may be the fault of the target or of the launcher: the launcher may have no
//! remote shell, or no keys, or a firewall may block it. One failure does not tell; several
//! failures and no success do.
//!
//! - **`Undecided`**, a child sends its preamble, or a shell has reached its host and failed there:
//!   `Healthy`.
//! - **`Undecided`**, the earliest launches have failed with a total weight of `CERTAIN_WEIGHT`:
//!   `Unusable`, certain.
//! - **`Undecided`**, all hosts of the share have failed: `Unusable`, not certain.
//!
//! - **Undecided**: launches go on, and transient failures are retried. No host is given up for a
//!   failure that may be the launcher's fault; it is deferred until the state is decided. Once a login
//!   was denied, or a shell could not be started, no more than three are in flight that have not been
//!   silent for long: what is started until the state is decided would be started in vain.
//! - **Healthy**: final. Deferred hosts are given up with their failures, because a working
//!   launcher has tried them.
//! - **Unusable**: final. All hosts go back to the parent (see `hand_back.rs`).
//!
//! Failures count only after every earlier launch has finished or has been silent for `timeout`:
//! refusals arrive sooner than hellos, and among many hosts some are dead, whose refusals arrive
//! before any hello can. The weight of a failure depends on what it says:
//!
//! - The shell cannot be started: one failure suffices.
//! - The login is denied: three failures, because dead hosts do not deny logins.
//! - The host does not answer: eight failures, because neighbours in a host list may be dead
//!   together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;

use crate::failure::{Cause, Failure};

/// The total weight at which the launcher is certainly at fault, and the weights of failures.
const CERTAIN_WEIGHT: u32 = 8;
const NOT_STARTED_WEIGHT: u32 = 8;
const NOT_AUTHENTICATED_WEIGHT: u32 = 3;
const NOT_REACHED_WEIGHT: u32 = 1;
/// How many hosts have to fail if they are all that there are; with fewer hosts, how often each
/// refusal is tried.
pub(super) const FEW: usize = 3;

/// What a node knows about launching, from here and from its children.
#[derive(Debug)]
pub(super) struct LaunchHealth {
    state: HealthState,
    /// How many children have reported that they cannot launch, and how many have launched a host.
    unable_children: u32,
    able_children: u32,
    /// How many children doubt that they can launch.
    doubting_children: u32,
    /// Whether the last launch from here was refused for lack of resources.
    out_of_resources: bool,
}

#[derive(Debug)]
enum HealthState {
    Undecided(Box<Evidence>),
    Healthy,
    /// Whether the launcher is certainly at fault.
    Unusable {
        certain: bool,
    },
}

/// The launches while the state is undecided.
#[derive(Debug, Default)]
struct Evidence {
    /// Every host that was launched, in the order of the first launches.
    tried: Vec<(HostIndex, Instant)>,
    failed: BTreeMap<HostIndex, HostEvidence>,
    /// Hosts that would have been given up.
    deferred: Vec<(Launch, Failure)>,
    first_failure: Option<Failure>,
    /// When the oldest open launch has been silent for long enough to count the failures after it.
    next_wake: Option<Instant>,
}

/// The failures of one host that may be the launcher's fault.
#[derive(Clone, Copy, Debug, Default)]
struct HostEvidence {
    count: u16,
    weight: u32,
    timed_out: bool,
    deferred: bool,
}

/// The decision that launching does not work here.
#[derive(Debug)]
pub(super) struct LauncherUnusable {
    /// The first failure.
    pub(super) why: Failure,
    /// Whether the launcher is certainly at fault; otherwise its few hosts may as well be dead.
    pub(super) certain: bool,
    /// Hosts that would have been given up, with their last failures.
    pub(super) deferred: Vec<(Launch, Failure)>,
    /// All hosts that have failed.
    pub(super) failed: BTreeSet<HostIndex>,
}

impl LaunchHealth {
    /// The health of a leader at its start.
    pub(super) fn undecided() -> Self {
        Self {
            state: HealthState::Undecided(Box::default()),
            unable_children: 0,
            able_children: 0,
            doubting_children: 0,
            out_of_resources: false,
        }
    }

    /// The health of the front end, which has no parent to hand hosts back to.
    pub(super) fn healthy() -> Self {
        Self { state: HealthState::Healthy, ..Self::undecided() }
    }

    /// Other hosts are launched than before: a leader is judged by these.
    pub(super) fn judge_anew(&mut self) {
        if !matches!(self.state, HealthState::Healthy) {
            self.state = HealthState::Undecided(Box::default());
        }
    }

    pub(super) fn is_unusable(&self) -> bool {
        matches!(self.state, HealthState::Unusable { .. })
    }

    /// Whether this launcher is certainly at fault for launches that fail here.
    pub(super) fn is_certainly_unusable(&self) -> bool {
        matches!(self.state, HealthState::Unusable { certain: true })
    }

    /// Whether new children are given hosts: not if more children cannot launch, or doubt it, than have
    /// launched a host.
    pub(super) fn children_may_launch(&self) -> bool {
        self.unable_children.saturating_add(self.doubting_children) <= self.able_children
    }

    pub(super) fn child_doubts(&mut self, doubts: bool) {
        let many = self.doubting_children;
        self.doubting_children = if doubts { many.saturating_add(1) } else { many.saturating_sub(1) };
    }

    pub(super) fn child_cannot_launch(&mut self) {
        self.unable_children = self.unable_children.saturating_add(1);
    }

    pub(super) fn child_has_launched(&mut self) {
        self.able_children = self.able_children.saturating_add(1);
    }

    /// Whether the last launch was refused for lack of resources.
    pub(super) fn is_out_of_resources(&self) -> bool {
        self.out_of_resources
    }

    pub(super) fn set_out_of_resources(&mut self, out_of_resources: bool) {
        self.out_of_resources = out_of_resources;
    }

    /// How many launches may be in flight, if the first ones speak against this launcher.
    pub(super) fn limit_in_doubt(&self) -> Option<usize> {
        let HealthState::Undecided(evidence) = &self.state else { return None };
        evidence.failed.values().any(|host| host.weight > NOT_REACHED_WEIGHT).then_some(FEW)
    }

    /// How many hosts have failed for a reason that may be the launcher's fault, until that is decided.
    pub(super) fn failed_hosts(&self) -> usize {
        match &self.state {
            HealthState::Undecided(evidence) => evidence.failed.len(),
            HealthState::Healthy | HealthState::Unusable { .. } => 0,
        }
    }

    /// Records the launch of a host.
    pub(super) fn note_launch(&mut self, host: HostIndex, now: Instant) {
        if let HealthState::Undecided(evidence) = &mut self.state
            && !evidence.failed.contains_key(&host)
        {
            evidence.tried.push((host, now));
        }
    }

    /// The launch of a host is left to another launcher, and says nothing of this one.
    pub(super) fn forget_launch(&mut self, host: HostIndex) {
        if let HealthState::Undecided(evidence) = &mut self.state {
            evidence.tried.retain(|(tried, _)| *tried != host);
        }
    }

    /// Records that launching works; returns the deferred hosts, which are to be given up.
    pub(super) fn confirm(&mut self) -> Vec<(Launch, Failure)> {
        match &mut self.state {
            HealthState::Undecided(evidence) => {
                let deferred = std::mem::take(&mut evidence.deferred);
                self.state = HealthState::Healthy;
                deferred
            }
            HealthState::Healthy | HealthState::Unusable { .. } => Vec::new(),
        }
    }

    /// Records a failure that may be the launcher's fault, and whether it is retried. Returns
    /// whether the host is deferred.
    pub(super) fn record_failure(&mut self, launch: Launch, failure: &Failure, is_repeated: bool) -> bool {
        let HealthState::Undecided(evidence) = &mut self.state else { return false };
        let host = evidence.failed.entry(launch.host).or_default();
        host.count = host.count.saturating_add(1);
        host.timed_out = failure.cause == Cause::TimedOut;
        host.weight = match failure.cause {
            Cause::NotStarted(_) => NOT_STARTED_WEIGHT,
            _ if failure.is_login_denied() => NOT_AUTHENTICATED_WEIGHT,
            _ => NOT_REACHED_WEIGHT,
        };
        host.deferred = !is_repeated;
        evidence.first_failure.get_or_insert_with(|| failure.clone());
        if !is_repeated {
            evidence.deferred.push((launch, failure.clone()));
        }
        !is_repeated
    }

    /// Takes the deferred hosts when launching stops before the state is decided.
    pub(super) fn take_deferred(&mut self) -> Vec<(Launch, Failure)> {
        match &mut self.state {
            HealthState::Undecided(evidence) => std::mem::take(&mut evidence.deferred),
            HealthState::Healthy | HealthState::Unusable { .. } => Vec::new(),
        }
    }

    /// Forgets failures of hosts that are not this node's to launch any more.
    pub(super) fn forget_failures(&mut self) {
        if let HealthState::Undecided(evidence) = &mut self.state {
            **evidence = Evidence::default();
        }
    }

    /// Decides whether launching does not work here. `in_flight` launches are open, and `waiting`
    /// hosts wait or back off; a launch is silent after `timeout`.
    pub(super) fn evaluate(
        &mut self,
        now: Instant,
        timeout: Duration,
        in_flight: usize,
        waiting: usize,
    ) -> Option<LauncherUnusable> {
        let HealthState::Undecided(evidence) = &mut self.state else { return None };
        let all = in_flight + waiting + evidence.deferred.len();
        let certain = evidence.is_certain(now, timeout);
        let may_be = evidence.all_have_failed(all)
            || in_flight == 0 && evidence.only_hopeless_launches_remain(waiting);
        let collapses = certain || may_be;
        let why = evidence.first_failure.take_if(|_| collapses)?;
        let deferred = std::mem::take(&mut evidence.deferred);
        let failed = evidence.failed.keys().copied().collect();
        self.state = HealthState::Unusable { certain };
        Some(LauncherUnusable { why, certain, deferred, failed })
    }

    /// When to evaluate again, if no event comes before.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        match &self.state {
            HealthState::Undecided(evidence) => evidence.next_wake,
            HealthState::Healthy | HealthState::Unusable { .. } => None,
        }
    }
}

impl Evidence {
    /// Whether the earliest launches have failed with enough weight.
    fn is_certain(&mut self, now: Instant, timeout: Duration) -> bool {
        self.next_wake = None;
        if self.failed.is_empty() {
            return false;
        }
        let mut weight = 0;
        for (host, since) in &self.tried {
            match self.failed.get(host) {
                Some(host) => weight += host.weight,
                None if now > *since + timeout => {}
                None => {
                    let in_the_end: u32 = self.failed.values().map(|host| host.weight).sum();
                    self.next_wake =
                        (in_the_end >= CERTAIN_WEIGHT).then(|| *since + timeout + Duration::from_nanos(1));
                    return false;
                }
            }
            if weight >= CERTAIN_WEIGHT {
                return true;
            }
        }
        false
    }

    /// Whether all hosts have failed, and there are enough of them.
    fn all_have_failed(&self, all: usize) -> bool {
        self.failed.len() >= FEW.max(all)
    }

    /// Whether all hosts that are left have been tried often enough here: a refused host a few
    /// times, a host that timed out once, because another launcher can spend that time better.
    fn only_hopeless_launches_remain(&self, waiting: usize) -> bool {
        let is_tried = |host: &&HostEvidence| host.timed_out || usize::from(host.count) >= FEW;
        let tried = self.failed.values().filter(|host| !host.deferred).filter(is_tried).count();
        waiting == tried && tried + self.deferred.len() > 0
    }
}

#[cfg(test)]
mod tests;
