//! Collective calls, with data of any length.

use libc::c_void;
use libi::{Bytes, Member, Pending, Rank};

use super::{DataOut, libi_member, start, wait};
use crate::args;
use crate::data::libi_data;
use crate::pending::{Outcome, all_or_nothing, libi_pending, nothing, one};
use crate::result::{CallError, CallResult, libi_millis, libi_result};

/// Waits until all members have called it. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_barrier(member: *mut libi_member, timeout: libi_millis) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { wait(member, timeout, |member| Ok(member.barrier()), Ok) }
}

/// As libi_member_barrier(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_barrier(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| Ok(member.barrier()), nothing) }
}

/// Waits until all members have called it; what anybody has put before by libi_member_put() is then seen by everybody. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_fence(member: *mut libi_member, timeout: libi_millis) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { wait(member, timeout, |member| Ok(member.fence()), Ok) }
}

/// As libi_member_fence(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_fence(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| Ok(member.fence()), nothing) }
}

/// Has everybody get what the root has, in part 0 of *data. What others than the root give is not looked at.
///
/// LIBI_ERR_NO_SUCH_PEER if there is no such root. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_broadcast(
    member: *mut libi_member,
    root: u32,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(true)?;
            broadcast(member, root, bytes, length)
        };
        wait(member, timeout, begin, |came| place.take(one(came)))
    }
}

/// As libi_member_broadcast(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_broadcast(
    member: *mut libi_member,
    root: u32,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| broadcast(member, root, bytes, length), one) }
}

/// # Safety
/// As of [`args::bytes`].
pub(super) unsafe fn broadcast(
    member: &Member,
    root: u32,
    bytes: *const c_void,
    length: usize,
) -> CallResult<Pending<Bytes>> {
    let mine = root == member.rank().0;
    // SAFETY: as this function asks.
    let bytes = if mine { Some(unsafe { copied(bytes, length, "bytes") }?) } else { None };
    Ok(member.broadcast(Rank(root), bytes))
}

/// Has the root get everybody's bytes, of whatever lengths: a part for each rank, empty for those that are absent. *data is NULL
/// elsewhere, where data may also be NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_gather(
    member: *mut libi_member,
    root: u32,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(root == member.rank().0)?;
            Ok(member.gather(Rank(root), copied(bytes, length, "bytes")?))
        };
        wait(member, timeout, begin, |came| place.take(all_or_nothing(came)))
    }
}

/// As libi_member_gather(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_gather(
    member: *mut libi_member,
    root: u32,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    let begin = |member: &Member| {
        // SAFETY: as the header asks.
        let bytes = unsafe { copied(bytes, length, "bytes") }?;
        Ok(member.gather(Rank(root), bytes))
    };
    // SAFETY: as the header asks.
    unsafe { start(member, pending, begin, all_or_nothing) }
}

/// As libi_member_gather(), of bytes that are equally long everywhere; LIBI_ERR_MISMATCH if they are not. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_gather_equal(
    member: *mut libi_member,
    root: u32,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(root == member.rank().0)?;
            Ok(member.gather_equal(Rank(root), copied(bytes, length, "bytes")?))
        };
        wait(member, timeout, begin, |came| place.take(all_or_nothing(came)))
    }
}

/// As libi_member_gather_equal(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_gather_equal(
    member: *mut libi_member,
    root: u32,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    let begin = |member: &Member| {
        // SAFETY: as the header asks.
        let bytes = unsafe { copied(bytes, length, "bytes") }?;
        Ok(member.gather_equal(Rank(root), bytes))
    };
    // SAFETY: as the header asks.
    unsafe { start(member, pending, begin, all_or_nothing) }
}

/// Has everybody get his part of what the root has, in part 0 of *data. The root gives a part for each rank, also for those that are
/// absent: count is the size of the session, parts[r] points to lengths[r] bytes. What others give is not looked at.
///
/// LIBI_ERR_PARTS if the root has not a part for each rank. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_scatter(
    member: *mut libi_member,
    root: u32,
    parts: *const *const c_void,
    lengths: *const usize,
    count: usize,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(true)?;
            scatter(member, root, parts, lengths, count)
        };
        wait(member, timeout, begin, |came| place.take(one(came)))
    }
}

/// As libi_member_scatter(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_scatter(
    member: *mut libi_member,
    root: u32,
    parts: *const *const c_void,
    lengths: *const usize,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { start(member, pending, |member| scatter(member, root, parts, lengths, count), one) }
}

/// # Safety
/// As of [`parts_of`].
unsafe fn scatter(
    member: &Member,
    root: u32,
    parts: *const *const c_void,
    lengths: *const usize,
    count: usize,
) -> CallResult<Pending<Bytes>> {
    let mine = root == member.rank().0;
    // SAFETY: as this function asks.
    let parts = if mine { Some(unsafe { parts_of(parts, lengths, count) }?) } else { None };
    Ok(member.scatter(Rank(root), parts))
}

impl DataOut {
    /// Gives what has come, if anything has.
    pub(super) fn take(&self, came: Outcome) -> CallResult {
        match came {
            Outcome::Parts(parts) => self.put(parts),
            Outcome::Ring(ring) => self.put(vec![ring.left, ring.right]),
            Outcome::None(text) => return Err(CallError::new(crate::result::LIBI_NONE, text)),
            Outcome::Nothing => {}
        }
        Ok(())
    }
}

/// Bytes of the library's own.
///
/// # Safety
/// As of [`args::bytes`].
pub(super) unsafe fn copied(bytes: *const c_void, length: usize, what: &str) -> CallResult<Bytes> {
    // SAFETY: as this function asks.
    Ok(Bytes::copy_from_slice(unsafe { args::bytes(bytes, length, what) }?))
}

/// As many parts as are given.
///
/// # Safety
/// There are as many pointers and lengths, and what they say of parts is true.
pub(super) unsafe fn parts_of(
    parts: *const *const c_void,
    lengths: *const usize,
    count: usize,
) -> CallResult<Vec<Bytes>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if parts.is_null() || lengths.is_null() {
        return Err(CallError::null(if parts.is_null() { "parts" } else { "lengths" }));
    }
    if u32::try_from(count).is_err() {
        return Err(CallError::argument(format!("no session has {count} members")));
    }
    let part = |at| {
        // SAFETY: as this function asks.
        let part = unsafe { copied(*parts.add(at), *lengths.add(at), "it") };
        part.map_err(|fault| CallError::new(fault.code, format!("part {at}: {}", fault.text)))
    };
    (0..count).map(part).collect()
}
