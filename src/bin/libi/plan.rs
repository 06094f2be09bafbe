//! `libi plan`: who would launch whom at constant costs, one strategy by itself or all of them ranked.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use libi::cost::Cost;
use libi::hosts::HostList;
use libi::plan::explain::{Explanation, Step, explain};
use libi::plan::{STRATEGY_NAMES, Strategy};
use libi::ranking::{Plan, rank};
use serde_json::{Value, json};

use crate::output::{Failure, hosts, print, print_json, table};
use crate::units::{MOST_HOSTS, duration};

pub(crate) const EXAMPLES: &str = "\
Examples:
  libi plan --hosts 1000 --seq 7ms --rem 172ms --rank
  libi plan --hosts 'node[001-064]' --seq 7ms --rem 172ms --tree kary:8 --svg plan.svg";

/// The arguments of `libi plan`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many hosts, or a host list; the first host is the root and is up when the launch begins
    #[arg(long, value_name = "N|LIST")]
    hosts: String,
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
    /// Rank all trees, the fastest first
    #[arg(long, conflicts_with_all = ["tree", "svg"])]
    rank: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also draw the launch over time into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What `--tree` takes, for the help of every command that has it.
pub(crate) fn tree_help() -> String {
    format!("Who launches whom: {STRATEGY_NAMES}")
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let names = Names::read(&arguments.hosts)?;
    let cost = Cost::new(arguments.seq, arguments.rem).with_constant(arguments.constant);
    if arguments.rank {
        let plans = rank(names.count, &cost);
        return if arguments.json {
            print_json(&plans.iter().map(summary).collect())
        } else {
            print(&ranking(&plans))
        };
    }
    let plan = Plan::new(arguments.tree, names.count, &cost);
    let explanation = explain(&plan.tree, &plan.schedule);
    if let Some(path) = &arguments.svg {
        let drawing = libi::chart::launch(&plan.tree, &plan.schedule, &|node| names.name(node));
        std::fs::write(path, drawing).map_err(|error| Failure::File(path.clone(), error))?;
    }
    if arguments.json {
        let mut object = summary(&plan);
        object["critical_path"] = explanation.path.iter().map(|step| names.json(step)).collect();
        print_json(&object)
    } else {
        print(&(describe(&plan) + &names.tell(&explanation)))
    }
}

fn summary(plan: &Plan) -> Value {
    json!({
        "tree": plan.strategy.to_string(),
        "hosts": plan.tree.hosts(),
        "launch_time_s": plan.launch_time().as_secs_f64(),
        "depth": plan.tree.depth(),
        "max_children": plan.tree.max_children(),
    })
}

fn ranking(plans: &[Plan]) -> String {
    let row = |plan: &Plan| {
        let time = format!("{:.3} s", plan.launch_time().as_secs_f64());
        let (depth, most) = (plan.tree.depth().to_string(), plan.tree.max_children().to_string());
        [plan.strategy.to_string(), time, depth, most]
    };
    let rows: Vec<_> = plans.iter().map(row).collect();
    table(["tree", "launch time", "depth", "most children"], &rows)
}

fn describe(plan: &Plan) -> String {
    let (tree, time) = (&plan.tree, plan.launch_time().as_secs_f64());
    let (depth, most) = (tree.depth(), tree.max_children());
    format!(
        "{} by a {} tree: {time:.3} s, depth {depth}, at most {most} children\n",
        hosts(tree.hosts()),
        plan.strategy
    )
}

/// The hosts, by name if names were given.
struct Names {
    count: NonZeroU32,
    list: Option<HostList>,
}

impl Names {
    /// A number, or else a host list, in which a host that is named again is still one host.
    fn read(text: &str) -> Result<Self, Failure> {
        if let Ok(count) = text.parse::<NonZeroU32>()
            && count.get() <= MOST_HOSTS
        {
            return Ok(Self { count, list: None });
        }
        let list = HostList::parse(text).map_err(|error| Failure::HostList(error, text.to_owned()))?;
        let list = libi::dist::distinct(&list);
        let count = u32::try_from(list.len()).ok().and_then(NonZeroU32::new).ok_or(Failure::NoHosts)?;
        Ok(Self { count, list: Some(list) })
    }

    fn name(&self, node: u32) -> String {
        match self.list.as_ref().and_then(|list| list.entry(node as usize)) {
            Some(host) => host.name.to_owned(),
            None => format!("host {node}"),
        }
    }

    fn json(&self, step: &Step) -> Value {
        json!({
            "host": self.name(step.node),
            "launcher": self.name(step.launcher),
            "launched_before": step.before,
            "waited_s": step.waited.as_secs_f64(),
            "took_s": step.took.as_secs_f64(),
            "up_s": step.ready.as_secs_f64(),
        })
    }

    /// The way to the last host; of a long way its beginning and its end.
    fn tell(&self, explanation: &Explanation) -> String {
        const SHOWN: usize = 6;
        let mut text = format!("last: {}, because\n", self.name(explanation.last()));
        let steps = &explanation.path;
        let hidden = steps.len().saturating_sub(2 * SHOWN);
        for (i, step) in steps.iter().enumerate() {
            if hidden > 0 && i == SHOWN {
                let _ = writeln!(text, "  … {hidden} more steps …");
            }
            if hidden > 0 && (SHOWN..SHOWN + hidden).contains(&i) {
                continue;
            }
            let up = step.ready.as_secs_f64();
            let (launcher, host) = (self.name(step.launcher), self.name(step.node));
            let _ = write!(text, "  {up:.3} s  {launcher} launched {host}");
            if step.before > 0 {
                let _ = write!(text, " after {} others ({:?})", step.before, step.waited);
            }
            let _ = writeln!(text, ", which took {:?}", step.took);
        }
        if !explanation.constant.is_zero() {
            let _ = writeln!(
                text,
                "  {:.3} s  with the constant {:?}",
                explanation.launch_time.as_secs_f64(),
                explanation.constant
            );
        }
        text
    }
}
