//! System calls of the parent, each as a safe function.
//!
//! Only this module, [`spawn`](super::spawn) and [`guardian`](super::guardian) contain `unsafe` code.
#![allow(unsafe_code, reason = "the operating system is met here")]

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{AccessFlags, faccessat};

use super::error::Errno;
use super::exit::{ExitStatus, Signal};

/// Size of the kernel's signal set. It differs from libc's, which hides two signals that have to be
/// blocked and reset as well.
pub(super) const SIGSET: usize = size_of::<u64>();

const NO_FLAGS: c_int = 0;

/// Error of the call that has just failed.
pub(super) fn last_error() -> Errno {
    Errno::of(&std::io::Error::last_os_error())
}

fn checked(result: c_int) -> Result<c_int, Errno> {
    if result == -1 { Err(last_error()) } else { Ok(result) }
}

/// The system's text for an error.
pub(super) fn error_text(errno: i32) -> String {
    let mut text = [0u8; 256];
    // SAFETY: writes into the buffer, whose length is passed.
    let result = unsafe { libc::strerror_r(errno, text.as_mut_ptr().cast(), text.len()) };
    match CStr::from_bytes_until_nul(&text) {
        Ok(text) if result == 0 => text.to_string_lossy().into_owned(),
        _ => format!("error {errno}"),
    }
}

/// Identifies a child.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// The process of this pidfd, even if another process has its ID.
    Pidfd(BorrowedFd<'a>),
    /// The child that has this process ID.
    Pid(i32),
}

/// Whether waiting for an ended child collects its status.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitMode {
    /// The status stays: the child remains a zombie, and its process ID stays reserved.
    Leave,
    /// The status is collected: the child is gone.
    Collect,
}

/// How a child ended; `None` while it runs, `Unknown` if it is no longer a child of this process.
pub(super) fn exit_of(child: Target<'_>, status: WaitMode) -> Option<ExitStatus> {
    let (kind, id) = match child {
        Target::Pidfd(fd) => (libc::P_PIDFD, fd.as_raw_fd()),
        Target::Pid(pid) => (libc::P_PID, pid),
    };
    // Other errors are impossible: the arguments are valid, and pidfd support has been checked.
    wait(kind, id, status, libc::WNOHANG).unwrap_or(Some(ExitStatus::Unknown))
}

/// Waits for the end of a child without collecting its status.
pub(super) fn await_end(pid: i32) {
    // An error means that there is no such child.
    let _ = wait(libc::P_PID, pid, WaitMode::Leave, NO_FLAGS);
}

/// Returns whether the kernel, and any filter of its calls, supports waiting for a pidfd (Linux
/// 5.4). Then it also supports creating and polling them.
pub(super) fn knows_pidfds() -> bool {
    // No limit allows this number, so it is not open. A kernel without pidfds rejects the ID type
    // instead.
    wait(libc::P_PIDFD, RawFd::MAX, WaitMode::Leave, libc::WNOHANG) == Err(Errno(libc::EBADF))
}

fn wait(kind: libc::idtype_t, id: i32, status: WaitMode, flags: c_int) -> Result<Option<ExitStatus>, Errno> {
    let keep = if status == WaitMode::Leave { libc::WNOWAIT } else { NO_FLAGS };
    // SAFETY: all zeros are a `siginfo_t`, the one that says "nothing happened".
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: `info` outlives the call. Neither kind of number is negative.
        let result =
            unsafe { libc::waitid(kind, id as libc::id_t, &raw mut info, libc::WEXITED | keep | flags) };
        match checked(result) {
            Ok(_) => break,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    // SAFETY: `waitid` has filled in the fields for a child, or left the zeros.
    let (pid, what) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((pid != 0).then(|| match info.si_code {
        libc::CLD_EXITED => ExitStatus::Code(what),
        code => ExitStatus::Signal { signal: Signal::of_kernel(what), core_dumped: code == libc::CLD_DUMPED },
    }))
}

/// Collects a child that has reported a failed step and is exiting.
pub(super) fn collect_failed(pid: i32) {
    // SAFETY: no status is requested. `__WALL`, because such a child has no exit signal.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL) } == -1
        && last_error() == Errno(libc::EINTR)
    {}
}

/// Sends a signal to a process by its ID. The caller guarantees that the ID has not been reused.
pub(super) fn kill(pid: i32, signal: Signal) -> Result<(), Errno> {
    // SAFETY: takes two numbers.
    checked(unsafe { libc::kill(pid, signal.number()) }).map(drop)
}

/// Sends a signal to the process of a pidfd, or to its process group (Linux 6.9).
pub(super) fn pidfd_kill(pidfd: BorrowedFd<'_>, signal: Signal, group: bool) -> Result<(), Errno> {
    const GROUP: c_int = 1 << 2; // PIDFD_SIGNAL_PROCESS_GROUP
    let flags = if group { GROUP } else { NO_FLAGS };
    let info = ptr::null::<libc::siginfo_t>();
    // SAFETY: numbers, and no `siginfo_t`.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal.number(), info, flags)
    };
    checked(result as c_int).map(drop)
}

