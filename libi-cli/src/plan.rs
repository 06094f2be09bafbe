//! `libi plan`: launch trees at constant costs, for one strategy or all of them ranked.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::plan::explain::{Explanation, PlanStep, explain};
use libi_core::plan::{Root, STRATEGY_NAMES, Strategy};
use libi_core::ranking::{Plan, rank};
use libi_core::time::{Instant, Rounded};
use serde_json::{Value, json};

use crate::output::{CliError, counted, hosts, print, print_json, table};
use crate::units::{HostSet, duration};

pub(crate) const EXAMPLES: &str = "\
Examples:
  libi plan --hosts 1000 --seq 7ms --rem 172ms --rank
  libi plan --hosts 'node[01-64]' --seq 7ms --rem 172ms --launches
  libi plan --hosts 64 --seq 7ms --rem 172ms --tree kary:8 --svg plan.svg
  libi plan --hosts 1000 --seq 7ms --rem 172ms --front-end --rank";

/// The name of the front end among those of hosts, none of which has a space.
const FRONT_END: &str = "the front end";

/// For a longer critical path, JSON has only its length.
const LONGEST_PATH: usize = 1_000;

/// The arguments of `libi plan`.
#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    /// How many hosts, or a host list; the first is up from the beginning, unless
    /// there is a front end
    #[arg(value_name = "HOSTS", required_unless_present = "host_list", conflicts_with = "host_list")]
    hosts: Option<String>,
    /// The same as an option, like that of `libi run`
    #[arg(long = "hosts", visible_alias = "host", value_name = "N|LIST")]
    host_list: Option<String>,
    /// SEQ: how long one launch keeps its launcher busy
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    seq: Duration,
    /// REM: from starting a launch until the new host can launch others
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    rem: Duration,
    /// What the whole launch pays once
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    constant: Duration,
    #[arg(long, value_name = "TREE", default_value = "late", help = tree_help())]
    tree: Strategy,
    /// A front end, which is none of the hosts, launches the first host; with the
    /// tree `late`, it is a launcher as hosts that are up are, as that of `libi run`
    #[arg(long)]
    front_end: bool,
    /// How many launches the front end may have in flight
    #[arg(long, value_name = "COUNT", requires = "front_end")]
    front_end_launches: Option<NonZeroU32>,
    /// Rank all trees, fastest first
    #[arg(long, conflicts_with_all = ["tree", "svg", "launches"])]
    rank: bool,
    /// List every launch: host, launcher, start time, and when it is up
    #[arg(long)]
    launches: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also draw the launch over time as SVG into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The help text of `--tree`, shared by several commands.
pub(crate) fn tree_help() -> String {
    format!("The tree: {STRATEGY_NAMES}")
}

/// The names of the nodes of a tree.
struct Names {
    hosts: HostSet,
    root: Root,
}

impl Names {
    /// The number of this node among the hosts; `None` for the front end.
    fn host(&self, node: u32) -> Option<u32> {
        if self.root.is_front_end() { node.checked_sub(1) } else { Some(node) }
    }

    fn name(&self, node: u32) -> String {
        self.host(node).map_or_else(|| FRONT_END.to_owned(), |host| self.hosts.name(host))
    }

    fn json(&self, node: u32) -> Value {
        self.host(node).map_or_else(|| FRONT_END.into(), |host| self.hosts.json(host))
    }
}

pub(crate) fn run(arguments: &PlanArgs) -> Result<(), CliError> {
    let hosts =
        HostSet::read(arguments.hosts.as_ref().or(arguments.host_list.as_ref()).map_or("", String::as_str))?;
    let root = match arguments.front_end {
        true => Root::FrontEnd { launches: arguments.front_end_launches },
        false => Root::Host,
    };
    let names = Names { hosts, root };
    let cost = Cost::new(arguments.seq, arguments.rem).with_constant(arguments.constant);
    if arguments.rank {
        let plans = rank(root, names.hosts.count, &cost);
        return if arguments.json {
            print_json(&plans.iter().map(summary).collect())
        } else {
            print(&ranking(&plans))
        };
    }
    let plan = Plan::below(root, arguments.tree, names.hosts.count, &cost);
    if plan.schedule.ready(plan.schedule.last()) == Some(Instant::FAR_FUTURE) {
        return Err(CliError::Usage(
            "the launch would take longer than 584 years, the longest representable time".to_owned(),
        ));
    }
    if let Some(path) = &arguments.svg {
        let drawing = libi_trace::chart::launch(&plan.tree, &plan.schedule, root, &|node| names.name(node));
        std::fs::write(path, drawing).map_err(|error| CliError::File(path.clone(), error))?;
    }
    let explanation = explain(&plan.tree, &plan.schedule);
    if arguments.json {
        let mut object = summary(&plan);
        object["critical_path_length"] = explanation.path.len().into();
        if explanation.path.len() <= LONGEST_PATH {
            object["critical_path"] = explanation.path.iter().map(|step| step_json(step, &names)).collect();
        }
        if arguments.launches {
            object["launches"] = launches_json(&plan, &names);
        }
        return print_json(&object);
    }
    let launches = if arguments.launches { launches(&plan, &names) + "\n" } else { String::new() };
    print(&(launches + &headline(&plan) + &critical_path_text(&explanation, &names)))
}

