//! What functions return, and what has failed in words.
//!
//! The constants are the header's; their numbers are never used again for anything else.

use std::error::Error;
use std::fmt::Write;

use libi::{CommError, InitError, MemberError};

/// What came of a call: LIBI_OK (0) or another of the codes below.
///
/// Rules that all functions share:
/// - What ..._new() and its kin give is yours, until you give it to ..._free(), once. Freeing NULL does nothing.
/// - What else a function gives as a const pointer belongs to the object that it was asked of, until that is freed or
///   changed. Strings and bytes that you give are copied; they need not outlive the call, unless a function says so.
/// - A NULL where an object or a string is needed is LIBI_ERR_NULL; functions that return something else than a code give 0,
///   NULL or -1 then, as each says.
/// - After a failure, the object's ..._error() has it in words: which host, how far it came, why, and the evidence. LIBI_NOT_YET and
///   LIBI_NONE are none. Each thread has its own text, which holds until that thread's next failure with that object; a thread that
///   begins when another has ended may find what that one was told.
/// - Objects that describe something (libi_hosts, libi_distribution, libi_options) and a libi_pending may be used by one thread at a
///   time; a second one gets LIBI_ERR_BUSY. All others may be used by any number of threads at a time.
/// - No object may be freed while another thread uses it.
/// - No function installs signal handlers, changes signal masks, or keeps anything outside of the objects, but that this process has
///   taken its place as a member. No descriptor that the library opens is inherited by what you start.
/// - SIGPIPE is as you have it, since the library does not raise it. If you ignore SIGCHLD, or wait for children that are not yours, how
///   processes that this one has started have ended is not known: LIBI_EXIT_UNKNOWN.
/// - If the library itself is at fault, a call returns LIBI_ERR_POISONED, and so do all later ones with that object, which can
///   only be freed.
///
/// Since 0.1.
pub type libi_result = i32;

/// Milliseconds: how long to wait at most. Less than 0, as LIBI_FOREVER, sets no limit; 0 does not wait. Since 0.1.
pub type libi_millis = i64;

/// Microseconds, as what was measured is told; -1 is none. Since 0.1.
pub type libi_micros = i64;

/// No limit to the time that a call may take. Since 0.1.
pub const LIBI_FOREVER: libi_millis = -1;

// LIBI_OK is written by cbindgen.toml: the header of 2011 has it as well.
pub(crate) const LIBI_OK: libi_result = 0;

/// It is not over yet, or nothing has happened in the time there was. Not a failure.
pub const LIBI_NOT_YET: libi_result = 1;
/// There is none: no value under this key, no report, no such thing. Not a failure.
pub const LIBI_NONE: libi_result = 2;

/// The caller's fault: a NULL where something is needed.
pub const LIBI_ERR_NULL: libi_result = 10;
/// The caller's fault: the object was freed, or is of another type.
pub const LIBI_ERR_HANDLE: libi_result = 11;
/// The caller's fault: another thread uses the object, or a callback of the object itself.
pub const LIBI_ERR_BUSY: libi_result = 12;
/// The library's fault: this object was in use when a defect showed. It can only be freed.
pub const LIBI_ERR_POISONED: libi_result = 13;
/// The caller's fault: a value that means nothing here, as the text says.
pub const LIBI_ERR_ARGUMENT: libi_result = 14;
/// The caller's fault: the host list cannot be understood; the text has the place.
pub const LIBI_ERR_HOSTS: libi_result = 15;
/// The caller's fault: the distributions describe nothing that could be launched.
pub const LIBI_ERR_LAYOUT: libi_result = 16;
/// The caller's fault: what leads to the hosts can be read by others, and that was not allowed.
pub const LIBI_ERR_PLAIN: libi_result = 17;
/// The caller's fault: not at this point, as the text says: it was done before, or something has to be done first.
pub const LIBI_ERR_STATE: libi_result = 18;
/// The caller's fault: a buffer has not the length of what came.
pub const LIBI_ERR_LENGTH: libi_result = 19;

