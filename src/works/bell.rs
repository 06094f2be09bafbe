//! Something that can be waited for with `poll`: readable while there is something to be had.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Bell {
    reader: PipeReader,
    writer: PipeWriter,
    rings: bool,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer, rings: false })
    }

    /// Whether there is something to be had.
    pub(crate) fn set(&mut self, rings: bool) {
        if std::mem::replace(&mut self.rings, rings) == rings {
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
