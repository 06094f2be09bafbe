//! Launch method for Slurm's `srun`: one job step starts the leaders of many hosts.
//!
//! `srun` is called with the hosts in the order of the session and one task on each:
//!
//! - `--distribution=arbitrary` keeps that order, so that task numbers tell hosts;
//! - `--label` puts the number of the task before each line that a task prints;
//! - `--verbose` lets `srun` name tasks that have ended with status 0, too;
//! - `--no-kill`, `--kill-on-bad-exit=0` and `--wait=0` keep a lost host from ending the others;
//! - `--input=all` copies the ticket to all tasks;
//! - the variable `SLURM_OVERLAP` lets the step share processors, memory and devices with the steps
//!   of the job. Versions of Slurm without `--overlap` share them always, and ignore the variable.
//!
//! The command of a task is the same as for a remote shell, run by `/bin/sh`. Slurm passes on the
//! environment of the front end, its directory, its umask and its limits.
//!
//! A start outside a job has a job of its own, with a name that no other job has: `scancel` ends it by
//! that name if `srun` is killed before it can do so itself.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use libi_core::hosts::fold_names;
use libi_core::hosts::job::parse_slurm;
use serde::{Deserialize, Serialize};

use super::parse::file_name;
use super::{
    BulkMethod, Channel, LINK_ENV, LINK_RENDEZVOUS, LaunchMethod, SpawnSpec, SpecError, StarterLine, env_var,
    names_only,
};
use crate::failure::Exit;
use crate::machine::{HostSpec, Program};
use crate::process::Signal;
use crate::quote;

mod lines;

/// How to call Slurm's `srun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Srun {
    /// Path of the program, or a name that the front end looks up in its `PATH`.
    pub program: OsBytes,
    /// Further arguments, such as `--partition=debug`; they come after libi's own.
    pub args: Vec<OsBytes>,
    /// How long a start may wait for resources. This time does not count towards the deadlines of
    /// the launch.
    pub queue_timeout: Duration,
    /// Expected cost of a start; measurements replace it.
    pub cost: Cost,
    /// The job in which the front end runs, if it does. Outside a job, each start has a job of its own.
    pub job: Option<SlurmJob>,
}

/// The job in which a front end runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmJob {
    /// Its number.
    pub id: String,
    /// The names of its nodes.
    pub nodes: BTreeSet<String>,
}

impl Srun {
    /// `srun`, which may wait ten minutes for resources.
    #[must_use]
    pub fn new() -> Self {
        Self {
            program: OsBytes::try_from("srun").unwrap_or_default(),
            args: Vec::new(),
            queue_timeout: Duration::from_secs(600),
            cost: Cost::new(Duration::from_millis(1), Duration::from_millis(100)),
            job: None,
        }
    }

    /// The job, from the environment of the front end.
    fn job_of(variable: &dyn Fn(&str) -> Option<String>) -> Option<SlurmJob> {
        let id = variable("SLURM_JOB_ID")?;
        let nodes = parse_slurm(&variable("SLURM_JOB_NODELIST")?, None).ok()?;
        Some(SlurmJob { id, nodes: nodes.iter().map(|node| node.name.to_owned()).collect() })
    }

    /// The name of the job of a start. Inside a job it is that of a step only, which ends with the
    /// job.
    fn job_name(&self, program: &Program, start: &str) -> String {
        let program = String::from_utf8_lossy(file_name(&program.executable));
        if self.job.is_none() { format!("libi:{program}.{start}") } else { format!("libi:{program}") }
    }

    fn options(hosts: usize, name: &str) -> Vec<String> {
        let fixed = [
            "--verbose",
            "--label",
            "--no-kill",
            "--kill-on-bad-exit=0",
            "--wait=0",
            "--input=all",
            "--output=all",
            "--export=ALL",
            "--mpi=none",
            "--cpu-bind=none",
            "--distribution=arbitrary",
        ];
        let mut options: Vec<String> = fixed.map(str::to_owned).to_vec();
        options.push(format!("--job-name={name}"));
        options.push(format!("--nodes={hosts}"));
        options.push(format!("--ntasks={hosts}"));
        options
    }
}

