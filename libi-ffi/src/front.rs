//! The front end.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::{c_char, c_int, c_void};
use libi::{Error, FrontEnd, LaunchOptions, LaunchReport, Session};
use libi_core::dist::Distribution;
use libi_core::dist::layout::{Layout, lay_out};

use crate::args::{self, OutParam, timeout};
use crate::distribution::{self, libi_distribution};
use crate::event::{give_event, libi_event};
use crate::layout::{give_layout, libi_layout};
use crate::object::{self, OwnedPart, ask, give, handle, with};
use crate::options::{self, libi_options};
use crate::progress::{libi_progress, progress};
use crate::reentry::{ProcessLocal, ThreadId};
use crate::report::{give_report, libi_report};
use crate::result::{
    CallError, CallResult, LIBI_ERR_BUSY, LIBI_ERR_ENDED, LIBI_ERR_LAYOUT, LIBI_ERR_LENGTH, LIBI_ERR_STATE,
    LIBI_FOREVER, LIBI_NONE, LIBI_NOT_YET, LIBI_OK, libi_millis, libi_result,
};
use crate::session::{give_session, libi_session};

/// Launches sessions. Any number may exist in a process; they share nothing. Any number of threads may use one at a time.
///
/// With LIBI_PROGRESS_MANUAL, use it from one thread that lives as long as the process, best the main one: only then processes that
/// never join are certain to end when this process is killed. Since 0.1.
pub struct libi_front {
    _opaque: (),
}

handle!(libi_front, "front end", Front);

/// A front end, and what C has to do with it.
pub struct Front {
    /// Nothing if it could not be made.
    front: Option<ProcessLocal<FrontEnd>>,
    /// Of the last launch that did not succeed.
    failed: Mutex<Option<Arc<LaunchReport>>>,
    callback: Mutex<Option<Callback>>,
    /// Who is telling the callback what has happened.
    telling: Mutex<Option<ThreadId>>,
    /// It is to be freed when that is over.
    doomed: AtomicBool,
}

/// Is told what has happened. The event is the library's, and gone when the function comes back. It must not throw, or leave in
/// another way.
pub type libi_on_event = Option<unsafe extern "C" fn(userdata: *mut c_void, event: *const libi_event)>;

#[derive(Clone, Copy)]
struct Callback {
    userdata: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void, *const libi_event),
}

/// How many events are told in one go: others wait meanwhile.
const MOST_TOLD: usize = 1_000;

impl Front {
    fn front(&self) -> CallResult<&FrontEnd> {
        let none = || CallError::new(LIBI_ERR_STATE, "this front end could not be made");
        self.front.as_ref().ok_or_else(none)?.get()
    }

    fn look(&self) -> Option<&FrontEnd> {
        self.front.as_ref()?.look()
    }

    /// Who is telling, as far as anybody is.
    fn telling(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn callback(&self) -> Option<Callback> {
        *self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the report, if it is one, and says what else there is to be said.
    fn fault(&self, error: Error) -> CallError {
        if let Error::NotLaunched(report) = &error {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(report));
        }
        CallError::from(error)
    }

    /// Tells the callback what has happened, as long as it wants to hear it.
    fn tell(&self) -> CallResult {
        for _ in 0..MOST_TOLD {
            let Some(Callback { userdata, function }) = self.callback() else { break };
            let Some(event) = self.front()?.next_event(Duration::ZERO) else { break };
            let event = OwnedPart::<libi_event>::from(give_event(event));
            // SAFETY: who has given the function has promised that it may be called so.
            unsafe { function(userdata, event.shown()) };
            if self.doomed.load(Ordering::Acquire) {
                break;
            }
        }
        Ok(())
    }
}

/// Makes a front end that makes progress in this way.
///
/// *front is given in any case, to be freed by libi_front_free(), so that libi_front_error() can say what has failed; after a failure
/// it serves for nothing else. Returns LIBI_OK, LIBI_ERR_NULL, LIBI_ERR_ARGUMENT if there is no such progress, or LIBI_ERR_SYSTEM if
/// there are no descriptors or threads left. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_new(who: libi_progress, front: *mut *mut libi_front) -> libi_result {
    // SAFETY: as the header asks.
    let place = match unsafe { OutParam::new(front, std::ptr::null_mut(), "front") } {
        Ok(place) => place,
        Err(fault) => return fault.code,
    };
    let made = progress(who).and_then(|who| FrontEnd::with(who).map_err(CallError::from));
    let (made, fault) = match made {
        Ok(front) => (Some(ProcessLocal::new(front)), None),
        Err(fault) => (None, Some(fault)),
    };
    let new = give(Front {
        front: made,
        failed: Mutex::default(),
        callback: Mutex::default(),
        telling: Mutex::default(),
        doomed: AtomicBool::new(false),
    });
    place.put(new);
    // SAFETY: it was made just now.
    fault.map_or(LIBI_OK, |fault| unsafe { with::<libi_front>(new, |_| Err(fault)) })
}

