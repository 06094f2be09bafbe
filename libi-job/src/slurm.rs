//! Jobs that are named by their number in Slurm.
//!
//! Each step of a Slurm job has an `srun`, which knows both numbers. Those on this machine are looked through:
//!
//! | `srun`s that have launched such a step | next |
//! |---|---|
//! | one | attached to |
//! | none, before the timeout | looked for again: its job may still be in the queue |
//! | none | refused, with those that are here |
//! | several, and no step was named | refused, with these |

use std::time::Duration;

use nix::unistd::Pid;

use crate::attach::Job;
use crate::error::AttachError;
use crate::memory::ProcessMemory;
use crate::pauses::Pauses;
use crate::process::{self, ProcessId};
use crate::variables::Variables;

impl Job {
    /// Finds the processes of a step of a Slurm job, as `123.0`, or of the only step of a job, as `123`, whose
    /// `srun` runs on this machine.
    ///
    /// # Errors
    /// There is no such step here, or there are several; or as for [`attach`](Self::attach).
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// let job = libi_job::Job::attach_to_slurm("123.0", Duration::from_secs(5))?;
    /// # Ok::<(), libi_job::AttachError>(())
    /// ```
    pub fn attach_to_slurm(step: &str, timeout: Duration) -> Result<Self, AttachError> {
        let mut pauses = Pauses::until(timeout);
        loop {
            let here = steps();
            let is_it = |name: &str| name == step || name.split('.').next() == Some(step);
            let found: Vec<&(String, i32)> = here.iter().filter(|(name, _)| is_it(name)).collect();
            match found[..] {
                [(_, pid)] => return Self::attach(*pid, pauses.left()),
                [] if pauses.is_over() => {
                    let here = here.into_iter().map(|(name, _)| name).collect();
                    return Err(AttachError::NoStep { step: step.to_owned(), here });
                }
                [] => pauses.pause(),
                _ => {
                    let here = found.into_iter().map(|(name, _)| name.clone()).collect();
                    return Err(AttachError::ManySteps { job: step.to_owned(), here });
                }
            }
        }
    }
}

/// The steps whose `srun` is on this machine and may be read, and its process ID.
fn steps() -> Vec<(String, i32)> {
    let all = process::all();
    let sruns: Vec<(i32, i32)> = all.into_iter().filter(|(pid, _)| process::name(*pid) == "srun").collect();
    // `srun` forks, and only the first process knows.
    let is_first = |(_, parent): &&(i32, i32)| !sruns.iter().any(|(pid, _)| pid == parent);
    let step = |(pid, _): &(i32, i32)| {
        let variables = Variables::of(&ProcessId::of(*pid)?).ok()?;
        let memory = ProcessMemory(Pid::from_raw(*pid));
        Some((format!("{}.{}", variables.slurm_job(&memory)?, variables.slurm_step(&memory)?), *pid))
    };
    let mut steps: Vec<_> = sruns.iter().filter(is_first).filter_map(step).collect();
    steps.sort();
    steps
}
