//! Staging: files of the user that every host gets before its programs are started.
//!
//! A [`Staging`] lists the files. Their bytes, one file after the other, travel down the tree or, if
//! they are many, from host to host, in pieces: each agent writes a piece and passes it on at once
//! (see the heads of `machine/staging.rs` and `machine/sources.rs`). On a host they are in one private directory (`directory.rs`), and are
//! checked against the hashes of the list before anything runs. What programs get to know of them
//! is decided here.
//!
//! | a program gets | if |
//! |---|---|
//! | the staged file in place of its executable | it names that file, as `NAME`, `./NAME` or the path that was staged |
//! | the directory in `LIBI_STAGE` | always |
//! | the directory in front of `LD_LIBRARY_PATH` | libraries were staged |

#[cfg(target_os = "linux")]
mod closure;
#[cfg(target_os = "linux")]
mod directory;
mod error;
mod source;

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use libi_core::dist::{EnvVar, OsBytes};
use libi_core::secure::digest::{Hasher, hexadecimal};
use serde::{Deserialize, Serialize};

use crate::machine::Program;

#[cfg(target_os = "linux")]
pub use directory::StageDirectory;
pub use error::StagingError;
pub use source::StageSource;

/// The variable that names the directory of staged files.
pub const STAGE_ENV: &str = "LIBI_STAGE";
/// The variable that names the directories of shared libraries.
const LIBRARIES_ENV: &str = "LD_LIBRARY_PATH";
/// The most files of one staging: their list goes to every host.
const MAX_FILES: usize = 4_000;

/// Files that every host gets before its programs are started. It needs an
/// [`Agent`](crate::options::Agent).
///
/// Each file is put under its base name into a private directory on each host. A program that is one
/// of these files is run from there; all programs find the directory in `LIBI_STAGE`. The directory
/// is removed when the session ends, unless it is [kept](Self::keep).
///
/// ```no_run
/// use libi_launch::staging::{Staging, StagingError};
///
/// let staging = Staging::new().file("./solver")?.with_libraries()?.file("mesh.dat")?;
/// # let _ = staging;
/// # Ok::<(), StagingError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    files: Vec<StagedFile>,
    has_libraries: bool,
    keep: bool,
}

/// A file of a [`Staging`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFile {
    /// Its name in the directory of a host.
    name: OsBytes,
    /// Its path at the front end.
    #[serde(skip)]
    given: OsBytes,
    length: u64,
    /// Its permissions.
    mode: u32,
    /// Its hash, as `b2sum` prints it.
    blake2b: String,
    /// The file, at the front end.
    #[serde(skip)]
    file: OpenFile,
}

/// A file that was opened when it was hashed: one that takes its path later is another file.
#[derive(Clone, Debug, Default)]
struct OpenFile(Option<Arc<File>>);

/// What is opened says nothing about the file: its hash does.
impl PartialEq for OpenFile {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for OpenFile {}

impl Staging {
    /// No files yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, which is read now. Its base name has to differ from those of the others; the
    /// same file may be added again.
    ///
    /// # Errors
    /// It cannot be read, is no regular file, or another file has its name.
    pub fn file(self, path: impl AsRef<Path>) -> Result<Self, StagingError> {
        let path = path.as_ref();
        let name = path.file_name().ok_or_else(|| StagingError::NoName(path.to_owned()))?;
        self.file_as(path, Path::new(name))
    }

    /// Adds a file under another name.
    fn file_as(mut self, path: &Path, name: &Path) -> Result<Self, StagingError> {
        let file = StagedFile::read(path, name)?;
        match self.files.iter().find(|other| other.name == file.name) {
            Some(other) if other.blake2b == file.blake2b => return Ok(self),
            Some(other) => return Err(StagingError::SameName(other.given.clone(), file.given)),
            None if self.files.len() >= MAX_FILES => return Err(StagingError::TooMany(MAX_FILES)),
            None => {}
        }
        self.files.push(file);
        Ok(self)
    }

    /// Adds the shared libraries of all executables that were added before, as the dynamic linker of
    /// this machine finds them: what `ldd` prints. Programs get the directory in front of
    /// `LD_LIBRARY_PATH`.
    ///
    /// The dynamic linker itself and the C library (`libc`, `libm`, `libpthread`, `libdl`, `librt` and
    /// the others that come with it) are those of the host: they have to fit each other and its
    /// kernel. So a host needs a C library that is as new as the programs demand.
    ///
    /// The dynamic linker of an executable is run to find them; do not add one that is not trusted.
    ///
    /// # Errors
    /// A library is not found, cannot be read, or two of them have the same name.
    #[cfg(target_os = "linux")]
    pub fn with_libraries(mut self) -> Result<Self, StagingError> {
        let programs: Vec<_> = self.files.iter().filter(|file| file.is_executable()).cloned().collect();
        for program in programs {
            let path = Path::new(OsStr::from_bytes(program.given.as_bytes()));
            for library in closure::libraries_of(path)? {
                self = self.file_as(&library.path, Path::new(&library.name))?;
            }
        }
        self.has_libraries = true;
        Ok(self)
    }

