//! Launches of one launcher, whose hellos come when the turns that they had to wait for say.

use super::*;
use crate::cost::Cost;
use crate::sim::rng::Rng;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Launches of one launcher.
struct Launches {
    order: Order,
    /// How far apart they are started, and what a turn takes.
    apart: Duration,
    seq: Duration,
    /// By how much of itself REM, which is 172 ms, varies.
    varies: f64,
    word: Duration,
    /// Each of so many is never answered.
    silent: usize,
}

const SHELLS: Launches = Launches {
    order: Order::Queue,
    apart: Duration::from_millis(2),
    seq: Duration::from_millis(7),
    varies: 0.0,
    word: Duration::from_millis(3),
    silent: usize::MAX,
};

impl Launches {
    /// What is believed after so many of them.
    fn estimate(&self, count: usize) -> Cost {
        let mut estimate = Estimate::from_word(&Cost::new(self.word, MS(172)));
        // Whoever has launched this launcher has measured one.
        estimate.observe_rem(MS(172));
        let mut turns = Turns::new(estimate);
        let starts: Vec<f64> = (0..count).map(|i| self.apart.as_secs_f64() * i as f64).collect();
        let mut ends = Vec::new();
        match self.order {
            Order::Queue => queued(&starts, self.seq.as_secs_f64(), &mut ends),
            Order::Shared => shared(&starts, self.seq.as_secs_f64(), &mut ends),
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
                turns.estimate(&mut estimate);
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
    Launches { word: MS(21), ..SHELLS }.check(10, 6..8, 165..180);
    Launches { apart: Duration::ZERO, ..SHELLS }.check(10, 6..8, 165..180);
}

#[test]
fn whoever_shares_a_processor_is_told_from_whoever_waits_for_a_lock() {
    let shared = Launches { order: Order::Shared, ..SHELLS };
    shared.check(30, 6..8, 160..185);
    Launches { apart: Duration::ZERO, ..shared }.check(30, 6..8, 160..185);
}

#[test]
fn turns_show_through_rems_that_vary_by_half() {
    Launches { varies: 0.5, ..SHELLS }.check(40, 5..10, 130..210);
}

#[test]
fn those_that_are_never_answered_have_had_their_turn() {
    Launches { silent: 3, ..SHELLS }.check(20, 6..8, 165..180);
}

#[test]
fn if_nobody_waits_the_belief_remains_as_long_as_it_agrees_with_that() {
    let unhurried = Launches { apart: MS(10), ..SHELLS };
    assert_eq!(unhurried.estimate(20), Cost::new(MS(3), MS(172)), "nothing contradicts it");
    Launches { word: MS(30), ..unhurried }.check(20, 5..12, 165..180);
}

#[test]
fn more_launches_than_are_remembered_leave_it_right() {
    Launches { apart: MS(6), ..SHELLS }.check(200, 6..8, 150..195);
    Launches { apart: MS(7), word: MS(7), silent: 2, ..SHELLS }.check(2_500, 6..8, 165..180);
}

#[test]
fn absurd_times_do_no_harm() {
    let far = Instant::FAR_FUTURE;
    for word in [Duration::ZERO, Duration::MAX] {
        let mut estimate = Estimate::from_word(&Cost::new(word, word));
        let mut turns = Turns::new(estimate);
        for (host, at) in [(1, Instant::ZERO), (2, Instant::ZERO), (3, far), (4, far)] {
            turns.start(HostIndex(host), at, &estimate);
            turns.answer(at, HostIndex(host), u64::MAX >> host);
            turns.estimate(&mut estimate);
        }
    }
}

#[test]
fn the_logarithm_is_one() {
    for x in [1e-9, 0.3, 1.0, 1.5, 2.0, 1e12] {
        assert!((ln(x) - f64::ln(x)).abs() < 1e-5, "{x}");
    }
}
