//! Creates a process that shares our memory until it executes its program.
//!
//! `fork` copies the page tables of its caller: a debugger with 20 GB of heap waits long for each. Here the child
//! borrows our memory (`CLONE_VM`), on a stack of its own, while the thread that starts it is suspended
//! (`CLONE_VFORK`); so does `posix_spawn`. Because it borrows it,
//!
//! - it allocates nothing, locks nothing, and calls nothing that does;
//! - it runs none of our signal handlers: all signals are blocked before it is created, and unblocked by it when no
//!   handler is left;
//! - it can say which step failed, and why, by writing it down for us;
//! - whatever holds it up (a file server that does not answer, asked for its directory or program) holds up
//!   the thread that starts it.
//!
//! Until it has executed its program it announces its end by no signal, so that a start that fails does not disturb
//! a `SIGCHLD` handler or a `waitpid(-1)` of the program that embeds us.
//!
//! The table of descriptors is copied for the child, which closes what it is not given. Where it is long, as in whoever
//! has started a thousand others, that takes longer than everything else; then the child borrows it as well, and copies
//! the part of it that it needs.
//!
//! Under qemu's user mode and valgrind the child gets a copy of our memory after all. Then a step that failed
//! appears as a process that exited with status 127.
#![allow(unsafe_code, reason = "the operating system is met here, from both sides of a new process")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::error::Errno;
use super::exit::Signal;
use super::image::{CloseMethod, Image};
use super::sys;

/// A process that has executed its program.
pub(super) struct Spawned {
    pub(super) pid: i32,
    /// If one was asked for and the kernel knows them.
    pub(super) pidfd: Option<OwnedFd>,
}

/// A step that the system refused.
#[derive(Clone, Copy)]
pub(super) struct SpawnFailure {
    pub(super) at: SpawnStep,
    pub(super) errno: Errno,
}

/// Where a start can fail from here on.
#[derive(Clone, Copy)]
pub(super) enum SpawnStep {
    Stack,
    Clone,
    DeathSignal,
    Group,
    Fd(u16),
    Limit,
    Directory,
    Exec,
}

/// What parent and child share: both see every write of the other.
struct Shared<'a> {
    image: &'a mut Image,
    parent: i32,
    /// The table of descriptors is the parent's, and not to be changed.
    borrows_descriptors: bool,
    failure: Option<SpawnFailure>,
}

/// A table of descriptors in which this number is taken is long. Of a long table, a process that is started copies only
/// the part up to what it is given: who starts many gives them descriptors below this number, by keeping his own above.
pub const LONG_FD_TABLE: u16 = 512;

/// Starts this, and returns when the program has been executed or a step has failed.
pub(super) fn spawn(image: &mut Image, want_pidfd: bool) -> Result<Spawned, SpawnFailure> {
    let stack = sys::Stack::new().map_err(|errno| SpawnFailure { at: SpawnStep::Stack, errno })?;
    let parent = std::process::id().cast_signed();
    let mut shared = Shared {
        image,
        parent,
        borrows_descriptors: sys::is_open(LONG_FD_TABLE) && !is_under_valgrind(),
        failure: None,
    };
    let signals = sys::SignalsBlocked::here();
    let wish = if want_pidfd { libc::CLONE_PIDFD } else { 0 };
    let borrow = if shared.borrows_descriptors { libc::CLONE_FILES } else { 0 };
    let mut created = clone(&stack, wish | borrow, &mut shared);
    if created == Err(Errno(libc::EINVAL)) {
        shared.borrows_descriptors = false;
        // Some sandboxes and emulators know neither pidfds nor children without a signal.
        created = clone(&stack, libc::SIGCHLD, &mut shared);
    }
    drop(signals);
    let (pid, pidfd) = created.map_err(|errno| SpawnFailure { at: SpawnStep::Clone, errno })?;
    // SAFETY: the kernel has made it for us, and nobody else knows of it.
    let mut pidfd = (pidfd != -1).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    if shared.borrows_descriptors {
        pidfd = pidfd.map(aside);
    }
    match shared.failure {
        Some(failure) => {
            sys::collect_failed(pid);
            Err(failure)
        }
        None => Ok(Spawned { pid, pidfd }),
    }
}

