//! Host lists: compact texts for many hosts, as people, files and resource managers write them.
//!
//! [`HostList::parse`] parses a list, [`HostList::fold`] writes it in its shortest form. Parsing a
//! folded list gives the same list: order, repeats and zero padding are kept. [`mod@file`] parses
//! host files, [`job`] the lists that resource managers leave in a job's environment.
//!
//! # The language
//!
//! Items are separated by commas and white space; empty items are ignored.
//!
//! ```text
//! item   = [ user "@" ] host [ suffix ]
//! host   = one or more of: name characters, group            node[001-064,100]-ib[0-1]
//!        | "[" IPv6 address "]" | IPv6 address               [fe80::1%eth0]   2001:db8::7
//! group  = "[" alternative { "," alternative } "]"
//! alternative = ( number | range | word ) { group | name characters }   [1[0-9],2[0-4],login]
//! suffix = ":" count | "*" count | ":" port ":" count | ":" port "*" count
//! ```
//!
//! - **Names** are ASCII letters, digits, `-`, `_` and `.`, and do not begin with `-`, which a
//!   remote shell would take for an option. The same holds for users.
//! - **Brackets** stand for each alternative in turn; with several groups the last one varies
//!   fastest. They may be nested [`MAX_DEPTH`] deep and contain no white space.
//! - **Ranges** ascend. If the lower end is written with leading zeros, its width is the minimal
//!   width of all numbers: `[08-11]` is `08 09 10 11`. If the upper end has leading zeros, both
//!   ends must be equally wide. Text that looks like a range must be one: `[1-2x]`, `[1-x]` and
//!   `[a-c]` are errors.
//! - **Counts**: one number after a host is always a count of processes, never a port: `node7:8`
//!   and `node7*8` both mean eight processes. The default is 1; 0 is an error.
//! - **Ports** are always written together with a count. Of two numbers the first is the port:
//!   `node7:2222:8`, or `node7:2222*8`, is port 2222 and eight processes; one process behind port
//!   2222 is `node7:2222*1`.
//! - **IPv6 addresses** go in brackets: `[2001:db8::1]`, `[fe80::1%eth0]:4`, `[::1]:2222*4`.
//!   Without brackets they are recognised if they contain `::` or exactly seven colons and nothing
//!   but hexadecimal digits, colons and dots (a zone may follow); then only `*count` may follow.
//!   The name is kept as written, without the brackets.
//! - A user, port or count applies to every host of its item.
//!
//! # Bounds
//!
//! At most [`MAX_HOSTS`] entries, [`MAX_NAME`] bytes in a name, [`MAX_TEXT`] bytes in all. They are
//! checked from the syntax, for the whole list, before the first host is stored. Parsing takes time
//! linear in the length of the text and of the names it stands for, and no input causes a panic.

mod error;
mod expand;
pub mod file;
mod fold;
pub mod job;
mod name;
mod serial;
mod size;
mod syntax;

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::iter::FusedIterator;
use core::num::NonZeroU16;
use core::str::FromStr;

pub use error::{HostListError, HostListErrorKind, InputKind};
pub use fold::fold_names;

/// The most entries a list may have.
pub const MAX_HOSTS: usize = 10_000_000;
/// The longest host or user name, in bytes: the limit of the domain name system.
pub const MAX_NAME: usize = 253;
/// The most bytes that all names of a list may occupy together.
pub const MAX_TEXT: usize = 512 << 20;
/// The deepest nesting of brackets.
pub const MAX_DEPTH: usize = 16;

/// A sequence of hosts, each with a count of processes and optionally a user and a port.
///
/// An entry takes 16 bytes beside its name, and names share one allocation, so that lists of
/// millions of hosts stay small. See the [module](self) for the syntax that [`parse`](Self::parse)
/// accepts.
///
/// ```
/// use libi_core::hosts::HostList;
///
/// let list = HostList::parse("node[009-011]:8, root@login")?;
/// let names: Vec<&str> = list.iter().map(|host| host.name).collect();
/// assert_eq!(names, ["node009", "node010", "node011", "login"]);
/// assert_eq!(list.processes(), 25);
/// assert_eq!(list.fold(), "node[009-011]:8,root@login");
/// # Ok::<(), libi_core::hosts::HostListError>(())
/// ```
#[derive(Clone, Default)]
pub struct HostList {
    text: String,
    entries: Vec<PackedHost>,
}

