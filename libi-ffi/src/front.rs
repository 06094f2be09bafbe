//! The front end.

use std::ffi::OsStr;
use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::{c_char, c_int, c_void};
use libi::job::Job;
use libi::{Error, FrontEnd, LaunchOptions, LaunchReport, Session};

use crate::args::{self, OutParam};
use crate::distribution::{self, libi_distribution};
use crate::error::{CallError, CallResult, code};
use crate::event::{give_event, libi_event};
use crate::layout::lay_out_into;
use crate::object::{self, OwnedPart, ask, give, handle, with};
use crate::options::{self, libi_options};
use crate::progress::{libi_progress_arg, progress};
use crate::reentry::{ProcessLocal, ThreadId};
use crate::report::{give_report, libi_report};
use crate::result::libi_result::{self, LIBI_ERR_BUSY, LIBI_ERR_ENDED, LIBI_NONE, LIBI_NOT_YET};
use crate::result::{LIBI_FOREVER, libi_timeout};
use crate::session::{give_session, libi_session};

/// A front end, which launches sessions. A process may have any number; they are independent.
///
/// Any number of threads may use one. With LIBI_PROGRESS_MANUAL, use it from one thread that
/// lives as long as the process, best the main one: only then it is certain that processes which
/// never join end when this process is killed. Since 0.1.
pub struct libi_front {
    _opaque: (),
}

handle!(libi_front, "front end", Front);

/// A front end, and the state of its C interface.
pub struct Front {
    front: ProcessLocal<FrontEnd>,
    /// The report of the last launch that failed.
    failed: Mutex<Option<Arc<LaunchReport>>>,
    callback: Mutex<Option<Callback>>,
    /// The thread that is calling the callback.
    dispatching: Mutex<Option<ThreadId>>,
    /// The callback has freed the front end, which happens when it has returned.
    doomed: AtomicBool,
}

/// Called by libi_front_dispatch() for each event. The event is freed when the callback returns.
/// The callback must return normally: no exception, no longjmp. Since 0.1.
pub type libi_event_callback = Option<unsafe extern "C" fn(userdata: *mut c_void, event: *const libi_event)>;

#[derive(Clone, Copy)]
struct Callback {
    userdata: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void, *const libi_event),
}

/// How many events one dispatch delivers at most, so that other sources of the caller's loop get
/// their turn.
const MAX_EVENTS: usize = 1_000;

impl Front {
    fn dispatching(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.dispatching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn callback(&self) -> Option<Callback> {
        *self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the report of a launch that has failed.
    /// Launches daemons beside a job.
    pub(crate) fn launch_beside(
        &self,
        (job, each): (&Job, u32),
        daemon: libi::Distribution,
        options: &LaunchOptions,
    ) -> CallResult<Session> {
        let front = self.front.get()?;
        let begun = match NonZeroU32::new(each) {
            Some(each) => front.launch_beside_each(job, each, daemon, options),
            None => front.launch_beside(job, daemon, options),
        };
        begun.map_err(|error| self.launch_error(error))
    }

    fn launch_error(&self, error: Error) -> CallError {
        if let Error::NotLaunched(report) = &error {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(report));
        }
        CallError::from(error)
    }

    /// Calls the callback for the events there are.
    fn deliver(&self) -> CallResult {
        for _ in 0..MAX_EVENTS {
            let Some(Callback { userdata, function }) = self.callback() else { break };
            let Some(event) = self.front.get()?.next_event(Duration::ZERO) else { break };
            let event = OwnedPart::<libi_event>::from(give_event(event));
            // SAFETY: as documented in the header for libi_event_callback.
            unsafe { function(userdata, event.as_ptr()) };
            if self.doomed.load(Ordering::Acquire) {
                break;
            }
        }
        Ok(())
    }
}

/// Makes a front end.
///
/// *front is the new object, to be freed with libi_front_free(), or NULL after a failure. Returns
/// LIBI_OK, LIBI_ERR_NULL, LIBI_ERR_ARGUMENT, or LIBI_ERR_SYSTEM if there are no descriptors or
/// threads left. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_new(
    progress_by: libi_progress_arg,
    front: *mut *mut libi_front,
) -> libi_result {
    let new = || {
        // SAFETY: as documented in the header.
        let place = unsafe { OutParam::new(front, null_mut(), "front") }?;
        let front = FrontEnd::with(progress(progress_by)?)?;
        place.put(give(Front {
            front: ProcessLocal::new(front),
            failed: Mutex::default(),
            callback: Mutex::default(),
            dispatching: Mutex::default(),
            doomed: AtomicBool::new(false),
        }));
        Ok(())
    };
    code(new())
}

