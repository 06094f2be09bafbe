//! `LIBI_fe_…`: a process that launches sessions.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use libc::{c_char, c_int, c_uint, c_void};
use libi::{Error, FrontEnd, LaunchOptions, Session, SessionId};
use libi_core::dist::Distribution;

use super::args::{self, Handle, env_t, proc_dist_req_t};
use super::session::{LEAVE_TIMEOUT, LaunchedSession, Sessions};
use super::{CallError, CallResult, Code, EINIT, EIO, ELAUNCH, debug, done, lock};
use crate::compat::output::{self, ForwardedOutput};
use crate::compat::this_machine::ThisMachine;
use crate::compat::{args::bytes, environment};

/// The value of `LIBI_fe_getMaxMsgBufLen`. Longer messages work too.
const MAX_MESSAGE: c_int = 4 << 20;

/// The front end of this process, if it has one. It ends with the process.
static FRONT: Mutex<Option<Front>> = Mutex::new(None);

struct Front {
    /// The process that has made it; a forked child must not use its copy.
    process: u32,
    front_end: Arc<FrontEnd>,
    sessions: Sessions,
    forwarded: Arc<ForwardedOutput>,
}

/// At exit, members that are about to leave have one second to do so, and their output is
/// forwarded. Then the process ends, and with it all members that have not left.
fn at_exit() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn wait() {
        // A forked child has launched nothing.
        if PROCESS.load(Ordering::Acquire) != std::process::id() {
            return;
        }
        let Ok((launched, forwarded)) = FRONT.try_lock().map(|front| match &*front {
            Some(front) => (front.sessions.all_launched(), Some(Arc::clone(&front.forwarded))),
            None => Default::default(),
        }) else {
            return;
        };
        let by = Instant::now() + LEAVE_TIMEOUT;
        for session in &launched {
            if let (Some(done), Some(forwarded)) = (session.wait_done(by), &forwarded) {
                forwarded.wait(done, by);
            }
        }
        // The drop would wait for their end; they end with the process.
        std::mem::forget(launched);
    }
    let before = PROCESS.swap(std::process::id(), Ordering::AcqRel);
    if before != 0 {
        return; // inherited from the process that forked this one
    }
    // SAFETY: a function without arguments. If it cannot be registered, the exit does not wait.
    unsafe { libc::atexit(wait) };
}

