//! Collective calls into memory of the caller's own, of data that are equally long everywhere.

use std::cell::Cell;

use libc::c_void;
use libi::{Bytes, Member, Pending, Rank};

use super::collectives::{broadcast, copied};
use super::{libi_member, wait};
use crate::result::{CallError, CallResult, LIBI_ERR_LENGTH, libi_millis, libi_result};

/// Has everybody get what the root has in its buffer into his own, which is equally long: LIBI_ERR_LENGTH if what the root gives is not,
/// with both lengths in the text, and the buffer as it was. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_broadcast_into(
    member: *mut libi_member,
    root: u32,
    buffer: *mut c_void,
    length: usize,
    timeout: libi_millis,
) -> libi_result {
    let begin = |member: &Member| {
        let room = CallerBuffer::new(buffer, length, "buffer")?;
        // SAFETY: as the header asks.
        let pending = unsafe { broadcast(member, root, buffer, length) }?;
        Ok((pending, (member.rank().0 != root).then_some(room)))
    };
    // SAFETY: as the header asks.
    unsafe { wait_into(member, timeout, begin, |room, came| room.put(0, length, &came)) }
}

/// Has the root get everybody's bytes, each long, into recv, in the order of ranks: it has room for each times the size of the session there.
/// The places of those that are absent stay as they are. recv is not looked at elsewhere; send may be a part of it.
///
/// LIBI_ERR_MISMATCH if they are not equally long everywhere. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_gather_into(
    member: *mut libi_member,
    root: u32,
    send: *const c_void,
    each: usize,
    recv: *mut c_void,
    timeout: libi_millis,
) -> libi_result {
    let begin = |member: &Member| {
        let mine = root == member.rank().0;
        let room = if mine { Some(CallerBuffer::new(recv, all(member, each)?, "recv")?) } else { None };
        // SAFETY: as the header asks.
        let bytes = unsafe { copied(send, each, "send") }?;
        Ok((member.gather_equal(Rank(root), bytes), room))
    };
    // SAFETY: as the header asks.
    unsafe {
        wait_into(member, timeout, begin, |room, parts| {
            room.put_all(each, parts.as_deref().unwrap_or_default())
        })
    }
}

/// Has everybody get his part, each long, of what the root has in send: each times the size of the session, in the order of ranks. send is not
/// looked at elsewhere; recv may be a part of it.
///
/// LIBI_ERR_LENGTH if the root's parts have another length than recv, which stays as it was. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_scatter_into(
    member: *mut libi_member,
    root: u32,
    send: *const c_void,
    each: usize,
    recv: *mut c_void,
    timeout: libi_millis,
) -> libi_result {
    let begin = |member: &Member| {
        let room = CallerBuffer::new(recv, each, "recv")?;
        let parts = if root == member.rank().0 {
            // SAFETY: as the header asks.
            let whole = unsafe { copied(send, all(member, each)?, "send") }?;
            let part = |rank| whole.slice(rank * each..(rank + 1) * each);
            Some((0..member.size() as usize).map(part).collect())
        } else {
            None
        };
        Ok((member.scatter(Rank(root), parts), Some(room)))
    };
    // SAFETY: as the header asks.
    unsafe { wait_into(member, timeout, begin, |room, came| room.put(0, each, &came)) }
}

/// Has everybody get everybody's bytes, each long, into recv, in the order of ranks: it has room for each times the size of the session. The places
/// of those that are absent stay as they are. send may be a part of recv.
///
/// LIBI_ERR_MISMATCH if they are not equally long everywhere. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allgather_into(
    member: *mut libi_member,
    send: *const c_void,
    each: usize,
    recv: *mut c_void,
    timeout: libi_millis,
) -> libi_result {
    let begin = |member: &Member| {
        let room = CallerBuffer::new(recv, all(member, each)?, "recv")?;
        // SAFETY: as the header asks.
        let bytes = unsafe { copied(send, each, "send") }?;
        Ok((member.allgather_equal(bytes), Some(room)))
    };
    // SAFETY: as the header asks.
    unsafe { wait_into(member, timeout, begin, |room, parts| room.put_all(each, &parts)) }
}

/// Memory of the caller's.
#[derive(Clone, Copy)]
pub(super) struct CallerBuffer(*mut u8);

impl CallerBuffer {
    /// So much memory; NULL is fine if it is none.
    pub(super) fn new(memory: *mut c_void, length: usize, what: &str) -> CallResult<Self> {
        if memory.is_null() && length > 0 {
            return Err(CallError::null(what));
        }
        Ok(Self(memory.cast()))
    }

    /// Puts what has come at a place, of which so many bytes were said before.
    pub(super) fn put(self, at: usize, length: usize, came: &[u8]) -> CallResult {
        if came.len() != length {
            let text = format!("{} bytes have come, and there is room for {length}", came.len());
            return Err(CallError::new(LIBI_ERR_LENGTH, text));
        }
        if length > 0 {
            // SAFETY: as the header asks of the memory for which `new` was called; what has come is the library's.
            unsafe { self.0.add(at).copy_from_nonoverlapping(came.as_ptr(), length) };
        }
        Ok(())
    }

    /// Puts each part at its place; one of nothing is that of somebody who is absent.
    fn put_all(self, each: usize, parts: &[Bytes]) -> CallResult {
        let mut present = parts.iter().enumerate().filter(|(_, part)| !part.is_empty());
        present.try_for_each(|(rank, part)| self.put(rank * each, each, part))
    }
}

/// How long it is for all members together.
fn all(member: &Member, each: usize) -> CallResult<usize> {
    let all = each.checked_mul(member.size() as usize).filter(|all| isize::try_from(*all).is_ok());
    all.ok_or_else(|| {
        CallError::argument(format!("{each} bytes for each of {} members are too much", member.size()))
    })
}

/// As [`wait`], of an operation whose result has its room; there is none where nothing is to be put.
///
/// # Safety
/// As of [`wait`].
pub(super) unsafe fn wait_into<T>(
    member: *mut libi_member,
    timeout: libi_millis,
    begin: impl FnOnce(&Member) -> CallResult<(Pending<T>, Option<CallerBuffer>)>,
    put: impl FnOnce(CallerBuffer, T) -> CallResult,
) -> libi_result {
    let room = Cell::new(None);
    let begin = |member: &Member| {
        let (pending, found) = begin(member)?;
        room.set(found);
        Ok(pending)
    };
    // SAFETY: as this function asks.
    unsafe { wait(member, timeout, begin, |came| room.get().map_or(Ok(()), |room| put(room, came))) }
}
