//! A private sshd on a loopback port, an agent, and the real `ssh` beside them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{User, getuid};
use russh::keys::PublicKey;
use tokio::net::TcpStream;

use super::super::super::*;
use super::super::lab::{Directory, Run, accepting, settings_for, start};

const SSHD: &str = "/usr/sbin/sshd";

pub(super) struct Sshd {
    pub(super) port: u16,
    pub(super) host_key: PublicKey,
    directory: Directory,
    child: Child,
}

/// What became of a real `ssh`.
pub(in super::super) struct Ssh {
    pub(in super::super) code: i32,
    pub(in super::super) out: Vec<u8>,
    pub(in super::super) err: String,
}

pub(super) struct Agent {
    pub(super) socket: String,
    child: Child,
}

impl Sshd {
    /// `@` in the lines of configuration is the directory of the server.
    pub(super) async fn start(lines: &str) -> Option<Sshd> {
        if !Path::new(SSHD).exists() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{SSHD} is missing");
            println!("skipped: {SSHD} is missing");
            return None;
        }
        if getuid().is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let directory = Directory::new();
        let root = directory.0.to_str().unwrap().to_owned();
        let host = format!("{root}/host");
        keygen(&["-t", "ed25519", "-N", "", "-f", &host]);
        let authority = format!("{root}/host-authority");
        keygen(&["-t", "ed25519", "-N", "", "-f", &authority]);
        keygen(&["-s", &authority, "-I", "host", "-h", &format!("{host}.pub")]);
        let port = free_port();
        let configuration = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nPidFile none\nStrictModes no\n\
             AuthorizedKeysFile {root}/authorized\nUsePAM no\nMaxStartups 500\nPermitRootLogin yes\n\
             SetEnv HOME=/var/empty\nPermitUserEnvironment no\nLogLevel QUIET\n{}\n",
            lines.replace('@', &root)
        );
        fs::write(format!("{root}/sshd.conf"), configuration).unwrap();
        fs::write(format!("{root}/authorized"), "").unwrap();
        let public = fs::read_to_string(format!("{host}.pub")).unwrap();
        fs::write(format!("{root}/known"), format!("[127.0.0.1]:{port} {public}")).unwrap();
        fs::write(format!("{root}/authority.pub"), &public).unwrap();
        let configuration = format!("{root}/sshd.conf");
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-f", &configuration])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let sshd = Sshd { port, host_key: PublicKey::from_openssh(public.trim()).unwrap(), directory, child };
        for _ in 0..3_000 {
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Some(sshd);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("sshd does not listen");
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.directory.0.join(name).to_str().unwrap().to_owned()
    }

    pub(super) fn key(&self, name: &str, kind: &str) -> String {
        let path = self.path(name);
        keygen(&["-t", kind, "-N", "", "-f", &path]);
        path
    }

    pub(super) fn authorize(&self, key: &str) {
        let path = self.path("authorized");
        let known = fs::read_to_string(&path).unwrap();
        fs::write(&path, known + &fs::read_to_string(format!("{key}.pub")).unwrap()).unwrap();
    }

    /// A line of configuration for a new key that the server accepts.
    pub(super) fn authorized(&self, kind: &str) -> String {
        let key = self.key(&format!("user-{kind}"), kind);
        self.authorize(&key);
        identity(&key)
    }

    pub(super) fn policy(&self) -> Arc<dyn Policy> {
        accepting(Some(self.host_key.clone()))
    }

    /// Another name of this host, which `ssh` would not go through to itself.
    pub(super) fn destination(&self) -> String {
        format!("{}@localhost:{}", user(), self.port)
    }

    /// As far as the tests need it.
    pub(super) fn settings(&self, lines: &str) -> Settings {
        let mut settings = settings_for(self.port);
        settings.user = user();
        settings.login.accepted.push("rsa-sha2-512-cert-v01@openssh.com".into());
        for (name, value) in lines.lines().filter_map(|line| line.split_once(' ')) {
            let login = &mut settings.login;
            match name {
                "IdentityFile" => login.identities.push(value.into()),
                "CertificateFile" => login.certificates.push(value.into()),
                "IdentityAgent" => login.agent = Some(value.into()),
                "IdentitiesOnly" => login.identities_only = value == "yes",
                "SetEnv" => {
                    let (name, value) = value.split_once('=').unwrap();
                    settings.variables.push((name.into(), value.into()));
                }
                _ => {}
            }
        }
        settings
    }

    pub(super) async fn ssh(&self, lines: &str, options: &[&str], command: &str) -> Ssh {
        let path = self.path("ssh.conf");
        let agent = if lines.contains("IdentityAgent") { "" } else { "IdentityAgent none\n" };
        let known = self.path("known");
        let configuration = format!(
            "Host *\n{lines}{agent}BatchMode yes\nUserKnownHostsFile {known}\nGlobalKnownHostsFile none\n\
             HostKeyAlias [127.0.0.1]:{}\nPort {}\nUser {}\n",
            self.port,
            self.port,
            user()
        );
        fs::write(&path, configuration).unwrap();
        let mut ssh = tokio::process::Command::new("ssh");
        ssh.args(["-F", &path]).args(options).args(["127.0.0.1", command]).stdin(Stdio::null());
        let output = ssh.output().await.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        Ssh { code: output.status.code().unwrap(), out: output.stdout, err }
    }

    pub(super) async fn agent(&self) -> Agent {
        let socket = self.path("agent");
        let mut command = Command::new("ssh-agent");
        let command = command.args(["-D", "-a", &socket]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        while !Path::new(&socket).exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Agent { socket, child }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Agent {
    pub(super) fn add(&self, key: &str) {
        let mut command = Command::new("ssh-add");
        let command = command.args(["-q", key]).env("SSH_AUTH_SOCK", &self.socket);
        assert!(command.status().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(in super::super) fn keygen(arguments: &[&str]) {
    assert!(Command::new("ssh-keygen").arg("-q").args(arguments).status().unwrap().success());
}

pub(super) fn identity(path: &str) -> String {
    format!("IdentityFile {path}\n")
}

pub(in super::super) fn set_mode(path: &str, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(super) fn user() -> String {
    User::from_uid(getuid()).unwrap().unwrap().name
}

/// The exit status that `ssh` has.
pub(in super::super) fn ended(run: &Run) -> i32 {
    match run.end {
        Some(End::Code(code)) => code,
        Some(End::Signal(_)) => FAILED,
        None => panic!("declined: {:?}", run.declined),
    }
}

/// Logs in many times; returns how long it took, and the processor time of this process.
pub(super) async fn logins(count: usize, at_once: usize) -> Option<(Duration, Duration)> {
    let sshd = Sshd::start("").await?;
    let settings = sshd.settings(&sshd.authorized("ed25519"));
    let identities = Arc::new(Identities::default());
    let spent = || {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        Duration::from_micros((usage.user_time() + usage.system_time()).num_microseconds() as u64)
    };
    let (began, before) = (Instant::now(), spent());
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..count {
        if running.len() == at_once {
            running.join_next().await;
        }
        let (start, ends) = start(settings.clone(), sshd.policy(), "true");
        let identities = Arc::clone(&identities);
        running.spawn(async move {
            let outcome = run(start, &identities, || {}).await;
            drop(ends);
            assert!(matches!(outcome, Outcome::Ended(End::Code(0))));
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    Some((began.elapsed(), spent() - before))
}

/// A port that the system gives to no connection, and no other test to a server: each test is a process of
/// its own, as a rule.
pub(in crate::connection::tests) fn free_port() -> u16 {
    let of_process = (std::process::id() % 10_000) as u16;
    let ports = (0..10_000).map(|next| 10_000 + (of_process + next) % 10_000);
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.into_iter().find(is_free).unwrap()
}
