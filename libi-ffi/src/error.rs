//! Failures: a code with its text, and each thread's last one.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::CString;
use std::fmt::Write;

use libc::c_char;
use libi::{CommError, InitError, MemberError};

use crate::result::libi_result::{self, *};
use crate::text::c_string;

/// A code and its text. [`LIBI_NOT_YET`] and [`LIBI_NONE`] travel as one too, but are not
/// failures.
#[derive(Clone, Debug)]
pub(crate) struct CallError {
    pub(crate) code: libi_result,
    pub(crate) text: String,
}

pub(crate) type CallResult<T = ()> = Result<T, CallError>;

impl CallError {
    pub(crate) fn new(code: libi_result, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// With the texts of all causes, but none twice.
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

    pub(crate) fn is_failure(&self) -> bool {
        !matches!(self.code, LIBI_RESULT_OK | LIBI_NOT_YET | LIBI_NONE)
    }
}

thread_local! {
    /// Only its owner thread has it: what libi_last_error() returns cannot change meanwhile.
    static LAST: RefCell<CString> = RefCell::default();
}

/// The code of a result. A failure becomes the thread's last error.
pub(crate) fn code(result: CallResult) -> libi_result {
    let Err(error) = result else { return LIBI_RESULT_OK };
    if error.is_failure() {
        // A thread that runs its destructors has no last error any more.
        let _ = LAST.try_with(|last| last.replace(c_string(&error.text)));
    }
    error.code
}

/// The text of the calling thread's last failure: what has failed, on which host, why, and what
/// to do. Empty if no call has failed.
///
/// Any thread, at any time; call it after a function has returned a failure. The text belongs to
/// the library and is valid until the next failure in this thread. Calls that succeed, and
/// LIBI_NOT_YET and LIBI_NONE, leave it as it is. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// As C reads it.
#[cfg(test)]
pub(crate) fn last_error() -> String {
    LAST.with(|last| last.borrow().to_str().unwrap().to_owned())
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
            E::Distribution(_) => LIBI_ERR_ARGUMENT,
            E::Layout(_) => LIBI_ERR_LAYOUT,
            E::NotLaunched(_) => LIBI_ERR_NOT_LAUNCHED,
            E::TimedOut(_) => LIBI_ERR_TIMED_OUT,
            E::Plain(_) => LIBI_ERR_PLAIN,
            E::NoSignal(_) => LIBI_ERR_ARGUMENT,
            E::NoInput | E::NoAgents | E::NotUp => LIBI_ERR_STATE,
            E::NotRestarted { .. } => LIBI_ERR_NOT_RESTARTED,
            E::NotGrown { .. } => LIBI_ERR_NOT_GROWN,
            E::NotAttached { .. } => LIBI_ERR_NOT_ATTACHED,
            E::OneDetached => LIBI_ERR_ARGUMENT,
            E::NoKeeper => LIBI_ERR_STATE,
            E::NotInSession(_) | E::OnLossFixed(_) => LIBI_ERR_ARGUMENT,
            E::Closed | E::NoHostLeft => LIBI_ERR_ENDED,
            // What later versions add.
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
            E::Cancelled { .. } | E::Failed { .. } => LIBI_ERR_CANCELLED,
            E::Withdrawn { .. } => LIBI_ERR_WITHDRAWN,
            E::TimedOut { .. } => LIBI_ERR_TIMED_OUT,
            E::Ended => LIBI_ERR_ENDED,
            E::NoSuchPeer(_) => LIBI_ERR_NO_SUCH_PEER,
            E::Absent(_) => LIBI_ERR_ABSENT,
            E::NotAMember => LIBI_ERR_STATE,
            E::NotMaster(_) => LIBI_ERR_NOT_MASTER,
            E::WrongPartCount { .. }
            | E::UnequalLengths { .. }
            | E::MissingRootData
            | E::NotAnArray { .. } => LIBI_ERR_PARTS,
            E::NotReducible { .. } => LIBI_ERR_ARGUMENT,
            E::KeyTooLong { .. } => LIBI_ERR_LONG_KEY,
            E::OutOfMemory(_) => LIBI_ERR_NO_MEMORY,
            _ => LIBI_ERR_PROTOCOL,
        };
        Self::of(code, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_the_text_of_its_own_last_failure() {
        assert_eq!(code(Err(CallError::argument("mine\0"))), LIBI_ERR_ARGUMENT);
        let other = std::thread::spawn(|| {
            let before = last_error();
            code(Err(CallError::argument("another")));
            (before, last_error())
        });
        assert_eq!(other.join().unwrap(), (String::new(), "another".to_owned()));
        assert_eq!(code(Err(CallError::new(LIBI_NONE, "nothing"))), LIBI_NONE);
        assert_eq!(last_error(), "mine\u{fffd}");
    }
}
