//! How many launches the front end makes at a time.

use std::num::NonZeroU32;

use libi::LaunchOptions;

use super::libi_options;
use crate::error::CallError;
use crate::object::change;
use crate::result::libi_result;

/// Sets how many launches this process may have in flight at a time, so that it spares the machine
/// that it runs on; by default as many as keep it busy. A launch is in flight from the start of its
/// remote shell until its host has said hello, or until the remote shell has ended. Hosts that are
/// up launch others without this limit. A start of many hosts at once, as by srun, does not count.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT for 0. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_front_end_launches(
    options: *mut libi_options,
    launches: u32,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let limit = NonZeroU32::new(launches).ok_or_else(|| {
                CallError::argument("the front end cannot launch with 0 launches in flight".to_owned())
            })?;
            options.front_end_launches = Some(limit);
            Ok(())
        })
    }
}
