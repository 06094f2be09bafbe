//! Measures how long a file takes to all hosts of a slow network, beside programs that copy it.
//!
//! `LIBI_LABS=1 cargo bench --bench staging -- [HOSTS] [MIB] [MBIT] [ROUNDS]` sets up hosts with network
//! namespaces of their own (as root, with openssh-server, nftables and iproute2; see
//! `libi-testkit/labs/netns`), none of which sends more than so many megabits in a second (100 unless
//! given). It stages one file (100 MiB of random bytes unless given) to all hosts (32) by libi in
//! several trees, and copies it with `clush --copy`, `pdcp` and a loop of `scp`; one that is not
//! installed, or fails, has no time. Each round does all of it once (1 round unless given). The output
//! is the median over rounds, and its ratio to the time that libi takes for one host alone. What is
//! sent from one place to all hosts takes as many times as long as there are hosts: nearly 5 minutes
//! for each such program in the usual sizes. `LIBI_BENCH_PEERS=0` leaves these out.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libi::{Agent, Distribution, FrontEnd, LaunchOptions, OsBytes, Programs, Staging};
use libi_testkit::labs::netns::Network;
use libi_testkit::programs;

const TIMEOUT: Duration = Duration::from_secs(3_600);
/// Where the peers write. Each host has memory of its own there, and so has libi.
const PLACE: &str = "/dev/shm";
/// How libi spreads the file.
const TREES: [&str; 4] = ["late", "chain", "kary:2", "flat"];

struct Setting {
    network: Network,
    hosts: u32,
    agent: String,
    file: PathBuf,
}

impl Setting {
    /// The time for staging the file to the first hosts, from the beginning of the launch to the end
    /// of the session. A host has checked the hash of the file before its program starts.
    fn stage(&self, hosts: u32, tree: &str) -> Duration {
        let began = Instant::now();
        let program = Distribution::new("true").hosts(format!("h[1-{hosts}]"));
        let options = LaunchOptions::local()
            .backend(self.network.backend())
            .agent(Agent::new(OsBytes::new(self.agent.as_str()).unwrap()))
            .programs(Programs::Any)
            .strategy(tree.parse().unwrap())
            .stage(Staging::new().file(&self.file).unwrap())
            .deadline(TIMEOUT);
        let front = FrontEnd::new().unwrap();
        let session = front.launch(&program, &options).unwrap_or_else(|error| panic!("{error}"));
        session.wait_done(TIMEOUT).unwrap();
        began.elapsed()
    }

    /// The time of a shell script that copies the file to all hosts as `copy`; `None` if it fails.
    fn copy(&self, script: &str) -> Option<Duration> {
        let config = Path::new(&self.agent).with_file_name("config");
        let mut shell = Command::new("timeout");
        shell
            .arg(TIMEOUT.as_secs().to_string())
            .args(["sh", "-ec", script])
            .env("LAST", self.hosts.to_string())
            .env("TO", PLACE);
        shell.env("CONFIG", config).env("FILE", &self.file).stdin(Stdio::null()).stdout(Stdio::null());
        let began = Instant::now();
        let done = shell.output().unwrap();
        let took = began.elapsed();
        if !done.status.success() {
            eprintln!("{script}: {}", String::from_utf8_lossy(&done.stderr));
        }
        let size = fs::metadata(&self.file).unwrap().len().to_string();
        let copied = |host| self.network.run(&format!("h{host}"), &format!("stat -c %s {PLACE}/copy || :"));
        let is_there = (1..=self.hosts).all(|host| copied(host).trim_end() == size);
        self.each_host(&format!("rm -f {PLACE}/copy"));
        (done.status.success() && is_there).then_some(took)
    }

    fn each_host(&self, script: &str) {
        for host in 1..=self.hosts {
            self.network.run(&format!("h{host}"), script);
        }
    }
}

const PEERS: [(&str, &str); 3] = [
    (
        "clush --copy",
        "clush -q -f 64 -O ssh_options=\"-F $CONFIG\" -O scp_options=\"-O -F $CONFIG\" -w h[1-$LAST] \
         --copy $FILE --dest $TO/copy",
    ),
    ("pdcp", "PDSH_SSH_ARGS=\"-F $CONFIG %h\" pdcp -R ssh -f 64 -w h[1-$LAST] $FILE $TO/copy"),
    ("scp, one by one", "for n in $(seq $LAST); do scp -O -q -F $CONFIG $FILE h$n:$TO/copy; done"),
];

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |nth: usize, usual: u32| words.get(nth).map_or(usual, |word| word.parse().unwrap());
    let (hosts, mib, mbit, rounds) = (number(0, 32), number(1, 100), number(2, 100), number(3, 1));
    let with_peers = std::env::var_os("LIBI_BENCH_PEERS").is_none_or(|value| value != "0");
    let Some(network) = Network::of(hosts) else { return };
    let agent = PathBuf::from(network.member()).with_file_name("agent");
    fs::copy(programs::agent(), &agent).unwrap();
    let file = agent.with_file_name("file");
    let mut random = fs::File::open("/dev/urandom").unwrap().take(u64::from(mib) << 20);
    std::io::copy(&mut random, &mut fs::File::create(&file).unwrap()).unwrap();
    let agent = agent.into_os_string().into_string().unwrap();
    let setting = Setting { network, hosts, agent, file };
    setting.each_host(&format!("mount -t tmpfs -o mode=1777 tmpfs {PLACE}"));
    setting.network.limit(mbit);
    println!("{mib} MiB to {hosts} hosts, each of which sends at most {mbit} Mbit/s");

    let mut times: Vec<(String, Vec<Option<Duration>>)> = Vec::new();
    let mut add = |name: &str, time: Option<Duration>| match times.iter_mut().find(|(of, _)| of == name) {
        Some((_, all)) => all.push(time),
        None => times.push((name.to_owned(), vec![time])),
    };
    for _ in 0..rounds {
        add("libi, one host", Some(setting.stage(1, "late")));
        for tree in TREES {
            add(&format!("libi, {tree}"), Some(setting.stage(hosts, tree)));
        }
        for (name, script) in PEERS.into_iter().filter(|_| with_peers) {
            add(name, setting.copy(script));
        }
    }
    let all_of = |all: &Vec<Option<Duration>>| all.iter().copied().collect::<Option<Vec<_>>>().map(median);
    let one = all_of(&times[0].1).unwrap();
    println!("| | median | / one host |\n|---|---|---|");
    for (name, all) in &times {
        match all_of(all) {
            Some(time) => {
                let ratio = time.as_secs_f64() / one.as_secs_f64();
                println!("| {name} | {:.1} s | {ratio:.2} |", time.as_secs_f64());
            }
            None => println!("| {name} | — | |"),
        }
    }
}
