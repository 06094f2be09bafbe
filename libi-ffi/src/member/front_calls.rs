//! Collective operations of all members with the front end.

use libc::c_void;
use libi::Member;

use super::{copied, libi_member, start, wait, wait_for_data};
use crate::data::libi_data;
use crate::pending::{libi_pending, nothing, one};
use crate::result::{libi_result, libi_timeout};

/// Receives what the front end sends with libi_session_broadcast(), in part 0 of *data, at all
/// members.
///
/// Also returns LIBI_ERR_FRONT_END_LOST at the master. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_broadcast_from_front(
    member: *mut libi_member,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| Ok(member.broadcast_from_front());
        wait_for_data(member, timeout, data, |_| true, begin, one)
    }
}

/// Starts libi_member_broadcast_from_front(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_broadcast_from_front(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| Ok(member.broadcast_from_front()), one) }
}

/// Collects the bytes of all members at the front end, which receives them with
/// libi_session_gather(). Completes when the bytes have left this process.
///
/// Also returns LIBI_ERR_FRONT_END_LOST at the master. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_gather_to_front(
    member: *mut libi_member,
    bytes: *const c_void,
    length: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| Ok(member.gather_to_front(copied(bytes, length, "bytes")?));
        wait(member, timeout, begin, Ok)
    }
}

/// Starts libi_member_gather_to_front(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_gather_to_front(
    member: *mut libi_member,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| Ok(member.gather_to_front(copied(bytes, length, "bytes")?));
        start(member, pending, begin, nothing)
    }
}
