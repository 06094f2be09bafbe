//! Files that every host gets before its programs are started.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::c_char;
use libi::{LaunchOptions, Staging, StagingError};

use super::libi_options;
use crate::args;
use crate::error::{CallError, CallResult};
use crate::object::change;
use crate::result::libi_result;
use crate::result::libi_result::LIBI_ERR_STATE;

/// Adds a file that every host gets before its programs are started, which needs an agent: it is
/// put under its base name into a private directory, which LIBI_STAGE names, and which is removed
/// when the session ends. A program that is this file is run from there. It is read now. NULL: no
/// files are staged any more.
///
/// Returns LIBI_OK; LIBI_ERR_ARGUMENT if it cannot be read, or if another file has its name.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_stage(options: *mut libi_options, file: *const c_char) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.stage = if file.is_null() {
                None
            } else {
                let file = args::string(file, "the file")?;
                let before = options.stage.clone().unwrap_or_default();
                Some(
                    before
                        .file(Path::new(OsStr::from_bytes(file.to_bytes())))
                        .map_err(|error| refused(&error))?,
                )
            };
            Ok(())
        })
    }
}

/// Adds the shared libraries of all executables that are staged, as the dynamic linker of this
/// machine finds them, without those of the C library. Programs get the directory in front of
/// LD_LIBRARY_PATH.
///
/// Returns LIBI_OK; LIBI_ERR_STATE if no file is staged; LIBI_ERR_ARGUMENT if a library is not
/// found. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_stage_libraries(options: *mut libi_options) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let with_libraries = staged(options)?.with_libraries().map_err(|error| refused(&error))?;
            options.stage = Some(with_libraries);
            Ok(())
        })
    }
}

/// Leaves staged files on the hosts when the session ends.
///
/// Returns LIBI_OK; LIBI_ERR_STATE if no file is staged. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_keep_staged(options: *mut libi_options) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.stage = Some(staged(options)?.keep());
            Ok(())
        })
    }
}

fn staged(options: &LaunchOptions) -> CallResult<Staging> {
    let missing = || CallError::new(LIBI_ERR_STATE, "no file is staged: call libi_options_stage() first");
    options.stage.clone().ok_or_else(missing)
}

fn refused(error: &StagingError) -> CallError {
    CallError::argument(error.to_string())
}
