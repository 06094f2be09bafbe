//! The launcher of a node: which host is launched next, where a host goes whose launch failed, and
//! which hosts a child gets.
//!
//! # States of a host
//!
//! | state | event | next state |
//! |---|---|---|
//! | waits | the window allows a launch | in flight |
//! | | a child says hello and gets the host in its share | in the child's share |
//! | | launching does not work here (`hand_back.rs`) | handed back to the parent |
//! | in flight | hello | up; at the front end perhaps in the share of the first leader (`moves.rs`) |
//! | | the launch fails, and is retried | backs off, then waits |
//! | | it fails as it would if the launcher were at fault (`health.rs`) | deferred |
//! | | it fails for good | given up, or given to a child (`unreached.rs`) |
//! | deferred | launching works here | given up |
//! | | launching does not work here | handed back to the parent |
//! | in a share | the child hands it back | waits |
//! | | the child is lost | waits, if a launch is still allowed |
//! | up | lost | backs off, then waits; or given up |
//! | of another node | the front end has launched it for this one | in flight |
//! | any but up | the session goes up, ends, or settles | given up |
//!
//! The hosts and their costs are in the [late-commit queue](libi_core::plan::late). The launcher
//! adds what the queue does not know: how many launches may be in flight (`window.rs`), how many
//! children may be sent files at a time (`fan_out.rs`), how often a failure is retried (`failures.rs`),
//! whether launching works from here at all (`health.rs`, `doubt.rs`), hosts that only others reach
//! (`unreached.rs`), and static trees (`subtrees.rs`).
//!
//! The launcher starts no processes and sends no messages. It returns hosts to launch and shares to
//! send, and adds what the nodes above must know to a list of reports.

mod doubt;
mod failures;
mod fan_out;
mod hand_back;
mod health;
mod shares;
mod subtrees;
mod unreached;
mod window;

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::ids::{HostIndex, LinkId};
use libi_core::plan::HostRuns;
use libi_core::plan::estimate::Estimate;
use libi_core::plan::late::{Attempt, Launch, Next, Queue};
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;

use self::doubt::Doubt;
pub(super) use self::fan_out::StagingLoad;
pub(super) use self::hand_back::SilentLaunches;
use self::health::LaunchHealth;
pub(super) use self::shares::GivenHosts;
use self::subtrees::StaticSubtrees;
use self::unreached::UnreachedHosts;
use self::window::LaunchWindow;
use super::front_end::FrontEndState;
use super::message::HostSpec;
use crate::failure::{Cause, Failure, Phase};
use crate::options::LaunchOptions;

/// A launch that has been silent for at least this long does not count towards the window.
const TIMEOUT: Duration = Duration::from_secs(3);
/// What makes the jitter of retries different from the nonces of the same node.
const JITTER: u64 = 0x6a69_7474_6572;

/// The hosts that a node launches, and what it knows about launching. See the [module](self).
#[derive(Debug)]
pub(super) struct Launcher {
    /// Every host that this node was ever to launch.
    specs: BTreeMap<HostIndex, HostSpec>,
    queue: Queue,
    subtrees: StaticSubtrees,
    window: LaunchWindow,
    /// Whether launching works, from here and from children.
    health: LaunchHealth,
    doubt: Doubt,
    unreached: UnreachedHosts,
    /// For hosts that were up and then lost here: how often they have failed, counting all launches
    /// from this node.
    faults: BTreeMap<HostIndex, u16>,
    /// The end of what the last failed attempt at a host printed, for hosts that are retried here.
    last_printed: BTreeMap<HostIndex, String>,
    /// Children that were given hosts with an estimate that was not yet measured.
    provisional_estimates: Vec<(LinkId, Estimate)>,
    /// Whether a child may have become idle, or the estimate better, since hosts were last shared.
    may_share: bool,
    /// The latest host that could not be started, for which its starter may have ended all others.
    ends_starts: Option<HostIndex>,
    /// When to try the next launch, if no event comes before.
    again: Option<Instant>,
    jitter: Rng,
}

