//! The queue by itself, call by call. That whole launches come out right is tested where they are
//! simulated.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn at(millis: u64) -> Instant {
    Instant::ZERO + MS(millis)
}

fn queue(hosts: u32, seq: u64, rem: u64) -> Queue {
    Queue::new((1..=hosts).map(HostIndex), Estimate::from_word(&Cost::new(MS(seq), MS(rem))))
}

fn launch(queue: &mut Queue, millis: u64) -> HostIndex {
    match queue.next(at(millis)) {
        Next::Launch(host) => host,
        other => panic!("{other:?} where a launch was expected"),
    }
}

#[test]
fn a_child_takes_what_it_can_have_up_by_the_time_everything_can_be() {
    // Ten hosts at SEQ 10, REM 100. One is launched at 0 and ready at 100; nine others have been launched
    // by then, had the launcher gone on; here it has been held up, and eight are left.
    let mut queue = queue(10, 10, 100);
    let first = launch(&mut queue, 0);
    launch(&mut queue, 90);
    // Slot and child are both free at 100, so each takes half: up at 200, 210, 220, 230.
    let share = queue.child_ready(first, at(100)).unwrap();
    assert_eq!(share.hosts, (7..=10).map(HostIndex).collect::<Vec<_>>());
    assert_eq!(queue.waiting(), 4);
}

#[test]
fn a_host_that_is_silent_holds_nothing_but_its_own_launch() {
    let mut queue = queue(3, 10, 100);
    let silent = launch(&mut queue, 0);
    let (second, third) = (launch(&mut queue, 10), launch(&mut queue, 20));
    assert_eq!(queue.next(at(30)), Next::Idle);
    for (host, millis) in [(second, 110), (third, 120)] {
        assert!(queue.child_ready(host, at(millis)).unwrap().hosts.is_empty());
    }
    assert_eq!((queue.in_flight(), queue.waiting()), (1, 0));
    queue.child_failed(silent, at(5_000), Retry::Never).unwrap();
    assert_eq!((queue.in_flight(), queue.next(at(5_000))), (0, Next::Idle));
}

#[test]
fn a_failed_host_is_launched_again_when_its_back_off_has_ended() {
    let mut queue = queue(1, 10, 100);
    let host = launch(&mut queue, 0);
    queue.child_failed(host, at(50), Retry::After(MS(30))).unwrap();
    assert_eq!(queue.next(at(60)), Next::WaitUntil(at(80)));
    assert_eq!((queue.waiting(), queue.in_flight()), (1, 0));
    assert_eq!(queue.next(at(80)), Next::Launch(host));
}

#[test]
fn a_host_in_back_off_is_nobodys_to_take() {
    let mut queue = queue(2, 10, 100);
    let (failed, ready) = (launch(&mut queue, 0), launch(&mut queue, 10));
    queue.child_failed(failed, at(50), Retry::After(MS(1_000))).unwrap();
    assert!(queue.child_ready(ready, at(110)).unwrap().hosts.is_empty());
    assert_eq!(queue.next(at(1_050)), Next::Launch(failed));
}

#[test]
fn losing_a_child_returns_exactly_what_it_was_given() {
    let mut queue = queue(100, 10, 20);
    let first = launch(&mut queue, 0);
    let share = queue.child_ready(first, at(20)).unwrap().hosts;
    assert!(!share.is_empty());
    let left = queue.waiting();
    assert_eq!(queue.child_lost(first), Ok(share.clone()));
    for host in share.iter().copied().chain([first]) {
        queue.requeue(host, at(30));
    }
    assert_eq!(queue.waiting(), left + share.len() + 1);
    assert_eq!(queue.child_lost(first), Err(QueueError::NotUp(first)), "a child is lost once");
}

#[test]
fn calls_that_do_not_fit_a_host_are_refused_and_change_nothing() {
    let mut queue = queue(2, 10, 100);
    let (known, stranger) = (launch(&mut queue, 0), HostIndex(77));
    assert_eq!(queue.child_ready(stranger, at(1)), Err(QueueError::NotInFlight(stranger)));
    assert_eq!(queue.child_failed(stranger, at(1), Retry::Never), Err(QueueError::NotInFlight(stranger)));
    assert_eq!(queue.child_lost(known), Err(QueueError::NotUp(known)), "it never was up");
    queue.child_ready(known, at(100)).unwrap();
    assert_eq!(queue.child_ready(known, at(101)), Err(QueueError::NotInFlight(known)));
}

