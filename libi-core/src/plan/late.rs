//! The late-commit queue: hosts are handed over only to children that have answered.
//!
//! # The problem
//! A static tree gives every host its subtree before anything is known of that host. A slow host
//! delays its whole subtree, a dead one strands it. A launcher need not decide in advance which
//! child launches what: it can continue launching by itself, and hand hosts over only when a child
//! says hello.
//!
//! # States of a host, as its launcher sees them
//!
//! ```text
//!              next()                  child_ready(): its hello has arrived
//!   waiting -----------> in flight ----------------------> up, and given a share of the queue
//!     ^                      |                                |
//!     | back-off ends        | child_failed()                 | child_lost(): it and its share
//!     |                      v                                v leave until requeue()
//!   backing off <----- Retry::After or Retry::Never ----> forgotten
//! ```
//!
//! A launch in flight that still waits for its turn may be withdrawn for a child (`withdrawal.rs`):
//! its host leaves in that child's share. A child whose share has proved too small gets a further
//! one (`further.rs`).
//!
//! A launch in flight may also end in a child's share ([`move_to`](Queue::move_to)), whose queue
//! [expects](Queue::expect) it: the host becomes a child of that child.
//!
//! A waiting host may also leave in a share. The child then has to launch it, and this node only
//! remembers which child has it, for as long as that child is up. A child that cannot launch it
//! [hands it back](Queue::hand_back). Each failure moves one host: a launch that fails backs off or
//! is given up, as the caller decides. No other host is affected, because none depended on it.
//!
//! Every launch has an [`Attempt`] number, larger than those of all earlier launches of its host,
//! whichever node made them. A report about an attempt other than the one in flight is rejected: it
//! comes too late.
//!
//! # How much a child is given
//! Let A(x) be the number of hosts, itself included, that a fresh node can have up after time x. A
//! node has R hosts left and its own next launch slot at s; a child is ready now, at t; other
//! launches of this node are expected to be ready at v_j. Then there is a least time T with
//!
//! ```text
//!   (A(T-s) - 1) + (A(T-t) - 1) + sum over j of (A(T-v_j) - 1)  >=  R
//! ```
//!
//! the time at which all hosts could be up if every node launches from the moment it can. The
//! child's part is A(T-t) - 1 hosts. If costs are constant (and no launch takes no time at all),
//! every T is the same, and the resulting tree is as fast as the greedy one. If costs vary, each
//! share is computed from what is known by then.
//!
//! *An example.* SEQ is 7 and REM is 10. Six hosts are waiting when the first child is ready at 10;
//! the second launch is in flight since 7, and the launcher's next slot is at 14. By T = 30
//!
//! - the launcher can have 1 host up, started at 14 (up at 24);
//! - the first child can have 3: two that it starts at 10 and 17 (up at 20 and 27), and one that
//!   the first of those starts (up at 30);
//! - the second child, ready at 17, can have 1 (up at 27).
//!
//! That is one too few. By T = 31 the launcher has another up, started at 21. So T is 31, and the
//! child gets the three hosts that it and its own children can have up by then.
//!
//! The computation uses two facts that a plan cannot know. First, a launch that is *overdue* has
//! exceeded its estimate: it is expected after another eighth of its age, and after twice its
//! estimate not at all. Counting on it would leave the launcher with hosts meant for its children.
//! Second, the hosts that *answer first* are the fast ones. An answer is therefore counted as a
//! measurement of REM only when every launch started before it has been answered as well or is no
//! longer expected. Otherwise every launch would begin with an estimate that is too short.
//!
//! # What SEQ is
//! The time that a start takes may be far shorter than the time that a launch occupies a shared
//! resource. Remote shells start at once, and then compete for the launcher's processor. A launch's
//! *turn* is therefore distinct from its start: `turns.rs` derives the length of turns from the
//! hellos. SEQ is the longer of start and turn; s, the v_j, overdue launches and the measurements
//! of REM are counted from the turns. Where starts take SEQ by themselves, start and turn coincide.
//!
//! The queue has no clock and does not pace launches: the caller decides how many may be in flight.
//! A caller that allows fewer than REM / SEQ says so with [`Queue::set_window`]. The launcher then
//! has so many places, each of which is free again when the launch that has taken it is ready, and
//! keeps the hosts that it and its children can have up from there. With constant costs no launch
//! under that limit is faster.

mod capacity;
mod further;
mod launch;
mod shares;
mod transfer;
mod turns;
mod withdrawal;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use self::capacity::InFlight;
pub use self::further::FurtherShare;
pub use self::launch::{Attempt, Launch, Next, QueueError, Retry, Share};
use self::turns::TurnEstimator;
use super::estimate::Estimate;
use super::runs::HostRuns;
use crate::ids::HostIndex;
use crate::time::{Instant, nanos};

