//! Shares: which hosts a child gets after its hello, and what happens to the hosts of a share that
//! this node gets.
//!
//! | the child is | it gets |
//! |---|---|
//! | any, in a static tree | its subtree |
//! | the leader of the first host, and leaders launch | all other hosts |
//! | any, and the front end launches alone | none, until that lacks the resources for more launches |
//! | any, and more children cannot launch than have launched a host | none |
//! | any, and this node lacks the resources for more launches | its part of the hosts that wait, beside the launches in flight that are still expected |
//! | any, and files take longer than a launch (`fan_out.rs`) | an equal part of the hosts that wait |
//! | any other | what the late-commit queue says, now and whenever its share proves too small; that may be launches that wait here for their turn, which are withdrawn |

use std::collections::BTreeMap;

use libi_core::ids::{HostIndex, LinkId};
use libi_core::plan::HostRuns;
use libi_core::plan::estimate::Estimate;
use libi_core::plan::late::{Attempt, FurtherShare, Launch, Share};
use libi_core::time::Instant;

use super::subtrees::lay_out;
use super::{Launcher, Terms};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Failure};
use crate::machine::message::{ChildMessage, HostSpec, Spare};

/// Hosts that a child is to launch, in the order in which they are given.
#[derive(Debug)]
pub(in crate::machine) struct GivenHosts {
    pub(in crate::machine) specs: Vec<HostSpec>,
    pub(in crate::machine) estimate: Estimate,
}

impl Launcher {
    /// A child has said hello; returns its hosts, or `None` if its launch is not in flight. What the
    /// late-commit queue decides comes [later](Self::share_out).
    pub(in crate::machine) fn ready(
        &mut self,
        link: LinkId,
        launch: Launch,
        terms: &Terms,
    ) -> Option<GivenHosts> {
        self.window.answered();
        let laid_out = self.laid_out(launch.host, terms);
        let share = match &laid_out {
            Some(hosts) => {
                let hosts: HostRuns = hosts.iter().map(|(host, _)| *host).collect();
                // If the first leader is lost, the front end goes through all hosts anyway.
                let kept = if terms.front.is_some() { HostRuns::new() } else { hosts };
                self.queue.child_ready_with(launch, terms.now, kept)
            }
            None if self.health.is_out_of_resources() => self.queue.child_ready_of_full(launch, terms.now),
            None => match self.part_to_stage(terms) {
                Some(count) => self.queue.child_ready_with_last(launch, terms.now, count),
                None => {
                    self.may_share = true;
                    self.queue.child_ready_with_last(launch, terms.now, 0)
                }
            },
        };
        let share = share.ok()?;
        self.note_estimate(link, &share);
        let hosts = laid_out.unwrap_or_else(|| share.hosts.iter().map(|host| (host, 0)).collect());
        Some(self.given(&hosts, &share))
    }

    /// What the late-commit queue gives to these children, of which each has so many launchers, if they
    /// may get hosts from it; with launches of
    /// this node that the child makes instead, which have to be ended here.
    pub(in crate::machine) fn share_out(
        &mut self,
        children: impl Iterator<Item = (LinkId, HostIndex, usize)>,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) -> Vec<(LinkId, GivenHosts, Vec<Launch>)> {
        self.may_share = false;
        let has_means = !self.health.is_out_of_resources() && self.part_to_stage(terms).is_none();
        if !has_means || !self.queue_decides(terms) {
            return Vec::new();
        }
        let links: BTreeMap<HostIndex, (LinkId, usize)> =
            children.map(|(link, host, launchers)| (host, (link, launchers))).collect();
        let withdraws = terms.options.launch_method().may_end_starts();
        let ready = links.iter().map(|(host, (_, launchers))| (*host, *launchers));
        let shares = self.queue.share_out(ready, withdraws, terms.now);
        let mut given = Vec::new();
        for FurtherShare { child, share, withdrawn } in shares {
            let Some((link, _)) = links.get(&child) else { continue };
            self.note_estimate(*link, &share);
            for Launch { host, .. } in &withdrawn {
                self.health.forget_launch(*host);
                let attempt = share.attempts.get(host).copied().unwrap_or_default();
                self.report_relaunch(Launch { host: *host, attempt }, None, reports);
            }
            let hosts: Vec<_> = share.hosts.iter().map(|host| (host, 0)).collect();
            given.push((*link, self.given(&hosts, &share), withdrawn));
        }
        given
    }

    /// Whether there may be hosts for children whose shares have proved too small.
    pub(in crate::machine) fn may_share(&self) -> bool {
        self.may_share
    }

