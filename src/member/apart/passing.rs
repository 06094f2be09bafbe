//! Signals and the end of the program pass through its parent as if that were not there.
#![allow(unsafe_code, reason = "signal handlers, and the end of the process")]

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use libi_launch::process::{Child, ExitStatus};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};

/// The program, for the signal handler.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
static PIDFD: AtomicI32 = AtomicI32::new(-1);

/// Signals that say something about this process itself. The last two belong to the C library.
const OWN: [i32; 13] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGCHLD,
    libc::SIGPIPE,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    32,
    33,
];

/// Passes on all signals that this process gets from now on.
pub(super) fn pass_signals_on(pid: i32, program: &Child) {
    PROGRAM.store(pid, Relaxed);
    PIDFD.store(program.as_fd().as_raw_fd(), Relaxed);
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| !OWN.contains(signal)) {
        set_handler(signal, pass_on as extern "C" fn(i32) as usize);
    }
    set_handler(libc::SIGPIPE, libc::SIG_IGN);
}

fn set_handler(signal: i32, handler: usize) {
    // SAFETY: all zeros are a `sigaction`; the handler makes system calls only, and the
    // dispositions of this process are no concern of the program, which has its own copy.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn pass_on(signal: i32) {
    let (pid, pidfd) = (PROGRAM.load(Relaxed), PIDFD.load(Relaxed));
    // SAFETY: system calls that handlers may make; the error number of the interrupted code is
    // kept. An unwaited child keeps its ID; of one that was waited for, `waitid` knows nothing.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        let none = std::ptr::null::<libc::siginfo_t>();
        if libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, none, 0) == -1 && *errno != libc::ESRCH {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            if libc::waitid(libc::P_PID, pid.cast_unsigned(), &raw mut info, how) == 0 {
                libc::kill(pid, signal);
            }
        }
        *errno = kept;
    }
}

/// Ends this process without running what the program has registered for its own end.
pub(in crate::member) fn exit(status: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(status) }
}

/// Ends this process as the program has ended. A core is dumped by the program alone.
pub(super) fn end_as(status: ExitStatus) -> ! {
    let signal = match status {
        ExitStatus::Code(code) => exit(code),
        ExitStatus::Unknown => exit(super::FAILED),
        ExitStatus::Signal { signal, .. } => signal.number(),
    };
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = prctl::set_dumpable(false);
    set_handler(signal, libc::SIG_DFL);
    // SAFETY: numbers, and a signal set that lives here.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
    exit(128 + signal)
}
