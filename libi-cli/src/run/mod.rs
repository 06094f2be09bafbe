//! `libi run`: launches a program, forwards its input and output, and waits for its end.

mod folded;
mod json;
mod monitor;
mod parts;
mod placement;
mod printer;
pub(crate) mod words;

use std::ffi::OsString;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libi::{
    Agent, Backend, Delivery, FrontEnd, HostList, LaunchOptions, LaunchReport, Local, OsBytes, Output,
    Policy, Programs, Session, Srun, Ssh, SshProfile,
};
use libi_core::plan::Strategy;

use crate::backend::{AUTO, BackendChoice, other, rsh};
use crate::output::{CliError, print_json};
use crate::units;

pub(crate) const EXAMPLES: &str = "\
The program can be any program. Its place is in LIBI_RANK, LIBI_SIZE,
LIBI_LOCAL_RANK, LIBI_LOCAL_SIZE and LIBI_HOST; a program that uses libi joins
the session with Member::init, in C with libi_member_init(). Standard input goes
to rank 0. On each host this program starts the processes, as an agent, and has
to exist there at the same path, or at that of --agent.

Exit status: 0 success, 1 a rank failed, 2 the command line or a file is
invalid, 3 the launch failed, 4 contact with a host was lost, 124 the time limit
expired, 128+n ended by signal n.

Examples:
  libi run -n 4 hostname
  libi run -n 4 ./tool --verbose
  libi run --hosts 'node[01-64]:2' /opt/tool
  libi run -w 'node[01-64]' -n 1 ./master : -n 63 ./worker
  libi run --hosts 'node[01-64]' -n 100 --directory /scratch \\
      --env MODE=fast ./tool
  libi run --hosts 'node[01-64]' --ssh-profile fast \\
      --ssh-option StrictHostKeyChecking=accept-new /opt/tool
  libi run --hosts 'node[01-64]' --backend rsh --allow-plain /opt/tool
  libi run --hosts \"$(libi hosts --from-env --fold)\" \\
      --min-hosts 60 --timeline launch.json /opt/tool";

/// The exit status when the time limit expires, as that of timeout(1).
const TIME_LIMIT_STATUS: u8 = 124;

/// The arguments of `libi run`.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The hosts, with the number of processes on each, as in node[01-64]:2
    /// [default: the hosts of the surrounding job, as libi hosts --from-env
    /// prints them, else localhost]
    #[arg(short = 'w', long, visible_alias = "host", value_name = "LIST")]
    hosts: Option<String>,
    /// Read the hosts from a file (- for standard input): comments, slots=N
    #[arg(long, visible_alias = "machinefile", value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,
    /// How many processes in total, as of srun and mpirun: fills the hosts in
    /// order up to their counts, and spreads the rest evenly
    #[arg(short = 'n', long, visible_alias = "np", value_name = "COUNT")]
    processes: Option<NonZeroU32>,
    /// How many processes on each host, instead of the counts in the list
    #[arg(long, visible_alias = "ppn", value_name = "COUNT", conflicts_with = "processes")]
    per_host: Option<NonZeroU32>,
    /// How to reach hosts: auto, local, ssh, rsh, srun, clush, qrsh, blaunch, flux,
    /// or a program that is called as ssh is. auto takes what LIBI_BACKEND names;
    /// starts processes directly on hosts that are this machine; takes srun inside
    /// a Slurm job for its nodes; and ssh otherwise. With local, hosts are just
    /// names
    #[arg(long, alias = "shell", value_name = "BACKEND", default_value = AUTO)]
    backend: String,
    /// The ssh options to use: `own` uses the user's configuration, `fast`
    /// overrides what costs time (its key exchange is not quantum-safe)
    #[arg(long, value_name = "own|fast")]
    ssh_profile: Option<SshProfile>,
    /// An ssh configuration option; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    ssh_option: Vec<String>,
    /// Allow back-ends without encryption, such as rsh, where others on the
    /// network can read and change the traffic; prints a warning
    #[arg(long)]
    allow_plain: bool,
    /// The working directory of the processes [default: the home directory on
    /// hosts that are reached by a remote shell, else the current directory]
    #[arg(long, visible_alias = "wdir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Set an environment variable of the processes; a NAME alone passes on its
    /// current value. May be given several times
    #[arg(short = 'x', long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// This program on the hosts [default: the path that it has here]
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Send this program to hosts that do not have it; it runs from a private
    /// directory, which is removed at once
    #[arg(long)]
    send_agent: bool,
    /// How many hosts have to join [default: all]
    #[arg(long, value_name = "COUNT")]
    min_hosts: Option<NonZeroU32>,
    /// Once enough hosts have joined: how long no further host may join or fail
    /// before the session goes up without the others [default: 4 times the
    /// slowest launch, at least 2s]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    settle: Option<Duration>,
    /// Spare hosts that replace hosts that fail
    #[arg(long, value_name = "LIST")]
    spares: Option<String>,
    /// The launch tree: `late` decides during the launch, others in advance
    #[arg(long, value_name = "TREE", default_value = "late")]
    tree: Strategy,
    /// How long the launch may take
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = units::duration)]
    deadline: Duration,
    /// With srun: how long the launch may wait for resources, which its deadline
    /// does not count [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    queue_timeout: Option<Duration>,
    /// Terminate the session if it has not ended after this time
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    time_limit: Option<Duration>,
    /// Prefix each output line with its rank
    #[arg(long)]
    tag: bool,
    /// Prefix each output line with its host and rank
    #[arg(short, long, conflicts_with = "tag")]
    label: bool,
    /// Print the standard output of a rank when all have ended, and what several
    /// ranks have printed only once, behind their numbers and hosts. Equal lines
    /// are merged on their way here
    #[arg(long, conflicts_with_all = ["tag", "label"])]
    fold: bool,
    /// Give rank 0 an empty standard input instead of that of this program
    #[arg(long)]
    no_input: bool,
    /// Write output to the files RANK.out and RANK.err in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tag", "label", "fold"])]
    output: Option<PathBuf>,
    /// Write the timeline of the launch, for `libi trace` and Chrome
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Draw the timeline of the launch as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON document with the launch report and the exit of each rank
    /// to standard output; the program's output goes to standard error
    #[arg(long)]
    json: bool,
    /// Report how the launch went even if it succeeded
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments; further programs follow, each behind a `:`
    /// and its own -n, --per-host, --hosts, --env, --directory
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(arguments: &RunArgs) -> Result<ExitCode, CliError> {
    let (distributions, hosts) = parts::distributions(arguments, &hosts(arguments)?)?;
    let options = options(arguments, &hosts)?;
    if let Some(directory) = &arguments.output {
        check_output(directory)?;
    }
    crate::output::log_warnings_to_stderr();
    let signals = monitor::block_termination_signals();
    let front_end = FrontEnd::new().map_err(CliError::Launch)?;
    let mut sessions = front_end.start_all(&distributions, &options).map_err(CliError::Launch)?;
    // All programs belong to one session.
    let session = Arc::new(sessions.pop().ok_or(CliError::Launch(libi::Error::Closed))?);
    if !arguments.no_input {
        forward_stdin(&session);
    }
    let outcome = monitor::Monitor::new(arguments, &session).follow(&front_end, &signals);
    let report = session.report();
    if let Some(report) = &report {
        write_timeline(arguments, report)?;
    }
    let outcome = outcome?;
    let status = outcome.exit_status();
    if arguments.json {
        print_json(&json::document(&session, report.as_deref(), &outcome, status))?;
    }
    if outcome.given_up {
        return Err(CliError::Launch(report.map_or(libi::Error::Closed, libi::Error::NotLaunched)));
    }
    Ok(ExitCode::from(status))
}

