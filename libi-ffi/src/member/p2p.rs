//! Messages between two members, and between the master and the front end.

use libc::c_void;
use libi::{Member, Rank};

use super::{copied, libi_member, start, wait, wait_for_data};
use crate::data::libi_data;
use crate::pending::{libi_pending, nothing, one};
use crate::result::{libi_result, libi_timeout};

/// Sends a message to a member. The meaning of the tag is the program's; messages with the same
/// tag arrive in their order. Completes when the message has left this process, which does not
/// mean that it was received.
///
/// Returns LIBI_OK; LIBI_ERR_NO_SUCH_PEER, LIBI_ERR_ABSENT or LIBI_ERR_PEER_LOST if the member
/// cannot receive it; LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_send_to(
    member: *mut libi_member,
    rank: u32,
    tag: u32,
    bytes: *const c_void,
    length: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        wait(
            member,
            timeout,
            |member| Ok(member.send_to(Rank(rank), tag, copied(bytes, length, "bytes")?)),
            Ok,
        )
    }
}

/// Starts libi_member_send_to(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_send_to(
    member: *mut libi_member,
    rank: u32,
    tag: u32,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        start(
            member,
            pending,
            |member| Ok(member.send_to(Rank(rank), tag, copied(bytes, length, "bytes")?)),
            nothing,
        )
    }
}

/// Receives the next message of a member with this tag, in part 0 of *data.
///
/// Returns LIBI_OK; LIBI_ERR_NO_SUCH_PEER, LIBI_ERR_ABSENT or LIBI_ERR_PEER_LOST if the member
/// cannot send it; LIBI_ERR_WITHDRAWN if the sender has withdrawn it, and the next receive may
/// succeed; LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_recv_from(
    member: *mut libi_member,
    rank: u32,
    tag: u32,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| Ok(member.recv_from(Rank(rank), tag));
        wait_for_data(member, timeout, data, |_| true, begin, one)
    }
}

/// Starts libi_member_recv_from(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_recv_from(
    member: *mut libi_member,
    rank: u32,
    tag: u32,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| Ok(member.recv_from(Rank(rank), tag)), one) }
}

/// Sends a message from the master to the front end, which receives it with libi_session_recv().
///
/// Returns LIBI_OK; LIBI_ERR_NOT_MASTER at other members; LIBI_ERR_FRONT_END_LOST,
/// LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_send(
    member: *mut libi_member,
    bytes: *const c_void,
    length: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { wait(member, timeout, |member| Ok(member.send(copied(bytes, length, "bytes")?)), Ok) }
}

/// Starts libi_member_send(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_send(
    member: *mut libi_member,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| Ok(member.send(copied(bytes, length, "bytes")?)), nothing) }
}

/// Receives the next message of the front end at the master, in part 0 of *data. The master may
/// broadcast what other members need.
///
/// Returns LIBI_OK; LIBI_ERR_NOT_MASTER at other members; LIBI_ERR_FRONT_END_LOST,
/// LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_recv(
    member: *mut libi_member,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| Ok(member.recv());
        wait_for_data(member, timeout, data, |_| true, begin, one)
    }
}

/// Starts libi_member_recv(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_recv(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| Ok(member.recv()), one) }
}
