//! Launches of one launcher, whose hellos are delayed by the turns they wait for.

use super::likelihood::fifo_ends;
use super::*;
use crate::cost::Cost;
use crate::sim::rng::Rng;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Launches of one launcher.
struct Scenario {
    discipline: Discipline,
    /// The time between starts, and the length of a turn.
    apart: Duration,
    seq: Duration,
    /// The relative spread of REM, which is 172 ms.
    varies: f64,
    assumed: Duration,
    /// One launch in this many is never answered.
    silent: usize,
}

const SHELLS: Scenario = Scenario {
    discipline: Discipline::Fifo,
    apart: Duration::from_millis(2),
    seq: Duration::from_millis(7),
    varies: 0.0,
    assumed: Duration::from_millis(3),
    silent: usize::MAX,
};

impl Scenario {
    /// The estimate after `count` launches.
    fn estimate(&self, count: usize) -> Cost {
        let mut estimate = Estimate::assumed(&Cost::new(self.assumed, MS(172)));
        // The parent of this launcher has measured one.
        estimate.observe_rem(MS(172));
        let mut turns = TurnEstimator::new(estimate);
        let starts: Vec<f64> = (0..count).map(|i| self.apart.as_secs_f64() * i as f64).collect();
        let mut ends = Vec::new();
        match self.discipline {
            Discipline::Fifo => fifo_ends(&starts, self.seq.as_secs_f64(), &mut ends),
            Discipline::Sharing => sharing_ends(&starts, self.seq.as_secs_f64(), &mut ends),
            Discipline::Places(_) => unreachable!(),
        }
        let mut rng = Rng::new(1);
        let at = |seconds: f64| Instant::from_nanos((seconds * 1e9).round() as u64);
        estimate.observe_seq(Duration::from_micros(300));
        turns.observe_seq(Duration::from_micros(300));
        let mut happens: Vec<(Instant, usize, bool)> = Vec::new();
        for (i, (start, end)) in starts.iter().zip(&ends).enumerate() {
            happens.push((at(*start), i, false));
            let rem = 0.172 * (1.0 + self.varies * (2.0 * rng.unit() - 1.0));
            if i % self.silent != self.silent - 1 {
                happens.push((at(end - self.seq.as_secs_f64() + rem), i, true));
            }
        }
        happens.sort();
        for (now, i, is_hello) in happens {
            let (host, started) = (HostIndex(i as u32), at(starts[i]));
            if !is_hello {
                turns.start(host, now, &estimate);
            } else if turns.answer(started, host, now.since(started).as_nanos() as u64) {
                turns.estimate(&mut estimate, None, |_, _| false);
            }
        }
        estimate.cost()
    }

    fn check(&self, count: usize, seq: core::ops::Range<u64>, rem: core::ops::Range<u64>) {
        let cost = self.estimate(count);
        assert!((MS(seq.start)..MS(seq.end)).contains(&cost.seq), "{cost:?}");
        assert!((MS(rem.start)..MS(rem.end)).contains(&cost.rem), "{cost:?}");
    }
}

#[test]
fn hellos_of_those_that_waited_tell_how_long_a_turn_is_and_rem_is_without_the_wait() {
    SHELLS.check(10, 6..8, 165..180);
    Scenario { assumed: MS(21), ..SHELLS }.check(10, 6..8, 165..180);
    Scenario { apart: Duration::ZERO, ..SHELLS }.check(10, 6..8, 165..180);
}

#[test]
fn processor_sharing_is_told_from_waiting_for_a_lock() {
    let sharing_ends = Scenario { discipline: Discipline::Sharing, ..SHELLS };
    sharing_ends.check(30, 6..8, 160..185);
    Scenario { apart: Duration::ZERO, ..sharing_ends }.check(30, 6..8, 160..185);
}

#[test]
fn turns_show_through_rems_that_vary_by_half() {
    Scenario { varies: 0.5, ..SHELLS }.check(40, 5..10, 130..210);
}

#[test]
fn those_that_are_never_answered_have_had_their_turn() {
    Scenario { silent: 3, ..SHELLS }.check(20, 6..8, 165..180);
}

#[test]
fn if_no_launch_waits_the_estimate_remains_as_long_as_it_agrees() {
    let unhurried = Scenario { apart: MS(10), ..SHELLS };
    assert_eq!(unhurried.estimate(20), Cost::new(MS(3), MS(172)), "nothing contradicts it");
    Scenario { assumed: MS(30), ..unhurried }.check(20, 5..12, 165..180);
}

#[test]
fn more_launches_than_are_remembered_leave_it_right() {
    Scenario { apart: MS(6), ..SHELLS }.check(200, 6..8, 150..195);
    Scenario { apart: MS(7), assumed: MS(7), silent: 2, ..SHELLS }.check(2_500, 6..8, 165..180);
}

#[test]
fn launches_that_each_follow_an_answer_do_not_look_like_a_queue() {
    // Four in flight, none of which waits: an answer every 80 ms or so. Noise has moved the estimate
    // there, and with it the time until which launches were expected to queue.
    let mut estimate = Estimate::assumed(&Cost::new(MS(80), MS(40)));
    estimate.observe_seq(Duration::from_micros(300));
    let mut turns = TurnEstimator::new(estimate);
    turns.observe_seq(Duration::from_micros(300));
    turns.free_from = Instant::ZERO + MS(5_000);
    let mut rng = Rng::new(1);
    let took = |rng: &mut Rng| MS(320).mul_f64(0.5 + rng.unit());
    let mut open: Vec<(Instant, Instant, HostIndex)> = Vec::new();
    for host in (0..1_000).map(HostIndex) {
        let now = if open.len() < 4 {
            Instant::ZERO
        } else {
            open.sort();
            let (now, started, host) = open.remove(0);
            turns.answer(started, host, now.since(started).as_nanos() as u64);
            turns.estimate(&mut estimate, None, |_, _| false);
            now
        };
        turns.start(host, now, &estimate);
        open.push((now + took(&mut rng), now, host));
    }
    let cost = estimate.cost();
    assert!(cost.seq < MS(30) && cost.rem > MS(250), "{cost:?}");
}

