//! The variables of a launcher that debuggers and libi read.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use libi_core::dist::OsBytes;
use nix::errno::Errno;
use nix::fcntl::OFlag;

use crate::elf::{self, ElfError, Symbol};
use crate::error::AttachError;
use crate::kind::LauncherKind;
use crate::memory::{Memory, ProcessMemory};
use crate::mpir::Place;
use crate::process::ProcessId;

/// The variables of a launcher: the table and its size, and then what only some have.
const VARIABLES: [&str; 6] = [
    "MPIR_proctable",
    "MPIR_proctable_size",
    "MPIR_being_debugged",
    "MPIR_attach_fifo",
    "totalview_jobid",
    "totalview_stepid",
];
/// The longest number of a job.
const LONGEST_NUMBER: usize = 64;
/// The longest path of a named pipe.
const LONGEST_PATH: usize = 4096;
/// What asks a launcher of Open MPI to fill its table.
const ATTACH: [u8; 1] = [1];

/// Where the variables of a launcher are in its memory.
pub(crate) struct Variables {
    pub(crate) place: Place,
    being_debugged: Option<u64>,
    fifo: Option<Symbol>,
    /// The addresses of texts: the numbers of the Slurm job and of its step.
    job: Option<u64>,
    step: Option<u64>,
}

impl Variables {
    pub(crate) fn of(launcher: &ProcessId) -> Result<Self, AttachError> {
        let pid = launcher.pid;
        let refused = |error: io::Error, what| launcher.refusal(errno(&error), what);
        let objects = launcher.objects().map_err(|error| refused(error, "the list of mapped files"))?;
        let executable = launcher.executable();
        let (mut has_symbols, mut is_stripped, mut first_failure) = (false, false, None);
        for object in &objects {
            let found = match launcher.open(object) {
                Ok(file) => elf::find(&file, VARIABLES),
                Err(error) => Err(error.into()),
            };
            let found = match found {
                Ok(found) => found,
                // Programs map all kinds of files.
                Err(error) => {
                    first_failure.get_or_insert(error);
                    continue;
                }
            };
            has_symbols |= found.has_symbols;
            is_stripped |= found.is_stripped && object.path.as_bytes() == executable.as_bytes();
            let bias = found.bias(object.start);
            let at = |symbol: Symbol| Symbol { address: symbol.address.wrapping_add(bias), ..symbol };
            if let [Some(table), Some(size), being_debugged, fifo, job, step] =
                found.symbols.map(|symbol| symbol.map(at))
            {
                let place = Place { table: table.address, size: size.address };
                let [being_debugged, job, step] =
                    [being_debugged, job, step].map(|symbol| symbol.map(|symbol| symbol.address));
                return Ok(Self { place, being_debugged, fifo, job, step });
            }
        }
        let libraries = objects.len().saturating_sub(1);
        Err(match first_failure {
            _ if has_symbols => {
                AttachError::NoLauncher { pid, executable, libraries, is_stripped, above: None }
            }
            Some(ElfError::Unreadable(error)) => refused(error, "a mapped file"),
            Some(ElfError::Foreign) => AttachError::Foreign { pid, executable },
            _ if !launcher.lives() => AttachError::Ended { pid, executable },
            _ => AttachError::Stripped { pid, executable },
        })
    }

    pub(crate) fn kind(&self, executable: &OsBytes) -> LauncherKind {
        let name = executable.as_bytes().rsplit(|byte| *byte == b'/').next();
        match name {
            _ if self.fifo.is_some() => LauncherKind::OpenMpi,
            Some(b"srun") => LauncherKind::Srun,
            _ => LauncherKind::Other,
        }
    }

    /// The number of its Slurm job.
    pub(crate) fn slurm_job(&self, memory: &impl Memory) -> Option<String> {
        number(memory, self.job?)
    }

    /// The number of its step in that.
    pub(crate) fn slurm_step(&self, memory: &impl Memory) -> Option<String> {
        number(memory, self.step?)
    }

    /// Asks a launcher that has a named pipe for that to fill its table. Whether it has one.
    pub(crate) fn ask(&self, launcher: &ProcessId, memory: &ProcessMemory) -> Result<bool, AttachError> {
        let (Some(flag), Some(fifo)) = (self.being_debugged, self.fifo) else { return Ok(false) };
        let mut path = vec![0; (fifo.size as usize).min(LONGEST_PATH)];
        memory.read(fifo.address, &mut path).map_err(|errno| launcher.refusal(errno, "the named pipe"))?;
        let length = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
        let path = String::from_utf8_lossy(&path[..length]).into_owned();
        if path.is_empty() {
            return Ok(false); // it is not ready to be asked
        }
        let asked = memory.write_int(flag, 1).and_then(|()| {
            // Without a reader this fails at once.
            let flags = (OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
            let seen = format!("/proc/{}/root{path}", launcher.pid);
            let mut fifo = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(seen)?;
            fifo.write_all(&ATTACH)
        });
        let (pid, executable) = (launcher.pid, launcher.executable());
        asked.map(|()| true).map_err(|why| AttachError::NotAsked { pid, executable, fifo: path, why })
    }
}

/// A number that a launcher has as a text; none as long as there is no text yet.
fn number(memory: &impl Memory, address: u64) -> Option<String> {
    let mut at = memory.pointer(address).ok()?;
    let mut number = String::new();
    while number.len() < LONGEST_NUMBER {
        let mut byte = [0];
        memory.read(at, &mut byte).ok()?;
        match byte[0] {
            0 => return Some(number).filter(|number| !number.is_empty()),
            digit if digit.is_ascii_digit() => number.push(char::from(digit)),
            _ => return None,
        }
        at = at.checked_add(1)?;
    }
    None
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
