//! `libi trace`: where a recorded launch spent its time, its critical path, and its failures.

pub(crate) mod read;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libi::hosts::HostList;
use libi_core::ids::HostIndex;
use libi_core::time::Rounded;
use libi_trace::{HostLine, PathStep, Quartiles, Summary, Timeline};
use serde_json::{Value, json};

use crate::output::{CliError, counted, hosts, print, print_json};

pub(crate) const EXAMPLES: &str = "\
FILE is a timeline that `libi run --timeline` recorded, in Chrome's trace format.
chrome://tracing and https://ui.perfetto.dev display it, too.

Examples:
  libi trace launch.json
  libi trace launch.json --svg launch.svg
  libi trace launch.json --json | jq .critical_path";

/// The arguments of `libi trace`.
#[derive(clap::Args)]
pub(crate) struct TraceArgs {
    /// The recorded timeline; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Also draw the timeline as SVG into this file
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &TraceArgs) -> Result<(), CliError> {
    let text = text(&arguments.file)?;
    let named = if arguments.file.as_os_str() == "-" { Path::new("standard input") } else { &arguments.file };
    let timeline = read::timeline(&text).map_err(|error| CliError::Timeline(named.to_owned(), error))?;
    if let Some(path) = &arguments.svg {
        std::fs::write(path, timeline.svg()).map_err(|error| CliError::File(path.clone(), error))?;
    }
    let summary = Summary::new(&timeline);
    if arguments.json {
        print_json(&document(&timeline, &summary))
    } else {
        print(&summary_text(&timeline, &summary))
    }
}

fn text(path: &Path) -> Result<String, CliError> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map_err(CliError::Input)?;
        return Ok(text);
    }
    std::fs::read_to_string(path).map_err(|error| CliError::File(path.to_owned(), error))
}

fn name(timeline: &Timeline, host: Option<HostIndex>) -> &str {
    match host {
        None => "the front end",
        Some(index) => timeline.host(index).map_or("an unknown host", |host| &host.name),
    }
}

