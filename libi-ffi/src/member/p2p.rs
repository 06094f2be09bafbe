//! Messages between two, and keys: nobody else has to do anything.

use libc::{c_char, c_void};
use libi::{KeyScope, Member, Pending, Rank};

use super::collectives::copied;
use super::{DataOut, libi_member, start, wait};
use crate::args;
use crate::data::libi_data;
use crate::pending::{found, libi_pending, nothing, one};
use crate::result::{CallError, CallResult, libi_millis, libi_result};

/// How a key reaches those who ask for it: LIBI_SPREAD_DENSE or LIBI_SPREAD_SPARSE. Since 0.1.
pub type libi_spread = i32;

/// The next fence takes it to every host: for keys that most members want. Since 0.1.
pub const LIBI_SPREAD_DENSE: libi_spread = 0;
/// It stays with the first member of the host where it was put, and is fetched when somebody asks: for keys that few want. It goes with
/// that member: who asks later gets LIBI_ERR_PEER_LOST, naming it. Since 0.1.
pub const LIBI_SPREAD_SPARSE: libi_spread = 1;

/// Sends a member a message, about whatever the two of them mean by the tag. Messages with the same tag arrive in their order. It is
/// over when this member need not hold the message any more, which says nothing of whether it was received.
///
/// LIBI_ERR_NO_SUCH_PEER, LIBI_ERR_ABSENT, LIBI_ERR_PEER_LOST: there is nobody to receive it. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_send_to(
    member: *mut libi_member,
    rank: u32,
    tag: u32,
    bytes: *const c_void,
    length: usize,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| Ok(member.send_to(Rank(rank), tag, copied(bytes, length, "bytes")?));
        wait(member, timeout, begin, Ok)
    }
}

/// As libi_member_send_to(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_send_to(
    member: *mut libi_member,
    rank: u32,
    tag: u32,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| Ok(member.send_to(Rank(rank), tag, copied(bytes, length, "bytes")?));
        start(member, pending, begin, nothing)
    }
}

/// Receives the next message that a member has sent to this one with this tag, in part 0 of *data.
///
/// LIBI_ERR_NO_SUCH_PEER, LIBI_ERR_ABSENT, LIBI_ERR_PEER_LOST: there is nobody to send it. LIBI_ERR_WITHDRAWN: the sender has taken it
/// back, and the next receive is a new chance. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_recv_from(
    member: *mut libi_member,
    rank: u32,
    tag: u32,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(true)?;
            Ok(member.recv_from(Rank(rank), tag))
        };
        wait(member, timeout, begin, |came| place.take(one(came)))
    }
}

/// As libi_member_recv_from(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_recv_from(
    member: *mut libi_member,
    rank: u32,
    tag: u32,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| Ok(member.recv_from(Rank(rank), tag)), one) }
}

/// Sends the front end a message. Only the master does; that others make the same call has no effect, so that all members may run the
/// same program.
///
/// LIBI_ERR_FRONT_END_LOST. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_send(
    member: *mut libi_member,
    bytes: *const c_void,
    length: usize,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { wait(member, timeout, |member| Ok(member.send(copied(bytes, length, "bytes")?)), Ok) }
}

/// As libi_member_send(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_send(
    member: *mut libi_member,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| Ok(member.send(copied(bytes, length, "bytes")?)), nothing) }
}

/// Receives the next message that the front end has sent, in part 0 of *data. Only the master does; others who make the same call
/// get no bytes, at once. What they need to know the master may broadcast.
///
/// LIBI_ERR_FRONT_END_LOST. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_recv(
    member: *mut libi_member,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(true)?;
            Ok(member.recv())
        };
        wait(member, timeout, begin, |came| place.take(one(came)))
    }
}

/// As libi_member_recv(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_recv(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| Ok(member.recv()), one) }
}

/// Puts a value under a key, a text in UTF-8. Others are certain to see it after the next libi_member_fence().
///
/// LIBI_ERR_LONG_KEY; LIBI_ERR_ARGUMENT if it is no such text, or there is no such spread. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_put(
    member: *mut libi_member,
    key: *const c_char,
    bytes: *const c_void,
    length: usize,
    spread: libi_spread,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { wait(member, timeout, |member| put(member, key, (bytes, length), spread), Ok) }
}

/// As libi_member_put(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_put(
    member: *mut libi_member,
    key: *const c_char,
    bytes: *const c_void,
    length: usize,
    spread: libi_spread,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| put(member, key, (bytes, length), spread), nothing) }
}

/// # Safety
/// As of [`args::text`] and [`args::bytes`].
unsafe fn put(
    member: &Member,
    key: *const c_char,
    value: (*const c_void, usize),
    spread: libi_spread,
) -> CallResult<Pending<()>> {
    let spread = match spread {
        LIBI_SPREAD_DENSE => KeyScope::Replicated,
        LIBI_SPREAD_SPARSE => KeyScope::Local,
        other => return Err(CallError::argument(format!("there is no spread {other}"))),
    };
    // SAFETY: as this function asks.
    let (key, value) = unsafe { (args::text(key, "the key")?, copied(value.0, value.1, "bytes")?) };
    Ok(member.put(key, value, spread))
}

/// Gets the value of a key, in part 0 of *data. If there is none, waits until somebody puts one.
///
/// LIBI_ERR_LONG_KEY; LIBI_ERR_ARGUMENT; LIBI_ERR_PEER_LOST if whoever has it is lost. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_get(
    member: *mut libi_member,
    key: *const c_char,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(true)?;
            Ok(member.get(args::text(key, "the key")?))
        };
        wait(member, timeout, begin, |came| place.take(one(came)))
    }
}

/// As libi_member_get(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_get(
    member: *mut libi_member,
    key: *const c_char,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| Ok(member.get(args::text(key, "the key")?)), one) }
}

/// Gets the value of a key, in part 0 of *data, if there is one; LIBI_NONE if there is none.
///
/// Else as libi_member_get(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_find(
    member: *mut libi_member,
    key: *const c_char,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(true)?;
            Ok(member.find(args::text(key, "the key")?))
        };
        wait(member, timeout, begin, |came| place.take(found(came)))
    }
}

/// As libi_member_find(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_find(
    member: *mut libi_member,
    key: *const c_char,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| Ok(member.find(args::text(key, "the key")?)), found) }
}
