//! The laboratory of hosts that are namespaces, with real ssh servers and a network that can be
//! made slow, lossy or dead.
//!
//! Who has a [`Network`] is in it himself: the thread that brings it up is on the host `front`, and
//! so is everything that it starts. The hosts end with it, whatever becomes of this process.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use libi::{Backend, OsBytes, Ssh, SshProfile};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Alone, Script, are_asked_for, within};
use crate::{processes, programs};

const SCRIPT: Script = Script("netns");
/// How long hosts may take to begin, on a machine that does much else.
const BEGINNING: Duration = Duration::from_secs(60);

/// Every host, where one is named.
pub const ALL: &str = "*";

/// See the [module](self).
pub struct Network {
    program: Child,
    line: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    /// The first process of each host, and before them of `front`.
    firsts: Vec<(String, i32)>,
    /// The network that this thread was in before.
    before: File,
    _alone: Alone,
}

impl Network {
    /// Of the hosts `h1` to `hN`. Nothing if laboratories are not asked for.
    pub fn of(count: u32) -> Option<Self> {
        Self::with(count, |_| Vec::new())
    }

    /// The same, with options for the servers of some of them, as in `sshd_config`.
    pub fn with(count: u32, options: impl Fn(u32) -> Vec<&'static str>) -> Option<Self> {
        if !are_asked_for() {
            return None;
        }
        let alone = Alone::with("/dev/net/tun");
        SCRIPT.run(&["up", &count.to_string()]);
        SCRIPT.bring_member();
        for host in 1..=count {
            let options = options(host);
            if !options.is_empty() {
                fs::write(SCRIPT.path(&format!("h{host}.options")), options.join("\n") + "\n").unwrap();
            }
        }
        let mut program = Command::new(programs::network());
        program.arg(SCRIPT.path("hosts")).arg(SCRIPT.file());
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        fs::write(SCRIPT.path("network.pid"), program.id().to_string()).unwrap();
        let line = (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()));
        let before = File::open("/proc/thread-self/ns/net").unwrap();
        // From here on whatever fails takes the hosts with it.
        let mut network = Self { program, line: Mutex::new(line), firsts: Vec::new(), before, _alone: alone };
        network.begin();
        Some(network)
    }

    fn begin(&mut self) {
        let ready = self.hear();
        let numbers = ready.strip_prefix("ready ").unwrap_or_else(|| panic!("no hosts: {ready:?}"));
        let hosts = fs::read_to_string(SCRIPT.path("hosts")).unwrap();
        let names = hosts.lines().map(|line| line.split(' ').next().unwrap().to_owned());
        self.firsts = names.zip(numbers.split(' ').map(|number| number.parse().unwrap())).collect();
        let is_up = |(name, first): &(String, i32)| {
            let log = || fs::read_to_string(SCRIPT.path(&format!("{name}.log"))).unwrap_or_default();
            assert!(fs::exists(format!("/proc/{first}/ns/net")).unwrap(), "{name} has ended: {}", log());
            fs::exists(SCRIPT.path(&format!("{name}.up"))).unwrap()
        };
        within(BEGINNING, "all hosts are up", || self.firsts.iter().all(is_up));
        enter(&network_of(self.first("front")));
    }

    /// How hosts are reached; these options of ssh count more than all others.
    pub fn backend(&self) -> Backend {
        let config = Some(OsBytes::new(SCRIPT.path("config")).unwrap());
        Backend::Ssh(Ssh { profile: SshProfile::Fast, config, ..Ssh::new() })
    }

    /// The program that tests launch, where all users may execute it.
    pub fn member(&self) -> String {
        SCRIPT.path("member")
    }

    /// Puts a program where all users may execute it, and returns its path there.
    pub fn bring(&self, program: &str, name: &str) -> String {
        SCRIPT.bring(program, name)
    }

    /// What every host sends takes so long to arrive.
    pub fn delay(&self, delay: Duration) {
        for (name, _) in &self.firsts {
            self.tell(&format!("delay {name} {}", delay.as_micros()));
        }
    }

    /// No host sends more than so many megabits in a second.
    pub fn limit(&self, megabits: u32) {
        for (name, _) in &self.firsts {
            let limit = format!("rate {megabits}mbit burst 64kb latency 200ms");
            self.run(name, &format!("tc qdisc replace dev eth0 root tbf {limit}"));
        }
    }

    /// Of the packets from one to another so many in a hundred do not arrive; `what` as in the head
    /// of the program.
    pub fn drop_from_to(&self, from: &str, to: &str, percent: u32, what: &str) {
        self.tell(&format!("drop {from} {to} {percent} {what}"));
    }

    /// Nothing comes from it or to it.
    pub fn cut(&self, host: &str) {
        self.cut_from(host);
        self.drop_from_to(ALL, host, 100, "all");
    }

    /// Nothing comes from it.
    pub fn cut_from(&self, host: &str) {
        self.drop_from_to(host, ALL, 100, "all");
    }

    /// So many packets in a hundred are lost.
    pub fn loss(&self, percent: u32) {
        self.drop_from_to(ALL, ALL, percent, "all");
    }

    /// Everything arrives again.
    pub fn heal(&self) {
        self.tell("heal");
    }

    /// A further address of a host, which others reach it at.
    pub fn address(&self, host: &str, address: &str) {
        self.tell(&format!("address {host} {address}"));
    }

    /// Has a script run on a host, and gives what it prints.
    pub fn run(&self, host: &str, script: &str) -> String {
        let first = self.first(host).to_string();
        let done = Command::new("nsenter").args(["-t", &first, "-a", "sh", "-ec", script]).output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(done.status.success(), "{host}: {script}: {}\n{}", done.status, said(&done.stderr));
        said(&done.stdout)
    }

    /// Has something done in the network of a host; sockets that come of it stay there.
    pub fn inside<T: Send>(&self, host: &str, what: impl FnOnce() -> T + Send) -> T {
        let network = network_of(self.first(host));
        let there = || {
            enter(&network);
            what()
        };
        std::thread::scope(|scope| scope.spawn(there).join().unwrap())
    }

    /// The numbers of all processes of a host.
    pub fn processes(&self, host: &str) -> Vec<i32> {
        let of = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let Some(here) = of(self.first(host)) else { return Vec::new() };
        processes::all().filter(|pid| of(*pid).as_ref() == Some(&here)).collect()
    }

    /// Stops every process of a host. Its kernel goes on.
    pub fn freeze(&self, host: &str) {
        let mut stopped = Vec::new();
        loop {
            let others = self.processes(host).into_iter().filter(|pid| !stopped.contains(pid));
            let others: Vec<i32> = others.collect();
            if others.is_empty() {
                return;
            }
            for pid in others {
                let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
                stopped.push(pid);
            }
        }
    }

    /// Has them go on.
    pub fn thaw(&self, host: &str) {
        for pid in self.processes(host) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
    }

    /// Ends a host as a power failure does: without a word to other hosts.
    pub fn end(&self, host: &str) {
        self.cut(host);
        let first = Pid::from_raw(self.first(host));
        kill(first, Signal::SIGKILL).unwrap();
        within(BEGINNING, "the host has ended", || self.processes(host).is_empty());
    }

    /// The processor time that the program has taken which is the network, in ticks.
    pub fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.program.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Kills the program which is the network.
    pub fn kill(&self) {
        kill(Pid::from_raw(self.program.id() as i32), Signal::SIGKILL).unwrap();
    }

    fn first(&self, host: &str) -> i32 {
        let found = self.firsts.iter().find(|(name, _)| name == host);
        found.unwrap_or_else(|| panic!("{host} is no host")).1
    }

    fn tell(&self, what: &str) {
        writeln!(self.line.lock().unwrap().0, "{what}").unwrap();
        assert_eq!(self.hear(), "ok", "{what}");
    }

    fn hear(&self) -> String {
        let mut line = String::new();
        self.line.lock().unwrap().1.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

fn network_of(pid: i32) -> File {
    File::open(format!("/proc/{pid}/ns/net")).unwrap()
}

/// Moves this thread into a network, with everything that it starts from now on.
#[allow(unsafe_code, reason = "namespaces are the operating system's")]
fn enter(network: &File) {
    // SAFETY: takes numbers, and changes this thread alone.
    let done = unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        if !std::thread::panicking() {
            enter(&self.before);
        }
        SCRIPT.take_down();
    }
}