/// Frees a front end and ends all its sessions: members that have not detached are killed. Detached
/// sessions go on. NULL is allowed.
///
/// Objects of its sessions stay valid and have to be freed; calls that need a running session
/// return LIBI_ERR_ENDED. When called from its own event callback, it is freed after that has
/// returned. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_free(front: *mut libi_front) {
    // SAFETY: as documented in the header.
    unsafe {
        let from_callback = ask(front, false, |front| {
            let own = *front.dispatching() == Some(ThreadId::this());
            front.doomed.store(own, Ordering::Release);
            own
        });
        if !from_callback {
            object::free(front);
        }
    }
}

/// Launches the sessions of these distributions side by side, and waits until all of them are up,
/// at most until the deadline of the options. Distributions and options are copied. options may
/// be NULL for the defaults.
///
/// sessions is an array with this much room. It gets one object for each session number of the
/// distributions, in the order in which these are first named, and NULL in the remaining
/// elements. Free each with libi_session_free().
///
/// Returns LIBI_OK; the first failure of a distribution or of the options; LIBI_ERR_LAYOUT,
/// LIBI_ERR_PLAIN or LIBI_ERR_LENGTH (not enough room) before anything is started; or
/// LIBI_ERR_NOT_LAUNCHED if a session did not come up. Then all of them are ended,
/// libi_last_error() explains it for people, and libi_front_report() for programs. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_launch(
    front: *mut libi_front,
    distributions: *const *const libi_distribution,
    count: usize,
    options: *const libi_options,
    sessions: *mut *mut libi_session,
    room: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { begin(front, (distributions, count), options, (sessions, room), FrontEnd::launch_all) }
}

/// As libi_front_launch(), but does not wait: libi_session_wait_up() does, and LIBI_EVENT_UP or
/// LIBI_EVENT_GIVEN_UP comes. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_start(
    front: *mut libi_front,
    distributions: *const *const libi_distribution,
    count: usize,
    options: *const libi_options,
    sessions: *mut *mut libi_session,
    room: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { begin(front, (distributions, count), options, (sessions, room), FrontEnd::start_all) }
}

/// Attaches to a session that was launched with libi_options_set_detached() and has this ticket
/// file. A front end that had it before has it no more, and gets LIBI_EVENT_REVOKED. Events that
/// the one before has not taken, and messages that it has not received, follow. Any thread, at any
/// time.
///
/// Returns LIBI_OK with a session, to be freed with libi_session_free(); LIBI_ERR_NOT_ATTACHED
/// (libi_last_error() has the reason), also when the timeout has elapsed; or LIBI_ERR_NULL. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_attach(
    front: *mut libi_front,
    ticket: *const c_char,
    timeout: libi_timeout,
    session: *mut *mut libi_session,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        with(front, |front| {
            let place = OutParam::new(session, null_mut(), "session")?;
            let ticket = args::os_bytes(ticket, "ticket")?;
            let ticket = OsStr::from_bytes(ticket.as_bytes());
            place.put(give_session(front.front.get()?.attach(ticket, args::timeout(timeout))?));
            Ok(())
        })
    }
}

type Begin = fn(&FrontEnd, &[libi::Distribution], &LaunchOptions) -> Result<Vec<Session>, Error>;

/// # Safety
/// As documented in the header for [`libi_front_launch`].
unsafe fn begin(
    front: *mut libi_front,
    (distributions, count): (*const *const libi_distribution, usize),
    options: *const libi_options,
    (sessions, room): (*mut *mut libi_session, usize),
    begin: Begin,
) -> libi_result {
    let body = |front: &Front| {
        // SAFETY: as for this function.
        let (places, distributions, options) = unsafe {
            let places = args::places(sessions, room, "sessions")?;
            (places, distribution::copies(distributions, count)?, options::copy(options)?)
        };
        lay_out_into(&distributions, room)?;
        let distributions: Vec<_> = distributions.into_iter().map(Into::into).collect();
        let begun =
            begin(front.front.get()?, &distributions, &options).map_err(|error| front.launch_error(error))?;
        for (place, session) in places.iter().zip(begun) {
            place.put(give_session(session));
        }
        Ok(())
    };
    // SAFETY: as for this function.
    unsafe { with(front, body) }
}

