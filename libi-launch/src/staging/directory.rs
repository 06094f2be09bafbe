//! The directory of staged files on a host: where it is, what is written to it, and its end.
//!
//! | state | event | next |
//! |---|---|---|
//! | | it is created: the first place with room for all files, and where programs may be executed | open |
//! | open | a piece is written, at the end of what is there | open |
//! | open | the last byte of a file is written, and its hash is wrong | failed |
//! | open | the last byte of the last file is written | complete |
//! | complete | the files are to be kept | kept |
//! | any but kept | it is dropped, or this process ends in any way | removed |
//!
//! The space of all files is reserved when the directory is created, so that a host without enough
//! of it fails at once. The directory and the files belong to the user alone.
//!
//! A *watchdog* removes the directory when this process is killed: a shell that waits for the end of
//! a pipe of which only this process has the other end. It is in a process group of its own, and
//! ignores the signals that end sessions. Only if it is killed as well does the directory remain,
//! until the place is cleaned: places in memory are, at the latest when the host starts again.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use libi_core::dist::OsBytes;
use libi_core::secure::digest::{Hasher, hexadecimal};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::{FsFlags, statvfs};

use super::{StagedFile, Staging};
use crate::machine::Program;
use crate::process::{Child, Environment, FdSource, Start};

/// The names of directories begin with this.
const PREFIX: &str = "libi-stage.";
/// Variables that name places, and places. Those in memory come first.
const PLACES: [&str; 5] = ["$XDG_RUNTIME_DIR", "/dev/shm", "$TMPDIR", "/tmp", "$HOME"];
/// `$1` is the directory.
const WATCHDOG: &str = r#"trap '' HUP INT TERM QUIT; read -r _; rm -rf -- "$1""#;

/// The staged files of this host; dropping it removes them, unless they are kept.
#[derive(Debug)]
pub struct StageDirectory {
    path: PathBuf,
    staging: Staging,
    written: u64,
    /// The file that is being written, by its number, where it begins, and the hash of what it has.
    writing: Option<Writing>,
    /// The file that was read last, by its number.
    reading: Option<(usize, File)>,
    watchdog: Option<Watchdog>,
    is_kept: bool,
}

#[derive(Debug)]
struct Writing {
    number: usize,
    begin: u64,
    file: File,
    hasher: Hasher,
}

/// The process that removes the directory if this one cannot.
#[derive(Debug)]
struct Watchdog {
    /// Dropped before the pipe: a watchdog that is killed removes nothing.
    _process: Child,
    /// It is closed by the end of this process.
    _life: PipeWriter,
}

impl StageDirectory {
    /// Creates the directory, with the environment that names its places.
    ///
    /// # Errors
    /// Why each place is not fit.
    pub fn create(staging: &Staging, environment: &Environment) -> Result<Self, String> {
        let mut reasons = Vec::new();
        for place in PLACES {
            let Some(place) = place_of(place, environment) else { continue };
            match Self::create_in(&place, staging, environment) {
                Ok(mut directory) => {
                    directory.finish_files().map_err(|why| why.to_string())?;
                    return Ok(directory);
                }
                Err(why) => reasons.push(format!("{}: {why}", place.display())),
            }
        }
        Err(format!("no directory has room for {} bytes ({})", staging.bytes(), reasons.join("; ")))
    }

    fn create_in(place: &Path, staging: &Staging, environment: &Environment) -> io::Result<Self> {
        if !place.is_absolute() {
            return Err(io::Error::other("not an absolute path"));
        }
        let flags = statvfs(place)?.flags();
        if flags.contains(FsFlags::ST_NOEXEC) && staging.files.iter().any(StagedFile::is_executable) {
            return Err(io::Error::other("programs may not be executed there"));
        }
        let path = nix::unistd::mkdtemp(&place.join(format!("{PREFIX}XXXXXXXX")))?;
        // From here on the directory is removed on failure.
        let mut directory = Self {
            path,
            staging: staging.clone(),
            written: 0,
            writing: None,
            reading: None,
            watchdog: None,
            is_kept: false,
        };
        directory.watchdog = Some(Watchdog::start(&directory.path, environment)?);
        for file in &staging.files {
            directory.reserve(file)?;
        }
        Ok(directory)
    }

