//! What is to be started where: distributions, placement, and the ranks that follow from them.
//!
//! A [`Distribution`] says: this executable, with these arguments, this environment and this working directory, on
//! these hosts, as part of that session. A launch takes a list of them. Several may belong to one session
//! (several executables in it, or one on several lists of hosts), and several sessions may be launched at once.
//!
//! ```text
//!   hosts, n processes --place--> host list --in Distribution--> [Distribution] --lay_out--> Layout per session
//! ```
//!
//! - [`place`](placement::place) spreads a number of processes over hosts: block, cyclic or plane;
//! - [`lay_out`](layout::lay_out) gives out ranks, in the order of the distributions and inside one in the order
//!   of its host list, and merges what falls on the same host: one host has one leader and one remote launch per
//!   session, however often and in however many distributions it is named. Two entries name the same host
//!   if user, name and port are the same.
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

/// A set of equal processes of one session: what they are, and where they run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// The session they belong to.
    pub session: SessionId,
    /// The program, as a path or as a name to be looked up in the search path of the host.
    pub executable: OsBytes,
    /// Its arguments, without the program's name.
    pub args: Vec<OsBytes>,
    /// The hosts, and how many processes on each.
    pub hosts: HostList,
    /// Variables set in addition to the environment that the host provides; of equal names the last one counts.
    pub env: Vec<EnvVar>,
    /// The working directory; where the remote shell puts us if none is given.
    pub cwd: Option<OsBytes>,
}

impl Distribution {
    /// These hosts, each running as many processes of this program as its count says, without arguments.
    #[must_use]
    pub fn new(session: SessionId, executable: OsBytes, hosts: HostList) -> Self {
        Self { session, executable, args: Vec::new(), hosts, env: Vec::new(), cwd: None }
    }
}

/// The hosts of a list, each once in its first place, with the sum of its counts (at most `u32::MAX`).
#[must_use]
pub fn distinct(hosts: &HostList) -> HostList {
    let mut list = HostList::new();
    for (host, slots) in placement::distinct(hosts) {
        let count = u32::try_from(slots).unwrap_or(u32::MAX);
        // Nothing is pushed that was not in a list already, and no more of it.
        let pushed = list.push(HostRef { count, ..host });
        debug_assert!(pushed.is_ok());
    }
    list
}

/// Hosts by what makes two entries name the same one.
#[derive(Default)]
struct HostNumbers<'a> {
    known: BTreeMap<(&'a str, Option<&'a str>, Option<u16>), u32>,
}

impl<'a> HostNumbers<'a> {
    /// The number of this host: in the order in which hosts are first asked for.
    fn number(&mut self, host: HostRef<'a>) -> u32 {
        let next = self.known.len() as u32; // lists cannot be that long
        *self.known.entry((host.name, host.user, host.port)).or_insert(next)
    }
}
