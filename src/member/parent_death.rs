//! What ties a member to whoever has started it: the member is killed when that ends, until it is released.
//!
//! The system ties threads, and kills a process by any of its own. A process is tied by the thread that it begins with; that alone can
//! loosen it, and is the program's. So libi's own thread takes its place, which does what it is told, whichever thread of the program
//! wants to be released.

use std::io;
use std::sync::mpsc::sync_channel;

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::engine::sys::is_main_thread;

/// Which thread is tied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParentDeathSignal {
    /// None is.
    Unset,
    /// The thread that the process began with.
    MainThread,
    /// Libi's own.
    OwnThread,
}

impl ParentDeathSignal {
    /// Of a process in which libi has no thread.
    pub(super) fn of(was_set: bool) -> Self {
        if was_set { Self::MainThread } else { Self::Unset }
    }

    /// Starts libi's own thread, which ends with the process, and takes over a tie that this thread has.
    pub(super) fn move_to_own_thread(
        was_set: bool,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let signal = if was_set && is_main_thread() { prctl::get_pdeathsig().unwrap_or(None) } else { None };
        let (tell, signalled) = sync_channel(1);
        crate::thread::spawn("libi", move || {
            // Whoever waits for it is there.
            let _ = tell.send(signal.map(prctl::set_pdeathsig));
            work();
        })?;
        // There is no moment in which neither is tied.
        let is_own = signalled.recv() == Ok(Some(Ok(()))) && clear().is_ok();
        Ok(if is_own { Self::OwnThread } else { Self::of(was_set) })
    }
}

/// This thread is not tied any more.
pub(super) fn clear() -> nix::Result<()> {
    let none: Option<Signal> = None;
    prctl::set_pdeathsig(none)
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
