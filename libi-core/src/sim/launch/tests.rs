//! Whole launches: late commit against the greedy optimum, and what slow and dead hosts do to either.

use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::plan::{Shape, greedy};
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
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// To the nanosecond, which is the unit: 1e-9 s is the tolerance that was asked for.
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

    /// Whatever fails, everything comes to an end, and late commit loses nobody but the dead.
    #[test]
    fn late_commit_brings_up_every_host_that_is_not_dead(
        n in 1u32..600, seed in any::<u64>(), dead in 0.0..1.0f64, retries in 0u32..3,
        sigma in 0.0..1.5f64, slowness in 1.0..100.0f64,
    ) {
        let mut setup = setup(n, Strategy::Late);
        (setup.dead, setup.retries, setup.slow, setup.slowness) = (dead, retries, 0.1, slowness);
        setup.rem = Spread::LogNormal { median: MS(172), sigma };
        let outcome = setup.run(seed);
        let rng = Rng::new(seed);
        let is_dead = |host: &HostIndex| rng.fork(FATE | u64::from(host.0)).chance(dead);
        let expected: Vec<_> = (1..n).map(HostIndex).filter(is_dead).collect();
        prop_assert_eq!(outcome.lost().collect::<Vec<_>>(), expected.clone());
        let attempts: u32 = outcome.launches().iter().sum();
        prop_assert_eq!(attempts, n - 1 + expected.len() as u32 * retries);
    }
}

#[test]
fn late_commit_beats_static_greedy_when_rem_varies() {
    for n in [1_000, 10_000] {
        let [greedy, late] = [GREEDY, Strategy::Late].map(|strategy| {
            let mut setup = setup(n, strategy);
            setup.rem = Spread::Uniform { middle: MS(172), within: 0.5 };
            median_of_20(&setup)
        });
        assert!(late.as_secs_f64() < 0.9 * greedy.as_secs_f64(), "{n} hosts: {late:?}, {greedy:?}");
    }
}

#[test]
fn dead_hosts_strand_others_in_a_static_tree_and_nobody_under_late_commit() {
    let outcomes = |strategy| {
        let mut setup = setup(1_000, strategy);
        (setup.dead, setup.timeout) = (0.02, MS(3_000));
        (0..20).map(move |seed| setup.run(seed))
    };
    let lost = |strategy| outcomes(strategy).map(|outcome| outcome.lost().count()).sum::<usize>();
    let (greedy, late) = (lost(GREEDY), lost(Strategy::Late));
    assert!(greedy > late * 3 / 2, "{greedy} lost in static trees, {late} of them dead");
    for outcome in outcomes(Strategy::Late) {
        assert!(outcome.launch_time() < MS(700), "the living do not wait for the dead");
        assert!(outcome.settled_time() < MS(700 + 3_000));
    }
}

#[test]
fn a_wrong_word_costs_late_commit_little_once_it_has_measured() {
    let right = nanos(greedy::plan(hosts(1_000), &Cost::new(MS(7), MS(172))).1.launch_time());
    for (seq, rem) in [(1, 172), (50, 172), (7, 20), (7, 2_000)] {
        let mut setup = setup(1_000, Strategy::Late);
        setup.word = Some(Cost::new(MS(seq), MS(rem)));
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