#[test]
fn an_answer_counts_only_when_those_before_it_have_answered_or_are_silent() {
    let mut queue = queue(3, 10, 100);
    let (slow, fast, _) = (launch(&mut queue, 0), launch(&mut queue, 10), launch(&mut queue, 20));
    queue.child_ready(fast, at(60)).unwrap();
    assert_eq!(queue.estimate().cost().rem, MS(100), "the launch before may be slower");
    queue.child_ready(slow, at(150)).unwrap();
    // The word weighs as much as two measurements: (2 * 100 + 150 + 50) / 4.
    let counted = queue.estimate().cost().rem;
    assert!(counted.abs_diff(MS(100)) < Duration::from_micros(1), "{counted:?}");
}

#[test]
fn costs_of_nothing_still_share_the_work() {
    let mut queue = queue(1_000, 0, 0);
    let first = launch(&mut queue, 0);
    let share = queue.child_ready(first, at(0)).unwrap().hosts.len();
    assert!((400..600).contains(&share), "{share}");
}

/// What can be done to a queue, with a number that picks the host.
#[derive(Clone, Copy, Debug)]
enum Op {
    Next,
    Ready(usize),
    Fail(usize, Option<u64>),
    Lose(usize),
    Seq(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Next),
        3 => any::<usize>().prop_map(Op::Ready),
        1 => (any::<usize>(), prop::option::of(0u64..500)).prop_map(|(n, retry)| Op::Fail(n, retry)),
        1 => any::<usize>().prop_map(Op::Lose),
        1 => any::<u64>().prop_map(Op::Seq),
    ]
}

proptest! {
    #[test]
    fn no_host_is_ever_lost_or_in_two_places(
        hosts in 1u32..200,
        seq in 0u64..50,
        rem in 0u64..500,
        ops in prop::collection::vec((op(), 0u64..100), 1..300),
    ) {
        let mut queue = queue(hosts, seq, rem);
        let (mut flying, mut up, mut gone): (Vec<HostIndex>, Vec<HostIndex>, u32) = Default::default();
        let mut given = BTreeMap::new();
        let mut now = 0;
        for (op, later) in ops {
            now += later;
            match op {
                Op::Next => match queue.next(at(now)) {
                    Next::Launch(host) => {
                        prop_assert!(!flying.contains(&host) && !up.contains(&host));
                        flying.push(host);
                    }
                    Next::WaitUntil(then) => prop_assert!(then > at(now)),
                    Next::Idle => prop_assert_eq!(queue.waiting(), 0),
                },
                Op::Ready(n) if !flying.is_empty() => {
                    let host = flying.swap_remove(n % flying.len());
                    given.insert(host, queue.child_ready(host, at(now)).unwrap().hosts);
                    up.push(host);
                }
                Op::Fail(n, retry) if !flying.is_empty() => {
                    let host = flying.swap_remove(n % flying.len());
                    let retry = retry.map_or(Retry::Never, |millis| Retry::After(MS(millis)));
                    gone += u32::from(retry == Retry::Never);
                    queue.child_failed(host, at(now), retry).unwrap();
                }
                Op::Lose(n) if !up.is_empty() => {
                    let host = up.swap_remove(n % up.len());
                    let share = queue.child_lost(host).unwrap();
                    prop_assert_eq!(Some(share.clone()), given.remove(&host));
                    queue.requeue(host, at(now));
                    share.iter().for_each(|&host| queue.requeue(host, at(now)));
                }
                Op::Seq(nanos) => queue.observe_seq(Duration::from_nanos(nanos)),
                Op::Ready(_) | Op::Fail(..) | Op::Lose(_) => {}
            }
            let handed: usize = given.values().map(Vec::len).sum();
            let known = queue.waiting() + flying.len() + up.len() + handed;
            prop_assert_eq!(known as u32 + gone, hosts);
            prop_assert_eq!(queue.in_flight(), flying.len());
        }
    }
}