/// Frees it; NULL is fine. All its sessions end: members that were not released are killed. The objects of its sessions have to be
/// freed by themselves; until then they have ended, and what needs a session that is up is LIBI_ERR_ENDED. From its own callback it is
/// freed as soon as that comes back. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_free(front: *mut libi_front) {
    // SAFETY: as the header asks.
    unsafe {
        let from_callback = ask(front, false, |front| {
            let own = *front.telling() == Some(ThreadId::this());
            front.doomed.store(own, Ordering::Release);
            own
        });
        if !from_callback {
            object::free(front);
        }
    }
}

/// What failed last with it in this thread; empty if nothing has. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_error(front: *const libi_front) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { object::error(front) }
}

/// Launches the sessions of these distributions side by side, and waits until all of them are up: by the deadline of the options at
/// the latest. Distributions and options are copied; options may be NULL for the defaults.
///
/// sessions has room for so many, and gets one for each number that the distributions bear, in the order in which these are first
/// named, and NULL behind them; each is to be freed by libi_session_free(). Returns LIBI_OK; LIBI_ERR_LAYOUT, LIBI_ERR_PLAIN,
/// LIBI_ERR_LENGTH if there is not as much room, before anything is started; LIBI_ERR_NOT_LAUNCHED if one did not come up: then all are
/// ended, the verdict on each host is in libi_front_error() for people and in libi_front_report(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_launch(
    front: *mut libi_front,
    distributions: *const *const libi_distribution,
    count: usize,
    options: *const libi_options,
    sessions: *mut *mut libi_session,
    room: usize,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { begin(front, (distributions, count), options, (sessions, room), FrontEnd::launch_all) }
}

/// As libi_front_launch(), but does not wait until they are up: libi_session_wait_up() does, or an event tells. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_start(
    front: *mut libi_front,
    distributions: *const *const libi_distribution,
    count: usize,
    options: *const libi_options,
    sessions: *mut *mut libi_session,
    room: usize,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { begin(front, (distributions, count), options, (sessions, room), FrontEnd::start_all) }
}

type Begin = fn(&FrontEnd, &[libi::Distribution], &LaunchOptions) -> Result<Vec<Session>, Error>;

/// # Safety
/// As the header asks of [`libi_front_launch`].
unsafe fn begin(
    front: *mut libi_front,
    (distributions, count): (*const *const libi_distribution, usize),
    options: *const libi_options,
    (sessions, room): (*mut *mut libi_session, usize),
    begin: Begin,
) -> libi_result {
    let body = |front: &Front| {
        // SAFETY: as this function asks.
        let (places, distributions, options) = unsafe {
            let places = args::places(sessions, room, "sessions")?;
            (places, distribution::copies(distributions, count)?, options::copy(options)?)
        };
        laid_out(&distributions, room)?;
        let distributions: Vec<_> = distributions.into_iter().map(Into::into).collect();
        let begun = begin(front.front()?, &distributions, &options).map_err(|error| front.fault(error))?;
        for (place, session) in places.iter().zip(begun) {
            place.put(give_session(session));
        }
        Ok(())
    };
    // SAFETY: as this function asks.
    unsafe { with(front, body) }
}

/// The sessions of these distributions, for which there has to be room.
fn laid_out(distributions: &[Distribution], room: usize) -> CallResult<Vec<Layout>> {
    let laid = lay_out(distributions).map_err(|error| CallError::of(LIBI_ERR_LAYOUT, &error))?;
    if laid.len() > room {
        return Err(CallError::new(LIBI_ERR_LENGTH, format!("there is room for {room} of {}", laid.len())));
    }
    Ok(laid)
}

