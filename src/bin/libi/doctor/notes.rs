//! What is to be said about hosts beside the table: problems, which keep a launch from working, and notes, which do not. Hosts
//! of which the same is to be said are named together.

use std::time::Duration;

use libi::hosts::{HostList, HostRef};
use libi::time::Rounded;

use super::DoctorReport;
use super::finding::{Clock, Direct, Finding, Noise, Problem};

/// The same said of some hosts.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// Said of them.
    pub(super) message: String,
    /// What of them says so.
    pub(super) evidence: String,
    /// What to do.
    pub(super) hint: Option<String>,
    /// Their places in the list.
    pub(super) hosts: Vec<usize>,
}

/// By how much a clock may differ before it is worth a word.
const CLOCK: Duration = Duration::from_millis(100);
/// How many open files a process may be content with.
const FILES: u64 = 512;
/// Shells that do not take every byte of a quoted word as it is.
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

/// What else is worth knowing of hosts that a launch would work on.
pub(super) fn notes(report: &DoctorReport<'_>) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for (host, found) in report.findings.iter().enumerate().filter(|(_, found)| found.is_fine()) {
        for (message, evidence, hint) in of(found) {
            match notes.iter_mut().find(|note| note.message == message && note.hint.as_deref() == Some(hint))
            {
                Some(note) => note.hosts.push(host),
                None => {
                    notes.push(Note { message, evidence, hint: Some(hint.to_owned()), hosts: vec![host] })
                }
            }
        }
    }
    notes
}

/// Words, evidence and hint of each.
fn of(found: &Finding) -> Vec<(String, String, &'static str)> {
    let mut notes = Vec::new();
    let Noise { bytes, line } = &found.noise;
    if *bytes > 0 {
        notes.push((
            "prints something before commands, which will be taken for output".to_owned(),
            line.clone(),
            "in its profile (~/.bashrc), print only if [ -t 0 ]",
        ));
    }
    if let Some(shell) = found.shell_name().filter(|shell| OTHER_SHELLS.contains(shell)) {
        notes.push((
            format!("logs in with {shell}, which changes some arguments"),
            String::new(),
            "keep to words without quotes, backslashes and exclamation marks, or chsh over there",
        ));
    }
    if let Some(clock) = found.clock.filter(|clock| differs(*clock)) {
        let direction = if clock.ahead_ns > 0 { "ahead of" } else { "behind" };
        notes.push((
            format!("has a clock that is {direction} ours"),
            format!("{} ± {}", Rounded(amount(clock)), Rounded(clock.within)),
            "timedatectl over there; a launch does not mind, Kerberos and make do",
        ));
    }
    if let Some(files) =
        found.files.as_deref().filter(|files| files.parse().is_ok_and(|files: u64| files < FILES))
    {
        notes.push((
            format!("lets a process open {files} files only"),
            String::new(),
            "ulimit -n over there; who launches many hosts needs three for each",
        ));
    }
    match &found.direct {
        Direct::Blocked => notes.push((
            "cannot connect to this host: its session goes on over the connection it is launched with"
                .to_owned(),
            String::new(),
            "let connections in to ports that are chosen by the system, if much is to be sent",
        )),
        Direct::NoTool => notes.push((
            "has nothing to try a connection with".to_owned(),
            String::new(),
            "that needs bash and timeout, or python3, perl or nc over there; a launch does not",
        )),
        Direct::NotTried | Direct::Works(_) => {}
    }
    if found.facts.shared {
        notes.push((
            "is reached over a connection that was there: its set-up was not measured".to_owned(),
            String::new(),
            "ssh -O exit ends that connection",
        ));
    }
    notes
}

/// Whether a clock is certainly off.
pub(super) fn differs(clock: Clock) -> bool {
    amount(clock) > CLOCK + clock.within
}

/// How far it is off, in either direction.
pub(super) fn amount(clock: Clock) -> Duration {
    Duration::from_nanos(u64::try_from(clock.ahead_ns.unsigned_abs()).unwrap_or(u64::MAX))
}

/// Hosts by their places in the list, folded; of what is longer than this the first.
pub(super) fn folded(hosts: &HostList, places: &[usize], most: usize) -> String {
    let mut list = HostList::new();
    for host in places.iter().filter_map(|place| hosts.entry(*place)) {
        // It was in a list before. How many processes it is for is nothing to do with it here.
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
