//! Simulated launches: a strategy, costs that vary, hosts that are slow or dead.
//!
//! # Machines and world
//! A launcher is a host that is up and has hosts to launch. It is busy with one launch at a time:
//!
//! ```text
//!            Begin, Free, Failed, Woken: the next host, if there is one
//!   free ------------------------------------------------------------------> busy
//!     ^                                                                        |
//!     +----------------------------- Free (SEQ has passed) --------------------+
//! ```
//!
//! In either state `Answered` makes a child of a launched host, with a share of the queue under late commit;
//! `Failed` queues a host again while retries are left, else it is given up. The world draws SEQ and REM for
//! each launch. A launch that would take longer than the timeout fails then; that of a dead host always does.
//! A launch may also be refused, which takes as long as if it had not been, and may go better the next time.
//!
//! Who is slow, who is dead, and how long each attempt at a host takes belong to the host and the seed, not to the
//! order of launches: two strategies under one seed meet the same hosts.

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

/// What is to be simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// How many hosts, the root included, which is up when the launch begins.
    pub hosts: NonZeroU32,
    /// How launches are shared out.
    pub strategy: Strategy,
    /// SEQ of each launch.
    pub seq: Jitter,
    /// REM of each launch.
    pub rem: Jitter,
    /// What the whole launch pays once.
    pub constant: Duration,
    /// What planners are told of the costs; by default the means, as from earlier launches.
    pub assumed: Option<Cost>,
    /// Which fraction of the hosts never answers.
    pub dead: f64,
    /// Which fraction of the launches is refused; the same host may be had the next time.
    pub refused: f64,
    /// After how long a launch has failed if its host has not answered.
    pub timeout: Duration,
    /// Which fraction of the hosts is slow.
    pub slow: f64,
    /// How many times the REM drawn for it a slow host takes.
    pub slowness: f64,
    /// How often a host whose launch failed is launched again (late commit only; a static tree cannot).
    pub retries: u16,
}

impl Setup {
    /// A launch in which nothing varies and nobody fails.
    #[must_use]
    pub fn new(hosts: NonZeroU32, strategy: Strategy, cost: &Cost) -> Self {
        Self {
            hosts,
            strategy,
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

/// What came of a simulated launch.
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

    /// When the last host was up or given up, with the constant part. Hosts that were stranded are neither.
    #[must_use]
    pub fn settled_time(&self) -> Duration {
        self.settled.since(Instant::ZERO).saturating_add(self.constant)
    }

    /// The hosts that never came up, because they are dead or because their launcher was.
    pub fn lost(&self) -> impl Iterator<Item = HostIndex> + '_ {
        (0..).map(HostIndex).zip(&self.up).filter(|(_, up)| up.is_none()).map(|(host, _)| host)
    }

    /// Those of the lost whose own launch has failed.
    pub fn given_up(&self) -> impl Iterator<Item = HostIndex> + '_ {
        self.lost().filter(|host| self.given_up[as_index(host.0)])
    }

    /// Those of the lost that nobody has launched, because their launcher in a static tree was lost.
    pub fn stranded(&self) -> impl Iterator<Item = HostIndex> + '_ {
        self.lost().filter(|host| !self.given_up[as_index(host.0)])
    }

    /// How many launches each host made, retries included.
    #[must_use]
    pub fn launches(&self) -> &[u32] {
        &self.launches
    }

    /// The tree that came about, its nodes numbered in the order in which they were launched, with the times at
    /// which they were up; nothing if a host was lost.
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

/// The hosts, with what is the matter with them.
struct Cluster<'a> {
    setup: &'a Setup,
    rng: Rng,
    /// For a static tree: the children of every host, the next one last.
    children: Vec<Vec<HostIndex>>,
    /// Which host each machine is.
    host_of: Vec<HostIndex>,
    outcome: Outcome,
}

/// What each host's own random numbers are for.
const FATE_STREAM: u64 = 1 << 32;
const COST_STREAM: u64 = 2 << 32;

impl Cluster<'_> {
    fn begin(&mut self, host: HostIndex, work: Assignment, agenda: &mut Agenda<Self>) {
        let node = agenda.start(SimLauncher::new(work, self.setup.retries));
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

/// Every host's children in a static tree, the last to be launched first.
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
