//! `libi simulate`: simulated launches with varying costs and slow or dead hosts, from a seed.

use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::plan::Strategy;
use libi_core::sim::jitter::Jitter;
use libi_core::sim::launch::{Outcome, Setup};
use libi_core::time::Rounded;
use serde_json::json;

use crate::output::{CliError, counted, hosts, print, print_json};
use crate::plan::tree_help;
use crate::units::{self, HostSet};

pub(crate) const EXAMPLES: &str = "\
Costs: 172ms is constant, 172ms~50% varies by up to 50 % either way,
172ms~log0.5 is log-normal with that median, @FILE has one duration per host.

Examples:
  libi simulate --hosts 1000 --seq 7ms --rem 172ms~50% --tree greedy --runs 20
  libi simulate --hosts 1000 --seq 7ms --rem 172ms~50% --dead 1% --slow 2%x20
  libi simulate --hosts 1000 --seq 7ms --rem 172ms --refused 5% --retries 3";

/// The arguments of `libi simulate`.
#[derive(clap::Args)]
pub(crate) struct SimulateArgs {
    /// How many hosts, or a host list; the first is up from the beginning
    #[arg(value_name = "HOSTS", required_unless_present = "host_list", conflicts_with = "host_list")]
    hosts: Option<String>,
    /// The same as an option, like that of `libi run`
    #[arg(long = "hosts", visible_alias = "host", value_name = "N|LIST")]
    host_list: Option<String>,
    /// SEQ: how long one launch keeps its launcher busy
    #[arg(long, value_name = "COST", value_parser = units::jitter)]
    seq: Jitter,
    /// REM: from starting a launch until the new host can launch others
    #[arg(long, value_name = "COST", value_parser = units::jitter)]
    rem: Jitter,
    /// What the whole launch pays once
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "0")]
    constant: Duration,
    #[arg(long, value_name = "TREE", default_value = "late", help = tree_help())]
    tree: Strategy,
    /// Percentage of hosts that never answer
    #[arg(long, value_name = "P%", value_parser = units::percentage, default_value = "0%")]
    dead: f64,
    /// Percentage of launches that fail at once; a retry may succeed
    #[arg(long, value_name = "P%", value_parser = units::percentage, default_value = "0%")]
    refused: f64,
    /// When an unanswered launch counts as failed [default: 10s, or ten times
    /// the mean REM if that is longer]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    timeout: Option<Duration>,
    /// Percentage of slow hosts, and the factor by which REM is longer there
    #[arg(long, value_name = "P%xF", value_parser = units::slow)]
    slow: Option<(f64, f64)>,
    /// How often a failed launch is retried; only by the tree `late`
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1000))]
    retries: u16,
    /// The first seed; each further run uses the next one
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// How many launches to simulate
    #[arg(long, value_name = "R", default_value = "1", value_parser = units::runs)]
    runs: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &SimulateArgs) -> Result<(), CliError> {
    let hosts =
        HostSet::read(arguments.hosts.as_ref().or(arguments.host_list.as_ref()).map_or("", String::as_str))?;
    let setup = arguments.setup(&hosts);
    let mut seen = RunStatistics { hosts: hosts.count.get(), ..RunStatistics::default() };
    for run in 0..u64::from(arguments.runs) {
        seen.add(&setup.run(arguments.seed.wrapping_add(run)));
    }
    if arguments.json { print_json(&seen.to_json(arguments)) } else { print(&seen.to_text(arguments)) }
}

impl SimulateArgs {
    fn setup(&self, hosts: &HostSet) -> Setup {
        let (slow, slowness) = self.slow.unwrap_or((0.0, 1.0));
        let cost = Cost { constant: self.constant, ..Cost::default() };
        let default_timeout = self.rem.mean().saturating_mul(10).max(Duration::from_secs(10));
        Setup {
            seq: self.seq.clone(),
            rem: self.rem.clone(),
            dead: self.dead,
            refused: self.refused,
            timeout: self.timeout.unwrap_or(default_timeout),
            slow,
            slowness,
            retries: self.retries,
            ..Setup::new(hosts.count, self.tree, &cost)
        }
    }
}

