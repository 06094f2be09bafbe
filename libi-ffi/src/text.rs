//! Texts for C.

use std::ffi::CString;

/// A text as C has it; a NUL in it is shown as the replacement character.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}