fn write_timeline(arguments: &RunArgs, report: &LaunchReport) -> Result<(), CliError> {
    let timeline = report.timeline();
    for (path, text) in [(&arguments.timeline, timeline.chrome_json()), (&arguments.svg, timeline.svg())] {
        let Some(path) = path else { continue };
        std::fs::write(path, text)
            .map_err(|error| CliError::Unwritable("the timeline", path.clone(), error))?;
    }
    Ok(())
}

/// The hosts, with numbers of processes where the list has them.
fn hosts(arguments: &RunArgs) -> Result<HostList, CliError> {
    let hosts = match (&arguments.hosts, &arguments.hostfile) {
        (Some(list), _) => parse_hosts(list)?,
        (None, Some(file)) => crate::hosts::read_file(file)?,
        (None, None) => own_hosts(arguments)?,
    };
    if hosts.is_empty() {
        return Err(CliError::NoHosts);
    }
    Ok(hosts)
}

/// The hosts without the option: those of the surrounding job, else this machine. In a job of Slurm
/// that was not asked for tasks, the numbers of processors are no numbers of processes.
fn own_hosts(arguments: &RunArgs) -> Result<HostList, CliError> {
    let hosts = match crate::hosts::job() {
        Ok(job) => job.hosts,
        Err(CliError::NoJob) => return parse_hosts("localhost"),
        Err(error) => return Err(error),
    };
    let is_slurm = std::env::var_os("SLURM_JOB_ID").is_some();
    let has_tasks = std::env::var_os("SLURM_NTASKS").is_some();
    if is_slurm && !has_tasks && arguments.processes.is_none() {
        return placement::per_host(&hosts, NonZeroU32::MIN);
    }
    Ok(hosts)
}

fn options(arguments: &RunArgs, hosts: &HostList) -> Result<LaunchOptions, CliError> {
    let spares = arguments.spares.as_deref().map_or(Ok(HostList::new()), parse_hosts)?;
    let mut all = hosts.clone();
    for spare in &spares {
        all.push(spare).map_err(|error| CliError::Usage(error.to_string()))?;
    }
    let choice = BackendChoice::new(&arguments.backend, &all)?;
    let options = LaunchOptions::new()
        .strategy(arguments.tree)
        .spares(spares)
        .input(!arguments.no_input)
        .allow_plain(arguments.allow_plain)
        .policy(policy(arguments.min_hosts, hosts)?)
        .settle(arguments.settle)
        .deadline(arguments.deadline)
        .output(match &arguments.output {
            Some(directory) => Output::Files(directory.clone()),
            None if arguments.fold => Output::folded(),
            None => Output::Events,
        })
        .agent(agent(arguments)?)
        .programs(Programs::Any);
    Ok(match backend(arguments, choice)? {
        Some(backend) => options.backend(backend),
        None => options,
    })
}

