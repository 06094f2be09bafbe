//! Errors and their exit statuses, and formatting of results.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use libi::hosts::HostListError;
use libi::hosts::job::JobError;
use libi::{LaunchReport, ShellError};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CliError {
    /// A host list is invalid; with its text.
    HostList(HostListError, String),
    /// The surrounding job's host description cannot be parsed.
    Job(JobError<io::Error>),
    /// An argument is invalid, or conflicts with others.
    Usage(String),
    /// The host list is empty.
    NoHosts,
    /// A variable that describes the surrounding job is not valid UTF-8.
    NotText(&'static str),
    /// The launch did not succeed.
    Launch(libi::Error),
    /// A running job cannot be attached to.
    Attach(libi::job::AttachError),
    AttachOn(libi::job::AttachOnError),
    /// The remote shell program is not in the search path.
    NoBackend(String),
    /// The environment describes no job.
    NoJob,
    /// A file cannot be read or written.
    File(PathBuf, io::Error),
    /// What this names cannot be written.
    Unwritable(&'static str, PathBuf, io::Error),
    /// A file holds no timeline.
    Timeline(PathBuf, crate::trace::read::TimelineError),
    /// Standard input cannot be read.
    Input(io::Error),
    /// Standard output cannot be written.
    Output(io::Error),
    /// A system call that the examination depends on failed.
    System(io::Error),
}

/// What to do if a host has no agent: that is the program which remote shells start.
fn agent_hint(report: &LaunchReport) -> &'static str {
    let mut failures = report.hosts().iter().filter_map(|host| host.failure.as_ref());
    if failures.any(|failure| failure.shell_error() == Some(ShellError::ProgramNotFound)) {
        "\nhint: --send-agent sends libi to hosts that do not have it"
    } else {
        ""
    }
}

impl CliError {
    /// Prints the error to standard error and returns the exit status.
    pub(crate) fn report(self) -> ExitCode {
        let (status, text) = match self {
            Self::HostList(error, list) => (2, format!("{error}\n{}", error.excerpt(&list))),
            Self::Job(JobError::EnvVar { variable, value, error }) => {
                (2, format!("{variable}: {error}\n{}", error.excerpt(&value)))
            }
            Self::Job(error) => (2, error.to_string()),
            Self::Usage(text) => (2, text),
            Self::NotText(variable) => (2, format!("{variable} is not valid UTF-8")),
            Self::NoHosts => (3, "the host list is empty".to_owned()),
            Self::Launch(
                error @ (libi::Error::Layout(_) | libi::Error::NoSignal(_) | libi::Error::Plain(_)),
            ) => (2, error.to_string()),
            Self::Launch(libi::Error::NotLaunched(report))
                if report.joined() > 0 && report.failed_master_host().is_none() =>
            {
                let enough = report.joined();
                (
                    3,
                    format!(
                        "{report}{}\nhint: continue without them: --min-hosts {enough}; or replace them: \
                         --spares LIST",
                        agent_hint(&report)
                    ),
                )
            }
            Self::Launch(libi::Error::NotLaunched(report)) => (3, format!("{report}{}", agent_hint(&report))),
            Self::Launch(error) => (3, error.to_string()),
            Self::Attach(error) => (3, error.to_string()),
            Self::AttachOn(error) => (3, error.to_string()),
            Self::NoBackend(name) => (
                3,
                format!(
                    "the remote shell program {name} is not in PATH\nhint: install it, or name another one: \
                     --backend PROGRAM; --backend local starts all processes on this machine"
                ),
            ),
            Self::NoJob => (3, NO_JOB.to_owned()),
            Self::File(path, error) => (2, format!("{}: {error}", path.display())),
            Self::Unwritable(what, path, error) => {
                (2, format!("cannot write {what} {}: {error}", path.display()))
            }
            Self::Timeline(path, error) => (2, format!("{}: {error}", path.display())),
            Self::Input(error) => (2, format!("cannot read standard input: {error}")),
            // The reader closed the pipe: `libi hosts node[1-1000000] | head`.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Self::Output(error) => (2, format!("cannot write standard output: {error}")),
            Self::System(error) => (3, format!("system error: {error}")),
        };
        // If standard error cannot be written, the exit status remains.
        let _ = writeln!(io::stderr(), "libi: {}", text.trim_end());
        ExitCode::from(status)
    }
}

const NO_JOB: &str = "not inside a job: none of SLURM_JOB_NODELIST, LSB_MCPU_HOSTS, LSB_DJOB_HOSTFILE, \
                      PBS_NODEFILE and PE_HOSTFILE is set
hint: run the command inside a job, or name hosts: `libi hosts 'node[1-4]'`";

/// Prints a result.
pub(crate) fn print(result: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(result.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Prints a result as one JSON document.
pub(crate) fn print_json(result: &serde_json::Value) -> Result<(), CliError> {
    print(&format!("{result:#}\n"))
}

/// Lays out rows below a heading: the first column left-aligned, the others right-aligned.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(widest);
    let mut text = String::new();
    for row in [heading.map(str::to_owned)].iter().chain(rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `1 host`, `2 hosts`, `1,000 hosts`.
pub(crate) fn hosts(count: u32) -> String {
    counted(count, "host", "hosts")
}

/// A number with thousands separators and its unit.
pub(crate) fn counted(count: u32, one: &str, many: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + " " + if count == 1 { one } else { many }
}

/// Prints the library's warnings to standard error from now on.
pub(crate) fn log_warnings_to_stderr() {
    struct StderrLogger;
    impl log::Log for StderrLogger {
        fn enabled(&self, about: &log::Metadata<'_>) -> bool {
            about.level() <= log::Level::Warn && about.target().starts_with("libi")
        }

        fn log(&self, record: &log::Record<'_>) {
            if self.enabled(record.metadata()) {
                let _ = writeln!(io::stderr(), "libi: warning: {}", record.args());
            }
        }

        fn flush(&self) {}
    }
    if log::set_logger(&StderrLogger).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
}