/// The hosts that one node is responsible for. See the [module](self).
#[derive(Clone, Debug)]
pub struct Queue {
    waiting: HostRuns,
    /// Launched before all others and never given away: launches of these hosts failed elsewhere.
    reserved: HostRuns,
    /// This host is never given away at all.
    kept: Option<HostIndex>,
    /// The state of every host that is neither waiting nor in a share.
    states: BTreeMap<HostIndex, HostState>,
    /// Hosts that back off, by the end of the back-off.
    backing_off: BTreeSet<(Instant, HostIndex)>,
    in_flight: InFlight,
    /// The next attempt at waiting hosts for which it is not the first.
    attempts: BTreeMap<HostIndex, Attempt>,
    /// The start of the latest launch that is known to have had its turn: it is answered, or failed.
    passed: Option<Instant>,
    /// The durations of launches that are answered but not yet counted, by their start.
    answered: BTreeMap<(Instant, HostIndex), Duration>,
    estimate: Estimate,
    turns: TurnEstimator,
    /// Whether this node has launched anything.
    has_launched: bool,
    /// The number of launches that may be in flight, if known.
    window: Option<u32>,
    /// When all hosts could be up, as of the latest share: the start of the search for the next
    /// one.
    earliest_finish: u64,
}

#[derive(Clone, Debug)]
enum HostState {
    BackingOff { reserved: bool },
    InFlight { since: Instant, attempt: Attempt },
    Up(UpChild),
}

/// A child that is up.
#[derive(Clone, Debug)]
struct UpChild {
    share: Share,
    /// The number of hosts in its share that are not known to be up.
    open: usize,
}

impl UpChild {
    fn new(share: Share) -> Self {
        Self { open: share.hosts.len(), share }
    }
}

impl Queue {
    /// A queue of these hosts, each named once, to be launched at the estimated costs.
    #[must_use]
    pub fn new(hosts: HostRuns, estimate: Estimate) -> Self {
        Self::from_share(Share { hosts, attempts: BTreeMap::new(), estimate })
    }

    /// The queue of a child that was given this share.
    #[must_use]
    pub fn from_share(share: Share) -> Self {
        Self {
            waiting: share.hosts,
            reserved: HostRuns::new(),
            kept: None,
            states: BTreeMap::new(),
            backing_off: BTreeSet::new(),
            in_flight: InFlight::default(),
            attempts: share.attempts,
            passed: None,
            answered: BTreeMap::new(),
            estimate: share.estimate,
            turns: TurnEstimator::new(share.estimate),
            has_launched: false,
            window: None,
            earliest_finish: 0,
        }
    }

    /// From now on this host is given to no child. It has to be the next to be launched, or elsewhere.
    pub fn keep(&mut self, host: HostIndex) {
        self.kept = Some(host);
    }

    /// Decides what to launch now. Call it whenever another launch may be started.
    pub fn next(&mut self, now: Instant) -> Next {
        self.end_back_offs(now);
        while let Some(host) = self.reserved.pop_front().or_else(|| self.waiting.pop_front()) {
            if self.states.contains_key(&host) {
                continue; // named twice, against the contract
            }
            let attempt = self.attempts.remove(&host).unwrap_or_default();
            self.states.insert(host, HostState::InFlight { since: now, attempt });
            let turn = self.turns.start(host, now, &self.estimate);
            self.in_flight.insert(now, host, turn);
            self.has_launched = true;
            return Next::Launch(Launch { host, attempt });
        }
        self.backing_off.first().map_or(Next::Idle, |&(end, _)| Next::WaitUntil(end))
    }

    /// A launch failed before its host said hello. Any process it has started must be gone, or its
    /// hello must be rejected.
    ///
    /// # Errors
    /// When this launch is not in flight.
    pub fn child_failed(&mut self, launch: Launch, now: Instant, retry: Retry) -> Result<(), QueueError> {
        self.end_flight(launch)?;
        self.count_answers(now);
        if let Retry::After(back_off) = retry {
            let Launch { host, attempt } = launch;
            let next = attempt.after_failure();
            self.back_off(Launch { host, attempt: next }, now + back_off, false);
        }
        Ok(())
    }

    /// A child that was up is lost. Returns its share. The child and its share are no longer in
    /// this queue until the caller, which knows what of it has ended, [queues them
    /// again](Self::requeue).
    ///
    /// # Errors
    /// When this host is not a child that is up.
    pub fn child_lost(&mut self, host: HostIndex) -> Result<Share, QueueError> {
        match self.states.remove(&host) {
            Some(HostState::Up(child)) => Ok(child.share),
            Some(other) => {
                self.states.insert(host, other);
                Err(QueueError::NotUp(host))
            }
            None => Err(QueueError::NotUp(host)),
        }
    }

    /// Whether a host is a child that is up, and can be given others.
    #[must_use]
    pub fn is_up(&self, host: HostIndex) -> bool {
        matches!(self.states.get(&host), Some(HostState::Up(_)))
    }

