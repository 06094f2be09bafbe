//! What to start where: distributions, placement, and the resulting ranks.
//!
//! A [`Distribution`] describes an executable with its arguments, environment and working
//! directory, the hosts it runs on, and its session. A launch takes a list of them. Several may
//! belong to one session (several executables, or one on several lists of hosts), and several
//! sessions may be launched at once.
//!
//! ```text
//!   hosts, n processes --place--> host list
//!   [Distribution], each with a host list --lay_out--> Layout per session
//! ```
//!
//! - [`place`](placement::place) spreads a number of processes over hosts: block, cyclic or plane;
//! - [`lay_out`](layout::lay_out) assigns ranks, in the order of the distributions and within one
//!   in the order of its host list. It merges entries of the same host: a host has one leader and
//!   one remote launch per session, however often and in however many distributions it is named.
//!   Two entries name the same host if user, name and port are the same.
//!
//! Ranks never depend on the launch tree.

pub mod layout;
mod os_bytes;
pub mod placement;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::hosts::{HostList, HostRef};
use crate::ids::SessionId;

pub use os_bytes::{EnvVar, EnvVarError, OsBytes, OsBytesError};

/// A set of equal processes of one session: the program, and the hosts it runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// The session.
    pub session: SessionId,
    /// The program. A name without a slash is searched in the `PATH` of each host.
    ///
    /// A relative path is relative to [`cwd`](Self::cwd) if that is set. Otherwise, if the file
    /// exists below the current directory of the front end, its absolute path is used on all hosts;
    /// if not, the path is relative to where a login starts, usually the home directory.
    pub executable: OsBytes,
    /// Its arguments, without the program's name.
    pub args: Vec<OsBytes>,
    /// The hosts, with the number of processes on each.
    pub hosts: HostList,
    /// Variables set in addition to the environment that the host provides; of equal names the last
    /// one counts.
    pub env: Vec<EnvVar>,
    /// The working directory. A relative one becomes absolute if it exists below the current
    /// directory of the front end. `None` is the current directory on the front end's own host,
    /// and where a login starts, usually the home directory, on hosts behind a remote shell.
    pub cwd: Option<OsBytes>,
}

impl Distribution {
    /// A distribution without arguments, with as many processes on each host as its count says.
    #[must_use]
    pub fn new(session: SessionId, executable: OsBytes, hosts: HostList) -> Self {
        Self { session, executable, args: Vec::new(), hosts, env: Vec::new(), cwd: None }
    }
}

/// The hosts of a list, each once at its first position, with the sum of its counts (at most
/// `u32::MAX`).
#[must_use]
pub fn distinct(hosts: &HostList) -> HostList {
    let mut list = HostList::new();
    for (host, slots) in placement::distinct(hosts) {
        let count = u32::try_from(slots).unwrap_or(u32::MAX);
        // All of it was in a list before, and there is no more of it.
        let pushed = list.push(HostRef { count, ..host });
        debug_assert!(pushed.is_ok());
    }
    list
}

/// Numbers hosts by the fields that identify one.
#[derive(Default)]
struct HostNumbers<'a> {
    known: BTreeMap<(&'a str, Option<&'a str>, Option<u16>), u32>,
}

impl<'a> HostNumbers<'a> {
    /// The number of this host, in the order of first calls.
    fn number(&mut self, host: HostRef<'a>) -> u32 {
        let next = self.known.len() as u32; // lists cannot be that long
        *self.known.entry((host.name, host.user, host.port)).or_insert(next)
    }
}
