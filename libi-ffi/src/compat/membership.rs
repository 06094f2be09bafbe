//! This process as a member, of which it is at most one.
//!
//! | state | event | next |
//! |---|---|---|
//! | outside | [`join`] | joining, then in; outside again if that fails |
//! | in | [`leave`] | out |
//! | in, out | the process exits | it waits until no other member needs it |
//!
//! Until it has left its session, the leader of a host forwards for other members. In these
//! interfaces no member waits for others when it leaves. So when the process ends by `exit` or by
//! returning from `main`, it waits until no other member needs it: until those that it forwards
//! for have left as well, or the session is over. Its own last output has been forwarded by then.

use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libi::{InitError, Member, MemberError};

use super::{debug, descriptors, lock};

/// How long leaving waits for the last data to be forwarded, which goes on afterwards.
const DETACH_TIMEOUT: Duration = Duration::from_secs(60);

/// This process as a member.
static MEMBER: Mutex<MemberState> = Mutex::new(MemberState::Outside);

/// The process that has joined. A forked child has a copy of the statics and must not use them.
static JOIN_RECORD: OnceLock<JoinRecord> = OnceLock::new();

struct JoinRecord {
    process: u32,
    /// The file behind the member's descriptor.
    had: Option<(libc::dev_t, libc::ino_t)>,
}

enum MemberState {
    Outside,
    Joining,
    In(Arc<Member>),
    /// It forwards for others as long as the process lives.
    Out(Arc<Member>),
}

/// Why this process is no member.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoMember {
    /// It is a child of one.
    Forked,
    /// It has left.
    Left,
    /// It has not joined, or is joining.
    Outside,
}

impl NoMember {
    /// The text, with the names of the functions that join and leave.
    pub(crate) fn text(self, join: &str, leave: &str) -> String {
        match self {
            Self::Forked => format!("this process is a child of one that has called {join}"),
            Self::Left => format!("{leave} was called before"),
            Self::Outside => format!("{join} has not been called, or has not returned"),
        }
    }
}

/// Why this process has not joined.
#[derive(Debug)]
pub(crate) enum JoinError {
    /// It has joined before, or is joining.
    Again,
    Init(InitError),
}

pub(crate) fn member() -> Result<Arc<Member>, NoMember> {
    match &*lock(&MEMBER) {
        MemberState::In(_) if JOIN_RECORD.get().is_none_or(|joined| joined.process != std::process::id()) => {
            Err(NoMember::Forked)
        }
        MemberState::In(member) => Ok(Arc::clone(member)),
        MemberState::Out(_) => Err(NoMember::Left),
        _ => Err(NoMember::Outside),
    }
}

/// Joins the session that this process was launched for. Returns when all members have joined.
pub(crate) fn join() -> Result<Arc<Member>, JoinError> {
    {
        let mut state = lock(&MEMBER);
        if !matches!(*state, MemberState::Outside) {
            return Err(JoinError::Again);
        }
        *state = MemberState::Joining;
    }
    let joined = descriptors::high(Member::init);
    let mut state = lock(&MEMBER);
    match joined {
        Ok(member) => {
            debug::say(2, || format!("rank {} of {} has joined", member.rank().0, member.size()));
            at_exit(&member);
            let member = Arc::new(member);
            *state = MemberState::In(Arc::clone(&member));
            Ok(member)
        }
        Err(error) => {
            *state = MemberState::Outside;
            Err(JoinError::Init(error))
        }
    }
}

/// Leaves the session without waiting for others.
pub(crate) fn leave(member: Arc<Member>) -> Result<(), MemberError> {
    flush();
    match descriptors::high(|| member.detach(DETACH_TIMEOUT)) {
        // Forwarding goes on in the background.
        Ok(()) | Err(MemberError::TimedOut(_)) => {
            *lock(&MEMBER) = MemberState::Out(member);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Flushes the standard output of C.
fn flush() {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: stdout is valid throughout the process.
    unsafe { libc::fflush(stdout) };
}

/// The file behind the member's descriptor, to detect that the program has closed the descriptor.
fn descriptor_of(member: &Member) -> Option<(libc::dev_t, libc::ino_t)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat fills the struct if it succeeds.
    unsafe {
        let asked = libc::fstat(member.descriptor().as_raw_fd(), found.as_mut_ptr());
        (asked == 0).then(|| found.assume_init()).map(|found| (found.st_dev, found.st_ino))
    }
}

/// Makes exit wait until no other member needs this process.
fn at_exit(member: &Member) {
    extern "C" fn wait() {
        // A forked child is not a member.
        let joined = JOIN_RECORD.get().filter(|joined| joined.process == std::process::id());
        let Some(JoinRecord { had, .. }) = joined else { return };
        flush();
        let member = match MEMBER.try_lock().as_deref() {
            Ok(MemberState::In(member) | MemberState::Out(member)) => Arc::clone(member),
            _ => return,
        };
        if had.is_some() && *had == descriptor_of(&member) {
            let waited = catch_unwind(AssertUnwindSafe(|| member.drain(Duration::MAX)));
            debug::say(2, || format!("the process ends: {waited:?}"));
        }
        // The drop would wait for output again.
        std::mem::forget(member);
    }
    if JOIN_RECORD.set(JoinRecord { process: std::process::id(), had: descriptor_of(member) }).is_ok() {
        // SAFETY: a function without arguments. If it cannot be registered, the exit does not
        // wait.
        unsafe { libc::atexit(wait) };
    }
}
