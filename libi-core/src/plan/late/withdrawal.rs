//! Launches that are withdrawn: started here, still waiting for their turn, and given to a child
//! that can make them sooner.
//!
//! Starts that return at once say nothing of what the launcher can do. Until two launches have been
//! answered, SEQ is an assumption, and if the launcher can make fewer launches at a time than that,
//! a queue stands before its bottleneck by then: each of its launches has a turn, which `turns.rs`
//! knows, far in the future. They count as waiting hosts when children get shares. What a child gets
//! of them is ended here before its turn; the child launches it by a later attempt.
//!
//! Withdrawn is only
//!
//! - what has no turn within half a launch from now, and was started after all that have answered or
//!   failed: the others are the headroom that keeps the launcher busy, or had their turn;
//! - where turns are taken one after the other: launches that share a processor have all begun;
//! - a first attempt, so that no host is passed on for ever.
//!
//! A turn is only estimated: what is withdrawn may have reached its host in that moment, and a host
//! that denies logins may therefore be asked once more than [`Attempt::failed`] says. Such a host is
//! marked in all its later attempts.

use alloc::vec::Vec;

use super::{Attempt, HostState, Launch, Queue};
use crate::ids::HostIndex;
use crate::time::Instant;

/// The first launch of a host that is in flight, whose turn is far in the future; and its start.
pub(super) type LateTurn = (Instant, HostIndex);

impl Queue {
    /// The launches that could be withdrawn, in the order of their turns.
    pub(super) fn late_turns(&self, now: Instant) -> Vec<LateTurn> {
        if !self.turns.are_in_order() || !self.estimate.starts_return_at_once() {
            return Vec::new();
        }
        let cost = self.estimate.cost();
        let soon = now + (cost.seq + cost.rem) / 2;
        let had_its_turn = |since| self.passed.is_some_and(|passed| since <= passed);
        let launches = self
            .turns
            .iter()
            .filter(|&(since, host, turn)| turn > soon && !had_its_turn(since) && self.kept != Some(host));
        let is_first = |since, host| {
            let state = self.states.get(&host);
            matches!(state, Some(&HostState::InFlight { since: started, attempt })
                if started == since && attempt == Attempt::default())
        };
        launches
            .map(|(since, host, _)| (since, host))
            .filter(|&(since, host)| is_first(since, host))
            .collect()
    }

    /// Takes a first launch out of flight; its host waits.
    pub(super) fn withdraw(&mut self, (since, host): LateTurn) -> Launch {
        self.states.remove(&host);
        self.in_flight.remove(since, host);
        self.turns.forget_launch(since, host);
        let attempt = Attempt::default();
        self.attempts.insert(host, Attempt { withdrawn: true, ..attempt });
        self.waiting.push_back(host);
        Launch { host, attempt }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::{Next, QueueError, Share};
    use super::*;
    use crate::cost::Cost;
    use crate::plan::estimate::Estimate;
    use crate::plan::runs::HostRuns;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + MS(millis)
    }

    /// A queue of 60 hosts, 40 of which are launched 5 ms apart; each start takes this long.
    fn launched(start: Duration) -> (Queue, Vec<Launch>) {
        let hosts: HostRuns = (0..60).map(HostIndex).collect();
        let mut queue = Queue::new(hosts, Estimate::assumed(&Cost::new(MS(5), MS(200))));
        let launches = (0..40).map(|nth| {
            queue.observe_seq(start);
            match queue.next(at(5 * nth)) {
                Next::Launch(launch) => launch,
                other => panic!("{other:?}"),
            }
        });
        let launches = launches.collect();
        (queue, launches)
    }

    /// A child is ready: its share, and the launches that it gets.
    fn ready(queue: &mut Queue, launch: Launch, now: Instant) -> (Share, Vec<Launch>) {
        let none = queue.child_ready_with_last(launch, now, 0).unwrap();
        let given = queue.share_out([(launch.host, 1)].into_iter(), true, now).pop();
        given.map_or((none, Vec::new()), |given| (given.share, given.withdrawn))
    }

    #[test]
    fn launches_that_wait_for_their_turn_go_to_the_next_child() {
        let (mut queue, launches) = launched(Duration::from_micros(300));
        let (first, none) = ready(&mut queue, launches[0], at(500));
        assert!(none.is_empty(), "one answer does not show a queue: {none:?}");
        let waiting = 20 - first.hosts.len();
        let (second, withdrawn) = ready(&mut queue, launches[1], at(1_000));
        assert!(withdrawn.len() > 10, "{} of 38 that wait, {waiting} others", withdrawn.len());
        assert_eq!(second.hosts.len(), waiting + withdrawn.len());
        assert_eq!(queue.in_flight(), 38 - withdrawn.len());
        for launch in &withdrawn {
            assert!(second.hosts.contains(launch.host));
            assert_eq!(second.attempts[&launch.host], Attempt { withdrawn: true, ..Attempt::default() });
            assert_eq!(queue.child_ready(*launch, at(1_001)), Err(QueueError::NotInFlight(*launch)));
        }
        assert!(!withdrawn.contains(&launches[2]), "it has its turn now");
        let (_, later) = ready(&mut queue, launches[2], at(1_500));
        assert!(later.iter().all(|launch| !withdrawn.contains(launch)));
    }

    #[test]
    fn a_host_is_withdrawn_once() {
        let (mut queue, launches) = launched(Duration::from_micros(300));
        let (mut child, _) = ready(&mut queue, launches[0], at(500));
        let (share, withdrawn) = ready(&mut queue, launches[1], at(1_000));
        child.hosts = withdrawn.iter().map(|launch| launch.host).collect();
        let mut below = Queue::from_share(Share { hosts: child.hosts, ..share });
        let again: Vec<Launch> = (0..withdrawn.len() as u64)
            .map(|nth| match below.next(at(1_001 + nth)) {
                Next::Launch(launch) => launch,
                other => panic!("{other:?}"),
            })
            .collect();
        for (nth, launch) in again.iter().take(4).enumerate() {
            let (_, passed_on) = ready(&mut below, *launch, at(1_500 + 500 * nth as u64));
            assert!(passed_on.is_empty(), "{passed_on:?}");
        }
    }

    #[test]
    fn nothing_is_withdrawn_where_starts_take_their_time_or_no_queue_stands() {
        for (start, spacing) in [(MS(5), 500), (Duration::from_micros(300), 5)] {
            let (mut queue, launches) = launched(start);
            for (nth, launch) in launches.iter().take(20).enumerate() {
                let (_, withdrawn) = ready(&mut queue, *launch, at(500 + spacing * nth as u64));
                assert!(withdrawn.is_empty(), "{start:?}: {withdrawn:?}");
            }
        }
    }
}