/// This process was not started by a front end.
pub const LIBI_ERR_STARTED_BY_HAND: libi_result = 30;
/// This process has inherited a member's environment, and not its link.
pub const LIBI_ERR_NO_LINK: libi_result = 31;
/// The session did not come up; the report has a verdict on every host.
pub const LIBI_ERR_NOT_LAUNCHED: libi_result = 32;
/// There was not as much patience as it took. A collective call is then over for all members.
pub const LIBI_ERR_TIMED_OUT: libi_result = 33;
/// The session, or the front end, has ended or is ending.
pub const LIBI_ERR_ENDED: libi_result = 34;
/// The operating system refused something.
pub const LIBI_ERR_SYSTEM: libi_result = 35;
/// There is no memory for it.
pub const LIBI_ERR_NO_MEMORY: libi_result = 36;

/// Members that are needed are lost; the text names them.
pub const LIBI_ERR_PEER_LOST: libi_result = 50;
/// The front end is lost.
pub const LIBI_ERR_FRONT_END_LOST: libi_result = 51;
/// Members have called different things; the text names two. The next collective call is a new chance.
pub const LIBI_ERR_MISMATCH: libi_result = 52;
/// A member has given up this collective call. The next one is a new chance.
pub const LIBI_ERR_CANCELLED: libi_result = 53;
/// The sender has taken its message back.
pub const LIBI_ERR_WITHDRAWN: libi_result = 54;
/// There is no such member.
pub const LIBI_ERR_NO_SUCH_PEER: libi_result = 55;
/// The member did not come up, where the launch allowed that.
pub const LIBI_ERR_ABSENT: libi_result = 56;
/// The caller's fault: what is given for a collective call is not what that takes.
pub const LIBI_ERR_PARTS: libi_result = 57;
/// The caller's fault: the key is too long.
pub const LIBI_ERR_LONG_KEY: libi_result = 58;
/// A peer has sent what makes no sense: another build of the library, or a defect of it.
pub const LIBI_ERR_GARBLED: libi_result = 59;

/// A code, and the same in words.
#[derive(Debug)]
pub(crate) struct CallError {
    pub(crate) code: libi_result,
    pub(crate) text: String,
}

pub(crate) type CallResult<T = ()> = Result<T, CallError>;

impl CallError {
    pub(crate) fn new(code: libi_result, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// A failure with all that has led to it.
    pub(crate) fn of(code: libi_result, error: &dyn Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                // Writing to a string does not fail.
                let _ = write!(text, ": {more}");
            }
            cause = error.source();
        }
        Self { code, text }
    }

    pub(crate) fn null(what: &str) -> Self {
        Self::new(LIBI_ERR_NULL, format!("{what} is NULL"))
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(LIBI_ERR_ARGUMENT, text)
    }
}

impl From<libi::hosts::HostListError> for CallError {
    fn from(error: libi::hosts::HostListError) -> Self {
        Self::of(LIBI_ERR_HOSTS, &error)
    }
}

impl From<libi::Error> for CallError {
    fn from(error: libi::Error) -> Self {
        use libi::Error as E;
        let code = match &error {
            E::Layout(_) => LIBI_ERR_LAYOUT,
            E::NotLaunched(_) => LIBI_ERR_NOT_LAUNCHED,
            E::TimedOut(_) => LIBI_ERR_TIMED_OUT,
            E::Plain(_) => LIBI_ERR_PLAIN,
            E::NoSignal(_) => LIBI_ERR_ARGUMENT,
            E::NoInput => LIBI_ERR_STATE,
            E::Closed => LIBI_ERR_ENDED,
            // What may come in another version is the system's as far as a program can tell.
            _ => LIBI_ERR_SYSTEM,
        };
        Self::of(code, &error)
    }
}

impl From<InitError> for CallError {
    fn from(error: InitError) -> Self {
        let code = match &error {
            InitError::StartedByHand => LIBI_ERR_STARTED_BY_HAND,
            InitError::NoLink { .. } => LIBI_ERR_NO_LINK,
            InitError::Twice => LIBI_ERR_STATE,
            InitError::Ended => LIBI_ERR_ENDED,
            _ => LIBI_ERR_SYSTEM,
        };
        Self::of(code, &error)
    }
}

