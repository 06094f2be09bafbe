//! Simulated launches: a strategy, costs that vary, hosts that are slow or dead.
//!
//! # State machine and world
//! A launcher is a host that is up and has hosts to launch. It makes one launch at a time:
//!
//! ```text
//!            Begin, Free, Failed, Woken: the next host, if any
//!   free ------------------------------------------------------------------> busy
//!     ^                                                                        |
//!     +----------------------------- Free (SEQ has passed) --------------------+
//! ```
//!
//! In either state `Answered` turns a launched host into a child, with a share of the queue under
//! late commit. `Failed` queues a host again while retries are left; otherwise the host is given
//! up. The world draws SEQ and REM for each launch. A launch that would take longer than the
//! timeout fails at the timeout; a launch of a dead host always does. A launch may also be refused,
//! which takes as long as a success, and may succeed the next time.
//!
//! Which hosts are slow or dead, and how long each attempt takes, depends on the host and the seed,
//! not on the order of launches: two strategies under one seed meet the same hosts.

mod launcher;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::num::NonZeroU32;
use core::time::Duration;

use self::launcher::{Assignment, Effect, Event, SimLauncher};
use super::jitter::{Jitter, scale};
use super::rng::Rng;
use super::{Agenda, MachineId, Sim, StopReason, World};
use crate::cost::Cost;
use crate::ids::HostIndex;
use crate::plan::estimate::Estimate;
use crate::plan::late::{Launch, Queue};
use crate::plan::{Strategy, Tree, as_index};
use crate::time::Instant;

/// The parameters of a simulated launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The number of hosts, including the root, which is up when the launch begins.
    pub hosts: NonZeroU32,
    /// How launches are distributed.
    pub strategy: Strategy,
    /// How many launches the root may have in flight; `None` does not limit them.
    pub root_launches: Option<NonZeroU32>,
    /// SEQ of each launch.
    pub seq: Jitter,
    /// REM of each launch.
    pub rem: Jitter,
    /// The constant part of the cost.
    pub constant: Duration,
    /// The costs that planners assume; by default the means, as from earlier launches.
    pub assumed: Option<Cost>,
    /// The fraction of hosts that never answer.
    pub dead: f64,
    /// The fraction of launches that are refused; the same host may accept the next one.
    pub refused: f64,
    /// The timeout of a launch whose host has not answered.
    pub timeout: Duration,
    /// The fraction of hosts that are slow.
    pub slow: f64,
    /// The factor on the REM of a slow host.
    pub slowness: f64,
    /// The number of retries of a failed launch (late commit only; a static tree has none).
    pub retries: u16,
}

impl Setup {
    /// A launch without variation and without failures.
    #[must_use]
    pub fn new(hosts: NonZeroU32, strategy: Strategy, cost: &Cost) -> Self {
        Self {
            hosts,
            strategy,
            root_launches: None,
            seq: Jitter::Constant(cost.seq),
            rem: Jitter::Constant(cost.rem),
            constant: cost.constant,
            assumed: None,
            dead: 0.0,
            refused: 0.0,
            timeout: Duration::MAX,
            slow: 0.0,
            slowness: 1.0,
            retries: 0,
        }
    }

