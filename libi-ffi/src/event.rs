//! What a front end tells.

use std::ffi::CString;
use std::ptr::null;

use libc::{c_char, c_void};
use libi::{Event, Rank, Stream};

use crate::args::c_string;
use crate::failure::{FailureView, LIBI_EXIT_NONE, exit, libi_exit, libi_failure};
use crate::object::{self, OwnedPart, ask, give, handle};

/// Something that has happened in a session. It does not change any more, and any number of threads may use it. Since 0.1.
pub struct libi_event {
    _opaque: (),
}

handle!(libi_event, "event", EventView);

/// An event, and what it has for C.
pub struct EventView {
    event: Event,
    lost: Option<(CString, OwnedPart<libi_failure>)>,
}

/// An event for C.
pub(crate) fn give_event(event: Event) -> *mut libi_event {
    let lost = match &event {
        Event::Lost { name, failure, .. } => {
            Some((c_string(name), OwnedPart::new(FailureView::new(failure))))
        }
        _ => None,
    };
    give(EventView { event, lost })
}

/// What has happened. Later versions may have more kinds: pass over what you do not know. Since 0.1.
pub type libi_event_kind = i32;
/// The session is up; its report is there.
pub const LIBI_EVENT_UP: libi_event_kind = 1;
/// The session did not come up; its report says why. What was left of it is being ended.
pub const LIBI_EVENT_GIVEN_UP: libi_event_kind = 2;
/// A member has printed something: whole lines, unless they are long or slow to end.
pub const LIBI_EVENT_OUTPUT: libi_event_kind = 3;
/// A member has ended.
pub const LIBI_EVENT_EXITED: libi_event_kind = 4;
/// A member was released: it has finalised, and lives on by itself.
pub const LIBI_EVENT_RELEASED: libi_event_kind = 5;
/// A host was lost after the session was up, with every member on it that had not been released.
pub const LIBI_EVENT_LOST: libi_event_kind = 6;
/// Every member has ended, was released, or is lost. It comes behind all output.
pub const LIBI_EVENT_DONE: libi_event_kind = 7;

/// Frees it; NULL is fine. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_free(event: *mut libi_event) {
    // SAFETY: as the header asks.
    unsafe { object::free(event) }
}

/// What has happened; 0 if it is NULL, or something that this version has no name for. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_kind_of(event: *const libi_event) -> libi_event_kind {
    // SAFETY: as the header asks.
    unsafe {
        ask(event, 0, |told| match &told.event {
            Event::Up { .. } => LIBI_EVENT_UP,
            Event::GivenUp { .. } => LIBI_EVENT_GIVEN_UP,
            Event::Output { .. } => LIBI_EVENT_OUTPUT,
            Event::Exited { .. } => LIBI_EVENT_EXITED,
            Event::Detached { .. } => LIBI_EVENT_RELEASED,
            Event::Lost { .. } => LIBI_EVENT_LOST,
            Event::Done { .. } => LIBI_EVENT_DONE,
            _ => 0,
        })
    }
}

/// The number of the session that it has happened in; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_session(event: *const libi_event) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(event, 0, |told| told.event.session().0) }
}

/// The rank of the member that has printed, ended, or was released; -1 for other events. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_rank(event: *const libi_event) -> i64 {
    // SAFETY: as the header asks.
    unsafe {
        ask(event, -1, |told| match &told.event {
            Event::Output { rank: Rank(rank), .. }
            | Event::Exited { rank: Rank(rank), .. }
            | Event::Detached { rank: Rank(rank), .. } => i64::from(*rank),
            _ => -1,
        })
    }
}

/// Which stream was printed to: 1 for standard output, 2 for standard error; 0 for other events than output. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_stream(event: *const libi_event) -> i32 {
    // SAFETY: as the header asks.
    unsafe {
        ask(event, 0, |told| match &told.event {
            Event::Output { stream: Stream::Out, .. } => 1,
            Event::Output { stream: Stream::Err, .. } => 2,
            _ => 0,
        })
    }
}

/// What was printed, without a NUL behind it; NULL for other events than output. It is the event's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_bytes(event: *const libi_event) -> *const c_void {
    // SAFETY: as the header asks.
    unsafe {
        ask(event, null(), |told| match &told.event {
            Event::Output { bytes, .. } => bytes.as_ptr().cast(),
            _ => null(),
        })
    }
}

/// How many bytes were printed; 0 for other events than output. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_length(event: *const libi_event) -> usize {
    // SAFETY: as the header asks.
    unsafe {
        ask(event, 0, |told| match &told.event {
            Event::Output { bytes, .. } => bytes.len(),
            _ => 0,
        })
    }
}

/// How a member has ended; LIBI_EXIT_NONE for other events. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_exit(event: *const libi_event) -> libi_exit {
    // SAFETY: as the header asks.
    unsafe { ask(event, LIBI_EXIT_NONE, |told| ended(&told.event).0) }
}

/// The status or the signal that goes with libi_event_exit(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_exit_value(event: *const libi_event) -> i32 {
    // SAFETY: as the header asks.
    unsafe { ask(event, 0, |told| ended(&told.event).1) }
}

fn ended(event: &Event) -> (libi_exit, i32) {
    match event {
        Event::Exited { exit: how, .. } => exit(Some(*how)),
        _ => exit(None),
    }
}

/// The number of the host that was lost; -1 for other events. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_host(event: *const libi_event) -> i64 {
    // SAFETY: as the header asks.
    unsafe {
        ask(event, -1, |told| match &told.event {
            Event::Lost { host, .. } => i64::from(host.0),
            _ => -1,
        })
    }
}

/// The name of the host that was lost; NULL for other events. It is the event's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_host_name(event: *const libi_event) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(event, null(), |told| told.lost.as_ref().map_or(null(), |lost| lost.0.as_ptr())) }
}

/// Why the host was lost; NULL for other events. It is the event's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_failure(event: *const libi_event) -> *const libi_failure {
    // SAFETY: as the header asks.
    unsafe { ask(event, null(), |told| told.lost.as_ref().map_or(null(), |lost| lost.1.shown())) }
}
