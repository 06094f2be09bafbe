//! The hosts that a resource manager has allocated to the current job.
//!
//! This crate reads neither the environment nor files, so [`job_hosts`] gets two functions that do.
//! If several resource managers have set their variables, the first of this list decides, because
//! compatibility layers imitate the variables of the later ones:
//!
//! 1. **Slurm**: `SLURM_STEP_NODELIST` with `SLURM_STEP_TASKS_PER_NODE`, inside a step that `srun`
//!    started; otherwise `SLURM_JOB_NODELIST`, or its old name `SLURM_NODELIST`, with
//!    `SLURM_TASKS_PER_NODE`. For Slurm, the shell of `sbatch` or of an interactive `salloc` is a
//!    step, too. It sees only its own host, so its step variables are ignored (`SLURM_STEP_ID`
//!    identifies it).
//! 2. **LSF**: `LSB_MCPU_HOSTS`, or else the file named by `LSB_DJOB_HOSTFILE`.
//! 3. **PBS**: the file named by `PBS_NODEFILE`.
//! 4. **Grid Engine**: the file named by `PE_HOSTFILE`.
//!
//! A variable that is empty counts as absent. The parsers are public in their own right.

mod parse;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use parse::{
    parse_grid_engine_hostfile, parse_lsf_hostfile, parse_lsf_mcpu_hosts, parse_pbs_nodefile, parse_slurm,
};

use super::{HostList, HostListError, InputKind};

/// The supported resource managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobSource {
    /// Slurm.
    Slurm,
    /// IBM Spectrum LSF.
    Lsf,
    /// PBS Professional, OpenPBS or Torque.
    Pbs,
    /// Grid Engine and its descendants.
    GridEngine,
}

impl fmt::Display for JobSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JobSource::Slurm => "Slurm",
            JobSource::Lsf => "LSF",
            JobSource::Pbs => "PBS",
            JobSource::GridEngine => "Grid Engine",
        })
    }
}

/// The hosts of the current job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobHosts {
    /// The resource manager.
    pub source: JobSource,
    /// The environment variables that were used.
    pub variables: Vec<&'static str>,
    /// The hosts, with the number of processes allocated on each.
    pub hosts: HostList,
}

/// Why the hosts of a job cannot be determined. `E` is the error of reading a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError<E: core::error::Error + 'static> {
    /// A variable has not the format of its resource manager.
    #[error("{variable}: {error}")]
    EnvVar {
        /// The variable.
        variable: &'static str,
        /// Its text, for [`HostListError::excerpt`].
        value: String,
        /// The mistake.
        #[source]
        error: HostListError,
    },
    /// A file has not the format of its resource manager.
    #[error("{path} (from {variable}): {error}")]
    File {
        /// The variable that names the file.
        variable: &'static str,
        /// The file.
        path: String,
        /// The mistake.
        #[source]
        error: HostListError,
    },
    /// A file cannot be read.
    #[error("{path} (from {variable}) cannot be read: {error}")]
    Unreadable {
        /// The variable that names the file.
        variable: &'static str,
        /// The file.
        path: String,
        /// Why.
        #[source]
        error: E,
    },
}

/// Determines the hosts of the current job; `None` outside a job of a supported resource manager.
///
/// `variable` looks up an environment variable, `read` reads a whole file.
///
/// # Errors
/// The variable or file at fault. No other resource manager is tried then: a job whose own list is
/// broken must not run on the hosts of another.
pub fn job_hosts<E: core::error::Error + 'static>(
    variable: impl Fn(&'static str) -> Option<String>,
    read: impl FnOnce(&str) -> Result<String, E>,
) -> Result<Option<JobHosts>, JobError<E>> {
    let variable = |name| variable(name).filter(|value| !value.trim().is_empty()).map(|value| (name, value));
    if let Some(found) = slurm(&variable)? {
        return Ok(Some(found));
    }
    if let Some((name, value)) = variable("LSB_MCPU_HOSTS") {
        let hosts = parse_lsf_mcpu_hosts(&value);
        let hosts = hosts.map_err(|error| JobError::EnvVar { variable: name, value, error })?;
        return Ok(Some(JobHosts { source: JobSource::Lsf, variables: [name].into(), hosts }));
    }
    type Parse = fn(&str) -> Result<HostList, HostListError>;
    let files: [(JobSource, &str, Parse); 3] = [
        (JobSource::Lsf, "LSB_DJOB_HOSTFILE", parse_lsf_hostfile),
        (JobSource::Pbs, "PBS_NODEFILE", parse_pbs_nodefile),
        (JobSource::GridEngine, "PE_HOSTFILE", parse_grid_engine_hostfile),
    ];
    for (source, name, parse) in files {
        let Some((variable, path)) = variable(name) else { continue };
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) => return Err(JobError::Unreadable { variable, path, error }),
        };
        let hosts = parse(&text).map_err(|error| JobError::File { variable, path, error })?;
        return Ok(Some(JobHosts { source, variables: [variable].into(), hosts }));
    }
    Ok(None)
}

/// The smallest step id of Slurm's own steps: interactive shell, batch script and others.
const FIRST_SPECIAL_STEP: u32 = 0xffff_fffa;

fn slurm<E: core::error::Error + 'static>(
    variable: &impl Fn(&'static str) -> Option<(&'static str, String)>,
) -> Result<Option<JobHosts>, JobError<E>> {
    let step = variable("SLURM_STEP_ID").or_else(|| variable("SLURM_STEPID"));
    let special = step.is_some_and(|(_, id)| id.trim().parse().is_ok_and(|id: u32| id >= FIRST_SPECIAL_STEP));
    let in_step = if special { None } else { variable("SLURM_STEP_NODELIST") };
    let (nodes, tasks) = match in_step {
        Some(nodes) => (nodes, variable("SLURM_STEP_TASKS_PER_NODE")),
        None => match variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST")) {
            Some(nodes) => (nodes, variable("SLURM_TASKS_PER_NODE")),
            None => return Ok(None),
        },
    };
    match parse_slurm(&nodes.1, tasks.as_ref().map(|(_, counts)| counts.as_str())) {
        Ok(hosts) => {
            let variables = [nodes.0].into_iter().chain(tasks.map(|(name, _)| name)).collect();
            Ok(Some(JobHosts { source: JobSource::Slurm, variables, hosts }))
        }
        Err(error) => {
            let (variable, value) = match (error.text, tasks) {
                (InputKind::TaskCounts, Some(tasks)) => tasks,
                _ => nodes,
            };
            Err(JobError::EnvVar { variable, value, error })
        }
    }
}