impl Default for Srun {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Srun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

impl LaunchMethod for Srun {
    fn called(program: &OsBytes) -> Option<Self> {
        (file_name(program) == b"srun").then(|| Self { program: program.clone(), ..Self::new() })
    }

    fn default_cost(&self) -> Cost {
        self.cost
    }

    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError> {
        self.bulk_spec(&[host], program, "")
    }

    fn bulk(&self) -> Option<&dyn BulkMethod> {
        Some(self)
    }

    fn set_environment(&mut self, variable: &dyn Fn(&str) -> Option<String>) {
        self.job = Self::job_of(variable);
    }
}

impl BulkMethod for Srun {
    /// All that Slurm can start at once.
    fn hosts_per_start(&self) -> usize {
        65_536
    }

    fn bulk_spec(&self, hosts: &[&HostSpec], program: &Program, name: &str) -> Result<SpawnSpec, SpecError> {
        let names = names_only(&self.program, hosts)?;
        let mut remote = program.env.clone();
        remote.extend(env_var(LINK_ENV, LINK_RENDEZVOUS));
        let word = |text: &str| OsBytes::try_from(text).unwrap_or_default();
        let options = Self::options(hosts.len(), &self.job_name(program, name));
        let mut args: Vec<OsBytes> = options.iter().map(|option| word(option)).collect();
        args.push(word("--nodelist"));
        args.push(names);
        args.extend_from_slice(&self.args);
        args.extend(["/bin/sh", "-c"].map(word));
        args.push(quote::command(program.cwd.as_ref(), &remote, &program.executable, &program.args));
        Ok(SpawnSpec {
            program: self.program.clone(),
            args,
            env: env_var("SLURM_OVERLAP", "1"),
            cwd: None,
            channel: Channel::Rendezvous,
            initial_input: Vec::new(),
            trailer: None,
            client: None,
        })
    }

    fn host_variable(&self) -> &str {
        "SLURMD_NODENAME"
    }

    fn refuses(&self, host: &HostSpec) -> Option<String> {
        let job = self.job.as_ref()?;
        let nodes = || fold_names(job.nodes.iter().map(String::as_str));
        (!job.nodes.contains(&host.name))
            .then(|| format!("{} is not a node of job {} ({})", host.name, job.id, nodes()))
    }

    fn queue_timeout(&self) -> Duration {
        self.queue_timeout
    }

    fn is_all_or_nothing(&self) -> bool {
        true
    }

    /// A job would stay in the queue after SIGKILL, and later take its nodes for nothing.
    fn death_signal(&self) -> Signal {
        Signal::TERM
    }

    /// Without that process, the job of a killed `srun` would never end.
    fn has_cleanup_process(&self) -> bool {
        true
    }

    /// An `srun` that is killed when its job has just begun has no such process yet.
    fn cleanup_spec(&self, program: &Program, name: &str) -> Option<SpawnSpec> {
        self.job.is_none().then(|| SpawnSpec {
            program: beside(&self.program, "scancel"),
            args: OsBytes::try_from(&*format!("--name={}", self.job_name(program, name)))
                .into_iter()
                .collect(),
            env: Vec::new(),
            cwd: None,
            channel: Channel::None,
            initial_input: Vec::new(),
            trailer: None,
            client: None,
        })
    }

    fn read_line<'a>(&self, hosts: &'a [String], line: &'a [u8]) -> StarterLine<'a> {
        lines::read(hosts, line)
    }

    fn unnamed_exit(&self, starter: Exit) -> Option<Exit> {
        (starter == Exit::Code(0)).then_some(starter)
    }
}

/// Another program in the directory of this one, or in the `PATH` if this one is there.
fn beside(program: &OsBytes, other: &str) -> OsBytes {
    let directory = program.as_bytes().strip_suffix(file_name(program)).unwrap_or_default();
    OsBytes::new([directory, other.as_bytes()].concat()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
