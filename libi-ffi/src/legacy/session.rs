//! What the front end has of its sessions.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libi::{Bytes, EnvVar, Pending, Rank, Session, SessionId, Stage};

use super::given::Handle;
use super::{EALREADY, EIO, ELAUNCH, ESESS, Fault, Outcome, lock};

/// How far a session is; see the [states](super).
enum Standing {
    New,
    Launching,
    Up(Arc<Launched>),
}

struct Entry {
    variables: Vec<EnvVar>,
    standing: Standing,
}

/// The sessions of a process, by their handles: numbers that are given once.
#[derive(Default)]
pub(super) struct Sessions {
    entries: BTreeMap<u32, Entry>,
    last: u32,
}

fn number(handle: Handle) -> u32 {
    u32::try_from(handle.addr()).unwrap_or(0)
}

fn unknown() -> Fault {
    Fault::new(ESESS, "there is no such session")
}

impl Sessions {
    pub(super) fn create(&mut self) -> Handle {
        self.last += 1;
        self.entries.insert(self.last, Entry { variables: Vec::new(), standing: Standing::New });
        std::ptr::without_provenance_mut(self.last as usize)
    }

    fn entry(&mut self, handle: Handle) -> Outcome<&mut Entry> {
        self.entries.get_mut(&number(handle)).ok_or_else(unknown)
    }

    pub(super) fn is_known(&mut self, handle: Handle) -> Outcome {
        self.entry(handle).map(|_| ())
    }

    pub(super) fn add_variables(&mut self, handle: Handle, more: Vec<EnvVar>) -> Outcome {
        self.entry(handle)?.variables.extend(more);
        Ok(())
    }

    /// The variables of a session that can be launched.
    pub(super) fn launchable(&mut self, handle: Handle) -> Outcome<(SessionId, Vec<EnvVar>)> {
        let entry = self.entry(handle)?;
        match entry.standing {
            Standing::New => Ok((SessionId(number(handle)), entry.variables.clone())),
            _ => Err(Fault::new(EALREADY, "the session was launched before")),
        }
    }

    /// These are being launched.
    pub(super) fn begin(&mut self, sessions: &[SessionId]) {
        self.stand(sessions, || Standing::Launching);
    }

    /// The launch of these has failed.
    pub(super) fn take_back(&mut self, sessions: &[SessionId]) {
        self.stand(sessions, || Standing::New);
    }

    fn stand(&mut self, sessions: &[SessionId], standing: impl Fn() -> Standing) {
        for session in sessions {
            if let Some(entry) = self.entries.get_mut(&session.0) {
                entry.standing = standing();
            }
        }
    }

    /// It is up. One that was given up meanwhile ends.
    pub(super) fn is_up(&mut self, launched: Launched) {
        if let Some(entry) = self.entries.get_mut(&launched.session.id().0) {
            entry.standing = Standing::Up(Arc::new(launched));
        }
    }

    pub(super) fn launched(&mut self, handle: Handle) -> Outcome<Arc<Launched>> {
        match &self.entry(handle)?.standing {
            Standing::Up(launched) => Ok(Arc::clone(launched)),
            _ => Err(Fault::new(ELAUNCH, "the session is not launched")),
        }
    }

    /// All that were launched.
    pub(super) fn all_launched(&self) -> Vec<Arc<Launched>> {
        let standings = self.entries.values().map(|entry| &entry.standing);
        let up = |standing: &Standing| {
            if let Standing::Up(launched) = standing { Some(Arc::clone(launched)) } else { None }
        };
        standings.filter_map(up).collect()
    }

    /// Forgets a session; what was launched of it.
    pub(super) fn remove(&mut self, handle: Handle) -> Outcome<Option<Arc<Launched>>> {
        let entry = self.entries.remove(&number(handle)).ok_or_else(unknown)?;
        Ok(if let Standing::Up(launched) = entry.standing { Some(launched) } else { None })
    }
}

/// A session that is up, or was.
pub(super) struct Launched {
    session: Session,
    /// How the caller has written the host of each process, by rank.
    names: Vec<CString>,
    /// Messages that may still be on their way.
    sending: Mutex<VecDeque<Pending<()>>>,
}

/// How long members have to finalise when their session, or the front end's process, ends.
pub(super) const LEAVING: Duration = Duration::from_secs(1);
/// How long they have to end when they are told to.
const GRACE: Duration = Duration::from_secs(2);

impl Launched {
    pub(super) fn new(session: Session, names: Vec<CString>) -> Self {
        Self { session, names, sending: Mutex::default() }
    }

    pub(super) fn names(&self) -> &[CString] {
        &self.names
    }

    /// Sends the master a message, and does not wait until it has that.
    pub(super) fn send(&self, message: &[u8]) -> Outcome {
        const WHAT: &str = "sending to the master";
        let mut sending = lock(&self.sending);
        while let Some(result) = sending.front_mut().and_then(Pending::poll) {
            sending.pop_front();
            result.map_err(|error| Fault::io(WHAT, &error))?;
        }
        if self.session.stage() != Stage::Up || self.session.lost().contains(Rank(0)) {
            return Err(Fault::new(EIO, format!("{WHAT}: it has ended, or has left the session")));
        }
        sending.push_back(self.session.send(Bytes::copy_from_slice(message)));
        Ok(())
    }

    /// Waits for the next message of the master.
    pub(super) fn recv(&self) -> Outcome<Bytes> {
        let message = self.session.recv().wait(Duration::MAX);
        message.map_err(|error| Fault::io("receiving from the master", &error))
    }

    /// Waits until all members have left, or have ended; which session that was.
    pub(super) fn wait_done(&self, by: Instant) -> Option<SessionId> {
        let left = by.saturating_duration_since(Instant::now());
        self.session.wait_done(left).is_ok().then(|| self.session.id())
    }

    /// Ends it: who is about to leave can do so; all who stay end.
    pub(super) fn end(&self) -> Outcome {
        if self.session.wait_done(LEAVING).is_ok() {
            return Ok(());
        }
        self.session.terminate(GRACE).map_err(|error| Fault::io("ending the session", &error))
    }
}
