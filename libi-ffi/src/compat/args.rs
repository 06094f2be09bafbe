//! Strings and bytes of C.

use std::ffi::CStr;

use libc::{c_char, c_int, c_void};
use libi::OsBytes;

use super::Fault;

/// The string without its NUL; `None` for NULL.
///
/// # Safety
/// It is NULL, or ends with a NUL and stays unchanged for `'a`.
pub(crate) unsafe fn string<'a>(string: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as for this function.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
}

pub(crate) fn word(text: &CStr) -> OsBytes {
    // A C string contains no NUL.
    OsBytes::new(text.to_bytes()).unwrap_or_default()
}

/// The words of a list that ends with NULL; none for NULL.
///
/// # Safety
/// It is NULL, or has strings up to its NULL.
pub(crate) unsafe fn words(mut next: *const *const c_char) -> Vec<OsBytes> {
    let mut words = Vec::new();
    // SAFETY: as for this function.
    while let Some(text) = unsafe { next.as_ref().and_then(|text| string(*text)) } {
        words.push(word(text));
        next = next.wrapping_add(1);
    }
    words
}

/// The bytes of a message or a part; NULL is allowed if the length is 0.
///
/// # Safety
/// There are `length` bytes, which stay unchanged for `'a`.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_void, length: c_int) -> Result<&'a [u8], Fault> {
    let length = length_of(length)?;
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Fault::Argument(format!("the buffer of {length} bytes is NULL"))),
        // SAFETY: as for this function.
        _ => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), length) }),
    }
}

pub(crate) fn length_of(length: c_int) -> Result<usize, Fault> {
    usize::try_from(length).map_err(|_| Fault::Argument(format!("the length is {length}")))
}

/// A copy of these bytes that the caller passes to `free`; NULL if there are none, or no memory.
pub(crate) fn malloc(bytes: &[u8]) -> *mut c_void {
    if bytes.is_empty() {
        return std::ptr::null_mut();
    }
    // SAFETY: the size is not 0.
    let memory = unsafe { libc::malloc(bytes.len()) };
    if !memory.is_null() {
        // SAFETY: the memory has this size and no other pointer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.cast(), bytes.len()) };
    }
    memory
}