    /// Whether the late-commit queue decides what children get, within the means of this node.
    fn queue_decides(&self, terms: &Terms) -> bool {
        match terms.unlike_leaders() {
            None => !terms.options.is_static() && self.health.children_may_launch(),
            // Other nodes can launch, but the first leader has too few resources for all hosts.
            Some(front) => front.launchers().lack_resources() && front.static_tree().is_none(),
        }
    }

    /// Notes which estimate a child was given with its share.
    fn note_estimate(&mut self, link: LinkId, share: &Share) {
        if !share.hosts.is_empty() && !share.estimate.is_certain() {
            self.provisional_estimates.push((link, share.estimate));
        }
    }

    /// A host below this child is up.
    pub(in crate::machine) fn up_below(&mut self, child: HostIndex, host: HostIndex) {
        self.may_share |= self.queue.up_below(child, host);
    }

    /// How many of the waiting hosts a child gets that is up now, where children that lack files are to
    /// be few: as many as each of the others, and of those that may still be launched.
    fn part_to_stage(&self, terms: &Terms) -> Option<usize> {
        let room = self.room_to_stage(self.window_limit(terms), terms)?;
        // The child is one of those in flight.
        let parts = self.queue.in_flight().max(room).max(1);
        Some(self.queue.waiting().div_ceil(parts))
    }

    /// The hosts of a child with the sizes of their subtrees, if the queue does not decide them.
    fn laid_out(&mut self, child: HostIndex, terms: &Terms) -> Option<Vec<(HostIndex, u32)>> {
        if self.queue_decides(terms) {
            return None;
        }
        let Some(front) = terms.unlike_leaders() else {
            return Some(if terms.options.is_static() { self.subtrees.take(child) } else { Vec::new() });
        };
        let tree = front.static_tree();
        if front.launchers().include_front_end() {
            return Some(Vec::new());
        }
        // The front end launches only the first host; that leader gets all others.
        let open = self.specs.keys().copied().filter(|host| !front.has_given_up(*host));
        let others = open.filter(|host| *host != child);
        Some(match tree {
            None => others.map(|host| (host, 0)).collect(),
            Some((shape, cost)) => {
                let hosts: Vec<_> = std::iter::once(child).chain(others).collect();
                lay_out(shape, cost, &hosts)
            }
        })
    }

    /// Gives all hosts that wait to a child that is up.
    pub(in crate::machine) fn give_waiting_to(&mut self, child: HostIndex) -> Option<GivenHosts> {
        let share = self.queue.give_waiting_to(child).ok()?;
        let hosts: Vec<_> = share.hosts.iter().map(|host| (host, 0)).collect();
        Some(self.given(&hosts, &share))
    }

    pub(super) fn given(&self, hosts: &[(HostIndex, u32)], share: &Share) -> GivenHosts {
        let spec = |&(host, below): &(HostIndex, u32)| {
            let spec = self.specs.get(&host)?;
            let attempt = share.attempts.get(&host).copied().unwrap_or_default().max(spec.attempt);
            let faults = self.faults.get(&host).copied().unwrap_or(0);
            Some(HostSpec { attempt, below, faults, ..spec.clone() })
        };
        let specs = hosts.iter().filter_map(spec).collect();
        GivenHosts { specs, estimate: share.estimate }
    }

    /// The current estimate for each child whose estimate has proved wrong.
    pub(in crate::machine) fn corrections(
        &mut self,
        is_up: impl Fn(LinkId) -> bool,
    ) -> Vec<(LinkId, Estimate)> {
        let now = self.queue.estimate();
        let mut corrections = Vec::new();
        self.provisional_estimates.retain_mut(|(link, told)| {
            let is_up = is_up(*link);
            if is_up && now.differs(told) {
                *told = now;
                corrections.push((*link, now));
            }
            is_up && !now.is_certain()
        });
        corrections
    }

    /// Accepts a share from the parent.
    pub(in crate::machine) fn accept(&mut self, specs: Vec<HostSpec>, estimate: Estimate, is_static: bool) {
        let hosts: HostRuns = if is_static {
            self.subtrees.accept(specs.iter().map(|spec| (spec.host, spec.below))).into_iter().collect()
        } else {
            specs.iter().map(|spec| spec.host).collect()
        };
        specs.into_iter().for_each(|spec| self.take_over(spec));
        let later = hosts.iter().map(|host| (host, self.attempt(host)));
        let attempts = later.filter(|(_, attempt)| *attempt != Attempt::default()).collect();
        self.may_share = true;
        self.queue.accept(Share { hosts, attempts, estimate });
    }

