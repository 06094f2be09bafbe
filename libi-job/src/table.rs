//! The processes of a job.

use std::collections::BTreeMap;
use std::fmt;

use libi_core::dist::OsBytes;
use libi_core::ids::Rank;
use serde::{Deserialize, Serialize};

/// No job has more processes.
pub(crate) const MOST_PROCESSES: i32 = 10_000_000;

/// All processes of a job, by their ranks.
///
/// Names of hosts and of executables are kept once each, so that a table of 100,000 processes takes about a
/// megabyte.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProcessTable {
    hosts: Names<String>,
    executables: Names<OsBytes>,
    /// By rank. Those without a process ID are not known.
    entries: Vec<Entry>,
    known: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    host: u32,
    executable: u32,
    pid: i32,
}

/// A table, as it is sent.
#[derive(Serialize, Deserialize)]
pub(crate) struct Lists {
    pub(crate) hosts: Vec<String>,
    pub(crate) executables: Vec<OsBytes>,
    /// The rank, the numbers of the host and of the executable, and the process ID of each.
    pub(crate) processes: Vec<(u32, u32, u32, i32)>,
}

/// A process of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobProcess<'a> {
    /// Its rank in the job.
    pub rank: Rank,
    /// Its host, as the launcher of the job names it.
    pub host: &'a str,
    /// Its executable, as the launcher names it: perhaps without a directory.
    pub executable: &'a OsBytes,
    /// Its process ID there.
    pub pid: i32,
}

/// Names, each once, in the order in which they were first seen.
#[derive(Clone)]
struct Names<T> {
    all: Vec<T>,
    numbers: BTreeMap<T, u32>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: BTreeMap::new() }
    }
}

impl<T: PartialEq> PartialEq for Names<T> {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl<T: Eq> Eq for Names<T> {}

impl<T: Ord + Clone> Names<T> {
    fn number(&mut self, name: T) -> u32 {
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.all.push(name.clone());
            self.all.len() as u32 - 1
        })
    }
}

impl ProcessTable {
    /// Adds the process of the next rank.
    pub(crate) fn push(&mut self, host: String, executable: OsBytes, pid: i32) {
        self.insert(Rank(self.entries.len() as u32), host, executable, pid);
    }

    /// Adds the process of a rank that is not known yet; of more ranks than any job has, none.
    pub fn insert(&mut self, rank: Rank, host: String, executable: OsBytes, pid: i32) {
        let at = rank.0 as usize;
        if at >= MOST_PROCESSES as usize || pid <= 0 {
            return;
        }
        if self.entries.len() <= at {
            self.entries.resize(at + 1, Entry::default());
        }
        self.known += usize::from(self.entries[at].pid == 0);
        let (host, executable) = (self.hosts.number(host), self.executables.number(executable));
        self.entries[at] = Entry { host, executable, pid };
    }

    pub(crate) fn to_lists(&self) -> Lists {
        let known = (0..).zip(&self.entries).filter(|(_, entry)| entry.pid > 0);
        let processes = known.map(|(rank, entry)| (rank, entry.host, entry.executable, entry.pid)).collect();
        Lists { hosts: self.hosts.all.clone(), executables: self.executables.all.clone(), processes }
    }

    /// The table with these lists; `None` if they are of no table.
    pub(crate) fn from_lists(lists: &Lists) -> Option<Self> {
        let mut table = Self::default();
        for (rank, host, executable, pid) in &lists.processes {
            let (host, executable) =
                (lists.hosts.get(*host as usize)?, lists.executables.get(*executable as usize)?);
            table.insert(Rank(*rank), host.clone(), executable.clone(), *pid);
        }
        Some(table)
    }

    /// The number of processes that are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known == 0
    }

    /// The hosts, each once, in the order of their first ranks.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts.all
    }

    /// The process of a rank.
    #[must_use]
    pub fn get(&self, rank: Rank) -> Option<JobProcess<'_>> {
        let entry = self.entries.get(rank.0 as usize).filter(|entry| entry.pid > 0);
        let Entry { host, executable, pid } = *entry?;
        let host = self.hosts.all.get(host as usize)?;
        Some(JobProcess { rank, host, executable: self.executables.all.get(executable as usize)?, pid })
    }

    /// All processes, by their ranks.
    pub fn iter(&self) -> impl Iterator<Item = JobProcess<'_>> {
        (0..self.entries.len() as u32).filter_map(|rank| self.get(Rank(rank)))
    }

    /// The processes of a host.
    pub fn on_host<'a>(&'a self, host: &'a str) -> impl Iterator<Item = JobProcess<'a>> {
        self.iter().filter(move |process| process.host == host)
    }
}

impl fmt::Debug for ProcessTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> OsBytes {
        OsBytes::try_from(text).unwrap()
    }

    #[test]
    fn processes_are_found_by_rank_and_by_host() {
        let mut table = ProcessTable::default();
        for (host, program, pid) in [("n1", "solver", 10), ("n2", "solver", 10), ("n1", "monitor", 11)] {
            table.push(host.to_owned(), name(program), pid);
        }
        assert_eq!(
            (table.len(), table.is_empty(), table.hosts()),
            (3, false, &["n1", "n2"].map(str::to_owned)[..])
        );
        let third = JobProcess { rank: Rank(2), host: "n1", executable: &name("monitor"), pid: 11 };
        assert_eq!((table.get(Rank(2)), table.get(Rank(3))), (Some(third), None));
        assert_eq!(table.on_host("n1").map(|process| process.rank.0).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn ranks_may_be_unknown() {
        let mut table = ProcessTable::default();
        for rank in [5, 2, 5] {
            table.insert(Rank(rank), "n1".to_owned(), name("solver"), 10 + rank as i32);
        }
        assert_eq!(table.iter().map(|process| process.pid).collect::<Vec<_>>(), [12, 15]);
        assert_eq!((table.len(), table.get(Rank(3)), table.get(Rank(6))), (2, None, None));
        table.insert(Rank(u32::MAX), "n1".to_owned(), name("solver"), 1);
        assert_eq!(table.len(), 2, "no job has so many");
    }
}
