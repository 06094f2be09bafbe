//! Notices the end of a process: a file descriptor becomes readable, whatever the kernel supports.
//!
//! Linux has pidfds for this since 5.4. On older kernels, and in sandboxes that forbid them, a
//! thread per process waits for the end without collecting the status, and then writes to a pipe. A
//! pipe whose write end only the child holds is not reliable: `ssh` and daemons close descriptors
//! that they did not open, and background processes of a shell keep it open.

use std::io::{PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use super::error::{Errno, StartError, StartStep};
use super::sys;

/// How the end of a process is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMethod {
    /// By a pidfd if the system supports them, otherwise by a thread.
    #[default]
    Best,
    /// By a thread, as on systems without pidfds. For tests only.
    Thread,
}

/// Becomes readable when the process ends, and stays readable.
#[derive(Debug)]
pub(super) enum Watch {
    Pidfd(OwnedFd),
    /// A thread holds the write end.
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

/// A thread that will wait for a process. It is created before the process, because creating it can
/// fail. Dropping this ends the thread.
pub(super) struct Waiter {
    pid: SyncSender<i32>,
    pipe: PipeReader,
}

impl Waiter {
    /// Enough for a thread that makes two calls; the system may round it up.
    const STACK: usize = 32 << 10;

    pub(super) fn new() -> Result<Self, StartError> {
        let refused = |error| StartError::Refused { step: StartStep::Waiter, errno: Errno::of(&error) };
        let (pipe, mut ended) = std::io::pipe().map_err(refused)?;
        let (sender, receiver) = sync_channel(1);
        let work = move || {
            if let Ok(pid) = receiver.recv() {
                sys::await_end(pid);
                // The reader may be gone. Signals, SIGPIPE included, are blocked here.
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
        // The channel has capacity for one, and the thread is waiting for it.
        let _ = self.pid.send(pid);
        Watch::Thread(self.pipe)
    }
}
