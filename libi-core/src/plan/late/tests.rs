//! The queue by itself, call by call. Whole launches are tested where they are simulated.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::cost::Cost;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn at(millis: u64) -> Instant {
    Instant::ZERO + MS(millis)
}

fn queue(hosts: u32, seq: u64, rem: u64) -> Queue {
    Queue::new((1..=hosts).map(HostIndex).collect(), Estimate::assumed(&Cost::new(MS(seq), MS(rem))))
}

fn launch(queue: &mut Queue, millis: u64) -> Launch {
    match queue.next(at(millis)) {
        Next::Launch(launch) => launch,
        other => panic!("{other:?} where a launch was expected"),
    }
}

fn rem(queue: &Queue) -> Duration {
    queue.estimate().cost().rem
}

#[test]
fn a_child_takes_what_it_can_have_up_by_the_time_everything_can_be() {
    // Ten hosts at SEQ 10, REM 100. One is launched at 0 and ready at 100; nine others have been
    // launched by then, had the launcher gone on; here it has been held up, and eight are left.
    let mut queue = queue(10, 10, 100);
    let first = launch(&mut queue, 0);
    launch(&mut queue, 90);
    // Slot and child are both free at 100, so each takes half: up at 200, 210, 220, 230.
    let share = queue.child_ready(first, at(100)).unwrap();
    assert_eq!(share.hosts, (7..=10).map(HostIndex).collect());
    assert_eq!(queue.waiting(), 4);
}

#[test]
fn the_example_of_the_module_is_true() {
    let mut queue = queue(8, 7, 10);
    let first = launch(&mut queue, 0);
    launch(&mut queue, 7);
    assert_eq!(queue.child_ready(first, at(10)).unwrap().hosts.len(), 3);
}

#[test]
fn a_host_that_is_silent_holds_nothing_but_its_own_launch() {
    let mut queue = queue(3, 10, 100);
    let silent = launch(&mut queue, 0);
    let (second, third) = (launch(&mut queue, 10), launch(&mut queue, 20));
    assert_eq!(queue.next(at(30)), Next::Idle);
    for (launch, millis) in [(second, 110), (third, 120)] {
        assert!(queue.child_ready(launch, at(millis)).unwrap().hosts.is_empty());
    }
    assert_eq!((queue.in_flight(), queue.waiting()), (1, 0));
    queue.child_failed(silent, at(5_000), Retry::Never).unwrap();
    assert_eq!((queue.in_flight(), queue.next(at(5_000))), (0, Next::Idle));
}

#[test]
fn nothing_is_expected_of_a_launch_that_is_silent_and_little_of_one_that_is_overdue() {
    // How much a child is given while an earlier launch of this age has not been answered.
    let given = |age: u64| {
        let mut queue = queue(1_000, 7, 100);
        let (first, second) = (launch(&mut queue, 1_000 - age), launch(&mut queue, 1_000));
        let share = queue.child_ready(second, at(1_100)).unwrap().hosts.len();
        assert_eq!(queue.child_ready(first, at(1_101)).map(|_| ()), Ok(()), "it may still answer");
        share
    };
    let (due, overdue, silent) = (given(0), given(60), given(500));
    assert!(due < overdue && overdue < silent, "{due} {overdue} {silent}");
    assert_eq!(given(500), given(600), "what is not expected makes no difference");
}

#[test]
fn a_failed_host_is_launched_again_when_its_back_off_has_ended() {
    let mut queue = queue(1, 10, 100);
    let first = launch(&mut queue, 0);
    queue.child_failed(first, at(50), Retry::After(MS(30))).unwrap();
    assert_eq!(queue.next(at(60)), Next::WaitUntil(at(80)));
    assert_eq!((queue.waiting(), queue.in_flight()), (1, 0));
    let second = launch(&mut queue, 80);
    assert_eq!(second.host, first.host);
    assert!(second.attempt > first.attempt);
}

