//! Collective calls in which everybody gets something of everybody, or of his neighbours.

use libc::c_void;
use libi::{Member, Pending, RingPosition};

use super::collectives::{copied, parts_of};
use super::{DataOut, libi_member, start, wait};
use crate::args;
use crate::data::libi_data;
use crate::pending::{Outcome, libi_pending};
use crate::result::{CallResult, libi_millis, libi_result};

/// Has everybody get everybody's bytes, of whatever lengths: a part for each rank, empty for those that are absent. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allgather(
    member: *mut libi_member,
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
            Ok(member.allgather(copied(bytes, length, "bytes")?))
        };
        wait(member, timeout, begin, |came| place.take(Outcome::Parts(came)))
    }
}

/// As libi_member_allgather(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_allgather(
    member: *mut libi_member,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| Ok(member.allgather(copied(bytes, length, "bytes")?));
        start(member, pending, begin, Outcome::Parts)
    }
}

/// As libi_member_allgather(), of bytes that are equally long everywhere; LIBI_ERR_MISMATCH if they are not. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allgather_equal(
    member: *mut libi_member,
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
            Ok(member.allgather_equal(copied(bytes, length, "bytes")?))
        };
        wait(member, timeout, begin, |came| place.take(Outcome::Parts(came)))
    }
}

/// As libi_member_allgather_equal(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_allgather_equal(
    member: *mut libi_member,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| Ok(member.allgather_equal(copied(bytes, length, "bytes")?));
        start(member, pending, begin, Outcome::Parts)
    }
}

/// Has everybody get one part of every member: this one gives parts[r], lengths[r] bytes, to rank r, and gets what rank r has for it
/// in part r of *data. All parts of all members are equally long; count is the size of the session.
///
/// LIBI_ERR_PARTS if there is not a part for each rank, or if this member's own are not equally long; LIBI_ERR_MISMATCH if another's have another
/// length. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_alltoall(
    member: *mut libi_member,
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
            Ok(member.alltoall(parts_of(parts, lengths, count)?))
        };
        wait(member, timeout, begin, |came| place.take(Outcome::Parts(came)))
    }
}

/// As libi_member_alltoall(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_alltoall(
    member: *mut libi_member,
    parts: *const *const c_void,
    lengths: *const usize,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| Ok(member.alltoall(parts_of(parts, lengths, count)?));
        start(member, pending, begin, Outcome::Parts)
    }
}

/// As libi_member_alltoall(), with parts of any lengths. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_alltoallv(
    member: *mut libi_member,
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
            Ok(member.alltoallv(parts_of(parts, lengths, count)?))
        };
        wait(member, timeout, begin, |came| place.take(Outcome::Parts(came)))
    }
}

/// As libi_member_alltoallv(), and does not wait. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_alltoallv(
    member: *mut libi_member,
    parts: *const *const c_void,
    lengths: *const usize,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| Ok(member.alltoallv(parts_of(parts, lengths, count)?));
        start(member, pending, begin, Outcome::Parts)
    }
}

/// Finds this member's place in a ring of all, in which the members of a host are neighbours: *rank of *size, and in *before what all
/// members before it count for together. *neighbours has in part 0 what the left neighbour has for it, its right, and in part 1 what the right
/// one has for its left. rank, size and before may be NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_ring(
    member: *mut libi_member,
    count: u64,
    left: *const c_void,
    left_length: usize,
    right: *const c_void,
    right_length: usize,
    rank: *mut u32,
    size: *mut u32,
    before: *mut u64,
    neighbours: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(neighbours);
        let begin = |member: &Member| {
            place.check(true)?;
            ring(member, count, (left, left_length), (right, right_length))
        };
        wait(member, timeout, begin, |ring| {
            args::put(rank, ring.rank);
            args::put(size, ring.size);
            args::put(before, ring.before);
            place.take(Outcome::Ring(ring))
        })
    }
}

/// As libi_member_ring(), and does not wait: the place is to be had by libi_pending_ring(), and then the neighbours' data by
/// libi_pending_take(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_ring(
    member: *mut libi_member,
    count: u64,
    left: *const c_void,
    left_length: usize,
    right: *const c_void,
    right_length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| ring(member, count, (left, left_length), (right, right_length));
        start(member, pending, begin, Outcome::Ring)
    }
}

/// # Safety
/// As of [`args::bytes`].
unsafe fn ring(
    member: &Member,
    count: u64,
    left: (*const c_void, usize),
    right: (*const c_void, usize),
) -> CallResult<Pending<RingPosition>> {
    // SAFETY: as this function asks.
    let (left, right) = unsafe { (copied(left.0, left.1, "left")?, copied(right.0, right.1, "right")?) };
    Ok(member.ring(count, left, right))
}
