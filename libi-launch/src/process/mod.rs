//! Starting processes on this host, watching them, ending them.
//!
//! A [`Start`] says what is to be started: program, arguments, environment, directory, descriptors. A [`Child`] is
//! what came of it. The room has no state beside these two: no signal handler, no thread (but see below), no
//! table of processes.
//!
//! # States
//!
//! ```text
//!                start()                    it ends                try_wait()
//!     Start ----------------> running ----------------> ended --------------------> collected
//!       |                     |  ^                     |  ^  |                      (Exit known)
//!       | a step is refused   +--+ signal(),           +--+  | somebody else collects     ^
//!       v                          signal_group()      same, | its status                 |
//!     StartError                                       peek()+----------------------------+
//!     (nothing is left)                                                     Exit::Unknown
//! ```
//!
//! - **running**: its descriptor (`AsFd`) is not readable. Signals reach it.
//! - **ended**: its descriptor is readable. Its number, and with it the name of its group, are still its own, so that
//!   what it left running in its group can be signalled; to itself signals do nothing.
//! - **collected**: its number may be anybody's. Signals are refused with [`SignalError::Ended`].
//!
//! Dropping a [`Child`] that runs or has ended kills its group (or itself, if it was started in ours), waits a second
//! at most, and collects it. Dropping a collected one does nothing: who wants the rest of the group to end calls
//! [`signal_group`](Child::signal_group) before [`try_wait`](Child::try_wait), after
//! [`peek`](Child::peek). [`release`](Child::release) turns all of this off.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | a step of the start | [`StartError`] names step and reason; the process that tried is gone and was never seen |
//! | the program, later | an [`ExitStatus`]; 127 and 126 have no special meaning here, that is shells' language |
//! | the embedding program collects all children, or ignores `SIGCHLD` | [`ExitStatus::Unknown`], no hang |
//! | there are no pidfds (before Linux 5.4, sandboxes) | a thread per process waits for its end |
//! | a pidfd does not take signals | they are sent by number, after a check that the number is still its own |
//! | there is no `close_range` (before Linux 5.9) | `/proc/self/fd` is read; without `/proc`, every number is closed |
//! | we are killed | processes started with [`parent_death_signal`](Start::parent_death_signal) get their signal |
//! | a killed process does not end (it is stuck in the kernel) | dropping gives up after a second |
//!
//! Without pidfds a number is all there is to know a process by. If the embedding program then collects one behind our
//! back, and starts another that gets the same number before we look, the two are confused. With pidfds this
//! cannot happen, except for groups before Linux 6.9 in the moment between a check and a signal.
//!
//! # What it costs
//!
//! A start does not depend on how much memory this process has: it borrows it instead of copying it. The thread that starts is
//! suspended until the program has been executed: a file server that does not answer holds it up.
//! `cargo bench -p libi-launch --bench start` measures, beside other ways to start.

mod child;
mod environment;
mod error;
mod exit;
mod image;
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
pub use image::CloseMethod;
pub use spawn::LONG_FD_TABLE;
pub use start::{FdSource, Start};
pub use watch::WatchMethod;
