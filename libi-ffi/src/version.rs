//! Which version this is.
//!
//! The header's constants are what a program was compiled with, the functions what it runs with.
//! `Cargo.toml` has the same version; `tests/packages.rs` compares all places that say one.

use std::ffi::CStr;

use libc::c_char;

/// The major version of this header. Another one may break programs. Since 0.1.
pub const LIBI_VERSION_MAJOR: u32 = 0;
/// The minor version. While the major one is 0, another one may break programs; later it only adds.
/// Since 0.1.
pub const LIBI_VERSION_MINOR: u32 = 1;
/// The patch version: fixes. Since 0.1.
pub const LIBI_VERSION_PATCH: u32 = 0;
/// The version as one number for comparisons: 1002003 is 1.2.3. LIBI_VERSION is another macro, of
/// libi/libi_api.h. Since 0.1.
pub const LIBI_VERSION_NUMBER: u32 =
    LIBI_VERSION_MAJOR * 1_000_000 + LIBI_VERSION_MINOR * 1_000 + LIBI_VERSION_PATCH;

/// The version in `Cargo.toml`.
const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("a version has no NUL in it"),
};

/// The LIBI_VERSION_NUMBER of the library that the program runs with. Any thread, at any time.
/// Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_version() -> u32 {
    LIBI_VERSION_NUMBER
}

/// The version of the library that the program runs with, as "0.1.0". Any thread, at any time. The
/// string is static. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_version_text() -> *const c_char {
    TEXT.as_ptr()
}