/// The positions of an entry's parts in the text. `MAX_TEXT` and `MAX_NAME` make the narrow fields
/// wide enough.
#[derive(Clone, Copy)]
struct PackedHost {
    name: u32,
    user: u32,
    count: u32,
    port: Option<NonZeroU16>,
    name_len: u8,
    /// 0 means no user.
    user_len: u8,
}

const _: () =
    assert!(size_of::<PackedHost>() == 16 && MAX_TEXT <= u32::MAX as usize && MAX_NAME <= u8::MAX as usize);

/// One entry of a [`HostList`].
///
/// Its `Display` is an item that [`HostList::parse`] reads as the same entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostRef<'a> {
    /// The user name on the host, if given.
    pub user: Option<&'a str>,
    /// The host's name or address; an IPv6 address has no brackets here.
    pub name: &'a str,
    /// The port of the host's remote shell, if given.
    pub port: Option<u16>,
    /// The number of processes, at least 1.
    pub count: u32,
}

impl<'a> HostRef<'a> {
    /// One process on the host called `name`.
    pub fn new(name: &'a str) -> Self {
        HostRef { user: None, name, port: None, count: 1 }
    }

    /// Writes the entry with `pattern`, which may stand for several hosts, in place of the name.
    fn write(&self, pattern: &str, out: &mut impl fmt::Write) -> fmt::Result {
        if let Some(user) = self.user {
            out.write_str(user)?;
            out.write_char('@')?;
        }
        // Only IPv6 addresses hold colons.
        if pattern.contains(':') {
            write!(out, "[{pattern}]")?;
        } else {
            out.write_str(pattern)?;
        }
        match (self.port, self.count) {
            (Some(port), count) => write!(out, ":{port}:{count}"),
            (None, 1) => Ok(()),
            (None, count) => write!(out, ":{count}"),
        }
    }
}

impl fmt::Display for HostRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(self.name, f)
    }
}

impl HostList {
    /// An empty list.
    pub fn new() -> Self {
        HostList::default()
    }

    /// Parses a list; the [module](self) describes the language. An empty text is an empty list.
    ///
    /// # Errors
    /// The first mistake with its column, or the item with which the list exceeds its bounds.
    pub fn parse(text: &str) -> Result<Self, HostListError> {
        expand::build(InputKind::List, text, |parser, sink| {
            while parser.seek_item() {
                let item = parser.item()?;
                sink.take(parser, &item)?;
            }
            Ok(())
        })
    }

