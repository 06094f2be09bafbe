//! `LIBI_…`: a process that was launched.
//!
//! # After `LIBI_finalize`
//! The process is as before, but for two threads that wait, and for standard output and error:
//! output goes to the front end while that is there, and is discarded afterwards. It never blocks
//! and never raises SIGPIPE. A process that replaces itself (`exec`), or goes on in a child alone,
//! redirects them before, as daemons do. Descriptors of the library are close-on-exec and have
//! [high numbers](descriptors). A process that closes all descriptors which it does not know
//! closes these too. Then the library does not touch files that get their numbers, and the process
//! forwards for no member any more.
//!
//! # At exit
//! Until it has left its session, the leader of a host forwards for other members. In this
//! interface no member waits for others when it leaves. So when the process ends by `exit` or by
//! returning from `main`, it waits until no other member needs it: until those that it forwards
//! for have left as well, or the session is over. Its own last output has been forwarded by then.

use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libc::{c_char, c_int, c_void};
use libi::{Bytes, CommError, InitError, Member, MemberError, Op, Rank};

use super::args::{self, length_of};
use super::{CallError, CallResult, Code, EINIT, EIO, NO, YES, answer, debug, descriptors, done, lock};

/// No limit: calls end when a process that they need is lost.
const TIMEOUT: Duration = Duration::MAX;
/// How long LIBI_finalize waits for the last data to be forwarded, which goes on afterwards.
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

