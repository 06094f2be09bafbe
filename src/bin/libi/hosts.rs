//! `libi hosts`: expands a host list, folds one, or shows what the surrounding job offers.

use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;

use libi::hosts::file::parse_host_file;
use libi::hosts::job::{JobHosts, job_hosts};
use libi::hosts::{HostList, HostListError, HostRef};
use serde_json::{Value, json};

use crate::output::{Failure, print, print_json};

pub(crate) const EXAMPLES: &str = "\
A list: node[001-064,100]:8, rack[1-2]-n[01-16], alice@login, [2001:db8::1]*4, separated by commas or white
space. One number after a host is the count of processes; of two the first is a port: node7:2222:8.

Examples:
  libi hosts 'node[08-11]:2'
  printf 'n1 n2 n3' | libi hosts --fold
  libi hosts --file my.hosts --fold
  libi hosts --from-env";

/// The arguments of `libi hosts`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The list to expand; standard input if there is none
    #[arg(value_name = "LIST", conflicts_with_all = ["file", "from_env"])]
    list: Vec<String>,
    /// Read a host file: a host or more on a line, comments, slots=N
    #[arg(long, value_name = "FILE", conflicts_with = "from_env")]
    file: Option<PathBuf>,
    /// Show the hosts that the surrounding Slurm, LSF, PBS or Grid Engine job offers
    #[arg(long)]
    from_env: bool,
    /// Write the list short instead of a host on each line
    #[arg(long)]
    fold: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.from_env {
        let job = job_hosts(|name| std::env::var(name).ok(), |path| std::fs::read_to_string(path));
        let job = job.map_err(Failure::Job)?.ok_or(Failure::NoJob)?;
        return if arguments.json { print_json(&job_json(&job)) } else { print(&tell(&job)) };
    }
    let list = read(arguments)?;
    if arguments.json {
        print_json(&list_json(&list))
    } else if arguments.fold {
        print(&(list.fold() + "\n"))
    } else {
        expand(&list).map_err(Failure::Output)
    }
}

fn read(arguments: &Arguments) -> Result<HostList, Failure> {
    let named = |text: String, parse: fn(&str) -> Result<HostList, HostListError>| {
        parse(&text).map_err(|error| Failure::HostList(error, text))
    };
    if let Some(path) = &arguments.file {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::File(path.clone(), error))?;
        return named(text, parse_host_file);
    }
    if !arguments.list.is_empty() {
        return named(arguments.list.join(" "), HostList::parse);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(Failure::Input)?;
    named(text, HostList::parse)
}

fn expand(list: &HostList) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    list.iter().try_for_each(|host| writeln!(out, "{host}"))?;
    out.flush()
}

fn tell(job: &JobHosts) -> String {
    let variables = job.variables.join(" and ");
    let (hosts, processes) = (libi::dist::distinct(&job.hosts).len(), job.hosts.processes());
    format!("{:?} ({variables}): hosts {hosts}, processes {processes}\n{}\n", job.source, job.hosts.fold())
}

fn job_json(job: &JobHosts) -> Value {
    let mut object = list_json(&job.hosts);
    object["source"] = format!("{:?}", job.source).into();
    object["variables"] = job.variables.clone().into();
    object
}

fn list_json(list: &HostList) -> Value {
    let entry = |host: HostRef<'_>| {
        let mut object = json!({ "host": host.name, "count": host.count });
        if let Some(user) = host.user {
            object["user"] = user.into();
        }
        if let Some(port) = host.port {
            object["port"] = port.into();
        }
        object
    };
    json!({
        "folded": list.fold(),
        "processes": list.processes(),
        "entries": list.iter().map(entry).collect::<Vec<_>>(),
    })
}
