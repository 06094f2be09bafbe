//! Arguments from C: strings, bytes, enums, and places for results.

use std::ffi::CStr;
use std::time::Duration;

use libc::{c_char, c_void};
use libi::{OsBytes, Rank, Ranks};

use crate::error::{CallError, CallResult};
use crate::result::libi_result::LIBI_ERR_NULL;
use crate::result::{libi_micros, libi_timeout};

/// Translates a value of an enum of the header. C may pass any number, so it arrives as one.
macro_rules! from_c {
    ($value:expr, $what:literal, $type:ident { $($variant:ident => $to:expr),* $(,)? }) => {
        match $value {
            $(value if value == $type::$variant as libc::c_int => Ok($to),)*
            other => Err($crate::error::CallError::argument(format!("{other} is not a {}", $what))),
        }
    };
}
pub(crate) use from_c;

/// The timeout as a duration; negative is no limit.
pub(crate) fn timeout(millis: libi_timeout) -> Duration {
    u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis)
}

/// A duration in whole milliseconds, rounded up so that a wait of this length does not end early.
pub(crate) fn millis(duration: Duration) -> libi_timeout {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(libi_timeout::MAX)
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> libi_micros {
    i64::try_from(duration.as_micros()).unwrap_or(libi_micros::MAX)
}

/// The string without its NUL.
///
/// # Safety
/// It is NULL, or ends with a NUL and stays unchanged for `'a`.
pub(crate) unsafe fn string<'a>(string: *const c_char, what: &str) -> CallResult<&'a CStr> {
    if string.is_null() {
        return Err(CallError::null(what));
    }
    // SAFETY: as for this function.
    Ok(unsafe { CStr::from_ptr(string) })
}

/// The string, which has to be UTF-8.
///
/// # Safety
/// As of [`string`].
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> CallResult<&'a str> {
    // SAFETY: as for this function.
    let text = unsafe { string(text, what) }?;
    text.to_str().map_err(|_| CallError::argument(format!("{what} is not UTF-8")))
}

/// The string, as a path, an argument or the like.
///
/// # Safety
/// As of [`string`].
pub(crate) unsafe fn os_bytes(text: *const c_char, what: &str) -> CallResult<OsBytes> {
    // SAFETY: as for this function.
    let text = unsafe { string(text, what) }?;
    OsBytes::new(text.to_bytes()).map_err(|_| CallError::argument(format!("{what} has a NUL in it")))
}

/// `None` for NULL.
pub(crate) fn optional<T>(
    string: *const c_char,
    read: impl FnOnce(*const c_char) -> CallResult<T>,
) -> CallResult<Option<T>> {
    if string.is_null() { Ok(None) } else { read(string).map(Some) }
}

/// Bytes; NULL is allowed if the length is 0.
///
/// # Safety
/// There are `length` bytes, which stay unchanged for `'a`.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_void, length: usize, what: &str) -> CallResult<&'a [u8]> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(CallError::null(what)),
        (_, length) if isize::try_from(length).is_err() => {
            Err(CallError::argument(format!("{what} cannot be {length} bytes long")))
        }
        // SAFETY: as for this function.
        _ => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), length) }),
    }
}

/// A place for a result that the caller needs.
pub(crate) struct OutParam<T>(*mut T);

impl<T> OutParam<T> {
    /// Writes `empty`, which stays there if the call fails.
    ///
    /// # Safety
    /// It is NULL, or may be written to as long as this lives.
    pub(crate) unsafe fn new(place: *mut T, empty: T, what: &str) -> CallResult<Self> {
        if place.is_null() {
            return Err(CallError::new(LIBI_ERR_NULL, format!("{what}, the place for the result, is NULL")));
        }
        // SAFETY: as for this function. The old content may be uninitialised and is not dropped.
        unsafe { place.write(empty) };
        Ok(Self(place))
    }

    /// Puts the result there.
    pub(crate) fn put(&self, value: T) {
        // SAFETY: as `new` asks.
        unsafe { self.0.write(value) };
    }
}

