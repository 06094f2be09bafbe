//! The front end of this process, and its sessions by their handles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use libc::c_int;
use libi::{EnvVar, FrontEnd, SessionId};

use super::codes::{DETACHED, EBDARG, EDUNAV, EINIT, ESYS, KILLED, SPAWNED};
use super::packing::Packing;
use super::tool::Tool;
use crate::compat::{CallError, CallResult, lock, output};

/// The header's `lmon_session` handle: numbers from 1 that are never reused.
pub(super) type Handle = c_int;
/// The header's callback for the status.
pub type StatusCallback = unsafe extern "C" fn(status: *mut c_int) -> c_int;

/// The front end of this process, if it has one. It ends with the process.
static FRONT: Mutex<Option<Front>> = Mutex::new(None);

pub(super) struct Front {
    /// The process that has made it; a forked child must not use its copy.
    process: u32,
    pub(super) front_end: Arc<FrontEnd>,
    sessions: BTreeMap<Handle, Session>,
    last: Handle,
}

enum State {
    New,
    Launching,
    Up(Arc<Tool>),
}

/// A session of a tool.
pub(super) struct Session {
    pub(super) variables: Vec<EnvVar>,
    pub(super) packing: Packing,
    pub(super) on_status: Option<StatusCallback>,
    pub(super) status: c_int,
    state: State,
}

/// What a launch needs of a session.
pub(super) struct Launching {
    pub(super) front_end: Arc<FrontEnd>,
    pub(super) variables: Vec<EnvVar>,
    pub(super) packing: Packing,
    handle: Handle,
}

/// Makes the front end, unless there is one.
pub(super) fn init() -> CallResult {
    let mut front = lock(&FRONT);
    if front.as_ref().is_some_and(|front| front.process == std::process::id()) {
        return Ok(());
    }
    // The parent's front end is not dropped: this process must not end it.
    std::mem::forget(front.take());
    let fault = |text: String| CallError::new(ESYS, text);
    let front_end = FrontEnd::new().map_err(|error| fault(format!("cannot make the front end: {error}")))?;
    let front_end = Arc::new(front_end);
    output::forward(Arc::clone(&front_end), |SessionId(number)| {
        // All daemons have left, or have ended.
        change_status(number.cast_signed(), |status| status & !SPAWNED);
    })
    .map_err(|error| fault(format!("cannot start a thread: {error}")))?;
    *front = Some(Front { process: std::process::id(), front_end, sessions: BTreeMap::new(), last: 0 });
    Ok(())
}

/// Runs `body` on the front end. It must not wait, and must not call functions of the tool.
fn with<T>(body: impl FnOnce(&mut Front) -> CallResult<T>) -> CallResult<T> {
    let mut front = lock(&FRONT);
    let own = front.as_mut().filter(|front| front.process == std::process::id());
    body(own.ok_or_else(|| CallError::new(EINIT, "LMON_fe_init has not been called in this process"))?)
}

pub(super) fn create() -> CallResult<Handle> {
    with(|front| {
        front.last += 1;
        let session = Session {
            variables: Vec::new(),
            packing: Packing::default(),
            on_status: None,
            status: 0,
            state: State::New,
        };
        front.sessions.insert(front.last, session);
        Ok(front.last)
    })
}

/// Runs `body` on a session, as [`with`].
pub(super) fn on<T>(handle: Handle, body: impl FnOnce(&mut Session) -> CallResult<T>) -> CallResult<T> {
    with(|front| body(front.sessions.get_mut(&handle).ok_or_else(|| unknown(handle))?))
}

fn unknown(handle: Handle) -> CallError {
    CallError::new(EBDARG, format!("there is no session {handle}"))
}

impl Session {
    /// The tool's daemons beside its job.
    pub(super) fn tool(&self) -> CallResult<Arc<Tool>> {
        match &self.state {
            State::Up(tool) => Ok(Arc::clone(tool)),
            State::New => Err(CallError::new(EDUNAV, "the session has no job")),
            State::Launching => Err(CallError::new(EDUNAV, "the session is being launched")),
        }
    }

    /// Refuses calls for a job that was given up.
    pub(super) fn has_job(&self) -> CallResult {
        let gone = |text| Err(CallError::new(EDUNAV, text));
        match self.status {
            status if status & DETACHED != 0 => gone("the session was detached from its job"),
            status if status & KILLED != 0 => gone("the job of the session has ended"),
            _ => Ok(()),
        }
    }

    /// Refuses calls for daemons that are not there.
    pub(super) fn has_daemons(&self) -> CallResult {
        if self.status & DETACHED != 0 {
            return self.has_job();
        }
        if self.status & SPAWNED == 0 {
            return Err(CallError::new(EDUNAV, "the session has no daemons: they have ended, or have left"));
        }
        Ok(())
    }
}

/// Changes the status of a session, and tells the tool if it is another one then.
pub(super) fn change_status(handle: Handle, change: impl FnOnce(c_int) -> c_int) {
    let changed = on(handle, |session| {
        let before = session.status;
        session.status = change(before);
        Ok((session.status, session.on_status.filter(|_| session.status != before)))
    });
    if let Ok((mut status, Some(callback))) = changed {
        // SAFETY: the tool has registered this function, and the status outlives the call.
        unsafe { callback(&raw mut status) };
    }
}

/// The sessions that are up, for the end of the process; none if it ends within a function that has
/// them.
pub(super) fn all_up() -> Vec<Arc<Tool>> {
    let Ok(front) = FRONT.try_lock() else { return Vec::new() };
    let sessions = front.iter().flat_map(|front| front.sessions.values());
    sessions.filter_map(|session| session.tool().ok()).collect()
}

impl Launching {
    /// Marks a session as launching, if it is new.
    pub(super) fn begin(handle: Handle) -> CallResult<Self> {
        with(|front| {
            let front_end = Arc::clone(&front.front_end);
            let session = front.sessions.get_mut(&handle).ok_or_else(|| unknown(handle))?;
            if !matches!(session.state, State::New) {
                return Err(CallError::new(EBDARG, format!("session {handle} has a job already")));
            }
            session.state = State::Launching;
            Ok(Self { front_end, variables: session.variables.clone(), packing: session.packing, handle })
        })
    }

    /// Its daemons are ready.
    pub(super) fn set_up(self, tool: Arc<Tool>) -> CallResult {
        on(self.handle, |session| {
            session.state = State::Up(tool);
            Ok(())
        })
    }
}

/// A launch that has failed leaves a new session.
impl Drop for Launching {
    fn drop(&mut self) {
        let is_new = on(self.handle, |session| {
            let is_launching = matches!(session.state, State::Launching);
            if is_launching {
                session.state = State::New;
            }
            Ok(is_launching)
        });
        if is_new.unwrap_or(false) {
            change_status(self.handle, |_| 0);
        }
    }
}
