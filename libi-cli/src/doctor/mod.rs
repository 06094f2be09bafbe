//! `libi doctor`: examines hosts through the connections that a launch would use, and reports
//! whether the launch would work.

mod callback;
mod exam;
mod examiner;
mod finding;
mod gain;
mod json;
mod line_buffer;
mod notes;
mod probe;
mod remote_shell;
mod slurm;
mod table;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use libi::hosts::HostList;
use libi::{Backend, SshProfile};

use crate::backend::{AUTO, BackendChoice};
use crate::output::{CliError, print, print_json};
use crate::progress::Progress;
use crate::units;
use callback::CallbackListener;
use exam::ExamOptions;
use examiner::Examiner;
use finding::Finding;
use gain::Gain;
use libi_launch::backend::LaunchMethod;

pub(crate) const EXAMPLES: &str = "\
Each host is reached as a launch would reach it, and examined over that one
connection by a short /bin/sh script; nothing has to be installed there. ssh runs
with LogLevel=DEBUG1, to measure the parts of a login, and never prompts. srun
examines all hosts by one step.

Exit status: 0 a launch would work on all hosts, 2 the command line is invalid,
3 a launch would not work on some hosts, 128+n ended by signal n.

Examples:
  libi doctor 'node[001-512]'
  libi doctor --program /opt/tool/daemon \"$(libi hosts --from-env --fold)\"
  libi doctor --backend rsh --timeout 30s n1 n2 alice@n3
  salloc -N 4 libi doctor
  libi doctor --gain 'node[001-512]'
  libi doctor --json 'node[001-512]' | jq '.hosts[] | select(.ok | not)'";

/// The arguments of `libi doctor`.
#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    /// The hosts to examine [default: the hosts of the surrounding job]
    #[arg(value_name = "HOSTS", conflicts_with = "file")]
    hosts: Vec<String>,
    /// The hosts to examine, as an option like that of `libi run`
    #[arg(long = "hosts", visible_alias = "host", value_name = "LIST", conflicts_with_all = ["file", "hosts"])]
    host_list: Option<String>,
    /// Read a host file (- for standard input) instead
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How to reach hosts: auto, local, ssh, rsh, srun, or a program that is
    /// called as ssh is. auto is what libi run takes for these hosts
    #[arg(long, alias = "shell", value_name = "BACKEND", default_value = AUTO)]
    backend: String,
    /// A program that has to be executable on each host
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
    /// How long the examination of a host may take; with srun, that of all hosts
    /// [default: 10s, with srun 30s]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    timeout: Option<Duration>,
    /// How many hosts to examine at a time, not counting those that do not
    /// answer [default: two per processor]
    #[arg(long, value_name = "COUNT", value_parser = at_once)]
    at_once: Option<usize>,
    /// Do not test whether hosts can connect to this machine
    #[arg(long)]
    no_direct: bool,
    /// Measure how much faster ssh logins are with --ssh-profile fast
    #[arg(long)]
    gain: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Stands for the remote shell program if there is none.
const LOCAL: &str = "local";

/// The options and the results of an examination.
struct DoctorReport<'a> {
    hosts: &'a HostList,
    findings: &'a [Finding],
    /// The remote shell program.
    shell: &'a str,
    is_ssh: bool,
    program: Option<&'a str>,
    gains: &'a [Gain],
    took: Duration,
}

impl DoctorReport<'_> {
    /// Whether a launch would work on all hosts.
    fn is_fine(&self) -> bool {
        self.findings.iter().all(Finding::is_fine)
    }
}

