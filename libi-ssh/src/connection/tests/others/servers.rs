//! dropbear and tinysshd on loopback ports, and what `ssh` and libi-ssh do with them.
//!
//! Both look for keys in the home directory of the user database; tinysshd wants that others cannot
//! write any directory above it. They get a mount namespace in which a directory of the test is the
//! home of root, whose shell is `sh`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::unistd::getuid;
use tokio::io::AsyncWriteExt;

use super::super::super::*;
use super::super::lab::{Directory, Run, start};
use super::super::openssh::sshd::{Ssh, free_port, keygen, set_mode};
use crate::policy::HostPolicy;
use crate::settings::{Asker, Context, Question, Role};

/// Much more than a session takes.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Dropbear,
    /// With its options.
    Tinyssh(&'static str),
}

pub(super) struct Other {
    port: u16,
    directory: Directory,
    child: Option<Child>,
}

impl Other {
    /// A server with the key `user` authorized, and `stranger` not.
    pub(super) fn start(kind: Kind) -> Option<Other> {
        let (program, package) = match kind {
            Kind::Dropbear => ("/usr/sbin/dropbear", "dropbear-bin"),
            Kind::Tinyssh(_) => ("/usr/sbin/tinysshd", "tinysshd"),
        };
        let lacks = match Path::new(program).exists() {
            false => Some(format!("{program} (package {package}) is missing")),
            true if !getuid().is_root() => Some(format!("{program} needs root")),
            true if !namespace("true").status().is_ok_and(|status| status.success()) => {
                Some("there are no mount namespaces".to_owned())
            }
            true => None,
        };
        if let Some(lacks) = lacks {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{lacks}");
            println!("skipped: {lacks}");
            return None;
        }
        let directory = Directory::new();
        let root = directory.0.to_str().unwrap().to_owned();
        for key in ["user", "stranger"] {
            keygen(&["-t", "ed25519", "-N", "", "-C", key, "-f", &format!("{root}/{key}")]);
        }
        fs::create_dir_all(format!("{root}/home/.ssh")).unwrap();
        set_mode(&format!("{root}/home"), 0o700);
        set_mode(&format!("{root}/home/.ssh"), 0o700);
        let authorized = format!("{root}/home/.ssh/authorized_keys");
        fs::copy(format!("{root}/user.pub"), &authorized).unwrap();
        set_mode(&authorized, 0o600);
        let users = "root:x:0:0:root:/root:/bin/sh\n";
        fs::write(format!("{root}/passwd"), users).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (public, child) = match kind {
            Kind::Dropbear => {
                drop(listener);
                let (public, child) = dropbear(&root, port);
                (public, Some(child))
            }
            Kind::Tinyssh(options) => (tinyssh(&root, listener, options), None),
        };
        fs::write(format!("{root}/known"), format!("[127.0.0.1]:{port} {public}\n")).unwrap();
        let other = Other { port, directory, child };
        for _ in 0..3_000 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(other);
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("{program} does not listen");
    }

    fn path(&self, name: &str) -> String {
        self.directory.0.join(name).to_str().unwrap().to_owned()
    }

    /// The file of a configuration that logs in with a key.
    fn configuration(&self, key: &str) -> String {
        let path = self.path(&format!("{key}.conf"));
        let lines = format!(
            "Host *\nPort {}\nUser root\nBatchMode yes\nIdentityFile {}\nIdentityAgent none\n\
             IdentitiesOnly yes\nStrictHostKeyChecking yes\nUserKnownHostsFile {}\nGlobalKnownHostsFile none\n",
            self.port,
            self.path(key),
            self.path("known")
        );
        fs::write(&path, lines).unwrap();
        path
    }

    /// As the helper does it: what `ssh -G` says, the known hosts, and the algorithms decide.
    pub(super) async fn run(&self, key: &str, fast: bool, command: &str, input: &[u8]) -> Run {
        let options = [OsString::from("-F"), self.configuration(key).into()];
        let asker = Asker::new(Context::of_process().unwrap());
        let question =
            Question { program: OsStr::new("ssh"), options: &options, host: "127.0.0.1", role: Role::Target };
        let settings = asker.settings(question).await.unwrap_or_else(|why| panic!("{why}"));
        let known = Arc::default();
        let policy = Arc::new(HostPolicy { settings: Arc::new(settings.clone()), known, fast });
        let (start, ends) = start(settings, policy, command);
        tokio::time::timeout(DEADLINE, Run::of(start, ends, input, None)).await.expect("hangs")
    }

    pub(super) async fn ssh(&self, key: &str, command: &str, input: &[u8]) -> Ssh {
        let mut ssh = tokio::process::Command::new("ssh");
        ssh.args(["-F", &self.configuration(key), "127.0.0.1", command]).kill_on_drop(true);
        let mut ssh =
            ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = ssh.stdin.take().unwrap();
        let input = input.to_vec();
        let sent = tokio::spawn(async move {
            let _ = stdin.write_all(&input).await;
        });
        let output = tokio::time::timeout(DEADLINE, ssh.wait_with_output()).await.expect("hangs").unwrap();
        sent.await.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        Ssh { code: output.status.code().unwrap(), out: output.stdout, err }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A shell in a mount namespace of its own.
fn namespace(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]);
    command
}

const WITH_HOME: &str =
    "mount --bind \"$1/passwd\" /etc/passwd && mount --bind \"$1/home\" /root && shift && exec \"$@\"";

fn server(root: &str, arguments: &[&str]) -> Command {
    let mut command = namespace(WITH_HOME);
    command.arg(root).args(arguments).stderr(Stdio::null());
    command
}

/// Returns the host key as a line.
fn dropbear(root: &str, port: u16) -> (String, Child) {
    let key = format!("{root}/host");
    let made = Command::new("dropbearkey").args(["-t", "ed25519", "-f", &key]).output().unwrap();
    assert!(made.status.success());
    let text = String::from_utf8(made.stdout).unwrap();
    let public = text.lines().find(|line| line.starts_with("ssh-ed25519 ")).unwrap().to_owned();
    let address = format!("127.0.0.1:{port}");
    let pid = format!("{root}/pid");
    let child = server(root, &["/usr/sbin/dropbear", "-F", "-E", "-r", &key, "-p", &address, "-P", &pid])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (public, child)
}

/// Serves as long as the process runs. Returns the host key as a line.
fn tinyssh(root: &str, listener: TcpListener, options: &'static str) -> String {
    let keys = format!("{root}/keys");
    assert!(Command::new("/usr/sbin/tinysshd-makekey").arg(&keys).status().unwrap().success());
    let printed = Command::new("/usr/sbin/tinysshd-printkey").arg(&keys).output().unwrap();
    let public = String::from_utf8(printed.stdout).unwrap();
    let public = public.lines().find(|line| line.starts_with("ssh-ed25519 ")).unwrap().to_owned();
    let root = root.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let input = OwnedFd::from(stream.unwrap());
            let output = input.try_clone().unwrap();
            let mut child = server(&root, &["/usr/sbin/tinysshd", options, &keys])
                .stdin(input)
                .stdout(output)
                .spawn()
                .unwrap();
            thread::spawn(move || child.wait());
        }
    });
    public
}