/// The causes of failures, most frequent first, each with its hosts in list order.
fn causes(timeline: &Timeline) -> Vec<(&str, Vec<HostIndex>)> {
    let mut causes: BTreeMap<&str, Vec<HostIndex>> = BTreeMap::new();
    for (index, host) in (0..).zip(&timeline.hosts) {
        if let Some((_, cause)) = &host.ended {
            causes.entry(cause).or_default().push(HostIndex(index));
        }
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    causes
}

fn document(timeline: &Timeline, summary: &Summary) -> Value {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let host = |index: Option<HostIndex>| index.map(|index| name(timeline, Some(index)));
    let slow = |&index: &HostIndex| {
        let line = timeline.host(index);
        json!({ "host": host(Some(index)), "took_s": seconds(line.and_then(HostLine::took)) })
    };
    let step = |step: &PathStep| {
        json!({
            "host": host(Some(step.host)),
            "launcher": host(step.launcher),
            "launched_before": step.before,
            "waited_s": step.waited.as_secs_f64(),
            "starting_s": step.starting.as_secs_f64(),
            "joining_s": step.joining.as_secs_f64(),
            "hello_s": step.hello.as_secs_f64(),
        })
    };
    let cause = |(cause, hosts): (&str, Vec<HostIndex>)| {
        let names: Vec<_> = hosts.into_iter().map(|index| host(Some(index))).collect();
        json!({ "cause": cause, "hosts": names })
    };
    let cost = timeline.predicted.as_ref().map(|predicted| predicted.cost);
    json!({
        "session": timeline.session,
        "hosts": summary.hosts,
        "hosts_joined": summary.joined,
        "hosts_failed": summary.failed,
        "hosts_lost": summary.lost,
        "hosts_open": summary.open,
        "members_up": summary.members,
        "up_s": seconds(timeline.up),
        "took_s": summary.took.as_secs_f64(),
        "compared_hosts": summary.compared,
        "compared_s": seconds(summary.measured),
        "predicted_s": seconds(summary.predicted),
        "predicted_seq_s": seconds(cost.map(|cost| cost.seq)),
        "predicted_rem_s": seconds(cost.map(|cost| cost.rem)),
        "ratio": summary.ratio,
        "start_to_hello_s": summary.starting.as_ref().map(quartiles),
        "slowest": summary.slowest.iter().map(slow).collect::<Value>(),
        "critical_path": summary.path.iter().map(step).collect::<Value>(),
        "most_launches": summary.busiest.map(|most| json!({"launcher": host(most.host), "hosts": most.launched})),
        "retries": summary.retries,
        "failures": causes(timeline).into_iter().map(cause).collect::<Value>(),
    })
}

fn quartiles(of: &Quartiles) -> Value {
    let [least, lower, median, upper, most] =
        [of.least, of.lower, of.median, of.upper, of.most].map(|time| time.as_secs_f64());
    json!({ "min": least, "q1": lower, "median": median, "q3": upper, "max": most })
}

fn summary_text(timeline: &Timeline, summary: &Summary) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", headline(timeline, summary));
    if let Some(prediction) = summary.prediction(timeline) {
        let _ = writeln!(text, "predicted      {prediction}");
    }
    if let Some(Quartiles { least, lower, median, upper, most }) = summary.starting {
        let [least, lower, median, upper, most] = [least, lower, median, upper, most].map(Rounded);
        let _ = writeln!(
            text,
            "start to hello median {median}, half of them {lower} to {upper}, all {least} to {most}"
        );
    }
    if let Some(most) = summary.busiest {
        let (launcher, launched) = (name(timeline, most.host), hosts(most.launched));
        let retries = counted(u32::try_from(summary.retries).unwrap_or(u32::MAX), "retry", "retries");
        let _ = writeln!(text, "launches       most by {launcher}: {launched}; {retries}");
    }
    if !summary.slowest.is_empty() {
        let slow = |&index: &HostIndex| {
            let took = timeline.host(index).and_then(HostLine::took).unwrap_or_default();
            format!("{} {}", name(timeline, Some(index)), Rounded(took))
        };
        let slowest: Vec<_> = summary.slowest.iter().map(slow).collect();
        let _ = writeln!(text, "slowest        {}", slowest.join(", "));
    }
    path(&mut text, timeline, summary);
    for (cause, failed) in causes(timeline) {
        let _ = writeln!(
            text,
            "failed: {}\n  {}",
            folded(timeline, &failed),
            cause.trim_end().replace('\n', "\n  ")
        );
    }
    // Text from hosts must not contain control characters that a terminal would obey.
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

fn headline(timeline: &Timeline, summary: &Summary) -> String {
    let mut line = String::new();
    if !timeline.session.is_empty() {
        line = format!("{}: ", timeline.session);
    }
    line += &format!("{} of {} hosts joined", summary.joined, summary.hosts);
    for (count, word) in [(summary.failed, "failed"), (summary.lost, "lost"), (summary.open, "open")] {
        if count > 0 {
            line += &format!(", {count} {word}");
        }
    }
    let took = Rounded(summary.took);
    line + &match timeline.up {
        Some(_) => format!("; the session was up after {took}"),
        None => format!("; the session was not up, the timeline ends at {took}"),
    }
}

/// The critical path to the last host; of a long path only both ends.
fn path(text: &mut String, timeline: &Timeline, summary: &Summary) {
    const SHOWN: usize = 6;
    let steps = &summary.path;
    let Some(last) = steps.last() else { return };
    let _ = writeln!(text, "last: {}, because", name(timeline, Some(last.host)));
    let hidden = steps.len().saturating_sub(2 * SHOWN);
    for (i, step) in steps.iter().enumerate() {
        if hidden > 0 && i == SHOWN {
            let _ = writeln!(text, "  … {hidden} more …");
        }
        if hidden > 0 && (SHOWN..SHOWN + hidden).contains(&i) {
            continue;
        }
        let (launcher, host) = (name(timeline, step.launcher), name(timeline, Some(step.host)));
        let _ = write!(text, "  {:>9}  {launcher} launched {host}", Rounded(step.hello));
        let waited = Rounded(step.waited);
        let _ = match step.before {
            0 if step.waited.is_zero() => Ok(()),
            0 => write!(text, " after {waited}"),
            others => write!(text, " after {} ({waited})", counted(others, "other", "others")),
        };
        let _ = writeln!(text, ", which took {}", Rounded(step.starting));
    }
    if let Some(joined) = timeline.host(last.host).and_then(|host| host.joined) {
        let (host, joining) = (name(timeline, Some(last.host)), Rounded(last.joining));
        let _ =
            writeln!(text, "  {:>9}  the members of {host} were up, which took {joining}", Rounded(joined));
    }
}

/// Folds host names if they can be parsed; of many hosts, the first ones and the number of the
/// rest.
fn folded(timeline: &Timeline, failed: &[HostIndex]) -> String {
    const SHOWN: usize = 20;
    const LONGEST: usize = 300;
    let names: Vec<_> = failed.iter().map(|&index| name(timeline, Some(index))).collect();
    match fold(&names) {
        Some(all) if all.len() <= LONGEST => all,
        _ if names.len() <= SHOWN => names.join(", "),
        _ => {
            let (first, more) = (&names[..SHOWN], names.len() - SHOWN);
            format!("{} and {more} more; --json has all", fold(first).unwrap_or_else(|| first.join(", ")))
        }
    }
}

/// Folds names, if all of them can be read as hosts.
fn fold(names: &[&str]) -> Option<String> {
    let list = HostList::parse(&names.join(" ")).ok()?;
    let same = list.iter().zip(names).all(|(host, name)| host.to_string() == **name);
    (same && list.len() == names.len()).then(|| list.fold())
}
