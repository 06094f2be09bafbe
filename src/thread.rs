//! Threads of the library. They block all signals, so that no handler of the embedding program runs
//! in them.

use std::cell::Cell;
use std::io;
use std::thread::JoinHandle;

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

thread_local! {
    /// Whether the thread is one of the library.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread is one of the library, which lasts as long as what it drives.
pub(crate) fn is_own() -> bool {
    IS_OWN.get()
}

/// Starts a thread in which all signals are blocked.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // A new thread inherits the mask of its creator, so it never runs with another.
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before))?;
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        IS_OWN.set(true);
        work();
    });
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    thread
}
