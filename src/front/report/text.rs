//! The text of a report for users, and the reason why a host failed as one line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use libi_core::hosts::{HostList, HostRef};
use libi_core::ids::{HostIndex, Rank};
use libi_core::time::Rounded;
use libi_launch::failure::{Failure, Phase};
use libi_launch::machine::Replacement;

use super::super::choice::BackendReason;
use super::super::wording::{self, FailureText, HintTopic, plain_cause};
use super::{FlatFallback, HostReport, LaunchReport};

/// The text for users: failures grouped by cause, with folded host names and quoted evidence,
/// followed by hints.
impl fmt::Display for LaunchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (launched, _) = self.launched_and_later();
        let (joined, all) = (launched.iter().filter(|host| host.failure.is_none()).count(), launched.len());
        if self.joined() == self.hosts.len() {
            let members: u32 = launched.iter().map(|host| host.members).sum();
            let (hosts, members) = (Counted(all, "host"), Counted(members as usize, "member"));
            write!(f, "{hosts} joined with {members} in {}", Rounded(self.took))?;
            self.write_later(f)?;
            return self.write_the_rest(f);
        }
        let verdict = if self.up { "up" } else { "given up" };
        write!(f, "{joined} of {all} hosts joined; {verdict} after {}", Rounded(self.took))?;
        self.write_later(f)?;
        let mut groups: BTreeMap<FailureText, Group> = BTreeMap::new();
        for (host, failure) in self.failed() {
            groups.entry(self.host_text(host, failure)).or_default().add(host, failure);
        }
        for (text, group) in &groups {
            write!(f, "\n  {}  ", FoldedHosts(&group.hosts))?;
            group.write(text, f)?;
        }
        self.write_the_rest(f)?;
        let mut advised = BTreeMap::new();
        for (text, group) in &groups {
            if let Some(topic) = &text.hint {
                group.hosts.iter().for_each(|host| {
                    // It was in a list before.
                    let _ = advised.entry(topic).or_insert_with(HostList::new).push(host);
                });
            }
        }
        for (topic, hosts) in &advised {
            let one = hosts.entry(0).map(|host| host.name).unwrap_or_default();
            let all = Some(hosts.fold()).filter(|all| all.len() <= FoldedHosts::MOST);
            let all = all.as_deref().unwrap_or(one);
            write!(f, "\nhint: {}", wording::advice(topic, &self.backend, all, one))?;
        }
        if let Some(HostReport { name, .. }) = self.host_to_replace() {
            write!(
                f,
                "\nhint: no session comes up without {name}, which has the master: put another host \
                 first, or name spare hosts"
            )?;
        }
        Ok(())
    }
}

/// Hosts that have failed for the same reason.
#[derive(Default)]
struct Group {
    hosts: HostList,
    longest: Duration,
    evidence: String,
    members: Vec<Rank>,
}

impl Group {
    fn add(&mut self, host: &HostReport, failure: &Failure) {
        // It was in a list before.
        let _ = self.hosts.push(HostRef::new(&host.name));
        self.add_evidence(failure);
    }

    fn add_evidence(&mut self, failure: &Failure) {
        self.longest = self.longest.max(failure.elapsed);
        if self.evidence.is_empty() {
            self.evidence = printable(failure.evidence());
        }
        self.members.extend(failure.member);
    }

    /// Writes the reason, as one line without the hosts.
    fn write(&self, text: &FailureText, f: &mut impl fmt::Write) -> fmt::Result {
        let (cause, after) = (&text.cause, Rounded(self.longest));
        if text.is_consequence {
            return f.write_str(cause);
        }
        let Some(known_by) = &text.known_by else {
            write!(f, "{cause}, after {after}")?;
            write_ranks(&self.members, f)?;
            return if self.evidence.is_empty() { Ok(()) } else { write!(f, ": {}", self.evidence) };
        };
        write!(f, "{cause} ({known_by} after {after}")?;
        if !self.evidence.is_empty() {
            write!(f, ": \"{}\"", self.evidence)?;
        }
        f.write_str(")")?;
        write_ranks(&self.members, f)
    }
}

