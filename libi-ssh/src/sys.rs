//! Sockets that carry messages with descriptors, for which no safe wrapper exists.
#![allow(unsafe_code, reason = "the operating system is met here")]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockType, getsockopt, recvmsg, sockopt};
use nix::unistd::dup;
use tokio::io::unix::AsyncFd;

/// The most descriptors of a message.
const MOST_FDS: usize = 8;

/// The socket that the launching process has left here; `None` if it is none.
pub(crate) fn inherited_socket(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: it is only looked at in these calls, which report a number that is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let kind = getsockopt(&inherited, sockopt::SockType).ok()?;
    (kind == SockType::SeqPacket).then(|| dup(inherited).ok()).flatten().inspect(|_| {
        // SAFETY: the number was inherited; nothing else in this process owns it.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    })
}

/// Watches a descriptor in the loop of this process.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the value owns the descriptor, which stays open and the same as long as it is watched.
    unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)
}

/// Receives a message without waiting, and its descriptors (close-on-exec). A message that is longer than
/// the buffer is an error.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut beside = nix::cmsg_space!([RawFd; MOST_FDS]);
    let mut slices = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(fd.as_raw_fd(), &mut slices, Some(&mut beside), flags)?;
    let mut fds = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            // SAFETY: the kernel has created these descriptors for this process in this call.
            fds.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((message.bytes, fds))
}
