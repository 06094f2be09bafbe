//! The laboratory of real ssh servers.

use std::fs;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use libi::{Backend, OsBytes, Shell, Ssh};

use super::{Alone, Script, are_asked_for};

const SCRIPT: Script = Script("sshd");
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

    /// How hosts are reached that this server is on, as users would.
    pub fn ssh(&self, server: &str) -> Backend {
        let config = OsBytes::new(self.path(&format!("{server}.config"))).unwrap();
        Backend::Ssh(Ssh { config: Some(config), ..Ssh::new() })
    }

    /// The same without what `Ssh` adds; these options of ssh count more than all others.
    pub fn backend(&self, server: &str, options: &[&str]) -> Backend {
        let config = self.path(&format!("{server}.config"));
        let options = options.iter().flat_map(|option| ["-o", option]);
        let args = options.chain(["-F", &config]).map(|word| OsBytes::new(word).unwrap()).collect();
        Backend::Shell(Shell { args, ..Shell::new(OsBytes::new("ssh").unwrap()) })
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
