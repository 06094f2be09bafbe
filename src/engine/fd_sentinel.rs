//! Detects that the program has closed descriptors of the library.
//!
//! A released process may close all descriptors it does not know, as daemons do. Their numbers are
//! then reused for other files, which the library must neither write to nor close. So may a member that
//! is about to end: it has not lost its parent by that, and its exit status remains its own.
//!
//! ```text
//!   none --release--> intact --the program closes unknown descriptors--> gone
//!   none --a link of a member fails, and that to its parent is not open any more--> gone
//!   none --epoll fails, and is not open any more--> gone
//!
//!   gone: no descriptor is used or closed any more
//! ```
//!
//! The sentinel is a pipe that is used for nothing else. Before a released process uses a
//! descriptor, it checks that the sentinel is intact. A program that closes some descriptors but
//! not the sentinel is not detected. Before it is released, a process has none: checks would cost each
//! call, and only failures are examined.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::{Arc, OnceLock};

use super::sys::{close_number, duplicate, file_identity};

/// Holds the sentinel once the process is released.
pub(crate) type SentinelSlot = Arc<OnceLock<FdSentinel>>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct FdSentinel {
    number: RawFd,
    /// The identity of the pipe. No other open file has it.
    file_identity: (u64, u64),
}

impl FdSentinel {
    pub(crate) fn new() -> io::Result<Self> {
        let (end, _) = io::pipe()?;
        // Above the numbers that programs expect to be assigned next.
        let number = duplicate(end.as_raw_fd())?.into_raw_fd();
        let file_identity = file_identity(number).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { number, file_identity })
    }

    /// The sentinel of a process that has closed its descriptors.
    fn gone() -> Self {
        Self { number: -1, file_identity: (0, 0) }
    }

    fn is_intact(&self) -> bool {
        file_identity(self.number) == Some(self.file_identity)
    }
}

impl Drop for FdSentinel {
    fn drop(&mut self) {
        if self.is_intact() {
            close_number(self.number);
        }
    }
}

/// Whether there was a sentinel and it is gone.
pub(crate) fn fds_were_closed(fd_sentinel: &SentinelSlot) -> bool {
    fd_sentinel.get().is_some_and(|fd_sentinel| !fd_sentinel.is_intact())
}

/// A descriptor of this number has failed. Returns whether that is because the program has closed it, and
/// remembers that.
pub(crate) fn was_closed(fd_sentinel: &SentinelSlot, number: RawFd) -> bool {
    let was_closed = file_identity(number).is_none();
    if was_closed {
        // One that is there tells the same.
        let _ = fd_sentinel.set(FdSentinel::gone());
    }
    was_closed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn only_a_failure_of_a_number_that_is_not_open_means_that_it_was_closed() {
        let fd_sentinel = SentinelSlot::default();
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!was_closed(&fd_sentinel, file.as_raw_fd()) && !fds_were_closed(&fd_sentinel));
        assert!(was_closed(&fd_sentinel, i32::MAX) && fds_were_closed(&fd_sentinel));
    }

    #[test]
    fn closing_or_replacing_the_sentinel_is_noticed() {
        let fd_sentinel = SentinelSlot::default();
        assert!(!fds_were_closed(&fd_sentinel));
        let number = fd_sentinel.get_or_init(|| FdSentinel::new().unwrap()).number;
        assert!(!fds_were_closed(&fd_sentinel));
        let other = std::fs::File::open("/dev/null").unwrap();
        crate::engine::sys::replace(other.as_fd(), number).unwrap();
        assert!(fds_were_closed(&fd_sentinel));
        drop(fd_sentinel);
        assert!(file_identity(number).is_some(), "what is not ours is not closed");
        close_number(number);
    }
}
