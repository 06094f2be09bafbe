//! Decides which host keys are trusted: the files of sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
//!
//! [`KnownHosts`] reads each file once, and again when it has changed; [`KnownHosts::lookup`] finds
//! the lines for a name; [`judge()`] decides about an offered key as `ssh` does, in its words;
//! [`learn()`] appends a key. A line that `ssh` cannot read counts for nothing here either.

mod authority;
mod judge;
mod learn;
mod lines;
mod names;
mod status;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use judge::{Asked, FAILED as HOST_KEY_FAILED, Offered, judge};
pub(crate) use learn::learn;
pub(crate) use names::{matches, stored_name};

use crate::settings::Trust;
use lines::Lines;

/// What a line says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    /// It is the key of the host.
    Plain,
    /// `@cert-authority`: it signs certificates of the host.
    Authority,
    /// `@revoked`: it must never be accepted.
    Revoked,
}

/// A line that holds for the name that was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) marker: Marker,
    /// The key type that the key itself names, such as `ssh-rsa`.
    pub(crate) key_type: String,
    /// The key as it travels.
    pub(crate) blob: Vec<u8>,
    pub(crate) file: PathBuf,
    /// Counted from one.
    pub(crate) line: usize,
}

impl Entry {
    /// The key type as `ssh` calls it in messages.
    fn label(&self) -> &'static str {
        names::label(&self.key_type).unwrap_or("UNKNOWN")
    }
}

/// One line of `ssh`, without its end, which is `\r\n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) level: Level,
    pub(crate) text: String,
}

/// From which `LogLevel` on a message is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Fatal,
    Error,
    Info,
}

/// The files that have been read, for all hosts of a process.
#[derive(Debug, Default)]
pub(crate) struct KnownHosts {
    files: Mutex<HashMap<PathBuf, Option<Cached>>>,
}

#[derive(Clone, Debug)]
struct Cached {
    version: Version,
    lines: Arc<Lines>,
}

/// Changes whenever a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl KnownHosts {
    /// All lines for a [stored name](stored_name), in the order in which `ssh` reads them. A file
    /// that cannot be read has none.
    pub(crate) fn lookup(&self, trust: &Trust, name: &str) -> Vec<Entry> {
        let files = trust.user_files.iter().chain(&trust.global_files);
        files.filter_map(|file| Some((file, self.read(file)?))).fold(Vec::new(), |mut all, (file, lines)| {
            all.extend(lines.lookup(name, file));
            all
        })
    }

    fn read(&self, file: &Path) -> Option<Arc<Lines>> {
        let version = fs::metadata(file).ok().filter(fs::Metadata::is_file).map(|found| Version {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            seconds: found.mtime(),
            nanoseconds: found.mtime_nsec(),
        })?;
        // Held while the file is read: of many hosts at once, one reads it.
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(cached)) = files.get(file)
            && cached.version == version
        {
            return Some(Arc::clone(&cached.lines));
        }
        let lines = fs::read(file).ok().map(|text| Arc::new(Lines::parse(text)));
        let cached = lines.clone().map(|lines| Cached { version, lines });
        files.insert(file.to_owned(), cached);
        lines
    }
}

/// The algorithms of host keys in the order in which `ssh` offers them: those of known keys first,
/// unless the best one is known or the user has set the order.
pub(crate) fn order_of_host_key_algorithms(
    algorithms: &[String],
    prefers: bool,
    known: &[Entry],
) -> Vec<String> {
    let is_known = |algorithm: &str| {
        let plain = names::plain_type(algorithm);
        let first = known.iter().find(|entry| entry.marker == Marker::Plain && entry.key_type == plain);
        first.is_some_and(|first| !is_revoked(known, &first.blob))
    };
    if !prefers || algorithms.first().is_some_and(|best| is_known(best)) {
        return algorithms.to_vec();
    }
    let signed = known.iter().any(|entry| entry.marker == Marker::Authority);
    let (mut order, last): (Vec<String>, Vec<String>) = algorithms
        .iter()
        .cloned()
        .partition(|algorithm| (signed && names::is_certificate(algorithm)) || is_known(algorithm));
    order.extend(last);
    order
}

fn is_revoked(known: &[Entry], blob: &[u8]) -> bool {
    known.iter().any(|entry| entry.marker == Marker::Revoked && entry.blob == blob)
}

#[cfg(test)]
mod as_ssh;
#[cfg(test)]
mod tests;
