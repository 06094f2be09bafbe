//! The operating system: each call as a safe function. The only `unsafe` code of the program.
#![allow(unsafe_code, reason = "the operating system is met here")]

use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Add;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::ptr;
use std::time::Duration;

/// The status of a shell that failed itself, as ssh's.
pub(crate) const FAILED: u8 = 255;

/// A time of the monotonic clock, which all processes share, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

pub(crate) fn now() -> Moment {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the clock exists on every Linux, so that the call fills in the time.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    Moment(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

pub(crate) fn sleep_until(moment: Moment) {
    let (seconds, nanos) = (moment.0 / 1_000_000_000, moment.0 % 1_000_000_000);
    let time = libc::timespec { tv_sec: seconds.cast_signed(), tv_nsec: nanos.cast_signed() };
    // SAFETY: the time is ours. It is absolute, so that an interrupted sleep is resumed by asking
    // again.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, ptr::null_mut())
    } == libc::EINTR
    {}
}

/// Waits until then, or until the other ends of these streams are closed. A stream that has no
/// other end, such as a file, does not count; if none has, only time ends the wait.
pub(crate) fn sleep_unless_abandoned(streams: [BorrowedFd<'_>; 2], until: Moment) -> io::Result<()> {
    let mut watched = Vec::with_capacity(streams.len());
    for stream in streams {
        let kind = File::from(stream.try_clone_to_owned()?).metadata()?.file_type();
        if kind.is_fifo() || kind.is_socket() {
            watched.push(libc::pollfd { fd: stream.as_raw_fd(), events: 0, revents: 0 });
        }
    }
    let endless = watched.is_empty();
    loop {
        let left = until.0.saturating_sub(now().0);
        if left == 0 || (watched.is_empty() && !endless) {
            return Ok(());
        }
        let timeout = c_int::try_from(left.div_ceil(1_000_000)).unwrap_or(c_int::MAX);
        // SAFETY: pointer and count are those of the vector.
        unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, timeout) };
        // After a failure (a signal) nothing has been filled in: what is there is from before, that
        // is, nothing.
        watched.retain(|stream| stream.revents == 0);
    }
}

/// Lets the signals that would end ssh end this process with ssh's status; those that are ignored
/// stay so. Children are waited for, whatever was inherited.
pub(crate) fn end_on_signals() {
    extern "C" fn end(_: c_int) {
        // SAFETY: nothing is run but the system call, which a signal handler may make.
        unsafe { libc::_exit(c_int::from(FAILED)) }
    }
    let handler: extern "C" fn(c_int) = end;
    // SAFETY: the handler makes no call that a handler may not make, and the signals exist.
    unsafe {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            if libc::signal(signal, handler as libc::sighandler_t) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// From now on children leave no zombies, including those that have ended.
pub(crate) fn leave_children() {
    // SAFETY: no handler and no memory is involved.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        while libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) > 0 {}
    }
}

/// Sets a variable for the processes that are started. To be called before there are threads.
pub(crate) fn set_variable(name: &CStr, value: &CStr) -> io::Result<()> {
    // SAFETY: both are strings, which are copied; there is no other thread that could read the
    // environment.
    checked(unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) }).map(drop)
}

/// Starts a program as a remote daemon would: in a session of its own, with no signal ignored or
/// blocked, and with no descriptor but the three streams. A stream that is not given is inherited.
pub(crate) fn spawn(words: &[&CStr], streams: [Option<BorrowedFd<'_>>; 3]) -> io::Result<i32> {
    unsafe extern "C" {
        static environ: *const *mut c_char;
    }
    let mut arguments: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    arguments.push(ptr::null_mut());
    let flags =
        c_int::from(libc::POSIX_SPAWN_SETSID) | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
    let mut actions = MaybeUninit::uninit();
    let mut attributes = MaybeUninit::uninit();
    let mut signals = MaybeUninit::uninit();
    let mut pid = 0;
    // SAFETY: everything is initialised before it is used and destroyed after it; the calls that
    // set values fail only for values that are none. The arguments end with NULL and outlive the
    // call, the environment is the process's. What the launcher let through must not reach the
    // command: ssh would not pass it on either. An older kernel cannot be asked for that, which
    // harms nothing.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
        possible(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
        for (target, stream) in (0..).zip(streams) {
            if let Some(stream) = stream {
                let source = stream.as_raw_fd();
                possible(libc::posix_spawn_file_actions_adddup2(actions.as_mut_ptr(), source, target))?;
            }
        }
        possible(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
        // sigfillset() leaves out two signals of libc's own, and posix_spawn() would have those
        // ignored.
        ptr::write_bytes(signals.as_mut_ptr(), 0xff, 1);
        libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), signals.as_ptr());
        libc::sigemptyset(signals.as_mut_ptr());
        libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), signals.as_ptr());
        libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), flags as libc::c_short);
        let spawned = libc::posix_spawn(
            &raw mut pid,
            words[0].as_ptr(),
            actions.as_ptr(),
            attributes.as_ptr(),
            arguments.as_ptr(),
            environ,
        );
        libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
        libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
        possible(spawned)?;
    }
    Ok(pid)
}

/// Waits for the end of a child. A signal counts as 128 and its number, as shells count.
pub(crate) fn wait(pid: i32) -> io::Result<u8> {
    let mut status = 0;
    // SAFETY: the status is ours.
    while let Err(error) = checked(unsafe { libc::waitpid(pid, &raw mut status, 0) }) {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let code =
        if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
    Ok(u8::try_from(code).unwrap_or(FAILED))
}

/// Takes a standard stream out of its place, where nothing remains.
pub(crate) fn take(stream: impl AsFd) -> io::Result<File> {
    let stream = stream.as_fd();
    let taken = File::from(stream.try_clone_to_owned()?);
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: both are open, and nothing owns the standard streams.
    checked(unsafe { libc::dup2(nothing.as_raw_fd(), stream.as_raw_fd()) })?;
    Ok(taken)
}

/// Tells the other end of a socket that nothing will be read any more. Closing does that for a
/// pipe.
pub(crate) fn stop_reading(stream: BorrowedFd<'_>) {
    // SAFETY: no memory is involved. What is no socket refuses, as it should.
    unsafe { libc::shutdown(stream.as_raw_fd(), libc::SHUT_RD) };
}

/// Waits for the lock of a file.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    // SAFETY: no memory is involved.
    while let Err(error) = checked(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }) {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Locks one byte of a file, unless another process has.
pub(crate) fn lock_byte(file: &File, byte: u64) -> io::Result<bool> {
    let start = byte.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the description of the lock is ours.
    match checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// For calls that return their error.
fn possible(errno: c_int) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}
