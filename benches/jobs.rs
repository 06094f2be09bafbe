//! Measures how long it takes until daemons are beside the processes of a running job of `srun`.
//!
//! `LIBI_LABS=1 cargo bench --bench jobs [ROUNDS]` runs jobs of two processes a node on 16 and on 64 nodes of a
//! Slurm of its own, all of them this machine, and measures in each round, in turns: reading the table of the
//! launcher; `srun --overlap true` on all nodes of the job, which is what any launcher of daemons pays at least;
//! and `launch_beside`, until each daemon has its targets. The output is a table in Markdown, with medians.
//!
//! The program launches itself as the daemons.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use libi::job::Job;
use libi::{Distribution, FrontEnd, LaunchOptions, Member};
use libi_testkit::labs::Slurm;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const TIMEOUT: Duration = Duration::from_secs(120);

fn main() {
    if std::env::var_os("LIBI_LINK").is_some() {
        let member = Member::init().unwrap();
        let targets = member.targets(TIMEOUT).unwrap();
        assert!(!targets.is_empty());
        member.gather_to_front(member.rank().0.to_ne_bytes().to_vec()).wait(TIMEOUT).unwrap();
        return member.drain(TIMEOUT).unwrap();
    }
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(7);
    println!(
        "| nodes | the table is read | `srun true` | daemons have their targets | |\n|---|---|---|---|---|"
    );
    for nodes in [16, 64] {
        let Some(lab) = Slurm::with(nodes, &[]) else { return eprintln!("it needs LIBI_LABS=1, as root") };
        measure(&lab, nodes, rounds);
    }
}

fn measure(lab: &Slurm, nodes: u32, rounds: usize) {
    let mut srun = start(lab, nodes);
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed();
        let job = Job::attach(srun.id() as i32, TIMEOUT).unwrap();
        times[0].push(lap());
        let mut bare = lab.plain("srun");
        bare.args([
            &format!("--jobid={}", job.slurm_job().unwrap()),
            "--overlap",
            &format!("-N{nodes}"),
            "true",
        ]);
        assert!(bare.stdin(Stdio::null()).status().unwrap().success());
        times[1].push(lap());
        let front = FrontEnd::new().unwrap();
        let options = LaunchOptions::local().backend(lab.srun()).loopback(true);
        let daemon = Distribution::new(std::env::current_exe().unwrap());
        let session = front.launch_beside(&job, daemon, &options).unwrap();
        assert_eq!(session.gather().wait(TIMEOUT).unwrap().len(), nodes as usize);
        times[2].push(lap());
    }
    kill(Pid::from_raw(srun.id() as i32), Signal::SIGTERM).unwrap();
    srun.wait().unwrap();
    let [table, bare, daemons] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e3
    });
    println!("| {nodes} | {table:.1} ms | {bare:.0} ms | {daemons:.0} ms | {:.2} × |", daemons / bare);
}

/// A job with two processes on each node, once all have begun.
fn start(lab: &Slurm, nodes: u32) -> Child {
    let mut srun = lab.plain("srun");
    srun.args([format!("-N{nodes}"), format!("-n{}", 2 * nodes), "-O".to_owned()]);
    // It says how each ended.
    srun.args(["/bin/sh", "-c", "echo; exec sleep 1000"]);
    srun.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut srun = srun.spawn().unwrap();
    let lines = BufReader::new(srun.stdout.take().unwrap()).lines();
    assert_eq!(lines.take(2 * nodes as usize).filter(Result::is_ok).count(), 2 * nodes as usize);
    srun
}
