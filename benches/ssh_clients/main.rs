//! Measures launches by both clients of ssh, beside a plain loop of `ssh HOST true`.
//!
//! ```text
//! cargo bench --bench ssh_clients -- [HOSTS] [ROUNDS]
//! cargo bench --bench ssh_clients -- cheap [delay=170ms] [HOSTS] [ROUNDS]
//! ```
//!
//! Launches hosts (128 unless given) with one member each, as root: through the sshd of the
//! laboratory (`libi-testkit/labs/sshd`, with openssh-server), or through `libi-test-sshd`, which
//! costs little and answers a login after the delay. Loops and launches take turns, each with
//! the options of both profiles, `own` and `fast`. The loops run as many ssh at a time as proved
//! fastest in a first pass.
//!
//! The output is the median, minimum and maximum of the wall time over rounds (5 unless given), until
//! the last member has joined or the last ssh has ended; processor time per host until then, of the
//! processes that launch (the front end, members, ssh and libi-ssh) and of the whole machine; and the
//! ratio of the wall time to the loop with the options of `own`. Links may be direct.
#![allow(unsafe_code, reason = "the length of a tick is asked of the operating system")]
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

mod processor;
mod servers;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libi::{
    Backend, Distribution, FrontEnd, LaunchOptions, LinkPolicy, Member, OsBytes, Ssh, SshClient, SshProfile,
};

use processor::Launching;
use servers::Servers;

const TIMEOUT: Duration = Duration::from_secs(120);
/// What [`SshProfile::Fast`] sets.
const FAST_OPTIONS: [&str; 4] = [
    "KexAlgorithms=^curve25519-sha256,curve25519-sha256@libssh.org",
    "GSSAPIAuthentication=no",
    "Compression=no",
    "UpdateHostKeys=no",
];
const PROFILES: [SshProfile; 2] = [SshProfile::Own, SshProfile::Fast];
const CLIENTS: [SshClient; 2] = [SshClient::OpenSsh, SshClient::Builtin];

/// What takes turns.
#[derive(Clone, Copy)]
enum Way {
    Loop { profile: SshProfile, at_once: u32 },
    Launch { profile: SshProfile, client: SshClient },
}

/// A measured launch or loop.
struct Taken {
    wall: Duration,
    /// Processor time of the processes that launch.
    launching: Duration,
    /// Processor time of the whole machine.
    machine: Duration,
}

