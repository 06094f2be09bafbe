//! Collective operations into the caller's memory, on data of equal lengths.

use std::cell::Cell;

use libc::c_void;
use libi::{Bytes, Member, Pending, Rank};

use super::collectives::broadcast;
use super::{copied, libi_member, wait};
use crate::error::{CallError, CallResult};
use crate::result::libi_result::{self, LIBI_ERR_LENGTH};
use crate::result::libi_timeout;

/// Copies the root's buffer into the buffers of all other members, which have the same length.
///
/// Also returns LIBI_ERR_LENGTH if the root's length differs: the text has both lengths, and the
/// buffer is unchanged. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_broadcast_into(
    member: *mut libi_member,
    root: u32,
    buffer: *mut c_void,
    length: usize,
    timeout: libi_timeout,
) -> libi_result {
    let begin = |member: &Member| {
        let target = CallerBuffer::new(buffer, length, "buffer")?;
        // SAFETY: as documented in the header.
        let pending = unsafe { broadcast(member, root, buffer, length) }?;
        Ok((pending, (member.rank().0 != root).then_some(target)))
    };
    // SAFETY: as documented in the header.
    unsafe { wait_into(member, timeout, begin, |target, bytes| target.put(0, length, &bytes)) }
}

/// Collects length bytes of each member in recv at the root, in the order of ranks. recv has room
/// for length times the size of the session; the places of absent members are unchanged. recv is
/// ignored at other members. send may be a part of it.
///
/// Also returns LIBI_ERR_MISMATCH if the lengths of members differ. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_gather_into(
    member: *mut libi_member,
    root: u32,
    send: *const c_void,
    length: usize,
    recv: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    let begin = |member: &Member| {
        let mine = root == member.rank().0;
        let target = if mine { Some(CallerBuffer::new(recv, whole(member, length)?, "recv")?) } else { None };
        // SAFETY: as documented in the header.
        let bytes = unsafe { copied(send, length, "send") }?;
        Ok((member.gather_equal(Rank(root), bytes), target))
    };
    // SAFETY: as documented in the header.
    unsafe {
        wait_into(member, timeout, begin, |target, parts| {
            target.put_all(length, parts.as_deref().unwrap_or_default())
        })
    }
}

/// Sends each member its part of the root's send: length times the size of the session bytes, in
/// the order of ranks. send is ignored at other members. recv may be a part of it.
///
/// Also returns LIBI_ERR_LENGTH if the root's length differs; recv is unchanged then. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_scatter_into(
    member: *mut libi_member,
    root: u32,
    send: *const c_void,
    length: usize,
    recv: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    let begin = |member: &Member| {
        let target = CallerBuffer::new(recv, length, "recv")?;
        let parts = if root == member.rank().0 {
            // SAFETY: as documented in the header.
            let whole = unsafe { copied(send, whole(member, length)?, "send") }?;
            let part = |rank| whole.slice(rank * length..(rank + 1) * length);
            Some((0..member.size() as usize).map(part).collect())
        } else {
            None
        };
        Ok((member.scatter(Rank(root), parts), Some(target)))
    };
    // SAFETY: as documented in the header.
    unsafe { wait_into(member, timeout, begin, |target, bytes| target.put(0, length, &bytes)) }
}

/// Collects length bytes of each member in recv at all members, in the order of ranks. recv has
/// room for length times the size of the session; the places of absent members are unchanged.
/// send may be a part of recv.
///
/// Also returns LIBI_ERR_MISMATCH if the lengths of members differ. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allgather_into(
    member: *mut libi_member,
    send: *const c_void,
    length: usize,
    recv: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    let begin = |member: &Member| {
        let target = CallerBuffer::new(recv, whole(member, length)?, "recv")?;
        // SAFETY: as documented in the header.
        let bytes = unsafe { copied(send, length, "send") }?;
        Ok((member.allgather_equal(bytes), Some(target)))
    };
    // SAFETY: as documented in the header.
    unsafe { wait_into(member, timeout, begin, |target, parts| target.put_all(length, &parts)) }
}

/// Memory of the caller for a result.
#[derive(Clone, Copy)]
pub(super) struct CallerBuffer(*mut u8);

impl CallerBuffer {
    /// NULL is allowed for no bytes.
    pub(super) fn new(memory: *mut c_void, length: usize, what: &str) -> CallResult<Self> {
        if memory.is_null() && length > 0 {
            return Err(CallError::null(what));
        }
        Ok(Self(memory.cast()))
    }

    /// Writes received bytes at an offset, if they have the expected length.
    pub(super) fn put(self, at: usize, length: usize, bytes: &[u8]) -> CallResult {
        if bytes.len() != length {
            let text = format!("received {} bytes for a buffer of {length}", bytes.len());
            return Err(CallError::new(LIBI_ERR_LENGTH, text));
        }
        if length > 0 {
            // SAFETY: as documented in the header for the memory passed to `new`; `bytes` are the
            // library's.
            unsafe { self.0.add(at).copy_from_nonoverlapping(bytes.as_ptr(), length) };
        }
        Ok(())
    }

    /// Writes each part at its place. An empty part is that of an absent member.
    fn put_all(self, length: usize, parts: &[Bytes]) -> CallResult {
        let mut present = parts.iter().enumerate().filter(|(_, part)| !part.is_empty());
        present.try_for_each(|(rank, part)| self.put(rank * length, length, part))
    }
}

/// The length for all members together.
fn whole(member: &Member, length: usize) -> CallResult<usize> {
    let all = length.checked_mul(member.size() as usize).filter(|all| isize::try_from(*all).is_ok());
    all.ok_or_else(|| {
        CallError::argument(format!("{length} bytes for each of {} members are too many", member.size()))
    })
}

/// As [`wait`], for an operation whose result goes to a buffer; `None` at members that get none.
///
/// # Safety
/// As of [`wait`].
pub(super) unsafe fn wait_into<T>(
    member: *mut libi_member,
    timeout: libi_timeout,
    begin: impl FnOnce(&Member) -> CallResult<(Pending<T>, Option<CallerBuffer>)>,
    put: impl FnOnce(CallerBuffer, T) -> CallResult,
) -> libi_result {
    let target = Cell::new(None);
    let begin = |member: &Member| {
        let (pending, found) = begin(member)?;
        target.set(found);
        Ok(pending)
    };
    // SAFETY: as for this function.
    unsafe {
        wait(member, timeout, begin, |result| target.get().map_or(Ok(()), |target| put(target, result)))
    }
}
