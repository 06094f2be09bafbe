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
//! # What srun prints
//!
//! | line | meaning |
//! |---|---|
//! | `3: text` | the fourth host has printed the text |
//! | `srun: error: n[1-3]: tasks 0-2: Exited with exit code 1` | the programs have ended |
//! | `srun: … n1: task 0: Completed` | the program has exited with 0 |
//! | `srun: error: Task launch for StepId=1.0 failed on node n1: …` | the host cannot be started |
//! | `srun: job 7 queued and waiting for resources` | the start waits in a queue |
//! | `srun: job 7 has been allocated resources` | the start goes on |
//! | `srun: error: … invalid account …` and the like | no start can succeed |
//! | `slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT …` | the same: the job is to end |
//! | `srun: Job step aborted: …`, `srun: Complete StepId=7.0+0 received` | all programs are ended |
//! | `srun: Force Terminated StepId=7.0` | the same |
//! | `srun: job time limit to be reached at …` | all programs will be ended, and why |
//! | any other line of `srun` or `slurmstepd` | evidence for hosts that do not arrive |

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
        options.push(format!("--job-name=libi:{name}"));
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
        self.bulk_spec(&[host], program)
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

    fn bulk_spec(&self, hosts: &[&HostSpec], program: &Program) -> Result<SpawnSpec, SpecError> {
        let names = names_only(&self.program, hosts)?;
        let mut remote = program.env.clone();
        remote.extend(env_var(LINK_ENV, LINK_RENDEZVOUS));
        let word = |text: &str| OsBytes::try_from(text).unwrap_or_default();
        let name = String::from_utf8_lossy(file_name(&program.executable)).into_owned();
        let options = Self::options(hosts.len(), &name);
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

    fn read_line<'a>(&self, hosts: &'a [String], line: &'a [u8]) -> StarterLine<'a> {
        if let Some((host, text)) = labelled(hosts, line) {
            return of_step(text).unwrap_or(StarterLine::Printed(host, text));
        }
        let text = str::from_utf8(line).unwrap_or_default().trim_end();
        match text.split_once(": ") {
            // Messages about its arguments begin with the path by which it was called.
            Some((program, said)) if program.rsplit('/').next() == Some("srun") => of_srun(said, text),
            _ => of_step(line).unwrap_or(StarterLine::Other),
        }
    }

    fn unnamed_exit(&self, starter: Exit) -> Option<Exit> {
        (starter == Exit::Code(0)).then_some(starter)
    }
}

/// The host whose task has printed this line, and the line without its label.
fn labelled<'a>(hosts: &'a [String], line: &'a [u8]) -> Option<(&'a str, &'a [u8])> {
    let at = find(line, b": ")?;
    let label = str::from_utf8(&line[..at]).ok()?.trim_start();
    let is_number = !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit());
    let host = hosts.get(label.parse::<usize>().ok().filter(|_| is_number)?)?;
    Some((host, &line[at + 2..]))
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// What a daemon of Slurm says about the whole step: that it was cancelled, or has no time left. It
/// is evidence for each host. `srun` cancels a step, too, after it has named a host that fails.
fn of_step(text: &[u8]) -> Option<StarterLine<'_>> {
    let is_of_step = text.starts_with(b"slurmstepd") && find(text, b"*** ").is_some();
    let is_over = find(text, b" CANCELLED AT ").is_some() && find(text, b"NODE FAILURE").is_none();
    is_of_step.then_some(if is_over { StarterLine::Refused(text) } else { StarterLine::Other })
}

