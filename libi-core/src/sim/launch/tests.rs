//! Whole launches: late commit against the greedy optimum, and the effects of slow and dead hosts
//! on both.

use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::plan::{Shape, greedy};
use crate::testing::cases;
use crate::time::nanos;

const MS: fn(u64) -> Duration = Duration::from_millis;
const GREEDY: Strategy = Strategy::Static(Shape::Greedy);

fn hosts(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn setup(n: u32, strategy: Strategy) -> Setup {
    Setup::new(hosts(n), strategy, &Cost::new(MS(7), MS(172)))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn median_of_20(setup: &Setup) -> Duration {
    median((0..20).map(|seed| setup.run(seed).launch_time()).collect())
}

proptest! {
    #![proptest_config(cases(200))]

    /// The tolerance is one nanosecond.
    #[test]
    fn late_commit_is_as_fast_as_greedy_if_costs_are_constant(
        n in prop_oneof![1u32..100, 1u32..3_000],
        seq in prop_oneof![1u64..50, 1u64..100_000_000],
        rem in prop_oneof![1u64..500, 1u64..3_000_000_000],
    ) {
        let cost = Cost::new(Duration::from_nanos(seq), Duration::from_nanos(rem));
        let late = Setup::new(hosts(n), Strategy::Late, &cost).run(0).launch_time();
        let greedy = greedy::plan(hosts(n), &cost).1.launch_time();
        prop_assert!(nanos(late).abs_diff(nanos(greedy)) <= 1, "{:?} against {:?}", late, greedy);
    }

    #[test]
    fn a_static_tree_without_variation_takes_the_time_of_its_schedule(
        n in 1u32..2_000, seq in 0u64..1_000, rem in 0u64..10_000, k in 1u32..40
    ) {
        let cost = Cost::new(Duration::from_nanos(seq), Duration::from_nanos(rem)).with_constant(MS(3));
        let kary = Shape::Kary(hosts(k));
        for shape in [Shape::Chain, Shape::Flat, kary, Shape::Binomial, Shape::Rdc, Shape::Greedy] {
            let simulated = Setup::new(hosts(n), Strategy::Static(shape), &cost).run(0).launch_time();
            let planned = shape.tree(hosts(n), &cost).schedule(&cost).launch_time();
            prop_assert_eq!(simulated, planned);
        }
    }

    /// Every launch terminates, and late commit loses only dead hosts.
    #[test]
    fn late_commit_brings_up_every_host_that_is_not_dead(
        n in 1u32..600, seed in any::<u64>(), dead in 0.0..1.0f64, retries in 0u16..6,
        seq in 0u64..60, timeout in 80u64..10_000,
    ) {
        let mut setup = setup(n, Strategy::Late);
        (setup.dead, setup.retries, setup.timeout) = (dead, retries, MS(timeout));
        (setup.seq, setup.rem) = (Jitter::Constant(MS(seq)), Jitter::Uniform { middle: MS(50), within: 0.5 });
        let outcome = setup.run(seed);
        let rng = Rng::new(seed);
        let is_dead = |host: &HostIndex| rng.fork(FATE_STREAM | u64::from(host.0)).chance(dead);
        let expected: Vec<_> = (1..n).map(HostIndex).filter(is_dead).collect();
        prop_assert_eq!(outcome.lost().collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(outcome.given_up().count(), expected.len());
        prop_assert_eq!(outcome.stranded().count(), 0);
        let attempts: u32 = outcome.launches().iter().sum();
        prop_assert_eq!(attempts, n - 1 + expected.len() as u32 * u32::from(retries));
    }
}

#[test]
fn late_commit_is_as_fast_as_greedy_for_a_hundred_thousand_hosts_too() {
    for (seq, rem) in [(7, 172), (7, 2_000), (7, 10_000), (30, 5)] {
        let cost = Cost::new(MS(seq), MS(rem));
        let late = Setup::new(hosts(100_000), Strategy::Late, &cost).run(0).launch_time();
        assert_eq!(late, greedy::plan(hosts(100_000), &cost).1.launch_time(), "SEQ {seq} ms, REM {rem} ms");
    }
}

#[test]
fn a_launch_that_takes_longer_than_the_timeout_has_failed_then() {
    for strategy in [Strategy::Late, Strategy::Static(Shape::Flat)] {
        let mut setup = setup(10, strategy);
        setup.rem = Jitter::PerHost([MS(100), MS(100), MS(5_000)].into());
        setup.timeout = MS(1_000);
        let outcome = setup.run(0);
        assert_eq!(outcome.given_up().map(|host| host.0).collect::<Vec<_>>(), [2, 5, 8], "{strategy}");
        assert!(outcome.launch_time() < MS(300));
        assert!((MS(1_000)..MS(1_100)).contains(&outcome.settled_time()));
    }
}

#[test]
fn a_refused_launch_can_go_better_the_next_time() {
    let lost = |retries| {
        let mut setup = setup(500, Strategy::Late);
        (setup.refused, setup.retries) = (0.3, retries);
        setup.run(1).lost().count()
    };
    assert!((100..200).contains(&lost(0)), "{}", lost(0));
    assert!((20..70).contains(&lost(1)), "{}", lost(1));
    assert_eq!(lost(12), 0);
}

#[test]
fn slow_hosts_take_as_many_times_as_long_as_they_were_told() {
    let mut setup = setup(2, Strategy::Static(Shape::Flat));
    (setup.slow, setup.slowness) = (1.0, 3.0);
    assert_eq!(setup.run(0).launch_time(), MS(3 * 172));
}

#[test]
fn each_launch_is_counted_for_the_host_that_makes_it() {
    let outcome = setup(4, Strategy::Static(Shape::Chain)).run(0);
    assert_eq!(outcome.launches(), [1, 1, 1, 0]);
    assert_eq!(setup(4, Strategy::Static(Shape::Flat)).run(0).launches(), [3, 0, 0, 0]);
}

#[test]
fn seq_is_drawn_for_each_launch() {
    let mut setup = setup(3, Strategy::Static(Shape::Flat));
    setup.seq = Jitter::PerHost([MS(0), MS(40), MS(80)].into());
    // The launch of host 1 keeps the root busy for 40 ms, then host 2 takes 172.
    assert_eq!(setup.run(0).launch_time(), MS(40 + 172));
}

#[test]
fn a_chain_of_many_hosts_needs_memory_for_hosts_not_for_pairs_of_them() {
    // Every node hands all the others on. Were shares copied, this would take 40 GB.
    let cost = Cost::new(MS(100), Duration::from_micros(1));
    let outcome = Setup::new(hosts(100_000), Strategy::Late, &cost).run(0);
    assert_eq!(outcome.launch_time(), Duration::from_micros(99_999));
}

#[test]
fn late_commit_beats_static_greedy_when_rem_varies() {
    for n in [1_000, 10_000] {
        let [greedy, late] = [GREEDY, Strategy::Late].map(|strategy| {
            let mut setup = setup(n, strategy);
            setup.rem = Jitter::Uniform { middle: MS(172), within: 0.5 };
            median_of_20(&setup)
        });
        assert!(late.as_secs_f64() < 0.9 * greedy.as_secs_f64(), "{n} hosts: {late:?}, {greedy:?}");
    }
}

#[test]
fn dead_hosts_strand_others_in_a_static_tree_and_none_under_late_commit() {
    let outcomes = |strategy| {
        let mut setup = setup(1_000, strategy);
        (setup.dead, setup.timeout) = (0.02, MS(3_000));
        (0..20).map(move |seed| setup.run(seed))
    };
    let lost = |strategy| outcomes(strategy).map(|outcome| outcome.lost().count()).sum::<usize>();
    let (greedy, late) = (lost(GREEDY), lost(Strategy::Late));
    assert!(greedy > late * 3 / 2, "{greedy} lost in static trees, {late} of them dead");
    assert!(outcomes(GREEDY).map(|outcome| outcome.stranded().count()).sum::<usize>() > late / 2);
    for outcome in outcomes(Strategy::Late) {
        assert!(outcome.launch_time() < MS(700), "the living do not wait for the dead");
        assert!(outcome.settled_time() < MS(700 + 3_000));
    }
}

#[test]
fn a_wrong_assumption_costs_late_commit_little_once_it_has_measured() {
    let right = nanos(greedy::plan(hosts(1_000), &Cost::new(MS(7), MS(172))).1.launch_time());
    for (seq, rem) in [(1, 172), (50, 172), (7, 20), (7, 2_000)] {
        let mut setup = setup(1_000, Strategy::Late);
        setup.assumed = Some(Cost::new(MS(seq), MS(rem)));
        let ratio = nanos(setup.run(0).launch_time()) as f64 / right as f64;
        assert!(ratio < 1.3, "told SEQ {seq} ms and REM {rem} ms: {ratio:.2} times the optimum");
    }
}

#[test]
fn the_tree_that_came_about_has_the_schedule_that_was_seen() {
    for strategy in [Strategy::Late, GREEDY, Strategy::Static(Shape::Rdc)] {
        let setup = setup(500, strategy);
        let (tree, schedule) = setup.run(0).tree().unwrap();
        let cost = Cost::new(MS(7), MS(172));
        assert_eq!(tree.schedule(&cost), schedule, "{strategy}");
    }
}

#[test]
fn a_seed_replays_and_two_strategies_meet_the_same_hosts_under_it() {
    let mut setup = setup(300, Strategy::Late);
    (setup.dead, setup.slow, setup.slowness) = (0.1, 0.1, 5.0);
    assert_eq!(setup.run(9), setup.run(9));
    assert_ne!(setup.run(9), setup.run(10));
    let late: Vec<_> = setup.run(9).lost().collect();
    setup.strategy = Strategy::Static(Shape::Flat);
    assert_eq!(setup.run(9).lost().collect::<Vec<_>>(), late);
}
