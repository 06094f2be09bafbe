//! A starter for tests: starts a command for each host of a list, by a loop, all on this machine.
//!
//! ```text
//! libi-test-starter FAULT… HOST,HOST,… COMMAND
//!
//! missing=HOST      does not start the command for this host
//! late=HOST:MS      starts it that much later
//! twice=HOST        starts it two times
//! alias=HOST:NAME   tells the command that its host has this name
//! keep=PATH         writes its input, the ticket, to a file
//! ticket=HOST:PATH  gives the command of this host that file instead
//! exits=MS          ends by itself after this time, with status 1, and leaves its commands
//! dies=TEXT         prints TEXT and ends with status 1, without starting anything
//! stubborn          ignores SIGTERM
//! silent            does not report how commands have ended
//! ```
//!
//! Like `clush -S -w`, it copies its standard input to every command, prints what commands print
//! behind `HOST: `, and reports those that fail. It ends with the last command, with the largest
//! exit status.
#![allow(unsafe_code, reason = "the parent-death signal is the operating system's")]
#![allow(clippy::unwrap_used, reason = "a test program fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libi_launch::backend::HOST_ENV;

/// What the starter does wrong.
#[derive(Clone, Default)]
struct Faults {
    missing: Vec<String>,
    late: Vec<(String, Duration)>,
    twice: Vec<String>,
    aliases: Vec<(String, String)>,
    keep: Option<String>,
    tickets: Vec<(String, String)>,
    exits: Option<Duration>,
    silent: bool,
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(command), Some(hosts)) = (words.pop(), words.pop()) else {
        eprintln!("usage: libi-test-starter FAULT… HOST,HOST,… COMMAND");
        std::process::exit(2);
    };
    let faults = faults(&words);
    let mut ticket = Vec::new();
    std::io::stdin().read_to_end(&mut ticket).unwrap();
    if let Some(path) = &faults.keep {
        std::fs::write(path, &ticket).unwrap();
    }
    if let Some(after) = faults.exits {
        thread::spawn(move || {
            thread::sleep(after);
            std::process::exit(1);
        });
    }
    let mut running = Vec::new();
    for host in hosts.split(',').filter(|host| !faults.missing.iter().any(|missing| missing == host)) {
        for _ in 0..1 + faults.twice.iter().filter(|twice| *twice == host).count() {
            let (faults, command, ticket) = (faults.clone(), command.clone(), ticket.clone());
            let host = host.to_owned();
            running.push(thread::spawn(move || run(&host, &command, &ticket, &faults)));
        }
    }
    let statuses = running.into_iter().map(|thread| thread.join().unwrap());
    std::process::exit(statuses.max().unwrap_or(0));
}

fn faults(words: &[String]) -> Faults {
    let mut faults = Faults::default();
    let pair = |value: &str| value.split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let millis = |text: &str| Duration::from_millis(text.parse().unwrap());
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "missing" => faults.missing.push(value.to_owned()),
            "late" => faults.late.push((pair(value).0, millis(&pair(value).1))),
            "twice" => faults.twice.push(value.to_owned()),
            "alias" => faults.aliases.push(pair(value)),
            "keep" => faults.keep = Some(value.to_owned()),
            "ticket" => faults.tickets.push(pair(value)),
            "exits" => faults.exits = Some(millis(value)),
            "dies" => {
                eprintln!("{value}");
                std::process::exit(1);
            }
            "stubborn" => ignore_sigterm(),
            "silent" => faults.silent = true,
            _ => panic!("{word} is no fault"),
        }
    }
    faults
}

/// Runs the command for a host; returns its exit status, or 128 and the signal.
fn run(host: &str, command: &str, ticket: &[u8], faults: &Faults) -> i32 {
    let of_host =
        |list: &[(String, String)]| list.iter().find(|(of, _)| of == host).map(|(_, it)| it.clone());
    if let Some((_, delay)) = faults.late.iter().find(|(of, _)| of == host) {
        thread::sleep(*delay);
    }
    let name = of_host(&faults.aliases).unwrap_or_else(|| host.to_owned());
    let mut child = start(&name, command);
    let mut stdin = child.stdin.take().unwrap();
    let own = of_host(&faults.tickets).map(|path| std::fs::read(path).unwrap());
    // A command that does not read its input may have ended.
    let _ = stdin.write_all(own.as_deref().unwrap_or(ticket));
    drop(stdin);
    let out = labelled(host, child.stdout.take().unwrap(), false);
    let err = labelled(host, child.stderr.take().unwrap(), true);
    let status = child.wait().unwrap();
    for printer in [out, err] {
        printer.join().unwrap();
    }
    let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    if status != 0 && !faults.silent {
        eprintln!("libi-test-starter: {host}: exited with exit code {status}");
    }
    status
}

fn start(name: &str, command: &str) -> Child {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env(HOST_ENV, name);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: the call between fork and exec touches no memory of this process.
    unsafe {
        shell.pre_exec(|| {
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            Ok(())
        });
    }
    shell.spawn().unwrap()
}

/// Prints lines behind the name of their host.
fn labelled(host: &str, from: impl Read + Send + 'static, err: bool) -> JoinHandle<()> {
    let host = host.to_owned();
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = [host.as_bytes(), b": ", &line, b"\n"].concat();
            let _ = if err {
                std::io::stderr().write_all(&line)
            } else {
                let mut out = std::io::stdout().lock();
                out.write_all(&line).and_then(|()| out.flush())
            };
        }
    })
}

fn ignore_sigterm() {
    // SAFETY: the handler is none of this program's functions.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
    }
}
