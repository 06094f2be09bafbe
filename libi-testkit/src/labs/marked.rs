//! A launch by whose mark all its processes are found, wherever they have gone.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use libi::{Distribution, EnvVar, HostList, OsBytes, SessionId};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::LEFTOVERS;
use crate::processes;

/// The variable that has the mark.
pub const MARK: &str = "LIBI_TEST_MARK";

/// The mark of a launch. When it is dropped nothing that bears it may be left.
pub struct Marked(pub String);

/// A process that bears the mark: in its environment, or in a command that it was given.
#[derive(Debug)]
pub struct Process {
    pub pid: i32,
    /// It was started through a remote shell or a bulk starter, and leads its host.
    pub is_leader: bool,
    /// It is a member of the session, in that place or started by it.
    pub is_member: bool,
    #[allow(dead_code, reason = "it is for people")]
    command: String,
}

impl Marked {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self(format!("lab-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed)))
    }

    /// This program on these hosts, with these arguments.
    pub fn program(&self, program: &str, hosts: &str, words: &[&str]) -> Distribution {
        self.spec(program, hosts, words).into()
    }

    /// The same, open to changes.
    pub fn spec(&self, program: &str, hosts: &str, words: &[&str]) -> libi_core::dist::Distribution {
        let hosts = HostList::parse(hosts).unwrap();
        let mut distribution =
            libi_core::dist::Distribution::new(SessionId(0), OsBytes::new(program).unwrap(), hosts);
        distribution.args = words.iter().map(|word| OsBytes::new(*word).unwrap()).collect();
        distribution.env.push(self.variable());
        distribution
    }

    pub fn variable(&self) -> EnvVar {
        EnvVar::new(OsBytes::new(MARK).unwrap(), OsBytes::new(self.0.as_str()).unwrap()).unwrap()
    }

    /// The processes that bear it. Of one that has ended, nothing is said.
    pub fn processes(&self) -> Vec<Process> {
        let mark = format!("{MARK}={}", self.0);
        let process = |pid: i32| {
            let environment = processes::environment(pid).unwrap_or_default();
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).into_owned();
            let has = |variable: &str| environment.split('\0').any(|other| other == variable);
            let (is_marked, is_told) = (has(&mark), command.contains(&mark));
            let is_led =
                ["stdio", "stdio+stderr", "rendezvous"].map(|streams| format!("LIBI_LINK={streams}"));
            let is_ours = is_marked && !is_told && command.contains("member");
            let is_led = is_ours && is_led.iter().any(|link| has(link));
            let is_local = is_ours && has("LIBI_LINK=3");
            let is_engine = processes::is_engine(pid);
            // The program of a leader that has divided has its variables.
            let has_engine = processes::parent(pid).is_some_and(processes::is_engine);
            (is_marked || is_told).then(|| Process {
                pid,
                is_leader: is_led && !has_engine,
                is_member: (is_led || is_local) && !is_engine,
                command: command.replace('\0', " "),
            })
        };
        processes::all().filter_map(process).collect()
    }

    /// Nothing is left, soon.
    pub fn nothing_is_left(&self) {
        let deadline = Instant::now() + LEFTOVERS;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left after {LEFTOVERS:?}: {left:#?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Process {
    /// It may have ended by itself meanwhile.
    pub fn kill(&self) {
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }

    /// Kills the process that has started it: of the only member of a host, what leads the host.
    pub fn kill_parent(&self) {
        let parent = processes::parent(self.pid).expect("it runs");
        let _ = kill(Pid::from_raw(parent), Signal::SIGKILL);
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.processes().iter().for_each(Process::kill);
        } else {
            self.nothing_is_left();
        }
    }
}