/// What the launcher needs to know of its node for a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) now: Instant,
    /// When the node began.
    pub(super) began: Instant,
    pub(super) options: &'a LaunchOptions,
    /// Whether hosts are still launched.
    pub(super) is_launching: bool,
    /// How many hosts are in the session already: none of these is launched.
    pub(super) settled: u32,
    /// At the front end, which has no parent: its state.
    pub(super) front: Option<&'a FrontEndState>,
    /// What is sent to children, where files are staged and any child may launch any host.
    pub(super) staging: Option<StagingLoad>,
}

impl Terms<'_> {
    /// Whether a host may be launched, once more.
    fn launches(&self, host: HostIndex) -> bool {
        self.is_launching && self.is_new(host)
    }

    /// Whether a host is not in the session yet.
    fn is_new(&self, host: HostIndex) -> bool {
        host.0 >= self.settled
    }

    /// Whether this node launches a host that was lost or replaced. The front end leaves that to
    /// the first leader, except for the first host.
    fn launches_here(&self, host: HostIndex) -> bool {
        self.front.is_none_or(|front| host == HostIndex(0) || front.launchers().include_front_end())
    }

    /// The front end, if it does not launch hosts as leaders do.
    fn unlike_leaders(&self) -> Option<&FrontEndState> {
        self.front.filter(|front| !front.launchers().are_all())
    }

    /// The failure of a host that waits.
    pub(super) fn failure_of_waiting(&self, cause: Cause) -> Failure {
        Failure::without_evidence(Phase::Waiting, cause, self.now.since(self.began))
    }
}

impl Launcher {
    /// The launcher of a leader, which has no hosts before its share arrives.
    pub(super) fn of_leader(entropy: u64) -> Self {
        Self {
            specs: BTreeMap::new(),
            queue: Queue::new(HostRuns::new(), Estimate::assumed(&Cost::default())),
            subtrees: StaticSubtrees::default(),
            window: LaunchWindow::new(),
            health: LaunchHealth::undecided(),
            doubt: Doubt::default(),
            unreached: UnreachedHosts::default(),
            faults: BTreeMap::new(),
            last_printed: BTreeMap::new(),
            provisional_estimates: Vec::new(),
            may_share: false,
            ends_starts: None,
            again: None,
            jitter: Rng::new(entropy ^ JITTER),
        }
    }

    /// The launcher of the front end, whose own are the first `own` of these hosts; the leader of the
    /// first gets the others.
    pub(super) fn of_front_end(hosts: &[HostSpec], own: usize, estimate: Estimate, entropy: u64) -> Self {
        let own: HostRuns = (0..own as u32).map(HostIndex).collect();
        let numbered = (0..).map(HostIndex).zip(hosts);
        let mut queue = Queue::new(own, estimate);
        // Input for the master goes to its leader.
        queue.keep(HostIndex(0));
        Self {
            specs: numbered.map(|(host, spec)| (host, HostSpec { host, ..spec.clone() })).collect(),
            queue,
            health: LaunchHealth::healthy(),
            ..Self::of_leader(entropy)
        }
    }

    /// What is known of a host that this node was to launch.
    pub(super) fn spec(&self, host: HostIndex) -> Option<&HostSpec> {
        self.specs.get(&host)
    }

    /// The hosts of this range that this node was to launch.
    pub(super) fn specs(&self, hosts: impl RangeBounds<HostIndex>) -> impl Iterator<Item = &HostSpec> {
        self.specs.range(hosts).map(|(_, spec)| spec)
    }

    /// The hosts that a child was given, and that may be below it.
    pub(super) fn hosts_below(&self, host: HostIndex) -> impl Iterator<Item = HostIndex> {
        self.queue.share_of(host)
    }

    /// Whether a child that is up can be given hosts: it was launched from here. An orphan was not.
    pub(super) fn may_give_to(&self, child: HostIndex) -> bool {
        self.queue.is_up(child)
    }

    /// The latest known attempt at a host.
    fn attempt(&self, host: HostIndex) -> Attempt {
        self.specs.get(&host).map_or(Attempt::default(), |spec| spec.attempt)
    }

