//! Why something went no further than it did.

use std::ffi::CString;
use std::ptr::null;

use libc::c_char;
use libi::{Cause, Exit, Failure, Phase};
use libi_core::time::Rounded;

use crate::args::{c_string, micros};
use crate::object::{ask, handle};
use crate::result::libi_micros;

/// Why a host, or a member on it, went no further than it did, with the evidence. It belongs to the report or the event that it was
/// asked of, and any number of threads may use it. Since 0.1.
pub struct libi_failure {
    _opaque: (),
}

handle!(libi_failure, "failure", FailureView);

/// A failure, and its texts.
pub struct FailureView {
    failure: Failure,
    text: CString,
    evidence: CString,
    tail: CString,
    shell_error: Option<CString>,
}

impl FailureView {
    pub(crate) fn new(failure: &Failure) -> Self {
        let evidence = failure.evidence();
        let mut text =
            format!("{} while {}, after {}", failure.cause, failure.phase, Rounded(failure.elapsed));
        if !evidence.is_empty() {
            text = format!("{text}: \"{evidence}\"");
        }
        let shell_error = failure.shell_error().map(|shell_error| c_string(&shell_error.to_string()));
        Self {
            text: c_string(&text),
            evidence: c_string(evidence),
            tail: c_string(&failure.tail),
            shell_error,
            failure: failure.clone(),
        }
    }
}

/// How far the launch of a host has come. Since 0.1.
pub type libi_phase = i32;
/// Nobody has started it.
pub const LIBI_PHASE_WAITING: libi_phase = 0;
/// It was started; nothing in our protocol has come from it.
pub const LIBI_PHASE_STARTING: libi_phase = 1;
/// It speaks our protocol, but has not said hello.
pub const LIBI_PHASE_GREETING: libi_phase = 2;
/// Its leader is up, and its further members are joining.
pub const LIBI_PHASE_JOINING: libi_phase = 3;
/// All its members are up.
pub const LIBI_PHASE_JOINED: libi_phase = 4;

/// Why a launch failed. Since 0.1.
pub type libi_cause = i32;
/// It could not even be started.
pub const LIBI_CAUSE_NOT_STARTED: libi_cause = 1;
/// Whoever was to start it has no room for that.
pub const LIBI_CAUSE_NO_ROOM: libi_cause = 2;
/// What was started has ended; libi_failure_exit() says how.
pub const LIBI_CAUSE_EXITED: libi_cause = 3;
/// The link to it was closed from the other side.
pub const LIBI_CAUSE_CLOSED: libi_cause = 4;
/// It did not get further in time.
pub const LIBI_CAUSE_TIMED_OUT: libi_cause = 5;
/// What it said is not our protocol.
pub const LIBI_CAUSE_GARBLED: libi_cause = 6;
/// It speaks no version of the protocol that we do.
pub const LIBI_CAUSE_VERSION: libi_cause = 7;
/// It answered a ticket that was not given to it.
pub const LIBI_CAUSE_WRONG_TICKET: libi_cause = 8;
/// Nothing was heard of it for too long after it was up; or it was not heard of for half that time, and then its link or
/// its remote shell ended.
pub const LIBI_CAUSE_SILENT: libi_cause = 9;
/// It could not reach its parent directly, and was not to use the channel.
pub const LIBI_CAUSE_UNREACHABLE: libi_cause = 10;
/// The one that was to launch it is gone.
pub const LIBI_CAUSE_LAUNCHER_LOST: libi_cause = 11;
/// The launch was ended, for other reasons, before this was decided.
pub const LIBI_CAUSE_ABANDONED: libi_cause = 12;

/// How a process ended. Since 0.1.
pub type libi_exit = i32;
/// It has not ended, as far as is known.
pub const LIBI_EXIT_NONE: libi_exit = 0;
/// By itself, with the status that is the value.
pub const LIBI_EXIT_CODE: libi_exit = 1;
/// By the signal that is the value.
pub const LIBI_EXIT_SIGNAL: libi_exit = 2;
/// The remote shell has ended, with the status that is the value, and the host has not said how the program did.
pub const LIBI_EXIT_SHELL: libi_exit = 3;
/// It has ended, but somebody else has collected how.
pub const LIBI_EXIT_UNKNOWN: libi_exit = 4;