/// An array of places for objects; NULL is written to each.
///
/// # Safety
/// It is NULL, or has this many elements, which may be written to as long as these live.
pub(crate) unsafe fn places<T>(
    first: *mut *mut T,
    room: usize,
    what: &str,
) -> CallResult<Vec<OutParam<*mut T>>> {
    // SAFETY: as for this function.
    (0..room)
        .map(|place| unsafe {
            let place = if first.is_null() { first } else { first.add(place) };
            OutParam::new(place, std::ptr::null_mut(), what)
        })
        .collect()
}

/// Writes as many ranks as there is room for, and returns how many there are.
///
/// # Safety
/// There is as much room, or `to` is NULL.
pub(crate) unsafe fn write_ranks(ranks: &Ranks, to: *mut u32, room: usize) -> usize {
    if !to.is_null() {
        for (place, rank) in ranks.iter().take(room).enumerate() {
            // SAFETY: as for this function.
            unsafe { to.add(place).write(rank.0) };
        }
    }
    ranks.len()
}

/// A struct of the header that the caller has, perhaps of an earlier version of the header.
#[derive(Clone, Copy)]
pub(crate) struct OutStruct<T> {
    to: *mut T,
    size: usize,
}

/// The ranks of an array.
///
/// # Safety
/// It has as many elements, unless it is NULL.
pub(crate) unsafe fn ranks(first: *const u32, count: usize, what: &str) -> CallResult<Ranks> {
    match (first.is_null(), count) {
        (_, 0) => Ok(Ranks::new()),
        (true, _) => Err(CallError::null(what)),
        // SAFETY: as for this function.
        (false, _) => {
            Ok(unsafe { std::slice::from_raw_parts(first, count) }.iter().copied().map(Rank).collect())
        }
    }
}

impl<T: Copy> OutStruct<T> {
    /// Fills it with zeros, which stay there if the call fails.
    ///
    /// # Safety
    /// `to` is NULL, or `size` bytes may be written there as long as this lives.
    pub(crate) unsafe fn new(to: *mut T, size: usize) -> CallResult<Self> {
        if to.is_null() {
            return Err(CallError::null("the struct for the result"));
        }
        if size == 0 {
            return Err(CallError::argument("the size of the struct for the result is 0"));
        }
        // SAFETY: as for this function.
        unsafe { to.cast::<u8>().write_bytes(0, size) };
        Ok(Self { to, size })
    }

    /// Writes as much of the value as the caller's struct has room for.
    pub(crate) fn put(self, value: &T) {
        let size = self.size.min(size_of::<T>());
        // SAFETY: as for `new`; the value has as many bytes, and padding is copied as it is.
        unsafe { self.to.cast::<u8>().copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_whole_milliseconds_does_not_end_early() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(7)), 7);
        assert_eq!(millis(Duration::MAX), i64::MAX);
        assert_eq!((timeout(-1), timeout(0)), (Duration::MAX, Duration::ZERO));
    }

    #[test]
    fn null_is_allowed_for_no_bytes_only() {
        // SAFETY: no pointer is followed.
        unsafe {
            assert_eq!(bytes(std::ptr::null(), 0, "data").unwrap(), b"");
            assert_eq!(bytes(std::ptr::null(), 1, "data").unwrap_err().code, LIBI_ERR_NULL);
        }
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Info {
        first: u32,
        second: u32,
    }

    #[test]
    fn structs_of_other_versions_get_what_they_have_room_for_and_zeros() {
        let mut found = [9_u32; 4];
        for (size, expected) in [(4, [1, 9, 9, 9]), (8, [1, 2, 9, 9]), (12, [1, 2, 0, 9])] {
            found = [9; 4];
            // SAFETY: the array is longer.
            let out = unsafe { OutStruct::new(found.as_mut_ptr().cast::<Info>(), size) }.unwrap();
            out.put(&Info { first: 1, second: 2 });
            assert_eq!(found, expected);
        }
        // SAFETY: nothing is written.
        assert!(unsafe { OutStruct::new(found.as_mut_ptr().cast::<Info>(), 0) }.is_err());
    }
}
