//! Why a host or a member has failed.

use std::ffi::CString;
use std::ptr::null;

use libc::c_char;
use libi::{Cause, Exit, Failure, Phase};

use crate::args::micros;
use crate::object::{handle, query};
use crate::result::{libi_micros, libi_result};
use crate::text::c_string;

/// Why a host, or a member on it, has failed, with the evidence. It belongs to the report or the
/// event that it was read from, and any number of threads may use it. Since 0.1.
pub struct libi_failure {
    _opaque: (),
}

handle!(libi_failure, "failure", FailureView);

/// A failure, and its texts as C reads them.
pub struct FailureView {
    failure: Failure,
    text: CString,
    evidence: CString,
    tail: CString,
    shell_error: Option<CString>,
}

impl FailureView {
    /// `text` is all of it as one line.
    pub(crate) fn new(failure: &Failure, text: &str) -> Self {
        let evidence = failure.evidence();
        Self {
            text: c_string(text),
            evidence: c_string(evidence),
            tail: c_string(&failure.tail),
            shell_error: failure.shell_error().map(|error| c_string(&error.to_string())),
            failure: failure.clone(),
        }
    }
}

/// The phases of the launch of a host. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_phase {
    /// Its launch has not begun.
    LIBI_PHASE_WAITING = 0,
    /// It was started, and nothing in the protocol has come from it.
    LIBI_PHASE_STARTING = 1,
    /// It speaks the protocol, but has not said hello.
    LIBI_PHASE_HANDSHAKING = 2,
    /// Its leader is up, and its further members are joining.
    LIBI_PHASE_JOINING = 3,
    /// All its members are up.
    LIBI_PHASE_JOINED = 4,
}

/// Causes of failures. Later versions may have more. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_cause {
    /// The process could not be started.
    LIBI_CAUSE_NOT_STARTED = 1,
    /// The host that was to start it is out of descriptors, processes or memory.
    LIBI_CAUSE_OUT_OF_RESOURCES = 2,
    /// The process has ended: see exit.
    LIBI_CAUSE_EXITED = 3,
    /// The peer has closed the link.
    LIBI_CAUSE_CLOSED = 4,
    /// It timed out in this phase.
    LIBI_CAUSE_TIMED_OUT = 5,
    /// It has violated the protocol.
    LIBI_CAUSE_PROTOCOL = 6,
    /// It speaks no common version of the protocol.
    LIBI_CAUSE_VERSION = 7,
    /// It has presented a ticket that was not issued to it.
    LIBI_CAUSE_WRONG_TICKET = 8,
    /// Heartbeats have stopped for LIBI_RULE_PEER_TIMEOUT after it was up; or for half that time,
    /// and then its link or its remote shell ended; or it said that it had heard nothing for that
    /// timeout.
    LIBI_CAUSE_HEARTBEAT_LOST = 9,
    /// It could not reach its parent directly, and the options do not allow the channel.
    LIBI_CAUSE_UNREACHABLE = 10,
    /// The host that was to launch it is lost.
    LIBI_CAUSE_LAUNCHER_LOST = 11,
    /// The launch was cancelled for other reasons.
    LIBI_CAUSE_CANCELLED = 12,
    /// Enough hosts had joined, and it did not join within the settle time.
    LIBI_CAUSE_SETTLE_ELAPSED = 13,
    /// The host of the master had failed, so the launch was given up.
    LIBI_CAUSE_MASTER_FAILED = 14,
    /// Too many other hosts had failed, so the launch was given up.
    LIBI_CAUSE_LAUNCH_FAILED = 15,
    /// The process that was to start many hosts ended before this host had arrived.
    LIBI_CAUSE_STARTER_EXITED = 16,
    /// Its start did not get resources in time, as from a full cluster.
    LIBI_CAUSE_NOT_SCHEDULED = 17,
    /// The staged files could not be written there, were not those that were sent, or did not arrive
    /// in time.
    LIBI_CAUSE_NOT_STAGED = 18,
}

/// How a process has ended. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_exit {
    /// It has not ended, as far as is known.
    LIBI_EXIT_NONE = 0,
    /// It has exited; the value is its status.
    LIBI_EXIT_CODE = 1,
    /// A signal has killed it; the value is the signal.
    LIBI_EXIT_SIGNAL = 2,
    /// The remote shell has exited, with the value as status, and the exit of the program is not
    /// known.
    LIBI_EXIT_SHELL = 3,
    /// It has ended, but its exit status was collected by another part of the process.
    LIBI_EXIT_UNKNOWN = 4,
}