/// How something has ended, and the number that goes with that.
pub(crate) fn exit(exit: Option<Exit>) -> (libi_exit, i32) {
    match exit {
        None => (LIBI_EXIT_NONE, 0),
        Some(Exit::Code(code)) => (LIBI_EXIT_CODE, code),
        Some(Exit::Signal(signal)) => (LIBI_EXIT_SIGNAL, signal),
        Some(Exit::Shell(status)) => (LIBI_EXIT_SHELL, status),
        Some(Exit::Unknown) => (LIBI_EXIT_UNKNOWN, 0),
    }
}

fn cause(cause: &Cause) -> libi_cause {
    match cause {
        Cause::NotStarted(_) => LIBI_CAUSE_NOT_STARTED,
        Cause::OutOfResources(_) => LIBI_CAUSE_NO_ROOM,
        Cause::Exited(_) => LIBI_CAUSE_EXITED,
        Cause::Closed => LIBI_CAUSE_CLOSED,
        Cause::TimedOut => LIBI_CAUSE_TIMED_OUT,
        Cause::Protocol(_) => LIBI_CAUSE_GARBLED,
        Cause::Version(_) => LIBI_CAUSE_VERSION,
        Cause::WrongTicket => LIBI_CAUSE_WRONG_TICKET,
        Cause::HeartbeatLost => LIBI_CAUSE_SILENT,
        Cause::Unreachable => LIBI_CAUSE_UNREACHABLE,
        Cause::LauncherLost(_) => LIBI_CAUSE_LAUNCHER_LOST,
        Cause::Cancelled | Cause::SettleElapsed => LIBI_CAUSE_ABANDONED,
        Cause::MasterFailed(_) | Cause::LaunchFailed(_) => LIBI_CAUSE_ABANDONED,
    }
}

/// All of it in words: why, how far it came, after how long, and the evidence. NULL if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_text(failure: *const libi_failure) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(failure, null(), |told| told.text.as_ptr()) }
}

/// How far it came; -1 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_phase(failure: *const libi_failure) -> libi_phase {
    // SAFETY: as the header asks.
    unsafe {
        ask(failure, -1, |told| match told.failure.phase {
            Phase::Waiting => LIBI_PHASE_WAITING,
            Phase::Starting => LIBI_PHASE_STARTING,
            Phase::Handshaking => LIBI_PHASE_GREETING,
            Phase::Joining => LIBI_PHASE_JOINING,
            Phase::Joined => LIBI_PHASE_JOINED,
        })
    }
}

/// Why it went no further; -1 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_cause(failure: *const libi_failure) -> libi_cause {
    // SAFETY: as the header asks.
    unsafe { ask(failure, -1, |told| cause(&told.failure.cause)) }
}

/// How what was started has ended, if that is known. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_exit(failure: *const libi_failure) -> libi_exit {
    // SAFETY: as the header asks.
    unsafe { ask(failure, LIBI_EXIT_NONE, |told| ended(&told.failure).0) }
}

/// The status or the signal that goes with libi_failure_exit(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_exit_value(failure: *const libi_failure) -> i32 {
    // SAFETY: as the header asks.
    unsafe { ask(failure, 0, |told| ended(&told.failure).1) }
}

fn ended(failure: &Failure) -> (libi_exit, i32) {
    match failure.cause {
        Cause::Exited(ended) => exit(Some(ended)),
        _ => exit(failure.exit),
    }
}

/// What the remote shell, or the command that it was to run, has failed at, in a few words, such as "the name is not known"; NULL if
/// that is not what has failed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_refusal(failure: *const libi_failure) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(failure, null(), |told| told.shell_error.as_ref().map_or(null(), |text| text.as_ptr())) }
}

/// The line that says what has gone wrong; empty if there is none. NULL if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_evidence(failure: *const libi_failure) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(failure, null(), |told| told.evidence.as_ptr()) }
}

/// The end of what it printed; empty if there is nothing. NULL if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_tail(failure: *const libi_failure) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(failure, null(), |told| told.tail.as_ptr()) }
}

/// From its start until it had failed; -1 if it is NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_elapsed(failure: *const libi_failure) -> libi_micros {
    // SAFETY: as the header asks.
    unsafe { ask(failure, -1, |told| micros(told.failure.elapsed)) }
}

/// The rank of the member that it was, where it was not the host's first; -1 otherwise. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_member(failure: *const libi_failure) -> i64 {
    // SAFETY: as the header asks.
    unsafe { ask(failure, -1, |told| told.failure.member.map_or(-1, |rank| i64::from(rank.0))) }
}
