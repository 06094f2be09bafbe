//! What stands for a launched host or member at this end of its link: a process, or a connection that
//! the [client of ssh](super::ssh_client) holds.

use std::os::fd::{AsFd, BorrowedFd};

use libi_launch::process::{Child, ExitStatus, Signal};

use super::ssh_client::Connection;

/// See the [module](self). Its descriptor is readable when there is something to look at.
pub(super) enum Launched {
    Process(Child),
    Connection(Connection),
}

impl Launched {
    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        match self {
            Self::Process(child) => child.peek().is_some(),
            Self::Connection(connection) => connection.exit().is_some(),
        }
    }

    /// How it has ended, if it has. Of a process, the status is collected.
    pub(super) fn try_wait(&mut self) -> Option<ExitStatus> {
        match self {
            Self::Process(child) => child.try_wait(),
            Self::Connection(connection) => connection.exit(),
        }
    }

    /// Sends a signal to the group of the process. A connection is closed by each signal that would
    /// end the process. One that has ended needs no signal, and there is no other means to end one:
    /// errors are ignored.
    pub(super) fn signal_group(&mut self, signal: Signal) {
        match self {
            Self::Process(child) => {
                let _ = child.signal_group(signal);
            }
            Self::Connection(connection) => connection.signal(signal),
        }
    }

    /// Lets it outlive this value.
    pub(super) fn release(&mut self) {
        match self {
            Self::Process(child) => child.release(),
            Self::Connection(connection) => connection.keep(),
        }
    }

    /// Whether it is a connection of which the client has not heard.
    pub(super) fn is_unheard(&self) -> bool {
        matches!(self, Self::Connection(connection) if connection.is_unheard())
    }

    /// The process, if it is one.
    pub(super) fn into_process(self) -> Option<Child> {
        match self {
            Self::Process(child) => Some(child),
            Self::Connection(_) => None,
        }
    }
}

impl From<Child> for Launched {
    fn from(child: Child) -> Self {
        Self::Process(child)
    }
}

impl AsFd for Launched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Process(child) => child.as_fd(),
            Self::Connection(connection) => connection.as_fd(),
        }
    }
}
