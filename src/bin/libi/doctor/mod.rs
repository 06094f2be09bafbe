//! `libi doctor`: examines hosts as a launch would reach them, and says whether it would work.

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
mod table;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use libi::SshProfile;
use libi::dist::OsBytes;
use libi::hosts::HostList;

use crate::output::{CliError, print, print_json};
use crate::units;
use callback::CallbackListener;
use exam::ExamOptions;
use examiner::Examiner;
use finding::Finding;
use gain::Gain;

pub(crate) const EXAMPLES: &str = "\
Each host is called as a launch would call it, and examined over that one
connection by a few lines for /bin/sh; nothing has to be installed there. ssh is
told to say what it does (LogLevel=DEBUG1), to see what its time is spent on,
and never asks for anything.

Exit status: 0 a launch would work on all hosts, 2 the command line is wrong,
3 there are hosts it would not work on, 128+n ended by signal n.

Examples:
  libi doctor 'node[001-512]'
  libi doctor --program /opt/tool/daemon \"$(libi hosts --from-env --fold)\"
  libi doctor --shell rsh --timeout 30s n1 n2 alice@n3
  libi doctor --gain 'node[001-512]'
  libi doctor --json 'node[001-512]' | jq '.hosts[] | select(.ok | not)'";

/// The arguments of `libi doctor`.
#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    /// The hosts to examine
    #[arg(value_name = "HOSTS", required_unless_present = "file", conflicts_with = "file")]
    hosts: Vec<String>,
    /// Read a host file (- for standard input) instead
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The program that reaches hosts, called as ssh is; none for this machine
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    shell: String,
    /// A program that has to be there and executable
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
    /// After how long a host is given up
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = units::duration)]
    timeout: Duration,
    /// How many hosts to examine at a time, apart from those that do not
    /// answer; two for each processor if nothing is said
    #[arg(long, value_name = "COUNT", value_parser = at_once)]
    at_once: Option<usize>,
    /// Do not try whether hosts can connect to this one
    #[arg(long)]
    no_direct: bool,
    /// Measure what ssh would gain by the faster options of libi
    #[arg(long)]
    gain: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What stands for no program that reaches hosts: all are this machine.
const HERE: &str = "none";

/// What all hosts were examined for, and what came of it.
struct DoctorReport<'a> {
    hosts: &'a HostList,
    findings: &'a [Finding],
    /// What hosts are reached by.
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
    let hosts = libi::dist::distinct(&listed(arguments)?);
    if hosts.is_empty() {
        return Err(CliError::NoHosts);
    }
    if arguments.program.as_ref().is_some_and(|program| program.contains(['\n', '\0']) || program.is_empty())
    {
        return Err(CliError::Usage("--program wants a name without line breaks".to_owned()));
    }
    let shell = match arguments.shell.as_str() {
        HERE => None,
        shell => Some(OsBytes::try_from(shell).map_err(|error| CliError::Usage(error.to_string()))?),
    };
    let is_ssh = shell.as_ref().is_some_and(remote_shell::is_ssh);
    if arguments.gain && !is_ssh {
        return Err(CliError::Usage(
            "--gain compares two ways to call ssh; this is another program".to_owned(),
        ));
    }
    let mut examiner = Examiner::new(at_once_here(arguments), arguments.timeout).map_err(CliError::System)?;
    let began = std::time::Instant::now();
    let backend = remote_shell::backend(shell.as_ref(), SshProfile::Own, arguments.timeout);
    let options = ExamOptions { program: arguments.program.clone(), ..ExamOptions::default() };
    let callbacks =
        if arguments.no_direct { None } else { Some(CallbackListener::open().map_err(CliError::System)?) };
    let progress = Progress::new(hosts.len());
    let findings =
        examiner.examine(&hosts, &backend, options, callbacks, |done| progress.show("examined", done));
    progress.clear();
    let findings = findings.map_err(CliError::System)?;
    let mut gains = Vec::new();
    if arguments.gain && examiner.interrupted().is_none() {
        gains = gain::measure(&mut examiner, &hosts, &findings, shell.as_ref()).map_err(CliError::System)?;
    }
    let report = DoctorReport {
        hosts: &hosts,
        findings: &findings,
        shell: &arguments.shell,
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
    let Some(path) = &arguments.file else {
        let text = arguments.hosts.join(" ");
        return HostList::parse(&text).map_err(|error| CliError::HostList(error, text));
    };
    let text = if path.as_os_str() == "-" {
        io::read_to_string(io::stdin().lock()).map_err(CliError::Input)?
    } else {
        std::fs::read_to_string(path).map_err(|error| CliError::File(path.clone(), error))?
    };
    libi::hosts::file::parse_host_file(&text).map_err(|error| CliError::HostList(error, text))
}

/// More at a time than the processors can serve make one another slow: we would measure ourselves. With a server on the same
/// two cores, logins took 0.56 s one at a time, 0.77 s by twos, 1.5 s by fours, which are done the soonest, and by eights
/// a sixth of them were turned away.
fn at_once_here(arguments: &DoctorArgs) -> usize {
    arguments.at_once.unwrap_or_else(|| {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (2 * processors).min(examiner::MAX_CONCURRENT)
    })
}

/// Reads how many hosts are examined at a time.
fn at_once(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=examiner::MAX_CONCURRENT) => Ok(count),
        _ => Err(format!("a number of hosts from 1 to {}", examiner::MAX_CONCURRENT)),
    }
}

/// A line on a terminal that says how far we are.
struct Progress {
    all: usize,
    shown: bool,
}

impl Progress {
    fn new(all: usize) -> Self {
        Self { all, shown: io::stderr().is_terminal() }
    }

    fn show(&self, what: &str, done: usize) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K{done} of {} hosts {what}", self.all);
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
