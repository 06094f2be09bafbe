//! This process as a daemon beside a job.
//!
//! | state | call | next |
//! |---|---|---|
//! | outside | LMON_be_init | in |
//! | in | LMON_be_handshake | introduced; if it fails, in |
//! | introduced | LMON_be_ready | ready |
//! | any but outside | LMON_be_finalize | out: its ranks are let go; if it is the master, all are |
//!
//! A call in another state returns LMON_EINIT.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use libc::c_void;
use libi::job::Target;
use libi::{InitError, Member};

use super::codes::{EINIT, ESUBCOM, ESYS, talk};
use super::limits::{Deadline, timeout};
use super::mailbox::Mailbox;
use super::messages::{Message, Ready, Startup};
use super::packing::Packing;
use super::releases::Releases;
use super::tool::thread;
use crate::compat::membership::{self, JoinError};
use crate::compat::{CallError, CallResult, lock};

static DAEMON: Mutex<Option<Arc<Daemon>>> = Mutex::new(None);
/// Functions may be registered at any time.
static PACKING: Mutex<Packing> = Mutex::new(Packing { pack: None, unpack: None });

enum State {
    In,
    Introduced { is_held: bool },
    Ready,
}

pub(super) struct Daemon {
    member: Arc<Member>,
    state: Mutex<State>,
    /// The processes of the job on this host, from the handshake on.
    targets: Mutex<Option<Arc<[Target]>>>,
    /// If ranks are held.
    releases: Mutex<Option<Arc<Releases>>>,
    /// What the master receives.
    mailbox: Arc<Mailbox>,
}

pub(super) fn register(change: impl FnOnce(&mut Packing)) {
    change(&mut lock(&PACKING));
}

pub(super) fn packing() -> Packing {
    *lock(&PACKING)
}

/// This process as a member of the session that its front end has launched.
pub(super) fn member() -> CallResult<Arc<Member>> {
    daemon().map(|daemon| Arc::clone(&daemon.member))
}

pub(super) fn daemon() -> CallResult<Arc<Daemon>> {
    let why = |error: membership::NoMember| error.text("LMON_be_init", "LMON_be_finalize");
    membership::member().map_err(|error| CallError::new(EINIT, why(error)))?;
    lock(&DAEMON).clone().ok_or_else(|| CallError::new(EINIT, "LMON_be_init has not been called"))
}

pub(super) fn join() -> CallResult {
    let member = membership::join().map_err(|error| match error {
        JoinError::Again => CallError::new(EINIT, "it was called before"),
        JoinError::Init(error) => {
            let code = match error {
                InitError::Ended => ESUBCOM,
                InitError::System(_) => ESYS,
                _ => EINIT,
            };
            CallError::new(code, error.to_string())
        }
    })?;
    let daemon = Daemon {
        member,
        state: Mutex::new(State::In),
        targets: Mutex::new(None),
        releases: Mutex::new(None),
        mailbox: Arc::default(),
    };
    *lock(&DAEMON) = Some(Arc::new(daemon));
    Ok(())
}

impl Daemon {
    /// Receives the processes of this host, and the start-up data.
    ///
    /// # Safety
    /// The registered function may be called with this pointer.
    pub(super) unsafe fn shake_hands(&self, data: *mut c_void) -> CallResult {
        if !matches!(*lock(&self.state), State::In) {
            return Err(CallError::new(EINIT, "LMON_be_handshake was called before"));
        }
        let deadline = Deadline::of_launch();
        let targets = self.member.targets(deadline.left()).map_err(CallError::targets)?;
        *lock(&self.targets) = Some(targets.into());
        let startup = self.member.broadcast_from_front().wait(deadline.left());
        let startup = Startup::decoded(&startup.map_err(talk("the start-up data of the front end"))?)?;
        *lock(&self.state) = State::Introduced { is_held: startup.is_held };
        let is_wanted = self.member.is_master() || packing().unpack.is_some();
        match startup.data.filter(|_| !data.is_null() && is_wanted) {
            // SAFETY: as for this function.
            Some(received) => unsafe { packing().unpack(&received, data) },
            None => Ok(()),
        }
    }

