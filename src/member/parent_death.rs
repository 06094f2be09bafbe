//! The parent-death signal of a member: the kernel kills the member when its parent ends, until it
//! detaches, or until it may find another parent: then the engine clears it.
//!
//! The kernel keeps the parent-death signal per thread, and only the thread itself can clear it. A
//! process gets it in its first thread, which belongs to the program. Therefore libi's own thread
//! takes it over: it can clear the signal whichever thread of the program calls
//! [`detach`](crate::Member::detach).

use std::io;
use std::sync::mpsc::sync_channel;

use nix::sys::prctl;

use crate::engine::sys::{clear_parent_death_signal, is_main_thread};

/// Which thread has the parent-death signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParentDeathSignal {
    /// No thread.
    Unset,
    /// The first thread of the process.
    MainThread,
    /// Libi's own thread.
    OwnThread,
}

impl ParentDeathSignal {
    /// For a process in which libi has no thread.
    pub(super) fn of(was_set: bool) -> Self {
        if was_set { Self::MainThread } else { Self::Unset }
    }

    /// Starts libi's own thread, which lives as long as the process, and moves a parent-death
    /// signal of this thread to it.
    pub(super) fn move_to_own_thread(
        was_set: bool,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let signal = if was_set && is_main_thread() { prctl::get_pdeathsig().unwrap_or(None) } else { None };
        let (tell, signalled) = sync_channel(1);
        crate::thread::spawn("libi", move || {
            // The receiver is waiting below.
            let _ = tell.send(signal.map(prctl::set_pdeathsig));
            work();
        })?;
        // At every moment at least one of the two threads has the signal.
        let is_own = signalled.recv() == Ok(Some(Ok(()))) && clear_parent_death_signal().is_ok();
        Ok(if is_own { Self::OwnThread } else { Self::of(was_set) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_not_the_first_hands_no_tie_over() {
        let (work, done) = sync_channel(1);
        let parent_death =
            ParentDeathSignal::move_to_own_thread(true, move || work.send(prctl::get_pdeathsig()).unwrap())
                .unwrap();
        assert_eq!(
            (parent_death, done.recv().unwrap()),
            (ParentDeathSignal::MainThread, Ok(None)),
            "tests run in threads of their own"
        );
        assert_eq!(ParentDeathSignal::move_to_own_thread(false, || {}).unwrap(), ParentDeathSignal::Unset);
    }
}
