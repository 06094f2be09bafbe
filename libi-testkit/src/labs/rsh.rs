//! The laboratory of real rsh servers.

use std::fs;
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use libi::{Backend, OsBytes, Rsh};

use super::{Alone, LEFTOVERS, Script, are_asked_for, within};
use crate::processes;

const SCRIPT: Script = Script("rsh");
const SERVER: &str = "/usr/sbin/in.rshd";

/// Servers that reach this machine by the addresses 127.0.1.1 to 127.0.1.40. They end with the last
/// who has this.
pub struct Rshd {
    _alone: Option<Alone>,
}

impl Rshd {
    /// Nothing if laboratories are not asked for.
    pub fn up() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Rshd>> = Mutex::new(Weak::new());
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
        // Ports stay in use for a minute, also those of tests before this one.
        within(Duration::from_secs(120), "ports below 1024 are free", || ports_in_use() < 250);
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
        format!("libi-rsh-{name}")
    }

    /// Writes a file of this user.
    pub fn write_home(&self, user: &str, file: &str, text: &str) {
        fs::write(SCRIPT.state().join("home").join(user).join(file), text).unwrap();
    }

    /// Another server, which takes so many calls in a minute.
    pub fn serve(&self, name: &str, calls: u32) {
        SCRIPT.run(&["serve", name, &calls.to_string()]);
    }

    pub fn stop(&self, name: &str) {
        SCRIPT.run(&["stop", name]);
    }

    /// Where a server listens.
    pub fn port(&self, server: &str) -> u16 {
        fs::read_to_string(self.path(&format!("{server}.port"))).unwrap().trim().parse().unwrap()
    }

    /// How hosts are reached that this server is on.
    pub fn rsh(&self, server: &str) -> Rsh {
        self.at(self.port(server))
    }

    /// The same of whatever listens at this port.
    pub fn at(&self, port: u16) -> Rsh {
        let args = ["-v", "-p", &port.to_string()].map(|word| OsBytes::new(word).unwrap()).to_vec();
        Rsh { args, user: Some("libi-rsh-sh".to_owned()), ..Rsh::redone() }
    }

    pub fn backend(&self, server: &str) -> Backend {
        Backend::Rsh(self.rsh(server))
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
        SCRIPT.state().join(file).into_os_string().into_string().unwrap()
    }

    /// Nothing that was launched is left, soon: neither what the hosts' users run, shells among it,
    /// nor an rsh.
    pub fn nothing_is_left(&self) {
        let users = fs::read_to_string("/etc/passwd").unwrap();
        let users = users.lines().filter(|line| line.starts_with("libi-rsh-"));
        let users: Vec<u32> = users.filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect();
        let port = format!("\0-p\0{}\0", self.port("main"));
        let left = || -> Vec<String> {
            let is_left = |pid: &i32| {
                let owner = fs::metadata(format!("/proc/{pid}")).map(|data| data.uid());
                owner.is_ok_and(|owner| users.contains(&owner)) || command(*pid).contains(&port)
            };
            let left = processes::all().filter(is_left);
            left.map(|pid| format!("{pid}: {}", command(pid).replace('\0', " "))).collect()
        };
        let mut last = Vec::new();
        within(LEFTOVERS, "nothing is left", || {
            let now = left();
            if now != last && !now.is_empty() {
                println!("left: {now:#?}");
            }
            last = now;
            last.is_empty()
        });
    }
}

fn command(pid: i32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

/// How many of the ports that rsh needs are in use, or were a minute ago.
fn ports_in_use() -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |line: &str| {
        let local = line.split_whitespace().nth(1)?.split(':').nth(1)?;
        u16::from_str_radix(local, 16).ok()
    };
    table.lines().filter_map(port).filter(|port| (512..1024).contains(port)).count()
}

impl Drop for Rshd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Whatever is wrong with this as well, the first failure is to be seen.
            let _ = std::panic::catch_unwind(|| SCRIPT.run(&["down"]));
        } else {
            SCRIPT.run(&["down"]);
        }
    }
}
