//! Collective calls on the caller's memory, with equal lengths at all members. Rank 0 is the root.

use std::time::Duration;

use libc::{c_int, c_void};
use libi::{Bytes, CommError, Member, Rank};

use super::Fault;
use super::args::{bytes, length_of};

type Done<T = ()> = Result<T, Fault>;

/// Copies the master's buffer to all members.
///
/// # Safety
/// The buffer has this length.
pub(crate) unsafe fn broadcast(
    member: &Member,
    buffer: *mut c_void,
    length: c_int,
    timeout: Duration,
) -> Done {
    let data = if member.is_master() {
        // SAFETY: as for this function.
        Some(or_mismatch(member, unsafe { bytes(buffer, length) }, timeout)?)
    } else {
        None
    };
    let data = data.map(Bytes::copy_from_slice);
    let got = member.broadcast(Rank(0), data).wait(timeout).map_err(talk("the broadcast"))?;
    // SAFETY: as for this function.
    if member.is_master() { Ok(()) } else { unsafe { fill(&got, buffer, length) } }
}

/// Collects one part of each member at the master.
///
/// # Safety
/// The first buffer has this length; that of the master has room for one part of each member.
pub(crate) unsafe fn gather(
    member: &Member,
    send: *const c_void,
    length: c_int,
    receive: *mut c_void,
    timeout: Duration,
) -> Done {
    // SAFETY: as for this function.
    let own = Bytes::copy_from_slice(or_mismatch(member, unsafe { bytes(send, length) }, timeout)?);
    if member.is_master() && receive.is_null() && length > 0 {
        or_mismatch(member, Err(Fault::Argument("the place for the parts is NULL".to_owned())), timeout)?;
    }
    let parts = member.gather_equal(Rank(0), own).wait(timeout).map_err(talk("the gather"))?;
    let step = length_of(length)?;
    for (at, part) in parts.iter().flatten().enumerate() {
        // SAFETY: as for this function. Parts are in the order of ranks.
        unsafe { fill(part, receive.cast::<u8>().wrapping_add(at * step).cast(), length)? };
    }
    Ok(())
}

/// Sends each member its part of the master's buffer.
///
/// # Safety
/// The buffer of the master has one part for each member; the other one has this length.
pub(crate) unsafe fn scatter(
    member: &Member,
    send: *const c_void,
    length: c_int,
    receive: *mut c_void,
    timeout: Duration,
) -> Done {
    let parts = if member.is_master() {
        // SAFETY: as for this function.
        Some(or_mismatch(member, unsafe { parts(send, length, member.size()) }, timeout)?)
    } else {
        None
    };
    let own = member.scatter(Rank(0), parts).wait(timeout).map_err(talk("the scatter"))?;
    // SAFETY: as for this function.
    unsafe { fill(&own, receive, length) }
}

/// Returns when all members have called it.
pub(crate) fn barrier(member: &Member, timeout: Duration) -> Done {
    member.barrier().wait(timeout).map_err(talk("the barrier"))
}

/// The master's part for each member.
///
/// # Safety
/// It is NULL, or has this many parts in sequence.
unsafe fn parts(send: *const c_void, length: c_int, size: u32) -> Done<Vec<Bytes>> {
    let (length, size) = (length_of(length)?, size as usize);
    let all = length.checked_mul(size).filter(|all| isize::try_from(*all).is_ok());
    let all = all.ok_or_else(|| Fault::Argument("the parts together are too long".to_owned()))?;
    if send.is_null() && all > 0 {
        return Err(Fault::Argument("the parts are NULL".to_owned()));
    }
    // SAFETY: as for this function.
    let all = if all == 0 { &[] } else { unsafe { std::slice::from_raw_parts(send.cast::<u8>(), all) } };
    let all = Bytes::copy_from_slice(all);
    Ok((0..size).map(|rank| all.slice(rank * length..(rank + 1) * length)).collect())
}

/// The argument of this member, if it is valid. If not, a call that does not match those of the
/// other members tells them, so that they do not wait.
fn or_mismatch<T>(member: &Member, given: Done<T>, timeout: Duration) -> Done<T> {
    if given.is_err() {
        let _ = member.barrier().wait(timeout);
    }
    given
}

/// Writes a result to the caller's memory, if the lengths are equal.
///
/// # Safety
/// It is NULL, or has room for this many bytes.
unsafe fn fill(bytes: &[u8], place: *mut c_void, length: c_int) -> Done {
    let length = length_of(length)?;
    if length != bytes.len() {
        let text = format!("received {} bytes where all members have to pass {length}", bytes.len());
        return Err(Fault::Argument(text));
    }
    if length > 0 && place.is_null() {
        return Err(Fault::Argument("the place for the result is NULL".to_owned()));
    }
    // SAFETY: as for this function; the source is the library's memory.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), length) };
    Ok(())
}

fn talk(what: &'static str) -> impl Fn(CommError) -> Fault {
    move |error| Fault::Talk(what, error)
}
