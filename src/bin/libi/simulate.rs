//! `libi simulate`: launches with costs that vary and hosts that are slow or dead, from a seed.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use libi::cost::Cost;
use libi::plan::Strategy;
use libi::sim::launch::{Outcome, Setup};
use libi::sim::spread::Spread;
use serde_json::json;

use crate::output::{Failure, hosts, print, print_json};
use crate::plan::tree_help;
use crate::units;

pub(crate) const EXAMPLES: &str = "\
Costs: 172ms is constant, 172ms~50% varies by up to 50 % either way, 172ms~log0.5 is log-normal with that
median, @FILE reads a duration per host from a file.

Examples:
  libi simulate --hosts 1000 --seq 7ms --rem 172ms~50% --tree greedy --runs 20
  libi simulate --hosts 1000 --seq 7ms --rem 172ms~50% --dead 1% --timeout 10s --slow 2%x20 --runs 20";

/// The arguments of `libi simulate`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many hosts; the first is the root and is up when the launch begins
    #[arg(long, value_name = "N", value_parser = units::host_count)]
    hosts: NonZeroU32,
    /// SEQ: how long one launch keeps its launcher busy
    #[arg(long, value_name = "COST", value_parser = units::spread)]
    seq: Spread,
    /// REM: from starting a launch until the new host can launch others
    #[arg(long, value_name = "COST", value_parser = units::spread)]
    rem: Spread,
    /// What the whole launch pays once
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "0")]
    constant: Duration,
    #[arg(long, value_name = "TREE", default_value = "late", help = tree_help())]
    tree: Strategy,
    /// Which part of the hosts never answers
    #[arg(long, value_name = "P%", value_parser = units::percentage, default_value = "0%")]
    dead: f64,
    /// After how long the launch of a dead host has failed
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "10s")]
    timeout: Duration,
    /// Which part of the hosts is slow, and how many times as long their REM is
    #[arg(long, value_name = "P%xF", value_parser = units::slow)]
    slow: Option<(f64, f64)>,
    /// How often a failed launch is repeated, by late commit only
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// The first seed; each further run takes the next
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// How many launches to simulate
    #[arg(long, value_name = "R", default_value = "1")]
    runs: NonZeroU64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let setup = arguments.setup();
    let mut seen = Seen::default();
    for run in 0..arguments.runs.get() {
        seen.add(&setup.run(arguments.seed.wrapping_add(run)));
    }
    if arguments.json { print_json(&seen.json(arguments)) } else { print(&seen.tell(arguments)) }
}

impl Arguments {
    fn setup(&self) -> Setup {
        let (slow, slowness) = self.slow.unwrap_or((0.0, 1.0));
        let cost = Cost { constant: self.constant, ..Cost::default() };
        Setup {
            seq: self.seq.clone(),
            rem: self.rem.clone(),
            dead: self.dead,
            timeout: self.timeout,
            slow,
            slowness,
            retries: self.retries,
            ..Setup::new(self.hosts, self.tree, &cost)
        }
    }
}

/// What was seen in all runs.
#[derive(Default)]
struct Seen {
    launch: Vec<Duration>,
    settled: Vec<Duration>,
    lost: Vec<usize>,
    most_launches: u32,
    launches: u64,
}

impl Seen {
    fn add(&mut self, outcome: &Outcome) {
        self.launch.push(outcome.launch_time());
        self.settled.push(outcome.settled_time());
        self.lost.push(outcome.lost().count());
        let launches = outcome.launches();
        self.most_launches = launches.iter().copied().max().unwrap_or(0).max(self.most_launches);
        self.launches += launches.iter().copied().map(u64::from).sum::<u64>();
    }

    /// How many launches a host made on average.
    fn mean_launches(&self, arguments: &Arguments) -> f64 {
        self.launches as f64 / (f64::from(arguments.hosts.get()) * self.launch.len() as f64)
    }

    fn json(&self, arguments: &Arguments) -> serde_json::Value {
        let seconds = |(median, worst): (Duration, Duration)| (median.as_secs_f64(), worst.as_secs_f64());
        let (launch, worst_launch) = seconds(median_and_worst(&self.launch));
        let (settled, worst_settled) = seconds(median_and_worst(&self.settled));
        let (lost, most_lost) = median_and_worst(&self.lost);
        json!({
            "tree": arguments.tree.to_string(),
            "hosts": arguments.hosts,
            "seed": arguments.seed,
            "runs": arguments.runs,
            "launch_time_median_s": launch,
            "launch_time_worst_s": worst_launch,
            "settled_time_median_s": settled,
            "settled_time_worst_s": worst_settled,
            "hosts_lost_median": lost,
            "hosts_lost_worst": most_lost,
            "launches_per_node_mean": self.mean_launches(arguments),
            "launches_per_node_max": self.most_launches,
        })
    }

    fn tell(&self, arguments: &Arguments) -> String {
        let seconds = |times: &[Duration]| {
            let (median, worst) = median_and_worst(times);
            format!("median {:.3} s, worst {:.3} s", median.as_secs_f64(), worst.as_secs_f64())
        };
        let (lost, most_lost) = median_and_worst(&self.lost);
        let runs = match arguments.runs.get() {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        let head = format!("{} by {}, {runs}", hosts(arguments.hosts.get()), arguments.tree);
        let rows = [
            format!("{head} from seed {}", arguments.seed),
            format!("launch time        {}  (the last host that came up)", seconds(&self.launch)),
            format!("settled            {}  (every host up or given up)", seconds(&self.settled)),
            format!("hosts lost         median {lost}, worst {most_lost}"),
            format!(
                "launches per node  mean {:.2}, most {}",
                self.mean_launches(arguments),
                self.most_launches
            ),
        ];
        rows.join("\n") + "\n"
    }
}

/// The middle one (of an even number the upper) and the largest.
fn median_and_worst<T: Copy + Ord + Default>(values: &[T]) -> (T, T) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    (sorted.get(sorted.len() / 2).copied().unwrap_or_default(), sorted.last().copied().unwrap_or_default())
}