impl From<MemberError> for CallError {
    fn from(error: MemberError) -> Self {
        let code = match &error {
            MemberError::TimedOut(_) => LIBI_ERR_TIMED_OUT,
            MemberError::Ending => LIBI_ERR_ENDED,
            _ => LIBI_ERR_SYSTEM,
        };
        Self::of(code, &error)
    }
}

impl From<CommError> for CallError {
    fn from(error: CommError) -> Self {
        use CommError as E;
        let code = match &error {
            E::PeerLost { .. } => LIBI_ERR_PEER_LOST,
            E::FrontEndLost => LIBI_ERR_FRONT_END_LOST,
            E::Mismatch { .. } => LIBI_ERR_MISMATCH,
            E::Cancelled { .. } => LIBI_ERR_CANCELLED,
            E::Withdrawn { .. } => LIBI_ERR_WITHDRAWN,
            E::TimedOut { .. } => LIBI_ERR_TIMED_OUT,
            E::Ended => LIBI_ERR_ENDED,
            E::NoSuchPeer(_) => LIBI_ERR_NO_SUCH_PEER,
            E::Absent(_) => LIBI_ERR_ABSENT,
            E::NotAMember | E::NotMaster(_) => LIBI_ERR_STATE,
            E::WrongPartCount { .. }
            | E::UnequalLengths { .. }
            | E::MissingRootData
            | E::NotAnArray { .. } => LIBI_ERR_PARTS,
            E::NotReducible { .. } => LIBI_ERR_ARGUMENT,
            E::KeyTooLong { .. } => LIBI_ERR_LONG_KEY,
            E::OutOfMemory(_) => LIBI_ERR_NO_MEMORY,
            _ => LIBI_ERR_GARBLED,
        };
        Self::of(code, &error)
    }
}

/// What a code means, in a few words; NULL for a number that is none. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_result_text(result: libi_result) -> *const libc::c_char {
    let text = match result {
        LIBI_OK => c"it is done",
        LIBI_NOT_YET => c"it is not over yet",
        LIBI_NONE => c"there is none",
        LIBI_ERR_NULL => c"a NULL was given where something is needed",
        LIBI_ERR_HANDLE => c"the object was freed, or is of another type",
        LIBI_ERR_BUSY => c"the object is in use by another thread or by a callback of its own",
        LIBI_ERR_POISONED => c"a defect of the library has shown while this object was in use",
        LIBI_ERR_ARGUMENT => c"a value was given that means nothing here",
        LIBI_ERR_HOSTS => c"the host list cannot be understood",
        LIBI_ERR_LAYOUT => c"the distributions describe nothing to launch",
        LIBI_ERR_PLAIN => c"the channel can be read by others, and that was not allowed",
        LIBI_ERR_STATE => c"it cannot be done at this point",
        LIBI_ERR_LENGTH => c"the buffer has not the length of what came",
        LIBI_ERR_STARTED_BY_HAND => c"this process was not started by a front end",
        LIBI_ERR_NO_LINK => c"this process has a member's environment, and not its link",
        LIBI_ERR_NOT_LAUNCHED => c"the session did not come up",
        LIBI_ERR_TIMED_OUT => c"it took longer than there was patience",
        LIBI_ERR_ENDED => c"the session has ended",
        LIBI_ERR_SYSTEM => c"the operating system has refused something",
        LIBI_ERR_NO_MEMORY => c"there is no memory for it",
        LIBI_ERR_PEER_LOST => c"members that are needed are lost",
        LIBI_ERR_FRONT_END_LOST => c"the front end is lost",
        LIBI_ERR_MISMATCH => c"members have called different things",
        LIBI_ERR_CANCELLED => c"a member has given up this call",
        LIBI_ERR_WITHDRAWN => c"the sender has taken its message back",
        LIBI_ERR_NO_SUCH_PEER => c"there is no such member",
        LIBI_ERR_ABSENT => c"the member did not come up",
        LIBI_ERR_PARTS => c"what was given is not what the call takes",
        LIBI_ERR_LONG_KEY => c"the key is too long",
        LIBI_ERR_GARBLED => c"a peer has sent what makes no sense",
        _ => return std::ptr::null(),
    };
    text.as_ptr()
}
