//! Running jobs of other launchers than `srun`, and of libi: what is read of them, daemons beside them, and jobs that are
//! launched under control.
//!
//! Those of `srun` are in `slurm/attaching.rs`, and other processes in the tests of libi-job.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "jobs/beside.rs"]
mod beside;
#[path = "jobs/controlled.rs"]
mod controlled;
#[path = "jobs/elsewhere.rs"]
mod elsewhere;
#[path = "jobs/hydra.rs"]
mod hydra;
#[path = "jobs/launchers.rs"]
mod launchers;
#[path = "jobs/native.rs"]
mod native;
#[path = "jobs/open_mpi.rs"]
mod open_mpi;
#[path = "jobs/sessions.rs"]
mod sessions;
#[path = "jobs/stacks.rs"]
mod stacks;
#[path = "jobs/watching.rs"]
mod watching;

use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
