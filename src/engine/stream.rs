//! Reads and writes descriptors without blocking, without signals, and without changing their
//! flags.
//!
//! A process shares the files of its standard streams with its parent, which would notice if they
//! became non-blocking. So sockets are used with `MSG_DONTWAIT`, and pipes are polled first: a
//! readable or writable pipe takes one call of up to the size of an atomic write without blocking.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, recv, sendmsg};
use nix::sys::stat::{SFlag, fstat};
use socket2::SockRef;

use super::sys::{self, RevocableFd};

/// A writable pipe takes this many bytes at once.
const ATOMIC: usize = 4096;

/// A socket is written without blocking, and without SIGPIPE.
const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// One end of a link, or of a pipe.
#[derive(Debug)]
pub(crate) struct Stream {
    fd: RevocableFd,
    socket: bool,
    /// Descriptors received with the last reads, if they are accepted.
    loans: Option<RefCell<Vec<OwnedFd>>>,
}

impl Stream {
    /// Wraps a pipe or a socket.
    ///
    /// # Errors
    /// The descriptor is neither: it could not be polled, or not be closed from the other side.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let kind = SFlag::from_bits_truncate(fstat(&fd)?.st_mode) & SFlag::S_IFMT;
        if kind != SFlag::S_IFSOCK && kind != SFlag::S_IFIFO {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a pipe nor a socket"));
        }
        Ok(Self { socket: kind == SFlag::S_IFSOCK, fd: fd.into(), loans: None })
    }

    /// Wraps a pipe or a socket made by the library.
    pub(crate) fn ours(fd: OwnedFd, socket: bool) -> Self {
        Self { fd: fd.into(), socket, loans: None }
    }

    /// The same, and accepts descriptors sent by the other end.
    pub(crate) fn accepting_fds(self) -> Self {
        Self { loans: Some(RefCell::default()), ..self }
    }

    /// The same, and accepts no descriptors any more.
    pub(crate) fn refusing_fds(self) -> Self {
        Self { loans: None, ..self }
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.socket
    }

    pub(crate) fn number(&self) -> RawFd {
        self.fd.as_fd().as_raw_fd()
    }

    /// Reads what is available; 0 at the end.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = if let Some(loans) = &self.loans {
                sys::receive(self.fd.as_fd(), buffer, &mut loans.borrow_mut())
            } else if self.socket {
                recv(self.number(), buffer, MsgFlags::MSG_DONTWAIT)
            } else {
                self.check_ready(PollFlags::POLLIN)?;
                nix::unistd::read(&self.fd, buffer)
            };
            match read {
                Err(nix::Error::EINTR) => {}
                other => return other.map_err(io::Error::from),
            }
        }
    }

    /// Writes as much as possible without blocking.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = if self.socket {
                SockRef::from(&self.fd).send_with_flags(bytes, SEND_FLAGS)
            } else {
                self.check_ready(PollFlags::POLLOUT)?;
                sys::write_without_sigpipe(self.fd.as_fd(), &bytes[..bytes.len().min(ATOMIC)])
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Writes as much as possible of several pieces without blocking.
    pub(crate) fn write_pieces(&self, pieces: &[&[u8]]) -> io::Result<usize> {
        match pieces {
            [] => Ok(0),
            // A pipe takes one piece at a time.
            [first, ..] if !self.socket => self.write(first),
            [one] => self.write(one),
            _ => {
                let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                let socket = SockRef::from(&self.fd);
                loop {
                    match socket.send_vectored_with_flags(&slices, SEND_FLAGS) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        other => return other,
                    }
                }
            }
        }
    }

    /// Writes as much as possible without blocking, and sends a descriptor with it.
    pub(crate) fn lend(&self, pieces: &[&[u8]], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let (fds, none) = (fds.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>(), None::<&()>);
        loop {
            match sendmsg(self.number(), &slices, &[ControlMessage::ScmRights(&fds)], flags, none) {
                Err(nix::Error::EINTR) => {}
                other => return other.map_err(io::Error::from),
            }
        }
    }

    /// Takes the descriptors received with the last reads.
    pub(crate) fn take_fds(&self) -> Vec<OwnedFd> {
        self.loans.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// Appends at most `limit` bytes to the spare capacity of `place`; 0 at the end.
    pub(crate) fn read_into(&self, place: &mut Vec<u8>, limit: usize) -> io::Result<usize> {
        if self.loans.is_some() {
            let before = place.len();
            place.resize(before + limit.min(place.capacity() - before), 0);
            let read = self.read(&mut place[before..]);
            place.truncate(before + read.as_ref().map_or(0, |count| *count));
            return read;
        }
        loop {
            if !self.socket {
                self.check_ready(PollFlags::POLLIN)?;
            }
            match sys::read_into(self.fd.as_fd(), self.socket, place, limit) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Whether the other end has closed the connection and nothing is left to read.
    pub(crate) fn has_ended(&self) -> bool {
        match recv(self.number(), &mut [0], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error, nix::Error::EAGAIN | nix::Error::EINTR),
        }
    }

    /// Fails with `WouldBlock` if a call would block. An end counts as ready.
    fn check_ready(&self, what: PollFlags) -> io::Result<()> {
        let mut fds = [PollFd::new(self.fd.as_fd(), what)];
        match poll(&mut fds, PollTimeout::ZERO) {
            Ok(0) | Err(nix::Error::EINTR) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sys::{close_number, duplicate_from};

    #[test]
    fn a_program_that_closes_the_descriptor_of_a_link_is_not_aborted() {
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        // No other test is given this number.
        let stream = Stream::ours(duplicate_from(end.as_raw_fd(), 800).unwrap(), true);
        close_number(stream.number());
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        drop(stream);
    }
}