/// The program that starts the processes on each host: this one.
fn agent(arguments: &RunArgs) -> Result<Agent, CliError> {
    let path = match &arguments.agent {
        Some(path) => path.clone(),
        None => own_agent(arguments.send_agent)?,
    };
    let name = OsBytes::new(path.as_os_str().as_bytes());
    let agent = Agent::new(name.map_err(|error| CliError::Usage(format!("--agent: {error}")))?);
    if !arguments.send_agent {
        return Ok(agent);
    }
    let file = std::fs::read(&path).map_err(|error| CliError::File(path, error))?;
    Ok(agent.delivery(Delivery::of(file)))
}

/// This program; to be sent, the smaller `libi-agent` beside it, if that is there.
fn own_agent(is_sent: bool) -> Result<PathBuf, CliError> {
    let own = std::env::current_exe().map_err(|error| CliError::File("/proc/self/exe".into(), error))?;
    let small = own.with_file_name("libi-agent");
    Ok(if is_sent && small.is_file() { small } else { own })
}

/// How many hosts have to join: not more than there are.
fn policy(min_hosts: Option<NonZeroU32>, hosts: &HostList) -> Result<Policy, CliError> {
    let Some(least) = min_hosts else { return Ok(Policy::All) };
    let all = libi_core::dist::distinct(hosts).len();
    if least.get() as usize > all {
        let all = crate::output::hosts(u32::try_from(all).unwrap_or(u32::MAX));
        return Err(CliError::Usage(format!("--min-hosts {least}: the processes run on {all}")));
    }
    Ok(Policy::AtLeast(least.get()))
}

/// The back-end; `None` for the library's default, which starts hosts that are this machine directly
/// and reaches others by ssh.
fn backend(arguments: &RunArgs, choice: BackendChoice) -> Result<Option<Backend>, CliError> {
    let for_ssh = arguments.ssh_profile.is_some() || !arguments.ssh_option.is_empty();
    if for_ssh && !matches!(choice, BackendChoice::Ssh(_)) {
        let other = choice.program().map_or_else(|| "no remote shell".to_owned(), ToString::to_string);
        let text = format!("--ssh-profile and --ssh-option need ssh, but hosts are reached by {other}");
        return Err(CliError::Usage(text));
    }
    let os_bytes = |text: &String| {
        OsBytes::try_from(text.as_str()).map_err(|error| CliError::Usage(format!("--ssh-option: {error}")))
    };
    let backend = match choice {
        _ if arguments.backend == AUTO && !for_ssh && arguments.queue_timeout.is_none() => return Ok(None),
        BackendChoice::Local => Backend::Local(Local),
        BackendChoice::Rsh(program) => Backend::Rsh(rsh(&program)),
        BackendChoice::Program(program) => other(&program),
        BackendChoice::Ssh(program) => Backend::Ssh(Ssh {
            program,
            profile: arguments.ssh_profile.unwrap_or_default(),
            options: arguments.ssh_option.iter().map(os_bytes).collect::<Result<_, _>>()?,
            ..Ssh::new()
        }),
    };
    match (arguments.queue_timeout, backend) {
        (None, backend) => Ok(Some(backend)),
        (Some(queue_timeout), Backend::Srun(srun)) => Ok(Some(Backend::Srun(Srun { queue_timeout, ..srun }))),
        (Some(_), other) => {
            Err(CliError::Usage(format!("--queue-timeout needs srun, but hosts are reached by {other}")))
        }
    }
}

fn parse_hosts(text: &str) -> Result<HostList, CliError> {
    HostList::parse(text).map_err(|error| CliError::HostList(error, text.to_owned()))
}

/// Checks before the launch that files can be created in the directory for output, which is created
/// if it is missing.
fn check_output(directory: &Path) -> Result<(), CliError> {
    let unwritable = |error| CliError::Unwritable("the output directory", directory.to_owned(), error);
    std::fs::create_dir_all(directory).map_err(unwritable)?;
    let probe = directory.join(format!(".libi-run-{}", std::process::id()));
    let created = std::fs::File::create_new(&probe);
    created.map_err(unwritable)?;
    std::fs::remove_file(&probe).map_err(|error| CliError::File(probe, error))
}

/// Forwards standard input to the master.
fn forward_stdin(session: &Arc<Session>) {
    let weak = Arc::downgrade(session);
    // The thread is never joined: it may block in a read until the program exits.
    std::thread::spawn(move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = io::stdin().lock().read(&mut buffer).unwrap_or(0);
            let Some(session) = weak.upgrade() else { return };
            if count == 0 {
                let _ = session.wait_up(Duration::MAX);
                return session.close_input();
            }
            if session.write(&buffer[..count], Duration::MAX).is_err() {
                return;
            }
        }
    });
}
