//! Leaving the process that has started this one.
#![allow(unsafe_code, reason = "the operating system is met here")]

use std::io;

use nix::unistd::{ForkResult, fork, setsid};

/// Makes this process, which must have no other thread, one of its own: it has another number from now on,
/// is no child of the process that has started it, and is in a session of processes without a terminal.
///
/// # Errors
/// There are no resources for another process.
pub fn leave() -> io::Result<()> {
    // SAFETY: there is no other thread that could hold a lock.
    match unsafe { fork() }? {
        // SAFETY: it only ends the process.
        ForkResult::Parent { .. } => unsafe { libc::_exit(0) },
        ForkResult::Child => setsid().map(drop).map_err(io::Error::from),
    }
}
