//! Real processes launched through real sshds on hosts with networks of their own, which can be
//! slow, filtered, lossy, cut or gone: what works there as everywhere, and what is said of what
//! does not.
//!
//! The hosts are those of `libi-testkit/labs/netns`: namespaces, and a network between them in a program of
//! its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "netns/faults.rs"]
mod faults;
#[path = "netns/flat.rs"]
mod flat;
#[path = "netns/keeping.rs"]
mod keeping;
#[path = "netns/links.rs"]
mod links;
#[path = "netns/orphans.rs"]
mod orphans;
#[path = "netns/relays.rs"]
mod relays;
#[path = "netns/scene.rs"]
mod scene;
#[path = "netns/staging.rs"]
mod staging;
#[path = "netns/talking.rs"]
mod talking;
#[path = "netns/wire.rs"]
mod wire;

use std::time::Duration;

use libi::{Backend, LaunchOptions};

/// How long a launch may take on a machine that does much else. What is to fail in time has
/// deadlines of its own.
const TIMEOUT: Duration = Duration::from_secs(120);

fn options(backend: Backend) -> LaunchOptions {
    LaunchOptions::local().backend(backend).deadline(TIMEOUT)
}