/// The content of a failure. Strings belong to the failure. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_failure_info {
    /// All of it as one line: cause, exit status, elapsed time, evidence.
    pub text: *const c_char,
    /// How far it has come.
    pub phase: libi_phase,
    /// Why it has not come further.
    pub cause: libi_cause,
    /// How its process has ended, if that is known.
    pub exit: libi_exit,
    /// The status or signal for exit.
    pub exit_value: i32,
    /// The error of the remote shell or of the command that it was to run, in a few words, such
    /// as "unknown host name"; NULL if the error is another.
    pub shell_error: *const c_char,
    /// The line of its output that says what went wrong; empty if there is none.
    pub evidence: *const c_char,
    /// The end of its output; may be empty.
    pub tail: *const c_char,
    /// The time from its start to the failure.
    pub elapsed: libi_micros,
    /// The rank of the member that has failed, if it is not the leader of the host; otherwise -1.
    pub member: i64,
}

/// How a process has ended, and the number that belongs to it.
pub(crate) fn exit(exit: Option<Exit>) -> (libi_exit, i32) {
    match exit {
        None => (libi_exit::LIBI_EXIT_NONE, 0),
        Some(Exit::Code(code)) => (libi_exit::LIBI_EXIT_CODE, code),
        Some(Exit::Signal(signal)) => (libi_exit::LIBI_EXIT_SIGNAL, signal),
        Some(Exit::Shell(status)) => (libi_exit::LIBI_EXIT_SHELL, status),
        Some(Exit::Unknown) => (libi_exit::LIBI_EXIT_UNKNOWN, 0),
    }
}

fn cause(cause: &Cause) -> libi_cause {
    match cause {
        Cause::NotStarted(_) => libi_cause::LIBI_CAUSE_NOT_STARTED,
        Cause::OutOfResources(_) => libi_cause::LIBI_CAUSE_OUT_OF_RESOURCES,
        Cause::Exited(_) => libi_cause::LIBI_CAUSE_EXITED,
        Cause::Closed => libi_cause::LIBI_CAUSE_CLOSED,
        Cause::TimedOut => libi_cause::LIBI_CAUSE_TIMED_OUT,
        Cause::Protocol(_) => libi_cause::LIBI_CAUSE_PROTOCOL,
        Cause::Version(_) => libi_cause::LIBI_CAUSE_VERSION,
        Cause::WrongTicket => libi_cause::LIBI_CAUSE_WRONG_TICKET,
        Cause::HeartbeatLost => libi_cause::LIBI_CAUSE_HEARTBEAT_LOST,
        Cause::Unreachable => libi_cause::LIBI_CAUSE_UNREACHABLE,
        Cause::LauncherLost(_) => libi_cause::LIBI_CAUSE_LAUNCHER_LOST,
        Cause::Cancelled => libi_cause::LIBI_CAUSE_CANCELLED,
        Cause::SettleElapsed => libi_cause::LIBI_CAUSE_SETTLE_ELAPSED,
        Cause::MasterFailed(_) => libi_cause::LIBI_CAUSE_MASTER_FAILED,
        Cause::LaunchFailed(_) => libi_cause::LIBI_CAUSE_LAUNCH_FAILED,
        Cause::NotStaged(_) => libi_cause::LIBI_CAUSE_NOT_STAGED,
        Cause::NotScheduled => libi_cause::LIBI_CAUSE_NOT_SCHEDULED,
        Cause::StarterExited(_) => libi_cause::LIBI_CAUSE_STARTER_EXITED,
    }
}

/// Fills *info with the content of the failure. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_failure_query(
    failure: *const libi_failure,
    info: *mut libi_failure_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(failure, info, size, |view| {
            let failure = &view.failure;
            let (exit, exit_value) = match failure.cause {
                Cause::Exited(ended) => exit(Some(ended)),
                _ => exit(failure.exit),
            };
            Ok(libi_failure_info {
                text: view.text.as_ptr(),
                phase: match failure.phase {
                    Phase::Waiting => libi_phase::LIBI_PHASE_WAITING,
                    Phase::Starting => libi_phase::LIBI_PHASE_STARTING,
                    Phase::Handshaking => libi_phase::LIBI_PHASE_HANDSHAKING,
                    Phase::Joining => libi_phase::LIBI_PHASE_JOINING,
                    Phase::Joined => libi_phase::LIBI_PHASE_JOINED,
                },
                cause: cause(&failure.cause),
                exit,
                exit_value,
                shell_error: view.shell_error.as_ref().map_or(null(), |text| text.as_ptr()),
                evidence: view.evidence.as_ptr(),
                tail: view.tail.as_ptr(),
                elapsed: micros(failure.elapsed),
                member: failure.member.map_or(-1, |rank| i64::from(rank.0)),
            })
        })
    }
}
