//! `libi hosts`: expands or folds a host list, also that of the surrounding job.

use std::cell::Cell;
use std::env::VarError;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use libi::hosts::file::parse_host_file;
use libi::hosts::job::{JobHosts, job_hosts};
use libi::hosts::{HostList, HostListError, HostRef};
use serde_json::{Value, json};

use crate::output::{CliError, print};

pub(crate) const EXAMPLES: &str = "\
Entries of a list: node[001-064,100]:8, rack[1-2]-n[01-16], alice@login,
[2001:db8::1]*4, separated by commas or white space. One number after a host
is the process count; of two numbers the first is the port: node7:2222:8.

Examples:
  libi hosts 'node[08-11]:2'
  printf 'n1 n2 n3' | libi hosts --fold
  libi hosts --file my.hosts --fold
  libi plan --hosts \"$(libi hosts --from-env --fold)\" --seq 7ms --rem 172ms";

/// The arguments of `libi hosts`.
#[derive(clap::Args)]
pub(crate) struct HostsArgs {
    /// The list to expand [default: standard input]
    #[arg(value_name = "LIST", conflicts_with_all = ["file", "from_env"])]
    list: Vec<String>,
    /// The list to expand, as an option like that of `libi run`
    #[arg(long, visible_alias = "host", value_name = "LIST", conflicts_with_all = ["list", "file", "from_env"])]
    hosts: Option<String>,
    /// Read a host file (- for standard input): comments, slots=N
    #[arg(long, value_name = "FILE", conflicts_with = "from_env")]
    file: Option<PathBuf>,
    /// Take the hosts of the surrounding Slurm, LSF, PBS or Grid Engine job
    #[arg(long)]
    from_env: bool,
    /// Print the folded list instead of one host per line
    #[arg(long)]
    fold: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &HostsArgs) -> Result<(), CliError> {
    let job = if arguments.from_env { Some(job()?) } else { None };
    if arguments.json {
        return match &job {
            Some(job) => print_list(&job.hosts, Some(job)).map_err(CliError::Output),
            None => print_list(&read(arguments)?, None).map_err(CliError::Output),
        };
    }
    let list = match job {
        Some(job) => {
            print_source(&job);
            job.hosts
        }
        None => read(arguments)?,
    };
    if arguments.fold { print(&(list.fold() + "\n")) } else { expand(&list).map_err(CliError::Output) }
}

/// The hosts of the surrounding job; each host once, with all its slots.
pub(crate) fn job() -> Result<JobHosts, CliError> {
    let not_text = Cell::new(None);
    let variable = |name| match std::env::var(name) {
        Err(VarError::NotUnicode(_)) => {
            not_text.set(not_text.get().or(Some(name)));
            None
        }
        text => text.ok(),
    };
    let job = job_hosts(variable, |path| std::fs::read_to_string(path));
    if let Some(name) = not_text.get() {
        return Err(CliError::NotText(name));
    }
    let mut job = job.map_err(CliError::Job)?.ok_or(CliError::NoJob)?;
    if job.hosts.is_empty() {
        return Err(CliError::NoHosts);
    }
    job.hosts = libi_core::dist::distinct(&job.hosts);
    Ok(job)
}

fn read(arguments: &HostsArgs) -> Result<HostList, CliError> {
    let named = |text: String, parse: fn(&str) -> Result<HostList, HostListError>| {
        parse(&text).map_err(|error| CliError::HostList(error, text))
    };
    if let Some(hosts) = &arguments.hosts {
        return named(hosts.clone(), HostList::parse);
    }
    if !arguments.list.is_empty() {
        return named(arguments.list.join(" "), HostList::parse);
    }
    match &arguments.file {
        Some(path) => read_file(path),
        None => named(standard_input()?, HostList::parse),
    }
}

/// The hosts of a host file; `-` is standard input.
pub(crate) fn read_file(path: &Path) -> Result<HostList, CliError> {
    let text = match path.as_os_str() == "-" {
        true => standard_input()?,
        false => std::fs::read_to_string(path).map_err(|error| CliError::File(path.to_owned(), error))?,
    };
    parse_host_file(&text).map_err(|error| CliError::HostList(error, text))
}

fn standard_input() -> Result<String, CliError> {
    if io::stdin().is_terminal() {
        eprintln!("libi: reading a host list from the terminal; end it with ^D");
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(CliError::Input)?;
    Ok(text)
}

fn expand(list: &HostList) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    list.iter().try_for_each(|host| writeln!(out, "{host}"))?;
    out.flush()
}

/// Prints the source of the hosts to standard error.
fn print_source(job: &JobHosts) {
    let (hosts, processes) = (job.hosts.len(), job.hosts.processes());
    eprintln!("libi: {} ({}): hosts {hosts}, slots {processes}", job.source, job.variables.join(" and "));
}

/// Writes a list as one JSON document. It may be long, so the entries are streamed.
fn print_list(list: &HostList, job: Option<&JobHosts>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write!(out, "{{\n  \"folded\": {},\n  \"processes\": {},\n", json!(list.fold()), list.processes())?;
    if let Some(job) = job {
        let (source, variables) = (json!(job.source.to_string()), json!(job.variables));
        write!(out, "  \"source\": {source},\n  \"variables\": {variables},\n")?;
    }
    write!(out, "  \"entries\": [")?;
    for (i, host) in list.iter().enumerate() {
        write!(out, "{}\n    {}", if i == 0 { "" } else { "," }, entry(host))?;
    }
    write!(out, "\n  ]\n}}\n")?;
    out.flush()
}

fn entry(host: HostRef<'_>) -> Value {
    let mut object = json!({ "host": host.name, "count": host.count });
    if let Some(user) = host.user {
        object["user"] = user.into();
    }
    if let Some(port) = host.port {
        object["port"] = port.into();
    }
    object
}
