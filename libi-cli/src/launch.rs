//! The options of a launch that commands share: which hosts, how they are reached, what leads them,
//! and how long that may take.

use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use libi::{
    Agent, Backend, Delivery, HostList, LaunchOptions, Local, OnLoss, OsBytes, Packed, Policy, Srun, Ssh,
    SshClient, SshProfile,
};
use libi_core::plan::Strategy;
use nix::sys::signal::SigSet;

use crate::backend::{AUTO, BackendChoice, other, rsh};
use crate::output::CliError;
use crate::run::placement;
use crate::units;

/// The options that describe a launch.
#[derive(clap::Args)]
pub(crate) struct LaunchArgs {
    /// The hosts, with the number of processes on each, as in node[01-64]:2
    /// [default: the hosts of the surrounding job, as libi hosts --from-env
    /// prints them, else localhost]
    #[arg(short = 'w', long, visible_alias = "host", value_name = "LIST")]
    hosts: Option<String>,
    /// Read the hosts from a file (- for standard input): comments, slots=N
    #[arg(long, visible_alias = "machinefile", value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,
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
    /// The program that makes connections of ssh: `openssh` is ssh, one process
    /// for each host; `builtin` is libi-ssh, one for all; `auto` is libi-ssh
    /// where it is installed and does all that is configured for the host, else
    /// ssh
    #[arg(long, value_name = "auto|openssh|builtin")]
    ssh_client: Option<SshClient>,
    /// An ssh configuration option; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    ssh_option: Vec<String>,
    /// Allow back-ends without encryption, such as rsh, where others on the
    /// network can read and change the traffic; prints a warning
    #[arg(long)]
    allow_plain: bool,
    /// Let every collective call of the members wait until all have made it, for
    /// debugging
    #[arg(long)]
    strict_calls: bool,
    /// What follows when a process ends or is lost while others run: `fail` fails
    /// the collective calls of members that need it, `continue` lets them go on
    /// without it, `end` ends all unless it has ended with exit status 0
    #[arg(long, value_name = "fail|continue|end", default_value = "fail")]
    pub(crate) on_loss: OnLoss,
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
    /// How many launches this machine may have in flight at a time, for a login node
    /// that others use [default: as many as keep it busy]; hosts that are up launch
    /// others without this limit
    #[arg(long, value_name = "COUNT")]
    front_end_launches: Option<NonZeroU32>,
    /// How long the launch may take
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = units::duration)]
    deadline: Duration,
    /// With srun: how long the launch may wait for resources, which its deadline
    /// does not count [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    queue_timeout: Option<Duration>,
}

impl LaunchArgs {
    /// The hosts, with numbers of processes where the list has them. `is_counted` tells whether the
    /// number of processes is given elsewhere.
    pub(crate) fn hosts(&self, is_counted: bool) -> Result<HostList, CliError> {
        let hosts = match (&self.hosts, &self.hostfile) {
            (Some(list), _) => parse_hosts(list)?,
            (None, Some(file)) => crate::hosts::read_file(file)?,
            (None, None) => own_hosts(is_counted)?,
        };
        if hosts.is_empty() {
            return Err(CliError::NoHosts);
        }
        Ok(hosts)
    }

    /// The options of a launch on these hosts, which agents lead.
    pub(crate) fn options(&self, hosts: &HostList) -> Result<LaunchOptions, CliError> {
        let spares = self.spares.as_deref().map_or(Ok(HostList::new()), parse_hosts)?;
        let mut all = hosts.clone();
        for spare in &spares {
            all.push(spare).map_err(|error| CliError::Usage(error.to_string()))?;
        }
        let choice = BackendChoice::new(&self.backend, &all)?;
        let options = LaunchOptions::new()
            .strategy(self.tree)
            .front_end_launches(self.front_end_launches)
            .spares(spares)
            .allow_plain(self.allow_plain)
            .strict_calls(self.strict_calls)
            .on_loss(self.on_loss)
            .policy(policy(self.min_hosts, hosts)?)
            .settle(self.settle)
            .deadline(self.deadline)
            .agent(agent(self)?);
        Ok(match backend(self, choice)? {
            Some(backend) => options.backend(backend),
            None => options,
        })
    }
}

/// The hosts without the option: those of the surrounding job, else this machine. In a job of Slurm
/// that was not asked for tasks, the numbers of processors are no numbers of processes.
fn own_hosts(is_counted: bool) -> Result<HostList, CliError> {
    let hosts = match crate::hosts::job() {
        Ok(job) => job.hosts,
        Err(CliError::NoJob) => return parse_hosts("localhost"),
        Err(error) => return Err(error),
    };
    let is_slurm = std::env::var_os("SLURM_JOB_ID").is_some();
    let has_tasks = std::env::var_os("SLURM_NTASKS").is_some();
    if is_slurm && !has_tasks && !is_counted {
        return placement::per_host(&hosts, NonZeroU32::MIN);
    }
    Ok(hosts)
}

/// The program that starts the processes on each host: this one.
fn agent(arguments: &LaunchArgs) -> Result<Agent, CliError> {
    let path = match &arguments.agent {
        Some(path) => path.clone(),
        None => own_agent(arguments.send_agent)?,
    };
    let name = OsBytes::new(path.as_os_str().as_bytes());
    let agent = Agent::new(name.map_err(|error| CliError::Usage(format!("--agent: {error}")))?);
    if !arguments.send_agent {
        return Ok(agent);
    }
    let file = std::fs::read(&path).map_err(|error| CliError::File(path.clone(), error))?;
    let packed = Packed::default();
    pack_meanwhile(path, packed.clone());
    Ok(agent.delivery(Delivery::of(file).packed(packed)))
}

/// Compresses the agent in the background, while the first host logs in. Without `gzip` it is sent as it
/// is.
fn pack_meanwhile(path: PathBuf, packed: Packed) {
    let pack = move || {
        // Signals are for the thread that expects them.
        let _ = SigSet::all().thread_block();
        let mut gzip = Command::new("gzip");
        gzip.args(["-1", "-c", "--"]).arg(path).stdin(Stdio::null()).stderr(Stdio::null());
        if let Ok(done) = gzip.output()
            && done.status.success()
        {
            packed.set(done.stdout);
        }
    };
    let _ = std::thread::Builder::new().name("libi-pack".to_owned()).spawn(pack);
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
fn backend(arguments: &LaunchArgs, choice: BackendChoice) -> Result<Option<Backend>, CliError> {
    let for_ssh =
        arguments.ssh_profile.is_some() || arguments.ssh_client.is_some() || !arguments.ssh_option.is_empty();
    if for_ssh && !matches!(choice, BackendChoice::Ssh(_)) {
        let other = choice.program().map_or_else(|| "no remote shell".to_owned(), ToString::to_string);
        let text = format!(
            "--ssh-profile, --ssh-client and --ssh-option need ssh, but hosts are reached by {other}"
        );
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
            client: arguments.ssh_client.unwrap_or_default(),
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

pub(crate) fn parse_hosts(text: &str) -> Result<HostList, CliError> {
    HostList::parse(text).map_err(|error| CliError::HostList(error, text.to_owned()))
}