    /// Records an attempt at a host, made by any node below: if that node is lost, the next attempt
    /// has to be greater.
    pub(super) fn note_attempt(&mut self, host: HostIndex, attempt: Attempt) {
        if let Some(spec) = self.specs.get_mut(&host) {
            spec.attempt = spec.attempt.max(attempt);
        }
    }

    /// How many launches are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    /// The measured cost of launches.
    pub(super) fn estimate(&self) -> Estimate {
        self.queue.estimate()
    }

    /// The time after which a launch without an answer is silent.
    pub(super) fn timeout(&self) -> Duration {
        TIMEOUT.max(self.queue.estimate().cost().rem.saturating_mul(2))
    }

    /// The host to launch now, if the window allows a launch and no more than `most` are in flight.
    pub(super) fn next(&mut self, most: usize, terms: &Terms) -> Option<Launch> {
        match self.may_launch(most, terms) {
            Ok(()) => self.next_waiting(terms.now),
            Err(again) => {
                self.again = again;
                None
            }
        }
    }

    /// The next host that waits, regardless of the window.
    pub(super) fn next_waiting(&mut self, now: Instant) -> Option<Launch> {
        match self.queue.next(now) {
            Next::Launch(launch) => Some(launch),
            Next::WaitUntil(at) => {
                self.again = Some(at);
                None
            }
            Next::Idle => None,
        }
    }

    /// How many more children may be sent files, if that is fewer than the window allows.
    fn room_to_stage(&self, limit: usize, terms: &Terms) -> Option<usize> {
        let load = terms.staging.filter(|_| self.health.children_may_launch())?;
        let fan_out = load.fan_out(self.queue.waiting(), self.queue.estimate().cost().rem);
        (fan_out < limit).then(|| fan_out.saturating_sub(load.children))
    }

    /// Whether the window allows another launch; if not, when it will if no event comes before.
    ///
    /// A launch that has been silent for long does not keep the launcher busy, and does not count.
    /// Otherwise a few hosts that hang would delay all others by their timeout.
    fn may_launch(&mut self, most: usize, terms: &Terms) -> Result<(), Option<Instant>> {
        let now = terms.now;
        if self.queue.waiting() == 0 {
            return Ok(());
        }
        if self.health.is_out_of_resources() && self.queue.in_flight() > 0 {
            // The next children that come up get the waiting hosts; if all are silent, those that are up.
            return Err(self.in_flight_not_silent(now).next().map(|started| self.silent_from(started)));
        }
        let estimate = self.queue.estimate();
        if let Some(at) = self.window.not_before(now, &estimate) {
            return Err(Some(at));
        }
        let limit = self.window_limit(terms);
        self.queue.set_window(limit);
        let limit = self.room_to_stage(limit, terms).unwrap_or(limit);
        let mut counted = self.in_flight_not_silent(now);
        let earliest = counted.next();
        if earliest.map_or(0, |_| 1 + counted.count()) >= limit {
            return Err(earliest.map(|started| self.silent_from(started)));
        }
        if self.queue.in_flight() >= most {
            // Once all are silent, a child that is up gets the waiting hosts.
            return Err(earliest.map(|started| self.silent_from(started)));
        }
        Ok(())
    }

    /// How many launches that are not silent may be in flight.
    fn window_limit(&self, terms: &Terms) -> usize {
        let in_doubt = self.health.limit_in_doubt().unwrap_or(usize::MAX);
        self.window.limit(&self.queue.estimate()).min(terms.options.launch_limit()).min(in_doubt)
    }

