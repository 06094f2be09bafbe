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
        if !matches!(self.states.get(&child), Some(HostState::Up(_))) {
            return Err(QueueError::NotUp(child));
        }
        let all = self.release_reserved();
        let more = self.split_off(all);
        self.add_to_share(child, &more).map(|()| more)
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
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use core::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::cost::Cost;
    use crate::plan::HostRuns;
    use crate::plan::estimate::Estimate;
    use crate::plan::late::{Attempt, Next};

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn queue(hosts: u32) -> Queue {
        let cost = Cost::new(Duration::from_millis(10), Duration::from_millis(20));
        Queue::new((1..=hosts).map(HostIndex).collect(), Estimate::assumed(&cost))
    }

    fn launch(queue: &mut Queue, millis: u64) -> Launch {
        match queue.next(at(millis)) {
            Next::Launch(launch) => launch,
            other => panic!("{other:?} where a launch was expected"),
        }
    }

    const AGAIN: Attempt = Attempt { lost: 1, failed: 0, withdrawn: false };

    #[test]
    fn what_a_child_hands_back_is_launched_here_by_the_next_attempt_and_is_not_lost_with_the_child() {
        let mut queue = queue(100);
        let child = launch(&mut queue, 0);
        let share = queue.child_ready(child, at(20)).unwrap();
        let (left, back) = (queue.waiting(), share.hosts.iter().next().unwrap());
        let next = Launch { host: back, attempt: AGAIN };
        queue.hand_back(child.host, next, None).unwrap();
        assert_eq!(queue.waiting(), left + 1);
        let again = QueueError::NotGiven(back, child.host);
        assert_eq!(queue.hand_back(child.host, next, None), Err(again), "it comes back once");
        assert!(!queue.child_lost(child.host).unwrap().hosts.contains(back));
        let launches: Vec<_> = (0..=left).map(|_| launch(&mut queue, 30)).collect();
        assert!(launches.contains(&next), "{launches:?}");
    }

    #[test]
    fn a_host_may_have_to_wait_before_it_is_launched_where_it_came_back_to() {
        let mut queue = queue(1);
        let child = launch(&mut queue, 0);
        queue.child_ready_with(child, at(20), [HostIndex(7)].into_iter().collect()).unwrap();
        let next = Launch { host: HostIndex(7), attempt: Attempt { failed: 2, ..AGAIN } };
        queue.hand_back(child.host, next, Some(at(50))).unwrap();
        assert_eq!(queue.next(at(30)), Next::WaitUntil(at(50)));
        assert_eq!(queue.next(at(50)), Next::Launch(next));
    }

    #[test]
    fn a_host_whose_launch_failed_is_given_away_only_by_a_launcher_without_resources() {
        let vain = |host| Launch { host: HostIndex(host), attempt: AGAIN };
        let mut queue = queue(3);
        let children = [launch(&mut queue, 0), launch(&mut queue, 10), launch(&mut queue, 20)];
        queue.adopt(vain(7), Some(at(25))).unwrap();
        queue.adopt(vain(8), Some(at(25))).unwrap();
        queue.adopt(vain(9), None).unwrap();
        let share = queue.child_ready(children[0], at(30)).unwrap();
        assert_eq!(share.hosts.iter().filter(|host| host.0 != 9).count(), 0, "{share:?}");
        assert!(queue.waiting() >= 2 && queue.hosts().contains(&HostIndex(7)));
        assert_eq!(queue.adopt(vain(7), None), Err(QueueError::AlreadyHere(HostIndex(7))));
        let first = launch(&mut queue, 40);
        assert!(first == vain(7) || first == vain(8), "{first:?}");
        let share = queue.child_ready_of_full(children[1], at(50)).unwrap();
        let other = 7 + 8 - first.host.0;
        assert_eq!(share.attempts[&HostIndex(other)], AGAIN);
        assert_eq!(queue.waiting(), 0);
        queue.adopt(vain(10), Some(at(60))).unwrap();
        assert_eq!(queue.next(at(55)), Next::WaitUntil(at(60)));
        assert_eq!(queue.give_up_waiting().collect::<Vec<_>>(), [vain(10)]);
    }

    #[test]
    fn a_host_is_taken_only_if_it_is_not_here() {
        let mut queue = queue(100);
        let (up, flying) = (launch(&mut queue, 0), launch(&mut queue, 10));
        let share = queue.child_ready(up, at(20)).unwrap();
        let given = share.hosts.iter().next().unwrap();
        let here = queue.hosts();
        assert_eq!(here, (1..=100).map(HostIndex).collect());
        for host in [up.host, flying.host, given, HostIndex(50)] {
            let next = Launch { host, attempt: AGAIN };
            assert_eq!(queue.adopt(next, None), Err(QueueError::AlreadyHere(host)));
        }
        queue.adopt(Launch { host: HostIndex(101), attempt: AGAIN }, None).unwrap();
        assert_eq!(queue.hosts().len(), 101);
    }

    #[test]
    fn what_waits_goes_to_a_child_that_is_up_beside_what_it_has() {
        let mut queue = queue(100);
        let (first, second) = (launch(&mut queue, 0), launch(&mut queue, 10));
        let before = queue.child_ready(first, at(20)).unwrap();
        assert_eq!(queue.give_waiting_to(second.host).unwrap_err(), QueueError::NotUp(second.host));
        let more = queue.give_waiting_to(first.host).unwrap();
        assert_eq!((queue.waiting(), queue.next(at(30))), (0, Next::Idle));
        let lost = queue.child_lost(first.host).unwrap().hosts;
        let all: HostRuns = before.hosts.iter().chain(more.hosts.iter()).collect();
        assert_eq!((lost.iter().count(), all.iter().count()), (98, 98));
        assert!(more.hosts.iter().all(|host| lost.contains(host) && !before.hosts.contains(host)));
    }

    #[test]
    fn hosts_that_are_not_here_can_be_given_to_a_child_and_are_lost_with_it() {
        let mut queue = queue(3);
        let child = launch(&mut queue, 0);
        let launches = [Launch { host: HostIndex(7), attempt: AGAIN }];
        assert_eq!(queue.give(child.host, &launches).unwrap_err(), QueueError::NotUp(child.host));
        queue.child_ready_with(child, at(20), HostRuns::new()).unwrap();
        let more = queue.give(child.host, &launches).unwrap();
        assert_eq!((more.hosts.len(), more.attempts[&HostIndex(7)], queue.waiting()), (1, AGAIN, 2));
        let lost = queue.child_lost(child.host).unwrap();
        assert!(lost.hosts.contains(HostIndex(7)) && lost.attempts.contains_key(&HostIndex(7)));
    }

    /// A child with its own queue.
    struct Child {
        host: HostIndex,
        queue: Queue,
    }

    proptest! {
        /// Children get shares, launch some hosts, hand some back, and are lost. No host is lost or
        /// in two places, and no attempt number is used twice.
        #[test]
        fn nothing_is_lost_or_twice_whatever_comes_back(
            hosts in 1u32..120,
            ops in prop::collection::vec((0u8..5, any::<usize>(), 0u64..40), 1..200),
        ) {
            let mut parent = queue(hosts);
            let (mut flying, mut children): (Vec<Launch>, Vec<Child>) = Default::default();
            let mut newest: BTreeMap<HostIndex, Attempt> = BTreeMap::new();
            let mut now = 0;
            for (op, number, later) in ops {
                now += later;
                match op {
                    0 => if let Next::Launch(launch) = parent.next(at(now)) {
                        let before = newest.insert(launch.host, launch.attempt);
                        prop_assert!(before.is_none_or(|before| before < launch.attempt));
                        flying.push(launch);
                    },
                    1 if !flying.is_empty() => {
                        let launch = flying.swap_remove(number % flying.len());
                        let share = parent.child_ready(launch, at(now)).unwrap();
                        children.push(Child { host: launch.host, queue: Queue::from_share(share) });
                    }
                    2 if !children.is_empty() => {
                        let number = number % children.len();
                        let child = &mut children[number];
                        if let Next::Launch(launch) = child.queue.next(at(now)) {
                            let before = newest.insert(launch.host, launch.attempt);
                            prop_assert!(before.is_none_or(|before| before < launch.attempt));
                            child.queue.child_ready_with(launch, at(now), HostRuns::new()).unwrap();
                        }
                    }
                    3 if !children.is_empty() => {
                        let number = number % children.len();
                        let child = &mut children[number];
                        for Launch { host, attempt } in child.queue.give_up_waiting().collect::<Vec<_>>() {
                            let next = attempt.after_loss();
                            let not_before = (host.0 % 2 == 0).then(|| at(now + 5));
                            parent.hand_back(child.host, Launch { host, attempt: next }, not_before).unwrap();
                        }
                    }
                    4 if !children.is_empty() => {
                        let lost = children.swap_remove(number % children.len());
                        let Share { hosts, .. } = parent.child_lost(lost.host).unwrap();
                        for host in hosts.iter().chain([lost.host]) {
                            // The parent does not know of attempts that children have begun
                            // themselves.
                            let before = newest.get(&host).copied().unwrap_or_default();
                            let next = before.after_loss();
                            parent.adopt(Launch { host, attempt: next }, None).unwrap();
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(parent.hosts().len() as u32, hosts);
                let below: usize = children.iter().map(|child| 1 + child.queue.hosts().len()).sum();
                prop_assert_eq!((parent.waiting() + flying.len() + below) as u32, hosts);
                prop_assert_eq!(parent.in_flight(), flying.len());
            }
        }
    }
}
