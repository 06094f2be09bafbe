//! Tests that kill processes at random moments: their seed, how many moments they try, and which.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::sim::rng::Rng;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Random numbers that follow from the seed alone, which is printed: `LIBI_SEED`, else `LIBI_SEED_BASE`.
pub fn seeded() -> Rng {
    let seed = number("LIBI_SEED").or_else(|| number("LIBI_SEED_BASE")).unwrap_or(0);
    println!("LIBI_SEED={seed}");
    Rng::new(seed)
}

/// At how many moments a process is killed: `LIBI_KILLS`, else as many as given.
pub fn moments(default: u64) -> u64 {
    number("LIBI_KILLS").unwrap_or(default)
}

/// A moment of something that lasts so long, or after it.
pub fn moment(lasts: Duration, random: &mut Rng) -> Duration {
    lasts.mul_f64(1.4 * random.unit())
}

/// One of these, if there is one.
pub fn pick<T: Copy>(candidates: &[T], random: &mut Rng) -> Option<T> {
    candidates.get((random.unit() * candidates.len() as f64) as usize).copied()
}

/// What members have printed of each call, `CALL: how it has ended`, is the same by all that have made it.
/// Returns how many calls there were.
pub fn calls_agree<'a>(printed: impl IntoIterator<Item = (u32, &'a str)>) -> usize {
    let mut calls: BTreeMap<&str, (&str, u32)> = BTreeMap::new();
    for (rank, text) in printed {
        for (call, ended) in text.lines().filter_map(|line| line.split_once(": ")) {
            let (first, by) = calls.entry(call).or_insert((ended, rank));
            assert_eq!(*first, ended, "call {call}, ranks {by} and {rank}");
        }
    }
    calls.len()
}
