//! Events of a front end.

use std::ffi::CString;
use std::ptr::null;
use std::sync::OnceLock;

use libc::{c_char, c_void};
use libi::{Event, ProcessOutcome, Rank, Stream};
use libi_core::ranks::Ranks;
use libi_core::time::Rounded;

use crate::args;
use crate::failure::{FailureView, exit, libi_exit, libi_failure};
use crate::object::{self, OwnedPart, give, handle, query};
use crate::result::libi_result;
use crate::text::c_string;

/// Something that has happened in a session. It does not change, and any number of threads may
/// use it. Since 0.1.
pub struct libi_event {
    _opaque: (),
}

handle!(libi_event, "event", EventView);

/// An event, and its parts as C reads them.
pub struct EventView {
    event: Event,
    host_name: Option<CString>,
    failure: Option<OwnedPart<libi_failure>>,
    text: OnceLock<CString>,
}

pub(crate) fn give_event(event: Event) -> *mut libi_event {
    let (host_name, failure) = match &event {
        Event::Lost { name, failure, reason, .. } => {
            let text = match failure.evidence() {
                "" => format!("{reason}, after {}", Rounded(failure.elapsed)),
                evidence => format!("{reason}, after {}: \"{evidence}\"", Rounded(failure.elapsed)),
            };
            (Some(c_string(name)), Some(OwnedPart::new(FailureView::new(failure, &text))))
        }
        Event::Exited { host_name, .. }
        | Event::Restarted { host_name, .. }
        | Event::NotRestarted { host_name, .. }
        | Event::MasterReplaced { host_name, .. }
        | Event::CommandOutput { host_name, .. }
        | Event::CommandEnded { host_name, .. } => (Some(c_string(host_name)), None),
        _ => (None, None),
    };
    give(EventView { event, host_name, failure, text: OnceLock::new() })
}

/// The kinds of events. Later versions may have more: ignore what is unknown. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_event_kind {
    /// An event that this version has no kind for.
    LIBI_EVENT_OTHER = 0,
    /// The session is up, and its report is available.
    LIBI_EVENT_UP = 1,
    /// The session did not come up; its report says why. What is left of it is being ended.
    LIBI_EVENT_GIVEN_UP = 2,
    /// A member has printed something: whole lines, unless they are long or slow to end.
    LIBI_EVENT_OUTPUT = 3,
    /// A member has ended.
    LIBI_EVENT_EXITED = 4,
    /// A member has detached and lives on without the session.
    LIBI_EVENT_DETACHED = 5,
    /// A host was lost after the session was up, with every member on it that had not detached.
    LIBI_EVENT_LOST = 6,
    /// Every member has ended, has detached, or is lost. It comes after all output.
    LIBI_EVENT_DONE = 7,
    /// Output could not be written to a file: see text. Only the first failure of a session comes.
    LIBI_EVENT_OUTPUT_FAILED = 8,
    /// The launch waits for resources, as a resource manager says: see text. That time does not
    /// count towards the deadline of the launch.
    LIBI_EVENT_WAITING = 9,
    /// A resource manager ends the processes of a session that is up, because its job or its step was
    /// cancelled or has no time left: see text. The ends of members are reported as always.
    LIBI_EVENT_REVOKED = 10,
    /// Members have printed something, each the same: see libi_event_ranks(). It comes instead of
    /// LIBI_EVENT_OUTPUT after libi_options_set_folded_output().
    LIBI_EVENT_FOLDED = 11,
    /// A process of a command has printed something.
    LIBI_EVENT_COMMAND_OUTPUT = 12,
    /// A process of a command has ended, or its host is lost. All of its output came before, unless
    /// its host is lost or it is late.
    LIBI_EVENT_COMMAND_ENDED = 13,
    /// All processes of a command have ended: its last event.
    LIBI_EVENT_COMMAND_DONE = 14,
    /// Staged files are on their way to the hosts: see text.
    LIBI_EVENT_STAGING = 15,
    /// A new process has taken the place of a lost member, after libi_session_restart() or
    /// libi_options_set_restarts(). Its end is reported as that of the first process was.
    LIBI_EVENT_RESTARTED = 16,
    /// A lost member was not restarted: see text.
    LIBI_EVENT_NOT_RESTARTED = 17,
    /// Further hosts are in the session, after libi_session_add(): see libi_event_ranks().
    LIBI_EVENT_GROWN = 18,
    /// No further hosts are in the session: see text.
    LIBI_EVENT_NOT_GROWN = 19,
    /// Another member is the master, in place of a lost one, after libi_options_set_replace_master():
    /// messages of the front end go to it from now on.
    LIBI_EVENT_MASTER_REPLACED = 20,
}

