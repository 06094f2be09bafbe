//! The process table that launchers keep for debuggers (MPIR), in their memory.
//!
//! A launcher has an array of entries, and how many they are: each has the addresses of a host's name and of an
//! executable's, and a process ID. The launcher goes on while they are read, so one reading may be of two
//! times:
//!
//! | a reading | the reading before | next |
//! |---|---|---|
//! | a whole table | the same table | it is the table |
//! | a whole table | any other | read again |
//! | a [flaw](Flaw), before the deadline | any | read again: it may be half-written |
//! | a flaw, or a table that changes each time, at the deadline | any | refused, for that reason |

use std::collections::BTreeMap;

use libi_core::dist::OsBytes;
use nix::errno::Errno;

use crate::memory::Memory;
use crate::table::{MOST_PROCESSES, ProcessTable};

/// The size of an entry, and how many are read at once.
const ENTRY: usize = 24;
const AT_ONCE: usize = 4096;
/// The longest name of a host or an executable.
const LONGEST_NAME: usize = 4096;
/// Names are read in pages of this size, each once as long as no more than so many have been read.
const PAGE: u64 = 4096;
const MOST_PAGES: usize = 16_384;

/// Where a launcher has what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// `MPIR_proctable`, the address of the array.
    pub(crate) table: u64,
    /// `MPIR_proctable_size`.
    pub(crate) size: u64,
}

/// What is wrong with a table that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It has no processes.
    #[error("it has no processes: perhaps none is started yet")]
    Empty,
    /// It has another number of processes than a job can have.
    #[error("it has {0} processes, which no job has")]
    NoSize(i32),
    /// An address in it leads to no memory of the launcher.
    #[error("entry {0} leads to no memory of the launcher")]
    NoMemory(u32),
    /// The table itself is not there.
    #[error("the table is not in the launcher's memory")]
    NoTable,
    /// A process ID is none.
    #[error("entry {0} has process ID {1}, which no process has")]
    NoPid(u32, i32),
    /// The name of a host or executable is missing, is too long or is not text.
    #[error("entry {0} has no name of a host and of an executable")]
    NoName(u32),
    /// Not all processes of the job that were started by the launcher's daemons are there.
    #[error("not all of its processes are there: perhaps some are being started")]
    Incomplete,
    /// The launcher's children do not name all hosts of the job.
    #[error("not all hosts of the job are known: some are started by others than the launcher, or not yet")]
    UnknownHosts,
    /// It was another one at each reading.
    #[error("it is another one each time it is read")]
    Changes,
}

/// Reads the table once.
///
/// # Errors
/// Memory that the process may not be asked for. Addresses that lead nowhere are a flaw.
pub(crate) fn read(memory: &impl Memory, at: Place) -> Result<Result<ProcessTable, Flaw>, Errno> {
    let size = memory.int(at.size)?;
    if size == 0 {
        return Ok(Err(Flaw::Empty));
    }
    if !(1..=MOST_PROCESSES).contains(&size) {
        return Ok(Err(Flaw::NoSize(size)));
    }
    let first = memory.pointer(at.table)?;
    let mut reading = Reading { memory, pages: BTreeMap::new(), table: ProcessTable::default() };
    match reading.entries(first, size as u32) {
        Ok(()) => Ok(Ok(reading.table)),
        Err(Stop::Flaw(flaw)) => Ok(Err(flaw)),
        Err(Stop::Errno(errno)) => Err(errno),
    }
}

enum Stop {
    Flaw(Flaw),
    Errno(Errno),
}

struct Reading<'a, M> {
    memory: &'a M,
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    table: ProcessTable,
}

impl<M: Memory> Reading<'_, M> {
    fn entries(&mut self, first: u64, count: u32) -> Result<(), Stop> {
        let mut chunk = vec![0; ENTRY * AT_ONCE];
        let mut rank = 0;
        while rank < count {
            let part = &mut chunk[..ENTRY * (count - rank).min(AT_ONCE as u32) as usize];
            let address = first.checked_add(u64::from(rank) * ENTRY as u64);
            let address = address.ok_or(Stop::Flaw(Flaw::NoTable))?;
            self.memory.read(address, part).map_err(|errno| stop(errno, Flaw::NoTable))?;
            for entry in part.chunks_exact(ENTRY) {
                let pointer =
                    |at: usize| u64::from_ne_bytes(entry[at..at + 8].try_into().unwrap_or_default());
                let pid = i32::from_ne_bytes(entry[16..20].try_into().unwrap_or_default());
                let (host, executable) = (self.name(pointer(0), rank)?, self.name(pointer(8), rank)?);
                if pid <= 0 {
                    return Err(Stop::Flaw(Flaw::NoPid(rank, pid)));
                }
                let host = String::from_utf8(host).ok().filter(|host| !host.is_empty());
                let executable = OsBytes::new(executable).ok();
                let Some((host, executable)) = host.zip(executable) else {
                    return Err(Stop::Flaw(Flaw::NoName(rank)));
                };
                self.table.push(host, executable, pid);
                rank += 1;
            }
        }
        Ok(())
    }

    /// The text at an address, up to its end.
    fn name(&mut self, address: u64, rank: u32) -> Result<Vec<u8>, Stop> {
        let (mut name, mut at) = (Vec::new(), address);
        while name.len() < LONGEST_NAME {
            let page = self.page(at & !(PAGE - 1), rank)?;
            let rest = &page[(at % PAGE) as usize..];
            if let Some(end) = rest.iter().position(|byte| *byte == 0) {
                name.extend_from_slice(&rest[..end]);
                return Ok(name);
            }
            name.extend_from_slice(rest);
            at = (at | (PAGE - 1)).checked_add(1).ok_or(Stop::Flaw(Flaw::NoMemory(rank)))?;
        }
        Err(Stop::Flaw(Flaw::NoName(rank)))
    }

    fn page(&mut self, address: u64, rank: u32) -> Result<&[u8; PAGE as usize], Stop> {
        if !self.pages.contains_key(&address) {
            let mut page = Box::new([0; PAGE as usize]);
            self.memory.read(address, &mut page[..]).map_err(|errno| stop(errno, Flaw::NoMemory(rank)))?;
            if self.pages.len() >= MOST_PAGES {
                self.pages.clear();
            }
            self.pages.insert(address, page);
        }
        Ok(&self.pages[&address])
    }
}

/// Memory that is not there is a flaw of the table; anything else is no matter of the table.
fn stop(errno: Errno, flaw: Flaw) -> Stop {
    if errno == Errno::EFAULT { Stop::Flaw(flaw) } else { Stop::Errno(errno) }
}

/// Readings of a table that its launcher may be writing; see the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Readings {
    last: Option<Result<ProcessTable, Flaw>>,
}

/// What follows from a reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Known(ProcessTable),
    Again,
}

impl Readings {
    pub(crate) fn take(&mut self, reading: Result<ProcessTable, Flaw>) -> Next {
        match (reading, self.last.take()) {
            (Ok(table), Some(Ok(last))) if table == last => Next::Known(table),
            (reading, _) => {
                self.last = Some(reading);
                Next::Again
            }
        }
    }

    /// Why the table is refused at the deadline.
    pub(crate) fn flaw(&self) -> Flaw {
        match &self.last {
            Some(Err(flaw)) => *flaw,
            _ => Flaw::Changes,
        }
    }
}

#[cfg(test)]
mod tests;
