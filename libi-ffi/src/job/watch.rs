//! What happens to a job, told at the front end.

use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use libc::c_char;
use libi::job::{JobEvent, Watch};

use super::{JobView, libi_job};
use crate::args::{self, OutParam, OutStruct};
use crate::error::{CallError, code};
use crate::failure::{exit, libi_exit};
use crate::object::{self, give, handle, with};
use crate::options::{self, libi_options};
use crate::reentry;
use crate::result::libi_result::{self, *};
use crate::result::libi_timeout;
use crate::text::c_string;

/// A watch of a job. One thread waits for its events at a time. Since 0.1.
pub struct libi_watch {
    _opaque: (),
}

handle!(libi_watch, "watch", Mutex<WatchView>);

/// A watch, and the texts of its last event.
pub struct WatchView {
    watch: Watch,
    host: CString,
    why: CString,
}

/// What has happened to a job. Later versions may have more. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_job_event {
    /// Nothing.
    LIBI_JOB_EVENT_NONE = 0,
    /// A process has ended.
    LIBI_JOB_EVENT_ENDED = 1,
    /// The launcher has ended.
    LIBI_JOB_EVENT_LAUNCHER_ENDED = 2,
    /// What happens on a host is not known any more.
    LIBI_JOB_EVENT_NOT_WATCHED = 3,
}

/// What has happened to a job. The strings belong to the libi_watch, until its next event is asked
/// for. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_watch_event_info {
    /// What it is.
    pub event: libi_job_event,
    /// The rank of a process.
    pub rank: u32,
    /// How a process or the launcher has ended: known with Linux 6.15 or later on its host, or else
    /// LIBI_EXIT_UNKNOWN.
    pub exit: libi_exit,
    /// The status or signal for exit.
    pub exit_value: i32,
    /// A host that is not watched; NULL in other events.
    pub host_name: *const c_char,
    /// Why it is not; NULL in other events.
    pub text: *const c_char,
}

/// Watches the processes of a job and its launcher: how each has ended is told by
/// libi_watch_next(). Agents run on the hosts of the job meanwhile, which the options name
/// (libi_options_set_agent()) as they say how hosts are reached. The job is left alone, and goes on
/// when the watch is freed.
///
/// *watch is the new object, to be freed with libi_watch_free(). Returns LIBI_OK, LIBI_ERR_NULL, or
/// as libi_front_launch(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_watch(
    job: *const libi_job,
    options: *const libi_options,
    watch: *mut *mut libi_watch,
) -> libi_result {
    // SAFETY: as documented in the header.
    let (place, options) = unsafe { (OutParam::new(watch, null_mut(), "watch"), options::copy(options)) };
    // SAFETY: as documented in the header.
    unsafe {
        with(job, |view: &JobView| {
            let (place, options) = (place?, options?);
            reentry::may_wait()?;
            let watch = Watch::of(&view.job, &options)?;
            let view = WatchView { watch, host: CString::default(), why: CString::default() };
            place.put(give(Mutex::new(view)));
            Ok(())
        })
    }
}

/// Ends a watch. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_watch_free(watch: *mut libi_watch) {
    // SAFETY: as documented in the header.
    unsafe { object::free(watch) }
}

/// Waits for the next event of a job, and fills *info with it.
///
/// Returns LIBI_OK; LIBI_NOT_YET at the timeout; LIBI_NONE if nothing more follows: all processes
/// and the launcher have ended, or are not watched any more; or LIBI_ERR_BUSY if another thread
/// waits. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_watch_next(
    watch: *mut libi_watch,
    info: *mut libi_watch_event_info,
    size: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    let info = match unsafe { OutStruct::new(info, size) } {
        Ok(info) => info,
        Err(error) => return code(Err(error)),
    };
    // SAFETY: as documented in the header.
    unsafe {
        with(watch.cast_const(), |view: &Mutex<WatchView>| {
            reentry::may_wait()?;
            let mut view = object::exclusive(view, "watch")?;
            let Some(event) = view.watch.next(args::timeout(timeout)) else {
                let is_over = view.watch.is_over();
                let (code, text) = if is_over {
                    (LIBI_NONE, "nothing more follows")
                } else {
                    (LIBI_NOT_YET, "nothing has happened")
                };
                return Err(CallError::new(code, text));
            };
            info.put(&view.described(event));
            Ok(())
        })
    }
}

impl WatchView {
    fn described(&mut self, event: JobEvent) -> libi_watch_event_info {
        let mut info = libi_watch_event_info {
            event: libi_job_event::LIBI_JOB_EVENT_NONE,
            rank: 0,
            exit: libi_exit::LIBI_EXIT_NONE,
            exit_value: 0,
            host_name: null(),
            text: null(),
        };
        match event {
            JobEvent::Ended { rank, exit: how } => {
                (info.event, info.rank) = (libi_job_event::LIBI_JOB_EVENT_ENDED, rank.0);
                (info.exit, info.exit_value) = exit(Some(how));
            }
            JobEvent::LauncherEnded { exit: how } => {
                info.event = libi_job_event::LIBI_JOB_EVENT_LAUNCHER_ENDED;
                (info.exit, info.exit_value) = exit(Some(how));
            }
            JobEvent::NotWatched { host, why } => {
                info.event = libi_job_event::LIBI_JOB_EVENT_NOT_WATCHED;
                (self.host, self.why) = (c_string(&host), c_string(&why));
                (info.host_name, info.text) = (self.host.as_ptr(), self.why.as_ptr());
            }
            _ => {}
        }
        info
    }
}
