//! Measures launches through real ssh, beside a plain loop of `ssh HOST true`.
//!
//! `cargo bench --bench ssh [HOSTS] [ROUNDS]` sets up the ssh servers that
//! the tests use (as root, with openssh-server; see `libi-testkit/labs/sshd`), launches hosts (128 unless
//! given) with one member each, and removes the servers. Launches and loops take turns: with the default
//! options, over channels alone, and both where only the front end may log in: hosts that call ssh are
//! refused by the server. The output is the median, minimum and maximum over rounds (5 unless given).
//! The loop runs as many ssh at a time as proved fastest in a first pass. Beside wall time it prints the processor time of the
//! machine per host, and the part of it spent in libi's processes; the rest is ssh and sshd.
#![allow(unsafe_code, reason = "what a process has used is asked of the operating system")]
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libi::{Backend, Distribution, FrontEnd, LaunchOptions, LinkPolicy, Member, Op, OsBytes, Rank, Ssh};

const CONFIG: &str = "/var/lib/libi-lab/sshd/main.config";
const TIMEOUT: Duration = Duration::from_secs(120);

fn main() {
    if std::env::var_os("LIBI_LINK").is_some() {
        return work();
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |nth: usize, usual: u32| words.get(nth).map_or(usual, |word| word.parse().unwrap());
    let (hosts, rounds) = (number(0, 128), number(1, 5));
    let _lab = Lab::up();
    println!("{hosts} hosts through ssh on this machine");
    let best = [2, 3, 4, 6, 8, 12, 16, 24, 32]
        .into_iter()
        .map(|at_once| (by_hand(hosts, at_once).wall, at_once))
        .inspect(|(took, at_once)| {
            println!("ssh HOST true, {at_once:>2} at a time {:>10.3} s", took.as_secs_f64());
        })
        .min()
        .unwrap()
        .1;
    let refused = Refusing::new();
    let ways = [
        ("launch, all members joined", LinkPolicy::Auto, "ssh"),
        ("the same over channels", LinkPolicy::Channel, "ssh"),
        ("only the front end may log in", LinkPolicy::Auto, refused.path()),
        ("the same over channels", LinkPolicy::Channel, refused.path()),
    ];
    let (mut loops, mut ours) = (Vec::new(), ways.map(|_| Vec::new()));
    for _ in 0..rounds {
        loops.push(by_hand(hosts, best));
        for ((_, links, ssh), taken) in ways.iter().zip(&mut ours) {
            taken.push(launch(hosts, *links, ssh));
        }
    }
    println!(
        "\n{:<36} {:>8} {:>21} {:>12} {:>10} {:>9}",
        "", "median", "(least … most)", "CPU / host", "ours", "/ loop"
    );
    let base = median(loops.iter().map(|one| one.wall));
    row(&format!("ssh HOST true, {best} at a time"), &loops, hosts, base);
    for ((what, ..), taken) in ways.iter().zip(&ours) {
        row(what, taken, hosts, base);
    }
}

/// A program that is called as ssh is, and that the servers refuse where a server has started it.
struct Refusing(String);

impl Refusing {
    const SCRIPT: &str = "#!/bin/sh\n[ -z \"$SSH_CONNECTION\" ] || set -- -o PubkeyAuthentication=no \"$@\"
exec ssh \"$@\"\n";

    fn new() -> Self {
        let path = format!("/tmp/libi-bench-ssh-{}", std::process::id());
        fs::write(&path, Self::SCRIPT).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The program of a member: reports the processor time of its process at the end.
fn work() {
    let member = Member::init().unwrap();
    let used = own_time().as_micros() as u64;
    let all = member.reduce(Rank(0), &[used], Op::Sum).wait(TIMEOUT).unwrap();
    if let Some(all) = all {
        member.send(all[0].to_string()).wait(TIMEOUT).unwrap();
    }
    member.drain(TIMEOUT).unwrap();
}

/// A measured launch or loop. `wall` ends when the last member has joined, or the last ssh ended.
struct Taken {
    wall: Duration,
    /// Processor time of the whole machine.
    machine: Duration,
    /// The part of it spent in libi's processes.
    own: Duration,
}

fn launch(hosts: u32, links: LinkPolicy, program: &str) -> Taken {
    let members = Distribution::new(std::env::current_exe().unwrap()).hosts(format!("n[0-{}]", hosts - 1));
    let word = |text: &str| OsBytes::try_from(text).unwrap();
    let ssh = Ssh { program: word(program), config: Some(word(CONFIG)), ..Ssh::new() };
    let options = LaunchOptions::local().backend(Backend::Ssh(ssh)).links(links);
    let (began, machine, own) = (Instant::now(), machine_time(), own_time());
    let front = FrontEnd::new().unwrap();
    let session = front.launch(&members, &options).unwrap();
    let (wall, machine, own) = (began.elapsed(), machine_time() - machine, own_time() - own);
    let members = session.recv().wait(TIMEOUT).unwrap();
    let members: u64 = std::str::from_utf8(&members).unwrap().parse().unwrap();
    while !matches!(front.next_event(TIMEOUT).unwrap(), libi::Event::Done { .. }) {}
    Taken { wall, machine, own: own + Duration::from_micros(members) }
}

fn by_hand(hosts: u32, at_once: u32) -> Taken {
    let (began, machine) = (Instant::now(), machine_time());
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(host) = Some(next.fetch_add(1, Relaxed)).filter(|host| *host < hosts) {
                    let mut ssh = Command::new("ssh");
                    ssh.args(["-F", CONFIG, "-o", "BatchMode=yes", &format!("n{host}"), "true"]);
                    assert!(ssh.stdin(Stdio::null()).status().unwrap().success(), "n{host}");
                }
            });
        }
    });
    Taken { wall: began.elapsed(), machine: machine_time() - machine, own: Duration::ZERO }
}

/// The time that all processors have been busy since boot.
fn machine_time() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let numbers = stat.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: Vec<u64> = numbers.map(|word| word.parse().unwrap()).collect();
    // The fourth and fifth columns are idle time and waiting for I/O.
    let busy: u64 = ticks.iter().take(7).sum::<u64>() - ticks[3] - ticks[4];
    // SAFETY: returns a number.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    Duration::from_millis(busy * 1_000 / a_second)
}

/// The processor time of this process.
fn own_time() -> Duration {
    // SAFETY: fills in a record of numbers, for which zeros are valid.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut used), 0);
        used
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    time(used.ru_utime) + time(used.ru_stime)
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times[times.len() / 2]
}

fn row(what: &str, all: &[Taken], hosts: u32, base: Duration) {
    let walls = || all.iter().map(|one| one.wall);
    let middle = median(walls());
    let span = format!(
        "({:.3} … {:.3})",
        walls().min().unwrap().as_secs_f64(),
        walls().max().unwrap().as_secs_f64()
    );
    let a_host = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3 / f64::from(hosts));
    println!(
        "{what:<36} {:>6.3} s {span:>21} {:>12} {:>10} {:>9.2}",
        middle.as_secs_f64(),
        a_host(median(all.iter().map(|one| one.machine))),
        a_host(median(all.iter().map(|one| one.own))),
        middle.as_secs_f64() / base.as_secs_f64()
    );
}

/// Removes the servers when dropped.
struct Lab;

impl Lab {
    fn up() -> Self {
        assert!(Self::run("up"), "the laboratory does not come up");
        Self
    }

    fn run(what: &str) -> bool {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/libi-testkit/labs/sshd");
        Command::new(script).arg(what).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        Self::run("down");
    }
}
