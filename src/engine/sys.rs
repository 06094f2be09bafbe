//! System calls for which no safe wrapper exists.
#![allow(unsafe_code, reason = "this is where the operating system is met")]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{Pid, getpgrp, getpid, gettid};
use socket2::SockRef;

/// Writes without raising SIGPIPE, which would end the embedding program.
pub(super) fn write_without_sigpipe(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&pipe), Some(&mut before))?;
    let written = nix::unistd::write(fd, bytes).map_err(io::Error::from);
    if !before.contains(Signal::SIGPIPE) {
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: both pointers refer to local variables; no information is requested.
            unsafe { libc::sigtimedwait(pipe.as_ref(), std::ptr::null_mut(), &none) };
        }
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    }
    written
}

/// A read-only mapping of bytes that no process can change.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes are never written while they are mapped, and only this value unmaps them.
unsafe impl Send for Mapping {}
// SAFETY: as above: they are only ever read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a memory file that is sealed against writing and shrinking.
    pub(super) fn of_sealed(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let length = usize::try_from(nix::sys::stat::fstat(fd)?.st_size).unwrap_or(0);
        if length == 0 {
            return Ok(Self { start: NonNull::dangling(), length });
        }
        Self::new(fd, length, libc::PROT_READ)
    }

    /// A mapping through which the file could be written, so that it cannot be sealed.
    #[cfg(test)]
    pub(super) fn that_could_write(fd: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        Self::new(fd, length, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn new(fd: BorrowedFd<'_>, length: usize, access: i32) -> io::Result<Self> {
        // SAFETY: passes numbers; the kernel chooses an unused address.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        match NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Self { start, length }),
            None => Err(io::Error::last_os_error()),
        }
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `length` bytes are mapped from `start` on while this value lives, and the seals
        // keep them unchanged.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: mapped by `of_sealed`; no reference into it is left.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

/// Reads at most `limit` bytes into the spare capacity of a vector. Sockets are read without
/// blocking.
pub(super) fn read_into(
    fd: BorrowedFd<'_>,
    socket: bool,
    place: &mut Vec<u8>,
    limit: usize,
) -> io::Result<usize> {
    let capacity = place.spare_capacity_mut();
    let limit = limit.min(capacity.len());
    let count = if socket {
        SockRef::from(&fd).recv_with_flags(&mut capacity[..limit], libc::MSG_DONTWAIT)?
    } else {
        // SAFETY: at least `limit` bytes of spare capacity of the vector are there.
        let read = unsafe { libc::read(fd.as_raw_fd(), capacity.as_mut_ptr().cast(), limit) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())?
    };
    // SAFETY: the kernel has initialised `count` bytes there, within the capacity.
    unsafe { place.set_len(place.len() + count) };
    Ok(count)
}

/// Reads from a socket without blocking, and takes descriptors sent with the bytes (close-on-exec).
pub(super) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8], loans: &mut Vec<OwnedFd>) -> nix::Result<usize> {
    let mut beside = nix::cmsg_space!([RawFd; 4]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let mut slices = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(fd.as_raw_fd(), &mut slices, Some(&mut beside), flags)?;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            // SAFETY: the kernel has created these descriptors for this process in this call.
            loans.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    Ok(message.bytes)
}

/// How many sent bytes the other host has not acknowledged.
pub(super) fn unacknowledged(fd: BorrowedFd<'_>) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the pointer refers to a local variable of the type that this request writes.
    let asked = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    // On an error the connection is gone and nothing is in flight.
    if asked == -1 { 0 } else { usize::try_from(count).unwrap_or(0) }
}

/// Clears the parent-death signal of this thread. A process has one if it is the thread that has it.
pub(crate) fn clear_parent_death_signal() -> nix::Result<()> {
    let none: Option<Signal> = None;
    nix::sys::prctl::set_pdeathsig(none)
}

/// Sends this process a signal of any number.
pub(crate) fn signal_self(number: i32) {
    // SAFETY: passes numbers; the kernel rejects an invalid signal.
    unsafe { libc::kill(libc::getpid(), number) };
}

/// Kills this process, and its process group if it is the leader, as every process started by libi
/// is.
pub(crate) fn kill_group() {
    // No error is possible: the process may signal itself and its group.
    if getpgrp() == getpid() {
        let _ = kill(Pid::from_raw(0), Signal::SIGKILL);
    }
    let _ = kill(getpid(), Signal::SIGKILL);
}

/// Takes ownership of an inherited descriptor and sets close-on-exec. Fails if it is not open.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: passes and returns numbers; the kernel rejects a closed descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and the parent process has passed it for this use.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Duplicates a descriptor to a number above those that programs expect to be assigned next.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    duplicate_from(number, 10)
}

/// Duplicates a descriptor to a number of at least `least`.
pub(super) fn duplicate_from(number: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: passes and returns numbers; the kernel rejects a closed descriptor.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, least) };
    if fd == -1 {
        let error = io::Error::last_os_error();
        // The limit of open files is not above `least`.
        let beyond_limit = error.raw_os_error() == Some(libc::EINVAL);
        return Err(if beyond_limit { io::Error::from_raw_os_error(libc::EMFILE) } else { error });
    }
    // SAFETY: created by this call.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor that is readable while one of these files is. The files have to stay open.
pub(crate) fn combine_readable<'a>(files: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<OwnedFd> {
    let all = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for file in files {
        all.add(file, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    }
    Ok(all.0)
}

/// The device and inode of the file behind a descriptor, if it is open.
pub(crate) fn file_identity(number: RawFd) -> Option<(u64, u64)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: passes a number and a pointer to a local variable.
    let result = unsafe { libc::fstat(number, found.as_mut_ptr()) };
    // SAFETY: `fstat` has initialised it.
    (result == 0).then(|| unsafe { found.assume_init() }).map(|found| (found.st_dev, found.st_ino))
}

/// The kind of the file behind a descriptor (`S_IFMT`), if it is open.
pub(crate) fn file_kind(number: RawFd) -> Option<u32> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: passes a number and a pointer to a local variable.
    let result = unsafe { libc::fstat(number, found.as_mut_ptr()) };
    // SAFETY: `fstat` has initialised it.
    (result == 0).then(|| unsafe { found.assume_init() }.st_mode & libc::S_IFMT)
}

/// A descriptor that the program may close against its owner. `OwnedFd` would then abort the process in
/// builds with checks.
#[derive(Debug)]
pub(super) struct RevocableFd(RawFd);

impl From<OwnedFd> for RevocableFd {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into_raw_fd())
    }
}

impl AsFd for RevocableFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: only dropping this value closes it. If the program does, calls fail with `EBADF`.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for RevocableFd {
    fn drop(&mut self) {
        // SAFETY: passes a number that this value owns; the kernel rejects a closed descriptor.
        unsafe { libc::close(self.0) };
    }
}

/// Closes a descriptor that the caller owns.
pub(crate) fn close_number(number: RawFd) {
    // SAFETY: required of the caller.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
}

/// Whether a descriptor of this number is open.
pub(crate) fn is_open(number: RawFd) -> bool {
    // SAFETY: passes and returns numbers; the kernel rejects a closed descriptor.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// Atomically replaces a descriptor by a duplicate of another one.
pub(crate) fn replace(with: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: passes numbers. The replaced descriptor has no owner in this program: it is a
    // standard stream.
    if unsafe { libc::dup2(with.as_raw_fd(), number) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Whether the calling thread is the main thread of the process.
pub(crate) fn is_main_thread() -> bool {
    gettid() == getpid()
}
