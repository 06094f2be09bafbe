//! The late-commit queue: hand hosts over only to children that have answered.
//!
//! # The problem
//! A static tree gives every host its subtree before anything is known of it. A host that is slow delays
//! its whole subtree, a host that is dead strands it. But a launcher need not say in advance which child
//! will launch what: it can go on launching by itself, and part with hosts only when a child says hello.
//!
//! # States of a host, as its launcher sees them
//!
//! ```text
//!              next()                  child_ready()
//!   queued ------------> in flight ---------------------> up, and given a share of the queue
//!     ^  ^                   |                               |
//!     |  |   child_failed()  |                               | child_lost(): it, and all that
//!     |  +--- after back-off +---> given up                  |  was given to it, is launched again
//!     +------------------------------------------------------+
//! ```
//!
//! A queued host may also leave the queue in a share; it is then another node's to launch, and this node
//! only remembers to whom it went. Each failure moves one host: a launch that fails is queued again
//! or given up, as the caller decides; nothing else is touched, because nothing depended on it.
//!
//! # How much a child is given
//! Let A(x) be the number of hosts, itself included, that a fresh node can have up after time x. A node
//! has R hosts left and its own next launch slot at s; a child is ready now, at t; other launches are
//! expected to be ready at v_j. Then there is a least time T with
//!
//! ```text
//!   (A(T-s) - 1) + (A(T-t) - 1) + sum over j of (A(T-v_j) - 1)  >=  R
//! ```
//!
//! the time at which everything could be up if everybody helps from the moment they can, and the child's
//! part in that is A(T-t) - 1 hosts. If costs are constant, every T is the same and the tree that comes about
//! is as fast as the greedy one, though nobody planned it; if they are not, each share is worked out from
//! what is known by then.
//!
//! Two things are known that a plan could not know. A launch that is *overdue* has outlived its estimate and
//! is not expected this instant, but after another eighth of its age, and after twice its estimate not at all:
//! counting on it leaves the launcher with hosts it meant for others. And since those who *answer first* are the fast ones, an
//! answer is counted as a measurement of REM only when every launch started before it has been answered as well
//! or is no longer expected; else every launch would begin by believing itself faster than it is. With REM varying by ±50 %, the two together save 3 % of the launch time
//! at 1,000 hosts and 5 % at 10,000.
//!
//! The queue has no clock and paces nobody: how many launches may be in flight is its user's decision.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::estimate::Estimate;
use super::growth::Growth;
use crate::cost::Cost;
use crate::ids::HostIndex;
use crate::time::{Instant, nanos};

/// What a launcher should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Launch this host, which is in flight from now on.
    Launch(HostIndex),
    /// Nothing before this time, when a host's back-off ends.
    WaitUntil(Instant),
    /// Nothing: every host of this node is in flight, up, given to a child, or given up.
    Idle,
}

/// What becomes of a host whose launch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Launch it again, not before this much time has passed.
    After(Duration),
    /// It is given up.
    Never,
}

/// A call that does not fit the state of the host it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// Only a launch in flight can become ready or fail.
    #[error("{0} is not in flight here")]
    NotInFlight(HostIndex),
    /// Only a child that was ready can be lost.
    #[error("{0} is not a child that is up here")]
    NotUp(HostIndex),
}

/// What a child that is ready gets from its launcher: hosts, and what launching them should cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The hosts that are the child's to launch from now on.
    pub hosts: Vec<HostIndex>,
    /// What its launcher believes of the costs.
    pub estimate: Estimate,
}

/// The hosts that one node has to see launched. See the [module](self).
#[derive(Clone, Debug)]
pub struct Queue {
    waiting: VecDeque<HostIndex>,
    /// Hosts whose back-off has not ended, by its end.
    backing_off: BTreeSet<(Instant, HostIndex)>,
    in_flight: InFlight,
    /// How long the launches took that have been answered but not yet counted, by their start.
    answered: BTreeMap<(Instant, HostIndex), Duration>,
    /// What was given to each child that is up.
    given: BTreeMap<HostIndex, Vec<HostIndex>>,
    estimate: Estimate,
    /// When this node started its latest launch.
    latest: Option<Instant>,
    /// The estimate under which `growth` was worked out, and when everything could then be up.
    planned: Option<Planned>,
}

