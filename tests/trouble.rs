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

use libi_testkit::kills::seeded;

/// At how many moments a process is killed. Fewer than in other tests, as each takes seconds.
fn moments() -> u64 {
    libi_testkit::kills::moments(10).div_ceil(3)
}
