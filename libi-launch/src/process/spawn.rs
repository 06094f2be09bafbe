//! Creates a process that shares this process's memory until it executes its program.
//!
//! `fork` copies the page tables of its caller, which takes long for a process with 20 GB of heap,
//! such as a debugger. Here the child borrows the parent's memory (`CLONE_VM`), on a stack of its
//! own, while the starting thread is suspended (`CLONE_VFORK`); `posix_spawn` does the same. This
//! has consequences:
//!
//! - The child allocates nothing, locks nothing, and calls nothing that does.
//! - It runs no signal handler of the parent: all signals are blocked before it is created, and it
//!   unblocks them when no handler is left.
//! - It can report which step failed, and why, by writing that into shared memory.
//! - Whatever delays the child, such as a file server that does not answer, delays the starting
//!   thread.
//!
//! Until it has executed its program, the child sends no signal when it ends. A failed start
//! therefore does not disturb a `SIGCHLD` handler or a `waitpid(-1)` of the embedding program.
//!
//! The child gets a copy of the descriptor table and closes what it is not given. Copying a long
//! table, such as that of a process with a thousand children, takes longer than all other steps.
//! The child then shares the table first and copies only the part that it needs.
//!
//! Under qemu's user mode and valgrind the child gets a copy of the memory after all. A failed step
//! then appears as a process that exited with status 127.
#![allow(unsafe_code, reason = "the operating system is met here, from both sides of a new process")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::error::Errno;
use super::exit::Signal;
use super::guardian;
use super::image::{CloseMethod, FdMove, Image};
use super::sys;

/// A process that has executed its program.
pub(super) struct Spawned {
    pub(super) pid: i32,
    /// Present if it was requested and the kernel knows pidfds.
    pub(super) pidfd: Option<OwnedFd>,
}

/// The operating system refused a step.
#[derive(Clone, Copy)]
pub(super) struct SpawnFailure {
    pub(super) at: SpawnStep,
    pub(super) errno: Errno,
}

/// The steps that can fail from here on.
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

/// Shared by parent and child: each sees the writes of the other.
struct Shared<'a> {
    image: &'a mut Image,
    parent: i32,
    /// The child still uses the parent's descriptor table and must not change it.
    borrows_descriptors: bool,
    failure: Option<SpawnFailure>,
}

/// A descriptor table counts as long if this number is in use. Of a long table, a child copies only
/// the part up to the highest number that it needs. A process with many children should keep its
/// own descriptors above this number, so that the descriptors it passes on are below.
pub const LONG_FD_TABLE: u16 = 512;

/// Starts the image. Returns when the program has been executed or a step has failed.
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
        // Some sandboxes and emulators know neither pidfds nor children without an exit signal.
        created = clone(&stack, libc::SIGCHLD, &mut shared);
    }
    drop(signals);
    let (pid, pidfd) = created.map_err(|errno| SpawnFailure { at: SpawnStep::Clone, errno })?;
    // SAFETY: the kernel has just created it for this call; nothing else owns it.
    let mut pidfd = (pidfd != -1).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    if shared.borrows_descriptors {
        pidfd = pidfd.map(aside);
    }
    match shared.failure {
        Some(failure) => {
            guardian::ended(pid);
            sys::collect_failed(pid);
            Err(failure)
        }
        None => Ok(Spawned { pid, pidfd }),
    }
}

/// Valgrind ends programs that share a descriptor table with a child.
fn is_under_valgrind() -> bool {
    const ITS_LIBRARY: &[u8] = b"vgpreload_";
    std::env::var_os("LD_PRELOAD").is_some_and(|list| {
        list.as_encoded_bytes().windows(ITS_LIBRARY.len()).any(|name| name == ITS_LIBRARY)
    })
}

/// Moves a descriptor beyond [`LONG_FD_TABLE`], if there is space.
fn aside(fd: OwnedFd) -> OwnedFd {
    // SAFETY: numbers.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, c_int::from(LONG_FD_TABLE)) };
    // SAFETY: created by this call; nothing else owns it.
    if moved == -1 { fd } else { unsafe { OwnedFd::from_raw_fd(moved) } }
}

fn clone(stack: &sys::Stack, flags: c_int, shared: &mut Shared<'_>) -> Result<(i32, RawFd), Errno> {
    let mut pidfd: RawFd = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | flags;
    // SAFETY: nothing else uses the child's stack. This thread is suspended until the child has
    // left this memory, so `shared` and all it refers to stay valid. The kernel writes a pidfd
    // through the fifth argument if one is requested.
    let pid = unsafe {
        libc::clone(child, stack.top(), flags, (&raw mut *shared).cast::<c_void>(), &raw mut pidfd)
    };
    if pid == -1 { Err(sys::last_error()) } else { Ok((pid, pidfd)) }
}

