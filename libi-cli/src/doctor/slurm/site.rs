//! What the programs of Slurm say about themselves and, outside a job, about nodes.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use libi::hosts::HostList;
use libi::{OsBytes, Srun};
use libi_core::time::Instant;
use libi_launch::backend::{Channel, SpawnSpec};
use libi_launch::process::{ExitStatus, Signal};

use super::super::examiner::{Examiner, start_piped};
use super::super::probe::kept;
use super::follow::{Input, follow};
use super::step::NodeProblem;

/// How long the programs may take to answer. Without its configuration, `srun` tries for a minute.
const ANSWER: Duration = Duration::from_secs(10);

/// Slurm, as seen from here.
#[derive(Debug)]
pub(super) struct Site {
    /// The version, or why `srun` does not tell it.
    pub(super) version: Result<String, String>,
    /// Whether `srun` has the option `--overlap`. Without it, steps share resources always.
    pub(super) has_overlap: Option<bool>,
    /// The plugins for MPI and PMI.
    pub(super) mpi: Vec<String>,
    /// The states of nodes outside a job; `None` if they are not known.
    states: Option<BTreeMap<String, NodeState>>,
}

/// The state of a node, as `sinfo` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    Unknown,
    Known { state: String, reason: String },
}

impl Site {
    /// Asks the programs of Slurm.
    pub(super) fn ask(
        examiner: &mut Examiner,
        srun: &Srun,
        hosts: &HostList,
        until: Instant,
    ) -> io::Result<Self> {
        let until = until.min(examiner.now() + ANSWER);
        let version = ask(examiner, &srun.program, &["--version"], until)?;
        let version = version.map(|text| version_in(&text));
        let mut site = Self { version, has_overlap: None, mpi: Vec::new(), states: None };
        if site.version.is_err() {
            return Ok(site);
        }
        let help = ask(examiner, &srun.program, &["--help"], until)?;
        site.has_overlap = help.ok().map(|text| text.contains("--overlap"));
        let plugins = ask(examiner, &srun.program, &["--mpi=list"], until)?;
        site.mpi = plugins.map(|text| plugins_in(&text)).unwrap_or_default();
        if srun.job.is_none() {
            let names: Vec<_> = hosts.iter().map(|host| host.name).collect();
            let names = names.join(",");
            let words = ["-a", "-h", "-N", "-n", &names, "-o", "%N|%T|%E"];
            site.states =
                ask(examiner, &sinfo(&srun.program), &words, until)?.ok().map(|text| states_in(&text));
        }
        Ok(site)
    }

    /// The state of a node; `None` if it was not asked for.
    pub(super) fn state(&self, name: &str) -> Option<NodeState> {
        Some(self.states.as_ref()?.get(name).cloned().unwrap_or(NodeState::Unknown))
    }
}

impl NodeState {
    /// Why no job can have the node, with the evidence.
    pub(super) fn problem(&self) -> Option<(NodeProblem, String)> {
        match self {
            Self::Unknown => Some((NodeProblem::Unknown, String::new())),
            Self::Known { state, reason } => {
                let unusable = ["down", "drain", "fail", "inval", "unk", "perf", "future", "block"];
                let is_unusable = unusable.iter().any(|word| state.starts_with(word)) || state.ends_with('*');
                let reason = if reason == "none" { String::new() } else { reason.clone() };
                is_unusable.then(|| (NodeProblem::Unusable(state.clone()), reason))
            }
        }
    }
}

/// `sinfo` from where `srun` comes from.
fn sinfo(srun: &OsBytes) -> OsBytes {
    let path = srun.to_string();
    let directory = path.rfind('/').map_or("", |end| &path[..=end]);
    OsBytes::try_from(format!("{directory}sinfo").as_str()).unwrap_or_default()
}

/// What a program prints, or why it fails.
fn ask(
    examiner: &mut Examiner,
    program: &OsBytes,
    words: &[&str],
    until: Instant,
) -> io::Result<Result<String, String>> {
    let spec = SpawnSpec {
        program: program.clone(),
        args: words.iter().map(|word| OsBytes::try_from(*word).unwrap_or_default()).collect(),
        env: Vec::new(),
        cwd: None,
        channel: Channel::Streams,
        initial_input: Vec::new(),
        trailer: None,
        client: None,
    };
    let process = match start_piped(spec, Signal::KILL) {
        Ok(process) => process,
        Err(why) => return Ok(Err(why)),
    };
    let mut lines = Vec::new();
    let exit = follow(examiner, process, b"", None, until, |input| {
        if let Input::Line(line) = input {
            lines.push(line);
        }
    })?;
    Ok(match exit {
        Some(ExitStatus::Code(0)) => Ok(lines.join("\n")),
        None => Err(kept(lines.last().map_or("no answer before the timeout", String::as_str))),
        Some(_) => Err(kept(lines.last().map_or("it failed without a message", String::as_str))),
    })
}

/// `slurm-wlm 22.05.8`
fn version_in(text: &str) -> String {
    kept(text.split_whitespace().next_back().unwrap_or_default())
}

/// The plugins stand alone on lines after a heading; what follows names versions of one of them.
fn plugins_in(text: &str) -> Vec<String> {
    let words = text.lines().filter(|line| line.starts_with(char::is_whitespace)).map(str::trim);
    words.filter(|word| !word.is_empty() && !word.contains(' ')).map(kept).collect()
}

/// Lines as `n1|drained|disk full`. A node is listed once for each of its partitions.
fn states_in(text: &str) -> BTreeMap<String, NodeState> {
    let line = |line: &str| {
        let mut parts = line.splitn(3, '|').map(kept);
        let (name, state, reason) = (parts.next()?, parts.next()?, parts.next()?);
        Some((name, NodeState::Known { state, reason }))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_22_05_says_is_understood() {
        assert_eq!(version_in("slurm-wlm 22.05.8"), "22.05.8");
        let plugins = "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\n\
                       specific pmix plugin versions available: pmix_v4\n";
        assert_eq!(plugins_in(plugins), ["pmix", "none", "cray_shasta", "pmi2"]);
        let states = states_in("s0001|idle|none\ns0002|drained|disk | full\ns0001|idle|none\nnonsense\n");
        assert_eq!(states.len(), 2);
        let problem = |name: &str| states[name].problem();
        assert_eq!(problem("s0001"), None);
        let drained = NodeProblem::Unusable("drained".to_owned());
        assert_eq!(problem("s0002"), Some((drained, "disk | full".to_owned())));
    }

    #[test]
    fn a_node_that_does_not_answer_is_unusable_and_a_busy_one_is_not() {
        let problem =
            |state: &str| NodeState::Known { state: state.to_owned(), reason: String::new() }.problem();
        for state in ["down*", "idle*", "draining", "unknown", "failing"] {
            assert!(matches!(problem(state), Some((NodeProblem::Unusable(_), _))), "{state}");
        }
        for state in ["idle", "allocated", "mixed", "completing", "reserved", "idle~"] {
            assert_eq!(problem(state), None, "{state}");
        }
        assert_eq!(NodeState::Unknown.problem(), Some((NodeProblem::Unknown, String::new())));
    }

    #[test]
    fn sinfo_is_that_of_the_same_installation() {
        let of = |srun: &str| sinfo(&OsBytes::try_from(srun).unwrap()).to_string();
        assert_eq!(of("srun"), "sinfo");
        assert_eq!(of("/opt/slurm/bin/srun"), "/opt/slurm/bin/sinfo");
    }
}
