//! Processes of a job that are found on their hosts, where the launcher has no table of them.
//!
//! Launchers start a daemon on each host, which starts the ranks there, and says in the environment of each
//! which one it is. The launcher's own children say which hosts there are: its daemon here, and a remote shell
//! for each other host, which names the host and the daemon.
//!
//! ```text
//!   mpiexec.hydra ---- hydra_pmi_proxy ... --control-port H:P ... --proxy-id 0 ---- ranks: PMI_RANK
//!             \------- ssh n1 hydra_pmi_proxy ... --control-port H:P ... --proxy-id 1
//!   mpirun ----------- ranks: OMPI_COMM_WORLD_RANK
//!             \------- ssh n1 orted ... ess_base_jobid J ... ess_base_vpid 1
//!   prterun ---------- the same, with prted and ess_base_nspace
//! ```
//!
//! On a host the ranks are the children of the daemon that has the same words. They are all there when
//! they are as many as each says of its host, or more, and the same twice.
//!
//! A front end of libi [notes](crate::session) its hosts, and the leader of each host its members.

use std::collections::BTreeMap;

use libi_core::dist::OsBytes;
use libi_core::ids::{HostIndex, Rank, SessionId};
use libi_core::join::SessionKey;
use serde::{Deserialize, Serialize};

use crate::gate;
use crate::kind::LauncherKind;
use crate::mpir::Flaw;
use crate::process::{self, ProcessId};
use crate::session::{self, Here, Host, Hosts};
use crate::table::ProcessTable;

/// How a launcher that has no table starts its ranks.
struct Traits {
    daemon: &'static str,
    /// The options of a daemon that no other one of this machine has the same of: of the job, and of the
    /// host.
    options: [&'static str; 2],
    rank: &'static str,
    /// How many ranks there are on a host, and in the job.
    on_host: &'static str,
    in_job: &'static str,
}

const HYDRA: Traits = Traits {
    daemon: "hydra_pmi_proxy",
    options: ["--control-port", "--proxy-id"],
    rank: "PMI_RANK",
    on_host: "MPI_LOCALNRANKS",
    in_job: "PMI_SIZE",
};

const OPEN_MPI: Traits = Traits {
    daemon: "orted",
    options: ["ess_base_jobid", "ess_base_vpid"],
    rank: "OMPI_COMM_WORLD_RANK",
    on_host: "OMPI_COMM_WORLD_LOCAL_SIZE",
    in_job: "OMPI_COMM_WORLD_SIZE",
};

const PRRTE: Traits = Traits { daemon: "prted", options: ["ess_base_nspace", "ess_base_vpid"], ..OPEN_MPI };

/// How the processes of a job are found on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find(How);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum How {
    /// As children of a process.
    Children { daemons: Daemons, parent: Parent },
    /// By what the leader of this host of a session says.
    Members { session: SessionKey, host: HostIndex, is_here: bool },
}

/// Whose daemons start the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Daemons {
    Hydra,
    /// Of Open MPI 4.
    OpenMpi,
    /// Of Open MPI 5, which has no table.
    Prrte,
}

impl Daemons {
    const fn traits(self) -> &'static Traits {
        match self {
            Self::Hydra => &HYDRA,
            Self::OpenMpi => &OPEN_MPI,
            Self::Prrte => &PRRTE,
        }
    }

    /// Of a launcher that has no table.
    pub(crate) fn of(launcher: &ProcessId) -> Option<Self> {
        if launcher.executable().as_bytes().rsplit(|byte| *byte == b'/').next() == Some(b"prterun") {
            return Some(Self::Prrte);
        }
        is_hydra(launcher).then_some(Self::Hydra)
    }
}

/// What says which hosts a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Children(Daemons),
    /// The front end of this session.
    Libi(SessionId),
}

impl Source {
    pub(crate) const fn kind(self) -> LauncherKind {
        match self {
            Self::Children(Daemons::Hydra) => LauncherKind::Hydra,
            Self::Children(Daemons::OpenMpi | Daemons::Prrte) => LauncherKind::OpenMpi,
            Self::Libi(_) => LauncherKind::Libi,
        }
    }
}

/// Which process has started the ranks of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Parent {
    /// It is on the launcher's machine, and has this number.
    Pid(i32),
    /// It has these values of its two options.
    Options([String; 2]),
}

/// A host of a job, as the launcher names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundHost {
    pub(crate) name: String,
    pub(crate) find: Find,
}

/// What was found on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The ranks, their process IDs and executables.
    pub processes: BTreeMap<Rank, (i32, OsBytes)>,
    /// How many ranks there are on this host.
    pub on_host: Option<u32>,
    /// How many there are in the job.
    pub in_job: Option<u32>,
}

impl Found {
    /// Whether as many processes are there as each says of its host. With Open MPI 5 that may be less than there
    /// are: all are there when the same are found twice.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.on_host.is_some_and(|on_host| self.processes.len() as u64 >= u64::from(on_host))
    }
}

