//! The cheap server of ssh does for `ssh` what sshd does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use libi_testkit::labs::within;
use libi_testkit::programs;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A server, with keys of its own.
struct Server {
    process: Child,
    port: u16,
    directory: PathBuf,
}

impl Server {
    /// Nothing if there is no ssh, which only CI must have.
    fn start(name: &str, options: &[&str]) -> Option<Self> {
        if Command::new("ssh").arg("-V").output().is_err() {
            assert!(std::env::var("CI").is_err(), "there is no ssh");
            eprintln!("not tried: there is no ssh");
            return None;
        }
        let directory = programs::scratch().join(format!("sshd-{name}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        for key in ["host", "user", "other"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", key]).current_dir(&directory);
            assert!(keygen.status().unwrap().success());
        }
        let mut command = Command::new(programs::sshd());
        command.args(["--address", "0.0.0.0"]).args(options).args(["host", "user.pub"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir(&directory);
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        let key = fs::read_to_string(directory.join("host.pub")).unwrap();
        fs::write(directory.join("known"), format!("[127.*]:{port} {key}")).unwrap();
        Some(Self { process, port, directory })
    }

    fn ssh(&self, key: &str, host: &str, command: &str) -> Command {
        let mut ssh = Command::new("ssh");
        let options = ["BatchMode=yes", "IdentitiesOnly=yes", "UserKnownHostsFile=known"];
        ssh.args(["-F", "none", "-i", key, "-p", &self.port.to_string()]);
        ssh.args(options.iter().flat_map(|option| ["-o", option]));
        ssh.args([host, command]).current_dir(&self.directory);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ssh
    }

    fn run(&self, command: &str) -> Output {
        self.ssh("user", "127.0.0.1", command).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts a command whose process group has another member; the numbers of both.
    fn start_group(&self) -> (Child, Vec<u32>) {
        let script = "sleep 1000 & echo $!; echo $$; exec sleep 1000";
        let mut ssh = self.ssh("user", "127.0.0.1", script).spawn().unwrap();
        let lines = BufReader::new(ssh.stdout.take().unwrap()).lines().take(2);
        let numbers = lines.map(|line| line.unwrap().parse().unwrap()).collect();
        (ssh, numbers)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn have_ended(numbers: &[u32]) {
    let is_there = |number: &u32| {
        let state = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        state.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    };
    within(TIMEOUT, "the commands have ended", || !numbers.iter().any(is_there));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn commands_get_the_variables_of_ssh_and_return_streams_and_status() {
    let Some(server) = Server::start("streams", &["--cipher", "chacha"]) else { return };
    let script = "set -- $SSH_CONNECTION; echo $1 $3 $4; echo problem >&2; exit 7";
    let done = server.ssh("user", "127.3.2.1", script).output().unwrap();
    assert_eq!(text(&done.stdout), format!("127.0.0.1 127.3.2.1 {}\n", server.port));
    assert_eq!((text(&done.stderr), done.status.code()), ("problem\n".to_owned(), Some(7)));
    assert_eq!(server.run("kill -TERM $$").status.code(), Some(255));
}

#[test]
fn other_keys_are_refused() {
    let Some(server) = Server::start("keys", &[]) else { return };
    let done = server.ssh("other", "127.0.0.1", "true").output().unwrap();
    assert!(text(&done.stderr).ends_with("Permission denied (publickey).\r\n"), "{done:?}");
}

#[test]
fn input_waits_until_the_command_reads_it_and_output_until_the_client_does() {
    let Some(server) = Server::start("window", &[]) else { return };
    let block = vec![b'x'; 8 << 20];
    let mut ssh = server.ssh("user", "127.0.0.1", "read line; cat").spawn().unwrap();
    let (mut input, mut output) = (ssh.stdin.take().unwrap(), ssh.stdout.take().unwrap());
    std::thread::scope(|scope| {
        let sent = &block;
        scope.spawn(move || {
            input.write_all(b"line\n").unwrap();
            input.write_all(sent).unwrap();
        });
        let mut echoed = Vec::new();
        output.read_to_end(&mut echoed).unwrap();
        assert!(echoed == block, "{} bytes", echoed.len());
    });
    assert!(ssh.wait().unwrap().success());
}

#[test]
fn commands_end_with_their_connection() {
    let Some(server) = Server::start("connection", &[]) else { return };
    let (mut ssh, numbers) = server.start_group();
    ssh.kill().unwrap();
    ssh.wait().unwrap();
    have_ended(&numbers);
}

#[test]
fn the_server_ends_with_its_input_and_commands_with_the_server() {
    let Some(mut server) = Server::start("input", &[]) else { return };
    let (mut ssh, numbers) = server.start_group();
    drop(server.process.stdin.take());
    assert!(server.process.wait().unwrap().success());
    have_ended(&numbers);
    assert_eq!(ssh.wait().unwrap().code(), Some(255));
}

#[test]
fn a_login_takes_as_long_as_it_is_to() {
    let options = ["--delay-connect", "50ms", "--delay-login", "100ms", "--delay-command", "150ms"];
    let Some(server) = Server::start("delays", &options) else { return };
    let began = Instant::now();
    assert!(server.run("true").status.success());
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}
