//! What the interfaces for programs that were written for other libraries have in common:
//! [`legacy`](crate::legacy) and [`launchmon`](crate::launchmon).
//!
//! | module | purpose |
//! |---|---|
//! | [`environment`], [`remote_shell`], [`this_machine`] | by which back-end a front end launches |
//! | [`output`] | output of members, forwarded by a thread of the front end |
//! | [`membership`] | this process as a member, from joining to the end of the process |
//! | [`collectives`] | collective calls on the caller's memory, with equal lengths |
//! | [`args`], [`descriptors`], [`debug`] | strings and bytes of C, descriptors, debugging messages |

pub(crate) mod args;
pub(crate) mod collectives;
pub(crate) mod debug;
pub(crate) mod descriptors;
pub(crate) mod environment;
pub(crate) mod membership;
pub(crate) mod output;
pub(crate) mod remote_shell;
pub(crate) mod this_machine;

use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;
use libi::CommError;

/// The code that a function returns, of the header's enum.
pub(crate) type Code = c_int;

/// A code and its text.
#[derive(Debug)]
pub(crate) struct CallError {
    pub(crate) code: Code,
    pub(crate) text: String,
}

pub(crate) type CallResult<T = ()> = Result<T, CallError>;

impl CallError {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// Why a call with arguments of C, or with other processes, has failed. Each interface has its
/// codes for that.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The caller's argument is at fault, or does not match those of other members.
    Argument(String),
    /// The operation with other processes.
    Talk(&'static str, CommError),
}

/// The state is consistent after a panic: every change of it is a single step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