    /// The hosts that a child that is up was given, and has not handed back.
    pub fn share_of(&self, host: HostIndex) -> impl Iterator<Item = HostIndex> + '_ {
        let child = match self.states.get(&host) {
            Some(HostState::Up(child)) => Some(child),
            _ => None,
        };
        child.into_iter().flat_map(|child| child.share.hosts.iter())
    }

    /// Queues a host (again), to be launched or given away not before this time. `before` is the
    /// latest attempt at it that this node knows of; the returned next attempt is greater than any
    /// that other nodes have made since.
    ///
    /// # Errors
    /// When the host is here already.
    pub fn requeue(&mut self, before: Launch, not_before: Instant) -> Result<Attempt, QueueError> {
        let Launch { host, attempt } = before;
        if self.is_here(host) {
            return Err(QueueError::AlreadyHere(host));
        }
        let next = attempt.after_loss();
        self.back_off(Launch { host, attempt: next }, not_before, false);
        Ok(next)
    }

    /// Removes every host that waits or backs off, each with the attempt that would have been next.
    pub fn give_up_waiting(&mut self) -> impl Iterator<Item = Launch> {
        self.end_back_offs(Instant::FAR_FUTURE);
        let kept = self.kept.take();
        self.release_reserved();
        self.kept = kept;
        let (hosts, mut attempts) = (core::mem::take(&mut self.waiting), core::mem::take(&mut self.attempts));
        let hosts: Vec<_> = hosts.iter().collect();
        hosts
            .into_iter()
            .map(move |host| Launch { host, attempt: attempts.remove(&host).unwrap_or_default() })
    }

    /// Adds the measured time that a start kept this node from starting another launch.
    pub fn observe_seq(&mut self, measured: Duration) {
        self.estimate.observe_seq(measured);
        self.turns.observe_seq(measured);
    }

    /// Sets the number of launches that may be in flight at once.
    pub fn set_window(&mut self, window: usize) {
        self.window = Some(u32::try_from(window).unwrap_or(u32::MAX));
    }

    /// The present estimate of the costs.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// The number of hosts still to be launched by this node or given to a child.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.reserved.len() + self.waiting.len() + self.backing_off.len()
    }

    /// The number of launches that have neither become ready nor failed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether this launch has neither become ready nor failed.
    #[must_use]
    pub fn is_in_flight(&self, launch: Launch) -> bool {
        let state = self.states.get(&launch.host);
        matches!(state, Some(HostState::InFlight { attempt, .. }) if *attempt == launch.attempt)
    }

    /// The start times of the launches in flight that started at or after `since`, in order.
    pub fn in_flight_since(&self, since: Instant) -> impl Iterator<Item = Instant> + '_ {
        self.in_flight.since(since)
    }

    /// A launch has become ready: records how long it took.
    fn record_answer(&mut self, launch: Launch, now: Instant) -> Result<(), QueueError> {
        let started = self.end_flight(launch)?;
        self.answered.insert((started, launch.host), now.since(started));
        self.count_answers(now);
        Ok(())
    }

    /// Ends the flight of a launch; returns when it was started.
    fn end_flight(&mut self, launch: Launch) -> Result<Instant, QueueError> {
        match self.states.get(&launch.host) {
            Some(&HostState::InFlight { since, attempt }) if attempt == launch.attempt => {
                self.states.remove(&launch.host);
                self.in_flight.remove(since, launch.host);
                // A launch of another node has no turn here.
                if self.turns.has(since, launch.host) {
                    self.passed = self.passed.max(Some(since));
                }
                Ok(since)
            }
            _ => Err(QueueError::NotInFlight(launch)),
        }
    }

    fn back_off(&mut self, next: Launch, until: Instant, reserved: bool) {
        let Launch { host, attempt } = next;
        self.states.insert(host, HostState::BackingOff { reserved });
        self.attempts.insert(host, attempt);
        self.backing_off.insert((until, host));
    }

    /// Moves hosts whose back-off has ended to the front, because they are late already, in the
    /// order of those ends.
    fn end_back_offs(&mut self, now: Instant) {
        let last_ended = (now, HostIndex(u32::MAX));
        while let Some(&(end, host)) = self.backing_off.range(..=last_ended).next_back() {
            self.backing_off.remove(&(end, host));
            match self.states.remove(&host) {
                _ if self.kept == Some(host) => self.reserved.push_front(host),
                Some(HostState::BackingOff { reserved: true }) => self.reserved.push_front(host),
                _ => self.waiting.push_front(host),
            }
        }
    }

    /// Counts answers as measurements, in the order in which their launches were started.
    fn count_answers(&mut self, now: Instant) {
        let mut counted = false;
        while let Some((&(started, host), &took)) = self.answered.first_key_value() {
            // An unconfirmed assumption does not say how long to wait for earlier launches.
            let rem = if self.estimate.rem_is_measured() { self.estimate.cost().rem } else { took };
            if self.in_flight.first_expected(now, nanos(rem)).is_some_and(|before| before < started) {
                break;
            }
            counted |= self.turns.answer(started, host, nanos(took));
            self.answered.pop_first();
        }
        if counted {
            self.refit();
        }
    }

    fn refit(&mut self) {
        let in_flight = &self.in_flight;
        let is_open = |started, host| in_flight.contains(started, host);
        self.turns.estimate(&mut self.estimate, self.passed, is_open);
        self.in_flight.turns(self.turns.iter());
    }
}

#[cfg(test)]
mod tests;