/// How a process of a command has ended. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_outcome {
    /// The event is another.
    LIBI_OUTCOME_NONE = 0,
    /// It has exited: see exit.
    LIBI_OUTCOME_EXITED = 1,
    /// It could not be started: see text.
    LIBI_OUTCOME_NOT_STARTED = 2,
    /// Its host was lost, or the session has ended: see text.
    LIBI_OUTCOME_LOST = 3,
    /// It had not ended when the time of the command was over, and was killed.
    LIBI_OUTCOME_TIMED_OUT = 4,
}

/// The content of an event. Strings, bytes and the failure belong to the event. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_event_info {
    /// What has happened.
    pub kind: libi_event_kind,
    /// The number of the session.
    pub session: u32,
    /// The rank that has printed, ended or detached, or was or was not restarted; -1 for other
    /// events, also of commands.
    pub rank: i64,
    /// The stream of output: 1 for standard output, 2 for standard error; 0 for other events.
    pub stream: i32,
    /// How a member or a process of a command has ended; LIBI_EXIT_NONE for other events.
    pub exit: libi_exit,
    /// The status or signal for exit.
    pub exit_value: i32,
    /// The output, without a NUL at its end; NULL for other events.
    pub bytes: *const c_void,
    /// The length of the output.
    pub length: usize,
    /// The number of the host that was lost, or of a command's process; -1 for other events.
    pub host: i64,
    /// The name of the host that was lost, or of the member that has ended, or was or was not
    /// restarted, or of a command's process; NULL for other events.
    pub host_name: *const c_char,
    /// Why the host was lost; NULL for other events.
    pub failure: *const libi_failure,
    /// The event as one line for people.
    pub text: *const c_char,
    /// The number of the command; 0 for other events.
    pub command: u64,
    /// The number of the process among those of the command on its host; 0 for other events.
    pub process: u32,
    /// How a process of a command has ended.
    pub outcome: libi_outcome,
}

