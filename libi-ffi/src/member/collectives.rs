//! Collective operations on data of any length.

use libc::{c_int, c_void};
use libi::{Bytes, Member, Pending, Rank, RingPosition};

use super::{copied, libi_member, start, wait, wait_for_data};
use crate::args::from_c;
use crate::data::libi_data;
use crate::error::{CallError, CallResult};
use crate::pending::{Outcome, all_or_nothing, libi_pending, libi_ring_position, nothing, one};
use crate::result::{libi_result, libi_timeout};

/// The lengths of what members contribute to a collective operation. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_lengths {
    /// They may differ.
    LIBI_LENGTHS_ANY = 0,
    /// They are equal; otherwise the operation is LIBI_ERR_MISMATCH for all members.
    LIBI_LENGTHS_EQUAL = 1,
}

/// cbindgen:ignore
pub type libi_lengths_arg = c_int;

fn are_equal(lengths: libi_lengths_arg) -> CallResult<bool> {
    from_c!(lengths, "libi_lengths", libi_lengths {
        LIBI_LENGTHS_ANY => false,
        LIBI_LENGTHS_EQUAL => true,
    })
}

/// Waits until all members have called it. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_barrier(member: *mut libi_member, timeout: libi_timeout) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { wait(member, timeout, |member| Ok(member.barrier()), Ok) }
}

/// Starts libi_member_barrier(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_barrier(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| Ok(member.barrier()), nothing) }
}

/// Waits until all members have called it. Afterwards all members see the values that were put
/// before with libi_member_put(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_fence(member: *mut libi_member, timeout: libi_timeout) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { wait(member, timeout, |member| Ok(member.fence()), Ok) }
}

/// Starts libi_member_fence(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_fence(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| Ok(member.fence()), nothing) }
}

/// Sends the root's bytes to all members, in part 0 of *data. bytes and length are ignored at
/// other members.
///
/// Also returns LIBI_ERR_NO_SUCH_PEER if there is no such root. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_broadcast(
    member: *mut libi_member,
    root: u32,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| broadcast(member, root, bytes, length);
        wait_for_data(member, timeout, data, |_| true, begin, one)
    }
}

/// Starts libi_member_broadcast(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_broadcast(
    member: *mut libi_member,
    root: u32,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| broadcast(member, root, bytes, length), one) }
}

/// Collects the bytes of all members at the root: one part for each rank in *data, empty for
/// absent members. *data is NULL at other members, where data may be NULL too. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_gather(
    member: *mut libi_member,
    root: u32,
    lengths: libi_lengths_arg,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| gather(member, root, lengths, (bytes, length));
        wait_for_data(member, timeout, data, |member| member.rank().0 == root, begin, all_or_nothing)
    }
}

/// Starts libi_member_gather(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_gather(
    member: *mut libi_member,
    root: u32,
    lengths: libi_lengths_arg,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| gather(member, root, lengths, (bytes, length)), all_or_nothing) }
}

/// Sends each member its part of the root's parts, in part 0 of *data. The root passes one part
/// for each rank, including absent ones: parts[r] points to part_lengths[r] bytes, and count is
/// the size of the session. They are ignored at other members.
///
/// Also returns LIBI_ERR_PARTS if the root does not pass one part for each rank. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_scatter(
    member: *mut libi_member,
    root: u32,
    parts: *const *const c_void,
    part_lengths: *const usize,
    count: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| scatter(member, root, parts, part_lengths, count);
        wait_for_data(member, timeout, data, |_| true, begin, one)
    }
}

/// Starts libi_member_scatter(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_scatter(
    member: *mut libi_member,
    root: u32,
    parts: *const *const c_void,
    part_lengths: *const usize,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| scatter(member, root, parts, part_lengths, count), one) }
}

/// Collects the bytes of all members at all members: one part for each rank in *data, empty for
/// absent members. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allgather(
    member: *mut libi_member,
    lengths: libi_lengths_arg,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| allgather(member, lengths, (bytes, length));
        wait_for_data(member, timeout, data, |_| true, begin, Outcome::Parts)
    }
}

/// Starts libi_member_allgather(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_allgather(
    member: *mut libi_member,
    lengths: libi_lengths_arg,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| allgather(member, lengths, (bytes, length)), Outcome::Parts) }
}

/// Exchanges parts between all members: this member sends parts[r], of part_lengths[r] bytes, to
/// rank r, and receives the part of rank r in part r of *data. count is the size of the session.
///
/// Also returns LIBI_ERR_PARTS if there is not one part for each rank, or if equal lengths are
/// wanted and those of this member differ. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_alltoall(
    member: *mut libi_member,
    lengths: libi_lengths_arg,
    parts: *const *const c_void,
    part_lengths: *const usize,
    count: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| alltoall(member, lengths, (parts, part_lengths, count));
        wait_for_data(member, timeout, data, |_| true, begin, Outcome::Parts)
    }
}

/// Starts libi_member_alltoall(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_alltoall(
    member: *mut libi_member,
    lengths: libi_lengths_arg,
    parts: *const *const c_void,
    part_lengths: *const usize,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| alltoall(member, lengths, (parts, part_lengths, count));
        start(member, pending, begin, Outcome::Parts)
    }
}

