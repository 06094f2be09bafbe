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