#[test]
fn back_offs_that_have_ended_are_launched_first_in_the_order_of_their_ends() {
    let mut queue = queue(5, 10, 100);
    let launches: [_; 4] = core::array::from_fn(|i| launch(&mut queue, i as u64));
    for (launch, back_off) in launches.iter().zip([3, 1, 4, 2]) {
        queue.child_failed(*launch, at(10), Retry::After(MS(back_off))).unwrap();
    }
    let order: [_; 5] = core::array::from_fn(|_| launch(&mut queue, 100).host.0);
    assert_eq!(order, [2, 4, 1, 3, 5]);
}

#[test]
fn a_host_in_back_off_is_in_no_share_and_afterwards_keeps_its_number() {
    let mut queue = queue(3, 10, 100);
    let (failed, ready, third) = (launch(&mut queue, 0), launch(&mut queue, 10), launch(&mut queue, 20));
    queue.child_failed(failed, at(50), Retry::After(MS(65))).unwrap();
    assert!(queue.child_ready(ready, at(110)).unwrap().hosts.is_empty());
    let share = queue.child_ready(third, at(120)).unwrap();
    assert_eq!(share.hosts, core::iter::once(failed.host).collect(), "its back-off has ended");
    let mut child = Queue::from_share(share);
    let again = launch(&mut child, 121);
    assert_eq!((again.host, again.attempt), (failed.host, Attempt::default().after_failure()));
}

#[test]
fn a_hello_of_an_earlier_attempt_is_refused() {
    let mut queue = queue(1, 10, 100);
    let first = launch(&mut queue, 0);
    queue.child_failed(first, at(5_000), Retry::After(MS(1))).unwrap();
    assert_eq!(queue.child_ready(first, at(5_000)), Err(QueueError::NotInFlight(first)), "backing off");
    let second = launch(&mut queue, 5_001);
    assert_eq!(queue.child_ready(first, at(5_002)), Err(QueueError::NotInFlight(first)));
    assert_eq!(queue.child_failed(first, at(5_002), Retry::Never), Err(QueueError::NotInFlight(first)));
    assert!(queue.child_ready(second, at(5_101)).is_ok());
    assert_eq!(rem(&queue), MS(100), "and measures nothing");
}

#[test]
fn losing_a_child_returns_exactly_what_it_was_given() {
    let mut queue = queue(100, 10, 20);
    let first = launch(&mut queue, 0);
    let share = queue.child_ready(first, at(20)).unwrap();
    assert!(!share.hosts.is_empty());
    let left = queue.waiting();
    assert_eq!(queue.child_lost(first.host), Ok(share.clone()));
    assert_eq!(queue.child_lost(first.host), Err(QueueError::NotUp(first.host)), "a child is lost once");
    for host in share.hosts.iter().chain([first.host]) {
        queue.requeue(Launch { host, attempt: Attempt::default() }, at(30)).unwrap();
    }
    assert_eq!(queue.waiting(), left + share.hosts.len() + 1);
    let again = launch(&mut queue, 40);
    assert_eq!(again.attempt, Attempt::default().after_loss());
    assert!(again.attempt > Attempt { failed: 9, ..Attempt::default() }, "whatever the lost child has tried");
}

#[test]
fn a_host_that_is_given_up_below_a_child_is_not_lost_with_it_and_may_be_queued_again() {
    let mut queue = queue(10, 10, 100);
    let first = launch(&mut queue, 0);
    let share = queue.child_ready(first, at(100)).unwrap();
    let given_up = share.hosts.iter().nth(1).unwrap();
    assert!(queue.remove_from_share(first.host, given_up));
    assert!(!queue.remove_from_share(first.host, given_up) && !queue.remove_from_share(given_up, first.host));
    let before = Launch { host: given_up, attempt: Attempt::default() };
    assert!(queue.requeue(before, at(200)).is_ok());
    let lost = queue.child_lost(first.host).unwrap();
    assert_eq!(lost.hosts.len(), share.hosts.len() - 1);
    assert!(!lost.hosts.contains(given_up));
}