    /// Simulates one launch.
    #[must_use]
    pub fn run(&self, seed: u64) -> Outcome {
        let assumed = self.assumed.unwrap_or_else(|| Cost::new(self.seq.mean(), self.rem.mean()));
        let children = match self.strategy {
            Strategy::Late => Vec::new(),
            Strategy::Static(shape) => children(&shape.tree(self.hosts, &assumed)),
        };
        let hosts = as_index(self.hosts.get());
        let outcome = Outcome {
            constant: self.constant,
            launcher: vec![0; hosts],
            started: vec![Instant::ZERO; hosts],
            up: vec![None; hosts],
            given_up: vec![false; hosts],
            launches: vec![0; hosts],
            order: Vec::with_capacity(hosts),
            settled: Instant::ZERO,
        };
        let world = Cluster { setup: self, rng: Rng::new(seed), children, host_of: Vec::new(), outcome };
        let mut sim = Sim::new(world);
        let work = match self.strategy {
            Strategy::Static(_) => Assignment::Static(sim.world.take_children(HostIndex(0))),
            Strategy::Late => {
                let hosts = (1..self.hosts.get()).map(HostIndex).collect();
                Assignment::Late(Box::new(Queue::new(hosts, Estimate::assumed(&assumed))))
            }
        };
        sim.world.outcome.up[0] = Some(Instant::ZERO);
        sim.world.begin(HostIndex(0), work, &mut sim.agenda);
        let ended = sim.run(Instant::FAR_FUTURE, u64::MAX);
        debug_assert_eq!(ended, StopReason::Quiescent);
        sim.world.outcome
    }
}

/// The result of a simulated launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    constant: Duration,
    launcher: Vec<u32>,
    started: Vec<Instant>,
    up: Vec<Option<Instant>>,
    given_up: Vec<bool>,
    launches: Vec<u32>,
    order: Vec<u32>,
    settled: Instant,
}

impl Outcome {
    /// When the last host that came up was up, with the constant part.
    #[must_use]
    pub fn launch_time(&self) -> Duration {
        let last = self.up.iter().flatten().copied().max().unwrap_or_default();
        last.since(Instant::ZERO).saturating_add(self.constant)
    }

    /// When the last host was up or given up, with the constant part. Stranded hosts are neither.
    #[must_use]
    pub fn settled_time(&self) -> Duration {
        self.settled.since(Instant::ZERO).saturating_add(self.constant)
    }

    /// The hosts that never came up, because they or their launchers are dead.
    pub fn lost(&self) -> impl Iterator<Item = HostIndex> + '_ {
        (0..).map(HostIndex).zip(&self.up).filter(|(_, up)| up.is_none()).map(|(host, _)| host)
    }

    /// The lost hosts whose own launch has failed.
    pub fn given_up(&self) -> impl Iterator<Item = HostIndex> + '_ {
        self.lost().filter(|host| self.given_up[as_index(host.0)])
    }

    /// The lost hosts that were never launched, because their launcher in a static tree was lost.
    pub fn stranded(&self) -> impl Iterator<Item = HostIndex> + '_ {
        self.lost().filter(|host| !self.given_up[as_index(host.0)])
    }

    /// The number of launches that each host made, retries included.
    #[must_use]
    pub fn launches(&self) -> &[u32] {
        &self.launches
    }

    /// The resulting tree, its nodes numbered in the order of their launches, with its schedule;
    /// `None` if a host was lost.
    #[must_use]
    pub fn tree(&self) -> Option<(Tree, crate::plan::Schedule)> {
        let hosts = || core::iter::once(0).chain(self.order.iter().copied());
        let mut node = vec![0; self.up.len()];
        for (number, host) in (0..).zip(hosts()) {
            node[as_index(host)] = number;
        }
        let parents = hosts().map(|host| node[as_index(self.launcher[as_index(host)])]).collect();
        let started = hosts().map(|host| self.started[as_index(host)]).collect();
        let ready = hosts().map(|host| self.up[as_index(host)]).collect::<Option<_>>()?;
        let tree = Tree::from_parents(parents).ok()?;
        Some((tree, crate::plan::Schedule { started, ready, constant: self.constant }))
    }
}

/// The simulated hosts.
struct Cluster<'a> {
    setup: &'a Setup,
    rng: Rng,
    /// For a static tree: the children of every host, the next one last.
    children: Vec<Vec<HostIndex>>,
    /// The host of each state machine.
    host_of: Vec<HostIndex>,
    outcome: Outcome,
}

/// The purposes of each host's own random numbers.
const FATE_STREAM: u64 = 1 << 32;
const COST_STREAM: u64 = 2 << 32;

