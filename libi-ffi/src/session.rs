//! A session, as its front end has it.

mod growth;
mod messages;
mod restart;

use std::ptr::null_mut;

use libc::{c_int, c_void};
use libi::{Error, Session, Stage};

use crate::args::{self, OutParam, from_c};
use crate::error::{CallError, CallResult};
use crate::layout::{give_layout, libi_layout};
use crate::object::{self, ask, give, handle, query, with};
use crate::reentry::ProcessLocal;
use crate::report::{give_report, libi_report};
use crate::result::libi_result::{self, LIBI_NONE};
use crate::result::libi_timeout;

/// A session that was launched, or is being launched. Any number of threads may use it. Since
/// 0.1.
pub struct libi_session {
    _opaque: (),
}

handle!(libi_session, "session", ProcessLocal<Session>);

pub(crate) fn give_session(session: Session) -> *mut libi_session {
    give(ProcessLocal::new(session))
}

/// The stages of a session. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_stage {
    /// It is being launched.
    LIBI_STAGE_LAUNCHING = 0,
    /// It is up.
    LIBI_STAGE_UP = 1,
    /// Every member has ended, has detached, or is lost.
    LIBI_STAGE_DONE = 2,
    /// It did not come up and is being ended.
    LIBI_STAGE_GIVEN_UP = 3,
    /// All its processes have ended or detached.
    LIBI_STAGE_OVER = 4,
}

/// The state of a session. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_session_info {
    /// The number of the session in its distributions.
    pub number: u32,
    /// The number of members, with those by which it has grown.
    pub size: u32,
    /// Its stage.
    pub stage: libi_stage,
    /// Hosts that have joined, while it is launched.
    pub joined: u32,
    /// Hosts that have failed.
    pub failed: u32,
    /// Hosts that have neither joined nor failed.
    pub waiting: u32,
    /// Hosts with a direct link to the host that launched them. May change while the session is
    /// up.
    pub direct: u32,
    /// Hosts that could not get a direct link and use the channel of the remote shell instead.
    pub fell_back: u32,
    /// Bytes of output that were dropped while a detached session had no front end, before this one
    /// has attached to it.
    pub missed: u64,
}

/// Groups of ranks. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_ranks {
    /// Members that did not come up, where the launch allowed that. They take part in nothing,
    /// and what they would contribute is empty.
    LIBI_RANKS_ABSENT = 0,
    /// In a front end: members that were lost with their hosts, and how they end is not known. In
    /// a member: all members that came up and cannot be reached any more, also because they
    /// ended; libi_member_losses() tells how.
    LIBI_RANKS_LOST = 1,
    /// Members that have ended, with any exit status, and were not restarted. Only a front end knows
    /// them.
    LIBI_RANKS_ENDED = 2,
    /// Only in a member: lost members without which its last operation completed that waits and has
    /// returned LIBI_OK; none unless LIBI_ON_LOSS_CONTINUE is set. For operations that were started
    /// there is libi_pending_missing().
    LIBI_RANKS_MISSING = 3,
    /// Only in a member: all members that came up without LIBI_RANKS_MISSING. The same at all of
    /// them after libi_member_barrier().
    LIBI_RANKS_LEFT = 4,
}

/// cbindgen:ignore
pub type libi_ranks_arg = c_int;

/// Frees a session and ends it: members that have not detached are killed. A detached session goes
/// on (libi_options_set_detached()). NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_free(session: *mut libi_session) {
    // SAFETY: as documented in the header.
    unsafe { object::free(session) }
}

/// Fills *info with the current state. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_query(
    session: *const libi_session,
    info: *mut libi_session_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(session, info, size, |own| {
            let session = own.get()?;
            let (hosts, links) = (session.progress(), session.links());
            Ok(libi_session_info {
                number: session.id().0,
                size: session.size(),
                stage: match session.stage() {
                    Stage::Launching => libi_stage::LIBI_STAGE_LAUNCHING,
                    Stage::Up => libi_stage::LIBI_STAGE_UP,
                    Stage::Done => libi_stage::LIBI_STAGE_DONE,
                    Stage::GivenUp => libi_stage::LIBI_STAGE_GIVEN_UP,
                    Stage::Over => libi_stage::LIBI_STAGE_OVER,
                },
                joined: hosts.joined,
                failed: hosts.failed,
                waiting: hosts.waiting,
                direct: links.direct,
                fell_back: links.fell_back,
                missed: session.missed_output(),
            })
        })
    }
}

/// The layout of a session: where its ranks run, with those by which it has grown.
///
/// Returns LIBI_OK with a layout, to be freed with libi_layout_free(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_layout(
    session: *const libi_session,
    layout: *mut *mut libi_layout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            OutParam::new(layout, null_mut(), "layout")?.put(give_layout(session.current_layout()));
            Ok(())
        })
    }
}

