//! A session, as its front end has it.

use libc::{c_char, c_int, c_void};
use libi::{Error, Session, Stage};

use crate::given::{self, Place, patience};
use crate::layout::{give_layout, libi_layout};
use crate::object::{self, ask, give, handle, with};
use crate::report::{give_report, libi_report};
use crate::result::{Fault, LIBI_NONE, libi_millis, libi_result};

/// A session that was launched, or is being launched. Any number of threads may use it at a time. Since 0.1.
pub struct libi_session {
    _opaque: (),
}

handle!(libi_session, "session", Session);

/// A session for C.
pub(crate) fn give_session(session: Session) -> *mut libi_session {
    give(session)
}

/// How far a session is. Since 0.1.
pub type libi_stage = i32;
/// It is being launched.
pub const LIBI_STAGE_LAUNCHING: libi_stage = 0;
/// It is up.
pub const LIBI_STAGE_UP: libi_stage = 1;
/// Every member has ended, was released, or is lost.
pub const LIBI_STAGE_DONE: libi_stage = 2;
/// It did not come up, and is being ended.
pub const LIBI_STAGE_GIVEN_UP: libi_stage = 3;
/// Nothing is left of it.
pub const LIBI_STAGE_OVER: libi_stage = 4;

/// Frees it; NULL is fine. The session ends: members that were not released are killed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_free(session: *mut libi_session) {
    // SAFETY: as the header asks.
    unsafe { object::free(session) }
}

/// What failed last with it in this thread; empty if nothing has. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_error(session: *const libi_session) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { object::error(session) }
}

/// The number that its distributions bear; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_id(session: *const libi_session) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(session, 0, |session| session.id().0) }
}

/// How many members it has; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_size(session: *const libi_session) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(session, 0, Session::size) }
}

/// How far it is; -1 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_stage(session: *const libi_session) -> libi_stage {
    // SAFETY: as the header asks.
    unsafe {
        ask(session, -1, |session| match session.stage() {
            Stage::Launching => LIBI_STAGE_LAUNCHING,
            Stage::Up => LIBI_STAGE_UP,
            Stage::Done => LIBI_STAGE_DONE,
            Stage::GivenUp => LIBI_STAGE_GIVEN_UP,
            Stage::Over => LIBI_STAGE_OVER,
        })
    }
}

/// Where its ranks are; to be freed by libi_layout_free(). NULL if the session is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_layout(session: *const libi_session) -> *mut libi_layout {
    // SAFETY: as the header asks.
    unsafe { ask(session, std::ptr::null_mut(), |session| give_layout(session.layout().clone())) }
}

/// How many hosts have joined, have failed, and have no verdict yet, while it is being launched. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_tally(
    session: *const libi_session,
    joined: *mut u32,
    failed: *mut u32,
    waiting: *mut u32,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(session, |session| {
            let tally = session.tally();
            Place::new(joined, tally.joined, "joined")?;
            Place::new(failed, tally.failed, "failed")?;
            Place::new(waiting, tally.waiting, "waiting")?;
            Ok(())
        })
    }
}

/// How many hosts are connected directly to whoever has launched them, and how many could not be and go on over the channels that
/// they were started with. This may still change when the session is up. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_links(
    session: *const libi_session,
    direct: *mut u32,
    fell_back: *mut u32,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(session, |session| {
            let links = session.links();
            Place::new(direct, links.direct, "direct")?;
            Place::new(fell_back, links.fell_back, "fell_back")?;
            Ok(())
        })
    }
}

/// What became of the launch.
///
/// Returns LIBI_OK, with a report to be freed by libi_report_free(), or LIBI_NONE if there is no verdict yet. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_report(
    session: *const libi_session,
    report: *mut *mut libi_report,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(session, |session| {
            let place = Place::new(report, std::ptr::null_mut(), "report")?;
            let found = session.report();
            let found = found.ok_or_else(|| Fault::new(LIBI_NONE, "there is no verdict yet"))?;
            place.put(give_report(found));
            Ok(())
        })
    }
}

/// The ranks of the members that were there and cannot be talked to any more, because they have ended or are lost: gives how many there
/// are, and writes as many of them as there is room for. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_lost(
    session: *const libi_session,
    ranks: *mut u32,
    room: usize,
) -> usize {
    // SAFETY: as the header asks.
    unsafe { ask(session, 0, |session| given::write_ranks(&session.lost(), ranks, room)) }
}

/// Waits until there is a verdict on every host. It comes by the deadline of the launch.
///
/// Returns LIBI_OK if the session is up; LIBI_ERR_NOT_LAUNCHED if it is not: libi_session_report() says why, and so does
/// libi_session_error(); LIBI_ERR_TIMED_OUT if your patience ended first. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_wait_up(
    session: *const libi_session,
    most: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { try_with(session, |session| session.wait_up(patience(most)).map(drop)) }
}

/// Waits until every member has ended, was released, or is lost.
///
/// Returns LIBI_OK, or LIBI_ERR_TIMED_OUT. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_wait_done(
    session: *const libi_session,
    most: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { try_with(session, |session| session.wait_done(patience(most))) }
}

/// Writes to the master's standard input, if the options have asked for that by libi_options_set_input().
///
/// Returns LIBI_OK when everything is on its way, LIBI_ERR_TIMED_OUT if the program does not take it in time (part of it may have been
/// written), LIBI_ERR_ENDED if the session is not up. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_write(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    most: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(session, |session| {
            let bytes = given::bytes(bytes, length, "bytes")?;
            session.write(bytes, patience(most)).map_err(Fault::from)
        })
    }
}

/// Ends the master's standard input. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_close_input(session: *mut libi_session) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(session, |session| {
            session.close_input();
            Ok(())
        })
    }
}

/// Sends a signal to every member that was not released and has not ended: to its process alone.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such signal. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_kill(session: *mut libi_session, signal: c_int) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { try_with(session, |session| session.kill(signal)) }
}

/// Ends the session: every member that was not released is told by SIGTERM, and killed when the grace has passed. Comes back when nothing
/// is left of it.
///
/// Returns LIBI_OK, or LIBI_ERR_TIMED_OUT if not even force was enough in time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_terminate(
    session: *mut libi_session,
    grace: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { try_with(session, |session| session.terminate(patience(grace))) }
}

/// # Safety
/// The session is NULL, or what C was given.
unsafe fn try_with(
    session: *const libi_session,
    body: impl FnOnce(&Session) -> Result<(), Error>,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe { with(session, |session| body(session).map_err(Fault::from)) }
}