impl LaunchReport {
    /// Hosts by which the session has grown, or was to, which the time is not of.
    fn write_later(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, later) = self.launched_and_later();
        let came = later.iter().filter(|host| host.failure.is_none()).count();
        if later.is_empty() {
            Ok(())
        } else {
            write!(f, "; {came} of {} came later", Counted(later.len(), "host"))
        }
    }

    fn text(&self, failure: &Failure) -> FailureText {
        FailureText::of(failure, wording::shell(&self.backend).as_deref(), |launcher| {
            match self.hosts.get(launcher.0 as usize) {
                Some(HostReport { name, failure: Some(failure), .. }) => {
                    format!("{name}, which {}", plain_cause(failure, |other| other.to_string()))
                }
                Some(HostReport { name, .. }) => name.clone(),
                None => launcher.to_string(),
            }
        })
    }

    pub(super) fn host_text(&self, host: &HostReport, failure: &Failure) -> FailureText {
        FailureText::of_consequence(failure, host.attempts, |host| self.name(host))
            .unwrap_or_else(|| self.text(failure))
    }

    fn name(&self, host: HostIndex) -> String {
        self.hosts.get(host.0 as usize).map_or(String::new(), |host| host.name.clone())
    }

    /// Why a host of this report has not joined, or was replaced, as one line: the cause with the
    /// names of other hosts, the exit status, the elapsed time and the evidence.
    #[must_use]
    pub fn reason(&self, failure: &Failure) -> String {
        let attempts = u32::from(failure.phase != Phase::Waiting);
        let text = FailureText::of_consequence(failure, attempts, |host| self.name(host))
            .unwrap_or_else(|| self.text(failure));
        let mut group = Group::default();
        group.add_evidence(failure);
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = group.write(&text, &mut line);
        line
    }

    /// The host of the master, if its failure ended a launch of several hosts and another first
    /// host may do better: not if the program itself has failed.
    fn host_to_replace(&self) -> Option<&HostReport> {
        let host = self.failed_master_host()?;
        let text = self.text(host.failure.as_ref()?);
        let of_program = text.known_by.is_none() && host.failure.as_ref()?.phase == Phase::Starting;
        (!of_program || text.hint == Some(HintTopic::Hangs)).then_some(host)
    }

    /// The queue, the chosen back-end, replacements, the flat fallback, and links that fell back.
    fn write_the_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.queued.is_zero() {
            write!(f, "\n  before that, the launch waited {} for resources", Rounded(self.queued))?;
        }
        if let BackendReason::SlurmJob(_) | BackendReason::Variable = self.reason {
            write!(f, "\n  hosts are reached by {}, {}", self.backend, self.reason)?;
        }
        for Replacement { name, by, failure, .. } in &self.replaced {
            write!(f, "\n  {by}  replaces {name}{}", self.text(failure).replaced_suffix())?;
        }
        if let Some(FlatFallback { host, failure }) = &self.flat {
            let why = match failure.evidence() {
                "" => self.text(failure).cause,
                said => format!("\"{}\"", printable(said)),
            };
            if failure.is_out_of_resources() {
                write!(
                    f,
                    "\n  {host} had no resources for more launches ({why}); the front end launched the rest"
                )?;
            } else {
                write!(f, "\n  hosts cannot launch each other ({host}: {why}); the front end launched all")?;
            }
        }
        let declined: BTreeSet<&str> =
            self.hosts.iter().filter_map(|host| host.declined.as_deref()).collect();
        for why in declined {
            let hosts = list(self.hosts.iter().filter(|host| host.declined.as_deref() == Some(why)));
            write!(f, "\n  {}  reached by a process of ssh: {}", FoldedHosts(&hosts), printable(why))?;
        }
        let in_program = list(self.hosts.iter().filter(|host| host.in_program));
        if !in_program.is_empty() {
            write!(
                f,
                "\n  {}  led by the program itself, which was running when it loaded libi: other members \
                 depend on it",
                FoldedHosts(&in_program)
            )?;
        }
        let hosts = list(self.fell_back());
        if hosts.is_empty() {
            return Ok(());
        }
        write!(
            f,
            "\n  {}  cannot connect directly; the channel of its launch is used instead",
            FoldedHosts(&hosts)
        )
    }
}

fn list<'a>(hosts: impl Iterator<Item = &'a HostReport>) -> HostList {
    let mut list = HostList::new();
    for host in hosts {
        // It was in a list before.
        let _ = list.push(HostRef::new(&host.name));
    }
    list
}

/// The ranks of members that failed, where those are not the leaders; of many only the first few.
fn write_ranks(members: &[Rank], f: &mut impl fmt::Write) -> fmt::Result {
    const MOST: usize = 4;
    for (place, rank) in members.iter().take(MOST).enumerate() {
        let before = match (place, members.len()) {
            (0, 1) => " (rank ",
            (0, _) => " (ranks ",
            _ => ", ",
        };
        write!(f, "{before}{}", rank.0)?;
    }
    match members.len() {
        0 => Ok(()),
        count if count > MOST => f.write_str(", …)"),
        _ => f.write_str(")"),
    }
}

/// Folded host names; of a long list only the beginning.
struct FoldedHosts<'a>(&'a HostList);

impl FoldedHosts<'_> {
    const MOST: usize = 100;
}

impl fmt::Display for FoldedHosts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.fold();
        match text.char_indices().nth(Self::MOST) {
            Some((end, _)) => {
                let end = text[..end].rfind(',').unwrap_or(end);
                write!(f, "{},… ({} hosts)", &text[..end], self.0.len())
            }
            None => f.write_str(&text),
        }
    }
}

struct Counted(usize, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

/// The line with control characters replaced.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
