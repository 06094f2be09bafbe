//! Measures the rendezvous: how long until many leaders are up that arrive together.
//!
//! `cargo bench --bench rendezvous [TREE] [HOSTS…]` has one process make a connection for each host, all at
//! once (100, 1,000 and 10,000 hosts unless given), and run the launch machine of a member behind
//! each. TREE is where they connect to in the end: `flat` for the front end, `late` (the default) for
//! the relays that libi chooses. The output is, for each number: the time until the last connection was admitted, counted
//! from the first; the time until the session was up; connections that were made again; and processor
//! time of the front end for each host. The other process shares the processors with it.
//!
//! Each process needs as many descriptors as there are hosts: `ulimit -n`.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::time::Duration;

use libi::{Distribution, FrontEnd, LaunchOptions, OsBytes, Output, Starter, Strategy};
use libi_testkit::programs;

const TIMEOUT: Duration = Duration::from_secs(120);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let strategy: Strategy = words.iter().find_map(|word| word.parse().ok()).unwrap_or_default();
    let mut sizes: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![100, 1_000, 10_000];
    }
    println!("{:>7} {:>12} {:>9} {:>8} {:>18}", "hosts", "admitted", "up", "retries", "processor / host");
    for hosts in sizes {
        measure(hosts, strategy);
    }
}

fn measure(hosts: u32, strategy: Strategy) {
    let stats = programs::scratch().join(format!("rendezvous-{hosts}-{}", std::process::id()));
    let word = |text: &str| OsBytes::try_from(text).unwrap();
    let mut starter = Starter::new(word(programs::arrivals()));
    starter.args.push(word(&format!("stats={}", stats.display())));
    starter.hosts_per_start = hosts;
    let options =
        LaunchOptions::new().backend(starter).loopback(true).deadline(TIMEOUT).output(Output::Dropped);
    let options = options.strategy(strategy);
    let distribution = Distribution::new("member").hosts(format!("n[1-{hosts}]").as_str());
    let front_end = FrontEnd::new().unwrap();
    let before = processor_time();
    let session = front_end.launch(&distribution, &options).unwrap();
    let used = processor_time() - before;
    let up = session.report().unwrap().took();
    session.terminate(Duration::from_secs(5)).unwrap();
    session.wait_done(TIMEOUT).unwrap();
    let text = std::fs::read_to_string(&stats).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [_, retries, admitted] = numbers[..] else { panic!("{text}") };
    let micros = used.as_secs_f64() * 1e6 / f64::from(hosts);
    println!("{hosts:>7} {admitted:>10.3} s {:>7.3} s {retries:>8} {micros:>15.0} us", up.as_secs_f64());
    std::fs::remove_file(&stats).unwrap();
}

/// The processor time that this process has used.
fn processor_time() -> Duration {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let of = |time: nix::sys::time::TimeVal| {
        Duration::from_secs(time.tv_sec() as u64) + Duration::from_micros(time.tv_usec() as u64)
    };
    of(usage.user_time()) + of(usage.system_time())
}
