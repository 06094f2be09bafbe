//! Messages between a front end and the master of a session, and collectives with all its members.

use std::ptr::null_mut;

use libc::c_void;

use super::{libi_session, on};
use crate::args::{self, OutParam};
use crate::data::{self, libi_data};
use crate::error::CallError;
use crate::object::ask;
use crate::pending::{self, Outcome, libi_pending};
use crate::result::{libi_result, libi_timeout};

/// The rank of the master, with which the front end exchanges messages: 0, or after
/// libi_options_set_replace_master() the next rank that was left when it was lost; UINT32_MAX for
/// NULL. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_master(session: *const libi_session) -> u32 {
    // SAFETY: as documented in the header.
    unsafe { ask(session, u32::MAX, |own| own.look().map_or(u32::MAX, |session| session.master().0)) }
}

/// Sends a message to the master, which receives it with libi_member_recv(). Messages arrive in
/// the order in which they were sent, and wait until the session is up. Returns when the message
/// has left this process, which does not mean that it was received.
///
/// Returns LIBI_OK; LIBI_ERR_PEER_LOST if the master is lost (where it is replaced, try again after
/// LIBI_EVENT_MASTER_REPLACED); LIBI_ERR_ENDED if the session did
/// not come up or is over; LIBI_ERR_TIMED_OUT, and the message is withdrawn if that is still
/// possible. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_send(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let message = args::bytes(bytes, length, "bytes")?;
            session.send(message.to_vec()).wait(args::timeout(timeout)).map_err(CallError::from)
        })
    }
}

/// Starts libi_session_send(). The message is copied. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_start_send(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(pending, null_mut(), "pending")?;
            let message = args::bytes(bytes, length, "bytes")?;
            place.put(pending::started(session.send(message.to_vec()), pending::nothing));
            Ok(())
        })
    }
}

/// Receives the next message that the master has sent with libi_member_send(), in part 0 of
/// *data, which is to be freed with libi_data_free().
///
/// Returns LIBI_OK; LIBI_ERR_PEER_LOST if the master is lost; LIBI_ERR_ENDED if the session did
/// not come up or is over; LIBI_ERR_TIMED_OUT, and a message that comes later is received by the
/// next call. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_recv(
    session: *mut libi_session,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(data, null_mut(), "data")?;
            place.put(data::give_data(vec![session.recv().wait(args::timeout(timeout))?]));
            Ok(())
        })
    }
}

/// Starts libi_session_recv(). Several may be pending; they receive in the order of their start.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_start_recv(
    session: *mut libi_session,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(pending, null_mut(), "pending")?;
            place.put(pending::started(session.recv(), pending::one));
            Ok(())
        })
    }
}

/// Sends bytes to all members, which receive them with libi_member_broadcast_from_front().
///
/// Returns as libi_session_send(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_broadcast(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let message = args::bytes(bytes, length, "bytes")?;
            session.broadcast(message.to_vec()).wait(args::timeout(timeout)).map_err(CallError::from)
        })
    }
}

/// Starts libi_session_broadcast(). The bytes are copied. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_start_broadcast(
    session: *mut libi_session,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(pending, null_mut(), "pending")?;
            let message = args::bytes(bytes, length, "bytes")?;
            place.put(pending::started(session.broadcast(message.to_vec()), pending::nothing));
            Ok(())
        })
    }
}

/// Collects what all members pass to libi_member_gather_to_front(): one part for each rank in
/// *data, empty for absent members.
///
/// Returns as libi_session_send(); *data is to be freed with libi_data_free(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_gather(
    session: *mut libi_session,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(data, null_mut(), "data")?;
            place.put(data::give_data(session.gather().wait(args::timeout(timeout))?));
            Ok(())
        })
    }
}

/// Starts libi_session_gather(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_start_gather(
    session: *mut libi_session,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(pending, null_mut(), "pending")?;
            place.put(pending::started(session.gather(), Outcome::Parts));
            Ok(())
        })
    }
}
