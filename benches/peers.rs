//! Measures `libi run` beside programs that do the same: `/bin/true` on many hosts, through a stand-in
//! for ssh, at no cost and at the cost of a usual login.
//!
//! `cargo bench --bench peers [ROUNDS]` prints a table in Markdown with medians, and the ratio of each
//! peer to libi: the median of the ratios of the rounds (5 unless given). Each round runs every program
//! once, so that other load affects all alike. Peers that are not installed are left out; Debian has
//! them as `pdsh`, `clustershell`, `mpich`, `openmpi-bin` and `taktuk`. Each may have 64 launches in
//! progress, unless it decides that itself. The daemons of Open MPI share files where they are on one
//! machine, and fail from 64 hosts on: it has the rows with 16. If `LIBI_BENCH_SVG` names a file, the
//! rows with one process on each host are drawn there, at the cost of a usual login.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libi_testkit::{native, programs};
use libi_trace::curves::{Curve, Curves};

/// The numbers of hosts, and how many processes run on each.
const SIZES: [(u32, u32); 5] = [(16, 1), (64, 1), (256, 1), (512, 1), (16, 16)];
/// What a login costs: its configuration of the stand-in, and how it is called.
const COSTS: [(&str, &str); 2] = [("", "at no cost"), ("seq 7ms\nrem 172ms\n", "SEQ 7 ms, REM 172 ms")];
/// The longest that a run may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A program that starts others on many hosts.
struct Peer {
    name: &'static str,
    /// Its command line for these hosts, with so many processes on each.
    words: fn(u32, u32) -> Option<Vec<String>>,
}

const PEERS: [Peer; 6] = [
    Peer { name: "libi run", words: libi },
    Peer { name: "pdsh", words: pdsh },
    Peer { name: "clush", words: clush },
    Peer { name: "mpiexec.hydra", words: hydra },
    Peer { name: "mpirun (Open MPI)", words: open_mpi },
    Peer { name: "taktuk", words: taktuk },
];

fn words(line: &str) -> Option<Vec<String>> {
    Some(line.split(' ').map(str::to_owned).collect())
}

fn libi(hosts: u32, each: u32) -> Option<Vec<String>> {
    words(&format!("{} run --backend {} -w h[1-{hosts}]:{each} true", programs::libi(), programs::shell()))
}

fn pdsh(hosts: u32, each: u32) -> Option<Vec<String>> {
    let line = format!("pdsh -R exec -f 64 -w h[1-{hosts}] {} %h true", programs::shell());
    (each == 1).then(|| words(&line))?
}

fn clush(hosts: u32, each: u32) -> Option<Vec<String>> {
    let line = format!("clush -R exec -f 64 -w h[1-{hosts}] {} %h true", programs::shell());
    (each == 1).then(|| words(&line))?
}

fn hydra(hosts: u32, each: u32) -> Option<Vec<String>> {
    let list: Vec<_> = (1..=hosts).map(|host| format!("h{host}")).collect();
    let (shell, list, count) = (programs::shell(), list.join(","), hosts * each);
    words(&format!(
        "mpiexec.hydra -launcher ssh -launcher-exec {shell} -hosts {list} -ppn {each} -n {count} true"
    ))
}

fn open_mpi(hosts: u32, each: u32) -> Option<Vec<String>> {
    let list: Vec<_> = (1..=hosts).map(|host| format!("h{host}:{each}")).collect();
    let (shell, list, count) = (programs::shell(), list.join(","), hosts * each);
    let line = format!(
        "mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent {shell} --host {list} -n {count} true"
    );
    (hosts <= 16).then(|| words(&line))?
}

fn taktuk(hosts: u32, each: u32) -> Option<Vec<String>> {
    let list: Vec<_> = (1..=hosts).map(|host| format!("-m h{host}")).collect();
    let line = format!("taktuk -c {} {} broadcast exec [ true ]", programs::shell(), list.join(" "));
    (each == 1).then(|| words(&line))?
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.contains('/') || std::env::split_paths(&path).any(|place| place.join(program).is_file())
}

/// How long a command takes; `None` if it fails or takes too long.
fn time(words: &[String], config: &Path) -> Option<Duration> {
    let mut command = Command::new("timeout");
    command.arg(TIMEOUT.as_secs().to_string()).args(words).env("LIBI_TEST_SHELL", config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    command.status().unwrap().success().then(|| began.elapsed())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A configuration of the stand-in, whose calls share this directory.
fn config(text: &str) -> PathBuf {
    let directory = native::scratch().join("peers");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(directory.join("locks")).unwrap();
    let file = directory.join("config");
    let locks = if text.is_empty() { "" } else { "locks locks\n" };
    std::fs::write(&file, format!("{locks}{text}")).unwrap();
    file
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(5);
    let peers: Vec<_> =
        PEERS.iter().filter(|peer| (peer.words)(1, 1).is_some_and(|words| is_installed(&words[0]))).collect();
    let names: Vec<_> = peers.iter().map(|peer| peer.name).collect();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for (cost, called) in COSTS {
        println!("| hosts × processes, {called} | {} |", names.join(" | "));
        println!("|---|{}", "---|".repeat(peers.len()));
        let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); peers.len()];
        for (hosts, each) in SIZES {
            let mut times: Vec<Vec<Option<f64>>> = vec![Vec::new(); peers.len()];
            for _ in 0..rounds {
                for (peer, times) in peers.iter().zip(&mut times) {
                    let config = config(cost);
                    let words = (peer.words)(hosts, each);
                    let took = words.and_then(|words| time(&words, &config));
                    times.push(took.map(|took| took.as_secs_f64()));
                }
            }
            let cell = |own: &Vec<Option<f64>>| {
                let all: Option<Vec<f64>> = own.iter().copied().collect();
                let Some(all) = all else { return "—".to_owned() };
                let ratios = own.iter().zip(&times[0]).filter_map(|(own, libi)| Some((*own)? / (*libi)?));
                let ratio = median(ratios.collect());
                format!("{:.0} ms ({ratio:.1})", median(all) * 1e3)
            };
            let cells: Vec<_> = times.iter().map(cell).collect();
            println!("| {hosts} × {each} | {} |", cells.join(" | "));
            for (curve, times) in curves.iter_mut().zip(&times).filter(|_| each == 1) {
                let all: Option<Vec<f64>> = times.iter().copied().collect();
                curve.extend(all.map(|all| (f64::from(hosts), median(all))));
            }
        }
        println!();
        if let Some(file) = std::env::var_os("LIBI_BENCH_SVG").filter(|_| !cost.is_empty()) {
            let curve = |(name, points): (&&str, _)| Curve { label: (*name).to_owned(), points };
            let chart = Curves {
                title: format!("true on hosts with {called}, all on a machine with {cores} cores"),
                across: "hosts".to_owned(),
                up: "seconds".to_owned(),
                curves: names.iter().zip(curves).map(curve).collect(),
            };
            std::fs::write(file, chart.svg()).unwrap();
        }
    }
}