/// The report of the last libi_front_launch() that returned LIBI_ERR_NOT_LAUNCHED.
///
/// Returns LIBI_OK with a report, to be freed with libi_report_free(), or LIBI_NONE. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_report(
    front: *const libi_front,
    report: *mut *mut libi_report,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        with(front, |front| {
            let place = OutParam::new(report, null_mut(), "report")?;
            let failed = front.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let failed = failed.ok_or_else(|| CallError::new(LIBI_NONE, "no launch has failed"))?;
            place.put(give_report(failed));
            Ok(())
        })
    }
}

/// Waits for the next event of any of its sessions.
///
/// Returns LIBI_OK with an event, to be freed with libi_event_free(); LIBI_NOT_YET if there is
/// none within the timeout; or, without a limit, LIBI_ERR_ENDED if no event can come any more
/// because a system call has failed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_next_event(
    front: *mut libi_front,
    event: *mut *mut libi_event,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        with(front, |front| {
            let place = OutParam::new(event, null_mut(), "event")?;
            let none = || match timeout {
                0.. => CallError::new(LIBI_NOT_YET, "no event within the timeout"),
                _ => CallError::new(LIBI_ERR_ENDED, "no event can come any more"),
            };
            let next = front.front.get()?.next_event(args::timeout(timeout)).ok_or_else(none)?;
            place.put(give_event(next));
            Ok(())
        })
    }
}

/// Sets the function that libi_front_dispatch() calls for each event; NULL, the default, for
/// none. The function may call everything but libi_front_dispatch() of the same front end, which
/// returns LIBI_ERR_BUSY. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_set_event_callback(
    front: *mut libi_front,
    callback: libi_event_callback,
    userdata: *mut c_void,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        with(front, |front| {
            let callback = callback.map(|function| Callback { userdata, function });
            *front.callback.lock().unwrap_or_else(PoisonError::into_inner) = callback;
            Ok(())
        })
    }
}

/// For event loops: a descriptor that is readable while there are events; while an operation of
/// one of its sessions has finished and was neither polled since nor freed; and, with
/// LIBI_PROGRESS_MANUAL, while there is something to dispatch.
///
/// Wait for it with poll() or the like; do not read or close it. -1 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_descriptor(front: *const libi_front) -> c_int {
    // SAFETY: as documented in the header.
    unsafe { ask(front, -1, |front| front.front.look().map_or(-1, |front| front.descriptor().as_raw_fd())) }
}

/// For event loops: how long the loop may wait for the descriptor before libi_front_dispatch()
/// has to be called; -1 (LIBI_FOREVER) is no limit. Every call on the front end may change it.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_next_timeout(front: *const libi_front) -> libi_timeout {
    // SAFETY: as documented in the header.
    unsafe {
        ask(front, -1, |front| {
            let timeout = front.front.look().and_then(FrontEnd::next_timeout);
            timeout.map_or(LIBI_FOREVER, args::millis)
        })
    }
}

/// For event loops: does what there is to do without waiting, then calls the event callback for
/// the events there are.
///
/// Returns LIBI_OK, or LIBI_ERR_BUSY from that callback and while another thread is in this call.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_dispatch(front: *mut libi_front) -> libi_result {
    let mut doomed = false;
    // SAFETY: as documented in the header.
    let result = unsafe {
        with(front, |front| {
            let this = Some(ThreadId::this());
            match &mut *front.dispatching() {
                Some(_) => return Err(CallError::new(LIBI_ERR_BUSY, "the front end is being dispatched")),
                free => *free = this,
            }
            let done = front.front.get().and_then(|inner| inner.dispatch().map_err(CallError::from));
            let delivered = done.and_then(|()| front.deliver());
            doomed = front.doomed.load(Ordering::Acquire);
            *front.dispatching() = None;
            delivered
        })
    };
    if doomed {
        // SAFETY: the callback has given it up, and has returned.
        unsafe { object::free(front) };
    }
    result
}
