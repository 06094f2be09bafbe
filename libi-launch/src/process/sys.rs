//! The system calls of the parent's side, each as a safe function.
//!
//! Together with [`spawn`](super::spawn) the only `unsafe` code of this room.
#![allow(unsafe_code, reason = "the operating system is met here")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};

use super::error::Errno;
use super::exit::{ExitStatus, Signal};

/// Bytes of the kernel's set of signals, which is not libc's: libc hides two signals of its own, and these
/// have to be blocked and reset as well.
pub(super) const SIGSET: usize = size_of::<u64>();

const NO_FLAGS: c_int = 0;

/// The error of the call that has just failed.
pub(super) fn last_error() -> Errno {
    Errno::of(&std::io::Error::last_os_error())
}

fn checked(result: c_int) -> Result<c_int, Errno> {
    if result == -1 { Err(last_error()) } else { Ok(result) }
}

/// The system's words for an error.
pub(super) fn error_text(errno: i32) -> String {
    let mut text = [0u8; 256];
    // SAFETY: the buffer is ours, and its length is told.
    let result = unsafe { libc::strerror_r(errno, text.as_mut_ptr().cast(), text.len()) };
    match CStr::from_bytes_until_nul(&text) {
        Ok(text) if result == 0 => text.to_string_lossy().into_owned(),
        _ => format!("error {errno}"),
    }
}

/// The child that is meant.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// The process that this pidfd was made for, whoever has its number now.
    Pidfd(BorrowedFd<'a>),
    /// The child that has this number now.
    Pid(i32),
}

/// What becomes of the status of a child that has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitMode {
    /// It is left: the child stays a zombie, and its number stays its own.
    Leave,
    /// It is collected: the child is no more.
    Collect,
}

/// How this child ended; `None` while it runs, `Unknown` if it is no child of ours any more.
pub(super) fn exit_of(child: Target<'_>, status: WaitMode) -> Option<ExitStatus> {
    let (kind, id) = match child {
        Target::Pidfd(fd) => (libc::P_PIDFD, fd.as_raw_fd()),
        Target::Pid(pid) => (libc::P_PID, pid),
    };
    // No other error is possible: the arguments are right, and the system has been asked whether it knows pidfds.
    wait(kind, id, status, libc::WNOHANG).unwrap_or(Some(ExitStatus::Unknown))
}

/// Waits for the end of a child, whose status is left.
pub(super) fn await_end(pid: i32) {
    // An error says that there is nothing to wait for.
    let _ = wait(libc::P_PID, pid, WaitMode::Leave, NO_FLAGS);
}

/// Whether this kernel, and what filters calls to it, lets us wait for a pidfd (Linux 5.4). One that does can make
/// and poll them as well.
pub(super) fn knows_pidfds() -> bool {
    // No limit allows this number, so that it is not open. A kernel without pidfds finds fault with the kind.
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
    // SAFETY: `waitid` has filled in what it fills in for a child, or left the zeros.
    let (pid, what) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((pid != 0).then(|| match info.si_code {
        libc::CLD_EXITED => ExitStatus::Code(what),
        code => ExitStatus::Signal { signal: Signal::of_kernel(what), core_dumped: code == libc::CLD_DUMPED },
    }))
}

/// Collects a child that has reported its failure before it executed a program and is exiting.
pub(super) fn collect_failed(pid: i32) {
    // SAFETY: no status is asked for. `__WALL`, because such a child announces its end by no signal.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL) } == -1
        && last_error() == Errno(libc::EINTR)
    {}
}

/// Sends a signal to a process by its number. The caller knows that the number is still its own.
pub(super) fn kill(pid: i32, signal: Signal) -> Result<(), Errno> {
    // SAFETY: takes two numbers.
    checked(unsafe { libc::kill(pid, signal.number()) }).map(drop)
}

/// Sends a signal to the process of a pidfd, or to the group that is called after it (Linux 6.9).
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

/// Waits until there is something to read, or the time is over; says which.
pub(super) fn await_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        // Rounded up: a wait that ends a little early would turn round again and again.
        let left = deadline.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
        let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which outlives the call.
        let result = unsafe { libc::poll(&raw mut polled, 1, c_int::try_from(left).unwrap_or(c_int::MAX)) };
        if result > 0 || left == 0 {
            return result > 0;
        }
    }
}

/// Whether we have a descriptor of this number.
pub(super) fn is_open(fd: u16) -> bool {
    // SAFETY: takes numbers, changes nothing.
    unsafe { libc::fcntl(c_int::from(fd), libc::F_GETFD) != -1 }
}

/// Whether the user that counts for `exec` may execute this.
pub(super) fn may_execute(file: &Path) -> bool {
    let Ok(file) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: a string with an end, which outlives the call.
    unsafe { libc::faccessat(libc::AT_FDCWD, file.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
}

/// Our limit of open files with this soft limit, or with the hard one if that is lower.
pub(super) fn open_files_limit(soft: u64) -> Result<libc::rlimit, Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place for the result outlives the call.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    let soft = libc::rlim_t::try_from(soft).unwrap_or(libc::RLIM_INFINITY);
    limit.rlim_cur = soft.min(limit.rlim_max);
    Ok(limit)
}

/// While this lives, its thread gets no signals, and neither does a thread or process that it starts.
pub(super) struct SignalsBlocked {
    before: u64,
    /// A mask belongs to a thread.
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

/// Changes the mask of this thread; returns the one before.
pub(super) fn set_signal_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: two sets of the size that is told. The call cannot fail with these arguments.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut before, SIGSET);
    }
    before
}

/// Memory for the stack of a child, with a page below it that nothing may touch.
pub(super) struct Stack {
    base: *mut c_void,
}

impl Stack {
    /// The child makes system calls and reads one directory; the dynamic loader may bind a symbol for it.
    const SIZE: usize = 128 << 10;

    pub(super) fn new() -> Result<Self, Errno> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, at no particular place.
        let base = unsafe { libc::mmap(ptr::null_mut(), Self::SIZE, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(last_error());
        }
        let stack = Self { base };
        // SAFETY: the lowest page of what has just been mapped; nobody uses it. 64 KiB are whole pages everywhere.
        checked(unsafe { libc::mprotect(base, Self::SIZE / 2, libc::PROT_NONE) })?;
        Ok(stack)
    }

    /// Where it begins; it grows down.
    pub(super) fn top(&self) -> *mut c_void {
        self.base.wrapping_byte_add(Self::SIZE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; the child that used it has ended, or has a memory of its own.
        unsafe { libc::munmap(self.base, Self::SIZE) };
    }
}
