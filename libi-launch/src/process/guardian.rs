//! The guardian: a process that ends what this process has started when this one is killed.
//!
//! The kernel then kills the processes that were started here (their
//! [signal](super::Start::parent_death_signal)), but not what these have started themselves. Only a
//! process that survives can: a program that has one thread divides itself by [`guard`].
//!
//! | event | effect |
//! |---|---|
//! | a process is started that leads a group | the guardian hears of it, before its program runs |
//! | its status is collected, or it is released | the guardian forgets it |
//! | this process ends, in whichever way | the guardian kills the groups that it knows, and ends |
//! | the guardian cannot be made, or is killed | nothing: what it would have killed lives on |
//! | a signal of a terminal, of a starter to its group | it does not reach the guardian |
//!
//! The guardian shares no descriptor with this process but the pipe from which it reads, and no group.
//! This process alone can write to the pipe, so the end of the pipe is the end of this process. A group
//! ID is reserved until the status of its leader is collected, and as long as the group has members. The
//! guardian hears of that right afterwards: it could kill another group only if this process were killed
//! in between, and the ID were reused by then.
#![allow(unsafe_code, reason = "the operating system is met here")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use nix::fcntl::{OFlag, open};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg, sigprocmask};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2, setsid};

use super::image::{CloseMethod, FdMove};
use super::spawn::close_others;

/// The name of the guardian, as `ps` shows it.
const NAME: &std::ffi::CStr = c"libi-guardian";

/// The end of the pipe at which this process writes.
static GUARDIAN: OnceLock<File> = OnceLock::new();

/// Divides this process, which must have no other thread, and ignore or block SIGPIPE: its child
/// guards what it starts from now on.
///
/// # Errors
/// There are no resources for it. What is started is not guarded then.
pub fn guard() -> io::Result<()> {
    let (its, ours) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    // SAFETY: there is no other thread that could hold a lock.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(ours);
            let status = serve(its).is_err().into();
            // SAFETY: it only ends the process.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { .. } => {
            let _ = GUARDIAN.set(ours.into()); // a second one ends when its pipe is closed
            Ok(())
        }
    }
}

/// Where a new process that leads a group says its number, in 4 bytes, before it executes its program.
pub(super) fn pipe() -> Option<RawFd> {
    GUARDIAN.get().map(AsRawFd::as_raw_fd)
}

/// A group needs no guard any more.
pub(super) fn ended(pid: i32) {
    if let Some(mut pipe) = GUARDIAN.get() {
        // Whole or not at all; a guardian that reads nothing any more guards nothing.
        let _ = pipe.write(&(-pid).to_ne_bytes());
    }
}

/// What the guardian does until the other process has ended.
fn serve(pipe: OwnedFd) -> io::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    setsid()?;
    let _ = prctl::set_name(NAME);
    leave_all_but(pipe)?;
    let mut groups: Vec<i32> = Vec::new();
    let (mut messages, mut message) = (io::stdin().lock(), [0; 4]);
    while messages.read_exact(&mut message).is_ok() {
        match i32::from_ne_bytes(message) {
            group if group > 0 => groups.push(group),
            ended => groups.retain(|group| *group != -ended),
        }
    }
    for group in groups {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL); // it may have no member any more
    }
    Ok(())
}

/// Gives up everything that this process has from the other, but for the pipe: that is its standard
/// input.
fn leave_all_but(pipe: OwnedFd) -> io::Result<()> {
    nix::fcntl::fcntl(&pipe, nix::fcntl::FcntlArg::F_SETFL(OFlag::empty()))?; // reading waits
    dup2_stdin(&pipe)?;
    let null = open("/dev/null", OFlag::O_RDWR, Mode::empty())?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    drop((pipe, null));
    let kept = [0, 1, 2].map(|to| FdMove { from: to.into(), to, aside: false });
    close_others(&kept, CloseMethod::Range);
    chdir("/")?;
    Ok(())
}
