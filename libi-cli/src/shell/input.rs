//! Lines of standard input, read only while one is awaited: what follows stays where it is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Input {
    begun: Vec<u8>,
    is_over: bool,
}

/// How much is read at once.
const CHUNK: usize = 4 << 10;

impl Input {
    /// The descriptor that is readable when there is more.
    pub(super) fn descriptor(stdin: &io::Stdin) -> BorrowedFd<'_> {
        stdin.as_fd()
    }

    /// A line that has been read already: `None` if there is none, the last one also without its end.
    pub(super) fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.begun.iter().position(|byte| *byte == b'\n');
        match end {
            Some(end) => Some(self.begun.drain(..=end).collect()),
            None if self.is_over && !self.begun.is_empty() => Some(std::mem::take(&mut self.begun)),
            None => None,
        }
    }

    /// Whether no line follows.
    pub(super) fn is_over(&self) -> bool {
        self.is_over && self.begun.is_empty()
    }

    /// Reads once. Does not block if the descriptor is readable.
    pub(super) fn read(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let before = self.begun.len();
        self.begun.resize(before + CHUNK, 0);
        let read = nix::unistd::read(fd, &mut self.begun[before..]);
        self.begun.truncate(before + read.unwrap_or(0));
        match read {
            Ok(0) => self.is_over = true,
            Ok(_) | Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_are_taken_one_by_one_and_the_last_needs_no_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut input = Input::default();
        writer.write_all(b"one\ntwo\nthr").unwrap();
        input.read(reader.as_fd()).unwrap();
        assert_eq!(input.line().as_deref(), Some(&b"one\n"[..]));
        assert_eq!(input.line().as_deref(), Some(&b"two\n"[..]));
        assert_eq!(input.line(), None);
        writer.write_all(b"ee").unwrap();
        drop(writer);
        input.read(reader.as_fd()).unwrap();
        assert!(input.line().is_none() && !input.is_over());
        input.read(reader.as_fd()).unwrap();
        assert_eq!(input.line().as_deref(), Some(&b"three"[..]));
        assert!(input.line().is_none() && input.is_over());
    }
}
