//! The laboratory of real ssh servers.

use std::fs;
use std::mem::ManuallyDrop;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use libi::{Backend, OsBytes, Shell, Ssh, SshClient};
use libi_launch::ssh_client::CLIENT_PROGRAM;

use super::{Alone, Script, are_asked_for};
use crate::programs;

const SCRIPT: Script = Script("sshd");
const KEX: &str = "KexAlgorithms curve25519-sha256,ecdh-sha2-nistp256,diffie-hellman-group14-sha256";
const SERVER: &str = "/usr/sbin/sshd";

/// Servers that reach this machine by any address of 127.0.0.0/8. They end with the last who has
/// this.
pub struct Sshd {
    _alone: Option<Alone>,
}

impl Sshd {
    /// Nothing if laboratories are not asked for.
    pub fn up() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Sshd>> = Mutex::new(Weak::new());
        if !are_asked_for() {
            return None;
        }
        // A test that has failed while it waited for this has done no harm.
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(lab) = shared.upgrade() {
            return Some(lab);
        }
        let lab = Self { _alone: Some(Alone::with(SERVER)) };
        SCRIPT.run(&["up"]);
        SCRIPT.bring_member();
        let lab = Arc::new(lab);
        *shared = Arc::downgrade(&lab);
        Some(lab)
    }

    /// That of the process that has started this one, which sees to it. Not to be dropped.
    pub fn of_another_process() -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self { _alone: None })
    }

    /// Another user, with this login shell. Returns the name.
    pub fn user(&self, name: &str, shell: &str) -> String {
        SCRIPT.run(&["user", name, shell]);
        format!("libi-{name}")
    }

    /// Writes a file of this user.
    pub fn write_home(&self, user: &str, file: &str, text: &str) {
        let path = self.home(user).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn home(&self, user: &str) -> PathBuf {
        SCRIPT.state().join("home").join(user)
    }

    /// Another server, with these options.
    pub fn serve(&self, name: &str, options: &[&str]) {
        SCRIPT.run(&[&["serve", name], options].concat());
    }

    /// Where a server listens.
    pub fn port(&self, server: &str) -> u16 {
        let config = fs::read_to_string(self.path(&format!("{server}.config"))).unwrap();
        let port = config.lines().find_map(|line| line.trim().strip_prefix("Port "));
        port.unwrap().parse().unwrap()
    }

    pub fn stop(&self, name: &str) {
        SCRIPT.run(&["stop", name]);
    }

    /// How hosts are reached that this server is on, as users would, by this client.
    pub fn ssh(&self, server: &str, client: SshClient) -> Backend {
        Backend::Ssh(self.by(client, server))
    }

    /// The same without what `Ssh` adds, if the client is OpenSSH's; these options of ssh count more
    /// than all others.
    pub fn backend(&self, server: &str, options: &[&str], client: SshClient) -> Backend {
        if client != SshClient::OpenSsh {
            let options = options.iter().map(|option| OsBytes::new(*option).unwrap()).collect();
            return Backend::Ssh(Ssh { options, ..self.by(client, server) });
        }
        let config = self.path(&format!("{server}.config"));
        let options = options.iter().flat_map(|option| ["-o", option]);
        let args = options.chain(["-F", &config]).map(|word| OsBytes::new(word).unwrap()).collect();
        Backend::Shell(Shell { args, ..Shell::new(OsBytes::new("ssh").unwrap()) })
    }

    fn by(&self, client: SshClient, server: &str) -> Ssh {
        let config = self.path(&format!("{server}.config"));
        let with = |config: &str| Some(OsBytes::new(config).unwrap());
        if client == SshClient::OpenSsh {
            return Ssh { config: with(&config), client, ..Ssh::new() };
        }
        // OpenSSH of Debian 12 would agree on a key exchange that this client declines.
        let text = format!("Host *\n  {KEX}\n{}", fs::read_to_string(&config).unwrap());
        let without = self.path(&format!("{server}.classic.config"));
        // Others may be reading it.
        if fs::read_to_string(&without).ok().as_ref() != Some(&text) {
            fs::write(&without, text).unwrap();
            fs::set_permissions(&without, fs::Permissions::from_mode(0o644)).unwrap();
        }
        let client_program = OsBytes::new(self.client_program()).unwrap();
        Ssh { config: with(&without), client, client_program, ..Ssh::new() }
    }

    /// The client of ssh that holds many connections, where all users may execute it.
    pub fn client_program(&self) -> String {
        static BROUGHT: Mutex<()> = Mutex::new(());
        let _one_at_a_time = BROUGHT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let path = self.path(CLIENT_PROGRAM);
        // A file that is executed cannot be written again.
        if !Path::new(&path).exists() {
            self.bring(programs::ssh_client(), CLIENT_PROGRAM);
        }
        path
    }

    /// Another program, where all users may execute it.
    pub fn bring(&self, program: &str, name: &str) -> String {
        SCRIPT.bring(program, name)
    }

    /// The program that tests launch, where all users may execute it.
    pub fn member(&self) -> String {
        self.path("member")
    }

    /// A file of the laboratory.
    pub fn path(&self, file: &str) -> String {
        SCRIPT.path(file)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        SCRIPT.take_down();
    }
}