#[derive(Clone, Debug)]
struct Planned {
    cost: Cost,
    growth: Growth,
    finish: u64,
}

/// An estimate has to move by one part in this many before the plan is worked out anew.
const TOLERANCE: u32 = 16;
/// An overdue launch is expected after one part in this many of its age.
const OVERDUE: u64 = 8;
/// Nothing is expected of a launch that has taken this many times its estimate, though it may still answer.
const SILENT: u64 = 2;

impl Queue {
    /// A queue of these hosts, to be launched at these costs as far as anybody knows.
    #[must_use]
    pub fn new(hosts: impl IntoIterator<Item = HostIndex>, estimate: Estimate) -> Self {
        Self {
            waiting: hosts.into_iter().collect(),
            backing_off: BTreeSet::new(),
            in_flight: InFlight::default(),
            answered: BTreeMap::new(),
            given: BTreeMap::new(),
            estimate,
            latest: None,
            planned: None,
        }
    }

    /// Decides what to launch now. Call it whenever another launch may be started.
    pub fn next(&mut self, now: Instant) -> Next {
        self.end_back_offs(now);
        if let Some(host) = self.waiting.pop_front() {
            self.in_flight.insert(host, now);
            self.latest = Some(now);
            return Next::Launch(host);
        }
        self.backing_off.first().map_or(Next::Idle, |&(end, _)| Next::WaitUntil(end))
    }

    /// A launched host says hello: it can launch others. Returns its share of the queue, which may be
    /// empty. How long it took is taken for a measurement of REM.
    ///
    /// # Errors
    /// When no launch of this host is in flight.
    pub fn child_ready(&mut self, host: HostIndex, now: Instant) -> Result<Share, QueueError> {
        let started = self.in_flight.remove(host).ok_or(QueueError::NotInFlight(host))?;
        self.answered.insert((started, host), now.since(started));
        self.count_answers(now);
        self.end_back_offs(now);
        let keep = self.waiting.len() - self.share(now);
        let hosts: Vec<_> = self.waiting.drain(keep..).collect();
        self.given.insert(host, hosts.clone());
        Ok(Share { hosts, estimate: self.estimate })
    }

    /// A launch failed before its host said hello.
    ///
    /// # Errors
    /// When no launch of this host is in flight.
    pub fn child_failed(&mut self, host: HostIndex, now: Instant, retry: Retry) -> Result<(), QueueError> {
        self.in_flight.remove(host).ok_or(QueueError::NotInFlight(host))?;
        self.count_answers(now);
        if let Retry::After(back_off) = retry {
            self.requeue(host, now + back_off);
        }
        Ok(())
    }

    /// A child that was up is gone. Returns what was given to it, to be launched anew or given up by the
    /// caller, who knows what of it has ended; [`requeue`](Self::requeue) takes it back.
    ///
    /// # Errors
    /// When this host is not a child that is up.
    pub fn child_lost(&mut self, host: HostIndex) -> Result<Vec<HostIndex>, QueueError> {
        self.given.remove(&host).ok_or(QueueError::NotUp(host))
    }

    /// Queues a host, to be launched or given away not before this time.
    pub fn requeue(&mut self, host: HostIndex, not_before: Instant) {
        self.backing_off.insert((not_before, host));
    }

    /// A launch kept this node from starting another for so long.
    pub fn observe_seq(&mut self, measured: Duration) {
        self.estimate.observe_seq(measured);
    }