/// A launcher with so many places, each of which is free again when its launch is answered, up to a
/// half sooner or later than after 172 ms. All launches are started 7 ms apart.
fn with_places(places: usize, varies: f64, count: usize) -> (TurnEstimator, Estimate, Vec<Instant>) {
    let mut estimate = Estimate::assumed(&Cost::new(MS(7), MS(172)));
    estimate.observe_seq(Duration::from_micros(300));
    let mut turns = TurnEstimator::new(estimate);
    turns.observe_seq(Duration::from_micros(300));
    let started = |i: usize| Instant::ZERO + MS(7) * i as u32;
    let mut rng = Rng::new(1);
    let mut free = alloc::vec![Instant::ZERO; places];
    let mut answers: Vec<(Instant, usize)> = Vec::new();
    let mut expected = Vec::new();
    for i in 0..count {
        free.sort();
        let turn = free[0].max(started(i));
        expected.push(turn);
        free[0] = turn + MS(172).mul_f64(1.0 + varies * (2.0 * rng.unit() - 1.0));
        answers.push((free[0], i));
    }
    free.sort();
    expected.push(free[0]);
    for i in 0..count {
        turns.start(HostIndex(i as u32), started(i), &estimate);
    }
    answers.sort();
    let mut answered = alloc::vec![false; count];
    for (now, i) in answers {
        answered[i] = true;
        let passed = answered.iter().rposition(|answered| *answered).map(started);
        turns.answer(started(i), HostIndex(i as u32), now.since(started(i)).as_nanos() as u64);
        turns.estimate(&mut estimate, passed, |_, host| !answered[host.0 as usize]);
    }
    (turns, estimate, expected)
}

#[test]
fn launches_that_hold_their_places_until_they_are_answered_show_how_many_places_there_are() {
    for places in [2, 3, 4, 8] {
        let (turns, estimate, expected) = with_places(places, 0.0, 6 * places);
        let (found, cost) = (estimate.places().map(|places| usize::from(places.get())), estimate.cost());
        assert!((MS(171)..MS(173)).contains(&cost.rem), "{places}: {cost:?}");
        assert_eq!(found, Some(places));
        let seq = MS(172) / places as u32;
        assert!(cost.seq > seq.mul_f64(0.99) && cost.seq < seq.mul_f64(1.01), "{places}: {cost:?}");
        let close =
            |(turn, expected): (Instant, &Instant)| turn.since(*expected).max(expected.since(turn)) < MS(2);
        assert!(turns.iter().map(|(.., turn)| turn).zip(&expected).all(close), "{places} places");
        let free = turns.next_free(&estimate).as_nanos().abs_diff(expected.last().unwrap().as_nanos());
        assert!(Duration::from_nanos(free) < MS(2), "{places}: free {free} ns beside the time");
    }
}

#[test]
fn places_show_through_launches_that_vary_by_half() {
    for places in [2, 4] {
        let (_, estimate, _) = with_places(places, 0.5, 8 * places);
        let (found, seq) = (estimate.places(), estimate.cost().seq.as_secs_f64() * places as f64 / 0.172);
        assert!((0.7..1.4).contains(&seq), "{places}: {seq:.2} of SEQ, {found:?}");
    }
}

#[test]
fn what_is_known_of_places_goes_to_the_children() {
    let (_, estimate, _) = with_places(4, 0.0, 24);
    let mut child = TurnEstimator::new(estimate);
    let turns = (0..9).map(|i| child.start(HostIndex(i), Instant::ZERO, &estimate).as_nanos() / 1_000_000);
    let turns: Vec<u64> = turns.collect();
    assert_eq!(turns, [0, 0, 0, 0, 172, 172, 172, 172, 344]);
    let next = child.slot_without(3, &estimate).as_nanos() / 1_000_000;
    assert_eq!(next, 172, "without those that wait longest");
    let mut parent = TurnEstimator::new(Estimate::assumed(&Cost::new(MS(7), MS(172))));
    assert!(parent.adopt(&estimate));
    let mut own = estimate;
    parent.estimate(&mut own, None, |_, _| true);
    assert_eq!(own.places(), estimate.places());
}

#[test]
fn absurd_times_do_no_harm() {
    let far = Instant::FAR_FUTURE;
    for assumed in [Duration::ZERO, Duration::MAX] {
        let mut estimate = Estimate::assumed(&Cost::new(assumed, assumed));
        let mut turns = TurnEstimator::new(estimate);
        for (host, at) in [(1, Instant::ZERO), (2, Instant::ZERO), (3, far), (4, far)] {
            turns.start(HostIndex(host), at, &estimate);
            turns.answer(at, HostIndex(host), u64::MAX >> host);
            turns.estimate(&mut estimate, None, |_, _| false);
        }
    }
}

#[test]
fn the_logarithm_is_one() {
    for x in [1e-9, 0.3, 1.0, 1.5, 2.0, 1e12] {
        assert!((ln(x) - f64::ln(x)).abs() < 1e-5, "{x}");
    }
}