    /// Creates a file with the space that it needs.
    fn reserve(&self, file: &StagedFile) -> io::Result<()> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.file_path(file))?;
        let length = i64::try_from(file.length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        if length == 0 {
            return Ok(());
        }
        match fallocate(&made, FallocateFlags::empty(), 0, length) {
            // This file system cannot reserve space; what is missing shows later.
            Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    fn file_path(&self, file: &StagedFile) -> PathBuf {
        self.path.join(OsStr::from_bytes(file.name.as_bytes()))
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the next bytes, and checks the files that are complete with them. Returns how many bytes
    /// have been written since the beginning.
    ///
    /// # Errors
    /// What cannot be written, or which file has another hash than it should.
    pub fn write(&mut self, bytes: &[u8]) -> Result<u64, String> {
        let mut left = bytes;
        while !left.is_empty() {
            let in_file = |why: io::Error| why.to_string();
            let writing = self.writing.as_mut().ok_or("more than all files have")?;
            let file = self.staging.files.get(writing.number).ok_or("no such file")?;
            let at = self.written - writing.begin;
            let missing = usize::try_from(file.length - at).unwrap_or(usize::MAX);
            let (part, rest) = left.split_at(left.len().min(missing));
            let written = writing.file.write_all_at(part, at);
            written.map_err(|why| format!("{}: {}", self.path.display(), in_file(why)))?;
            writing.hasher.update(part);
            self.written += part.len() as u64;
            left = rest;
            self.finish_files()?;
        }
        Ok(self.written)
    }

    /// Completes the file that is written, if all its bytes are there, and all empty ones behind it;
    /// begins with the next.
    fn finish_files(&mut self) -> Result<(), String> {
        loop {
            let (number, begin) = match self.writing.take() {
                None if self.written > 0 => return Ok(()),
                None => (0, 0),
                Some(writing) => {
                    let Some(file) = self.staging.files.get(writing.number) else { return Ok(()) };
                    let end = writing.begin + file.length;
                    if self.written < end {
                        self.writing = Some(writing);
                        return Ok(());
                    }
                    let found = hexadecimal(&writing.hasher.finish());
                    if found != file.blake2b {
                        let (short, wrong) = (found.get(..16), file.blake2b.get(..16));
                        return Err(format!(
                            "{} has the hash {}… instead of {}…",
                            file.name,
                            short.unwrap_or_default(),
                            wrong.unwrap_or_default()
                        ));
                    }
                    let mode = Permissions::from_mode(0o600 | file.mode);
                    let set = writing.file.set_permissions(mode);
                    set.map_err(|why| format!("{}: {why}", self.file_path(file).display()))?;
                    (writing.number + 1, end)
                }
            };
            let Some(file) = self.staging.files.get(number) else {
                self.complete();
                return Ok(());
            };
            let opened = OpenOptions::new().write(true).open(self.file_path(file));
            let file = opened.map_err(|why| format!("{}: {why}", self.file_path(file).display()))?;
            self.writing = Some(Writing { number, begin, file, hasher: Hasher::default() });
        }
    }

    fn complete(&mut self) {
        if self.staging.keep {
            self.is_kept = true;
            self.watchdog = None;
        }
    }

    /// Reads bytes that were written, from this place on.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (mut at, mut left, mut begin) = (at, bytes, 0);
        for (number, file) in self.staging.files.iter().enumerate() {
            let end = begin + file.length;
            if at < end && !left.is_empty() {
                let length = left.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
                let (part, rest) = left.split_at_mut(length);
                let open = match self.reading.take() {
                    Some((of, open)) if of == number => open,
                    _ => File::open(self.path.join(OsStr::from_bytes(file.name.as_bytes())))?,
                };
                open.read_exact_at(part, at - begin)?;
                self.reading = Some((number, open));
                at += length as u64;
                left = rest;
            }
            begin = end;
        }
        if left.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// What is started for a program of this host; see [`Staging::adapt`].
    #[must_use]
    pub fn adapt(&self, program: &Program, environment: &Environment) -> Program {
        let directory = OsBytes::new(self.path.as_os_str().as_bytes()).unwrap_or_default();
        self.staging.adapt(program, &directory, |name| environment.value(name).cloned())
    }
}

impl Drop for StageDirectory {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // What cannot be removed here cannot be removed by the watchdog, which has the same rights.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Watchdog {
    fn start(directory: &Path, environment: &Environment) -> io::Result<Self> {
        let (end, mut life) = io::pipe()?;
        life.flush()?;
        let word =
            |bytes: &[u8]| OsBytes::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let mut start = Start::new(word(b"/bin/sh")?, environment.clone());
        start.args = vec![
            word(b"-c")?,
            word(WATCHDOG.as_bytes())?,
            word(b"libi-stage-watchdog")?,
            word(directory.as_os_str().as_bytes())?,
        ];
        start.guarded = false;
        // The starter of this process may wait for the end of its streams.
        start.fds.insert(0, FdSource::File(end.as_fd()));
        start.fds.insert(1, FdSource::Null);
        start.fds.insert(2, FdSource::Null);
        let process = start.start().map_err(|why| io::Error::other(format!("no watchdog: {why}")))?;
        Ok(Self { _process: process, _life: life })
    }
}

/// The place that a word names: a path, or the value of a variable.
fn place_of(word: &str, environment: &Environment) -> Option<PathBuf> {
    let Some(name) = word.strip_prefix('$') else { return Some(PathBuf::from(word)) };
    let value = environment.value(name.as_bytes())?;
    (!value.as_bytes().is_empty()).then(|| PathBuf::from(OsStr::from_bytes(value.as_bytes())))
}

#[cfg(test)]
mod tests;
