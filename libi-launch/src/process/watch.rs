//! Decides how the end of a process is noticed: a descriptor that becomes readable, whatever the kernel is.
//!
//! Linux has pidfds for this since 5.4. Where it is older, or a sandbox keeps them from us, a thread per process waits
//! for the end without collecting the status, and then writes to a pipe. The usual trick, a pipe whose other
//! end only the child has, lies both ways: `ssh` and daemons close what they did not open, and what a shell
//! leaves running in the background keeps it open.

use std::io::{PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use super::error::{Errno, StartError, StartStep};
use super::sys;

/// By which means the end of a process is to be noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMethod {
    /// By a pidfd if the system has them, otherwise by a thread.
    #[default]
    Best,
    /// By a thread, as where there are no pidfds. There is no reason to choose this other than to test what
    /// depends on it.
    Thread,
}

/// Something that becomes readable when the process ends, and stays so.
#[derive(Debug)]
pub(super) enum Watch {
    Pidfd(OwnedFd),
    /// The thread has the other end.
    Thread(PipeReader),
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pidfd(fd) => fd.as_fd(),
            Self::Thread(pipe) => pipe.as_fd(),
        }
    }
}

/// A thread that will wait for a process. Made before the process, because it may be impossible to make one, and
/// ends without one if this is dropped.
pub(super) struct Waiter {
    pid: SyncSender<i32>,
    pipe: PipeReader,
}

impl Waiter {
    /// What a thread that makes two calls needs; the system may round it up.
    const STACK: usize = 32 << 10;

    pub(super) fn new() -> Result<Self, StartError> {
        let refused = |error| StartError::Refused { step: StartStep::Waiter, errno: Errno::of(&error) };
        let (pipe, mut ended) = std::io::pipe().map_err(refused)?;
        let (sender, receiver) = sync_channel(1);
        let work = move || {
            if let Ok(pid) = receiver.recv() {
                sys::await_end(pid);
                // If nobody wants to know, so be it: signals are blocked here, SIGPIPE as well.
                let _ = ended.write(&[0]);
            }
        };
        let _signals = sys::SignalsBlocked::here();
        thread::Builder::new()
            .name("libi-wait".into())
            .stack_size(Self::STACK)
            .spawn(work)
            .map_err(refused)?;
        Ok(Self { pid: sender, pipe })
    }

    pub(super) fn watch(self, pid: i32) -> Watch {
        // There is room for one, and the thread is waiting for it.
        let _ = self.pid.send(pid);
        Watch::Thread(self.pipe)
    }
}
