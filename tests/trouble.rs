//! What happens to the communication of real processes when some are killed or stopped, and how
//! much memory it takes.
//!
//! `LIBI_KILLS` is three times the number of moments for each victim (default 10). `LIBI_SEED` is
//! the seed of the moments.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "trouble/fronts.rs"]
mod fronts;
#[path = "trouble/memory.rs"]
mod memory;
#[path = "trouble/stopped.rs"]
mod stopped;
#[path = "trouble/streams.rs"]
mod streams;

use libi_core::sim::rng::Rng;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Random numbers that follow from the seed alone, which is printed.
fn seeded() -> Rng {
    let seed = number("LIBI_SEED").or_else(|| number("LIBI_SEED_BASE")).unwrap_or(0);
    println!("LIBI_SEED={seed}");
    Rng::new(seed)
}

/// At how many moments a process is killed. Fewer than in other tests, as each takes seconds.
fn moments() -> u64 {
    number("LIBI_KILLS").unwrap_or(10).div_ceil(3)
}
