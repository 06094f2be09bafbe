//! The report as text: one line per group of hosts with equal findings, durations over all hosts,
//! then problems, notes and the gain of the fast profile.

use std::fmt::Write as _;
use std::time::Duration;

use libi_core::time::Rounded;
use libi_launch::transcript::{LoginError, LoginStage};

use super::finding::{Direct, Finding, Problem};
use super::gain::{Gain, LoginCost};
use super::notes::{self, Note, amount, differs, folded};
use super::{DoctorReport, LOCAL};
use crate::output::table;

/// The maximum length of a host list in a table column, and in a sentence.
pub(super) const COLUMN_WIDTH: usize = 36;
pub(super) const SENTENCE_WIDTH: usize = 100;
/// The cell of an absent value.
pub(super) const ABSENT: &str = "-";

/// The whole report.
pub(super) fn text(report: &DoctorReport<'_>) -> String {
    let mut text = head(report);
    text.push_str(&findings(report));
    if report.findings.iter().any(Finding::is_fine) {
        text.push_str(&times(report));
    }
    section("problems that prevent a launch", &notes::problems(report), report, &mut text);
    section("notes", &notes::notes(report), report, &mut text);
    text.push_str(&gain(report));
    text
}

fn head(report: &DoctorReport<'_>) -> String {
    let all = report.findings.len();
    let fine = report.findings.iter().filter(|found| found.is_fine()).count();
    let hosts = crate::output::hosts(u32::try_from(all).unwrap_or(u32::MAX));
    let verdict = match fine {
        0 => "a launch would not work on any of them".to_owned(),
        _ if fine == all => "a launch would work".to_owned(),
        _ => format!("a launch would work on {fine} of them"),
    };
    let by = if report.shell == LOCAL {
        "on this machine".to_owned()
    } else {
        format!("through {}", report.shell)
    };
    format!("{hosts} {by}, examined in {}: {verdict}\n\n", rounded(report.took))
}

/// One line for each group of hosts with equal findings.
fn findings(report: &DoctorReport<'_>) -> String {
    let mut rows: Vec<([String; 6], Vec<usize>)> = Vec::new();
    for (host, found) in report.findings.iter().enumerate() {
        let row = [
            reached_text(found, report.is_ssh).to_owned(),
            authenticated(found).to_owned(),
            shell(found),
            found.program.map_or(ABSENT, |program| program.name()).to_owned(),
            kernel(found),
            direct(found),
        ];
        match rows.iter_mut().find(|(same, _)| *same == row) {
            Some((_, hosts)) => hosts.push(host),
            None => rows.push((row, vec![host])),
        }
    }
    let with_program = report.program.is_some();
    let mut lines: Vec<Vec<String>> = Vec::new();
    let heading = ["hosts", "reached", "login", "shell", "program", "clock", "system", "direct link"];
    lines.push(heading.map(str::to_owned).to_vec());
    for ([reached_text, authenticated, shell, program, kernel, direct], hosts) in rows {
        let name = folded(report.hosts, &hosts, COLUMN_WIDTH);
        let clock = clocks(hosts.iter().filter_map(|host| report.findings.get(*host)));
        lines.push(vec![name, reached_text, authenticated, shell, program, clock, kernel, direct]);
    }
    if !with_program {
        lines.iter_mut().for_each(|line| drop(line.remove(4)));
    }
    left_aligned(&lines)
}

fn reached_text(found: &Finding, is_ssh: bool) -> &'static str {
    match &found.problem {
        _ if found.reached >= LoginStage::Connection => "yes",
        Some(
            (Problem::Login(LoginError::BadOptions), _) | (Problem::NotStarted | Problem::Interrupted, _),
        ) => "?",
        Some((Problem::Login(_), _)) => "no",
        Some((Problem::TimedOut(LoginStage::Nothing), _)) if is_ssh => "no",
        _ => "?",
    }
}

fn authenticated(found: &Finding) -> &'static str {
    match &found.problem {
        _ if found.reached >= LoginStage::Login => "yes",
        Some((Problem::Login(LoginError::Denied | LoginError::TooManyKeys), _)) => "no",
        Some((Problem::Login(LoginError::HostKeyUnknown | LoginError::HostKeyChanged), _)) => "no",
        Some((Problem::TimedOut(LoginStage::Keys), _)) => "no",
        Some((Problem::Ended(_), _)) => "?",
        _ => ABSENT,
    }
}

fn shell(found: &Finding) -> String {
    let name = found.shell_name().unwrap_or("yes");
    match &found.problem {
        Some((Problem::Program(_), _)) | None if found.noise.bytes > 0 => format!("{name}, noisy"),
        Some((Problem::Program(_), _)) | None => name.to_owned(),
        _ if found.reached >= LoginStage::Login => "no".to_owned(),
        Some((Problem::Ended(_), _)) => "no".to_owned(),
        _ => ABSENT.to_owned(),
    }
}

fn kernel(found: &Finding) -> String {
    match (&found.kernel, &found.machine) {
        (Some(kernel), Some(machine)) => format!("{kernel} {machine}"),
        (Some(kernel), None) => kernel.clone(),
        _ => ABSENT.to_owned(),
    }
}

fn direct(found: &Finding) -> String {
    match &found.direct {
        Direct::NotTried => ABSENT.to_owned(),
        Direct::Works(addresses) => {
            addresses.first().map_or(String::new(), |address| address.ip().to_string())
        }
        Direct::Blocked => "none".to_owned(),
        Direct::NoTool => "?".to_owned(),
    }
}