#[test]
fn a_share_that_was_decided_in_advance_takes_nothing_from_the_queue_and_is_lost_with_its_child() {
    let mut queue = queue(3, 10, 100);
    let first = launch(&mut queue, 0);
    let below: HostRuns = (10..20).map(HostIndex).collect();
    let share = queue.child_ready_with(first, at(70), below.clone()).unwrap();
    assert_eq!((share.hosts, queue.waiting()), (below.clone(), 2));
    assert_eq!(rem(&queue), MS(90), "it is measured all the same");
    assert_eq!(queue.child_ready_with(first, at(80), HostRuns::new()), Err(QueueError::NotInFlight(first)));
    assert_eq!(queue.child_lost(first.host).unwrap().hosts, below);
}

#[test]
fn a_host_cannot_be_queued_where_it_already_is() {
    let mut queue = queue(100, 10, 20);
    let (up, flying) = (launch(&mut queue, 0), launch(&mut queue, 10));
    let share = queue.child_ready(up, at(20)).unwrap();
    let backing_off = launch(&mut queue, 20);
    queue.child_failed(backing_off, at(21), Retry::After(MS(50))).unwrap();
    let given = share.hosts.iter().next().unwrap();
    let before = (queue.waiting(), queue.in_flight());
    for host in [up.host, flying.host, backing_off.host, given, HostIndex(4)] {
        let launch = Launch { host, attempt: Attempt::default() };
        assert_eq!(queue.requeue(launch, at(30)), Err(QueueError::AlreadyHere(host)));
    }
    assert_eq!((queue.waiting(), queue.in_flight()), before);
}

#[test]
fn a_host_that_is_named_twice_is_launched_once() {
    let twice = [1, 2, 1].map(HostIndex).into_iter().collect();
    let mut queue = Queue::new(twice, Estimate::assumed(&Cost::new(MS(10), MS(100))));
    launch(&mut queue, 0);
    launch(&mut queue, 10);
    assert_eq!(queue.next(at(20)), Next::Idle);
}

#[test]
fn calls_that_do_not_fit_a_host_are_refused_and_change_nothing() {
    let mut queue = queue(2, 10, 100);
    let known = launch(&mut queue, 0);
    let stranger = Launch { host: HostIndex(77), ..known };
    assert_eq!(queue.child_ready(stranger, at(1)), Err(QueueError::NotInFlight(stranger)));
    assert_eq!(queue.child_failed(stranger, at(1), Retry::Never), Err(QueueError::NotInFlight(stranger)));
    assert_eq!(queue.child_lost(known.host), Err(QueueError::NotUp(known.host)), "it never was up");
    queue.child_ready(known, at(100)).unwrap();
    assert_eq!(queue.child_ready(known, at(101)), Err(QueueError::NotInFlight(known)));
}

#[test]
fn an_answer_counts_only_when_those_before_it_have_answered() {
    let mut queue = queue(3, 10, 100);
    let (slow, fast, _) = (launch(&mut queue, 0), launch(&mut queue, 10), launch(&mut queue, 20));
    queue.child_ready(fast, at(60)).unwrap();
    assert_eq!(rem(&queue), MS(100), "the launch before may be slower");
    queue.child_ready(slow, at(150)).unwrap();
    // The word weighs as much as two measurements: (2 * 100 + 150 + 50) / 4.
    assert!(rem(&queue).abs_diff(MS(100)) < Duration::from_micros(1), "{:?}", rem(&queue));
}

#[test]
fn an_answer_counts_when_those_before_it_have_failed_or_are_silent() {
    let mut failing = queue(2, 10, 100);
    let (failed, answered) = (launch(&mut failing, 0), launch(&mut failing, 10));
    failing.child_ready(answered, at(70)).unwrap();
    assert_eq!(rem(&failing), MS(100));
    failing.child_failed(failed, at(75), Retry::Never).unwrap();
    let counted = (MS(100) * 2 + MS(60)) / 3;
    assert!(rem(&failing).abs_diff(counted) < Duration::from_micros(1), "{:?}", rem(&failing));

    let mut silent = queue(2, 10, 100);
    launch(&mut silent, 0);
    let answered = launch(&mut silent, 300);
    silent.child_ready(answered, at(360)).unwrap();
    assert_eq!(rem(&silent), rem(&failing));
}

