//! Who makes progress.

use libi::Progress;

use crate::result::{CallError, CallResult};

/// Who makes progress: LIBI_PROGRESS_THREAD or LIBI_PROGRESS_MANUAL. Since 0.1.
pub type libi_progress = i32;

/// A thread of the library's own, in which all signals are blocked. Since 0.1.
pub const LIBI_PROGRESS_THREAD: libi_progress = 0;
/// The caller's loop: it waits until ..._descriptor() is readable or ..._patience() is over, then calls ..._dispatch(). Calls that wait
/// do it as well. Call from one thread that lives as long as the process, best the main one. Since 0.1.
pub const LIBI_PROGRESS_MANUAL: libi_progress = 1;

/// Who that is.
pub(crate) fn progress(given: libi_progress) -> CallResult<Progress> {
    match given {
        LIBI_PROGRESS_THREAD => Ok(Progress::Thread),
        LIBI_PROGRESS_MANUAL => Ok(Progress::Manual),
        other => Err(CallError::argument(format!("there is no progress {other}"))),
    }
}
