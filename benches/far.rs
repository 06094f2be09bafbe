//! Measures launches across high latency: late commit, trees that are decided in advance, and the
//! prediction.
//!
//! `LIBI_LABS=1 cargo bench --bench far [HOSTS] [ROUNDS]` sets up hosts with
//! network namespaces of their own (as root, with openssh-server and nftables; see
//! `libi-testkit/labs/netns`), between which every packet takes 86 ms. It launches hosts (64 unless given)
//! through their sshds with one member each. Each round runs all ways once: late commit with links that
//! may be direct, where the front end launches beside the hosts; late commit in channels, and trees. The
//! output is the median, minimum and maximum over rounds (5 unless given). The prediction is the greedy
//! schedule below the front end, which is optimal for constant costs, at the SEQ and REM measured by the
//! first way.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::time::{Duration, Instant};

use libi::{Distribution, FrontEnd, LaunchOptions, LaunchReport, LinkPolicy, Output};
use libi_core::cost::Cost;
use libi_trace::Prediction;

use libi_testkit::labs::netns::Network;

/// The latency of a packet between any two hosts.
const FAR: Duration = Duration::from_millis(86);
const TIMEOUT: Duration = Duration::from_secs(300);
/// Trees, and where links travel: where they may be direct, the front end launches beside the hosts.
const WAYS: [(&str, &str, LinkPolicy); 5] = [
    ("late", "late", LinkPolicy::Auto),
    ("channels", "late", LinkPolicy::Channel),
    ("greedy", "greedy", LinkPolicy::Channel),
    ("kary:16", "kary:16", LinkPolicy::Channel),
    ("flat", "flat", LinkPolicy::Channel),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |nth: usize, usual: u32| words.get(nth).map_or(usual, |word| word.parse().unwrap());
    let (hosts, rounds) = (number(0, 64), number(1, 5));
    let Some(network) = Network::of(hosts) else { return };
    network.delay(FAR);
    println!("{hosts} hosts, {FAR:?} from each other");
    let mut taken: [Vec<(Duration, Cost)>; WAYS.len()] = Default::default();
    for _ in 0..rounds {
        for ((_, tree, links), taken) in WAYS.into_iter().zip(&mut taken) {
            taken.push(launch(&network, hosts, tree, links));
        }
    }
    println!("{:<10} {:>9} {:>21} {:>7}", "", "median", "(least … most)", "/ late");
    taken.iter_mut().for_each(|all| all.sort_by_key(|(wall, _)| *wall));
    let middle = |way: usize| taken[way][taken[way].len() / 2];
    let (late, cost) = middle(0);
    for (way, (name, ..)) in WAYS.into_iter().enumerate() {
        let (wall, all) = (middle(way).0, &taken[way]);
        let span = format!("({:.3} … {:.3})", all[0].0.as_secs_f64(), all[all.len() - 1].0.as_secs_f64());
        println!("{name:<10} {:>7.3} s {span:>21} {:>7.2}", wall.as_secs_f64(), ratio(wall, late));
    }
    let model = Prediction::greedy_from_front_end(hosts, cost).time();
    println!(
        "the model at SEQ {:.1} ms, REM {:.0} ms: {:.3} s; late takes {:.2} times as long (wanted: 1.3)",
        cost.seq.as_secs_f64() * 1e3,
        cost.rem.as_secs_f64() * 1e3,
        model.as_secs_f64(),
        ratio(late, model)
    );
}

/// Launches the hosts and waits until all members have ended. Returns how long it took until all
/// had joined, and the measured costs.
fn launch(network: &Network, hosts: u32, tree: &str, links: LinkPolicy) -> (Duration, Cost) {
    let members =
        Distribution::new(network.member()).args(["join", "finish:60000"]).hosts(format!("h[1-{hosts}]"));
    let options = LaunchOptions::local()
        .backend(network.backend())
        .strategy(tree.parse().unwrap())
        .links(links)
        .output(Output::Dropped)
        .deadline(TIMEOUT);
    let began = Instant::now();
    let front = FrontEnd::new().unwrap();
    let session = front.launch(&members, &options).unwrap_or_else(|error| panic!("{error}"));
    let took = began.elapsed();
    let report: std::sync::Arc<LaunchReport> = session.report().unwrap();
    session.wait_done(TIMEOUT).unwrap();
    (took, report.cost().unwrap_or_default())
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
