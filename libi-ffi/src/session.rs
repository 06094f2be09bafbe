//! A session, as its front end has it.

use libc::{c_char, c_int, c_void};
use libi::{Error, Session, Stage};

use crate::args::{self, OutParam, timeout};
use crate::data::{self, libi_data};
use crate::layout::{give_layout, libi_layout};
use crate::object::{self, ask, give, handle, with};
use crate::pending::{self, libi_pending};
use crate::reentry::ProcessLocal;
use crate::report::{give_report, libi_report};
use crate::result::{CallError, CallResult, LIBI_NONE, libi_millis, libi_result};

/// A session that was launched, or is being launched. Any number of threads may use it at a time. Since 0.1.
pub struct libi_session {
    _opaque: (),
}

handle!(libi_session, "session", ProcessLocal<Session>);

/// A session for C.
pub(crate) fn give_session(session: Session) -> *mut libi_session {
    give(ProcessLocal::new(session))
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
    unsafe { look(session, 0, |session| session.id().0) }
}

/// How many members it has; 0 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_size(session: *const libi_session) -> u32 {
    // SAFETY: as the header asks.
    unsafe { look(session, 0, Session::size) }
}

/// How far it is; -1 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_stage(session: *const libi_session) -> libi_stage {
    // SAFETY: as the header asks.
    unsafe {
        look(session, -1, |session| match session.stage() {
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
    unsafe { look(session, std::ptr::null_mut(), |session| give_layout(session.layout().clone())) }
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
        act(session, |session| {
            let tally = session.progress();
            OutParam::new(joined, tally.joined, "joined")?;
            OutParam::new(failed, tally.failed, "failed")?;
            OutParam::new(waiting, tally.waiting, "waiting")?;
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
        act(session, |session| {
            let links = session.links();
            OutParam::new(direct, links.direct, "direct")?;
            OutParam::new(fell_back, links.fell_back, "fell_back")?;
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
        act(session, |session| {
            let place = OutParam::new(report, std::ptr::null_mut(), "report")?;
            let found = session.report();
            let found = found.ok_or_else(|| CallError::new(LIBI_NONE, "there is no verdict yet"))?;
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
    unsafe { look(session, 0, |session| args::write_ranks(&session.lost(), ranks, room)) }
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
    unsafe { try_with(session, |session| session.wait_up(timeout(most)).map(drop)) }
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
    unsafe { try_with(session, |session| session.wait_done(timeout(most))) }
}

/// Writes to the master's standard input, if the options have asked for that by libi_options_set_input().
///
/// Returns LIBI_OK when everything is on its way, LIBI_ERR_TIMED_OUT if the program does not take it in time (part of it may have been
/// written), LIBI_ERR_STATE if the options have not asked for it, LIBI_ERR_ENDED if the session has ended. While it is launched, it waits.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_write(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    most: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        act(session, |session| {
            let bytes = args::bytes(bytes, length, "bytes")?;
            session.write(bytes, timeout(most)).map_err(CallError::from)
        })
    }
}

/// Ends the master's standard input. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_close_input(session: *mut libi_session) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        act(session, |session| {
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
/// is left of it. Called again meanwhile, by another thread, it can shorten the grace.
///
/// Returns LIBI_OK, or LIBI_ERR_TIMED_OUT if not even force was enough in time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_terminate(
    session: *mut libi_session,
    grace: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { try_with(session, |session| session.terminate(timeout(grace))) }
}

/// Sends the master a message, which gets it by libi_member_recv(). Before the session is up it waits for that; messages arrive in the
/// order in which they were sent. Comes back when it need not be held here any more, which says nothing of whether it was received.
///
/// Returns LIBI_OK; LIBI_ERR_PEER_LOST if the master is gone; LIBI_ERR_ENDED if the session did not come up (libi_session_report() says
/// why), or is over; LIBI_ERR_TIMED_OUT: it is taken back then, as far as that is possible. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_send(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    most: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        act(session, |session| {
            let message = args::bytes(bytes, length, "bytes")?;
            session.send(message.to_vec()).wait(timeout(most)).map_err(CallError::from)
        })
    }
}

/// As libi_session_send(), and does not wait: the message is copied. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_start_send(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        act(session, |session| {
            let place = OutParam::new(pending, std::ptr::null_mut(), "pending")?;
            let message = args::bytes(bytes, length, "bytes")?;
            place.put(pending::started(session.send(message.to_vec()), pending::nothing));
            Ok(())
        })
    }
}

/// Receives the next message that the master has sent by libi_member_send(), in part 0 of *data, to be freed by libi_data_free().
///
/// Returns as libi_session_send(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_recv(
    session: *mut libi_session,
    data: *mut *mut libi_data,
    most: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        act(session, |session| {
            let place = OutParam::new(data, std::ptr::null_mut(), "data")?;
            place.put(data::give_data(vec![session.recv().wait(timeout(most))?]));
            Ok(())
        })
    }
}

/// As libi_session_recv(), and does not wait. Several may be asked for at a time; they come in their order. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_start_recv(
    session: *mut libi_session,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        act(session, |session| {
            let place = OutParam::new(pending, std::ptr::null_mut(), "pending")?;
            place.put(pending::started(session.recv(), pending::one));
            Ok(())
        })
    }
}

/// # Safety
/// The session is NULL, or what C was given.
unsafe fn try_with(
    session: *const libi_session,
    body: impl FnOnce(&Session) -> Result<(), Error>,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe { act(session, |session| body(session).map_err(CallError::from)) }
}

/// # Safety
/// The session is NULL, or what C was given.
unsafe fn act(session: *const libi_session, body: impl FnOnce(&Session) -> CallResult) -> libi_result {
    // SAFETY: as this function asks.
    unsafe { with(session, |own| body(own.get()?)) }
}

/// # Safety
/// The session is NULL, or what C was given.
unsafe fn look<R: Copy>(session: *const libi_session, nothing: R, body: impl FnOnce(&Session) -> R) -> R {
    // SAFETY: as this function asks.
    unsafe { ask(session, nothing, |own| own.look().map_or(nothing, body)) }
}