    /// A host is this node's from now on. A spare may have taken its place: what was known here of the
    /// host does not apply any more.
    pub(super) fn take_over(&mut self, spec: HostSpec) {
        if spec.faults > 0 {
            self.faults.insert(spec.host, spec.faults);
        } else {
            self.faults.remove(&spec.host);
        }
        self.specs.insert(spec.host, spec);
    }

    /// A child of a static tree was given up: this node launches the children of that child.
    pub(super) fn adopt_subtree(&mut self, child: HostIndex) {
        let hosts: HostRuns = self.subtrees.promote(child).into_iter().collect();
        let attempts = hosts.iter().map(|host| (host, self.attempt(host))).collect();
        self.queue.add(&hosts, attempts);
    }

    /// A node below this child has given up a host of the child's share for good: a later loss of
    /// that node does not change this.
    pub(in crate::machine) fn given_up_below(&mut self, child: HostIndex, host: HostIndex, terms: &Terms) {
        // One that was in the session does not come back either, should it look for another parent.
        if self.queue.remove_from_share(child, host) && terms.launches(host) {
            self.may_share = true;
            if terms.front.is_none() {
                self.specs.remove(&host);
            }
        }
    }

    /// New hosts are none of this node any more, but those that are kept: it has lost its parent, and others
    /// launch them.
    pub(in crate::machine) fn forget_new(
        &mut self,
        children: &[HostIndex],
        settled: u32,
        is_kept: impl Fn(HostIndex) -> bool,
    ) {
        let new: Vec<HostIndex> = self.specs.range(HostIndex(settled)..).map(|(host, _)| *host).collect();
        for host in new.into_iter().filter(|host| !is_kept(*host)) {
            self.specs.remove(&host);
            children.iter().for_each(|child| _ = self.queue.remove_from_share(*child, host));
        }
    }

    /// Drains all hosts that are not launched yet, with their next attempts.
    pub(super) fn drain_unlaunched(&mut self) -> Vec<Launch> {
        let mut launches: Vec<Launch> = self.queue.give_up_waiting().collect();
        let below: Vec<HostIndex> = self.subtrees.abandon().collect();
        launches.extend(below.into_iter().map(|host| Launch { host, attempt: self.attempt(host) }));
        launches
    }

    /// Reports every host that waits for its launch as given up.
    pub(in crate::machine) fn abandon(
        &mut self,
        why: &Cause,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        self.give_up_unreached(reports);
        for (Launch { host, attempt }, failure) in self.health.take_deferred() {
            reports.push(ChildMessage::Failed(host, attempt, failure));
        }
        for Launch { host, attempt } in self.drain_unlaunched() {
            // A host between two attempts keeps the evidence of the last one.
            let tail = self.last_printed.remove(&host).unwrap_or_default();
            let failure = Failure { tail, ..terms.failure_of_waiting(why.clone()) };
            reports.push(ChildMessage::Failed(host, attempt, failure));
        }
    }

    /// Gives up the open hosts as [`abandon`](Self::abandon) does, and goes on with others.
    pub(in crate::machine) fn give_up_open(
        &mut self,
        why: &Cause,
        terms: &Terms,
        reports: &mut Vec<ChildMessage>,
    ) {
        self.abandon(why, terms, reports);
        self.health.forget_failures();
    }

    /// Puts a spare in the place of a host whose attempt has failed. `here`: this node launches the
    /// host, and another leader otherwise. Returns the host as it is launched now.
    pub(in crate::machine) fn replace(
        &mut self,
        failed: Launch,
        here: bool,
        now: Instant,
        spare_for: impl FnOnce(&str) -> Option<Spare>,
    ) -> Option<HostSpec> {
        let host = failed.host;
        let spec = self.specs.get_mut(&host)?;
        let before = failed.attempt.max(spec.attempt);
        before.lost.checked_add(1)?;
        let next = Attempt { withdrawn: false, ..before.after_loss() };
        let spare = spare_for(&spec.name)?;
        (spec.name, spec.user, spec.port, spec.attempt) = (spare.name, spare.user, spare.port, next);
        let spec = spec.clone();
        self.faults.remove(&host);
        self.unreached.forget(host);
        if here {
            self.queue.requeue(Launch { host, attempt: before }, now).ok()?;
            // Not at once: what else is reported may end the launch.
            self.again = Some(now);
        }
        Some(spec)
    }
}