impl Cluster<'_> {
    fn begin(&mut self, host: HostIndex, work: Assignment, agenda: &mut Agenda<Self>) {
        let mut launcher = SimLauncher::new(work, self.setup.retries);
        if let Some(most) = self.setup.root_launches.filter(|_| host == HostIndex(0)) {
            launcher.limit(most.get());
        }
        let node = agenda.start(launcher);
        self.host_of.push(host);
        agenda.tell(agenda.now(), node, Event::Begin);
    }

    fn take_children(&mut self, host: HostIndex) -> Vec<HostIndex> {
        self.children.get_mut(as_index(host.0)).map(core::mem::take).unwrap_or_default()
    }

    fn launch(&mut self, from: MachineId, launch: Launch, agenda: &mut Agenda<Self>) {
        let now = agenda.now();
        let launcher = self.host_of[as_index(from.0)];
        let Launch { host, attempt } = launch;
        let mut fate = self.rng.fork(FATE_STREAM | u64::from(host.0));
        let mut costs = self.rng.fork(COST_STREAM | u64::from(attempt.failed) << 34 | u64::from(host.0));
        let seq = self.setup.seq.draw(host, &mut costs);
        agenda.tell(now + seq, from, Event::Free);
        self.outcome.launches[as_index(launcher.0)] += 1;
        let dead = fate.chance(self.setup.dead);
        let mut rem = self.setup.rem.draw(host, &mut costs);
        if fate.chance(self.setup.slow) {
            rem = scale(rem, self.setup.slowness);
        }
        if dead || rem > self.setup.timeout {
            agenda.tell(now + self.setup.timeout, from, Event::Failed(launch));
        } else if costs.chance(self.setup.refused) {
            agenda.tell(now + rem, from, Event::Failed(launch));
        } else {
            self.up(launcher, launch, now, rem);
            agenda.tell(now + rem, from, Event::Answered(launch));
        }
    }

    fn up(&mut self, launcher: HostIndex, Launch { host, .. }: Launch, started: Instant, rem: Duration) {
        let (at, outcome) = (as_index(host.0), &mut self.outcome);
        outcome.launcher[at] = launcher.0;
        outcome.started[at] = started;
        outcome.up[at] = Some(started + rem);
        outcome.order.push(host.0);
        outcome.settled = outcome.settled.max(started + rem);
    }
}

impl World for Cluster<'_> {
    type Machine = SimLauncher;
    type WorldEvent = Infallible;

    fn carry_out(&mut self, from: MachineId, effect: Effect, agenda: &mut Agenda<Self>) {
        match effect {
            Effect::Launch(launch) => self.launch(from, launch, agenda),
            Effect::Up(host, share) => {
                let work = match share {
                    Some(share) if share.hosts.is_empty() => return,
                    Some(share) => Assignment::Late(Box::new(Queue::from_share(share))),
                    None => match self.take_children(host) {
                        children if children.is_empty() => return,
                        children => Assignment::Static(children),
                    },
                };
                self.begin(host, work, agenda);
            }
            Effect::GiveUp(host) => {
                self.outcome.given_up[as_index(host.0)] = true;
                self.outcome.settled = self.outcome.settled.max(agenda.now());
            }
            Effect::WakeAt(at) => agenda.tell(at, from, Event::Woken),
            Effect::Done => drop(agenda.end(from)),
        }
    }

    fn on_world_event(&mut self, never: Infallible, _: &mut Agenda<Self>) {
        match never {}
    }
}

/// Every host's children in a static tree, in reverse order of their launches.
fn children(tree: &Tree) -> Vec<Vec<HostIndex>> {
    let mut children = vec![Vec::new(); as_index(tree.hosts())];
    for (launcher, host) in tree.launches() {
        children[as_index(launcher)].push(HostIndex(host));
    }
    children.iter_mut().for_each(|of_one| of_one.reverse());
    children
}

#[cfg(test)]
mod tests;
