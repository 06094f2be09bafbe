//! What follows when members are lost while the session is up, and members that are started again.

use std::ffi::c_char;

use libi::Rank;

use super::{libi_session, on, try_on};
use crate::args;
use crate::options::calls::{libi_on_loss_arg, on_loss_of};
use crate::result::{libi_result, libi_timeout};

/// Starts a member again whose process has ended: the same program, on the same host, as the same
/// rank. If its host is lost, all members that were lost with it start again: on a spare host that
/// is left (libi_options_set_spares()), else on the same machine. Only while the session is up,
/// with LIBI_ON_LOSS_CONTINUE, and where the process that leads the host is no member: an agent
/// (libi_options_set_agent()), or LIBI_ENGINE_APART. Not for members of lost hosts through a
/// back-end that starts all hosts together, such as srun.
///
/// Returns when the new process has joined; libi_member_first_call() tells it where calls go on. It
/// gets no standard input from the front end. A process that does not join within
/// LIBI_RULE_JOIN_TIMEOUT is killed. LIBI_EVENT_RESTARTED or LIBI_EVENT_NOT_RESTARTED reports the
/// answer, too. The session is not done while a member is restarted; when it is done, no member can
/// be restarted. Any thread, at any time.
///
/// Returns LIBI_OK; LIBI_ERR_NOT_RESTARTED (libi_last_error() has the reason); LIBI_ERR_TIMED_OUT,
/// and the restart goes on; or LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_restart(
    session: *mut libi_session,
    rank: u32,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { try_on(session, |session| session.restart(Rank(rank), args::timeout(timeout))) }
}

/// As libi_session_restart(), for a member whose host is lost: it starts on this host, which is
/// named as in host lists, and with it all that were lost with their host.
///
/// Returns what that does; LIBI_ERR_NULL; LIBI_ERR_ARGUMENT if that is no name of a host. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_restart_on(
    session: *mut libi_session,
    rank: u32,
    host: *const c_char,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let host = args::text(host, "host")?;
            session.restart_on(Rank(rank), host, args::timeout(timeout))?;
            Ok(())
        })
    }
}

/// As libi_session_restart(), but does not wait: LIBI_EVENT_RESTARTED or LIBI_EVENT_NOT_RESTARTED
/// reports the answer. Each request has one. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_request_restart(session: *mut libi_session, rank: u32) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            session.request_restart(Rank(rank));
            Ok(())
        })
    }
}

/// As libi_session_restart_on(), but does not wait: LIBI_EVENT_RESTARTED or LIBI_EVENT_NOT_RESTARTED
/// reports the answer. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_request_restart_on(
    session: *mut libi_session,
    rank: u32,
    host: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            session.request_restart_on(Rank(rank), args::text(host, "host")?)?;
            Ok(())
        })
    }
}

/// Chooses what follows when a member is lost from now on. A session that was launched with
/// LIBI_ON_LOSS_CONTINUE may be changed to LIBI_ON_LOSS_END and back, others to LIBI_ON_LOSS_END and
/// LIBI_ON_LOSS_FAIL: whether calls go on after a loss stays as it was at the launch. Losses of
/// which the front end hears later follow the new choice. Any thread, at any time.
///
/// Returns LIBI_OK, LIBI_ERR_ARGUMENT if there is no such choice in this session, or
/// LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_set_on_loss(
    session: *mut libi_session,
    on_loss: libi_on_loss_arg,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            session.set_on_loss(on_loss_of(on_loss)?)?;
            Ok(())
        })
    }
}