/// A bound that holds for all of these clocks.
fn clocks<'a>(found: impl Iterator<Item = &'a Finding>) -> String {
    let clocks: Vec<_> = found.filter_map(|found| found.clock).collect();
    let off = clocks.iter().filter(|clock| differs(**clock)).count();
    let furthest = clocks.iter().map(|clock| amount(*clock) + clock.within).max();
    match furthest {
        None => ABSENT.to_owned(),
        Some(furthest) if off == 0 => format!("within {}", rounded(furthest)),
        Some(furthest) => format!("{off} differ, up to {}", rounded(furthest)),
    }
}

/// Lays out left-aligned columns.
pub(super) fn left_aligned(lines: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len))
        .map(|column| {
            lines
                .iter()
                .filter_map(|line| line.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// What a launch waits for, over all hosts without a problem.
fn times(report: &DoctorReport<'_>) -> String {
    type Of = fn(&Finding) -> Option<Duration>;
    const TIMES: [(&str, Of); 6] = [
        ("round-trip", Finding::round_trip),
        ("set-up", |found| found.set_up),
        ("  connect", |found| found.parts.connect),
        ("  key exchange", |found| found.parts.key_exchange),
        ("  authentication", |found| found.parts.authentication),
        ("  session", |found| found.parts.session),
    ];
    let mut rows = Vec::new();
    for (what, time) in TIMES {
        let fine = report.findings.iter().enumerate().filter(|(_, found)| found.is_fine());
        let mut all: Vec<(Duration, usize)> =
            fine.filter_map(|(host, found)| Some((time(found)?, host))).collect();
        all.sort_unstable();
        let (Some(least), Some(median), Some(most)) = (all.first(), all.get(all.len() / 2), all.last())
        else {
            // One line says that no part is known.
            if what == "  connect" {
                let unknown = ["  its parts", "unknown", "", "", ""];
                rows.push(unknown.map(str::to_owned));
            }
            continue;
        };
        let slowest = folded(report.hosts, &[most.1], COLUMN_WIDTH);
        rows.push([what.to_owned(), rounded(median.0), rounded(least.0), rounded(most.0), slowest]);
    }
    let mut text = format!("\n{}", table(["", "median", "min", "max", "slowest"], &rows));
    for (what, of) in key_exchanges(report) {
        let _ = writeln!(text, "key exchange {what}: {}", folded(report.hosts, &of, SENTENCE_WIDTH));
    }
    text
}

/// The key exchange algorithms in use, each with its hosts.
fn key_exchanges<'a>(report: &DoctorReport<'a>) -> Vec<(&'a str, Vec<usize>)> {
    let mut ways: Vec<(&str, Vec<usize>)> = Vec::new();
    for (host, found) in report.findings.iter().enumerate() {
        let Some(way) = found.facts.key_exchange.as_deref() else { continue };
        match ways.iter_mut().find(|(known, _)| *known == way) {
            Some((_, hosts)) => hosts.push(host),
            None => ways.push((way, vec![host])),
        }
    }
    ways
}

fn section(heading: &str, notes: &[Note], report: &DoctorReport<'_>, text: &mut String) {
    if notes.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{heading}");
    for Note { message, evidence, hint, hosts } in notes {
        let _ = write!(text, "  {}  {message}", folded(report.hosts, hosts, SENTENCE_WIDTH));
        if !evidence.is_empty() {
            let _ = write!(text, ": {evidence}");
        }
        text.push('\n');
        if let Some(hint) = hint {
            let _ = writeln!(text, "    hint: {hint}");
        }
    }
}

fn gain(report: &DoctorReport<'_>) -> String {
    if report.gains.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = report
        .gains
        .iter()
        .map(|Gain { host, own, fast }| {
            let [a, b, c, d] = [own.set_up, fast.set_up, own.processor, fast.processor].map(rounded);
            [folded(report.hosts, &[*host], COLUMN_WIDTH), a, b, c, d]
        })
        .collect();
    let heading = ["gain", "set-up", "fast", "processor", "fast"];
    let mut text = format!("\n{}", table(heading, &rows));
    let median = |time: fn(&LoginCost) -> Duration, of: fn(&Gain) -> &LoginCost| {
        let mut all: Vec<_> = report.gains.iter().map(|gain| time(of(gain))).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or_default()
    };
    let mut line = String::from("with --ssh-profile fast a login takes");
    for (what, time) in [
        ("", (|cost: &LoginCost| cost.set_up) as fn(&LoginCost) -> Duration),
        (", and of this machine's processor time", |cost: &LoginCost| cost.processor),
    ] {
        let (own, fast) = (median(time, |gain| &gain.own), median(time, |gain| &gain.fast));
        let _ = write!(line, "{what} {}", comparison(own, fast));
    }
    let _ = writeln!(text, "{line}");
    if let Some(Gain { own, fast, .. }) = report.gains.first()
        && let (Some(own), Some(fast)) = (&own.key_exchange, &fast.key_exchange)
    {
        let _ = match own == fast {
            true => writeln!(text, "key exchange: {own} with both profiles"),
            false => writeln!(text, "key exchange: {fast} instead of {own}"),
        };
    }
    text
}

/// Both durations and the relative change.
fn comparison(own: Duration, fast: Duration) -> String {
    let change = (fast.as_secs_f64() / own.as_secs_f64().max(1e-9) - 1.0) * 100.0;
    format!("{} instead of {} ({change:+.0} %)", rounded(fast), rounded(own))
}

/// Formats a measured duration; further digits would be noise.
pub(super) fn rounded(duration: Duration) -> String {
    let nanos = duration.as_nanos() as u64;
    let unit = match nanos {
        100_000_000.. => 1_000_000,
        1_000_000.. => 100_000,
        _ => 1_000,
    };
    Rounded(Duration::from_nanos(nanos.saturating_add(unit / 2) / unit * unit)).to_string()
}

#[cfg(test)]
mod tests;