impl Find {
    const fn children(daemons: Daemons, parent: Parent) -> Self {
        Self(How::Children { daemons, parent })
    }

    /// Whether the processes can be found on the launcher's machine.
    pub(crate) const fn is_here(&self) -> bool {
        matches!(self.0, How::Children { parent: Parent::Pid(_), .. } | How::Members { is_here: true, .. })
    }

    /// The processes that are on this machine now.
    #[must_use]
    pub fn on_this_machine(&self) -> Found {
        self.among(&mut None)
    }

    /// As [`on_this_machine`](Self::on_this_machine). What leaders have noted is looked for once.
    fn among(&self, here: &mut Option<Here>) -> Found {
        match &self.0 {
            How::Children { daemons, parent } => Found::children_of(parent, daemons.traits()),
            How::Members { session, host, .. } => {
                Found::members_of(here.get_or_insert_with(Here::now).members(*session, *host))
            }
        }
    }
}

impl Found {
    fn children_of(parent: &Parent, traits: &Traits) -> Self {
        let all = process::all();
        let has = |pid: i32, values: &[String; 2]| {
            let words = process::words(pid);
            words.first().is_some_and(|word| is_daemon(word, traits))
                && options(&words, traits).as_ref() == Some(values)
        };
        let mut found = Found::default();
        let parents: Vec<i32> = match parent {
            Parent::Pid(pid) => vec![*pid],
            Parent::Options(values) => {
                all.iter().map(|(pid, _)| *pid).filter(|pid| has(*pid, values)).collect()
            }
        };
        for (pid, _) in all.iter().filter(|(_, parent)| parents.contains(parent)) {
            let environment = process::environment(*pid);
            let number = |name: &str| environment.get(name.as_bytes())?.parse::<u32>().ok();
            // A child of the daemon that has not become a rank yet has its environment.
            let Some(rank) = number(traits.rank) else { continue };
            let Some(process) = ProcessId::of(*pid) else { continue };
            found.on_host = found.on_host.or_else(|| number(traits.on_host));
            found.in_job = found.in_job.or_else(|| number(traits.in_job));
            let executable = gate::program(*pid).unwrap_or_else(|| process.executable());
            found.processes.insert(Rank(rank), (*pid, executable));
        }
        found
    }

    /// The members of a host of a session, and how many there are.
    fn members_of((members, on_host): (&[(Rank, i32)], Option<u32>)) -> Self {
        let process = |(rank, pid): &(Rank, i32)| Some((*rank, (*pid, ProcessId::of(*pid)?.executable())));
        Self { processes: members.iter().filter_map(process).collect(), on_host, in_job: None }
    }
}

/// The hosts of a job, as its launcher's children name them, in the order of its daemons; `None` if not all
/// are there, or some are started by others. A launcher that has none is no such launcher.
pub(crate) fn hosts(launcher: &ProcessId, source: Source) -> Option<Vec<FoundHost>> {
    let daemons = match source {
        Source::Children(daemons) => daemons,
        Source::Libi(session) => return hosts_of_session(launcher, session),
    };
    let traits = daemons.traits();
    let all = process::all();
    let children = || all.iter().filter(|(_, parent)| *parent == launcher.pid).map(|(pid, _)| *pid);
    let own_name = || nix::unistd::gethostname().ok()?.into_string().ok();
    let mut hosts: BTreeMap<u32, FoundHost> = BTreeMap::new();
    let mut awaited = None;
    for child in children() {
        let words = process::words(child);
        let Some(at) = words.iter().position(|word| is_daemon(word, traits)) else { continue };
        let [job, number] = options(&words, traits)?;
        let (name, parent) = match at.checked_sub(1).and_then(|before| words.get(before)) {
            None => (own_name()?, Parent::Pid(child)),
            Some(word) if at > 1 && !word.starts_with('-') => {
                (word.clone(), Parent::Options([job, number.clone()]))
            }
            Some(_) => return None,
        };
        awaited = awaited.or_else(|| value(&words, "ess_base_num_procs")?.parse::<u32>().ok());
        hosts.insert(number.parse().ok()?, FoundHost { name, find: Find::children(daemons, parent) });
    }
    if daemons == Daemons::Hydra {
        // They are numbered from 0.
        let are_all = hosts.keys().copied().eq(0..hosts.len() as u32);
        return Some(hosts.into_values().collect()).filter(|hosts: &Vec<_>| are_all && !hosts.is_empty());
    }
    // The launcher counts as a daemon, and starts those of its own host.
    if awaited.is_some_and(|awaited| hosts.len() as u32 + 1 != awaited) {
        return None;
    }
    let has_rank = |pid: i32| process::environment(pid).contains_key(traits.rank.as_bytes());
    if children().any(has_rank) {
        let find = Find::children(daemons, Parent::Pid(launcher.pid));
        hosts.insert(0, FoundHost { name: own_name()?, find });
    }
    Some(hosts.into_values().collect()).filter(|hosts: &Vec<_>| !hosts.is_empty())
}

