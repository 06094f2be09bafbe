//! What runs where: the first program with the options of the command, and further programs, each
//! behind a `:` and with options of its own.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::Parser;
use libi::{Distribution, HostList};

use super::{RunArgs, placement, words};
use crate::launch::parse_hosts;
use crate::output::CliError;

/// What separates programs.
const SEPARATOR: &str = ":";

/// The options of a further program. Without hosts it has those of the first.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Part {
    #[arg(short = 'w', long, visible_alias = "host")]
    hosts: Option<String>,
    #[arg(short = 'n', long, visible_alias = "np")]
    processes: Option<NonZeroU32>,
    #[arg(long, visible_alias = "ppn", conflicts_with = "processes")]
    per_host: Option<NonZeroU32>,
    #[arg(long, visible_alias = "wdir")]
    directory: Option<PathBuf>,
    #[arg(short = 'x', long)]
    env: Vec<OsString>,
    #[arg(required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// The distributions of a command whose hosts, without numbers of processes for its programs, are
/// these; and the hosts of all of them.
pub(super) fn distributions(
    arguments: &RunArgs,
    hosts: &HostList,
) -> Result<(Vec<Distribution>, HostList), CliError> {
    let mut programs = arguments.program.split(|word| word == SEPARATOR);
    let first = Part {
        hosts: None,
        processes: arguments.processes,
        per_host: arguments.per_host,
        directory: arguments.directory.clone(),
        env: arguments.env.clone(),
        program: programs.next().unwrap_or_default().to_vec(),
    };
    let others = programs.map(parse).collect::<Result<Vec<_>, _>>()?;
    let (mut distributions, mut all) = (Vec::new(), HostList::new());
    for part in [first].into_iter().chain(others) {
        let hosts = hosts_of(&part, hosts)?;
        for host in &hosts {
            all.push(host).map_err(|error| CliError::Usage(error.to_string()))?;
        }
        distributions.push(distribution(&part, hosts)?);
    }
    Ok((distributions, all))
}

/// The programs of a command.
pub(super) fn programs(arguments: &RunArgs) -> Result<Vec<OsString>, CliError> {
    let mut parts = arguments.program.split(|word| word == SEPARATOR);
    let mut programs: Vec<_> = parts.next().into_iter().flat_map(|words| words.first().cloned()).collect();
    for part in parts {
        programs.extend(parse(part)?.program.first().cloned());
    }
    Ok(programs)
}

fn parse(of_part: &[OsString]) -> Result<Part, CliError> {
    let command = ["libi", "run"].map(OsString::from);
    let all = command.into_iter().chain(of_part.iter().cloned()).collect();
    let all = words::replace_other_names(all, &crate::command_line());
    let usage = |error: clap::Error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        CliError::Usage(format!("behind `{SEPARATOR}`: {first}"))
    };
    Part::try_parse_from(all.into_iter().skip(2)).map_err(usage)
}

/// The hosts of a program with the number of processes on each.
fn hosts_of(part: &Part, hosts: &HostList) -> Result<HostList, CliError> {
    let own = part.hosts.as_deref().map(parse_hosts).transpose()?;
    placement::placed(own.as_ref().unwrap_or(hosts), part.processes, part.per_host)
}

fn distribution(part: &Part, hosts: HostList) -> Result<Distribution, CliError> {
    let missing = || CliError::Usage("there is no program to launch".to_owned());
    let (program, args) = part.program.split_first().ok_or_else(missing)?;
    let mut distribution = Distribution::new(program).args(args).hosts(hosts);
    if let Some(directory) = &part.directory {
        distribution = distribution.current_dir(directory);
    }
    for text in &part.env {
        let (name, value) = env_var(text)?;
        distribution = distribution.env(name, value);
    }
    Ok(distribution)
}

/// Parses `NAME=VALUE`, or `NAME` for its value in this program's environment.
fn env_var(text: &OsStr) -> Result<(&OsStr, OsString), CliError> {
    let wrong = |why| CliError::Usage(format!("--env {}: {why}", text.to_string_lossy()));
    let bytes = text.as_bytes();
    let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
        Some(0) => return Err(wrong("the name is empty")),
        Some(at) => (OsStr::from_bytes(&bytes[..at]), Some(OsString::from_vec(bytes[at + 1..].to_vec()))),
        None => (text, std::env::var_os(text)),
    };
    Ok((name, value.ok_or_else(|| wrong("the variable is not set"))?))
}