    /// Tells the front end that this daemon is ready; the master sends its data.
    ///
    /// # Safety
    /// The registered function may be called with this pointer.
    pub(super) unsafe fn is_ready(&self, data: *mut c_void) -> CallResult {
        let State::Introduced { is_held } = *lock(&self.state) else {
            let text = "LMON_be_handshake has not been called, or LMON_be_ready was called before";
            return Err(CallError::new(EINIT, text));
        };
        let packed = match self.member.is_master() && !data.is_null() {
            // SAFETY: as for this function.
            true => unsafe { packing().pack(data) }.map(Some),
            false => Ok(None),
        };
        if is_held {
            let releases = Releases::new(Arc::clone(&self.member), self.targets()?);
            *lock(&self.releases) = Some(Arc::clone(&releases));
            if !self.member.is_master() {
                thread("libi-release", move || releases.serve())?;
            }
        }
        if self.member.is_master() {
            self.receive_from_front()?;
        }
        *lock(&self.state) = State::Ready;
        let (answer, failed) = match packed {
            Ok(data) => (Ready::Yes(data), None),
            Err(error) => (Ready::Failed, Some(error)),
        };
        let told = self.member.gather_to_front(answer.encoded()).wait(Deadline::of_launch().left());
        told.map_err(talk("telling the front end"))?;
        failed.map_or(Ok(()), Err)
    }

    /// A thread of the master receives what the front end sends.
    fn receive_from_front(&self) -> CallResult {
        let (member, mailbox) = (Arc::clone(&self.member), Arc::clone(&self.mailbox));
        let releases = lock(&self.releases).clone();
        thread("libi-mail", move || {
            loop {
                let received =
                    member.recv().wait(Duration::MAX).map_err(talk("receiving from the front end"));
                match received.and_then(|message| Message::decoded(&message)) {
                    Ok(Message::Release(millis)) => {
                        let within = Duration::from_millis(millis.into());
                        let held = releases.as_ref().map_or(0, |releases| releases.let_all_go(within));
                        // If the front end is lost, the next call fails.
                        let _ = member.send(Message::Release(held).encoded()).wait(timeout());
                    }
                    Ok(data) => mailbox.put(data),
                    Err(error) => {
                        if let Some(releases) = &releases {
                            releases.let_own_go(Duration::ZERO);
                        }
                        return mailbox.close(error.text);
                    }
                }
            }
        })
    }

    /// Refuses calls before the daemon is ready.
    fn check_ready(&self) -> CallResult {
        match *lock(&self.state) {
            State::Ready => Ok(()),
            _ => Err(CallError::new(EINIT, "LMON_be_ready has not been called")),
        }
    }

    /// The processes of the job on this host.
    pub(super) fn targets(&self) -> CallResult<Arc<[Target]>> {
        let none = || CallError::new(EINIT, "LMON_be_handshake has not been called");
        lock(&self.targets).clone().ok_or_else(none)
    }

    /// The master sends data.
    ///
    /// # Safety
    /// The registered function may be called with this pointer.
    pub(super) unsafe fn send(&self, data: *mut c_void) -> CallResult {
        self.check_ready()?;
        if !self.member.is_master() {
            return Ok(());
        }
        if data.is_null() {
            return Err(CallError::argument("the data are NULL"));
        }
        // SAFETY: as for this function.
        let message = Message::Data(unsafe { packing().pack(data) }?).encoded();
        self.member.send(message).wait(timeout()).map_err(talk("sending to the front end"))
    }

    /// The master receives data.
    ///
    /// # Safety
    /// The registered function may be called with this pointer.
    pub(super) unsafe fn recv(&self, data: *mut c_void) -> CallResult {
        self.check_ready()?;
        if !self.member.is_master() {
            return Ok(());
        }
        if data.is_null() {
            return Err(CallError::argument("the place for the data is NULL"));
        }
        // SAFETY: as for this function.
        unsafe { packing().unpack(&self.mailbox.data(timeout())?, data) }
    }

    /// Leaves; what is held is let go.
    pub(super) fn finalize(&self) -> CallResult {
        if let Some(releases) = lock(&self.releases).take() {
            releases.leave();
        }
        let left = membership::leave(Arc::clone(&self.member));
        left.map_err(|error| CallError::new(ESUBCOM, format!("leaving: {error}")))
    }
}
