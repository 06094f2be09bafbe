//! A descriptor for `poll` that is readable while results are available.
//!
//! A released program may have closed it together with all descriptors it does not know. From then
//! on the state is not signalled any more, and other files under the same numbers are left alone.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::engine::sys::file_identity;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ReadyFd {
    reader: PipeReader,
    writer: PipeWriter,
    /// The identity of the pipe, which both ends share and no other open file has.
    identity: Option<(u64, u64)>,
    ready: bool,
}

impl ReadyFd {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let identity = file_identity(reader.as_raw_fd());
        Ok(Self { reader, writer, identity, ready: false })
    }

    /// Makes the descriptor readable or not.
    pub(crate) fn set(&mut self, ready: bool) {
        let end = if ready { self.writer.as_raw_fd() } else { self.reader.as_raw_fd() };
        if std::mem::replace(&mut self.ready, ready) == ready || file_identity(end) != self.identity {
            return;
        }
        // The pipe holds at most one byte, so neither call blocks.
        let _ = if ready { self.writer.write(&[0]) } else { self.reader.read(&mut [0]) };
    }
}

impl AsFd for ReadyFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    fn a_file_that_has_its_number_is_left_alone() {
        let mut ready_fd = ReadyFd::new().unwrap();
        ready_fd.set(true);
        let (other, _writer) = io::pipe().unwrap();
        (&_writer).write_all(&[7]).unwrap();
        crate::engine::sys::replace(other.as_fd(), ready_fd.reader.as_raw_fd()).unwrap();
        ready_fd.set(false);
        let mut byte = [0];
        assert_eq!((&other).read(&mut byte).unwrap(), 1, "it is still there");
        assert_eq!(byte, [7]);
    }

    #[test]
    fn it_is_readable_as_long_as_there_is_something() {
        let mut ready_fd = ReadyFd::new().unwrap();
        let readable = |ready_fd: &ReadyFd| {
            poll(&mut [PollFd::new(ready_fd.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO)
        };
        for ready in [false, true, true, false, false, true] {
            ready_fd.set(ready);
            assert_eq!(readable(&ready_fd), Ok(i32::from(ready)));
        }
    }
}