/// A pidfd of a process: the child with this ID, if it has not been waited for.
pub(super) fn pidfd_open(pid: i32) -> Option<OwnedFd> {
    // SAFETY: numbers. The kernel sets close-on-exec.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, NO_FLAGS) };
    // SAFETY: created by this call; nothing else owns it.
    RawFd::try_from(fd).ok().filter(|fd| *fd != -1).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the kernel tells of a process by its descriptor (`struct pidfd_info` of Linux 6.15).
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`: the exit status is asked for, or there.
const INFO_EXIT: u64 = 1 << 3;
/// `PIDFD_GET_INFO`, of 64 bytes.
const GET_INFO: libc::Ioctl = 0xC040_FF0B_u32 as libc::Ioctl;

/// The exit status of any process that has ended, as `wait` would tell it; `None` before its parent has
/// collected it, or if the system does not tell it to others.
pub(super) fn exit_status(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request is for a structure of this size, which lives until the call returns.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO, &raw mut info) };
    (result == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_code)
}

/// Waits until the descriptor is readable or the timeout expires; returns whether it is readable.
pub(super) fn await_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        // Rounded up, because a wait that ends too early would loop.
        let left = deadline.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
        let millis = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let is_readable =
            poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], millis).is_ok_and(|ready| ready > 0);
        if is_readable || left == 0 {
            return is_readable;
        }
    }
}

/// Returns whether this process has a descriptor of this number.
pub(super) fn is_open(fd: u16) -> bool {
    // SAFETY: takes numbers and changes nothing.
    unsafe { libc::fcntl(c_int::from(fd), libc::F_GETFD) != -1 }
}

/// Returns whether the effective user may execute the file.
pub(super) fn may_execute(file: &Path) -> bool {
    faccessat(AT_FDCWD, file, AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok()
}

/// The limit of open files with this soft limit, capped at the hard limit.
pub(super) fn open_files_limit(soft: u64) -> Result<libc::rlimit, Errno> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|errno| Errno(errno as i32))?;
    Ok(libc::rlimit { rlim_cur: soft.min(hard), rlim_max: hard })
}

/// Blocks all signals for this thread, and for threads and processes that it starts, until it is
/// dropped.
pub(super) struct SignalsBlocked {
    before: u64,
    /// A signal mask belongs to a thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl SignalsBlocked {
    pub(super) fn here() -> Self {
        Self { before: set_signal_mask(u64::MAX), _thread: std::marker::PhantomData }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        set_signal_mask(self.before);
    }
}

/// Sets the signal mask of this thread; returns the previous one.
pub(super) fn set_signal_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: two sets of the size that is passed. The call cannot fail with these arguments.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut before, SIGSET);
    }
    before
}

/// Stack of a child, with an inaccessible guard area below it.
pub(super) struct Stack {
    base: *mut c_void,
}

impl Stack {
    /// The child makes system calls and reads one directory; the dynamic loader may bind a symbol
    /// for it.
    const SIZE: usize = 128 << 10;

    pub(super) fn new() -> Result<Self, Errno> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory at any address.
        let base = unsafe { libc::mmap(ptr::null_mut(), Self::SIZE, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(last_error());
        }
        let stack = Self { base };
        // SAFETY: the lower half of the new mapping, which is not in use yet. 64 KiB are whole
        // pages on all systems.
        checked(unsafe { libc::mprotect(base, Self::SIZE / 2, libc::PROT_NONE) })?;
        Ok(stack)
    }

    /// The highest address; the stack grows down.
    pub(super) fn top(&self) -> *mut c_void {
        self.base.wrapping_byte_add(Self::SIZE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`. The child that used it has ended, or has memory of its own.
        unsafe { libc::munmap(self.base, Self::SIZE) };
    }
}
