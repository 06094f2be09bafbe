//! A launch through the stand-in shell, its processes, and their TCP sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libi::{
    Backend, Distribution, Event, Exit, FrontEnd, LaunchOptions, LinkPolicy, OsBytes, Policy, Rank, Rules,
    Session, Shell, Stream,
};

use crate::processes;
use crate::programs::{self, member};
use crate::shell::Lab;

const MARK: &str = "LIBI_TEST_MARK";
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// One launch at a time: what a test sees of this process is its own.
static ALONE: Mutex<()> = Mutex::new(());

pub struct Testbed {
    pub lab: Lab,
    mark: String,
    _alone: MutexGuard<'static, ()>,
}

impl Testbed {
    pub fn new(config: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        Self { lab: Lab::new(config), mark, _alone: alone }
    }

    pub fn options(&self, links: LinkPolicy) -> LaunchOptions {
        self.options_with(links, &[])
    }

    /// The options with this command before the shell, which every launcher runs.
    pub fn options_with(&self, links: LinkPolicy, before: &[&str]) -> LaunchOptions {
        let config = format!("LIBI_TEST_SHELL={}", self.lab.0.join("config").display());
        let mark = format!("{MARK}={}", self.mark);
        let lab = self.lab.0.to_str().unwrap();
        let words = [&["-C", lab, config.as_str(), mark.as_str()][..], before, &[programs::shell()]].concat();
        let shell = Shell { args: words.into_iter().map(word).collect(), ..Shell::new(word("env")) };
        let rules = Rules { kill_grace: Duration::from_millis(500), attempts: 1, ..Rules::default() };
        LaunchOptions::local()
            .backend(Backend::Shell(shell))
            .policy(Policy::All)
            .deadline(TIMEOUT)
            .rules(rules)
            .links(links)
            .loopback(true)
    }

    /// The processes of the launch without the front end, which is this process.
    pub fn processes(&self) -> BTreeSet<u32> {
        let mark = format!("{MARK}={}", self.mark);
        processes::bearing(&mark).into_iter().map(|(pid, _)| pid.unsigned_abs()).collect()
    }

    /// The processes that have joined or will.
    pub fn leaders(&self) -> BTreeSet<u32> {
        let is_member = |pid: &u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.starts_with(member().as_bytes())
        };
        self.processes().into_iter().filter(is_member).collect()
    }

    /// Where processes of the launch listen, the front end included, by process.
    pub fn listeners(&self) -> BTreeMap<SocketAddr, u32> {
        let sockets = tcp_sockets();
        let pids = self.processes().into_iter().chain([std::process::id()]);
        let of = |pid| sockets_of(pid).into_values().map(move |inode| (pid, inode));
        let all = pids.flat_map(of);
        let listening = all.filter_map(|(pid, inode)| {
            let socket = sockets.get(&inode).filter(|socket| socket.listens)?;
            Some((socket.local, pid))
        });
        listening.collect()
    }

    pub fn nothing_is_left(&self) {
        soon("nothing is left of the launch", || self.processes().is_empty());
    }
}

pub fn members(hosts: &str, words: &[&str]) -> Distribution {
    Distribution::new(member()).args(words).hosts(hosts)
}

pub fn launch(front: &FrontEnd, hosts: &str, words: &[&str], options: &LaunchOptions) -> Session {
    front.launch(&members(hosts, words), options).unwrap()
}

/// Waits until so many links of a session are direct.
pub fn direct(session: &Session, count: u32) {
    soon("all links are direct", || session.links().direct == count);
    assert_eq!(session.links().fell_back, 0);
}

pub fn word(text: &str) -> OsBytes {
    OsBytes::try_from(text).unwrap()
}

/// Waits until the condition holds.
pub fn soon(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What members have printed and how they ended, when all have.
pub struct Outcome {
    pub out: BTreeMap<Rank, Vec<u8>>,
    pub exits: BTreeMap<Rank, Exit>,
}

pub fn follow(front: &FrontEnd) -> Outcome {
    let deadline = Instant::now() + TIMEOUT;
    let (mut out, mut exits) = (BTreeMap::<Rank, Vec<u8>>::new(), BTreeMap::new());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match front.next_event(left).expect("the members do not end") {
            Event::Output { rank, stream: Stream::Out, bytes, .. } => {
                out.entry(rank).or_default().extend(bytes);
            }
            Event::Exited { rank, exit, .. } => drop(exits.insert(rank, exit)),
            Event::Lost { name, failure, .. } => panic!("{name} is lost: {failure:?}"),
            Event::Done { .. } => return Outcome { out, exits },
            _ => {}
        }
    }
}

/// Whether the test may do what needs root. Fails in CI if not.
#[allow(unsafe_code, reason = "a call of the operating system")]
pub fn is_root() -> bool {
    // SAFETY: returns a number.
    let root = unsafe { libc::geteuid() } == 0;
    assert!(root || std::env::var("CI").as_deref() != Ok("true"), "CI has to be root");
    if !root {
        println!("left out: this needs root");
    }
    root
}

/// A socket as listed by the system.
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    pub local: SocketAddr,
    pub listens: bool,
}

/// All TCP sockets over IPv4 and IPv6, by inode.
pub fn tcp_sockets() -> BTreeMap<u64, Tcp> {
    let mut sockets = BTreeMap::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(file).unwrap_or_default().lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (address, port) = words[1].rsplit_once(':').unwrap();
            let port = u16::from_str_radix(port, 16).unwrap();
            let ip = u32::from_str_radix(&address[address.len() - 8..], 16).unwrap();
            let local = SocketAddr::new(Ipv4Addr::from(ip.to_le_bytes()).into(), port);
            let socket = Tcp { local, listens: words[3] == "0A" };
            sockets.insert(words[9].parse().unwrap(), socket);
        }
    }
    sockets
}

/// The descriptors of a process that are sockets, with their inodes.
pub fn sockets_of(pid: u32) -> BTreeMap<i32, u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeMap::new() };
    let socket = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, inode))
    };
    entries.flatten().filter_map(socket).collect()
}

/// Shuts a connection of another process down in both directions.
#[allow(unsafe_code, reason = "descriptors of others are the operating system's")]
pub fn shut_down(pid: u32, number: i32) {
    // SAFETY: all three take and return numbers.
    let copy = unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        assert!(process >= 0, "{}", std::io::Error::last_os_error());
        let process = OwnedFd::from_raw_fd(process);
        let fd = libc::syscall(libc::SYS_pidfd_getfd, std::os::fd::AsRawFd::as_raw_fd(&process), number, 0);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd as i32)
    };
    nix::sys::socket::shutdown(std::os::fd::AsRawFd::as_raw_fd(&copy), nix::sys::socket::Shutdown::Both)
        .unwrap();
}