/// What a message of `srun` itself says, which is a part of `line`.
fn of_srun<'a>(text: &str, line: &'a str) -> StarterLine<'a> {
    let is_error = text.starts_with("error: ") || text.starts_with("fatal: ");
    let body = text.trim_start_matches("error: ").trim_start_matches("fatal: ");
    let plain = body.strip_prefix("launch/slurm: ").unwrap_or(body);
    let plain = plain.strip_prefix("_task_finish: ").unwrap_or(plain);
    if let Some(ended) = ended(plain) {
        return ended;
    }
    if let Some(rest) = plain.strip_prefix("Task launch for ")
        && let Some((_, rest)) = rest.split_once(" failed on node ")
        && let Some((node, _)) = rest.split_once(": ")
    {
        return node.parse().map_or(StarterLine::Other, StarterLine::Failed);
    }
    if let Some(nodes) = plain.strip_prefix("Node failure on ") {
        return nodes.parse().map_or(StarterLine::Other, StarterLine::Failed);
    }
    if WAITS.iter().any(|words| text.contains(words)) {
        return StarterLine::Waits;
    }
    if text.contains("has been allocated resources") || text.starts_with("Step created for") {
        return StarterLine::Proceeds;
    }
    // The line of `slurmstepd` that says why comes later, and is lost if `srun` ends first.
    if ["Job step aborted: ", "Complete ", "Force Terminated "].iter().any(|words| text.starts_with(words)) {
        return StarterLine::EndsAll;
    }
    if text.starts_with("job time limit to be reached at ") {
        return StarterLine::WillEndAll;
    }
    let is_revoked = text.contains("has been revoked");
    let is_usage =
        ["unrecognized option", "invalid option", "option '"].iter().any(|words| text.starts_with(words));
    if is_revoked || is_usage || is_error && HOPELESS.iter().any(|words| text.contains(words)) {
        return StarterLine::Refused(line.as_bytes());
    }
    if !is_error && is_progress(text) { StarterLine::Nothing } else { StarterLine::Other }
}

/// What `srun` prints when it waits; the first line tells most.
const WAITS: [&str; 4] = [
    "Required node not available",
    "Requested partition configuration not available now",
    "queued and waiting for resources",
    "step creation temporarily disabled",
];

/// Errors that do not depend on the hosts: every other start would fail in the same way.
const HOPELESS: [&str; 12] = [
    "Invalid account",
    "invalid account",
    "artition",
    "Invalid qos",
    "Invalid job id",
    "Expired or invalid job",
    "has expired",
    "already completing or completed",
    "Access/permission denied",
    "Job violates",
    "Invalid reservation",
    "Could not establish a configuration source",
];

/// Whether a verbose message tells that all goes as it should.
fn is_progress(text: &str) -> bool {
    let begins = [
        "defined options",
        "end of defined options",
        "-----",
        "jobid ",
        "launching ",
        "launch/slurm: ",
        "route/",
        "topology/",
        "Received task exit notification",
        "Node ",
        "auth plugin",
        "Consumable Resources",
        "select/",
        "Linear node selection",
        "Cray",
        "Nodes ",
        "Waiting for nodes",
        "cluster configuration lacks support",
    ];
    // A row of the table of options.
    let is_option = text.split_once(": ").is_some_and(|(name, _)| name.ends_with(' ') || name == "(null)");
    is_option || begins.iter().any(|words| text.starts_with(words))
}

/// `n[1-3]: tasks 0-2: Exited with exit code 1`
fn ended(text: &str) -> Option<StarterLine<'static>> {
    let (hosts, rest) = text.split_once(": task")?;
    let (_, how) = rest.split_once(": ")?;
    let exit = match how.strip_prefix("Exited with exit code ") {
        Some(code) => Exit::Code(code.parse().ok()?),
        None if how == "Completed" => Exit::Code(0),
        None => {
            let how = how.strip_suffix(" (core dumped)").unwrap_or(how);
            Exit::Signal(SIGNALS.iter().find(|(name, _)| *name == how)?.1)
        }
    };
    Some(StarterLine::Ended(hosts.parse().ok()?, exit))
}

/// Signals as the C library describes them, and the end by the kernel for lack of memory.
const SIGNALS: [(&str, i32); 16] = [
    ("Hangup", 1),
    ("Interrupt", 2),
    ("Quit", 3),
    ("Illegal instruction", 4),
    ("Trace/breakpoint trap", 5),
    ("Aborted", 6),
    ("Bus error", 7),
    ("Floating point exception", 8),
    ("Killed", 9),
    ("Out Of Memory", 9),
    ("User defined signal 1", 10),
    ("Segmentation fault", 11),
    ("User defined signal 2", 12),
    ("Broken pipe", 13),
    ("Alarm clock", 14),
    ("Terminated", 15),
];

#[cfg(test)]
mod tests;