/// Valgrind ends programs that share a table of descriptors with a child.
fn is_under_valgrind() -> bool {
    const ITS_LIBRARY: &[u8] = b"vgpreload_";
    std::env::var_os("LD_PRELOAD").is_some_and(|list| {
        list.as_encoded_bytes().windows(ITS_LIBRARY.len()).any(|name| name == ITS_LIBRARY)
    })
}

/// Moves a descriptor into the long part of the table, if there is room.
fn aside(fd: OwnedFd) -> OwnedFd {
    // SAFETY: numbers.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, c_int::from(LONG_FD_TABLE)) };
    // SAFETY: made by this call, so that nobody else knows of it.
    if moved == -1 { fd } else { unsafe { OwnedFd::from_raw_fd(moved) } }
}

fn clone(stack: &sys::Stack, flags: c_int, shared: &mut Shared<'_>) -> Result<(i32, RawFd), Errno> {
    let mut pidfd: RawFd = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | flags;
    // SAFETY: the child runs on a stack that nobody else uses, and this thread does not go on, so that `shared` and
    // all it refers to stay as they are, until the child has left our memory. The kernel writes a pidfd to
    // the place that the fifth argument names, if it is asked for one.
    let pid = unsafe {
        libc::clone(child, stack.top(), flags, (&raw mut *shared).cast::<c_void>(), &raw mut pidfd)
    };
    if pid == -1 { Err(sys::last_error()) } else { Ok((pid, pidfd)) }
}

/// The child begins here, and ends here or in its program.
extern "C" fn child(shared: *mut c_void) -> c_int {
    // SAFETY: what `clone` was given; the parent does not touch it before we have gone.
    let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
    let own = if shared.borrows_descriptors { own_descriptors(shared.image) } else { Ok(()) };
    let Err(failure) =
        own.and_then(|()| become_program(shared.image, shared.parent)).map(|never| match never {});
    shared.failure = Some(failure);
    // SAFETY: ends the child without a look at what belongs to the parent.
    unsafe { libc::_exit(127) }
}

fn become_program(image: &mut Image, parent: i32) -> Result<std::convert::Infallible, SpawnFailure> {
    reset_dispositions();
    if let Some(signal) = image.death_signal {
        die_with_parent(signal, parent)?;
    }
    if image.own_group {
        // SAFETY: numbers.
        check(unsafe { libc::setpgid(0, 0) }, SpawnStep::Group)?;
    }
    move_descriptors(image)?;
    close_others(image);
    if let Some(limit) = &image.open_files {
        // SAFETY: the limit outlives the call.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) }, SpawnStep::Limit)?;
    }
    if let Some(cwd) = &image.cwd {
        // SAFETY: a string with an end.
        check(unsafe { libc::chdir(cwd.as_ptr()) }, SpawnStep::Directory)?;
    }
    sys::set_signal_mask(0);
    // SAFETY: a string with an end, and two tables of such strings with an end, all of them kept by the image.
    unsafe { libc::execve(image.path.as_ptr(), image.argv.as_ptr(), image.envp.as_ptr()) };
    Err(SpawnFailure { at: SpawnStep::Exec, errno: sys::last_error() })
}

fn check(result: c_int, at: SpawnStep) -> Result<c_int, SpawnFailure> {
    if result == -1 { Err(SpawnFailure { at, errno: sys::last_error() }) } else { Ok(result) }
}

/// `exec` would keep what is ignored; and no handler may run when signals are unblocked.
fn reset_dispositions() {
    /// The kernel's `struct sigaction` has another layout on each architecture, and is all zeros for "default,
    /// no flags, nothing masked" on all of them.
    static DEFAULT: [u64; 8] = [0; 8];
    for signal in 1..=Signal::LAST {
        // SAFETY: a `sigaction` that is read, none that is written. For SIGKILL and SIGSTOP the call fails, which
        // is as well.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                ptr::null_mut::<c_void>(),
                sys::SIGSET,
            );
        }
    }
}

fn die_with_parent(signal: c_int, parent: i32) -> Result<(), SpawnFailure> {
    // SAFETY: numbers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) }, SpawnStep::DeathSignal)?;
    // SAFETY: takes nothing.
    let now = unsafe { libc::getppid() };
    // A parent that died before the call above will never be reported. Zero is a parent in another pid namespace.
    if now != parent && now != 0 {
        // SAFETY: ends the child; nobody is left to be told.
        unsafe { libc::_exit(127) };
    }
    Ok(())
}

