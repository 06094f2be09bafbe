//! Forwards the output of members to this process's standard output and error, as a remote shell
//! would.
//!
//! A thread does this as long as the process lives. If its output is not read, it blocks, and so
//! do members that go on printing; if it cannot be written, it is lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libc::c_int;
use libi::{Event, FrontEnd, SessionId, Stream};

use super::{debug, lock};

/// The sessions whose output has been forwarded completely: all of it until the last member left.
#[derive(Default)]
pub(crate) struct ForwardedOutput {
    done: Mutex<BTreeSet<u32>>,
    changed: Condvar,
}

impl ForwardedOutput {
    /// Waits until all output of a session has been forwarded.
    pub(crate) fn wait(&self, session: SessionId, by: Instant) {
        let left = by.saturating_duration_since(Instant::now());
        let waited =
            self.changed.wait_timeout_while(lock(&self.done), left, |done| !done.contains(&session.0));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Starts the thread, which calls `on_done` when all members of a session have left or ended.
pub(crate) fn forward(
    front_end: Arc<FrontEnd>,
    on_done: impl Fn(SessionId) + Send + 'static,
) -> std::io::Result<Arc<ForwardedOutput>> {
    let forwarded = Arc::new(ForwardedOutput::default());
    let state = Arc::clone(&forwarded);
    let work = move || {
        // Without a timeout it returns `None` only if no event can come any more.
        while let Some(event) = front_end.next_event(Duration::MAX) {
            take(event, &state, &on_done);
        }
    };
    let start = || std::thread::Builder::new().name("libi-output".to_owned()).spawn(work);
    without_signals(start).map(|_| forwarded)
}

fn take(event: Event, forwarded: &ForwardedOutput, on_done: &impl Fn(SessionId)) {
    match event {
        Event::Done { session, .. } => {
            lock(&forwarded.done).insert(session.0);
            forwarded.changed.notify_all();
            on_done(session);
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

/// Writes all bytes; waits if necessary.
fn write(descriptor: c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are those of a slice.
        let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
        if let Ok(written) = usize::try_from(written) {
            bytes = bytes.get(written..).unwrap_or_default();
            continue;
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN) => {
                let mut ready = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
                // SAFETY: the array has one element.
                unsafe { libc::poll(&raw mut ready, 1, -1) };
            }
            _ => return,
        }
    }
}

/// Starts a thread with all signals blocked: it handles none of the program, and gets no SIGPIPE.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::uninit();
    let mut before = std::mem::MaybeUninit::uninit();
    // SAFETY: sigfillset fills the first set; pthread_sigmask cannot fail with these arguments,
    // and fills the second one.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started
}
