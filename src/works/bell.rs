//! Something that can be waited for with `poll`: readable while there is something to be had.
//!
//! A program that was released may have closed it with all descriptors that it does not know. Then it rings no more, and what has its
//! numbers is left alone.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::engine::sys::identity;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Bell {
    reader: PipeReader,
    writer: PipeWriter,
    /// Both ends are of the same pipe, and no two files have the same at a time.
    identity: Option<(u64, u64)>,
    rings: bool,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let identity = identity(reader.as_raw_fd());
        Ok(Self { reader, writer, identity, rings: false })
    }

    /// Whether there is something to be had.
    pub(crate) fn set(&mut self, rings: bool) {
        let end = if rings { self.writer.as_raw_fd() } else { self.reader.as_raw_fd() };
        if std::mem::replace(&mut self.rings, rings) == rings || identity(end) != self.identity {
            return;
        }
        // There is room for one byte, and it is there when it is read.
        let _ = if rings { self.writer.write(&[0]) } else { self.reader.read(&mut [0]) };
    }
}

impl AsFd for Bell {
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
        let mut bell = Bell::new().unwrap();
        bell.set(true);
        let (other, _writer) = io::pipe().unwrap();
        (&_writer).write_all(&[7]).unwrap();
        crate::engine::sys::replace(other.as_fd(), bell.reader.as_raw_fd()).unwrap();
        bell.set(false);
        let mut byte = [0];
        assert_eq!((&other).read(&mut byte).unwrap(), 1, "it is still there");
        assert_eq!(byte, [7]);
    }

    #[test]
    fn it_is_readable_as_long_as_there_is_something() {
        let mut bell = Bell::new().unwrap();
        let readable =
            |bell: &Bell| poll(&mut [PollFd::new(bell.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO);
        for rings in [false, true, true, false, false, true] {
            bell.set(rings);
            assert_eq!(readable(&bell), Ok(i32::from(rings)));
        }
    }
}
