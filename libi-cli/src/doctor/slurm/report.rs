//! The report on an environment of Slurm, as text and as one JSON document.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use libi::Srun;
use libi::hosts::HostList;
use libi_core::hosts::fold_names;
use serde_json::{Value, json};

use super::super::finding::Direct;
use super::super::notes::{Note, folded};
use super::super::probe::ProgramCheck;
use super::super::table::{ABSENT, COLUMN_WIDTH, SENTENCE_WIDTH, left_aligned, rounded};
use super::site::Site;
use super::step::{NodeFinding, NodeProblem};

/// What was examined, and the results.
pub(super) struct SlurmReport<'a> {
    pub(super) hosts: &'a HostList,
    pub(super) findings: &'a [NodeFinding],
    pub(super) site: &'a Site,
    pub(super) srun: &'a Srun,
    /// The addresses that nodes tried to connect to.
    pub(super) addresses: &'a [SocketAddr],
    pub(super) took: Duration,
}

impl SlurmReport<'_> {
    /// Whether a launch would work on all nodes.
    pub(super) fn is_fine(&self) -> bool {
        self.findings.iter().all(|found| found.problem.is_none())
    }

    fn fine(&self) -> usize {
        self.findings.iter().filter(|found| found.problem.is_none()).count()
    }
}

/// The whole report.
pub(super) fn text(report: &SlurmReport<'_>) -> String {
    let all = report.findings.len();
    let verdict = match report.fine() {
        0 => "a launch would not work on any of them".to_owned(),
        fine if fine == all => "a launch would work".to_owned(),
        fine => format!("a launch would work on {fine} of them"),
    };
    let hosts = crate::output::hosts(u32::try_from(all).unwrap_or(u32::MAX));
    let mut text =
        format!("{hosts} through {}, examined in {}: {verdict}\n", report.srun, rounded(report.took));
    text.push_str(&site(report));
    text.push('\n');
    text.push_str(&nodes(report));
    section("problems that prevent a launch", &problems(report), report.hosts, &mut text);
    section("notes", &notes(report), report.hosts, &mut text);
    text
}

/// Slurm, the job, and what `srun` knows.
fn site(report: &SlurmReport<'_>) -> String {
    let Ok(version) = &report.site.version else { return String::new() };
    let job = match &report.srun.job {
        Some(job) => format!("in job {} of {}", job.id, fold_names(job.nodes.iter().map(String::as_str))),
        None => "in no job: each launch gets one of its own".to_owned(),
    };
    let overlap = match report.site.has_overlap {
        Some(false) => "srun has no --overlap: steps share processors always",
        Some(true) => "srun has --overlap, which launches use",
        None => "srun does not tell its options",
    };
    let mpi = match &report.site.mpi[..] {
        [] => String::new(),
        plugins => format!("; plugins for MPI and PMI, which launches do not use: {}", plugins.join(", ")),
    };
    format!("Slurm {version}, {job}\n{overlap}{mpi}\n")
}