/// Statistics over all runs.
#[derive(Default)]
struct RunStatistics {
    hosts: u32,
    launch: Vec<Duration>,
    settled: Vec<Duration>,
    given_up: Vec<usize>,
    stranded: Vec<usize>,
    lost: Vec<usize>,
    most_launches: u32,
    launches: u64,
}

impl RunStatistics {
    fn add(&mut self, outcome: &Outcome) {
        self.launch.push(outcome.launch_time());
        self.settled.push(outcome.settled_time());
        let (given_up, stranded) = (outcome.given_up().count(), outcome.stranded().count());
        self.given_up.push(given_up);
        self.stranded.push(stranded);
        self.lost.push(given_up + stranded);
        let launches = outcome.launches();
        self.most_launches = launches.iter().copied().max().unwrap_or(0).max(self.most_launches);
        self.launches += launches.iter().copied().map(u64::from).sum::<u64>();
    }

    /// The mean number of launches per host.
    fn mean_launches(&self) -> f64 {
        self.launches as f64 / (f64::from(self.hosts) * self.launch.len() as f64)
    }

    fn to_json(&self, arguments: &SimulateArgs) -> serde_json::Value {
        let seconds = |times| MedianAndWorst::of(times).map(|time: Duration| time.as_secs_f64());
        let (launch, settled) = (seconds(&self.launch), seconds(&self.settled));
        let lost = MedianAndWorst::of(&self.lost);
        json!({
            "tree": arguments.tree.to_string(),
            "hosts": self.hosts,
            "seed": arguments.seed,
            "runs": arguments.runs,
            "launch_time_median_s": launch.median,
            "launch_time_worst_s": launch.worst,
            "settled_time_median_s": settled.median,
            "settled_time_worst_s": settled.worst,
            "hosts_lost_median": lost.median,
            "hosts_lost_worst": lost.worst,
            "hosts_given_up_median": MedianAndWorst::of(&self.given_up).median,
            "hosts_stranded_median": MedianAndWorst::of(&self.stranded).median,
            "launches_per_node_mean": self.mean_launches(),
            "launches_per_node_max": self.most_launches,
        })
    }

    fn to_text(&self, arguments: &SimulateArgs) -> String {
        let times = |times| {
            let MedianAndWorst { median, worst } = MedianAndWorst::of(times).map(Rounded);
            format!("median {median}, worst {worst}")
        };
        let (head, tree) = (hosts(self.hosts), arguments.tree);
        let runs = counted(arguments.runs, "run", "runs");
        let lost = MedianAndWorst::of(&self.lost);
        let mut lines = vec![
            format!("{head} by {tree}, {runs} from seed {}", arguments.seed),
            format!("launch time        {}  (until the last host that came up)", times(&self.launch)),
            format!("hosts lost         median {}, worst {}", lost.median, lost.worst),
        ];
        if lost.worst > 0 {
            let (given_up, stranded) =
                (MedianAndWorst::of(&self.given_up).median, MedianAndWorst::of(&self.stranded).median);
            lines.push(format!("  given up         median {given_up}  (their own launch failed)"));
            lines.push(format!("  stranded         median {stranded}  (their launcher was lost)"));
            lines.push(format!("settled            {}  (until the last was given up)", times(&self.settled)));
        }
        lines.push(format!(
            "launches per host  mean {:.2}, most {}",
            self.mean_launches(),
            self.most_launches
        ));
        lines.join("\n") + "\n"
    }
}

/// The median (for an even count, the upper one) and the largest of several values.
struct MedianAndWorst<T> {
    median: T,
    worst: T,
}

impl<T: Copy + Ord + Default> MedianAndWorst<T> {
    fn of(values: &[T]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        Self { median: at(sorted.len() / 2), worst: at(sorted.len().saturating_sub(1)) }
    }
}

impl<T> MedianAndWorst<T> {
    fn map<U>(self, show: impl Fn(T) -> U) -> MedianAndWorst<U> {
        MedianAndWorst { median: show(self.median), worst: show(self.worst) }
    }
}