/// Makes the table of descriptors the child's own: of what lies behind the last that it needs, nothing is copied.
fn own_descriptors(image: &Image) -> Result<(), SpawnFailure> {
    let needed = image.moves.iter().map(|step| step.from.max(c_int::from(step.to))).max().unwrap_or(-1);
    let behind = needed.cast_unsigned().wrapping_add(1);
    if image.close_method <= CloseMethod::Range
        && close_range(behind, u32::MAX, libc::CLOSE_RANGE_UNSHARE).is_ok()
    {
        return Ok(());
    }
    // SAFETY: a number.
    check(unsafe { libc::unshare(libc::CLONE_FILES) }, SpawnStep::Clone).map(drop)
}

fn move_descriptors(image: &mut Image) -> Result<(), SpawnFailure> {
    let above = image.moves.last().map_or(0, |last| c_int::from(last.to) + 1);
    for step in image.moves.iter_mut().filter(|step| step.aside) {
        // SAFETY: numbers; the table of descriptors is the child's own.
        let copy = unsafe { libc::fcntl(step.from, libc::F_DUPFD_CLOEXEC, above) };
        step.from = check(copy, SpawnStep::Fd(step.to))?;
    }
    for step in &image.moves {
        let to = c_int::from(step.to);
        // SAFETY: as above. `dup2` gives a descriptor that `exec` keeps; one in its place already becomes one.
        let result = unsafe {
            if step.from == to { libc::fcntl(to, libc::F_SETFD, 0) } else { libc::dup2(step.from, to) }
        };
        check(result, SpawnStep::Fd(step.to))?;
    }
    Ok(())
}

/// Closes every descriptor that is nobody's place.
fn close_others(image: &Image) {
    if image.close_method <= CloseMethod::Range && close_gaps(image).is_ok() {
        return;
    }
    if image.close_method <= CloseMethod::Listed && close_listed(image).is_ok() {
        return;
    }
    // SAFETY: takes a number.
    let end = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    for fd in 0..c_int::try_from(end).unwrap_or(c_int::MAX) {
        close_other(image, fd);
    }
}

fn close_gaps(image: &Image) -> Result<(), ()> {
    let mut gap = 0;
    for place in image.moves.iter().map(|step| u32::from(step.to)) {
        if place > gap {
            close_range(gap, place - 1, 0)?;
        }
        gap = place + 1;
    }
    close_range(gap, u32::MAX, 0)
}

fn close_range(first: u32, last: u32, flags: u32) -> Result<(), ()> {
    // SAFETY: numbers; the table of descriptors is the child's own, or becomes that.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result == 0 { Ok(()) } else { Err(()) }
}

fn close_listed(image: &Image) -> Result<(), ()> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: a string with an end.
    let directory = unsafe { libc::open(c"/proc/self/fd".as_ptr(), flags) };
    if directory == -1 {
        return Err(());
    }
    let mut entries = [0u8; 2048];
    loop {
        // SAFETY: the kernel writes no more than it is told there is room for.
        let read =
            unsafe { libc::syscall(libc::SYS_getdents64, directory, entries.as_mut_ptr(), entries.len()) };
        let Some(mut rest) = usize::try_from(read).ok().and_then(|read| entries.get(..read)) else {
            return Err(());
        };
        if rest.is_empty() {
            return Ok(()); // the directory itself is closed by exec
        }
        // struct linux_dirent64: two 64-bit numbers, the 16-bit length of the entry, a byte, the name.
        while let (Some(&[low, high]), Some(name)) = (rest.get(16..18), rest.get(19..)) {
            if let Some(fd) = number(name).filter(|&fd| fd != directory) {
                close_other(image, fd);
            }
            rest = rest.get(usize::from(u16::from_ne_bytes([low, high]))..).unwrap_or_default();
        }
    }
}

/// The number that a name is, up to its NUL.
fn number(name: &[u8]) -> Option<c_int> {
    let mut number: Option<c_int> = None;
    for digit in name.iter().take_while(|&&byte| byte != 0) {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(c_int::from(digit))?);
    }
    number
}

fn close_other(image: &Image, fd: c_int) {
    if !image.moves.iter().any(|step| c_int::from(step.to) == fd) {
        // SAFETY: the child's own table; nothing in the child uses this one.
        unsafe { libc::close(fd) };
    }
}