/// One line for each group of nodes with equal findings.
fn nodes(report: &SlurmReport<'_>) -> String {
    let mut rows: Vec<([String; 5], Vec<usize>)> = Vec::new();
    for (place, found) in report.findings.iter().enumerate() {
        let system = match (&found.kernel, &found.machine) {
            (Some(kernel), Some(machine)) => format!("{kernel} {machine}"),
            (kernel, _) => kernel.clone().unwrap_or_else(|| ABSENT.to_owned()),
        };
        let row = [
            if found.kernel.is_some() { "yes" } else { "no" }.to_owned(),
            found.program.map_or(ABSENT, ProgramCheck::name).to_owned(),
            system,
            found.files.clone().unwrap_or_else(|| ABSENT.to_owned()),
            connects_to(&found.direct),
        ];
        match rows.iter_mut().find(|(same, _)| *same == row) {
            Some((_, places)) => places.push(place),
            None => rows.push((row, vec![place])),
        }
    }
    let heading = ["nodes", "started", "program", "system", "open files", "connects to"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for (row, places) in rows {
        lines.push([vec![folded(report.hosts, &places, COLUMN_WIDTH)], row.to_vec()].concat());
    }
    left_aligned(&lines)
}

fn connects_to(direct: &Direct) -> String {
    match direct {
        Direct::NotTried => ABSENT.to_owned(),
        Direct::Works(addresses) => {
            addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(" ")
        }
        Direct::Blocked => "nothing".to_owned(),
        Direct::NoTool => "?".to_owned(),
    }
}

/// The problems, the most frequent first.
fn problems(report: &SlurmReport<'_>) -> Vec<Note> {
    let mut kinds: Vec<(&NodeProblem, Note)> = Vec::new();
    for (place, found) in report.findings.iter().enumerate() {
        let Some((problem, evidence)) = &found.problem else { continue };
        match kinds.iter_mut().find(|(kind, note)| *kind == problem && note.evidence == *evidence) {
            Some((_, note)) => note.hosts.push(place),
            None => {
                let name = report.hosts.entry(place).map_or("", |host| host.name);
                let (message, hint) = (problem.text(), problem.hint(name));
                let evidence = evidence.clone();
                kinds.push((problem, Note { message, evidence, hint, hosts: vec![place] }));
            }
        }
    }
    kinds.sort_by_key(|(_, note)| std::cmp::Reverse(note.hosts.len()));
    kinds.into_iter().map(|(_, note)| note).collect()
}

/// What a launch works with, but not well.
fn notes(report: &SlurmReport<'_>) -> Vec<Note> {
    let of = |fits: &dyn Fn(&NodeFinding) -> bool| {
        let fine = |found: &NodeFinding| found.problem.is_none() && fits(found);
        (0..report.findings.len()).filter(|place| fine(&report.findings[*place])).collect::<Vec<_>>()
    };
    let mut notes = Vec::new();
    let mut note = |message: String, hint: &str, hosts: Vec<usize>| {
        if !hosts.is_empty() {
            notes.push(Note { message, evidence: String::new(), hint: Some(hint.to_owned()), hosts });
        }
    };
    note(
        "have no tool to test a connection with".to_owned(),
        "the test needs bash and timeout, or python3, perl or nc there; a launch does not",
        of(&|found| found.direct == Direct::NoTool),
    );
    note(
        format!("do not reach all of the {} addresses of this machine", report.addresses.len()),
        "a launch tries all of them and takes the first that works",
        of(&|found| matches!(&found.direct, Direct::Works(some) if some.len() < report.addresses.len())),
    );
    notes
}

fn section(heading: &str, notes: &[Note], hosts: &HostList, text: &mut String) {
    if notes.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{heading}");
    for Note { message, evidence, hint, hosts: places } in notes {
        let _ = write!(text, "  {}  {message}", folded(hosts, places, SENTENCE_WIDTH));
        if !evidence.is_empty() {
            let _ = write!(text, ": {evidence}");
        }
        text.push('\n');
        if let Some(hint) = hint {
            let _ = writeln!(text, "    hint: {hint}");
        }
    }
}

/// The report with everything that is known.
pub(super) fn document(report: &SlurmReport<'_>) -> Value {
    let version = report.site.version.as_deref().map_or(Value::Null, Value::from);
    let job = report.srun.job.as_ref().map(|job| json!({ "id": job.id, "nodes": job.nodes }));
    let ips = |addresses: &[SocketAddr]| -> Vec<String> {
        addresses.iter().map(|address| address.ip().to_string()).collect()
    };
    let hosts = report.hosts.iter().zip(report.findings).map(|(host, found)| {
        let mut object = json!({ "host": host.name, "ok": found.problem.is_none() });
        let mut put = |key: &str, value: Value| {
            if !value.is_null() {
                object[key] = value;
            }
        };
        if let Some((problem, evidence)) = &found.problem {
            put("problem", problem.name().into());
            put("problem_text", problem.text().into());
            put("evidence", evidence.as_str().into());
            put("hint", problem.hint(host.name).into());
        }
        put("kernel", found.kernel.as_deref().into());
        put("machine", found.machine.as_deref().into());
        let files = found.files.as_deref();
        put(
            "open_files",
            files.map_or(Value::Null, |files| files.parse::<u64>().map_or(files.into(), Value::from)),
        );
        put("program", found.program.map(ProgramCheck::name).into());
        match &found.direct {
            Direct::NotTried => {}
            Direct::Works(addresses) => {
                put("direct", "works".into());
                put("direct_addresses", ips(addresses).into());
            }
            Direct::Blocked => put("direct", "blocked".into()),
            Direct::NoTool => put("direct", "unknown".into()),
        }
        object
    });
    json!({
        "ok": report.is_fine(),
        "shell": report.srun.to_string(),
        "took_s": report.took.as_secs_f64(),
        "hosts_ok": report.fine(),
        "hosts_with_problems": report.findings.len() - report.fine(),
        "slurm": {
            "version": version,
            "job": job,
            "has_overlap": report.site.has_overlap,
            "mpi": report.site.mpi,
        },
        "addresses": ips(report.addresses),
        "hosts": hosts.collect::<Vec<_>>(),
    })
}