/// Arranges all members in a ring in which the members of a host are neighbours. *place gets the
/// position of this member, and the sum of the weights of all members before it; place may be
/// NULL. left is sent to the left neighbour and right to the right one: *data has in part 0 what
/// the left neighbour has sent to its right, and in part 1 what the right one has sent to its
/// left. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_ring(
    member: *mut libi_member,
    weight: u64,
    left: *const c_void,
    left_length: usize,
    right: *const c_void,
    right_length: usize,
    place: *mut libi_ring_position,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| ring(member, weight, (left, left_length), (right, right_length));
        let read = |ring: RingPosition| {
            if !place.is_null() {
                place.write(libi_ring_position::from(&ring));
            }
            Outcome::Ring(ring)
        };
        wait_for_data(member, timeout, data, |_| true, begin, read)
    }
}

/// Starts libi_member_ring(): libi_pending_ring_position() has the position, then
/// libi_pending_take() the data. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_ring(
    member: *mut libi_member,
    weight: u64,
    left: *const c_void,
    left_length: usize,
    right: *const c_void,
    right_length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| ring(member, weight, (left, left_length), (right, right_length));
        start(member, pending, begin, Outcome::Ring)
    }
}

/// # Safety
/// As of [`copied`], at the root.
pub(super) unsafe fn broadcast(
    member: &Member,
    root: u32,
    bytes: *const c_void,
    length: usize,
) -> CallResult<Pending<Bytes>> {
    let mine = root == member.rank().0;
    // SAFETY: as for this function.
    let bytes = if mine { Some(unsafe { copied(bytes, length, "bytes") }?) } else { None };
    Ok(member.broadcast(Rank(root), bytes))
}

/// # Safety
/// As of [`copied`].
unsafe fn gather(
    member: &Member,
    root: u32,
    lengths: libi_lengths_arg,
    (bytes, length): (*const c_void, usize),
) -> CallResult<Pending<Option<Vec<Bytes>>>> {
    // SAFETY: as for this function.
    let (equal, bytes) = (are_equal(lengths)?, unsafe { copied(bytes, length, "bytes") }?);
    let root = Rank(root);
    Ok(if equal { member.gather_equal(root, bytes) } else { member.gather(root, bytes) })
}

/// # Safety
/// As of [`parts_of`], at the root.
unsafe fn scatter(
    member: &Member,
    root: u32,
    parts: *const *const c_void,
    part_lengths: *const usize,
    count: usize,
) -> CallResult<Pending<Bytes>> {
    let mine = root == member.rank().0;
    // SAFETY: as for this function.
    let parts = if mine { Some(unsafe { parts_of(parts, part_lengths, count) }?) } else { None };
    Ok(member.scatter(Rank(root), parts))
}

/// # Safety
/// As of [`copied`].
unsafe fn allgather(
    member: &Member,
    lengths: libi_lengths_arg,
    (bytes, length): (*const c_void, usize),
) -> CallResult<Pending<Vec<Bytes>>> {
    // SAFETY: as for this function.
    let (equal, bytes) = (are_equal(lengths)?, unsafe { copied(bytes, length, "bytes") }?);
    Ok(if equal { member.allgather_equal(bytes) } else { member.allgather(bytes) })
}

/// # Safety
/// As of [`parts_of`].
unsafe fn alltoall(
    member: &Member,
    lengths: libi_lengths_arg,
    (parts, part_lengths, count): (*const *const c_void, *const usize, usize),
) -> CallResult<Pending<Vec<Bytes>>> {
    // SAFETY: as for this function.
    let (equal, parts) = (are_equal(lengths)?, unsafe { parts_of(parts, part_lengths, count) }?);
    Ok(if equal { member.alltoall(parts) } else { member.alltoallv(parts) })
}

/// # Safety
/// As of [`copied`].
unsafe fn ring(
    member: &Member,
    weight: u64,
    left: (*const c_void, usize),
    right: (*const c_void, usize),
) -> CallResult<Pending<RingPosition>> {
    // SAFETY: as for this function.
    let (left, right) = unsafe { (copied(left.0, left.1, "left")?, copied(right.0, right.1, "right")?) };
    Ok(member.ring(weight, left, right))
}

/// Copies of the caller's parts.
///
/// # Safety
/// There are this many pointers and lengths, each as [`copied`] needs them.
unsafe fn parts_of(
    parts: *const *const c_void,
    part_lengths: *const usize,
    count: usize,
) -> CallResult<Vec<Bytes>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if parts.is_null() || part_lengths.is_null() {
        return Err(CallError::null(if parts.is_null() { "parts" } else { "part_lengths" }));
    }
    if u32::try_from(count).is_err() {
        return Err(CallError::argument(format!("no session has {count} members")));
    }
    let part = |at| {
        // SAFETY: as for this function.
        unsafe { copied(*parts.add(at), *part_lengths.add(at), &format!("part {at}")) }
    };
    (0..count).map(part).collect()
}
