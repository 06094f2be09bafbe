//! Starting, watching and ending processes on this host.
//!
//! A [`Start`] describes a process: program, arguments, environment, directory, file descriptors. A
//! [`Child`] is the started process. There is no other state: no signal handler, no table of
//! processes, and no thread except where pidfds are missing.
//!
//! # States
//!
//! ```text
//!                start()                    it ends                try_wait()
//!     Start ----------------> running ----------------> ended --------------------> collected
//!       |                     |  ^                     |  ^  |                  (status known)
//!       | a step fails        +--+ signal(),           +--+  | status collected         ^
//!       v                          signal_group()      same, | elsewhere                |
//!     StartError                                       peek()+--------------------------+
//!     (nothing is left)                                            ExitStatus::Unknown
//! ```
//!
//! - **running**: its file descriptor (`AsFd`) is not readable. Signals reach it.
//! - **ended**: its file descriptor is readable. Its process ID and the ID of its group are still
//!   reserved, so the rest of its group can be signalled. Signals to the process itself have no
//!   effect.
//! - **collected**: another process may have its ID. Signals are refused with
//!   [`SignalError::Ended`].
//!
//! Dropping a [`Child`] that is running or has ended kills its process group (or the process alone,
//! if it was started in this process's group), waits up to one second, and collects it. Dropping a
//! collected one does nothing; to end the rest of its group, call
//! [`signal_group`](Child::signal_group) after [`peek`](Child::peek) and before
//! [`try_wait`](Child::try_wait). [`release`](Child::release) disables the kill.
//!
//! # Failures
//!
//! | failure | effect |
//! |---|---|
//! | a step of the start fails | [`StartError`] names step and reason; no process is left |
//! | the program fails later | an [`ExitStatus`]; 126 and 127 have no special meaning here |
//! | the embedding program collects the status, or ignores `SIGCHLD` | [`ExitStatus::Unknown`] |
//! | there are no pidfds (before Linux 5.4, sandboxes) | a thread per process waits for its end |
//! | a pidfd does not take signals | they are sent by process ID, after a check of the ID |
//! | there is no `close_range` (before Linux 5.9) | `/proc/self/fd` lists what to close |
//! | there is no `/proc` either | every descriptor number is closed |
//! | this process is killed | its processes get their [signal](Start::parent_death_signal), their groups a [guardian's](guard); some get theirs [until they end](SignalRepeater) |
//! | a killed process does not end (stuck in the kernel) | dropping gives up after a second |
//!
//! Without pidfds, a process is known only by its ID. If the embedding program collects a child
//! without libi's knowledge and starts another one that gets the same ID, the two are confused.
//! With pidfds this cannot happen, except for signals to groups before Linux 6.9 in the moment
//! between a check and the signal.
//!
//! # Cost
//!
//! The cost of a start does not depend on the memory size of this process, because the child
//! borrows the memory instead of copying it. The starting thread is suspended until the program has
//! been executed: a file server that does not answer delays it. `cargo bench -p libi-launch --bench
//! start` compares this with other ways to start a process.

mod child;
mod environment;
mod error;
mod exit;
mod guardian;
mod image;
mod leave;
mod repeater;
mod search;
mod spawn;
mod start;
mod sys;
mod watch;

#[cfg(test)]
mod tests;

pub use child::Child;
pub use environment::Environment;
pub use error::{Errno, SignalError, StartError, StartStep};
pub use exit::{ExitStatus, Signal};
pub use guardian::guard;
pub use image::CloseMethod;
pub use leave::leave;
pub use repeater::SignalRepeater;
pub use spawn::LONG_FD_TABLE;
pub use start::{FdSource, Start};
pub use watch::WatchMethod;

/// A descriptor of any process of this machine that is readable once that has ended; `None` if it has, or the
/// system has no such descriptors.
#[must_use]
pub fn open_pidfd(pid: i32) -> Option<std::os::fd::OwnedFd> {
    sys::pidfd_open(pid)
}

/// How the process of such a descriptor has ended; `None` before its parent has collected the status, or if the
/// system tells it to no other process: Linux does since 6.15.
#[must_use]
pub fn exit_of_pidfd(pidfd: std::os::fd::BorrowedFd<'_>) -> Option<crate::failure::Exit> {
    use crate::failure::Exit;
    let status = sys::exit_status(pidfd)?;
    Some(match status & 0x7f {
        0 => Exit::Code((status >> 8) & 0xff),
        signal => Exit::Signal(signal),
    })
}
