//! What it costs to be ready for losses, as long as nothing is lost.

use std::time::{Duration, Instant};

use libi::{Engine, LaunchOptions, LinkSecurity, OnLoss};

use crate::session::{Bench, Path};
use crate::{median, millis, ratio};

/// Hosts, and members of each.
const SHAPES: [(u32, u32); 4] = [(4, 4), (16, 1), (16, 4), (64, 1)];
const CALLS: [&str; 4] = ["barrier", "broadcast", "scatter", "gather"];
/// How often each launch is made for one round of calls.
const LAUNCHES: usize = 3;

type Ready = (&'static str, fn(LaunchOptions) -> LaunchOptions);

const READY: [Ready; 3] = [
    ("calls that need the lost fail", |options| options.on_loss(OnLoss::Fail)),
    ("calls go on, orphans come back", |options| options.on_loss(OnLoss::Continue)),
    ("and a lost master is replaced", |options| options.on_loss(OnLoss::Continue).replace_master(true)),
];

pub(crate) fn losses(rounds: usize) {
    for (name, path) in
        [("local sockets", Path::Local), ("direct links", Path::Direct(LinkSecurity::Authenticated))]
    {
        println!(
            "\nready for losses, where nothing is lost: {name}, an engine on each host, 64 bytes; \
             medians, and their ratio to the first line"
        );
        print!("{:<14}{:<32}", "hosts × each", "");
        CALLS.iter().for_each(|call| print!(" {call:>15}"));
        println!(" {:>15} {:>16}", "front and back", "launch");
        for (hosts, each) in SHAPES {
            shape(hosts, each, &path, rounds);
        }
    }
}

/// Measures each way in turn, over and over.
fn shape(hosts: u32, each: u32, path: &Path, rounds: usize) {
    let times = (40_000 / (hosts * each) as usize).clamp(100, 2_000);
    // For each way: the times of each call, of a message to the master and back, and of launches.
    let mut found = READY.map(|_| vec![Vec::new(); CALLS.len() + 2]);
    for _ in 0..rounds {
        for ((_, changed), found) in READY.iter().zip(&mut found) {
            for launch in 0..LAUNCHES {
                let began = Instant::now();
                let session =
                    Bench::launch_by(hosts, each, path, |options| changed(options.engine(Engine::Apart)));
                found[CALLS.len() + 1].push(began.elapsed());
                if launch > 0 {
                    continue;
                }
                for (call, found) in CALLS.iter().zip(&mut *found) {
                    found.push(session.run(&format!("row 64 {times} {call}"))[0]);
                }
                found[CALLS.len()].push(session.front(64, times));
            }
        }
    }
    let found = found.map(|mut found| found.iter_mut().map(|times| median(times)).collect::<Vec<_>>());
    for ((name, _), times) in READY.iter().zip(&found) {
        print!("{:<14}{name:<32}", format!("{hosts} × {each}"));
        for ((at, time), base) in times.iter().enumerate().zip(&found[0]) {
            let is_launch = at > CALLS.len();
            let time_text = if is_launch {
                format!("{:.1} ms", millis(*time))
            } else {
                format!("{:.0} µs", micros(*time))
            };
            let width = if is_launch { 16 } else { 15 };
            print!(" {:>width$}", format!("{time_text} {:.2}", ratio(*time, *base)));
        }
        println!();
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
