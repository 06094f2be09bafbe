//! The few calls to the operating system that nobody wraps safely.
#![allow(unsafe_code, reason = "this is where the operating system is met")]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// Writes without the signal that a pipe without readers sends, which would end the embedding program.
pub(super) fn write_without_sigpipe(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&pipe), Some(&mut before))?;
    let written = nix::unistd::write(fd, bytes).map_err(io::Error::from);
    if !before.contains(Signal::SIGPIPE) {
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: both pointers are to values that live through the call; no information is asked for.
            unsafe { libc::sigtimedwait(pipe.as_ref(), std::ptr::null_mut(), &none) };
        }
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    }
    written
}

/// Bytes that are mapped into this process, and that nobody can change.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes are never written while they are mapped, and the mapping belongs to nobody else.
unsafe impl Send for Mapping {}
// SAFETY: as above: they are only ever read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Of a file in memory that is sealed against everything: nobody can write to it or make it shorter.
    pub(super) fn of_sealed(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let length = usize::try_from(nix::sys::stat::fstat(fd)?.st_size).unwrap_or(0);
        if length == 0 {
            return Ok(Self { start: NonNull::dangling(), length });
        }
        // SAFETY: takes numbers, and maps where nothing is mapped.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        match NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Self { start, length }),
            None => Err(io::Error::last_os_error()),
        }
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped from there on as long as this value lives, and the seals of the file keep
        // them as they are.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: it was mapped by us, and nobody has a reference into it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

/// Reads into the room that is left in a vector, so much at most; a socket is told not to wait.
pub(super) fn read_into(
    fd: BorrowedFd<'_>,
    socket: bool,
    place: &mut Vec<u8>,
    most: usize,
) -> io::Result<usize> {
    let room = place.spare_capacity_mut();
    let most = most.min(room.len());
    let (fd, start) = (fd.as_raw_fd(), room.as_mut_ptr().cast());
    // SAFETY: from the pointer on there are so many bytes that belong to the vector, and nothing else is in them.
    let read = unsafe {
        if socket { libc::recv(fd, start, most, libc::MSG_DONTWAIT) } else { libc::read(fd, start, most) }
    };
    let count = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the system has written so many bytes there, and no more than there was room for.
    unsafe { place.set_len(place.len() + count) };
    Ok(count)
}

/// Reads from a socket without waiting, with the descriptors that are handed over; for each is said that it is not inherited.
pub(super) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8], loans: &mut Vec<OwnedFd>) -> nix::Result<usize> {
    let mut beside = nix::cmsg_space!([RawFd; 4]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let mut slices = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(fd.as_raw_fd(), &mut slices, Some(&mut beside), flags)?;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            // SAFETY: the system has made them for this process with this call, and told nobody else.
            loans.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    Ok(message.bytes)
}

/// How many bytes of a connection the other host has not said that it has.
pub(super) fn unacknowledged(fd: BorrowedFd<'_>) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the pointer is to a value of the type that this request writes, which lives through the call.
    let asked = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    // Of a connection that is no more, nothing is on its way.
    if asked == -1 { 0 } else { usize::try_from(count).unwrap_or(0) }
}

/// Sends this process a signal of any number.
pub(crate) fn signal_self(number: i32) {
    // SAFETY: takes and returns numbers; a number that is no signal is refused.
    unsafe { libc::kill(libc::getpid(), number) };
}

/// Kills this process, and what else is in its group if it is the first of it, as whoever was started by us is.
pub(crate) fn kill_group() {
    // SAFETY: take and return numbers.
    unsafe {
        if libc::getpgrp() == libc::getpid() {
            libc::kill(0, libc::SIGKILL);
        }
        libc::kill(libc::getpid(), libc::SIGKILL);
    }
}

/// Takes over a descriptor that this process has inherited, and keeps it from being inherited further. Nothing if
/// there is none of this number.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes and returns numbers; one that is not open is refused.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and whoever started this process has said that it is there for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A second descriptor, above those that programs expect things of, for what this number of our own refers to.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    duplicate_from(number, 10)
}

/// A second descriptor, of at least the number `least`, for what this number of our own refers to.
pub(super) fn duplicate_from(number: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes and returns numbers; one that is not open is refused.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, least) };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was made by this call.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor that is readable as long as one of these files is, which have to stay open.
pub(crate) fn combine_readable<'a>(files: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<OwnedFd> {
    // SAFETY: takes a number.
    let all = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if all == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was made by this call.
    let all = unsafe { OwnedFd::from_raw_fd(all) };
    for file in files {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: takes numbers, and an event that it copies.
        let added = unsafe {
            libc::epoll_ctl(all.as_raw_fd(), libc::EPOLL_CTL_ADD, file.as_raw_fd(), &raw mut event)
        };
        if added == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(all)
}

/// The device and number of the file that a descriptor of this number refers to, if there is one.
pub(crate) fn file_identity(number: RawFd) -> Option<(u64, u64)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: takes a number, and writes to a place that is there for it.
    let result = unsafe { libc::fstat(number, found.as_mut_ptr()) };
    // SAFETY: it was written.
    (result == 0).then(|| unsafe { found.assume_init() }).map(|found| (found.st_dev, found.st_ino))
}

/// Closes a descriptor that the caller knows to be his, and that nobody else closes.
pub(crate) fn close_number(number: RawFd) {
    // SAFETY: as this function says.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
}

/// Whether there is a descriptor of this number.
pub(crate) fn is_open(number: RawFd) -> bool {
    // SAFETY: takes and returns numbers; one that is not open is refused.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// Puts something else in the place of this descriptor, in one step.
pub(crate) fn replace(with: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers; what was there before belongs to nobody, as a standard stream does.
    if unsafe { libc::dup2(with.as_raw_fd(), number) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether this is the thread that the process began with.
pub(crate) fn is_main_thread() -> bool {
    // SAFETY: both only return numbers.
    unsafe { libc::gettid() == libc::getpid() }
}
