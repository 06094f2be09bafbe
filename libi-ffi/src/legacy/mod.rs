//! The interface of 2011, `include/libi/libi_api.h`: the programs that were written for it compile as they are, and get what [`libi`]
//! promises.
//!
//! That interface names no front end and no member: a process has one of each at most. So what belongs to it is in two statics here,
//! [`front::FRONT`] and [`member::MEMBER`], and in the text of the last failure of each thread. It is the only state of the library that
//! is in no object; who calls none of these functions has none of it.
//!
//! # States
//!
//! ```text
//! front end    none --LIBI_fe_init--> there, until the process ends            before: LIBI_EINIT
//!
//! session      new --LIBI_fe_launch--> launching --all members have joined--> up --LIBI_fe_finalize--> unknown
//!               ^                          |                                   |
//!               '------- LIBI_ELAUNCH -----'                                   '- over: every call is LIBI_EIO
//!
//! member       outside --LIBI_init--> joining --> in --LIBI_finalize--> out     anywhere but in: LIBI_EINIT
//! ```
//!
//! | what | in which state | what comes of it |
//! |---|---|---|
//! | a second `LIBI_fe_init` | there | LIBI_OK: another part of the program wants it too, and nothing changes |
//! | a launch that fails | launching | LIBI_ELAUNCH; nothing is left of any of its sessions, which are new again |
//! | a launch of a session that is not new | launching, up | LIBI_ESESSALREADYLAUNCHED, and nothing is launched |
//! | messages, host lists | new, launching | LIBI_ELAUNCH |
//! | any call with a handle that is none, or not any more | | LIBI_ESESS |
//! | `LIBI_fe_finalize` | up | members that have finalised live on. The others have a second to do so, then they end |
//! | the master is lost, or the session is over | up | LIBI_EIO, also for whoever waits |
//! | the front end's process ends | up | members that have finalised live on, the others end; they too have a second, if it ends by `exit` |
//! | a member is lost | in | LIBI_EIO at all that need it |
//! | a second `LIBI_init`, also after `LIBI_finalize` | in, out | LIBI_EINIT |
//!
//! # How long calls take
//! There are no timeouts in this interface. A launch is over by the deadline of [`libi::LaunchOptions`]. Every other call waits for as
//! long as those it needs are well: a peer that is lost, cut off or frozen, and a front end that ends, end it with LIBI_EIO.
//!
//! # What failed
//! There is no text in this interface either. [`LIBI_last_error`] is an addition, and `LIBI_DEBUG=1` has it said as it happens
//! ([`debug`]).

mod args;
mod debug;
mod descriptors;
mod environment;
mod front;
mod member;
mod output;
mod remote_shell;
mod session;
mod this_machine;

use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{c_char, c_int};

use crate::args::c_string;

/// What functions return: the header's `libi_rc_e`.
pub(crate) type Code = c_int;

const OK: Code = 0;
const YES: Code = 1;
const NO: Code = 2;
const EINIT: Code = 4;
const ELAUNCH: Code = 5;
const ESESS: Code = 6;
const EALREADY: Code = 8;
const EIO: Code = 9;

/// A code, and the same in words.
#[derive(Debug)]
struct CallError {
    code: Code,
    text: String,
}

type CallResult<T = ()> = Result<T, CallError>;

impl CallError {
    fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Nobody can be reached any more, or not all who are needed.
    fn io(what: &str, why: &impl std::fmt::Display) -> Self {
        Self::new(EIO, format!("{what}: {why}"))
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Does what a function is called for. Whatever comes of it is a code; a panic is one as well.
fn answer(name: &str, body: impl FnOnce() -> CallResult<Code>) -> Code {
    let fault = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => return code,
        Ok(Err(fault)) => fault,
        Err(_) => CallError::new(EIO, "a defect of the library has shown"),
    };
    let text = format!("{name}: {}", fault.text);
    debug::say(1, || text.clone());
    // A thread that is about to end has nobody to read it.
    let _ = LAST.try_with(|last| last.replace(c_string(&text)));
    fault.code
}

/// As [`answer`], of what is done or is not.
fn done(name: &str, body: impl FnOnce() -> CallResult) -> Code {
    answer(name, || body().map(|()| OK))
}

/// What a panic has left is whole: it is changed in single steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What failed last in this thread, in words: which function, which host, how far it came, why. Empty if nothing has; it holds until
/// the next failure in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn LIBI_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