fn summary(plan: &Plan) -> Value {
    json!({
        "tree": plan.strategy.to_string(),
        "hosts": plan.hosts(),
        "front_end": plan.root.is_front_end(),
        "launch_time_s": plan.launch_time().as_secs_f64(),
        "depth": plan.tree.depth(),
        "max_children": plan.tree.max_children(),
    })
}

fn step_json(step: &PlanStep, names: &Names) -> Value {
    json!({
        "host": names.json(step.node),
        "launcher": names.json(step.launcher),
        "launched_before": step.before,
        "waited_s": step.waited.as_secs_f64(),
        "took_s": step.took.as_secs_f64(),
        "up_s": step.ready.as_secs_f64(),
    })
}

/// When a node's launch starts, and when the node is up.
fn times(plan: &Plan, node: u32) -> [Duration; 2] {
    [plan.schedule.started(node), plan.schedule.ready(node)]
        .map(|at| at.unwrap_or_default().since(Instant::ZERO))
}

fn launches_json(plan: &Plan, names: &Names) -> Value {
    let launch = |(launcher, node)| {
        let [started, up] = times(plan, node).map(|at| at.as_secs_f64());
        json!({"host": names.json(node), "launcher": names.json(launcher), "started_s": started, "up_s": up})
    };
    plan.tree.launches().map(launch).collect()
}

fn launches(plan: &Plan, names: &Names) -> String {
    let row = |(launcher, node)| {
        let [started, up] = times(plan, node).map(|at| Rounded(at).to_string());
        [names.name(node), names.name(launcher), started, up]
    };
    let rows: Vec<_> = plan.tree.launches().map(row).collect();
    table(["host", "launched by", "at", "up at"], &rows)
}

fn ranking(plans: &[Plan]) -> String {
    let row = |plan: &Plan| {
        let (depth, most) = (plan.tree.depth().to_string(), plan.tree.max_children().to_string());
        [plan.strategy.to_string(), Rounded(plan.launch_time()).to_string(), depth, most]
    };
    let rows: Vec<_> = plans.iter().map(row).collect();
    table(["tree", "launch time", "depth", "most children"], &rows)
}

fn headline(plan: &Plan) -> String {
    let (tree, strategy, time) = (&plan.tree, plan.strategy, Rounded(plan.launch_time()));
    let most = counted(tree.max_children(), "child", "children");
    format!("{} by {strategy}: {time}, depth {}, at most {most}\n", hosts(plan.hosts()), tree.depth())
}

/// The critical path to the last host; of a long path only both ends.
fn critical_path_text(explanation: &Explanation, names: &Names) -> String {
    const SHOWN: usize = 6;
    let steps = &explanation.path;
    if steps.is_empty() {
        return "there is nothing to launch\n".to_owned();
    }
    let mut text = format!("last: {}, because\n", names.name(explanation.last()));
    let hidden = steps.len().saturating_sub(2 * SHOWN);
    for (i, step) in steps.iter().enumerate() {
        // Writing to a string cannot fail.
        if hidden > 0 && i == SHOWN {
            let _ = writeln!(text, "  … {hidden} more …");
        }
        if hidden > 0 && (SHOWN..SHOWN + hidden).contains(&i) {
            continue;
        }
        let up = Rounded(step.ready.since(Instant::ZERO));
        let (launcher, host) = (names.name(step.launcher), names.name(step.node));
        let _ = write!(text, "  {up:>9}  {launcher} launched {host}");
        if step.before > 0 {
            let others = counted(step.before, "other", "others");
            let _ = write!(text, " after {others} ({})", Rounded(step.waited));
        }
        let _ = writeln!(text, ", which took {}", Rounded(step.took));
    }
    if !explanation.constant.is_zero() {
        let (all, constant) = (Rounded(explanation.launch_time), Rounded(explanation.constant));
        let _ = writeln!(text, "  {all:>9}  with the constant {constant}");
    }
    text
}
