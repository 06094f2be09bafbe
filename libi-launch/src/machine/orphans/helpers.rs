//! Which hosts below a lost one get helpers, and when.
//!
//! A host comes back with all that are below it, so one that may be alive is sent a helper, and those below it
//! are not.
//!
//! | a host that is awaited | event | next |
//! |---|---|---|
//! | none was sent | [`HELPERS_AFTER`] is over, and no host above it keeps it | one is sent |
//! | one is on its way | the host is back | forgotten |
//! | one is on its way | it has ended, and was not the last of [`HELPERS`] | another one is sent after [`PAUSE`] |
//! | one is on its way | the last one has ended | none is sent any more: no process of the session is there |
//!
//! The lost host is sent some as well: perhaps only the connection to it is lost, and it keeps those below it from
//! being orphans until it is told that it counts as lost.
//!
//! A host keeps those below it from being sent helpers until it has had [`RETURN_TIMEOUT`] to be back, or is sent
//! none any more. So hosts below several that are dead are reached one [`RETURN_TIMEOUT`] for each later, and at most
//! [`AT_ONCE`] helpers are on their way for one lost host.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::time::Instant;

/// How long a node above waits for orphans that connect by themselves. They do within some hundredths of a
/// second where they can.
const HELPERS_AFTER: Duration = Duration::from_secs(1);
/// How many helpers are sent to a host, one after the other.
const HELPERS: u32 = 3;
/// How long a host may take to be back by a helper before those below it are sent some as well: about what a
/// login takes.
const RETURN_TIMEOUT: Duration = Duration::from_secs(1);
/// How many helpers are on their way at a time.
const AT_ONCE: usize = 32;
/// How long after the end of a helper the next one is sent.
const PAUSE: Duration = Duration::from_millis(300);
/// No tree has more levels: what says otherwise is wrong.
const MOST_LEVELS: usize = 100_000;

/// A child that is lost, and had hosts below it.
#[derive(Debug)]
pub(in crate::machine) struct Severed {
    pub(in crate::machine) lost: HostIndex,
    /// The hosts that are not back.
    pub(in crate::machine) hosts: BTreeSet<HostIndex>,
    pub(in crate::machine) until: Instant,
    /// When the first helpers are sent to those that are not.
    helpers_at: Option<Instant>,
    /// Those that were sent to hosts that are not back.
    helpers: BTreeMap<HostIndex, Helper>,
}

/// How far the helpers of a host are.
#[derive(Debug)]
struct Helper {
    sent: u32,
    step: Step,
    /// Until when the host keeps those below it from being sent helpers.
    keeps_until: Option<Instant>,
    /// Why the last one that has ended has found no orphan.
    why: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    OnItsWay,
    /// Another one is sent at this time.
    Again(Instant),
    /// No process of the session is there.
    InVain,
}

impl Severed {
    /// The child that leads this host is lost, and these hosts have so long to be back, and may do so by
    /// themselves if they can connect.
    pub(in crate::machine) fn new(
        lost: HostIndex,
        hosts: BTreeSet<HostIndex>,
        now: Instant,
        time_to_be_back: Duration,
        can_connect: bool,
    ) -> Self {
        let helpers_after = if can_connect { HELPERS_AFTER.min(time_to_be_back / 2) } else { Duration::ZERO };
        let helpers_at = Some(now + helpers_after);
        Self { lost, hosts, until: now + time_to_be_back, helpers_at, helpers: BTreeMap::new() }
    }

    /// The hosts to which helpers are sent now.
    pub(super) fn send_helpers(
        &mut self,
        now: Instant,
        parents: &BTreeMap<HostIndex, HostIndex>,
    ) -> Vec<HostIndex> {
        if self.helpers_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        self.helpers_at = None;
        for helper in self.helpers.values_mut() {
            helper.keeps_until = helper.keeps_until.filter(|until| now < *until);
        }
        let above = |host: HostIndex| std::iter::successors(parents.get(&host), |host| parents.get(host));
        let keeps = |host: &HostIndex| {
            let has_time = |helper: &Helper| helper.keeps_until.is_some() && helper.step != Step::InVain;
            self.hosts.contains(host) && self.helpers.get(host).is_none_or(has_time)
        };
        let is_due = |host: HostIndex| match self.helpers.get(&host).map(|helper| &helper.step) {
            None => !above(host).take(MOST_LEVELS).any(keeps),
            Some(Step::Again(at)) => *at <= now,
            Some(Step::OnItsWay | Step::InVain) => false,
        };
        // The lost one may live, and keep those below it from being orphans.
        let all = [self.lost].into_iter().chain(self.hosts.iter().copied());
        let due: Vec<HostIndex> = all.filter(|host| is_due(*host)).take(self.free()).collect();
        for host in &due {
            let helper = self.helpers.entry(*host).or_insert_with(|| Helper {
                sent: 0,
                step: Step::OnItsWay,
                keeps_until: Some(now + RETURN_TIMEOUT),
                why: String::new(),
            });
            (helper.sent, helper.step) = (helper.sent + 1, Step::OnItsWay);
        }
        due
    }

    /// Whether a host was still awaited; it is back now, and needs no helper any more.
    pub(super) fn is_back(&mut self, host: HostIndex) -> bool {
        self.helpers.remove(&host);
        self.hosts.remove(&host)
    }

    /// The helper of a host has ended. Those of hosts that are back are their links, and forgotten here.
    pub(super) fn helper_ended(&mut self, host: HostIndex, why: &str, now: Instant) {
        if let Some(helper) = self.helpers.get_mut(&host).filter(|helper| helper.step == Step::OnItsWay) {
            helper.step = if helper.sent < HELPERS { Step::Again(now + PAUSE) } else { Step::InVain };
            why.clone_into(&mut helper.why);
        }
    }

    /// Why no helper has found a host that is not back, if one was sent.
    pub(in crate::machine) fn why(&self, host: HostIndex) -> &str {
        self.helpers.get(&host).map_or("", |helper| &helper.why)
    }

    /// How many helpers may be sent now.
    fn free(&self) -> usize {
        let on_their_way = self.helpers.values().filter(|helper| helper.step == Step::OnItsWay);
        AT_ONCE.saturating_sub(on_their_way.count())
    }

    /// When something is due. Helpers for which there is no room are sent when others have ended.
    pub(super) fn next_deadline(&self) -> Instant {
        let has_room = self.free() > 0;
        let of_helper = |helper: &Helper| {
            let again = if let Step::Again(at) = helper.step { Some(at).filter(|_| has_room) } else { None };
            again.into_iter().chain(helper.keeps_until)
        };
        let helpers = self.helpers.values().flat_map(of_helper);
        helpers.chain(self.helpers_at).chain([self.until]).min().unwrap_or(self.until)
    }
}