fn main() {
    if std::env::var_os("LIBI_LINK").is_some() {
        return work();
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut numbers = words.iter().filter_map(|word| word.parse().ok());
    let (count, rounds): (u32, u32) = (numbers.next().unwrap_or(128), numbers.next().unwrap_or(5));
    let delay = words.iter().find_map(|word| word.strip_prefix("delay="));
    let servers = if words.iter().any(|word| word == "cheap") {
        Servers::cheap(delay.unwrap_or("0ms"))
    } else {
        Servers::lab()
    };
    println!("{count} hosts through {servers} on this machine");
    let hosts = hosts(count);
    let at_once = PROFILES.map(|profile| best(&servers, &hosts, profile));
    let loops = PROFILES.into_iter().zip(at_once);
    let loops = loops.map(|(profile, at_once)| Way::Loop { profile, at_once });
    let launches = PROFILES.into_iter().flat_map(|profile| CLIENTS.map(|client| (profile, client)));
    let launches = launches.map(|(profile, client)| Way::Launch { profile, client });
    let mut ways: Vec<(Way, Vec<Result<Taken, String>>)> =
        loops.chain(launches).map(|way| (way, Vec::new())).collect();
    for _ in 0..rounds {
        for (way, taken) in &mut ways {
            taken.push(measure(*way, &servers, &hosts));
        }
    }
    println!(
        "\n{:<36} {:>9} {:>19} {:>15} {:>13} {:>7}",
        "", "median", "(least … most)", "launching/host", "machine/host", "/ loop"
    );
    let base = median(ways[0].1.iter().flatten().map(|taken| taken.wall)).unwrap();
    for (way, taken) in &ways {
        row(*way, taken, count, base);
    }
}

/// Addresses, 250 in a network.
fn hosts(count: u32) -> Vec<String> {
    (0..count).map(|host| format!("127.0.{}.{}", 1 + host / 250, 1 + host % 250)).collect()
}

/// How many ssh at a time are fastest.
fn best(servers: &Servers, hosts: &[String], profile: SshProfile) -> u32 {
    let tried = [2, 4, 8, 16, 32].into_iter().map(|at_once| {
        let wall = measure(Way::Loop { profile, at_once }, servers, hosts).unwrap().wall;
        println!("ssh HOST true, {profile}, {at_once:>2} at a time {:>10.3} s", wall.as_secs_f64());
        (wall, at_once)
    });
    tried.min().unwrap().1
}

fn measure(way: Way, servers: &Servers, hosts: &[String]) -> Result<Taken, String> {
    let processes = Launching::new(servers.client(), servers.config());
    processes.until_alone();
    let (began, machine, launching) = (Instant::now(), processor::machine(), processes.spent());
    let taken = || Taken {
        wall: began.elapsed(),
        machine: processor::machine() - machine,
        launching: processes.spent().saturating_sub(launching),
    };
    match way {
        Way::Loop { profile, at_once } => {
            by_hand(servers, hosts, profile, at_once);
            Ok(taken())
        }
        Way::Launch { profile, client } => launch(servers, hosts, profile, client, taken),
    }
}

fn launch<T>(
    servers: &Servers,
    hosts: &[String],
    profile: SshProfile,
    client: SshClient,
    taken: impl Fn() -> T,
) -> Result<T, String> {
    let word = |text: &str| OsBytes::try_from(text).unwrap();
    let members = Distribution::new(std::env::current_exe().unwrap()).hosts(hosts.join(","));
    let (config, client_program) = (Some(word(servers.config())), word(servers.client()));
    let ssh = Ssh { profile, config, client, client_program, ..Ssh::new() };
    let options = LaunchOptions::local().backend(Backend::Ssh(ssh)).links(LinkPolicy::Auto).deadline(TIMEOUT);
    let front = FrontEnd::new().unwrap();
    let session = front.launch(&members, &options).map_err(|error| error.to_string())?;
    let taken = taken();
    session.broadcast("go").wait(TIMEOUT).unwrap();
    session.wait_done(TIMEOUT).unwrap();
    Ok(taken)
}

/// The program of a member: stays until the front end has measured.
fn work() {
    let member = Member::init().unwrap();
    member.broadcast_from_front().wait(TIMEOUT).unwrap();
    member.drain(TIMEOUT).unwrap();
}

fn by_hand(servers: &Servers, hosts: &[String], profile: SshProfile, at_once: u32) {
    let options: &[&str] = if profile == SshProfile::Fast { &FAST_OPTIONS } else { &[] };
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(host) = hosts.get(next.fetch_add(1, Relaxed) as usize) {
                    let mut ssh = Command::new("ssh");
                    ssh.args(["-F", servers.config(), "-o", "BatchMode=yes"]);
                    ssh.args(options.iter().flat_map(|option| ["-o", option])).args([host, "true"]);
                    assert!(ssh.stdin(Stdio::null()).status().unwrap().success(), "{host}");
                }
            });
        }
    });
}

fn median(times: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times.get(times.len() / 2).copied()
}

fn row(way: Way, taken: &[Result<Taken, String>], hosts: u32, base: Duration) {
    let what = match way {
        Way::Loop { profile, at_once } => format!("ssh HOST true, {profile}, {at_once} at a time"),
        Way::Launch { profile, client } => format!("launch by {client}, {profile}"),
    };
    let all = || taken.iter().flatten();
    let walls = || all().map(|one| one.wall);
    if let Some(error) = taken.iter().find_map(|one| one.as_ref().err()) {
        let what_failed = error.lines().take(2).collect::<Vec<_>>().join(" ");
        return println!("{what:<36} {what_failed}");
    }
    let (Some(middle), Some(least), Some(most)) = (median(walls()), walls().min(), walls().max()) else {
        return;
    };
    let span = format!("({:.3} … {:.3})", least.as_secs_f64(), most.as_secs_f64());
    let a_host = |times: Option<Duration>| {
        format!("{:.1} ms", times.unwrap_or_default().as_secs_f64() * 1e3 / f64::from(hosts))
    };
    println!(
        "{what:<36} {:>7.3} s {span:>19} {:>15} {:>13} {:>7.2}",
        middle.as_secs_f64(),
        a_host(median(all().map(|one| one.launching))),
        a_host(median(all().map(|one| one.machine))),
        middle.as_secs_f64() / base.as_secs_f64()
    );
}
