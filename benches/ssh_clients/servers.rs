//! Servers of ssh for all addresses of 127.0.0.0/8; they end when this is dropped.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use libi_testkit::programs;

const LAB_CLIENT: &str = "/var/lib/libi-lab/sshd/libi-ssh";
/// The configuration of the laboratory, and that part of it which is the same for all hosts: by the rest they
/// have other names, each of which costs an `ssh -G`.
const LAB_CONFIGS: [&str; 2] =
    ["/var/lib/libi-lab/sshd/main.config", "/var/lib/libi-lab/sshd/ssh_clients.config"];

pub(crate) enum Servers {
    Lab,
    Cheap { process: Child, directory: PathBuf, config: String, delay: String },
}

impl Servers {
    pub(crate) fn lab() -> Self {
        assert!(run("up"), "the laboratory does not come up");
        // Hosts launch others as another user, who may not read the directory of the build.
        fs::copy(programs::ssh_client(), LAB_CLIENT).unwrap();
        fs::set_permissions(LAB_CLIENT, fs::Permissions::from_mode(0o755)).unwrap();
        let [whole, part] = LAB_CONFIGS;
        let config = fs::read_to_string(whole).unwrap();
        fs::write(part, config.split("Host n0\n").next().unwrap()).unwrap();
        Self::Lab
    }

    /// Those answer a login after the delay.
    pub(crate) fn cheap(delay: &str) -> Self {
        let directory = programs::scratch().join(format!("ssh-clients-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", key]).current_dir(&directory);
            assert!(keygen.status().unwrap().success());
        }
        let mut command = Command::new(programs::sshd());
        command.args(["--address", "0.0.0.0", "--delay-login", delay, "host", "user.pub"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir(&directory);
        let mut process = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let (port, path) = (port.trim(), directory.display());
        let key = fs::read_to_string(directory.join("host.pub")).unwrap();
        fs::write(directory.join("known"), format!("[127.*]:{port} {key}")).unwrap();
        let config = format!(
            "Host 127.*\n  Port {port}\n  IdentityFile {path}/user\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {path}/known\n  GlobalKnownHostsFile /dev/null\n  \
             StrictHostKeyChecking yes\n  UpdateHostKeys no\n  BatchMode yes\n"
        );
        fs::write(directory.join("config"), config).unwrap();
        let config = format!("{path}/config");
        Self::Cheap { process, directory, config, delay: delay.to_owned() }
    }

    /// The client of ssh that holds many connections.
    pub(crate) fn client(&self) -> &str {
        match self {
            Self::Lab => LAB_CLIENT,
            Self::Cheap { .. } => programs::ssh_client(),
        }
    }

    /// The configuration file by which ssh reaches them.
    pub(crate) fn config(&self) -> &str {
        match self {
            Self::Lab => LAB_CONFIGS[1],
            Self::Cheap { config, .. } => config,
        }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lab => write!(f, "sshd"),
            Self::Cheap { delay, .. } => write!(f, "libi-test-sshd (login after {delay})"),
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        match self {
            Self::Lab => {
                run("down");
            }
            Self::Cheap { process, directory, .. } => {
                drop(process.stdin.take());
                let _ = process.wait();
                let _ = fs::remove_dir_all(directory);
            }
        }
    }
}

fn run(what: &str) -> bool {
    let script = programs::root().join("libi-testkit/labs/sshd");
    Command::new(script).arg(what).status().is_ok_and(|status| status.success())
}
