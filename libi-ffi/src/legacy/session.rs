//! The sessions of the front end.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libi::{Bytes, CommError, EnvVar, Pending, Rank, Session, SessionId, Stage};

use super::args::Handle;
use super::{CallError, CallResult, EALREADY, EIO, ELAUNCH, ESESS, lock};

/// The [state](super) of a session.
enum SessionState {
    New,
    Launching,
    Up(Arc<LaunchedSession>),
}

struct Entry {
    variables: Vec<EnvVar>,
    state: SessionState,
}

/// The sessions of a process, by their handles: numbers that are never reused.
#[derive(Default)]
pub(super) struct Sessions {
    entries: BTreeMap<u32, Entry>,
    last: u32,
}

fn number(handle: Handle) -> u32 {
    u32::try_from(handle.addr()).unwrap_or(0)
}

fn unknown() -> CallError {
    CallError::new(ESESS, "there is no such session")
}

impl Sessions {
    pub(super) fn create(&mut self) -> Handle {
        self.last += 1;
        self.entries.insert(self.last, Entry { variables: Vec::new(), state: SessionState::New });
        std::ptr::without_provenance_mut(self.last as usize)
    }

    fn entry(&mut self, handle: Handle) -> CallResult<&mut Entry> {
        self.entries.get_mut(&number(handle)).ok_or_else(unknown)
    }

    pub(super) fn is_known(&mut self, handle: Handle) -> CallResult {
        self.entry(handle).map(|_| ())
    }

    pub(super) fn add_variables(&mut self, handle: Handle, more: Vec<EnvVar>) -> CallResult {
        self.entry(handle)?.variables.extend(more);
        Ok(())
    }

    /// The variables of a session, if it is new.
    pub(super) fn launchable(&mut self, handle: Handle) -> CallResult<(SessionId, Vec<EnvVar>)> {
        let entry = self.entry(handle)?;
        match entry.state {
            SessionState::New => Ok((SessionId(number(handle)), entry.variables.clone())),
            _ => Err(CallError::new(EALREADY, "the session was launched before")),
        }
    }

    /// Marks sessions as launching.
    pub(super) fn begin(&mut self, sessions: &[SessionId]) {
        self.stand(sessions, || SessionState::Launching);
    }

    /// Marks sessions as new again.
    pub(super) fn take_back(&mut self, sessions: &[SessionId]) {
        self.stand(sessions, || SessionState::New);
    }

    fn stand(&mut self, sessions: &[SessionId], state: impl Fn() -> SessionState) {
        for session in sessions {
            if let Some(entry) = self.entries.get_mut(&session.0) {
                entry.state = state();
            }
        }
    }

    /// Records a session that is up. If its handle was finalized meanwhile, it ends.
    pub(super) fn is_up(&mut self, launched: LaunchedSession) {
        if let Some(entry) = self.entries.get_mut(&launched.session.id().0) {
            entry.state = SessionState::Up(Arc::new(launched));
        }
    }

    pub(super) fn launched(&mut self, handle: Handle) -> CallResult<Arc<LaunchedSession>> {
        match &self.entry(handle)?.state {
            SessionState::Up(launched) => Ok(Arc::clone(launched)),
            _ => Err(CallError::new(ELAUNCH, "the session is not launched")),
        }
    }

    /// All sessions that are up.
    pub(super) fn all_launched(&self) -> Vec<Arc<LaunchedSession>> {
        let standings = self.entries.values().map(|entry| &entry.state);
        let up = |state: &SessionState| {
            if let SessionState::Up(launched) = state { Some(Arc::clone(launched)) } else { None }
        };
        standings.filter_map(up).collect()
    }

    /// Removes a session; returns it if it is up.
    pub(super) fn remove(&mut self, handle: Handle) -> CallResult<Option<Arc<LaunchedSession>>> {
        let entry = self.entries.remove(&number(handle)).ok_or_else(unknown)?;
        Ok(if let SessionState::Up(launched) = entry.state { Some(launched) } else { None })
    }
}

/// A session that came up.
pub(super) struct LaunchedSession {
    session: Session,
    /// The host name of each rank as the caller wrote it.
    names: Vec<CString>,
    /// Messages that may not have left this process.
    sending: Mutex<VecDeque<Pending<()>>>,
    /// Whether a receive has failed because the master is lost. The report of how it ended may
    /// come later.
    is_master_lost: AtomicBool,
}

/// How long members have to finalize when their session, or the process of the front end, ends.
pub(super) const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// The grace period of SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

impl LaunchedSession {
    pub(super) fn new(session: Session, names: Vec<CString>) -> Self {
        Self { session, names, sending: Mutex::default(), is_master_lost: AtomicBool::new(false) }
    }

    pub(super) fn names(&self) -> &[CString] {
        &self.names
    }

    /// Sends the master a message, and does not wait for its delivery.
    pub(super) fn send(&self, message: &[u8]) -> CallResult {
        const WHAT: &str = "sending to the master";
        let mut sending = lock(&self.sending);
        while let Some(result) = sending.front_mut().and_then(Pending::poll) {
            sending.pop_front();
            result.map_err(|error| CallError::io(WHAT, &error))?;
        }
        if self.is_master_lost.load(Ordering::Relaxed)
            || self.session.stage() != Stage::Up
            || self.session.ended().contains(Rank(0))
            || self.session.lost().contains(Rank(0))
        {
            return Err(CallError::new(EIO, format!("{WHAT}: it has ended, or has left the session")));
        }
        sending.push_back(self.session.send(Bytes::copy_from_slice(message)));
        Ok(())
    }

    /// Waits for the next message of the master.
    pub(super) fn recv(&self) -> CallResult<Bytes> {
        let message = self.session.recv().wait(Duration::MAX);
        message.map_err(|error| {
            self.is_master_lost.fetch_or(matches!(error, CommError::PeerLost { .. }), Ordering::Relaxed);
            CallError::io("receiving from the master", &error)
        })
    }

    /// Waits until all members have left or ended; returns the number of the session.
    pub(super) fn wait_done(&self, by: Instant) -> Option<SessionId> {
        let left = by.saturating_duration_since(Instant::now());
        self.session.wait_done(left).is_ok().then(|| self.session.id())
    }

    /// Ends the session: members that are about to leave have time to do so, the others end.
    pub(super) fn end(&self) -> CallResult {
        if self.session.wait_done(LEAVE_TIMEOUT).is_ok() {
            return Ok(());
        }
        self.session.terminate(GRACE).map_err(|error| CallError::io("ending the session", &error))
    }
}