impl EventView {
    fn info(&self) -> libi_event_info {
        let mut info = libi_event_info {
            kind: libi_event_kind::LIBI_EVENT_OTHER,
            session: self.event.session().0,
            rank: -1,
            stream: 0,
            exit: libi_exit::LIBI_EXIT_NONE,
            exit_value: 0,
            bytes: null(),
            length: 0,
            host: -1,
            host_name: self.host_name.as_ref().map_or(null(), |name| name.as_ptr()),
            failure: self.failure.as_ref().map_or(null(), OwnedPart::as_ptr),
            text: self.text.get_or_init(|| c_string(&self.event.to_string())).as_ptr(),
            command: 0,
            process: 0,
            outcome: libi_outcome::LIBI_OUTCOME_NONE,
        };
        info.kind = match &self.event {
            Event::Up { .. } => libi_event_kind::LIBI_EVENT_UP,
            Event::GivenUp { .. } => libi_event_kind::LIBI_EVENT_GIVEN_UP,
            Event::Output { rank: Rank(rank), stream, bytes, .. } => {
                info.rank = i64::from(*rank);
                info.stream = if *stream == Stream::Out { 1 } else { 2 };
                (info.bytes, info.length) = (bytes.as_ptr().cast(), bytes.len());
                libi_event_kind::LIBI_EVENT_OUTPUT
            }
            Event::Folded { stream, bytes, .. } => {
                info.stream = if *stream == Stream::Out { 1 } else { 2 };
                (info.bytes, info.length) = (bytes.as_ptr().cast(), bytes.len());
                libi_event_kind::LIBI_EVENT_FOLDED
            }
            Event::Exited { rank: Rank(rank), exit: how, .. } => {
                info.rank = i64::from(*rank);
                (info.exit, info.exit_value) = exit(Some(*how));
                libi_event_kind::LIBI_EVENT_EXITED
            }
            Event::Detached { rank: Rank(rank), .. } => {
                info.rank = i64::from(*rank);
                libi_event_kind::LIBI_EVENT_DETACHED
            }
            Event::Restarted { rank: Rank(rank), .. } => {
                info.rank = i64::from(*rank);
                libi_event_kind::LIBI_EVENT_RESTARTED
            }
            Event::NotRestarted { rank: Rank(rank), .. } => {
                info.rank = i64::from(*rank);
                libi_event_kind::LIBI_EVENT_NOT_RESTARTED
            }
            Event::MasterReplaced { rank: Rank(rank), .. } => {
                info.rank = i64::from(*rank);
                libi_event_kind::LIBI_EVENT_MASTER_REPLACED
            }
            Event::Grown { .. } => libi_event_kind::LIBI_EVENT_GROWN,
            Event::NotGrown { .. } => libi_event_kind::LIBI_EVENT_NOT_GROWN,
            Event::Lost { host, .. } => {
                info.host = i64::from(host.0);
                libi_event_kind::LIBI_EVENT_LOST
            }
            Event::CommandOutput { command, host, index, stream, bytes, .. } => {
                (info.command, info.process, info.host) = (command.0, *index, i64::from(host.0));
                info.stream = if *stream == Stream::Out { 1 } else { 2 };
                (info.bytes, info.length) = (bytes.as_ptr().cast(), bytes.len());
                libi_event_kind::LIBI_EVENT_COMMAND_OUTPUT
            }
            Event::CommandEnded { command, host, index, outcome, .. } => {
                (info.command, info.process, info.host) = (command.0, *index, i64::from(host.0));
                info.outcome = outcome_of(outcome);
                if let ProcessOutcome::Exited(how) = outcome {
                    (info.exit, info.exit_value) = exit(Some(*how));
                }
                libi_event_kind::LIBI_EVENT_COMMAND_ENDED
            }
            Event::CommandDone { command, .. } => {
                info.command = command.0;
                libi_event_kind::LIBI_EVENT_COMMAND_DONE
            }
            Event::Done { .. } => libi_event_kind::LIBI_EVENT_DONE,
            Event::OutputFailed { .. } => libi_event_kind::LIBI_EVENT_OUTPUT_FAILED,
            Event::Waiting { .. } => libi_event_kind::LIBI_EVENT_WAITING,
            Event::Revoked { .. } => libi_event_kind::LIBI_EVENT_REVOKED,
            Event::Staging { .. } => libi_event_kind::LIBI_EVENT_STAGING,
            _ => libi_event_kind::LIBI_EVENT_OTHER,
        };
        info
    }
}

fn outcome_of(outcome: &ProcessOutcome) -> libi_outcome {
    match outcome {
        ProcessOutcome::Exited(_) => libi_outcome::LIBI_OUTCOME_EXITED,
        ProcessOutcome::NotStarted(_) => libi_outcome::LIBI_OUTCOME_NOT_STARTED,
        ProcessOutcome::TimedOut => libi_outcome::LIBI_OUTCOME_TIMED_OUT,
        // What later versions add is no known end either.
        _ => libi_outcome::LIBI_OUTCOME_LOST,
    }
}

/// Frees an event. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_free(event: *mut libi_event) {
    // SAFETY: as documented in the header.
    unsafe { object::free(event) }
}

/// Fills *info with the content of the event. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_query(
    event: *const libi_event,
    info: *mut libi_event_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { query(event, info, size, |view| Ok(view.info())) }
}

/// The ranks that an event is about: those that have printed the output of LIBI_EVENT_FOLDED, those
/// that were lost with the host of LIBI_EVENT_LOST, the new ones of LIBI_EVENT_GROWN that have come
/// up, or the one that libi_event_info names. Writes
/// the lowest ones, as many as there is room for. ranks may be NULL if room is 0.
///
/// Returns the number of ranks; 0 for NULL and for events without ranks. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_event_ranks(event: *const libi_event, ranks: *mut u32, room: usize) -> usize {
    // SAFETY: as documented in the header.
    unsafe {
        object::ask(event, 0, |view: &EventView| {
            let one = |rank: Rank| [rank].into_iter().collect::<Ranks>();
            let found = match &view.event {
                Event::Folded { ranks, .. } | Event::Lost { ranks, .. } => ranks.clone(),
                Event::Grown { growth, .. } => growth.present(),
                Event::Output { rank, .. }
                | Event::Exited { rank, .. }
                | Event::Detached { rank, .. }
                | Event::Restarted { rank, .. }
                | Event::NotRestarted { rank, .. }
                | Event::MasterReplaced { rank, .. } => one(*rank),
                _ => Ranks::new(),
            };
            args::write_ranks(&found, ranks, room)
        })
    }
}
