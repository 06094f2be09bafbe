//! What the report says about hosts beside the table: problems, which prevent a launch, and notes,
//! which do not. Hosts with the same message are named together.

use std::time::Duration;

use libi::hosts::{HostList, HostRef};
use libi_core::time::Rounded;

use super::DoctorReport;
use super::finding::{Clock, Direct, Finding, Noise, Problem};

/// One message about some hosts.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// A predicate, read after the hosts' names.
    pub(super) message: String,
    /// The output or measurement that the message rests on.
    pub(super) evidence: String,
    /// What to do.
    pub(super) hint: Option<String>,
    /// Their indices in the host list.
    pub(super) hosts: Vec<usize>,
}

/// By how much a clock may differ before a note is made.
const CLOCK: Duration = Duration::from_millis(100);
/// A limit of open files below this gets a note.
const FILES: u64 = 512;
/// Shells that change some bytes even inside quotes.
const OTHER_SHELLS: [&str; 3] = ["csh", "tcsh", "fish"];

/// The problems, the most frequent first.
pub(super) fn problems(report: &DoctorReport<'_>) -> Vec<Note> {
    let mut kinds: Vec<(&Problem, Note)> = Vec::new();
    for (host, found) in report.findings.iter().enumerate() {
        let Some((problem, evidence)) = &found.problem else { continue };
        match kinds.iter_mut().find(|(kind, _)| *kind == problem) {
            Some((_, note)) => note.hosts.push(host),
            None => {
                let name = report.hosts.entry(host).map_or("", |host| host.name);
                let note = Note {
                    message: problem.text(),
                    evidence: evidence.clone(),
                    hint: problem.hint(name, report.shell),
                    hosts: vec![host],
                };
                kinds.push((problem, note));
            }
        }
    }
    kinds.sort_by_key(|(_, note)| std::cmp::Reverse(note.hosts.len()));
    kinds.into_iter().map(|(_, note)| note).collect()
}

/// Notes on hosts that a launch would work on.
pub(super) fn notes(report: &DoctorReport<'_>) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for (host, found) in report.findings.iter().enumerate().filter(|(_, found)| found.is_fine()) {
        for (message, evidence, hint) in of(found) {
            match notes.iter_mut().find(|note| note.message == message && note.hint.as_deref() == Some(hint))
            {
                Some(note) => note.hosts.push(host),
                None => {
                    notes.push(Note { message, evidence, hint: Some(hint.to_owned()), hosts: vec![host] });
                }
            }
        }
    }
    notes
}

/// Message, evidence and hint of each note on one host.
fn of(found: &Finding) -> Vec<(String, String, &'static str)> {
    let mut notes = Vec::new();
    let Noise { bytes, line } = &found.noise;
    if *bytes > 0 {
        notes.push((
            "prints text at login, which will be mixed into program output".to_owned(),
            line.clone(),
            "in its profile (~/.bashrc), print only if standard input is a terminal: [ -t 0 ]",
        ));
    }
    if let Some(shell) = found.shell_name().filter(|shell| OTHER_SHELLS.contains(shell)) {
        notes.push((
            format!("has the login shell {shell}, which changes some arguments"),
            String::new(),
            "avoid quotes, backslashes and exclamation marks in arguments, or change the login \
             shell with chsh",
        ));
    }
    if let Some(clock) = found.clock.filter(|clock| differs(*clock)) {
        let direction = if clock.ahead_ns > 0 { "ahead of" } else { "behind" };
        notes.push((
            format!("has a clock that is {direction} this machine's"),
            format!("{} ± {}", Rounded(amount(clock)), Rounded(clock.within)),
            "check `timedatectl` there; a launch works regardless, but Kerberos and make need equal clocks",
        ));
    }
    if let Some(files) =
        found.files.as_deref().filter(|files| files.parse().is_ok_and(|files: u64| files < FILES))
    {
        notes.push((
            format!("limits a process to {files} open files"),
            String::new(),
            "raise `ulimit -n` there; a host that launches others needs three descriptors for each",
        ));
    }
    match &found.direct {
        Direct::Blocked => notes.push((
            "cannot connect to this machine; its session would use the remote shell's connection".to_owned(),
            String::new(),
            "for high data rates, allow incoming connections to ephemeral ports here",
        )),
        Direct::NoTool => notes.push((
            "has no tool to test a connection with".to_owned(),
            String::new(),
            "the test needs bash and timeout, or python3, perl or nc there; a launch does not",
        )),
        Direct::NotTried | Direct::Works(_) => {}
    }
    if found.facts.shared {
        notes.push((
            "was reached over a shared connection, so its set-up was not measured".to_owned(),
            String::new(),
            "`ssh -O exit` closes the shared connection",
        ));
    }
    notes
}

/// Whether a clock certainly differs by more than [`CLOCK`].
pub(super) fn differs(clock: Clock) -> bool {
    amount(clock) > CLOCK + clock.within
}

/// The absolute difference.
pub(super) fn amount(clock: Clock) -> Duration {
    Duration::from_nanos(u64::try_from(clock.ahead_ns.unsigned_abs()).unwrap_or(u64::MAX))
}

/// Folds hosts given by their indices; a text longer than `most` characters is cut.
pub(super) fn folded(hosts: &HostList, places: &[usize], most: usize) -> String {
    let mut list = HostList::new();
    for host in places.iter().filter_map(|place| hosts.entry(*place)) {
        // It came from a list, so it can be pushed. The process count is irrelevant here.
        let _ = list.push(HostRef { count: 1, ..host });
    }
    let text = list.fold();
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let end = text[..end].rfind(',').unwrap_or(end);
            format!("{},… ({} hosts)", &text[..end], list.len())
        }
        None => text,
    }
}
