//! What becomes of what real processes say to one another when some of them are killed or stopped, and how much memory it takes.
//!
//! `LIBI_KILLS` is three times how many moments there are for each victim (10 by default), `LIBI_SEED` where they come from.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "trouble/fronts.rs"]
mod fronts;
#[path = "local/lab.rs"]
#[allow(dead_code, reason = "it is shared")]
mod lab;
#[path = "trouble/memory.rs"]
mod memory;
#[path = "member/play.rs"]
#[allow(dead_code, reason = "it is shared")]
mod play;
mod processes;
#[path = "local/roles.rs"]
#[allow(dead_code, reason = "it is shared")]
mod roles;
#[path = "trouble/stopped.rs"]
mod stopped;
#[path = "member/stream.rs"]
#[allow(dead_code, reason = "it is shared")]
mod stream;
#[path = "trouble/streams.rs"]
mod streams;

use libi::sim::rng::Rng;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// What is drawn by chance depends on the seed alone, which is printed.
fn seeded() -> Rng {
    let seed = number("LIBI_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("LIBI_SEED={seed}");
    Rng::new(seed)
}

/// At how many moments something is killed; fewer than elsewhere, as each takes seconds.
fn moments() -> u64 {
    number("LIBI_KILLS").unwrap_or(10).div_ceil(3)
}
