//! Why files cannot be staged, found before anything is launched.

use std::path::PathBuf;

use libi_core::dist::OsBytes;

/// Why files cannot be staged: an error of the caller, found before anything is launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StagingError {
    /// The path has no base name.
    #[error("{} names no file", _0.display())]
    NoName(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {}: {_1}", _0.display())]
    Unreadable(PathBuf, std::io::Error),
    /// It is a directory, a device or the like.
    #[error("{} is no regular file", _0.display())]
    NotAFile(PathBuf),
    /// Two files have the same base name, and hosts get all of them in one directory.
    #[error("{_0} and {_1} have the same name, and are different files")]
    SameName(OsBytes, OsBytes),
    /// There are more than so many files.
    #[error("more than {_0} files")]
    TooMany(usize),
    /// The dynamic linker does not tell the libraries of an executable.
    #[error("cannot find the shared libraries of {}: {_1}", _0.display())]
    Linker(PathBuf, String),
    /// The dynamic linker does not find a library.
    #[error("{} needs the shared library {_1}, which is not found", _0.display())]
    LibraryMissing(PathBuf, String),
}
