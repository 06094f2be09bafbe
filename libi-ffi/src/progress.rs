//! Which thread does the library's work.

use libc::c_int;
use libi::Progress;

use crate::args::from_c;
use crate::error::CallResult;

/// Which thread does the library's work. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_progress {
    /// A thread of the library, in which all signals are blocked.
    LIBI_PROGRESS_THREAD = 0,
    /// The program's event loop: it waits until the object's descriptor is readable or its
    /// next_timeout has passed, then calls its dispatch function. Calls that wait do the work as
    /// well. Make all calls from one thread that lives as long as the process, best the main one.
    LIBI_PROGRESS_MANUAL = 1,
}

/// cbindgen:ignore
pub type libi_progress_arg = c_int;

pub(crate) fn progress(progress: libi_progress_arg) -> CallResult<Progress> {
    from_c!(progress, "libi_progress", libi_progress {
        LIBI_PROGRESS_THREAD => Progress::Thread,
        LIBI_PROGRESS_MANUAL => Progress::Manual,
    })
}
