//! Reads and writes descriptors without waiting, without signals, and without changing them.
//!
//! A process shares what its standard streams refer to with whoever started it: to make that non-blocking would be
//! noticed there. So a socket is told with every call not to wait, and a pipe is asked first: one that is readable
//! or writable takes one call of up to the size of an atomic write without waiting.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg};
use nix::sys::stat::{SFlag, fstat};

use super::sys;

/// What can always be written in one piece to a pipe that is writable.
const ATOMIC: usize = 4096;

/// One end of a link, or of a pipe.
#[derive(Debug)]
pub(crate) struct Stream {
    fd: OwnedFd,
    socket: bool,
    /// Descriptors that came with what was read, if any are taken.
    loans: Option<RefCell<Vec<OwnedFd>>>,
}

impl Stream {
    /// Of a pipe or a socket.
    ///
    /// # Errors
    /// It is neither: it could neither be waited for nor closed from the other side.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let kind = SFlag::from_bits_truncate(fstat(&fd)?.st_mode) & SFlag::S_IFMT;
        if kind != SFlag::S_IFSOCK && kind != SFlag::S_IFIFO {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a pipe nor a socket"));
        }
        Ok(Self { socket: kind == SFlag::S_IFSOCK, fd, loans: None })
    }

    /// Of a pipe or a socket that we have made.
    pub(crate) fn ours(fd: OwnedFd, socket: bool) -> Self {
        Self { fd, socket, loans: None }
    }

    /// The same, with descriptors taken that whoever is at the other end hands over.
    pub(crate) fn accepting_fds(self) -> Self {
        Self { loans: Some(RefCell::default()), ..self }
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.socket
    }

    pub(crate) fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Reads what is there; nothing at the end.
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

    /// Writes as much as goes without waiting.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = if self.socket {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                send(self.number(), bytes, flags).map_err(io::Error::from)
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

    /// Writes as much as goes without waiting of what these are together.
    pub(crate) fn write_pieces(&self, pieces: &[&[u8]]) -> io::Result<usize> {
        match pieces {
            [] => Ok(0),
            // A pipe takes little at a time anyway.
            [first, ..] if !self.socket => self.write(first),
            [one] => self.write(one),
            _ => {
                let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                loop {
                    match sendmsg::<()>(self.number(), &slices, &[], flags, None) {
                        Err(nix::Error::EINTR) => {}
                        other => return other.map_err(io::Error::from),
                    }
                }
            }
        }
    }

    /// Writes as much as goes without waiting, and hands a descriptor over with it.
    pub(crate) fn lend(&self, pieces: &[&[u8]], fd: BorrowedFd<'_>) -> io::Result<usize> {
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let (fds, none) = ([fd.as_raw_fd()], None::<&()>);
        loop {
            match sendmsg(self.number(), &slices, &[ControlMessage::ScmRights(&fds)], flags, none) {
                Err(nix::Error::EINTR) => {}
                other => return other.map_err(io::Error::from),
            }
        }
    }

    /// What has been handed over with what was read.
    pub(crate) fn take_fds(&self) -> Vec<OwnedFd> {
        self.loans.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// Reads what is there, and appends it, as far as there is room and it is no more than this; nothing at the end.
    pub(crate) fn read_into(&self, place: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        if self.loans.is_some() {
            let before = place.len();
            place.resize(before + most.min(place.capacity() - before), 0);
            let read = self.read(&mut place[before..]);
            place.truncate(before + read.as_ref().map_or(0, |count| *count));
            return read;
        }
        loop {
            if !self.socket {
                self.check_ready(PollFlags::POLLIN)?;
            }
            match sys::read_into(self.fd.as_fd(), self.socket, place, most) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Whether the other side of a connection has ended it, and nothing is left to be read.
    pub(crate) fn has_ended(&self) -> bool {
        match recv(self.number(), &mut [0], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error, nix::Error::EAGAIN | nix::Error::EINTR),
        }
    }

    /// Whether a call would not have to wait; an end is no reason to wait.
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
