//! Hosts that move between queues: those that a child hands back because it cannot launch them,
//! those that a launcher adopts because no other node has them, those that it passes on to a child
//! that is up, and those that are added by its own launcher.
//!
//! A host whose launch has failed elsewhere waits for a back-off, and is then launched by the node
//! it came back to, before all others. If it could be given away again, it would go to the next
//! child that has nothing else, which would try it and hand it back as well. Only a launcher
//! without resources for any launch gives such hosts away.
//!
//! A host comes with the number of its next attempt, which the caller has made greater than all
//! attempts made or begun elsewhere. Invariant: a host is in one place at a time, so it leaves the
//! child's share before it enters the queue.

use alloc::collections::{BTreeMap, BTreeSet};

use super::{Attempt, HostRuns, HostState, Launch, Queue, QueueError, Share, TurnEstimator};
use crate::ids::HostIndex;
use crate::time::Instant;

impl Queue {
    /// A child that is up hands a host of its share back, to be launched by this attempt: here or
    /// by another child. With `not_before` set, a launch elsewhere has failed; the host is then
    /// launched here, and not before that time.
    ///
    /// # Errors
    /// The host is not in the share of this child.
    pub fn hand_back(
        &mut self,
        child: HostIndex,
        next: Launch,
        not_before: Option<Instant>,
    ) -> Result<(), QueueError> {
        if !self.remove_from_share(child, next.host) {
            return Err(QueueError::NotGiven(next.host, child));
        }
        self.put(next, not_before);
        Ok(())
    }

    /// Gives all waiting hosts to a child that is up, in addition to its share.
    ///
    /// # Errors
    /// This host is not a child that is up.
    pub fn give_waiting_to(&mut self, child: HostIndex) -> Result<Share, QueueError> {
        if !self.is_up(child) {
            return Err(QueueError::NotUp(child));
        }
        let all = self.release_reserved();
        let more = self.split_off(all);
        self.add_to_share(child, &more).map(|()| more)
    }

    /// Removes the hosts that wait for a launcher, but for the first of them.
    pub fn give_up_last(&mut self, keep: usize) -> Share {
        self.split_off(self.waiting.len().saturating_sub(keep))
    }

    /// Gives hosts that are not in this queue to a child that is up, in addition to its share.
    ///
    /// # Errors
    /// This host is not a child that is up.
    pub fn give(&mut self, child: HostIndex, launches: &[Launch]) -> Result<Share, QueueError> {
        let more = Share {
            hosts: launches.iter().map(|launch| launch.host).collect(),
            attempts: launches.iter().map(|launch| (launch.host, launch.attempt)).collect(),
            estimate: self.estimate,
        };
        self.add_to_share(child, &more).map(|()| more)
    }

    pub(super) fn add_to_share(&mut self, child: HostIndex, more: &Share) -> Result<(), QueueError> {
        let Some(HostState::Up(child)) = self.states.get_mut(&child) else {
            return Err(QueueError::NotUp(child));
        };
        child.open += more.hosts.len();
        child.share.hosts.append(&more.hosts);
        child.share.attempts.extend(more.attempts.iter().map(|(host, attempt)| (*host, *attempt)));
        Ok(())
    }

    /// Adds a further share. Hosts that are in this queue already are left out. The share's cost
    /// estimate is adopted as long as this node has measured little itself.
    pub fn accept(&mut self, share: Share) {
        if !self.has_launched {
            self.estimate = share.estimate;
            self.turns = TurnEstimator::new(share.estimate);
        } else if self.turns.adopt(&share.estimate) {
            self.refit();
        }
        self.add(&share.hosts, share.attempts);
    }

    /// Adds further hosts, of which no other node has an estimate. Hosts that are in this queue already
    /// are left out.
    pub fn add(&mut self, hosts: &HostRuns, attempts: BTreeMap<HostIndex, Attempt>) {
        for host in hosts.iter() {
            if !self.states.contains_key(&host) {
                self.waiting.push_back(host);
            }
        }
        self.attempts.extend(attempts);
    }

    /// A host in this child's share is given up: it is in no queue any more, and not lost with the
    /// child. Returns whether it was in that share.
    pub fn remove_from_share(&mut self, child: HostIndex, host: HostIndex) -> bool {
        let Some(HostState::Up(child)) = self.states.get_mut(&child) else { return false };
        child.share.attempts.remove(&host);
        let was_there = child.share.hosts.remove(host);
        if was_there {
            child.open = child.open.saturating_sub(1); // what is up stays in its share
        }
        was_there
    }

