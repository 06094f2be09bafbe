//! Measures launches by Slurm's `srun`, beside `srun` itself.
//!
//! `LIBI_LABS=1 cargo bench --bench slurm [ROUNDS]` sets up a real Slurm of 64 nodes on this machine
//! (as root, with slurm-wlm and munge; see `libi-testkit/labs/slurm`). In a job of all nodes, each
//! round runs `srun -N n true` and launches a session with one member on each of n nodes, for 8, 32
//! and 64 nodes. The output is the median over rounds (5 unless given) of: `srun -N n true`, from its
//! start to its end; the launch, until all members have joined; and until all have ended.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::process::Command;
use std::time::{Duration, Instant};

use libi::{Distribution, FrontEnd, LaunchOptions, Output, Srun};
use libi_testkit::labs::Slurm;

const NODES: u32 = 64;
const SIZES: [u32; 3] = [8, 32, 64];
const TIMEOUT: Duration = Duration::from_secs(120);
/// The first argument of this program inside the job.
const INSIDE: &str = "--inside";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [first, rounds, member] = &words[..]
        && first == INSIDE
    {
        return measure(rounds.parse().unwrap(), member);
    }
    let rounds = words.first().map_or("5", String::as_str);
    let Some(slurm) = Slurm::with(NODES, &[]) else { return };
    let this = std::env::current_exe().unwrap();
    let program = [this.to_str().unwrap(), INSIDE, rounds, &slurm.member()];
    let status = slurm.salloc(&["-Q", &format!("-N{NODES}")], &program).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Runs in a job of all nodes.
fn measure(rounds: usize, member: &str) {
    println!("{:>6} {:>16} {:>12} {:>7} {:>12}", "nodes", "srun -N n true", "joined", "ratio", "ended");
    for nodes in SIZES {
        let (mut alone, mut joined, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            alone.push(srun(nodes));
            let (up, over) = launch(nodes, member);
            joined.push(up);
            ended.push(over);
        }
        let [alone, joined, ended] = [alone, joined, ended].map(median);
        let ratio = joined.as_secs_f64() / alone.as_secs_f64();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{nodes:>6} {:>13.0} ms {:>9.0} ms {ratio:>7.2} {:>9.0} ms",
            ms(alone),
            ms(joined),
            ms(ended)
        );
    }
}

fn srun(nodes: u32) -> Duration {
    let began = Instant::now();
    let mut command = Command::new("srun");
    command.args(["--overlap", "--ntasks-per-node=1", &format!("-N{nodes}"), "true"]);
    assert!(command.status().unwrap().success());
    began.elapsed()
}

/// How long until all members had joined, and until all had ended.
fn launch(nodes: u32, member: &str) -> (Duration, Duration) {
    let began = Instant::now();
    let hosts = format!("s[0001-{nodes:04}]");
    let distribution = Distribution::new(member).args(["join", "finish:20000"]).hosts(hosts.as_str());
    let options = LaunchOptions::new().backend(Srun::new()).deadline(TIMEOUT).output(Output::Dropped);
    let front_end = FrontEnd::new().unwrap();
    let session = front_end.launch(&distribution, &options).unwrap();
    let joined = began.elapsed();
    session.wait_done(TIMEOUT).unwrap();
    (joined, began.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