#[test]
fn a_dead_first_host_does_not_keep_a_wrong_word_alive() {
    let mut queue = queue(20, 7, 10_000);
    let launches: [_; 20] = core::array::from_fn(|i| launch(&mut queue, 7 * i as u64));
    for (i, launch) in launches.iter().enumerate().skip(1) {
        queue.child_ready(*launch, at(7 * i as u64 + 172 + 300 * u64::from(i == 19))).unwrap();
    }
    assert!(rem(&queue) < MS(300), "{:?}", rem(&queue));
}

#[test]
fn measured_slots_change_what_a_child_is_given() {
    let given = |measured: Option<u64>| {
        let mut queue = queue(1_000, 10, 100);
        let first = launch(&mut queue, 0);
        launch(&mut queue, 95);
        if let Some(millis) = measured {
            queue.observe_seq(MS(millis));
        }
        queue.child_ready(first, at(100)).unwrap().hosts.len()
    };
    assert_ne!(given(None), given(Some(90)), "a launcher that is slow to launch keeps another part");
    assert_eq!(given(None), given(Some(10)));
}

#[test]
fn a_launcher_that_may_have_few_in_flight_keeps_little() {
    let given = |window: Option<usize>| {
        let mut queue = queue(1_000, 10, 100);
        let first = launch(&mut queue, 0);
        window.into_iter().for_each(|window| queue.set_window(window));
        queue.child_ready(first, at(100)).unwrap().hosts.len()
    };
    assert_eq!(given(Some(10)), given(None), "ten in flight keep it busy");
    assert!(given(Some(2)) > given(Some(10)) + 50, "{} {}", given(Some(2)), given(Some(10)));
}

#[test]
fn a_launcher_that_can_launch_no_more_leaves_all_to_its_children() {
    let mut queue = queue(103, 10, 100);
    let [first, second, third] = [0, 10, 20].map(|millis| launch(&mut queue, millis));
    let mut given = |launch: Launch, millis| {
        queue.child_ready_of_full(launch, at(millis)).map(|share| share.hosts.len()).unwrap()
    };
    let (one, two) = (given(first, 100), given(second, 110));
    assert!(one >= two && (30..50).contains(&one) && (25..40).contains(&two), "{one} {two}");
    // The third is not expected any more, or else it would be the last.
    assert_eq!(given(third, 1_000), 100 - one - two);
}

#[test]
fn a_host_that_is_kept_is_never_given_away_and_launched_first() {
    let mut queue = queue(10, 10, 100);
    queue.keep(HostIndex(1));
    let [kept, second, third] = [0, 10, 20].map(|millis| launch(&mut queue, millis));
    queue.child_failed(kept, at(90), Retry::After(MS(5))).unwrap();
    assert!(!queue.child_ready_of_full(second, at(100)).unwrap().hosts.contains(kept.host));
    assert!(!queue.give_waiting_to(second.host).unwrap().hosts.contains(kept.host));
    let again = launch(&mut queue, 110);
    assert_eq!(again.host, kept.host);
    queue.child_ready(again, at(120)).unwrap();
    queue.child_lost(kept.host).unwrap();
    queue.adopt(Launch { attempt: Attempt::default().after_loss(), ..kept }, None).unwrap();
    assert!(queue.child_ready_of_full(third, at(130)).unwrap().hosts.is_empty());
    assert_eq!(queue.give_up_waiting().map(|launch| launch.host).collect::<Vec<_>>(), [kept.host]);
}

#[test]
fn launches_that_wait_for_their_turn_are_expected_after_it() {
    // Ten starts at once have their turns one after the other: the tenth is where it would be
    // with starts 10 ms apart.
    let given = |apart: u64| {
        let mut queue = queue(1_000, 10, 100);
        let launches: [_; 10] = core::array::from_fn(|i| launch(&mut queue, apart * i as u64));
        queue.child_ready(launches[0], at(100)).unwrap().hosts.len()
    };
    assert_eq!(given(0), given(10));
}

