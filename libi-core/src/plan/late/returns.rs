//! What comes back into a queue: hosts that a child hands back because it cannot launch them, and hosts that a launcher takes
//! for its own which were nobody's.
//!
//! Either way a host comes with the number of its next attempt, which the caller has made greater than all that were made
//! or begun elsewhere, and is in one place at a time: out of the child's share, and into the queue.

use alloc::collections::BTreeSet;

use super::{Launch, Queue, QueueError, Share, State};
use crate::ids::HostIndex;
use crate::time::Instant;

impl Queue {
    /// A child that is up hands a host of its share back, to be launched here or given to another child: by this attempt, at
    /// once or not before some time.
    ///
    /// # Errors
    /// When the host is not in the share of this child.
    pub fn hand_back(
        &mut self,
        child: HostIndex,
        next: Launch,
        not_before: Option<Instant>,
    ) -> Result<(), QueueError> {
        if !self.forget(child, next.host) {
            return Err(QueueError::NotGiven(next.host, child));
        }
        self.put(next, not_before);
        Ok(())
    }

    /// Gives all that waits to a child that is up already, beside what it has.
    ///
    /// # Errors
    /// When this host is not a child that is up.
    pub fn hand_down(&mut self, child: HostIndex) -> Result<Share, QueueError> {
        if !matches!(self.states.get(&child), Some(State::Up(_))) {
            return Err(QueueError::NotUp(child));
        }
        let more = self.split_off(self.waiting.len());
        if let Some(State::Up(share)) = self.states.get_mut(&child) {
            share.hosts = share.hosts.iter().chain(more.hosts.iter()).collect();
            share.attempts.extend(more.attempts.iter().map(|(host, attempt)| (*host, *attempt)));
        }
        Ok(more)
    }

    /// Takes a host that is nobody's, to be launched or given away by this attempt, at once or not before some time.
    ///
    /// # Errors
    /// When the host is here already.
    pub fn take(&mut self, next: Launch, not_before: Option<Instant>) -> Result<(), QueueError> {
        if self.is_here(next.host) {
            return Err(QueueError::Here(next.host));
        }
        self.put(next, not_before);
        Ok(())
    }

    /// Every host that is here: waiting, backing off, in flight, up, or in a child's share.
    #[must_use]
    pub fn hosts(&self) -> BTreeSet<HostIndex> {
        let given = self.states.values().filter_map(|state| match state {
            State::Up(share) => Some(share.hosts.iter()),
            State::BackingOff | State::InFlight { .. } => None,
        });
        self.waiting.iter().chain(self.states.keys().copied()).chain(given.flatten()).collect()
    }

    pub(super) fn is_here(&self, host: HostIndex) -> bool {
        let given = |state: &State| matches!(state, State::Up(share) if share.hosts.contains(host));
        self.states.contains_key(&host) || self.waiting.contains(host) || self.states.values().any(given)
    }

    fn put(&mut self, next: Launch, not_before: Option<Instant>) {
        match not_before {
            Some(until) => self.back_off(next.host, next.attempt, until),
            // Many come back at once: they stay a run of neighbours.
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
        Queue::new((1..=hosts).map(HostIndex).collect(), Estimate::from_word(&cost))
    }

    fn launch(queue: &mut Queue, millis: u64) -> Launch {
        match queue.next(at(millis)) {
            Next::Launch(launch) => launch,
            other => panic!("{other:?} where a launch was expected"),
        }
    }

    const AGAIN: Attempt = Attempt { lost: 1, failed: 0 };

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
        let next = Launch { host: HostIndex(7), attempt: Attempt { lost: 1, failed: 2 } };
        queue.hand_back(child.host, next, Some(at(50))).unwrap();
        assert_eq!(queue.next(at(30)), Next::WaitUntil(at(50)));
        assert_eq!(queue.next(at(50)), Next::Launch(next));
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
            assert_eq!(queue.take(next, None), Err(QueueError::Here(host)));
        }
        queue.take(Launch { host: HostIndex(101), attempt: AGAIN }, None).unwrap();
        assert_eq!(queue.hosts().len(), 101);
    }

    #[test]
    fn what_waits_goes_to_a_child_that_is_up_beside_what_it_has() {
        let mut queue = queue(100);
        let (first, second) = (launch(&mut queue, 0), launch(&mut queue, 10));
        let before = queue.child_ready(first, at(20)).unwrap();
        assert_eq!(queue.hand_down(second.host).unwrap_err(), QueueError::NotUp(second.host));
        let more = queue.hand_down(first.host).unwrap();
        assert_eq!((queue.waiting(), queue.next(at(30))), (0, Next::Idle));
        let lost = queue.child_lost(first.host).unwrap().hosts;
        let all: HostRuns = before.hosts.iter().chain(more.hosts.iter()).collect();
        assert_eq!((lost.iter().count(), all.iter().count()), (98, 98));
        assert!(more.hosts.iter().all(|host| lost.contains(host) && !before.hosts.contains(host)));
    }

    /// A child's own queue, and what it says of its hosts.
    struct Child {
        host: HostIndex,
        queue: Queue,
    }

    proptest! {
        /// Children are given shares, launch some of them or hand some back, and are lost; nothing is lost or in two places,
        /// and no attempt comes twice.
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
                        for Launch { host, attempt } in child.queue.abandon().collect::<Vec<_>>() {
                            let next = Attempt { lost: attempt.lost + 1, failed: 0 };
                            let not_before = (host.0 % 2 == 0).then(|| at(now + 5));
                            parent.hand_back(child.host, Launch { host, attempt: next }, not_before).unwrap();
                        }
                    }
                    4 if !children.is_empty() => {
                        let lost = children.swap_remove(number % children.len());
                        let Share { hosts, .. } = parent.child_lost(lost.host).unwrap();
                        for host in hosts.iter().chain([lost.host]) {
                            // Nobody has told the parent of attempts that children have begun from their shares.
                            let before = newest.get(&host).copied().unwrap_or_default();
                            let next = Attempt { lost: before.lost + 1, failed: 0 };
                            parent.take(Launch { host, attempt: next }, None).unwrap();
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(parent.hosts().len() as u32, hosts);
                let own: usize = children.iter().map(|child| 1 + child.queue.hosts().len()).sum();
                prop_assert_eq!((parent.waiting() + flying.len() + own) as u32, hosts);
                prop_assert_eq!(parent.in_flight(), flying.len());
            }
        }
    }
}