fn member() -> CallResult<Arc<Member>> {
    match &*lock(&MEMBER) {
        MemberState::In(_) if JOIN_RECORD.get().is_none_or(|joined| joined.process != std::process::id()) => {
            Err(CallError::new(EINIT, "this process is a child of one that has called LIBI_init"))
        }
        MemberState::In(member) => Ok(Arc::clone(member)),
        MemberState::Out(_) => Err(CallError::new(EINIT, "LIBI_finalize was called before")),
        _ => Err(CallError::new(EINIT, "LIBI_init has not been called, or has not returned")),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_init(_version: c_int, _argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Code {
    done("LIBI_init", || {
        {
            let mut state = lock(&MEMBER);
            if !matches!(*state, MemberState::Outside) {
                return Err(CallError::new(EINIT, "it was called before"));
            }
            *state = MemberState::Joining;
        }
        let joined = descriptors::high(Member::init);
        let mut state = lock(&MEMBER);
        match joined {
            Ok(member) => {
                debug::say(2, || format!("rank {} of {} has joined", member.rank().0, member.size()));
                at_exit(&member);
                *state = MemberState::In(Arc::new(member));
                Ok(())
            }
            Err(error) => {
                *state = MemberState::Outside;
                let code = if matches!(error, InitError::Ended | InitError::System(_)) { EIO } else { EINIT };
                Err(CallError::new(code, error.to_string()))
            }
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_finalize() -> Code {
    done("LIBI_finalize", || {
        let member = member()?;
        flush();
        match descriptors::high(|| member.detach(DETACH_TIMEOUT)) {
            // Forwarding goes on in the background.
            Ok(()) | Err(MemberError::TimedOut(_)) => {
                *lock(&MEMBER) = MemberState::Out(member);
                Ok(())
            }
            Err(error) => Err(CallError::io("leaving", &error)),
        }
    })
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
            let waited = catch_unwind(AssertUnwindSafe(|| member.drain(TIMEOUT)));
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

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_amIMaster() -> Code {
    answer("LIBI_amIMaster", || Ok(if member()?.is_master() { YES } else { NO }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_getMyRank(rank: *mut c_int) -> Code {
    // SAFETY: as documented in the header.
    done("LIBI_getMyRank", || unsafe { args::put(rank, member()?.rank().0.cast_signed()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_getSize(size: *mut c_int) -> Code {
    // SAFETY: as documented in the header.
    done("LIBI_getSize", || unsafe { args::put(size, member()?.size().cast_signed()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_recvUsrData(buffer: *mut *mut c_void, length: *mut c_int) -> Code {
    done("LIBI_recvUsrData", || {
        let member = member()?;
        collectively(&member, "receiving from the front end", || {
            let message = member.recv().wait(TIMEOUT).map_err(io("receiving from the front end"))?;
            // SAFETY: as documented in the header of the master.
            unsafe { args::put_message(&message, buffer, length) }
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_sendUsrData(buffer: *const c_void, length: *const c_int) -> Code {
    done("LIBI_sendUsrData", || {
        let member = member()?;
        collectively(&member, "sending to the front end", || {
            // SAFETY: as documented in the header of the master.
            let message = unsafe {
                let length =
                    length.as_ref().ok_or_else(|| CallError::new(EIO, "the place of the length is NULL"))?;
                args::bytes(buffer, *length)?
            };
            member.send(Bytes::copy_from_slice(message)).wait(TIMEOUT).map_err(io("sending to the front end"))
        })
    })
}

/// Runs `body` at the master. All members return together afterwards, and fail if the master has
/// failed.
fn collectively(member: &Member, what: &str, body: impl FnOnce() -> CallResult) -> CallResult {
    let own = if member.is_master() { body() } else { Ok(()) };
    let failed = u8::from(own.is_err());
    let all = member.allreduce(&[failed], Op::Max).wait(TIMEOUT).map_err(io(what));
    own?;
    if all?.first() == Some(&0) {
        Ok(())
    } else {
        Err(CallError::new(EIO, format!("{what}: the master has failed")))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_broadcast(buffer: *mut c_void, length: c_int) -> Code {
    done("LIBI_broadcast", || {
        let member = member()?;
        let data = if member.is_master() {
            // SAFETY: as documented in the header.
            Some(or_mismatch(&member, unsafe { args::bytes(buffer, length) })?)
        } else {
            None
        };
        let data = data.map(Bytes::copy_from_slice);
        let got = member.broadcast(Rank(0), data).wait(TIMEOUT).map_err(io("the broadcast"))?;
        // SAFETY: as documented in the header.
        if member.is_master() { Ok(()) } else { unsafe { fill(&got, buffer, length) } }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_gather(send: *const c_void, length: c_int, receive: *mut c_void) -> Code {
    done("LIBI_gather", || {
        let member = member()?;
        // SAFETY: as documented in the header.
        let own = Bytes::copy_from_slice(or_mismatch(&member, unsafe { args::bytes(send, length) })?);
        if member.is_master() && receive.is_null() && length > 0 {
            or_mismatch(&member, Err(CallError::new(EIO, "the place for the parts is NULL")))?;
        }
        let parts = member.gather_equal(Rank(0), own).wait(TIMEOUT).map_err(io("the gather"))?;
        let length = length_of(length)?;
        for (at, part) in parts.iter().flatten().enumerate() {
            // SAFETY: as documented in the header, there is room for one part of this length for
            // each member. Parts are in the order of ranks.
            unsafe {
                let place = receive.cast::<u8>().wrapping_add(at * length).cast();
                fill(part, place, length as c_int)?;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_scatter(send: *const c_void, length: c_int, receive: *mut c_void) -> Code {
    done("LIBI_scatter", || {
        let member = member()?;
        // SAFETY: as documented in the header.
        let parts = if member.is_master() {
            Some(or_mismatch(&member, unsafe { parts(send, length, member.size()) })?)
        } else {
            None
        };
        let own = member.scatter(Rank(0), parts).wait(TIMEOUT).map_err(io("the scatter"))?;
        // SAFETY: as documented in the header.
        unsafe { fill(&own, receive, length) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_barrier() -> Code {
    done("LIBI_barrier", || member()?.barrier().wait(TIMEOUT).map_err(io("the barrier")))
}

/// The master's part for each member.
///
/// # Safety
/// It is NULL, or has this many parts in sequence.
unsafe fn parts(send: *const c_void, length: c_int, size: u32) -> CallResult<Vec<Bytes>> {
    let (length, size) = (length_of(length)?, size as usize);
    let all = length.checked_mul(size).filter(|all| isize::try_from(*all).is_ok());
    let all = all.ok_or_else(|| CallError::new(EIO, "the parts together are too long"))?;
    if send.is_null() && all > 0 {
        return Err(CallError::new(EIO, "the parts are NULL"));
    }
    // SAFETY: as for this function.
    let all = if all == 0 { &[] } else { unsafe { std::slice::from_raw_parts(send.cast::<u8>(), all) } };
    let all = Bytes::copy_from_slice(all);
    Ok((0..size).map(|rank| all.slice(rank * length..(rank + 1) * length)).collect())
}

/// The argument of this member, if it is valid. If not, a call that does not match those of the
/// other members tells them, so that they do not wait.
fn or_mismatch<T>(member: &Member, given: CallResult<T>) -> CallResult<T> {
    if given.is_err() {
        let _ = member.barrier().wait(TIMEOUT);
    }
    given
}

/// Writes a result to the caller's memory, if the lengths are equal.
///
/// # Safety
/// It is NULL, or has room for this many bytes.
unsafe fn fill(bytes: &[u8], place: *mut c_void, length: c_int) -> CallResult {
    let length = length_of(length)?;
    if length != bytes.len() {
        let text = format!("received {} bytes where all members have to pass {length}", bytes.len());
        return Err(CallError::new(EIO, text));
    }
    if length > 0 && place.is_null() {
        return Err(CallError::new(EIO, "the place for the result is NULL"));
    }
    // SAFETY: as for this function; the source is the library's memory.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), length) };
    Ok(())
}

fn io(what: &str) -> impl Fn(CommError) -> CallError {
    move |error| CallError::io(what, &error)
}