#[test]
fn a_child_that_knows_nothing_yet_is_corrected_and_one_that_does_is_not() {
    let (mut knows, mut child) = (queue(20, 3, 100), queue(20, 3, 100));
    let launches: [_; 12] = core::array::from_fn(|_| launch(&mut knows, 0));
    for (i, launch) in (0..).zip(launches) {
        knows.child_ready(launch, at(100 + 9 * i)).unwrap();
    }
    let share = |queue: &Queue| Share {
        hosts: HostRuns::new(),
        attempts: BTreeMap::new(),
        estimate: queue.estimate(),
    };
    let (right, wrong) = (share(&knows), share(&child));
    launch(&mut child, 0);
    child.accept(right.clone());
    assert_eq!(child.estimate().cost().seq, right.estimate.cost().seq);
    knows.accept(wrong);
    assert_eq!(knows.estimate(), right.estimate);
    assert!((MS(8)..MS(10)).contains(&right.estimate.cost().seq), "{:?}", right.estimate);
}

#[test]
fn a_share_with_an_estimate_of_its_own_changes_nothing() {
    let mut queue = queue(20, 3, 100);
    let first = launch(&mut queue, 0);
    queue.child_ready(first, at(400)).unwrap();
    let cost = queue.estimate().cost();
    assert_eq!(cost.seq, MS(6), "slower than assumed, as the answer was");
    for _ in 0..9 {
        let own = Share { hosts: HostRuns::new(), attempts: BTreeMap::new(), estimate: queue.estimate() };
        queue.accept(own);
        assert_eq!(queue.estimate().cost(), cost);
    }
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
        let (mut flying, mut up, mut gone): (Vec<Launch>, Vec<Launch>, u32) = Default::default();
        let mut given = BTreeMap::new();
        let mut newest: BTreeMap<HostIndex, Attempt> = BTreeMap::new();
        let mut now = 0;
        for (op, later) in ops {
            now += later;
            match op {
                Op::Next => match queue.next(at(now)) {
                    Next::Launch(launch) => {
                        prop_assert!(flying.iter().chain(&up).all(|other| other.host != launch.host));
                        if let Some(before) = newest.insert(launch.host, launch.attempt) {
                            prop_assert!(before < launch.attempt);
                        }
                        flying.push(launch);
                    }
                    Next::WaitUntil(then) => prop_assert!(then > at(now)),
                    Next::Idle => prop_assert_eq!(queue.waiting(), 0),
                },
                Op::Ready(n) if !flying.is_empty() => {
                    let launch = flying.swap_remove(n % flying.len());
                    given.insert(launch.host, queue.child_ready(launch, at(now)).unwrap());
                    up.push(launch);
                }
                Op::Fail(n, retry) if !flying.is_empty() => {
                    let launch = flying.swap_remove(n % flying.len());
                    let retry = retry.map_or(Retry::Never, |millis| Retry::After(MS(millis)));
                    gone += u32::from(retry == Retry::Never);
                    queue.child_failed(launch, at(now), retry).unwrap();
                }
                Op::Lose(n) if !up.is_empty() => {
                    let lost = up.swap_remove(n % up.len());
                    let share = queue.child_lost(lost.host).unwrap();
                    prop_assert_eq!(Some(share.clone()), given.remove(&lost.host));
                    queue.requeue(lost, at(now)).unwrap();
                    for host in share.hosts.iter() {
                        let attempt = share.attempts.get(&host).copied().unwrap_or_default();
                        queue.requeue(Launch { host, attempt }, at(now)).unwrap();
                    }
                }
                Op::Seq(nanos) => queue.observe_seq(Duration::from_nanos(nanos)),
                Op::Ready(_) | Op::Fail(..) | Op::Lose(_) => {}
            }
            let handed: usize = given.values().map(|share| share.hosts.len()).sum();
            let known = queue.waiting() + flying.len() + up.len() + handed;
            prop_assert_eq!(known as u32 + gone, hosts);
            prop_assert_eq!(queue.in_flight(), flying.len());
        }
    }
}
