//! Who makes progress.

use libi::Progress;

use crate::result::{Fault, Outcome};

/// Who makes progress. Since 0.1.
pub type libi_progress = i32;
/// A thread of the library's own, in which all signals are blocked.
pub const LIBI_PROGRESS_THREAD: libi_progress = 0;
/// The caller, by ..._dispatch(): when the descriptor is readable, or ..._patience() is over. Calls that wait do it as well.
pub const LIBI_PROGRESS_MANUAL: libi_progress = 1;

/// What that is.
pub(crate) fn progress(progress: libi_progress) -> Outcome<Progress> {
    match progress {
        LIBI_PROGRESS_THREAD => Ok(Progress::Thread),
        LIBI_PROGRESS_MANUAL => Ok(Progress::Manual),
        _ => Err(Fault::argument(format!("there is no progress {progress}"))),
    }
}
