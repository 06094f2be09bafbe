//! Hosts that the front end cannot reach, and that hosts may reach which are up.
//!
//! A front end may be outside of a cluster, know no names of its inside, and reach only the host that
//! leads there, the first. Where it launches beside the leaders, its launches of other hosts fail then. A
//! leader would hand such hosts back to the node above; the front end hands them down.
//!
//! | state of a host | event | next state |
//! |---|---|---|
//! | in flight here | its launch fails for good, or so often that others should try, and as it would if this launcher were at fault | unreached |
//! | unreached | a child is up that takes hosts | in the share of that child |
//! | | nothing waits here and all launches in flight are silent, so no such child will come soon | waits, if attempts are left, and is unreached again if that fails |
//! | | nothing waits or is in flight here, so no such child will come | waits, if attempts are left, and the next failures here are its own; else given up, with its failure |
//! | | launching stops | given up, with its failure |
//! | in a share | handed back, and was unreached before, or was tried there | waits; the next failure here is for good |
//! | | lost with that child, or replaced by a spare | waits; the next failure here makes it unreached again |

use std::collections::{BTreeMap, BTreeSet};

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Launch, Retry};

use super::{Launcher, Terms};
use crate::failure::Failure;
use crate::machine::launcher::GivenHosts;
use crate::machine::message::ChildMessage;

/// The hosts that this launcher could not reach.
#[derive(Debug, Default)]
pub(super) struct UnreachedHosts {
    /// Those that no other launcher has tried, with their failures.
    waiting: BTreeMap<HostIndex, (Launch, Failure)>,
    /// Those that were given to a child for that, or that one has tried before.
    passed: BTreeSet<HostIndex>,
}

impl UnreachedHosts {
    /// A child has tried this host without success: the next failure here is for good.
    pub(super) fn tried_elsewhere(&mut self, host: HostIndex) {
        self.passed.insert(host);
    }

    /// A host was lost with the child that it was given to, or is another machine from now on.
    pub(super) fn forget(&mut self, host: HostIndex) {
        self.passed.remove(&host);
    }
}

impl Launcher {
    /// The launch of a host has failed for good, as it would if this launcher were at fault: leaves the
    /// host to another launcher, if one may reach it, and returns whether it does.
    pub(super) fn leave_to_others(&mut self, launch: Launch, failure: &Failure, terms: &Terms) -> bool {
        let may = self.may_leave_to_others(launch.host, terms);
        if may {
            self.unreached.waiting.insert(launch.host, (launch, failure.clone()));
        }
        may
    }

    /// Whether a host may be left to another launcher.
    pub(super) fn may_leave_to_others(&self, host: HostIndex, terms: &Terms) -> bool {
        let hands_down = terms.front.is_some() && terms.unlike_leaders().is_none();
        // The front end has to reach the first host itself.
        hands_down && host != HostIndex(0) && !self.unreached.passed.contains(&host)
    }

    /// Whether hosts that this launcher could not reach are to be given to a child.
    pub(in crate::machine) fn has_unreached(&self) -> bool {
        !self.unreached.waiting.is_empty()
    }

    /// Gives the hosts that this launcher could not reach to a child that is up.
    pub(in crate::machine) fn give_unreached_to(
        &mut self,
        child: HostIndex,
        reports: &mut Vec<ChildMessage>,
    ) -> Option<GivenHosts> {
        let latest = |launch: Launch| self.attempt(launch.host).max(launch.attempt).after_loss();
        let next = |(launch, _): &(Launch, Failure)| Launch { attempt: latest(*launch), ..*launch };
        let launches: Vec<Launch> = self.unreached.waiting.values().map(next).collect();
        let share = self.queue.give(child, &launches).ok()?;
        self.unreached.waiting.clear();
        for launch in launches {
            self.unreached.passed.insert(launch.host);
            self.report_relaunch(launch, None, reports);
        }
        let hosts: Vec<_> = share.hosts.iter().map(|host| (host, 0)).collect();
        Some(self.given(&hosts, &share))
    }

    /// Where no child is up that could reach the hosts that this launcher could not: tries them again if none
    /// will come up soon, and gives up those without attempts if none will come up at all.
    pub(in crate::machine) fn keep_unreached(&mut self, terms: &Terms, reports: &mut Vec<ChildMessage>) {
        if self.queue.waiting() > 0 {
            return;
        }
        if let Some(latest) = self.in_flight_not_silent(terms.now).last() {
            self.again = Some(self.silent_from(latest));
            return;
        }
        let is_last = self.queue.in_flight() == 0;
        for (host, (launch, failure)) in std::mem::take(&mut self.unreached.waiting) {
            if is_last {
                self.unreached.passed.insert(host);
            }
            let next = Launch { attempt: launch.attempt.after_failure(), ..launch };
            let is_tried = match self.retry_up_to(u16::MAX, launch, &failure, terms) {
                Retry::After(back_off) => self.queue.adopt(next, Some(terms.now + back_off)).is_ok(),
                Retry::Never => false,
            };
            if is_tried {
                self.report_relaunch(next, None, reports);
            } else if is_last {
                reports.push(ChildMessage::Failed(host, launch.attempt, failure));
            } else {
                self.unreached.waiting.insert(host, (launch, failure));
            }
        }
    }

    /// Gives up the hosts that this launcher could not reach.
    pub(super) fn give_up_unreached(&mut self, reports: &mut Vec<ChildMessage>) {
        for (launch, failure) in std::mem::take(&mut self.unreached.waiting).into_values() {
            reports.push(ChildMessage::Failed(launch.host, launch.attempt, failure));
        }
    }
}
