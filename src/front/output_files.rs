//! The files for members' output.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::{File, create_dir_all};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use libi_core::ids::Rank;
use libi_launch::machine::Stream;
use serde::{Deserialize, Serialize};

/// The first failure to write members' output to a [file](crate::Output::Files).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutputError {
    /// The file.
    #[serde(with = "path_bytes")]
    pub path: PathBuf,
    /// The member whose output is incomplete.
    pub rank: Rank,
    /// The error of the system call.
    pub error: String,
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, rank, error } = self;
        write!(f, "cannot write the output of rank {} to {}: {error}", rank.0, path.display())
    }
}

impl std::error::Error for OutputError {}

/// The files of one session.
pub(super) struct OutputFiles {
    directory: PathBuf,
    open: BTreeMap<(Rank, Stream), File>,
    has_failed: bool,
}

/// The largest number of files that are open at a time.
const MAX_OPEN_FILES: usize = 64;

impl OutputFiles {
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        create_dir_all(directory)?;
        // Output that cannot be stored should prevent the launch.
        nix::unistd::access(directory, nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK)?;
        Ok(Self { directory: directory.to_owned(), open: BTreeMap::new(), has_failed: false })
    }

    /// Appends to a member's file. What cannot be written is lost: the session does not depend on
    /// it. The first failure is returned.
    pub(super) fn write(&mut self, rank: Rank, stream: Stream, bytes: &[u8]) -> Result<(), OutputError> {
        let path = self.directory.join(format!("{}.{}", rank.0, extension(stream)));
        match self.append(rank, stream, &path, bytes) {
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                Err(OutputError { path, rank, error: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    fn append(&mut self, rank: Rank, stream: Stream, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.open.len() >= MAX_OPEN_FILES && !self.open.contains_key(&(rank, stream)) {
            self.open.clear();
        }
        let file = match self.open.entry((rank, stream)) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(entry) => entry.insert(File::options().create(true).append(true).open(path)?),
        };
        file.write_all(bytes)
    }
}

fn extension(stream: Stream) -> &'static str {
    if stream == Stream::Out { "out" } else { "err" }
}

/// Serialises a path as its bytes: it need not be text.
pub(super) mod path_bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::front) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    pub(in crate::front) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Vec::deserialize(from).map(|bytes| OsString::from_vec(bytes).into())
    }
}
