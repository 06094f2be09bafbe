//! Real processes launched through a real sshd: everything that members do, whatever their users'
//! shells print; what is left when a process is killed; servers that refuse; and what is said of a
//! launch that fails.
//!
//! The servers are those of `libi-testkit/labs/sshd`, for which every address of 127.0.0.0/8 is a host of
//! its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "sshd/agents.rs"]
mod agents;
#[path = "sshd/clush.rs"]
mod clush;
#[path = "sshd/failures.rs"]
mod failures;
#[path = "sshd/kills.rs"]
mod kills;
#[path = "sshd/limits.rs"]
mod limits;
#[path = "sshd/shells.rs"]
mod shells;
#[path = "sshd/talking.rs"]
mod talking;

use std::time::Duration;

use libi::{Backend, LaunchOptions};

/// How long a launch may take on a machine that does much else. What is to fail in time has
/// deadlines of its own.
const TIMEOUT: Duration = Duration::from_secs(120);

fn options(backend: Backend) -> LaunchOptions {
    LaunchOptions::local().backend(backend).deadline(TIMEOUT).loopback(true)
}