    /// The start times of the launches in flight that have not been silent for long, in order.
    fn in_flight_not_silent(&self, now: Instant) -> impl Iterator<Item = Instant> + '_ {
        let since = now.since(Instant::ZERO).saturating_sub(self.timeout());
        self.queue.in_flight_since(Instant::ZERO + since)
    }

    /// When a launch that was started then has been silent for long.
    fn silent_from(&self, started: Instant) -> Instant {
        started + self.timeout() + Duration::from_nanos(1)
    }

    /// Begins an attempt at a host; returns what to launch.
    pub(super) fn begin(&mut self, launch: Launch) -> Option<HostSpec> {
        let spec = self.specs.get_mut(&launch.host)?;
        spec.attempt = launch.attempt;
        Some(spec.clone())
    }

    /// A host was redirected to a child, which has its link from now on.
    pub(super) fn redirected(&mut self, launch: Launch, now: Instant) {
        // The late-commit queue has no part in this: the host takes no share.
        let _ = self.queue.child_ready_with(launch, now, HostRuns::new());
    }

    /// A host that has said hello at this time moves to the leader of the first host, as one of those that
    /// this leader was given. Returns what that leader is told of it, if it does.
    pub(super) fn moved(&mut self, launch: Launch, greeted: Instant) -> Option<HostSpec> {
        let faults = self.faults.get(&launch.host).copied().unwrap_or(0);
        let spec = self.specs.get(&launch.host)?;
        let spec = HostSpec { attempt: launch.attempt, faults, ..spec.clone() };
        self.queue.move_to(HostIndex(0), launch, greeted).ok()?;
        self.window.answered();
        self.may_share = true;
        Some(spec)
    }

    /// The launch of the front end brings up this host as a child of this node. Returns whether it does:
    /// the host may be here already.
    pub(super) fn adopt(&mut self, spec: HostSpec, now: Instant) -> bool {
        let launch = Launch { host: spec.host, attempt: spec.attempt };
        let is_new = self.queue.expect(launch, now).is_ok();
        if is_new {
            self.take_over(spec);
        }
        is_new
    }

    /// A host that was redirected has come back; returns what it is launched as now.
    pub(super) fn came_back(&mut self, host: HostIndex) -> Option<HostSpec> {
        let spec = self.specs.get_mut(&host)?;
        spec.attempt = spec.attempt.after_loss();
        Some(spec.clone())
    }

    /// The start of another node brings up this host, whose link will arrive here.
    pub(super) fn expect(&mut self, spec: HostSpec) {
        self.specs.insert(spec.host, spec);
    }

    /// A host that was redirected, and has not said hello, is launched from here after all.
    pub(super) fn recall(&mut self, launch: Launch, now: Instant) {
        // Other launches are in flight already.
        let _ = self.queue.recall(launch, now);
    }

    /// The start of a host has been requested. `is_paced`: it is the start of one process, which the
    /// window counts.
    pub(super) fn launched(&mut self, host: HostIndex, is_paced: bool, now: Instant) {
        self.health.note_launch(host, now);
        if is_paced {
            self.window.launched(now, &self.queue.estimate());
        }
    }

    /// A start was carried out and took this long, or was refused for lack of resources.
    pub(super) fn started(&mut self, took: Duration, is_refused: bool) {
        if !is_refused {
            self.queue.observe_seq(took);
        }
        self.health.set_out_of_resources(is_refused);
    }

    /// Forgets when the next launch was to be tried, before [`next`](Self::next) is asked again.
    pub(super) fn clear_wake(&mut self) {
        self.again = None;
    }

    /// When to try the next launch and to evaluate the launch health, if no event comes before.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.again.into_iter().chain(self.health.next_wake()).min()
    }

    /// Whether the last launch was refused for lack of resources, or `limit` are in flight; and none
    /// is in flight whose host will soon take the hosts that wait.
    pub(super) fn is_stuck(&self, limit: usize, now: Instant) -> bool {
        let is_held = self.health.is_out_of_resources() || self.queue.in_flight() >= limit;
        is_held && self.in_flight_not_silent(now).next().is_none()
    }

    /// Whether new children are given hosts.
    pub(super) fn children_may_launch(&self) -> bool {
        self.health.children_may_launch()
    }

    /// Further hosts are launched: whether that works from here does not follow from those before.
    pub(super) fn judge_anew(&mut self) {
        self.health.judge_anew();
    }

    /// A child has launched its first host.
    pub(super) fn child_has_launched(&mut self) {
        self.health.child_has_launched();
        self.may_share = true;
    }

    /// A child cannot launch hosts, certainly.
    pub(super) fn child_cannot_launch(&mut self) {
        self.health.child_cannot_launch();
    }
}

#[cfg(test)]
mod tests;