pub(crate) fn run(arguments: &DoctorArgs) -> Result<ExitCode, CliError> {
    let hosts = libi_core::dist::distinct(&listed(arguments)?);
    if hosts.is_empty() {
        return Err(CliError::NoHosts);
    }
    if arguments.program.as_ref().is_some_and(|program| program.contains(['\n', '\0']) || program.is_empty())
    {
        return Err(CliError::Usage("--program needs a non-empty name without line breaks".to_owned()));
    }
    let choice = BackendChoice::new(&arguments.backend, &hosts)?;
    let shell = choice.program().map_or_else(|| LOCAL.to_owned(), ToString::to_string);
    let is_ssh = matches!(choice, BackendChoice::Ssh(_));
    if arguments.gain && !is_ssh {
        return Err(CliError::Usage(
            "--gain compares two ssh profiles; it needs ssh as the remote shell program".to_owned(),
        ));
    }
    let timeout = arguments.timeout.unwrap_or(Duration::from_secs(10));
    let mut examiner = Examiner::new(at_once_here(arguments), timeout).map_err(CliError::System)?;
    let began = std::time::Instant::now();
    let backend = remote_shell::backend(&choice, SshProfile::Own, timeout);
    if let Backend::Srun(srun) = backend {
        return slurm::run(arguments, srun, &hosts, &mut examiner);
    }
    if backend.bulk().is_some() {
        return Err(CliError::Usage(format!(
            "{backend} starts many hosts at once; examine the remote shell that it uses: --backend ssh"
        )));
    }
    let options = ExamOptions { program: arguments.program.clone(), ..ExamOptions::default() };
    let callbacks =
        if arguments.no_direct { None } else { Some(CallbackListener::open().map_err(CliError::System)?) };
    let mut progress = Progress::of(hosts.len());
    let findings = examiner
        .examine(&hosts, &backend, options, callbacks, |done| progress.show(done, "examined".to_owned()));
    progress.clear();
    let findings = findings.map_err(CliError::System)?;
    let mut gains = Vec::new();
    if arguments.gain && examiner.interrupted().is_none() {
        gains = gain::measure(&mut examiner, &hosts, &findings, &choice).map_err(CliError::System)?;
    }
    let report = DoctorReport {
        hosts: &hosts,
        findings: &findings,
        shell: &shell,
        is_ssh,
        program: arguments.program.as_deref(),
        gains: &gains,
        took: began.elapsed(),
    };
    if arguments.json {
        print_json(&json::document(&report))?;
    } else {
        print(&table::text(&report))?;
    }
    Ok(match examiner.interrupted() {
        Some(signal) => ExitCode::from(128 + signal as u8), // there are fewer than 65
        None if report.is_fine() => ExitCode::SUCCESS,
        None => ExitCode::from(3),
    })
}

fn listed(arguments: &DoctorArgs) -> Result<HostList, CliError> {
    if arguments.hosts.is_empty() && arguments.host_list.is_none() && arguments.file.is_none() {
        return match crate::hosts::job() {
            Ok(job) => Ok(job.hosts),
            Err(CliError::NoJob) => Err(CliError::Usage("name the hosts to examine".to_owned())),
            Err(error) => Err(error),
        };
    }
    let Some(path) = &arguments.file else {
        let text = arguments.host_list.clone().unwrap_or_else(|| arguments.hosts.join(" "));
        return HostList::parse(&text).map_err(|error| CliError::HostList(error, text));
    };
    let text = if path.as_os_str() == "-" {
        io::read_to_string(io::stdin().lock()).map_err(CliError::Input)?
    } else {
        std::fs::read_to_string(path).map_err(|error| CliError::File(path.clone(), error))?
    };
    libi::hosts::file::parse_host_file(&text).map_err(|error| CliError::HostList(error, text))
}

/// How many hosts to examine at a time. More than the processors can serve slow one another down,
/// and the measurement would include that. With a server on the same two cores, logins took 0.56 s
/// one at a time, 0.77 s two at a time and 1.5 s four at a time, which had the highest throughput;
/// eight at a time, the server rejected a sixth of them.
fn at_once_here(arguments: &DoctorArgs) -> usize {
    arguments.at_once.unwrap_or_else(|| {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (2 * processors).min(examiner::MAX_CONCURRENT)
    })
}

/// Parses the number of hosts to examine at a time.
fn at_once(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=examiner::MAX_CONCURRENT) => Ok(count),
        _ => Err(format!("expected a number of hosts from 1 to {}", examiner::MAX_CONCURRENT)),
    }
}
