//! A started process: watching, signalling and ending it.
//!
//! The [module](super) lists its states.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::error::{Errno, SignalError, StartError};
use super::exit::{ExitStatus, Signal};
use super::guardian;
use super::sys::{self, Target, WaitMode};
use super::watch::{Waiter, Watch};

/// A process that was started here. Dropping it kills the process, with its group if it leads one,
/// unless it was [released](Self::release).
///
/// Its file descriptor (`AsFd`) becomes readable when the process has ended, and stays readable.
/// Any `poll` or `epoll` can watch it.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    watch: Watch,
    own_group: bool,
    released: bool,
    /// Known once the status has been collected, here or by another part of this program.
    exit: Option<ExitStatus>,
    /// Gets the exit status when that is known.
    record: Option<Arc<OnceLock<ExitStatus>>>,
}

impl Child {
    /// How long dropping waits for a killed process. A process that is stuck in the kernel, for
    /// example in a file system that does not answer, ends when it leaves the kernel; its zombie
    /// then stays until this process ends.
    const TIMEOUT: Duration = Duration::from_secs(1);

    pub(super) fn new(pid: i32, watch: Watch, own_group: bool) -> Self {
        Self { pid, watch, own_group, released: false, exit: None, record: None }
    }

    /// A child that this process has made by dividing itself (`fork`), and that leads a process
    /// group of its own.
    ///
    /// # Errors
    /// Its end could not be noticed: there is no pidfd and no thread for it.
    pub fn forked(pid: i32) -> Result<Self, StartError> {
        let pidfd = if sys::knows_pidfds() { sys::pidfd_open(pid) } else { None };
        let watch = match pidfd {
            Some(pidfd) => Watch::Pidfd(pidfd),
            None => Waiter::new()?.watch(pid),
        };
        Ok(Self::new(pid, watch, true))
    }

    /// Where the exit status can be read, once it has been collected, when this value is gone.
    pub fn exit_record(&mut self) -> Arc<OnceLock<ExitStatus>> {
        Arc::clone(self.record.get_or_insert_default())
    }

    /// The process ID. Once [`try_wait`](Self::try_wait) has returned the exit status, another
    /// process may get this ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Returns the exit status if the process has ended, without collecting it: the process group
    /// can still be signalled.
    pub fn peek(&mut self) -> Option<ExitStatus> {
        self.look(WaitMode::Leave)
    }

    /// Collects the exit status if the process has ended. Then its ID is free, and signals are
    /// refused.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.look(WaitMode::Collect)
    }

    /// Like [`try_wait`](Self::try_wait), but waits for the end until the timeout expires.
    pub fn wait_for(&mut self, timeout: Duration) -> Option<ExitStatus> {
        if self.exit.is_none() {
            sys::await_readable(self.watch.as_fd(), timeout);
        }
        self.try_wait()
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    /// [`SignalError::Ended`] if the status has been collected, here or elsewhere.
    pub fn signal(&mut self, signal: Signal) -> Result<(), SignalError> {
        self.send(signal, false)
    }

    /// Sends a signal to every process of its group. This reaches processes that it left behind
    /// when it ended, as long as its status has not been collected.
    ///
    /// # Errors
    /// [`SignalError::Ended`] if the status has been collected; [`SignalError::NoGroup`] if the
    /// process was started in this process's group.
    pub fn signal_group(&mut self, signal: Signal) -> Result<(), SignalError> {
        if self.own_group { self.send(signal, true) } else { Err(SignalError::NoGroup) }
    }

    /// Lets the process live on when this is dropped. It can still be watched and signalled. If it
    /// ends after the drop, its zombie stays until this process ends.
    pub fn release(&mut self) {
        self.released = true;
        self.needs_no_guard();
    }

    fn needs_no_guard(&self) {
        if self.own_group {
            guardian::ended(self.pid);
        }
    }

    fn look(&mut self, status: WaitMode) -> Option<ExitStatus> {
        if self.exit.is_none() {
            let seen = sys::exit_of(self.target(), status);
            if status == WaitMode::Leave && seen != Some(ExitStatus::Unknown) {
                return seen;
            }
            if seen.is_some() {
                self.needs_no_guard();
            }
            self.exit = seen;
            if let (Some(record), Some(exit)) = (&self.record, seen) {
                let _ = record.set(exit); // a second status is the same
            }
        }
        self.exit
    }

    fn target(&self) -> Target<'_> {
        match &self.watch {
            Watch::Pidfd(fd) => Target::Pidfd(fd.as_fd()),
            Watch::Thread(_) => Target::Pid(self.pid),
        }
    }

    fn send(&mut self, signal: Signal, group: bool) -> Result<(), SignalError> {
        if self.exit.is_some() {
            return Err(SignalError::Ended);
        }
        if let Watch::Pidfd(fd) = &self.watch {
            match sys::pidfd_kill(fd.as_fd(), signal, group) {
                Ok(()) => return Ok(()),
                Err(Errno(libc::ESRCH)) => return Err(SignalError::Ended),
                // Kernels before 6.9 do not know groups here; a sandbox may forbid the call.
                Err(Errno(libc::EINVAL | libc::ENOSYS | libc::EPERM)) => {}
                Err(errno) => return Err(SignalError::Refused(errno)),
            }
        }
        // A process ID is not reused before the status has been collected. Only the embedding
        // program could collect it, and would have to do so between these two calls.
        if self.peek() == Some(ExitStatus::Unknown) {
            return Err(SignalError::Ended);
        }
        sys::kill(if group { -self.pid } else { self.pid }, signal).map_err(|errno| match errno {
            Errno(libc::ESRCH) => SignalError::Ended,
            errno => SignalError::Refused(errno),
        })
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.released {
            self.try_wait(); // leaves no zombie if it has ended already
            return;
        }
        // It fails if nothing is left to kill or if that is forbidden; a drop cannot report either.
        let _ = self.send(Signal::KILL, self.own_group);
        self.wait_for(Self::TIMEOUT);
    }
}
