//! Notices that the program has closed descriptors that are not its own.
//!
//! A process that was released may do what daemons do, and close all descriptors that it does not know of. Their numbers are those of
//! other files then, into which nothing of ours may be written, and which it is not ours to close.
//!
//! ```text
//!   none --release--> holds --the program closes what it does not know--> adrift: nothing is touched any more, nothing is closed
//! ```
//!
//! So whoever is about to use a descriptor of a released process looks first whether the anchor is still there: a pipe of which nobody else
//! knows. A program that closes some of ours and leaves the anchor is not noticed.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::{Arc, OnceLock};

use super::sys::{close_number, duplicate, file_identity};

/// The place of an anchor, before and after it is there.
pub(crate) type SentinelSlot = Arc<OnceLock<FdSentinel>>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct FdSentinel {
    number: RawFd,
    /// No two files have the same at a time.
    file_identity: (u64, u64),
}

impl FdSentinel {
    pub(crate) fn new() -> io::Result<Self> {
        let (end, _) = io::pipe()?;
        // Above the numbers that programs expect things of.
        let number = duplicate(end.as_raw_fd())?.into_raw_fd();
        let file_identity = file_identity(number).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { number, file_identity })
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

/// Whether there was an anchor, and it is gone.
pub(crate) fn fds_were_closed(fd_sentinel: &SentinelSlot) -> bool {
    fd_sentinel.get().is_some_and(|fd_sentinel| !fd_sentinel.is_intact())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn who_closes_the_anchor_or_puts_another_file_there_is_adrift() {
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