/// The hosts of a session that its front end has noted.
fn hosts_of_session(front_end: &ProcessId, session: SessionId) -> Option<Vec<FoundHost>> {
    let hosts = session::notes_of::<Hosts>(front_end.pid);
    let Hosts { key, hosts, .. } = hosts.into_iter().find(|hosts| hosts.session == session)?;
    let host = |host: Host| {
        let how = How::Members { session: key, host: host.index, is_here: host.is_here };
        FoundHost { name: host.name, find: Find(how) }
    };
    Some(hosts.into_iter().map(host).collect())
}

/// The hosts of a job, and the processes that are on this machine.
pub(crate) type Reading = (Vec<FoundHost>, ProcessTable);

/// Reads the hosts of a job, and the processes that are on this machine, of which none may be missing.
pub(crate) fn read(launcher: &ProcessId, source: Source) -> Result<Reading, Flaw> {
    let hosts = hosts(launcher, source).ok_or(Flaw::UnknownHosts)?;
    let (mut table, mut in_job, mut here) = (ProcessTable::default(), None, None);
    for FoundHost { name, find } in hosts.iter().filter(|host| host.find.is_here()) {
        let found = find.among(&mut here);
        if !found.is_whole() {
            return Err(if found.processes.is_empty() { Flaw::Empty } else { Flaw::Incomplete });
        }
        in_job = in_job.or(found.in_job);
        for (rank, (pid, executable)) in found.processes {
            table.insert(rank, name.clone(), executable, pid);
        }
    }
    let are_all_here = hosts.iter().all(|host| host.find.is_here());
    if are_all_here && table.is_empty() {
        return Err(Flaw::Empty);
    }
    let are_too_few = in_job.is_some_and(|in_job| (table.len() as u64) < u64::from(in_job));
    if are_all_here && are_too_few { Err(Flaw::Incomplete) } else { Ok((hosts, table)) }
}

/// Whether a process has started daemons of Hydra.
fn is_hydra(launcher: &ProcessId) -> bool {
    let children = process::all().into_iter().filter(|(_, parent)| *parent == launcher.pid);
    children.into_iter().any(|(pid, _)| process::words(pid).iter().any(|word| is_daemon(word, &HYDRA)))
}

/// Whether a word names the program of the daemon; in words for a remote shell it may be in quotes, and
/// behind other commands.
fn is_daemon(word: &str, traits: &Traits) -> bool {
    let last = word.trim_matches(['"', '\'', ' ']).rsplit([' ', ';']).next().unwrap_or_default();
    last.rsplit('/').next() == Some(traits.daemon)
}

fn options(words: &[String], traits: &Traits) -> Option<[String; 2]> {
    let [job, host] = traits.options.map(|option| value(words, option));
    Some([job?, host?])
}

/// The word behind an option, without the quotes for a remote shell.
fn value(words: &[String], option: &str) -> Option<String> {
    let at = words.iter().position(|word| word == option)?;
    Some(words.get(at + 1)?.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_are_known_by_their_words_also_behind_a_remote_shell() {
        let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        let hydra = words(r#"ssh|-x|n3|"/usr/bin/hydra_pmi_proxy"|--control-port|vm:33485|--proxy-id|2"#);
        assert_eq!(hydra.iter().position(|word| is_daemon(word, &HYDRA)), Some(3));
        assert_eq!(options(&hydra, &HYDRA), Some(["vm:33485".to_owned(), "2".to_owned()]));
        let orted = words(
            r#"ssh|n1|PATH=/opt/bin:$PATH ; export PATH ; /opt/bin/orted|-mca|ess_base_jobid|"15"|-mca|ess_base_vpid|1"#,
        );
        assert_eq!(orted.iter().position(|word| is_daemon(word, &OPEN_MPI)), Some(2));
        assert_eq!(options(&orted, &OPEN_MPI), Some(["15".to_owned(), "1".to_owned()]));
        let prted = words(
            r#"ssh|n2|A=/opt;export A;/opt/bin/prted|--prtemca|ess_base_nspace|"prterun-vm-7@0"|--prtemca|ess_base_vpid|2"#,
        );
        assert_eq!(prted.iter().position(|word| is_daemon(word, &PRRTE)), Some(2));
        assert_eq!(options(&prted, &PRRTE), Some(["prterun-vm-7@0".to_owned(), "2".to_owned()]));
        for other in ["", "orted2", "/usr/bin/orted/x", "distorted", "hydra_pmi_proxy"] {
            assert!(!is_daemon(other, &OPEN_MPI), "{other}");
        }
        assert_eq!(options(&words("orted|ess_base_jobid"), &OPEN_MPI), None);
    }
}
