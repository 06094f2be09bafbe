use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::cost::Cost;
use crate::plan::HostRuns;
use crate::plan::estimate::Estimate;
use crate::plan::late::{Attempt, Next, Retry};

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

#[test]
fn a_launch_that_moves_to_a_child_is_one_of_its_share() {
    let mut queue = queue(100);
    let (child, moves) = (launch(&mut queue, 0), launch(&mut queue, 10));
    let too_early = queue.move_to(child.host, moves, at(20));
    assert_eq!(too_early, Err(QueueError::NotUp(child.host)));
    queue.child_ready_with(child, at(20), HostRuns::new()).unwrap();
    queue.move_to(child.host, moves, at(30)).unwrap();
    assert_eq!((queue.in_flight(), queue.is_here(moves.host)), (0, true));
    let again = queue.move_to(child.host, moves, at(30));
    assert_eq!(again, Err(QueueError::NotInFlight(moves)));
    let share: Vec<_> = queue.child_lost(child.host).unwrap().hosts.iter().collect();
    assert_eq!(share, [moves.host]);
}

#[test]
fn a_launch_of_another_node_measures_nothing_here() {
    let mut queue = queue(0);
    let before = queue.estimate();
    let elsewhere = |host| Launch { host: HostIndex(host), attempt: AGAIN };
    for host in [7, 8] {
        queue.expect(elsewhere(host), at(10)).unwrap();
    }
    assert_eq!(queue.expect(elsewhere(7), at(10)), Err(QueueError::AlreadyHere(HostIndex(7))));
    queue.child_ready(elsewhere(7), at(11)).unwrap();
    queue.child_failed(elsewhere(8), at(900), Retry::Never).unwrap();
    assert_eq!((queue.in_flight(), queue.estimate()), (0, before));
    assert!(queue.child_lost(HostIndex(7)).is_ok());
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