/// Entry point of the child. It ends here or in its program.
extern "C" fn child(shared: *mut c_void) -> c_int {
    // SAFETY: the pointer that `clone` was given; the parent does not touch it until the child has
    // left.
    let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
    if let Some(pipe) = shared.image.guardian {
        // SAFETY: takes nothing.
        let pid = unsafe { libc::getpid() }.to_ne_bytes();
        // SAFETY: bytes of this function. A guardian that does not hear of it cannot be helped.
        unsafe { libc::write(pipe, pid.as_ptr().cast(), pid.len()) };
    }
    let own = if shared.borrows_descriptors { own_descriptors(shared.image) } else { Ok(()) };
    let Err(failure) =
        own.and_then(|()| become_program(shared.image, shared.parent)).map(|never| match never {});
    shared.failure = Some(failure);
    // SAFETY: `_exit` ends the child without running the parent's exit handlers.
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
    close_others(&image.moves, image.close_method);
    if let Some(limit) = &image.open_files {
        // SAFETY: the limit outlives the call.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) }, SpawnStep::Limit)?;
    }
    if let Some(cwd) = &image.cwd {
        // SAFETY: a string with an end.
        check(unsafe { libc::chdir(cwd.as_ptr()) }, SpawnStep::Directory)?;
    }
    sys::set_signal_mask(0);
    // SAFETY: a NUL-terminated string, and two null-terminated tables of such strings, all owned by
    // the image.
    unsafe { libc::execve(image.path.as_ptr(), image.argv.as_ptr(), image.envp.as_ptr()) };
    Err(SpawnFailure { at: SpawnStep::Exec, errno: sys::last_error() })
}

fn check(result: c_int, at: SpawnStep) -> Result<c_int, SpawnFailure> {
    if result == -1 { Err(SpawnFailure { at, errno: sys::last_error() }) } else { Ok(result) }
}

/// `exec` keeps ignored signals ignored, and no handler may run once signals are unblocked.
fn reset_dispositions() {
    /// The layout of the kernel's `struct sigaction` depends on the architecture. On all of them,
    /// all zeros mean "default action, no flags, empty mask".
    static DEFAULT: [u64; 8] = [0; 8];
    for signal in 1..=Signal::LAST {
        // SAFETY: reads one `sigaction` and writes none. The call fails for SIGKILL and SIGSTOP,
        // which need no reset.
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
    // If the parent died before the call above, its death is never reported. A parent in another
    // PID namespace has ID 0.
    if now != parent && now != 0 {
        // SAFETY: ends the child; the parent is dead.
        unsafe { libc::_exit(127) };
    }
    Ok(())
}

/// Gives the child a descriptor table of its own, without the part beyond what it needs.
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
        // SAFETY: as above. `dup2` clears close-on-exec on the copy; a descriptor already at its
        // number has to be cleared explicitly.
        let result = unsafe {
            if step.from == to { libc::fcntl(to, libc::F_SETFD, 0) } else { libc::dup2(step.from, to) }
        };
        check(result, SpawnStep::Fd(step.to))?;
    }
    Ok(())
}

/// Closes every descriptor that is not a target of a move.
pub(super) fn close_others(moves: &[FdMove], method: CloseMethod) {
    if method <= CloseMethod::Range && close_gaps(moves).is_ok() {
        return;
    }
    if method <= CloseMethod::Listed && close_listed(moves).is_ok() {
        return;
    }
    // SAFETY: takes a number.
    let end = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    for fd in 0..c_int::try_from(end).unwrap_or(c_int::MAX) {
        close_other(moves, fd);
    }
}

fn close_gaps(moves: &[FdMove]) -> Result<(), ()> {
    let mut gap = 0;
    for place in moves.iter().map(|step| u32::from(step.to)) {
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

fn close_listed(moves: &[FdMove]) -> Result<(), ()> {
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
            return Ok(()); // exec closes the directory itself
        }
        // struct linux_dirent64: two 64-bit numbers, the 16-bit length of the entry, a byte, the
        // name.
        while let (Some(&[low, high]), Some(name)) = (rest.get(16..18), rest.get(19..)) {
            if let Some(fd) = number(name).filter(|&fd| fd != directory) {
                close_other(moves, fd);
            }
            rest = rest.get(usize::from(u16::from_ne_bytes([low, high]))..).unwrap_or_default();
        }
    }
}

/// Parses a name up to its NUL as a number.
fn number(name: &[u8]) -> Option<c_int> {
    let mut number: Option<c_int> = None;
    for digit in name.iter().take_while(|&&byte| byte != 0) {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(c_int::from(digit))?);
    }
    number
}

fn close_other(moves: &[FdMove], fd: c_int) {
    if !moves.iter().any(|step| c_int::from(step.to) == fd) {
        // SAFETY: the table is the child's own, and nothing in the child uses this descriptor.
        unsafe { libc::close(fd) };
    }
}
