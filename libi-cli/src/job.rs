//! `libi job`: the processes of a running job, of another launcher or of libi.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use clap::Parser as _;
use libi::job::{Job, JobName};
use libi::{HostList, SessionId};
use serde_json::{Value, json};

use crate::launch::LaunchArgs;
use crate::output::{CliError, print};
use crate::units;

/// How long the launch on the launcher's host may take.
const FOR_LAUNCH: Duration = Duration::from_secs(30);

pub(crate) const EXAMPLES: &str = "\
The launcher (srun, mpirun of Open MPI, mpiexec of Hydra, or another one that
keeps a table for debuggers) is read while it goes on: it is neither stopped
nor traced. It has to be a process of the same user, on this machine or on
--launcher-host. Hydra and Open MPI 5 have no table: of their processes those
on this machine are found, and the names of other hosts. Of a session of libi,
name the process of its front end.

Each line has the rank, host, process ID and executable of a process.

Exit status: 0 success, 2 the command line is invalid, 3 there is no such
process or step, it is no launcher, it may not be read, or its job has not
begun in time.

Examples:
  libi job $(pgrep -o -x srun)
  libi job 4711 --json
  libi job --slurm 123.0
  libi job --launcher-host login2 4711
  libi run -w \"$(libi job --hosts 4711)\" uptime";

/// The arguments of `libi job`.
#[derive(clap::Args)]
pub(crate) struct JobArgs {
    /// Print the hosts of the job as a folded list
    #[arg(long, conflicts_with = "json")]
    hosts: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// How long to wait for a table that is empty or being written, or for a Slurm job in the queue
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = units::duration)]
    timeout: Duration,
    /// The number of a Slurm job, or of a step as 123.0, whose srun runs on this machine
    #[arg(long, value_name = "JOB[.STEP]", conflicts_with = "pid", value_parser = step)]
    slurm: Option<String>,
    /// The number of a session of libi, of a front end that has several
    #[arg(long, value_name = "NUMBER", conflicts_with = "slurm")]
    session: Option<u32>,
    /// The host of the launcher, if it is not this machine
    #[arg(long, value_name = "HOST")]
    launcher_host: Option<String>,
    /// How to reach the host of the launcher, as in libi run
    #[arg(long, value_name = "BACKEND", requires = "launcher_host")]
    backend: Option<String>,
    /// Send this program to the host of the launcher, if it is not there
    #[arg(long, requires = "launcher_host")]
    send_agent: bool,
    /// The process ID of the launcher
    #[arg(value_name = "PID", required_unless_present = "slurm", value_parser = pid)]
    pid: Option<i32>,
}

/// The number of a process.
fn pid(text: &str) -> Result<i32, String> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| "it is no process ID".to_owned())
}

/// The number of a Slurm job, or of a step.
fn step(text: &str) -> Result<String, String> {
    let (job, step) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_one = is_number(job) && is_number(step);
    is_one
        .then(|| text.to_owned())
        .ok_or_else(|| "it is no number of a job, nor of a step as 123.0".to_owned())
}

pub(crate) fn run(arguments: &JobArgs) -> Result<(), CliError> {
    let pid = arguments.pid.unwrap_or_default(); // clap asks for one without a step of Slurm
    let name = match (&arguments.slurm, arguments.session) {
        (Some(step), _) => JobName::Slurm(step.clone()),
        (None, Some(number)) => JobName::Session(pid, SessionId(number)),
        (None, None) => JobName::Pid(pid),
    };
    let job = match &arguments.launcher_host {
        Some(host) => attach_on(host, &name, arguments)?,
        None => Job::attach_by(&name, arguments.timeout).map_err(CliError::Attach)?,
    };
    if arguments.json {
        return print(&(document(&job).to_string() + "\n"));
    }
    if arguments.hosts {
        let hosts = job.hosts().join(",");
        let list = HostList::parse(&hosts).map_err(|error| CliError::HostList(error, hosts))?;
        return print(&(list.fold() + "\n"));
    }
    let mut text = String::new();
    for process in job.processes().iter() {
        let (rank, host, pid, executable) = (process.rank.0, process.host, process.pid, process.executable);
        let _ = writeln!(text, "{rank} {host} {pid} {executable}");
    }
    if !job.is_whole() {
        let hosts: Vec<&str> = job.hosts().into_iter().filter(|host| job.find_on(host).is_some()).collect();
        let list = HostList::parse(&hosts.join(",")).map_or_else(|_| hosts.join(","), |list| list.fold());
        let _ = writeln!(io::stderr(), "libi: {} has no table of more processes on {list}", job.kind());
    }
    print(&text)
}

/// The options of the launch on the launcher's host.
#[derive(clap::Parser)]
struct Elsewhere {
    #[command(flatten)]
    launch: LaunchArgs,
}

/// The job whose launcher is on another host, which this program attaches to there.
fn attach_on(host: &str, name: &JobName, arguments: &JobArgs) -> Result<Job, CliError> {
    let mut words = vec!["libi", "--hosts", host];
    words.extend(arguments.backend.as_deref().into_iter().flat_map(|backend| ["--backend", backend]));
    words.extend(arguments.send_agent.then_some("--send-agent"));
    let launch = Elsewhere::try_parse_from(words).map_err(|error| CliError::Usage(error.to_string()))?.launch;
    let options = launch.options(&launch.hosts(true)?)?;
    // The launch has a time of its own.
    let timeout = arguments.timeout.saturating_add(FOR_LAUNCH);
    libi::job::attach_on(host, name, &options, timeout).map_err(CliError::AttachOn)
}

fn document(job: &Job) -> Value {
    let process = |process: libi::job::JobProcess<'_>| {
        json!({
            "rank": process.rank.0,
            "host": process.host,
            "pid": process.pid,
            "executable": process.executable.to_string(),
        })
    };
    json!({
        "launcher": {
            "kind": job.kind().to_string(),
            "pid": job.launcher_pid(),
            "executable": job.launcher().to_string(),
        },
        "hosts": job.hosts(),
        "whole": job.is_whole(),
        "processes": job.processes().iter().map(process).collect::<Vec<_>>(),
    })
}
