//! The key-value store.

use libc::{c_char, c_int, c_void};
use libi::{KeyScope, Member, Pending};

use super::{copied, libi_member, start, wait, wait_for_data};
use crate::args::{self, from_c};
use crate::data::libi_data;
use crate::error::CallResult;
use crate::pending::{found, libi_pending, nothing, one};
use crate::result::{libi_result, libi_timeout};

/// Where the value of a key is stored. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_key_scope {
    /// On every host, from the next fence on: for keys that most members read.
    LIBI_KEY_REPLICATED = 0,
    /// At the leader of the host where it was put, from which readers fetch it: for keys that few
    /// members read. It is lost with that leader: readers then get LIBI_ERR_PEER_LOST.
    LIBI_KEY_LOCAL = 1,
}

/// cbindgen:ignore
pub type libi_key_scope_arg = c_int;

/// Puts a value under a key, which is UTF-8. All members see it after the next
/// libi_member_fence().
///
/// Returns LIBI_OK; LIBI_ERR_LONG_KEY; LIBI_ERR_ARGUMENT if the key is not UTF-8 or the scope
/// unknown; LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_put(
    member: *mut libi_member,
    key: *const c_char,
    bytes: *const c_void,
    length: usize,
    scope: libi_key_scope_arg,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { wait(member, timeout, |member| put(member, key, (bytes, length), scope), Ok) }
}

/// Starts libi_member_put(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_put(
    member: *mut libi_member,
    key: *const c_char,
    bytes: *const c_void,
    length: usize,
    scope: libi_key_scope_arg,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| put(member, key, (bytes, length), scope), nothing) }
}

/// Gets the value of a key, in part 0 of *data. If there is none, waits until a member puts one.
///
/// Returns LIBI_OK; LIBI_ERR_LONG_KEY; LIBI_ERR_ARGUMENT; LIBI_ERR_PEER_LOST if the member that
/// has the value is lost; LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_get(
    member: *mut libi_member,
    key: *const c_char,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| Ok(member.get(args::text(key, "the key")?));
        wait_for_data(member, timeout, data, |_| true, begin, one)
    }
}

/// Starts libi_member_get(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_get(
    member: *mut libi_member,
    key: *const c_char,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| Ok(member.get(args::text(key, "the key")?)), one) }
}

/// Gets the value of a key, in part 0 of *data, without waiting for a member to put one:
/// LIBI_NONE if there is no value. Otherwise returns as libi_member_get(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_find(
    member: *mut libi_member,
    key: *const c_char,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| Ok(member.find(args::text(key, "the key")?));
        wait_for_data(member, timeout, data, |_| true, begin, found)
    }
}

/// Starts libi_member_find(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_find(
    member: *mut libi_member,
    key: *const c_char,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { start(member, pending, |member| Ok(member.find(args::text(key, "the key")?)), found) }
}

/// # Safety
/// As of [`args::text`] and [`copied`].
unsafe fn put(
    member: &Member,
    key: *const c_char,
    (bytes, length): (*const c_void, usize),
    scope: libi_key_scope_arg,
) -> CallResult<Pending<()>> {
    let scope = from_c!(scope, "libi_key_scope", libi_key_scope {
        LIBI_KEY_REPLICATED => KeyScope::Replicated,
        LIBI_KEY_LOCAL => KeyScope::Local,
    })?;
    // SAFETY: as for this function.
    let (key, value) = unsafe { (args::text(key, "the key")?, copied(bytes, length, "bytes")?) };
    Ok(member.put(key, value, scope))
}
