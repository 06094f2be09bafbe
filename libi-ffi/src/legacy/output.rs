//! Passes on what members print, as a remote shell would: to our own standard output and error.
//!
//! It is done by a thread of its own, which is there as long as the process. If nobody takes what it writes, it waits, and so do members
//! that go on printing; where nobody can, what they print is lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libc::c_int;
use libi::{Event, FrontEnd, SessionId, Stream};

use super::{debug, lock};

/// Of which sessions everything was passed on that members had printed when the last of them left.
#[derive(Default)]
pub(super) struct ForwardedOutput {
    done: Mutex<BTreeSet<u32>>,
    changed: Condvar,
}

impl ForwardedOutput {
    /// Waits until everything of a session was passed on.
    pub(super) fn wait(&self, session: SessionId, by: Instant) {
        let left = by.saturating_duration_since(Instant::now());
        let waited =
            self.changed.wait_timeout_while(lock(&self.done), left, |done| !done.contains(&session.0));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Starts the thread.
pub(super) fn forward(front_end: Arc<FrontEnd>) -> std::io::Result<Arc<ForwardedOutput>> {
    let forwarded = Arc::new(ForwardedOutput::default());
    let told = Arc::clone(&forwarded);
    let work = move || {
        // Without a limit it comes to an end only if nothing can come any more.
        while let Some(event) = front_end.next_event(Duration::MAX) {
            take(event, &told);
        }
    };
    let start = || std::thread::Builder::new().name("libi-output".to_owned()).spawn(work);
    without_signals(start).map(|_| forwarded)
}

fn take(event: Event, forwarded: &ForwardedOutput) {
    match event {
        Event::Done { session, .. } => {
            lock(&forwarded.done).insert(session.0);
            forwarded.changed.notify_all();
        }
        Event::Output { stream, bytes, .. } => write(if stream == Stream::Out { 1 } else { 2 }, &bytes),
        event @ Event::Lost { .. } => debug::say(1, || event.to_string()),
        Event::Exited { session, rank, exit, .. } => {
            debug::say(2, || format!("session {}: {rank} {exit}", session.0));
        }
        Event::Detached { session, rank, .. } => {
            debug::say(2, || format!("session {}: {rank} has left", session.0));
        }
        _ => {}
    }
}

/// Writes all of it, however long that takes.
fn write(descriptor: c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: there are as many bytes as it is told.
        let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
        if let Ok(written) = usize::try_from(written) {
            bytes = bytes.get(written..).unwrap_or_default();
            continue;
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN) => {
                let mut ready = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
                // SAFETY: it is one.
                unsafe { libc::poll(&raw mut ready, 1, -1) };
            }
            _ => return,
        }
    }
}

/// Starts a thread in which no signal of the program is handled, and none ends it when nobody reads what it writes.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::uninit();
    let mut before = std::mem::MaybeUninit::uninit();
    // SAFETY: the first is filled before it is read; the second by the call that succeeds with these arguments always.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started
}
