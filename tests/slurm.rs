//! Real processes launched by a real Slurm: everything that members do, inside jobs and outside; on
//! which nodes they run; what is left when a process is killed; and what is said of every launch
//! that Slurm refuses, delays or breaks off.
//!
//! The nodes `s0001`, `s0002` … are those of `libi-testkit/labs/slurm`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "slurm/agents.rs"]
mod agents;
#[path = "slurm/attaching.rs"]
mod attaching;
#[path = "slurm/cancelled.rs"]
mod cancelled;
#[path = "slurm/doctor.rs"]
mod doctor;
#[path = "slurm/jobs.rs"]
mod jobs;
#[path = "slurm/kills.rs"]
mod kills;
#[path = "slurm/laboratory.rs"]
mod laboratory;
#[path = "slurm/launchmon.rs"]
mod launchmon;
#[path = "slurm/likeness.rs"]
mod likeness;
#[path = "slurm/losses.rs"]
mod losses;
#[path = "slurm/nodes.rs"]
mod nodes;
#[path = "slurm/placing.rs"]
mod placing;
#[path = "slurm/refusals.rs"]
mod refusals;
#[path = "slurm/running.rs"]
mod running;
#[allow(dead_code, reason = "tests/launchmon.rs uses all of it")]
#[path = "launchmon/scene.rs"]
mod scene;
#[path = "slurm/talking.rs"]
mod talking;
#[path = "slurm/verdicts.rs"]
mod verdicts;

use std::time::Duration;

use libi::{Backend, LaunchOptions};

/// How long a launch may take on a machine that does much else. What is to fail in time has
/// deadlines of its own.
const TIMEOUT: Duration = Duration::from_secs(120);

fn options(backend: impl Into<Backend>) -> LaunchOptions {
    LaunchOptions::local().backend(backend.into()).deadline(TIMEOUT).loopback(true)
}
