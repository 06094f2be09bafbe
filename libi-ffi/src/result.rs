//! What functions return, and the types of times.

use std::ptr::null;

use libc::c_char;

use self::libi_result::*;

/// How a call has ended: LIBI_OK, or one of the codes below.
///
/// Rules for all functions:
/// - Ownership: an object made by libi_X_new(), or passed out through a pointer to a pointer,
///   belongs to the caller, who frees it once with libi_X_free(). Freeing NULL does nothing. A
///   const pointer that a function returns or writes into a struct belongs to the object that was
///   asked, and is valid until that object is freed. Strings and bytes passed in are copied.
/// - NULL where an object, a string or a place for a result is needed is LIBI_ERR_NULL. Functions
///   that return a number or a pointer instead of a code return 0, -1 or NULL, as documented.
/// - Failures: libi_last_error() has the text of the last failure in the calling thread. LIBI_OK,
///   LIBI_NOT_YET and LIBI_NONE are not failures and leave it as it is.
/// - Builders (libi_hosts, libi_distribution, libi_options) remember the first of their calls
///   that failed. Calls that are given such a builder, as a launch, return that failure: a
///   program may look at the codes of its setters or only at that of the launch. There is no way
///   to clear it; free the builder and make another.
/// - Threads: a builder or a libi_pending may be used by one thread at a time; a second one gets
///   LIBI_ERR_BUSY. All other objects may be used by any number of threads.
/// - Freeing an object that another thread is using, using an object after it was freed, and
///   passing an object of another type are undefined behaviour. The library detects most cases
///   and returns LIBI_ERR_HANDLE; a program must not depend on that.
/// - Structs that a call fills (libi_event_info and the like): the last argument is sizeof of the
///   struct as the program was compiled. Later versions append members. After a failure the
///   struct is filled with zeros.
/// - No function installs signal handlers, changes the signal mask, or raises SIGPIPE.
///   Descriptors of the library are close-on-exec. If the program ignores SIGCHLD, or waits for
///   children that are not its own, exits of processes become LIBI_EXIT_UNKNOWN.
/// - After a panic inside the library, the object that was in use returns LIBI_ERR_POISONED from
///   all calls, and can only be freed.
///
/// Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_result {
    /// Success. LIBI_OK is this, unless libi/libi_api.h is included as well, which has a LIBI_OK
    /// of its own with the same value.
    LIBI_RESULT_OK = 0,
    /// Not a failure: the operation is not finished, or nothing has happened within the timeout.
    LIBI_NOT_YET = 1,
    /// Not a failure: there is no such thing, as a value under a key, a report, or an index.
    LIBI_NONE = 2,

    /// Caller: NULL where an object, a string or a place for a result is needed.
    LIBI_ERR_NULL = 10,
    /// Caller: the object was freed or is of another type.
    LIBI_ERR_HANDLE = 11,
    /// Caller: the object is in use by another thread, or the call came from a callback that must
    /// not make it.
    LIBI_ERR_BUSY = 12,
    /// Library: it has panicked while this object was in use.
    LIBI_ERR_POISONED = 13,
    /// Caller: an argument has a value that is not allowed.
    LIBI_ERR_ARGUMENT = 14,
    /// Caller: a host list has a syntax error; the text shows where.
    LIBI_ERR_HOSTS = 15,
    /// Caller: the distributions describe nothing that could be launched.
    LIBI_ERR_LAYOUT = 16,
    /// Caller: the backend sends in plaintext, and the options do not allow that.
    LIBI_ERR_PLAIN = 17,
    /// Caller: the call is not possible in the current state.
    LIBI_ERR_STATE = 18,
    /// Caller: a buffer or an array does not have the needed length.
    LIBI_ERR_LENGTH = 19,

    /// This process was not started by a front end.
    LIBI_ERR_STARTED_BY_HAND = 30,
    /// This process has the environment of a member, but not its link.
    LIBI_ERR_NO_LINK = 31,
    /// The session did not come up; its report says why for each host.
    LIBI_ERR_NOT_LAUNCHED = 32,
    /// The timeout has passed. A collective operation is then over for all members.
    LIBI_ERR_TIMED_OUT = 33,
    /// The session or the front end has ended or is ending.
    LIBI_ERR_ENDED = 34,
    /// A system call has failed.
    LIBI_ERR_SYSTEM = 35,
    /// Out of memory.
    LIBI_ERR_NO_MEMORY = 36,
    /// A member was not restarted; the text has the reason.
    LIBI_ERR_NOT_RESTARTED = 37,
    /// The session has not grown; the text has the reason.
    LIBI_ERR_NOT_GROWN = 38,
    /// A session or a job cannot be attached to; the text has the reason.
    LIBI_ERR_NOT_ATTACHED = 39,

    /// Members that are needed are lost; the text names them.
    LIBI_ERR_PEER_LOST = 50,
    /// The front end is lost.
    LIBI_ERR_FRONT_END_LOST = 51,
    /// Members have made different collective calls; the text names two. The next collective call
    /// may succeed.
    LIBI_ERR_MISMATCH = 52,
    /// Another member has given up this collective call, or the caller has cancelled it. The next
    /// collective call may succeed.
    LIBI_ERR_CANCELLED = 53,
    /// The sender has withdrawn its message.
    LIBI_ERR_WITHDRAWN = 54,
    /// There is no member with this rank.
    LIBI_ERR_NO_SUCH_PEER = 55,
    /// The member did not come up, and the launch allowed that.
    LIBI_ERR_ABSENT = 56,
    /// Caller: the number or the lengths of the parts are wrong for the collective call.
    LIBI_ERR_PARTS = 57,
    /// Caller: the key is too long.
    LIBI_ERR_LONG_KEY = 58,
    /// A peer has violated the protocol: another build of the library, or a defect in it.
    LIBI_ERR_PROTOCOL = 59,
    /// Caller: this member is not the master, which alone talks to the front end.
    LIBI_ERR_NOT_MASTER = 60,
}