    /// Writes the list in the shortest form that keeps order and repeats; [`parse`](Self::parse)
    /// restores it.
    ///
    /// Neighbours that differ in one number share a bracket, and so do neighbouring brackets:
    /// `rack[1-2]-n[01-16]`. Takes linear time.
    pub fn fold(&self) -> String {
        fold::fold_list(self)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The sum of the counts of all entries.
    pub fn processes(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.count)).sum()
    }

    /// The entry at `index`, from 0.
    pub fn entry(&self, index: usize) -> Option<HostRef<'_>> {
        self.entries.get(index).map(|entry| entry.resolve(&self.text))
    }

    /// Whether an entry has the same name, user and port. Counts have no meaning.
    pub fn lists(&self, host: HostRef<'_>) -> bool {
        self.iter().any(|entry| (entry.name, entry.user, entry.port) == (host.name, host.user, host.port))
    }

    /// The entries in order.
    pub fn iter(&self) -> Hosts<'_> {
        Hosts { text: &self.text, entries: self.entries.iter() }
    }

    /// Adds an entry at the end.
    ///
    /// # Errors
    /// The mistake in the entry, or the bound it would exceed; the list is then unchanged.
    pub fn push(&mut self, host: HostRef<'_>) -> Result<(), HostListErrorKind> {
        name::check_host(host.name)?;
        if let Some(user) = host.user {
            name::check_user(user)?;
        }
        let port = match host.port {
            Some(port) => Some(NonZeroU16::new(port).ok_or(HostListErrorKind::BadPort)?),
            None => None,
        };
        if host.count == 0 {
            return Err(HostListErrorKind::ZeroCount);
        }
        if self.entries.len() >= MAX_HOSTS {
            return Err(HostListErrorKind::TooManyHosts);
        }
        if self.text.len() + host.user.map_or(0, str::len) + host.name.len() > MAX_TEXT {
            return Err(HostListErrorKind::TextTooLong);
        }
        let entry = self.template(host.user, port, host.count);
        self.push_checked(entry, host.name);
        Ok(())
    }

    /// Prepares entries that share everything but the name. The user is stored unless the last
    /// entry has the same, so that a user in front of a bracket is stored once.
    fn template(&mut self, user: Option<&str>, port: Option<NonZeroU16>, count: u32) -> PackedHost {
        let last = self.entries.last().map(|&entry| (entry, entry.resolve(&self.text).user));
        let (start, len) = match (user, last) {
            (None, _) => (0, 0),
            (Some(user), Some((entry, Some(known)))) if known == user => (entry.user, entry.user_len),
            (Some(user), _) => {
                let start = self.text.len() as u32;
                self.text.push_str(user);
                (start, user.len() as u8)
            }
        };
        PackedHost { name: 0, user: start, count, port, name_len: 0, user_len: len }
    }

    /// Adds a name that has passed all checks.
    fn push_checked(&mut self, template: PackedHost, name: &str) {
        let start = self.text.len() as u32;
        self.text.push_str(name);
        self.entries.push(PackedHost { name: start, name_len: name.len() as u8, ..template });
    }
}

impl PackedHost {
    fn resolve(self, text: &str) -> HostRef<'_> {
        let part = |start: u32, len: u8| &text[start as usize..start as usize + usize::from(len)];
        HostRef {
            user: (self.user_len > 0).then(|| part(self.user, self.user_len)),
            name: part(self.name, self.name_len),
            port: self.port.map(NonZeroU16::get),
            count: self.count,
        }
    }
}

/// The entries of a [`HostList`] in order; made by [`HostList::iter`].
#[derive(Clone)]
pub struct Hosts<'a> {
    text: &'a str,
    entries: core::slice::Iter<'a, PackedHost>,
}

impl<'a> Iterator for Hosts<'a> {
    type Item = HostRef<'a>;

    fn next(&mut self) -> Option<HostRef<'a>> {
        self.entries.next().map(|entry| entry.resolve(self.text))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl DoubleEndedIterator for Hosts<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.entries.next_back().map(|entry| entry.resolve(self.text))
    }
}

impl fmt::Debug for Hosts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl ExactSizeIterator for Hosts<'_> {}
impl FusedIterator for Hosts<'_> {}

impl<'a> IntoIterator for &'a HostList {
    type Item = HostRef<'a>;
    type IntoIter = Hosts<'a>;

    fn into_iter(self) -> Hosts<'a> {
        self.iter()
    }
}

impl FromStr for HostList {
    type Err = HostListError;

    fn from_str(text: &str) -> Result<Self, HostListError> {
        HostList::parse(text)
    }
}

impl TryFrom<&str> for HostList {
    type Error = HostListError;

    fn try_from(text: &str) -> Result<Self, HostListError> {
        HostList::parse(text)
    }
}

impl TryFrom<String> for HostList {
    type Error = HostListError;

    fn try_from(text: String) -> Result<Self, HostListError> {
        HostList::parse(&text)
    }
}

/// Lets a function accept both a list and its text.
impl From<Infallible> for HostListError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Writes [`HostList::fold`].
impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.fold())
    }
}

impl fmt::Debug for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostList").field(&self.fold()).finish()
    }
}

/// Two lists are equal if their entries are, however they were written.
impl PartialEq for HostList {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for HostList {}