    /// A child that counted as up, and was given no hosts, is in flight after all.
    ///
    /// # Errors
    /// The host of this launch is not a child that is up.
    pub fn recall(&mut self, launch: Launch, now: Instant) -> Result<(), QueueError> {
        let Launch { host, attempt } = launch;
        self.child_lost(host)?;
        self.states.insert(host, HostState::InFlight { since: now, attempt });
        let turn = self.turns.start(host, now, &self.estimate);
        self.in_flight.insert(now, host, turn);
        Ok(())
    }

    /// The launch of another node brings up this child: it is in flight here from now on. How long it
    /// takes says nothing about launches from here.
    ///
    /// # Errors
    /// The host is in this queue already.
    pub fn expect(&mut self, launch: Launch, now: Instant) -> Result<(), QueueError> {
        let Launch { host, attempt } = launch;
        if self.is_here(host) {
            return Err(QueueError::AlreadyHere(host));
        }
        self.states.insert(host, HostState::InFlight { since: now, attempt });
        self.in_flight.insert(now, host, now);
        Ok(())
    }

    /// A launch in flight becomes one of those of a child that is up: its host is in that child's share
    /// from now on. The time that it has taken here counts as a measurement of REM.
    ///
    /// # Errors
    /// This launch is not in flight, or that host is not a child that is up.
    pub fn move_to(&mut self, child: HostIndex, launch: Launch, now: Instant) -> Result<(), QueueError> {
        if !matches!(self.states.get(&child), Some(HostState::Up(_))) {
            return Err(QueueError::NotUp(child));
        }
        self.record_answer(launch, now)?;
        self.give(child, &[launch]).map(drop)
    }

    /// Takes a host that no other node has, to be launched by this attempt: here or by a child.
    /// With `not_before` set, a launch elsewhere has failed; the host is then launched here, and
    /// not before that time.
    ///
    /// # Errors
    /// The host is in this queue already.
    pub fn adopt(&mut self, next: Launch, not_before: Option<Instant>) -> Result<(), QueueError> {
        if self.is_here(next.host) {
            return Err(QueueError::AlreadyHere(next.host));
        }
        self.put(next, not_before);
        Ok(())
    }

    /// Every host in this queue: waiting, backing off, in flight, up, or in a child's share.
    #[must_use]
    pub fn hosts(&self) -> BTreeSet<HostIndex> {
        let given = self.states.values().filter_map(|state| match state {
            HostState::Up(child) => Some(child.share.hosts.iter()),
            HostState::BackingOff { .. } | HostState::InFlight { .. } => None,
        });
        let waiting = self.reserved.iter().chain(self.waiting.iter());
        waiting.chain(self.states.keys().copied()).chain(given.flatten()).collect()
    }

    pub(super) fn is_here(&self, host: HostIndex) -> bool {
        let given =
            |state: &HostState| matches!(state, HostState::Up(child) if child.share.hosts.contains(host));
        let waits = self.reserved.contains(host) || self.waiting.contains(host);
        waits || self.states.contains_key(&host) || self.states.values().any(given)
    }

    /// Makes the hosts reserved for this launcher available to children; returns how many hosts
    /// wait in all.
    pub(super) fn release_reserved(&mut self) -> usize {
        let mut waiting = core::mem::take(&mut self.reserved);
        if let Some(kept) = self.kept.filter(|kept| waiting.remove(*kept)) {
            self.reserved.push_front(kept);
        }
        if !waiting.is_empty() {
            waiting.append(&self.waiting);
            self.waiting = waiting;
        }
        self.waiting.len()
    }

    fn put(&mut self, next: Launch, not_before: Option<Instant>) {
        match not_before {
            Some(until) => self.back_off(next, until, true),
            None if self.kept == Some(next.host) => {
                self.reserved.push_front(next.host);
                self.attempts.insert(next.host, next.attempt);
            }
            // Many hosts come back at once; in this order they stay one run.
            None => {
                self.waiting.push_back(next.host);
                self.attempts.insert(next.host, next.attempt);
            }
        }
    }
}

#[cfg(test)]
mod tests;