/// cbindgen:ignore
pub type libi_result_arg = libc::c_int;

/// A timeout in milliseconds. Negative (LIBI_FOREVER) is no limit; 0 does not wait. Since 0.1.
pub type libi_timeout = i64;

/// A measured duration in microseconds; -1 if there is none. Since 0.1.
pub type libi_micros = i64;

/// No limit to the duration of a call. Since 0.1.
pub const LIBI_FOREVER: libi_timeout = -1;

/// The meaning of a code in a few words, or NULL for a number that is not a code.
///
/// Any thread, at any time. The text is static. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_result_text(result: libi_result_arg) -> *const c_char {
    let texts = [
        (LIBI_RESULT_OK, c"success"),
        (LIBI_NOT_YET, c"not finished yet"),
        (LIBI_NONE, c"there is none"),
        (LIBI_ERR_NULL, c"NULL where a value is needed"),
        (LIBI_ERR_HANDLE, c"the object was freed or is of another type"),
        (LIBI_ERR_BUSY, c"the object is in use by another thread or by its own callback"),
        (LIBI_ERR_POISONED, c"the library has panicked while this object was in use"),
        (LIBI_ERR_ARGUMENT, c"an argument has a value that is not allowed"),
        (LIBI_ERR_HOSTS, c"the host list has a syntax error"),
        (LIBI_ERR_LAYOUT, c"the distributions describe nothing to launch"),
        (LIBI_ERR_PLAIN, c"the backend sends in plaintext, which the options do not allow"),
        (LIBI_ERR_STATE, c"not possible in the current state"),
        (LIBI_ERR_LENGTH, c"the buffer does not have the needed length"),
        (LIBI_ERR_STARTED_BY_HAND, c"this process was not started by a front end"),
        (LIBI_ERR_NO_LINK, c"this process has the environment of a member, but not its link"),
        (LIBI_ERR_NOT_LAUNCHED, c"the session did not come up"),
        (LIBI_ERR_TIMED_OUT, c"timed out"),
        (LIBI_ERR_ENDED, c"the session has ended"),
        (LIBI_ERR_SYSTEM, c"a system call has failed"),
        (LIBI_ERR_NO_MEMORY, c"out of memory"),
        (LIBI_ERR_NOT_RESTARTED, c"the member was not restarted"),
        (LIBI_ERR_NOT_GROWN, c"the session has not grown"),
        (LIBI_ERR_NOT_ATTACHED, c"the session or the job cannot be attached to"),
        (LIBI_ERR_PEER_LOST, c"members that are needed are lost"),
        (LIBI_ERR_FRONT_END_LOST, c"the front end is lost"),
        (LIBI_ERR_MISMATCH, c"members have made different collective calls"),
        (LIBI_ERR_CANCELLED, c"the collective call was cancelled"),
        (LIBI_ERR_WITHDRAWN, c"the sender has withdrawn its message"),
        (LIBI_ERR_NO_SUCH_PEER, c"there is no member with this rank"),
        (LIBI_ERR_ABSENT, c"the member did not come up"),
        (LIBI_ERR_PARTS, c"wrong number or lengths of parts for the collective call"),
        (LIBI_ERR_LONG_KEY, c"the key is too long"),
        (LIBI_ERR_PROTOCOL, c"a peer has violated the protocol"),
        (LIBI_ERR_NOT_MASTER, c"this member is not the master"),
    ];
    let found = texts.iter().find(|(code, _)| *code as libc::c_int == result);
    found.map_or(null(), |(_, text)| text.as_ptr())
}
