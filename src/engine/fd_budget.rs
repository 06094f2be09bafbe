//! File descriptors as a resource: how many are open, how many may be, and which are reserved.
//!
//! A started host takes up to [`FDS_PER_START`] descriptors, and one more if it connects directly.
//! The direct connection comes later, and its descriptor must be left when it comes: without it the
//! host could not be accepted, although it runs. So a start is refused while descriptors are left,
//! if they are reserved for the connections of hosts that were started before. The launch half then
//! leaves the host to another launcher, or waits until one of its own launches has failed.
//!
//! The soft limit of open files is a property of the process, hence also of the embedding program.
//! It is raised only when it is nearly used up, only as far as needed, and never beyond the hard
//! limit. Started processes get the original limit: programs that use `select` break above 1,024.

use std::fmt::Display;
use std::io;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The most descriptors that a started process takes as long as it runs: its streams, and the
/// process itself.
pub(super) const FDS_PER_START: u64 = 4;

/// With fewer descriptors than this a process cannot launch a single host.
pub(crate) const FEWEST_FDS: u64 = 20;

/// The soft limit is raised when fewer descriptors than this are left.
const MARGIN: u64 = 128;

/// Where the system does not say how many descriptors are open, they are counted only at every
/// start of this number, because that takes time for each of them.
const RECOUNT_AFTER: u32 = 16;

/// The soft limit before it was raised.
static ORIGINAL: OnceLock<u64> = OnceLock::new();

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct FdBudget {
    /// How many were open when they were counted, and how many starts there have been since.
    counted: Option<u64>,
    starts: u32,
}

impl FdBudget {
    /// Prepares the start of a process: raises the soft limit if it is nearly used up, and checks
    /// that `reserved` descriptors are left for direct connections.
    ///
    /// # Errors
    /// They would not be left. The message is for users.
    pub(super) fn prepare(&mut self, reserved: u64) -> Result<(), String> {
        let Ok((mut soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
        // Without /proc a start fails only when no descriptor is left.
        let Some(open) = self.open() else { return Ok(()) };
        let wanted = raised(open + reserved, soft, hard);
        if wanted > soft && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
            let _ = ORIGINAL.set(soft);
            soft = wanted;
        }
        if reserved > 0 && open + FDS_PER_START + reserved + spare(soft) > soft {
            return Err(format!(
                "out of file descriptors: {open} of {soft} are open, {reserved} more are reserved for \
                 direct connections; raise the limit of open files (ulimit -n)"
            ));
        }
        Ok(())
    }

    /// How many descriptors this process has open, at least approximately.
    fn open(&mut self) -> Option<u64> {
        if let Some(open) = open_fds() {
            return Some(open);
        }
        if self.counted.is_none() || self.starts >= RECOUNT_AFTER {
            (self.counted, self.starts) = (listed_fds(), 0);
        }
        self.starts += 1;
        self.counted.map(|counted| counted + u64::from(self.starts) * (FDS_PER_START + 1))
    }
}

/// The original soft limit, if it was raised: what started processes get.
pub(crate) fn original_limit() -> Option<u64> {
    ORIGINAL.get().copied()
}

/// Descriptors that are left to the embedding program, and to connections that have not been
/// authenticated.
fn spare(limit: u64) -> u64 {
    (limit / 32).clamp(1, 8)
}

/// The soft limit for so many descriptors: twice as many as needed, so that it is raised rarely.
fn raised(needed: u64, soft: u64, hard: u64) -> u64 {
    if needed + MARGIN <= soft { soft } else { (2 * (needed + MARGIN)).clamp(soft, hard.max(soft)) }
}

/// The number of open descriptors, where the system says it: Linux 6.2 and newer.
fn open_fds() -> Option<u64> {
    std::fs::metadata("/proc/self/fd").ok().map(|all| all.len()).filter(|open| *open > 0)
}

/// The number of open descriptors as they are listed.
fn listed_fds() -> Option<u64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as u64)
}

/// Names the limit in the message of a failure for lack of descriptors.
pub(super) fn with_limit(what: impl Display) -> String {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |limits| limits.0);
    format!("{what}: the limit of open files is {limit} (ulimit -n)")
}

/// Names file descriptors as the cause if an error is a lack of them.
pub(crate) fn explain(error: io::Error, needed: u64) -> io::Error {
    if error.raw_os_error() == Some(libc::EMFILE) {
        io::Error::other(format!("{}, and at least {needed} are needed", with_limit(error)))
    } else {
        error
    }
}

/// Whether this process, or the system, has no descriptor left.
pub(super) fn is_lack_of_fds(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_only_when_it_is_nearly_used_up_and_never_beyond_the_hard_one() {
        assert_eq!(raised(100, 1_024, 4_096), 1_024);
        assert_eq!(raised(1_000, 1_024, 4_096), 2_256);
        assert_eq!(raised(3_000, 2_256, 4_096), 4_096);
        assert_eq!(raised(4_000, 4_096, 4_096), 4_096);
    }

    #[test]
    fn descriptors_are_counted_by_either_means() {
        let listed = listed_fds().unwrap();
        assert!(listed >= 3);
        // Other tests open some at the same time.
        assert!(open_fds().is_none_or(|open| open.abs_diff(listed) < 500));
    }
}