    /// What launches are believed to cost by now.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// How many hosts are still to be launched by this node or given to a child.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.backing_off.len()
    }

    /// How many launches of this node have neither become ready nor failed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.started.len()
    }

    fn end_back_offs(&mut self, now: Instant) {
        while let Some(&(end, host)) = self.backing_off.first()
            && end <= now
        {
            self.backing_off.pop_first();
            self.waiting.push_front(host); // it is late already
        }
    }

    /// Takes answers for measurements, in the order in which their launches were started.
    fn count_answers(&mut self, now: Instant) {
        while let Some(answer) = self.answered.first_entry() {
            let rem = nanos(self.estimate.cost().rem);
            if self.in_flight.not_silent(now, rem).next().is_some_and(|started| started < answer.key().0) {
                break;
            }
            self.estimate.observe_rem(answer.remove());
        }
    }

    /// How many of the waiting hosts a child that is ready now should take.
    fn share(&mut self, now: Instant) -> usize {
        let rest = self.waiting.len();
        if rest == 0 {
            self.planned = None; // the curve of a finished plan is memory for nothing
            return 0;
        }
        let cost = self.estimate.cost();
        let mut planned = match self.planned.take() {
            Some(planned) if close(&planned.cost, &cost) => planned,
            old => Planned { growth: Growth::new(&cost), cost, finish: old.map_or(0, |p| p.finish) },
        };
        let now = now.as_nanos();
        let slot = self.latest.map_or(now, |at| (at + planned.cost.seq).as_nanos().max(now));
        let helpers = Helpers { now, slot, in_flight: &self.in_flight, rem: nanos(planned.cost.rem), rest };
        planned.finish = helpers.finish(&mut planned.growth, planned.finish);
        let share = planned.growth.besides_itself(planned.finish - now, rest);
        self.planned = Some(planned);
        share
    }
}

fn close(old: &Cost, new: &Cost) -> bool {
    let near = |old: Duration, new: Duration| new.abs_diff(old) <= old / TOLERANCE;
    near(old.seq, new.seq) && near(old.rem, new.rem)
}

/// Everybody who can launch, and from when on.
struct Helpers<'a> {
    now: u64,
    slot: u64,
    in_flight: &'a InFlight,
    rem: u64,
    rest: usize,
}

impl Helpers<'_> {
    /// Whether everything can be up at this time.
    fn done_by(&self, finish: u64, growth: &mut Growth) -> bool {
        let mut up = growth.besides_itself(finish.saturating_sub(self.now), self.rest);
        up += growth.besides_itself(finish.saturating_sub(self.slot), self.rest);
        for started in self.in_flight.not_silent(Instant::from_nanos(self.now), self.rem) {
            let age = self.now.saturating_sub(started.as_nanos());
            let overdue = age > self.rem;
            let ready = if overdue {
                self.now.saturating_add(age / OVERDUE)
            } else {
                self.now.saturating_add(self.rem - age)
            };
            // Those that are not overdue will be ready in the order of their start.
            if up >= self.rest || !overdue && ready.saturating_add(self.rem) > finish {
                break;
            }
            up += growth.besides_itself(finish.saturating_sub(ready), self.rest);
        }
        up >= self.rest
    }

    /// The least time at which everything can be up, searched for outwards from a guess. It is always
    /// later than now, because nobody launches anything in no time.
    fn finish(&self, growth: &mut Growth, guess: u64) -> u64 {
        let mut early = self.now; // too early
        let mut late = guess.max(self.now.saturating_add(1)); // late enough, once the step is found
        let mut step = 1u64;
        if self.done_by(late, growth) {
            while late - early > step && self.done_by(late - step, growth) {
                late -= step;
                step = step.saturating_mul(4);
            }
            early = early.max(late.saturating_sub(step));
        } else {
            while late < u64::MAX {
                early = late;
                late = late.saturating_add(step);
                if self.done_by(late, growth) {
                    break;
                }
                step = step.saturating_mul(4);
            }
        }
        while late - early > 1 {
            let middle = early + (late - early) / 2;
            if self.done_by(middle, growth) {
                late = middle;
            } else {
                early = middle;
            }
        }
        late
    }
}

/// The launches that have neither become ready nor failed, by host and by start.
#[derive(Clone, Debug, Default)]
struct InFlight {
    started: BTreeMap<HostIndex, Instant>,
    order: BTreeSet<(Instant, HostIndex)>,
}

impl InFlight {
    fn insert(&mut self, host: HostIndex, at: Instant) {
        self.started.insert(host, at);
        self.order.insert((at, host));
    }

    fn remove(&mut self, host: HostIndex) -> Option<Instant> {
        let at = self.started.remove(&host)?;
        self.order.remove(&(at, host));
        Some(at)
    }

    /// The starts of those that have not been silent for so long that nothing is expected of them any
    /// more, the earliest first.
    fn not_silent(&self, now: Instant, rem: u64) -> impl Iterator<Item = Instant> + '_ {
        let since = now.as_nanos().saturating_sub(rem.saturating_mul(SILENT));
        self.order.range((Instant::from_nanos(since), HostIndex(0))..).map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests;
