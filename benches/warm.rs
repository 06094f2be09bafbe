//! Measures commands in a warm session, `libi shell`, beside programs that connect for each command.
//!
//! `cargo bench --bench warm [HOSTS] [COMMANDS]` runs `true` on 64 hosts, 100 times, with `libi shell`,
//! `pdsh` and `clush`, in turns, so that other load affects all alike; the output is a table in Markdown
//! with the median time of a command, and the median ratio to libi. Peers that are not installed are
//! left out; Debian has them as `pdsh` and `clustershell`. Hosts are reached by a stand-in for ssh, at
//! no cost and at that of a usual login. With `LIBI_LABS=1`, as root, they are reached by real ssh, in
//! the laboratory of the tests. At the end it checks that no command of `libi shell` has called a
//! remote shell.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use libi::{Backend, SshClient};
use libi_testkit::labs::Sshd;
use libi_testkit::{native, programs};

/// What a login through the stand-in costs: its configuration, and how it is called.
const COSTS: [(&str, &str); 2] =
    [("", "stand-in at no cost"), ("seq 7ms\nrem 172ms\n", "stand-in, SEQ 7 ms, REM 172 ms")];
/// The longest that a command may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How hosts are reached.
struct Reach {
    called: String,
    /// The hosts, as a list.
    hosts: String,
    /// The back-end of libi, with its options.
    libi: Vec<String>,
    /// The command line by which the others reach the host `%h`.
    remote: Vec<String>,
    config: Option<PathBuf>,
    /// Where each call of the remote shell leaves a line.
    log: PathBuf,
}

impl Reach {
    /// Through a stand-in with this configuration.
    fn stand_in(hosts: u32, (cost, called): (&str, &str)) -> Self {
        let directory = native::scratch().join("warm");
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(directory.join("locks")).unwrap();
        let config = directory.join("config");
        let locks = if cost.is_empty() { "" } else { "locks locks\n" };
        std::fs::write(&config, format!("log log\n{locks}{cost}")).unwrap();
        Self {
            called: called.to_owned(),
            hosts: format!("h[1-{hosts}]"),
            libi: vec!["--backend".to_owned(), programs::shell().to_owned()],
            remote: vec![programs::shell().to_owned(), "%h".to_owned()],
            config: Some(config),
            log: directory.join("log"),
        }
    }

    /// Through the real ssh of the laboratory.
    fn ssh(hosts: u32, lab: &Sshd) -> Self {
        let (wrapper, log) = wrapper(lab);
        let wrapper = wrapper.as_str();
        Self {
            called: "real ssh".to_owned(),
            hosts: format!("127.0.1.[1-{hosts}]"),
            libi: vec!["--backend".to_owned(), wrapper.to_owned()],
            remote: vec![wrapper.to_owned(), "%h".to_owned()],
            config: None,
            log,
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        if let Some(config) = &self.config {
            command.env("LIBI_TEST_SHELL", config);
        }
        command
    }

    /// How often the remote shell was called so far.
    fn calls(&self) -> usize {
        std::fs::read_to_string(&self.log).map_or(0, |log| log.lines().count())
    }
}

/// A shell of libi that waits for commands.
struct Warm {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    launched: Duration,
}

impl Warm {
    fn new(reach: &Reach) -> Self {
        // The first call builds the programs, which is not the launch.
        let mut command = reach.command(programs::libi());
        let began = Instant::now();
        command.arg("shell").args(&reach.libi).args(["-w", &reach.hosts]);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut warm = Self { child, input, output, launched: Duration::ZERO };
        warm.run("true");
        warm.launched = began.elapsed();
        warm
    }

    /// Runs a command on all hosts. A built-in word follows, whose answer shows that it is over.
    fn run(&mut self, command: &str) -> Duration {
        let began = Instant::now();
        self.input.write_all(format!("{command}\n@hosts\n").as_bytes()).unwrap();
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the shell has ended");
        began.elapsed()
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success(), "a command has failed");
    }
}

/// The command line of a peer.
fn peer(name: &str, reach: &Reach, hosts: u32) -> Vec<String> {
    let words = [name, "-R", "exec", "-f", &hosts.to_string(), "-w", &reach.hosts].map(str::to_owned);
    words.into_iter().chain(reach.remote.iter().cloned()).chain(["true".to_owned()]).collect()
}

/// How long a command of a peer takes.
fn time(reach: &Reach, words: &[String]) -> Duration {
    let mut command = reach.command("timeout");
    command.arg(TIMEOUT.as_secs().to_string()).args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let began = Instant::now();
    assert!(command.status().unwrap().success(), "{words:?}");
    began.elapsed()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).is_file())
}

fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Prints one row of the table.
fn measure(reach: &Reach, hosts: u32, commands: u32, peers: &[&str]) {
    let mut warm = Warm::new(reach);
    let (mut own, mut others) = (Vec::new(), vec![Vec::new(); peers.len()]);
    assert!(reach.calls() > 0, "calls of the remote shell are counted");
    let mut calls_of_libi = 0;
    for _ in 0..commands {
        let before = reach.calls();
        own.push(warm.run("true").as_secs_f64());
        calls_of_libi += reach.calls() - before;
        for (peer_name, times) in peers.iter().zip(&mut others) {
            times.push(time(reach, &peer(peer_name, reach, hosts)).as_secs_f64());
        }
    }
    let (called, launched) = (&reach.called, warm.launched);
    warm.end();
    assert_eq!(calls_of_libi, 0, "a command of libi shell has called a remote shell");
    let cell = |times: &Vec<f64>| {
        let ratio = median(times.iter().zip(&own).map(|(time, own)| time / own));
        format!("{:.0} ms ({ratio:.1})", median(times.iter().copied()) * 1e3)
    };
    let cells: Vec<_> = others.iter().map(cell).collect();
    let (own, first) = (median(own.iter().copied()) * 1e3, launched.as_secs_f64() * 1e3);
    println!("| {hosts}, {called} | {first:.0} ms | {own:.1} ms | {} |", cells.join(" | "));
}

fn main() {
    let words: Vec<u32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (hosts, commands) =
        (words.first().copied().unwrap_or(64), words.get(1).copied().unwrap_or(100).max(1));
    let peers: Vec<_> = ["pdsh", "clush"].into_iter().filter(|name| is_installed(name)).collect();
    let names: Vec<_> = peers.iter().map(|name| format!(" {name}, a command |")).collect();
    println!("| hosts, {commands} commands | libi shell, launch | libi shell, a command |{}", names.concat());
    println!("|---|---|---|{}", "---|".repeat(peers.len()));
    if std::env::var_os("LIBI_LABS").is_some() {
        let lab = Sshd::up().unwrap();
        return measure(&Reach::ssh(hosts, &lab), hosts, commands, &peers);
    }
    for cost in COSTS {
        measure(&Reach::stand_in(hosts, cost), hosts, commands, &peers);
    }
}

/// A program that calls the ssh of the laboratory, for all alike, and where it leaves a line of each
/// call.
fn wrapper(lab: &Sshd) -> (String, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let (path, log) = (native::scratch().join("warm-ssh"), native::scratch().join("warm-ssh.log"));
    let _ = std::fs::remove_file(&log);
    let Backend::Ssh(ssh) = lab.ssh("main", SshClient::OpenSsh) else {
        panic!("the laboratory has another remote shell")
    };
    let config = ssh.config.map(|config| config.to_string()).unwrap_or_default();
    let script = format!(
        "#!/bin/sh\necho called >> {}\nexec ssh -F {config} -o BatchMode=yes \"$@\"\n",
        log.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    (path.to_str().unwrap().to_owned(), log)
}