/// The report on the last launch by libi_front_launch() that did not succeed.
///
/// Returns LIBI_OK, with a report to be freed by libi_report_free(), or LIBI_NONE if there was none. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_report(
    front: *const libi_front,
    report: *mut *mut libi_report,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(front, |front| {
            let place = OutParam::new(report, std::ptr::null_mut(), "report")?;
            let failed = front.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let failed = failed.ok_or_else(|| CallError::new(LIBI_NONE, "no launch has failed"))?;
            place.put(give_report(failed));
            Ok(())
        })
    }
}

/// Where the ranks of the sessions of these distributions would be, without launching anything: as libi_front_launch(), with
/// layouts, to be freed by libi_layout_free(), in place of sessions. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_lay_out(
    front: *const libi_front,
    distributions: *const *const libi_distribution,
    count: usize,
    layouts: *mut *mut libi_layout,
    room: usize,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(front, |_| {
            let places = args::places(layouts, room, "layouts")?;
            let distributions = distribution::copies(distributions, count)?;
            let laid = laid_out(&distributions, room)?;
            for (place, layout) in places.iter().zip(laid) {
                place.put(give_layout(layout));
            }
            Ok(())
        })
    }
}

/// The next thing that has happened in any of its sessions, if something does in this time.
///
/// Returns LIBI_OK, with an event to be freed by libi_event_free(), or LIBI_NOT_YET; without a limit also LIBI_ERR_ENDED, if nothing can
/// come any more because the system has refused what the library needs to go on. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_next_event(
    front: *mut libi_front,
    most: libi_millis,
    event: *mut *mut libi_event,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(front, |front| {
            let place = OutParam::new(event, std::ptr::null_mut(), "event")?;
            let next = front.front()?.next_event(timeout(most)).ok_or_else(|| match most {
                0.. => CallError::new(LIBI_NOT_YET, "nothing has happened in this time"),
                _ => CallError::new(LIBI_ERR_ENDED, "nothing comes any more"),
            })?;
            place.put(give_event(next));
            Ok(())
        })
    }
}

/// Has libi_front_dispatch() tell a function what has happened, in the thread that calls it. NULL for none, as at first. From that
/// function, all functions of the library may be called, but not libi_front_dispatch() of the same front end, which returns
/// LIBI_ERR_BUSY. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_on_event(
    front: *mut libi_front,
    userdata: *mut c_void,
    function: libi_on_event,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with(front, |front| {
            let callback = function.map(|function| Callback { userdata, function });
            *front.callback.lock().unwrap_or_else(PoisonError::into_inner) = callback;
            Ok(())
        })
    }
}

/// For event loops: is readable as long as libi_front_next_event() has something; an operation of one of its sessions is over, and
/// nobody has looked at that by libi_pending_poll() or its kin, or freed it; or, with LIBI_PROGRESS_MANUAL, there is something to
/// dispatch. For poll() and the like; it is not to be read or closed. -1 if the front end is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_descriptor(front: *const libi_front) -> c_int {
    // SAFETY: as the header asks.
    unsafe { ask(front, -1, |front| front.look().map_or(-1, |front| front.descriptor().as_raw_fd())) }
}

/// For event loops: how long libi_front_dispatch() need not be called unless the descriptor becomes readable; -1 if for ever. It may
/// change with every call of the library. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_patience(front: *const libi_front) -> libi_millis {
    // SAFETY: as the header asks.
    unsafe {
        ask(front, -1, |front| {
            let timeout = front.look().and_then(FrontEnd::next_timeout);
            timeout.map_or(LIBI_FOREVER, args::millis)
        })
    }
}

/// For event loops: does what there is to do, and does not wait; then the function of libi_front_on_event() is told what has happened.
///
/// Returns LIBI_OK, or LIBI_ERR_BUSY from that function or while another thread is in here. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_dispatch(front: *mut libi_front) -> libi_result {
    let mut doomed = false;
    // SAFETY: as the header asks.
    let result = unsafe {
        with(front, |front| {
            let this = Some(ThreadId::this());
            match &mut *front.telling() {
                Some(_) => return Err(CallError::new(LIBI_ERR_BUSY, "the front end is being dispatched")),
                free => *free = this,
            }
            let done = front.front().and_then(|inner| inner.dispatch().map_err(CallError::from));
            let told = done.and_then(|()| front.tell());
            doomed = front.doomed.load(Ordering::Acquire);
            *front.telling() = None;
            told
        })
    };
    if doomed {
        // SAFETY: its owner has given it up in the callback that has come back.
        unsafe { object::free(front) };
    }
    result
}