/// The report of the launch.
///
/// Returns LIBI_OK with a report, to be freed with libi_report_free(), or LIBI_NONE while the
/// launch is not decided. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_report(
    session: *const libi_session,
    report: *mut *mut libi_report,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(report, null_mut(), "report")?;
            let found = session.report();
            let found = found.ok_or_else(|| CallError::new(LIBI_NONE, "the launch is not decided yet"))?;
            place.put(give_report(found));
            Ok(())
        })
    }
}

/// The ranks of a group, LIBI_RANKS_LOST or LIBI_RANKS_ENDED: writes the lowest ones, as many as
/// there is room for. ranks may be NULL if room is 0.
///
/// Returns the number of ranks in the group; 0 for NULL and for another group. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_ranks(
    session: *const libi_session,
    group: libi_ranks_arg,
    ranks: *mut u32,
    room: usize,
) -> usize {
    // SAFETY: as documented in the header.
    unsafe {
        ask(session, 0, |own| {
            let found = own.look().and_then(|session| match group_of(group) {
                Ok(libi_ranks::LIBI_RANKS_LOST) => Some(session.lost()),
                Ok(libi_ranks::LIBI_RANKS_ENDED) => Some(session.ended()),
                _ => None,
            });
            found.map_or(0, |found| args::write_ranks(&found, ranks, room))
        })
    }
}

pub(crate) fn group_of(group: libi_ranks_arg) -> CallResult<libi_ranks> {
    from_c!(group, "libi_ranks", libi_ranks {
        LIBI_RANKS_ABSENT => libi_ranks::LIBI_RANKS_ABSENT,
        LIBI_RANKS_LOST => libi_ranks::LIBI_RANKS_LOST,
        LIBI_RANKS_ENDED => libi_ranks::LIBI_RANKS_ENDED,
        LIBI_RANKS_MISSING => libi_ranks::LIBI_RANKS_MISSING,
        LIBI_RANKS_LEFT => libi_ranks::LIBI_RANKS_LEFT,
    })
}

/// Waits until each host has joined or failed, which is at most until the deadline of the launch.
///
/// Returns LIBI_OK if the session is up; LIBI_ERR_NOT_LAUNCHED if not (libi_last_error() explains
/// it for people, libi_session_report() for programs); or LIBI_ERR_TIMED_OUT. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_wait_up(
    session: *const libi_session,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { try_on(session, |session| session.wait_up(args::timeout(timeout)).map(drop)) }
}

/// Waits until every member has ended, has detached, or is lost.
///
/// Returns LIBI_OK, or LIBI_ERR_TIMED_OUT. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_wait_done(
    session: *const libi_session,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { try_on(session, |session| session.wait_done(args::timeout(timeout))) }
}

/// Writes to the standard input of the master, or of all programs. Waits while the session is
/// launched. The options have to ask for it: libi_options_set_input(),
/// libi_options_set_input_to_all().
///
/// Returns LIBI_OK when all bytes are on their way; LIBI_ERR_TIMED_OUT if a program does not
/// read them in time (a part may have been written); LIBI_ERR_STATE without the option; or
/// LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_write(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let bytes = args::bytes(bytes, length, "bytes")?;
            session.write(bytes, args::timeout(timeout)).map_err(CallError::from)
        })
    }
}

/// Closes that standard input. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_close_input(session: *mut libi_session) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            session.close_input();
            Ok(())
        })
    }
}

/// Sends a signal to the process of every member that has not detached and not ended.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such signal. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_kill(session: *mut libi_session, signal: c_int) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { try_on(session, |session| session.kill(signal)) }
}

/// Ends the session: sends SIGTERM to every member that has not detached, and kills those that
/// are left after the grace period. Returns when all have ended. Another thread may call it
/// meanwhile to shorten the grace period.
///
/// Returns LIBI_OK, or LIBI_ERR_TIMED_OUT if processes are left even though they were killed.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_terminate(
    session: *mut libi_session,
    grace: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { try_on(session, |session| session.terminate(args::timeout(grace))) }
}

/// # Safety
/// As of [`with`].
pub(crate) unsafe fn on(
    session: *const libi_session,
    body: impl FnOnce(&Session) -> CallResult,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe { with(session, |own| body(own.get()?)) }
}

/// # Safety
/// As of [`with`].
unsafe fn try_on(
    session: *const libi_session,
    body: impl FnOnce(&Session) -> Result<(), Error>,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe { on(session, |session| body(session).map_err(CallError::from)) }
}
