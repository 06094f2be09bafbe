//! Which version this is.
//!
//! The header's constants are what a program was compiled with, the functions what it runs with. `Cargo.toml` has the same
//! version; `tests/packages.rs` compares all places that say one.

use std::ffi::CStr;

use libc::c_char;

/// The version that this header belongs to, as its first number. A new one may break programs.
pub const LIBI_VERSION_MAJOR: u32 = 0;
/// Its second number. Until the first is 1, a new one may break programs; from then on it only adds.
pub const LIBI_VERSION_MINOR: u32 = 1;
/// Its third number, which grows when defects are mended.
pub const LIBI_VERSION_PATCH: u32 = 0;
/// The version as one number, which can be compared: 1002003 is 1.2.3. LIBI_VERSION is something else: the header of 2011 has
/// it. Since 0.1.
pub const LIBI_VERSION_NUMBER: u32 =
    LIBI_VERSION_MAJOR * 1_000_000 + LIBI_VERSION_MINOR * 1_000 + LIBI_VERSION_PATCH;

/// What is compiled, as Cargo has it.
const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("a version has no NUL in it"),
};

/// The LIBI_VERSION_NUMBER of the library that this program runs with. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_version() -> u32 {
    LIBI_VERSION_NUMBER
}

/// The version of the library that this program runs with, as "0.1.0". Any thread, at any time; it is never freed. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_version_text() -> *const c_char {
    TEXT.as_ptr()
}