/// Runs `body` on the front end. It must not wait.
fn with<T>(body: impl FnOnce(&mut Front) -> CallResult<T>) -> CallResult<T> {
    let mut front = lock(&FRONT);
    let own = front.as_mut().filter(|front| front.process == std::process::id());
    body(own.ok_or_else(|| CallError::new(EINIT, "LIBI_fe_init has not been called in this process"))?)
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_fe_init(_version: c_int) -> Code {
    done("LIBI_fe_init", || {
        let mut front = lock(&FRONT);
        if front.as_ref().is_none_or(|front| front.process != std::process::id()) {
            // The parent's front end is not dropped: this process must not end it.
            std::mem::forget(front.take());
            let front_end =
                FrontEnd::new().map_err(|error| CallError::io("cannot make the front end", &error))?;
            let front_end = Arc::new(front_end);
            let forwarded = output::forward(Arc::clone(&front_end), |_| {});
            let forwarded = forwarded.map_err(|error| CallError::io("cannot start a thread", &error))?;
            let process = std::process::id();
            *front = Some(Front { process, front_end, sessions: Sessions::default(), forwarded });
            at_exit();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_createSession(session: *mut Handle) -> Code {
    // SAFETY: it is a reference in C++.
    done("LIBI_fe_createSession", || with(|front| unsafe { args::put(session, front.sessions.create()) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_addToSessionEnvironment(session: Handle, list: *const env_t) -> Code {
    done("LIBI_fe_addToSessionEnvironment", || {
        // SAFETY: as documented in the header.
        with(|front| front.sessions.add_variables(session, unsafe { args::variables(list) }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_launch(requests: *const proc_dist_req_t, count: c_int) -> Code {
    done("LIBI_fe_launch", || {
        // SAFETY: as documented in the header.
        let requests = match usize::try_from(count) {
            Ok(count) if count > 0 && !requests.is_null() => unsafe {
                std::slice::from_raw_parts(requests, count)
            },
            _ => {
                with(|_| Ok(()))?;
                return Err(CallError::new(ELAUNCH, "there are no requests"));
            }
        };
        // SAFETY: as documented in the header.
        let (front_end, mut launch) = with(|front| unsafe { Launch::prepare(front, requests) })?;
        let launched = {
            let distributions: Vec<_> = launch.distributions.iter().cloned().map(Into::into).collect();
            front_end.launch_all(&distributions, &launch.options)
        };
        launch.settle(launched)
    })
}

/// A launch of some sessions. If it does not complete, the sessions become new again.
struct Launch {
    distributions: Vec<Distribution>,
    options: LaunchOptions,
    sessions: Vec<SessionId>,
    names: BTreeMap<u32, Vec<CString>>,
}

impl Launch {
    /// Checks the requests, and marks their sessions as launching.
    ///
    /// # Safety
    /// As documented in the header for `proc_dist_req_t`.
    unsafe fn prepare(front: &mut Front, requests: &[proc_dist_req_t]) -> CallResult<(Arc<FrontEnd>, Self)> {
        let mut known = Vec::with_capacity(requests.len());
        for request in requests {
            // An invalid handle is reported before anything else.
            front.sessions.is_known(request.session)?;
        }
        for request in requests {
            known.push(front.sessions.launchable(request.session)?);
        }
        let (mut distributions, mut names) = (Vec::new(), BTreeMap::<u32, Vec<CString>>::new());
        for (request, (session, variables)) in requests.iter().zip(known) {
            // SAFETY: as for this function.
            let (mut distribution, hosts) = unsafe { args::request(request, session) }?;
            distribution.env = variables;
            distributions.push(distribution);
            names.entry(session.0).or_default().extend(hosts);
        }
        let options =
            environment::options(&mut distributions, |name| std::env::var_os(name), ThisMachine::new);
        debug::say(2, || {
            let backend = options.backend.as_ref().map_or_else(String::new, ToString::to_string);
            format!("launching through {backend} by {}", options.strategy)
        });
        let sessions: Vec<SessionId> = names.keys().map(|number| SessionId(*number)).collect();
        front.sessions.begin(&sessions);
        Ok((Arc::clone(&front.front_end), Self { distributions, options, sessions, names }))
    }

    /// Records sessions that are up. The others become new again when this is dropped.
    fn settle(&mut self, launched: Result<Vec<Session>, Error>) -> CallResult {
        let launched = launched.map_err(|error| CallError::new(ELAUNCH, error.to_string()))?;
        for session in launched {
            if let Some(report) = session.report() {
                debug::say(2, || report.to_string());
            }
            let names = self.names.remove(&session.id().0).unwrap_or_default();
            self.sessions.retain(|open| *open != session.id());
            let launched = LaunchedSession::new(session, names);
            with(|front| {
                front.sessions.is_up(launched);
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if let Some(front) = &mut *lock(&FRONT) {
            front.sessions.take_back(&self.sessions);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_getMaxMsgBufLen(most: *mut c_int) -> Code {
    // SAFETY: as documented in the header.
    done("LIBI_fe_getMaxMsgBufLen", || with(|_| unsafe { args::put(most, MAX_MESSAGE) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_sendUsrData(session: Handle, buffer: *const c_void, length: c_int) -> Code {
    done("LIBI_fe_sendUsrData", || {
        let launched = with(|front| front.sessions.launched(session))?;
        // SAFETY: as documented in the header.
        launched.send(unsafe { bytes(buffer, length) }?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_recvUsrData(
    session: Handle,
    buffer: *mut *mut c_void,
    length: *mut c_int,
) -> Code {
    done("LIBI_fe_recvUsrData", || {
        let launched = with(|front| front.sessions.launched(session))?;
        // SAFETY: as documented in the header.
        unsafe { args::put_message(&launched.recv()?, buffer, length) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_getHostlistSize(session: Handle, size: *mut c_uint) -> Code {
    done("LIBI_fe_getHostlistSize", || {
        let launched = with(|front| front.sessions.launched(session))?;
        // SAFETY: as documented in the header.
        unsafe { args::put(size, launched.names().len() as c_uint) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_getHostlist(
    session: Handle,
    list: *mut *mut *mut c_char,
    size: *mut c_uint,
) -> Code {
    done("LIBI_fe_getHostlist", || {
        let launched = with(|front| front.sessions.launched(session))?;
        let names = launched.names();
        // Frees the copies if the call fails.
        let mut copies = Copies(Vec::with_capacity(names.len()));
        for name in names {
            copies.0.push(args::malloc(name.as_bytes_with_nul())?);
        }
        // SAFETY: pointers have no padding.
        let bytes = unsafe {
            std::slice::from_raw_parts(copies.0.as_ptr().cast::<u8>(), size_of_val(copies.0.as_slice()))
        };
        if list.is_null() || size.is_null() {
            return Err(CallError::new(EIO, "the place for the list is NULL"));
        }
        let array = args::malloc(bytes)?;
        // SAFETY: as documented in the header.
        unsafe {
            args::put(list, array.cast())?;
            args::put(size, names.len() as c_uint)?;
        }
        copies.0.clear();
        Ok(())
    })
}

/// Memory of the C library.
struct Copies(Vec<*mut c_void>);

impl Drop for Copies {
    fn drop(&mut self) {
        for copy in self.0.drain(..).filter(|copy| !copy.is_null()) {
            // SAFETY: it comes from `malloc` and has no other pointer.
            unsafe { libc::free(copy) };
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_fe_finalize(session: Handle) -> Code {
    done("LIBI_fe_finalize", || {
        let launched = with(|front| front.sessions.remove(session))?;
        launched.map_or(Ok(()), |launched| launched.end())
    })
}