    /// Keeps the files on the hosts when the session has ended.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Whether the files are kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files, in the order in which they travel.
    #[must_use]
    pub fn files(&self) -> &[StagedFile] {
        &self.files
    }

    /// The paths of the files at the front end.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &OsBytes> {
        self.files.iter().map(|file| &file.given)
    }

    /// The same files, at these paths of this machine. One that cannot be opened cannot be read.
    pub(crate) fn reopened(mut self, paths: Vec<OsBytes>) -> Self {
        for (file, path) in self.files.iter_mut().zip(paths) {
            let open = File::open(Path::new(OsStr::from_bytes(path.as_bytes())));
            (file.given, file.file) = (path, OpenFile(open.ok().map(Arc::new)));
        }
        self
    }

    /// How many bytes all files have together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |all, file| all.saturating_add(file.length))
    }

    /// At the front end: a program that is named by the path of a staged executable gets the name of
    /// that, by which hosts know it.
    #[must_use]
    pub fn named(&self, mut program: Program) -> Program {
        let is_path = program.executable.as_bytes().contains(&b'/');
        let mut executables = self.files.iter().filter(|file| is_path && file.is_executable());
        if let Some(file) = executables.find(|file| file.is_at(&program.executable)) {
            program.executable = file.name.clone();
        }
        program
    }

    /// What is started for a program on a host that has the files in this directory. `value` is the
    /// value that a variable has there otherwise.
    #[must_use]
    pub fn adapt(
        &self,
        program: &Program,
        directory: &OsBytes,
        value: impl Fn(&[u8]) -> Option<OsBytes>,
    ) -> Program {
        let mut program = program.clone();
        if let Some(file) = self.files.iter().find(|file| file.stands_for(&program.executable)) {
            program.executable = joined(&[directory.as_bytes(), b"/", file.name.as_bytes()]);
        }
        if self.has_libraries {
            let own = program.env.iter().rev().find(|own| own.name().as_bytes() == LIBRARIES_ENV.as_bytes());
            let before = own.map(|own| own.value().clone()).or_else(|| value(LIBRARIES_ENV.as_bytes()));
            // An empty entry would be the working directory.
            let path = match before.filter(|before| !before.as_bytes().is_empty()) {
                Some(before) => joined(&[directory.as_bytes(), b":", before.as_bytes()]),
                None => directory.clone(),
            };
            program.env.extend(variable(LIBRARIES_ENV, path));
        }
        program.env.extend(variable(STAGE_ENV, directory.clone()));
        program
    }
}

impl StagedFile {
    fn read(path: &Path, name: &Path) -> Result<Self, StagingError> {
        let unreadable = |why| StagingError::Unreadable(path.to_owned(), why);
        let bytes = |path: &Path| {
            OsBytes::new(path.as_os_str().as_bytes()).map_err(|_| StagingError::NoName(path.to_owned()))
        };
        // Opening a FIFO would wait for its writer.
        if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(StagingError::NotAFile(path.to_owned()));
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let mut hashed = Hashed { hasher: Hasher::default(), length: 0 };
        std::io::copy(&mut file, &mut hashed).map_err(unreadable)?;
        Ok(Self {
            name: bytes(name)?,
            given: bytes(path)?,
            length: hashed.length,
            mode: metadata.permissions().mode() & 0o777,
            blake2b: hexadecimal(&hashed.hasher.finish()),
            file: OpenFile(Some(Arc::new(file))),
        })
    }

    /// Its name in the directory of a host.
    #[must_use]
    pub fn name(&self) -> &OsBytes {
        &self.name
    }

    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether it may be executed.
    fn is_executable(&self) -> bool {
        self.mode & 0o111 != 0
    }

    /// Whether a program of this name is this file.
    fn stands_for(&self, executable: &OsBytes) -> bool {
        let name = executable.as_bytes();
        self.is_executable() && name.strip_prefix(b"./").unwrap_or(name) == self.name.as_bytes()
    }

    /// Whether this path leads to it, at the front end.
    fn is_at(&self, path: &OsBytes) -> bool {
        let id = |found: std::fs::Metadata| (found.dev(), found.ino());
        let own = self.file.0.as_ref().and_then(|file| file.metadata().ok()).map(id);
        let found = std::fs::metadata(Path::new(OsStr::from_bytes(path.as_bytes()))).ok().map(id);
        own.is_some() && own == found
    }
}

/// Hashes and counts what is written to it.
struct Hashed {
    hasher: Hasher,
    length: u64,
}

impl std::io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// These contain no NUL, as parts of values that do not.
fn joined(parts: &[&[u8]]) -> OsBytes {
    OsBytes::new(parts.concat()).unwrap_or_default()
}

fn variable(name: &str, value: OsBytes) -> Option<EnvVar> {
    EnvVar::new(OsBytes::try_from(name).ok()?, value).ok()
}

#[cfg(test)]
mod tests;
