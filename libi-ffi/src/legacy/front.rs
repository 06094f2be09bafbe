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
use super::environment;
use super::output::{self, ForwardedOutput};
use super::session::{LEAVE_TIMEOUT, LaunchedSession, Sessions};
use super::this_machine::ThisMachine;
use super::{CallError, CallResult, Code, EINIT, EIO, ELAUNCH, debug, done, lock};

/// What `LIBI_fe_getMaxMsgBufLen` says; longer messages are as good.
const MAX_MESSAGE: c_int = 4 << 20;

/// The front end of this process, once it has one. With the process, and however that ends, it ends.
static FRONT: Mutex<Option<Front>> = Mutex::new(None);

struct Front {
    /// A child of the process has a copy of this which nobody keeps alive.
    process: u32,
    front_end: Arc<FrontEnd>,
    sessions: Sessions,
    forwarded: Arc<ForwardedOutput>,
}

/// Members that are about to leave when this process ends may do so, and what they have printed is passed on: a second is enough
/// for both. Then it ends, and with it everybody who has not left.
fn at_exit() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn wait() {
        // A child that goes on without us has launched nobody.
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
        // They end with the process, if they have not left.
        std::mem::forget(launched);
    }
    let before = PROCESS.swap(std::process::id(), Ordering::AcqRel);
    if before != 0 {
        return; // handed down by the process that has forked this one
    }
    // SAFETY: it is a function without arguments. If there is no room for it, nobody waits.
    unsafe { libc::atexit(wait) };
}

/// Looks at the front end. Nothing in here waits.
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
            // That of the process that has forked this one stays as it is: to end it is not ours.
            std::mem::forget(front.take());
            let front_end = FrontEnd::new().map_err(|error| CallError::io("no front end", &error))?;
            let front_end = Arc::new(front_end);
            let forwarded = output::forward(Arc::clone(&front_end));
            let forwarded = forwarded.map_err(|error| CallError::io("no thread", &error))?;
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
        // SAFETY: as the header asks.
        with(|front| front.sessions.add_variables(session, unsafe { args::variables(list) }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_launch(requests: *const proc_dist_req_t, count: c_int) -> Code {
    done("LIBI_fe_launch", || {
        // SAFETY: as the header asks.
        let requests = match usize::try_from(count) {
            Ok(count) if count > 0 && !requests.is_null() => unsafe {
                std::slice::from_raw_parts(requests, count)
            },
            _ => {
                with(|_| Ok(()))?;
                return Err(CallError::new(ELAUNCH, "there is nothing to launch"));
            }
        };
        // SAFETY: as the header asks.
        let (front_end, mut launch) = with(|front| unsafe { Launch::prepare(front, requests) })?;
        let launched = {
            let distributions: Vec<_> = launch.distributions.iter().cloned().map(Into::into).collect();
            front_end.launch_all(&distributions, &launch.options)
        };
        launch.settle(launched)
    })
}

/// A launch of some sessions. One that does not come to its end is taken back.
struct Launch {
    distributions: Vec<Distribution>,
    options: LaunchOptions,
    sessions: Vec<SessionId>,
    names: BTreeMap<u32, Vec<CString>>,
}

impl Launch {
    /// Looks at what is to be launched; then it is being launched.
    ///
    /// # Safety
    /// As the header says of `proc_dist_req_t`.
    unsafe fn prepare(front: &mut Front, requests: &[proc_dist_req_t]) -> CallResult<(Arc<FrontEnd>, Self)> {
        let mut known = Vec::with_capacity(requests.len());
        for request in requests {
            // A handle that is none is the first thing to be said.
            front.sessions.is_known(request.session)?;
        }
        for request in requests {
            known.push(front.sessions.launchable(request.session)?);
        }
        let (mut distributions, mut names) = (Vec::new(), BTreeMap::<u32, Vec<CString>>::new());
        for (request, (session, variables)) in requests.iter().zip(known) {
            // SAFETY: as this function asks.
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

    /// They are up, or are new again.
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
    // SAFETY: as the header asks.
    done("LIBI_fe_getMaxMsgBufLen", || with(|_| unsafe { args::put(most, MAX_MESSAGE) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_sendUsrData(session: Handle, buffer: *const c_void, length: c_int) -> Code {
    done("LIBI_fe_sendUsrData", || {
        let launched = with(|front| front.sessions.launched(session))?;
        // SAFETY: as the header asks.
        launched.send(unsafe { args::bytes(buffer, length) }?)
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
        // SAFETY: as the header asks.
        unsafe { args::put_message(&launched.recv()?, buffer, length) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_fe_getHostlistSize(session: Handle, size: *mut c_uint) -> Code {
    done("LIBI_fe_getHostlistSize", || {
        let launched = with(|front| front.sessions.launched(session))?;
        // SAFETY: as the header asks.
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
        // What is not given is freed.
        let mut copies = Copies(Vec::with_capacity(names.len()));
        for name in names {
            copies.0.push(args::malloc(name.as_bytes_with_nul())?);
        }
        // SAFETY: an array of pointers is as good as its bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts(copies.0.as_ptr().cast::<u8>(), size_of_val(copies.0.as_slice()))
        };
        if list.is_null() || size.is_null() {
            return Err(CallError::new(EIO, "the place for the list is NULL"));
        }
        let array = args::malloc(bytes)?;
        // SAFETY: as the header asks.
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
            // SAFETY: it comes from `malloc`, and nobody else knows of it.
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
