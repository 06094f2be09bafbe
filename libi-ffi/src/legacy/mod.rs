//! The interface of 2011, `include/libi/libi_api.h`: programs written for it compile unchanged,
//! and have the guarantees of [`libi`].
//!
//! Its functions take no front end and no member: a process has at most one of each. They are in
//! two statics, [`front::FRONT`] and that of [`membership`](crate::compat::membership); each thread
//! has the text of its last failure. This is the only state of the library outside of objects, and
//! a program that does not call these functions does not have it.
//!
//! # States
//!
//! ```text
//! front end none --LIBI_fe_init--> there, until the process ends
//!
//! session   new --LIBI_fe_launch--> launching --all joined--> up --LIBI_fe_finalize--> unknown
//!            ^                          |                     |
//!            '------- LIBI_ELAUNCH -----'                     '- over: every call is LIBI_EIO
//!
//! member    outside --LIBI_init--> joining --> in --LIBI_finalize--> out
//! ```
//!
//! Calls of the front end before `LIBI_fe_init`, and calls of a member in any state but "in",
//! return LIBI_EINIT. The other rules, with the states in which they apply:
//!
//! - A second `LIBI_fe_init` (there) returns LIBI_OK and changes nothing: another part of the
//!   program may want it too.
//! - A launch that fails (launching) returns LIBI_ELAUNCH. All its sessions are ended, and new
//!   again.
//! - A launch of a session that is not new (launching, up) returns LIBI_ESESSALREADYLAUNCHED, and
//!   nothing is launched.
//! - Messages and host lists (new, launching) return LIBI_ELAUNCH.
//! - Any call with an invalid handle returns LIBI_ESESS.
//! - `LIBI_fe_finalize` (up): members that have finalized live on. The others have one second to
//!   finalize, then they end.
//! - If the master is lost or the session is over (up), calls return LIBI_EIO, also those that are
//!   waiting.
//! - When the process of the front end ends (up), members that have finalized live on, and the
//!   others end. After `exit` they have one second to finalize too.
//! - If a member is lost (in), all members that need it get LIBI_EIO.
//! - A second `LIBI_init`, also after `LIBI_finalize` (in, out), returns LIBI_EINIT.
//!
//! # Timeouts
//! This interface has none. A launch is over by the deadline of [`libi::LaunchOptions`]. Every
//! other call waits as long as the processes that it needs are alive: a lost, disconnected or
//! frozen peer, and a front end that ends, end it with LIBI_EIO.
//!
//! # Failures
//! This interface has no texts either. [`LIBI_last_error`] is an addition, and `LIBI_DEBUG=1`
//! prints failures as they happen ([`debug`]).

mod args;
mod front;
mod member;
mod session;

use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_char;

use crate::compat::{CallError, CallResult, Code, Fault, debug, lock};
use crate::text::c_string;

const OK: Code = 0;
const YES: Code = 1;
const NO: Code = 2;
const EINIT: Code = 4;
const ELAUNCH: Code = 5;
const ESESS: Code = 6;
const EALREADY: Code = 8;
const EIO: Code = 9;

impl CallError {
    /// A peer that is needed cannot be reached.
    fn io(what: &str, why: &impl std::fmt::Display) -> Self {
        Self::new(EIO, format!("{what}: {why}"))
    }
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Argument(text) => Self::new(EIO, text),
            Fault::Talk(what, error) => Self::io(what, &error),
        }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a function of the interface. Failures and panics become codes.
fn answer(name: &str, body: impl FnOnce() -> CallResult<Code>) -> Code {
    let fault = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => return code,
        Ok(Err(fault)) => fault,
        Err(_) => CallError::new(EIO, "libi has panicked"),
    };
    let text = format!("{name}: {}", fault.text);
    debug::say(1, || text.clone());
    // A thread that runs its destructors has no last error any more.
    let _ = LAST.try_with(|last| last.replace(c_string(&text)));
    fault.code
}

/// As [`answer`], for a function that returns LIBI_OK or a failure.
fn done(name: &str, body: impl FnOnce() -> CallResult) -> Code {
    answer(name, || body().map(|()| OK))
}

/// The text of this thread's last failure: the function, the host, the phase, the cause. Empty if
/// no call has failed; valid until the next failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn LIBI_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
