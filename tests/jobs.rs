//! Running jobs of other launchers than `srun`, and of libi: what is read of them, daemons beside them, and jobs that are
//! launched under control.
//!
//! Those of `srun` are in `slurm/attaching.rs`, and other processes in the tests of libi-job.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "jobs/controlled.rs"]
mod controlled;
#[path = "jobs/elsewhere.rs"]
mod elsewhere;
#[path = "jobs/hydra.rs"]
mod hydra;
#[path = "jobs/native.rs"]
mod native;
#[path = "jobs/open_mpi.rs"]
mod open_mpi;
#[path = "jobs/sessions.rs"]
mod sessions;
#[path = "jobs/stacks.rs"]
mod stacks;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The process IDs of ranks, as they say themselves: lines of both numbers.
fn said(out: impl Read, processes: u32) -> BTreeMap<u32, i32> {
    let lines = BufReader::new(out).lines().take(processes as usize);
    let entry = |line: String| {
        let (rank, pid) = line.split_once(' ').unwrap();
        (rank.parse().unwrap(), pid.parse().unwrap())
    };
    lines.map(|line| entry(line.unwrap())).collect()
}
