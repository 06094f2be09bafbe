//! A process that was started: how it is watched, signalled and ended.
//!
//! The room's page has the states.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::error::{Errno, SignalError};
use super::exit::{ExitStatus, Signal};
use super::sys::{self, Target, WaitMode};
use super::watch::Watch;

/// A process that was started here. Dropping it ends the process, with its group if it has one of its own,
/// unless it was [released](Self::release).
///
/// Its descriptor (`AsFd`) becomes readable when the process has ended, and stays so; any poll or epoll will do.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    watch: Watch,
    own_group: bool,
    released: bool,
    /// Known once the status has been collected, by us or by somebody else.
    exit: Option<ExitStatus>,
}

impl Child {
    /// How long dropping waits for a process that was killed. One that is stuck in the kernel (in a file system
    /// that does not answer) ends when it gets out; its zombie then stays until this process ends.
    const TIMEOUT: Duration = Duration::from_secs(1);

    pub(super) fn new(pid: i32, watch: Watch, own_group: bool) -> Self {
        Self { pid, watch, own_group, released: false, exit: None }
    }

    /// The number of the process. Once it has ended and [`try_wait`](Self::try_wait) has said so, it may be
    /// another one's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// How it ended, if it has, without collecting its status: its group can still be signalled.
    pub fn peek(&mut self) -> Option<ExitStatus> {
        self.look(WaitMode::Leave)
    }

    /// How it ended, if it has. After that its number is free, and signals are refused.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.look(WaitMode::Collect)
    }

    /// How it ended, if it does within this time.
    pub fn wait_for(&mut self, timeout: Duration) -> Option<ExitStatus> {
        if self.exit.is_none() {
            sys::await_readable(self.watch.as_fd(), timeout);
        }
        self.try_wait()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// [`SignalError::Ended`] when its status has been collected, by whomever.
    pub fn signal(&mut self, signal: Signal) -> Result<(), SignalError> {
        self.send(signal, false)
    }

    /// Sends a signal to every process of its group. This includes what it left behind when it ended, as long as
    /// its status has not been collected.
    ///
    /// # Errors
    /// [`SignalError::Ended`] when its status has been collected; [`SignalError::NoGroup`] when it was started
    /// in our group.
    pub fn signal_group(&mut self, signal: Signal) -> Result<(), SignalError> {
        if self.own_group { self.send(signal, true) } else { Err(SignalError::NoGroup) }
    }

    /// Lets it live on when this is dropped. It can still be watched and signalled; if it ends after this was
    /// dropped, its zombie stays until this process ends.
    pub fn release(&mut self) {
        self.released = true;
    }

    fn look(&mut self, status: WaitMode) -> Option<ExitStatus> {
        if self.exit.is_none() {
            let seen = sys::exit_of(self.target(), status);
            if status == WaitMode::Leave && seen != Some(ExitStatus::Unknown) {
                return seen;
            }
            self.exit = seen;
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
                // An older kernel does not know groups here; a sandbox may not let us do this at all.
                Err(Errno(libc::EINVAL | libc::ENOSYS | libc::EPERM)) => {}
                Err(errno) => return Err(SignalError::Refused(errno)),
            }
        }
        // A number is not given to anybody else before its status has been collected. Only the embedding
        // program could do that behind our back, and would have to do it between these two calls.
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
            self.try_wait(); // no zombie, if it has ended already
            return;
        }
        // A failure means that there is nothing left to kill, or that we may not; nobody can be told.
        let _ = self.send(Signal::KILL, self.own_group);
        self.wait_for(Self::TIMEOUT);
    }
}
