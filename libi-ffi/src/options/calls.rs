//! When collective calls complete.

use libi::LaunchOptions;

use super::libi_options;
use crate::object::change;
use crate::result::libi_result;

/// Sets whether every collective call waits until all members have made it; by default not. For
/// debugging: a mismatch or a timeout then fails the call itself at all members. Otherwise a call
/// is complete for a member when its own part is, and a member that has completed a call hears of
/// its failure in its next one. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_strict_calls(
    options: *mut libi_options,
    strict: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.strict_calls = strict;
            Ok(())
        })
    }
}
