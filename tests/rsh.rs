//! Real processes launched through the rsh of Debian and its server: everything that members do,
//! how they end, what is left when a process is killed, which launches are refused or warned about,
//! and what is said of a launch that fails.
//!
//! The servers are those of `libi-testkit/labs/rsh`, for which some addresses of 127.0.0.0/8 are hosts of
//! their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "rsh/ends.rs"]
mod ends;
#[path = "rsh/failures.rs"]
mod failures;
#[path = "rsh/kills.rs"]
mod kills;
#[path = "rsh/plain.rs"]
mod plain;
#[path = "rsh/talking.rs"]
mod talking;

use std::time::Duration;

use libi::{Backend, LaunchOptions};

/// How long a launch may take on a machine that does much else. What is to fail in time has
/// deadlines of its own.
const TIMEOUT: Duration = Duration::from_secs(120);

fn options(backend: Backend) -> LaunchOptions {
    LaunchOptions::local().backend(backend).deadline(TIMEOUT).loopback(true).allow_plain(true)
}
