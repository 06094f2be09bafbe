//! What C gives: strings, bytes, places for results.

use std::ffi::{CStr, CString};
use std::time::Duration;

use libc::{c_char, c_void};
use libi::{OsBytes, Ranks};

use crate::result::{CallError, CallResult, LIBI_ERR_NULL, libi_micros, libi_millis};

/// How long that is.
pub(crate) fn timeout(millis: libi_millis) -> Duration {
    u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis)
}

/// A duration in whole milliseconds, rounded up so that whoever waits as long does not wake too early.
pub(crate) fn millis(duration: Duration) -> libi_millis {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(libi_millis::MAX)
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> libi_micros {
    i64::try_from(duration.as_micros()).unwrap_or(libi_micros::MAX)
}

/// A text as C has it; a NUL in it is shown as the replacement character.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// The string without its NUL.
///
/// # Safety
/// It is NULL, or ends with a NUL and stays as it is for `'a`.
pub(crate) unsafe fn string<'a>(string: *const c_char, what: &str) -> CallResult<&'a CStr> {
    if string.is_null() {
        return Err(CallError::null(what));
    }
    // SAFETY: as this function asks.
    Ok(unsafe { CStr::from_ptr(string) })
}

/// The string, which has to be UTF-8.
///
/// # Safety
/// As of [`string`].
pub(crate) unsafe fn text<'a>(given: *const c_char, what: &str) -> CallResult<&'a str> {
    // SAFETY: as this function asks.
    let text = unsafe { string(given, what) }?;
    text.to_str().map_err(|_| CallError::argument(format!("{what} is not UTF-8")))
}

/// The string, as a path, an argument or the like.
///
/// # Safety
/// As of [`string`].
pub(crate) unsafe fn os_bytes(given: *const c_char, what: &str) -> CallResult<OsBytes> {
    // SAFETY: as this function asks.
    let text = unsafe { string(given, what) }?;
    OsBytes::new(text.to_bytes()).map_err(|_| CallError::argument(format!("{what} has a NUL in it")))
}

/// What may be NULL.
pub(crate) fn optional<T>(
    given: *const c_char,
    read: impl FnOnce(*const c_char) -> CallResult<T>,
) -> CallResult<Option<T>> {
    if given.is_null() { Ok(None) } else { read(given).map(Some) }
}

/// Bytes; NULL is fine if there are none.
///
/// # Safety
/// There are as many, and they stay as they are for `'a`.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_void, length: usize, what: &str) -> CallResult<&'a [u8]> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(CallError::null(what)),
        (_, length) if isize::try_from(length).is_err() => {
            Err(CallError::argument(format!("{what} cannot be {length} bytes long")))
        }
        // SAFETY: as this function asks.
        _ => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), length) }),
    }
}

/// A place for a result.
pub(crate) struct OutParam<T>(*mut T);

impl<T> OutParam<T> {
    /// The place, with this in it until something comes. A NULL is a fault.
    ///
    /// # Safety
    /// It is NULL, or may be written to as long as this lives.
    pub(crate) unsafe fn new(place: *mut T, empty: T, what: &str) -> CallResult<Self> {
        if place.is_null() {
            return Err(CallError::new(LIBI_ERR_NULL, format!("{what}, the place for the result, is NULL")));
        }
        // SAFETY: as this function asks; what was there before is the caller's, who is not asked to have put anything there.
        unsafe { place.write(empty) };
        Ok(Self(place))
    }

    /// Puts the result there.
    pub(crate) fn put(&self, value: T) {
        // SAFETY: as `new` asks.
        unsafe { self.0.write(value) };
    }
}

/// Places for results, one behind the other, each with a NULL in it until something comes.
///
/// # Safety
/// There are as many, which may be written to as long as these live.
pub(crate) unsafe fn places<T>(
    first: *mut *mut T,
    room: usize,
    what: &str,
) -> CallResult<Vec<OutParam<*mut T>>> {
    // SAFETY: as this function asks.
    (0..room)
        .map(|place| unsafe {
            let place = if first.is_null() { first } else { first.add(place) };
            OutParam::new(place, std::ptr::null_mut(), what)
        })
        .collect()
}

/// Writes as many ranks as there is room for, and says how many there are.
///
/// # Safety
/// There is as much room, or `to` is NULL.
pub(crate) unsafe fn write_ranks(ranks: &Ranks, to: *mut u32, room: usize) -> usize {
    if !to.is_null() {
        for (place, rank) in ranks.iter().take(room).enumerate() {
            // SAFETY: as this function asks.
            unsafe { to.add(place).write(rank.0) };
        }
    }
    ranks.len()
}

/// Puts a result where it is wanted; NULL is where it is not.
///
/// # Safety
/// It is NULL, or may be written to.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: as this function asks.
        unsafe { place.write(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_as_long_as_he_is_told_does_not_wake_too_early() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(7)), 7);
        assert_eq!(millis(Duration::MAX), i64::MAX);
        assert_eq!((timeout(-1), timeout(0)), (Duration::MAX, Duration::ZERO));
    }

    #[test]
    fn no_bytes_may_be_nowhere_and_some_may_not() {
        // SAFETY: nothing is followed.
        unsafe {
            assert_eq!(bytes(std::ptr::null(), 0, "data").unwrap(), b"");
            assert_eq!(bytes(std::ptr::null(), 1, "data").unwrap_err().code, LIBI_ERR_NULL);
        }
    }
}
