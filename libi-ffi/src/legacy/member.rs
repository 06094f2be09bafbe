//! `LIBI_…`: a process that was launched.
//!
//! # What `LIBI_finalize` leaves behind
//! A process as it was, but for two threads that wait, and standard output and error: what is printed goes to the front end as long as
//! that is there, and is thrown away after that. It never blocks and is never a SIGPIPE. Only a process that then replaces itself
//! (`exec`), or goes on in a child alone, takes them elsewhere first, as daemons do. Descriptors of the library are closed by `exec`, and have
//! [high numbers](descriptors). A process that closes all descriptors which it does not know closes these, and nothing of the library touches
//! the files that get their numbers; but then it carries nobody any longer.
//!
//! # What the end of the process waits for
//! Until it has left its session, the first process of a host carries for others. In this interface nobody waits for anybody when
//! leaving. So when the process ends by `exit` or by returning from `main`, it waits until it is not needed any more: until those whom it
//! carries have left as well, or the session is over. What it has printed last is with the next by then.

use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libc::{c_char, c_int, c_void};
use libi::{Bytes, CommError, InitError, Member, MemberError, Op, Rank};

use super::args::{self, length_of};
use super::{CallError, CallResult, Code, EINIT, EIO, NO, YES, answer, debug, descriptors, done, lock};

/// As long as those that are needed are well.
const TIMEOUT: Duration = Duration::MAX;
/// How long what was said last may take to get out when the member leaves; then it goes on by itself.
const DETACH_TIMEOUT: Duration = Duration::from_secs(60);

/// The place of this process, once it has one.
static MEMBER: Mutex<MemberState> = Mutex::new(MemberState::Outside);

/// Which process that was: a child of it has a copy of all this, and must not touch it.
static JOIN_RECORD: OnceLock<JoinRecord> = OnceLock::new();

struct JoinRecord {
    process: u32,
    /// What it had a descriptor for.
    had: Option<(libc::dev_t, libc::ino_t)>,
}

enum MemberState {
    Outside,
    Joining,
    In(Arc<Member>),
    /// It carries others as long as the process lives.
    Out(Arc<Member>),
}

fn member() -> CallResult<Arc<Member>> {
    match &*lock(&MEMBER) {
        MemberState::In(_) if JOIN_RECORD.get().is_none_or(|joined| joined.process != std::process::id()) => {
            Err(CallError::new(EINIT, "this process is a child of one that has called LIBI_init"))
        }
        MemberState::In(member) => Ok(Arc::clone(member)),
        MemberState::Out(_) => Err(CallError::new(EINIT, "LIBI_finalize was called before")),
        _ => Err(CallError::new(EINIT, "LIBI_init has not been called, or has not come back")),
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
            // What is still on its way goes on by itself.
            Ok(()) | Err(MemberError::TimedOut(_)) => {
                *lock(&MEMBER) = MemberState::Out(member);
                Ok(())
            }
            Err(error) => Err(CallError::io("leaving", &error)),
        }
    })
}

/// Has what C has printed, and not yet written, go out.
fn flush() {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: it is there from the beginning of the process to its end.
    unsafe { libc::fflush(stdout) };
}

/// What the system says of a descriptor of ours: that a program has closed all that it does not know shows in this.
fn descriptor_of(member: &Member) -> Option<(libc::dev_t, libc::ino_t)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: if it succeeds it has filled what it is given.
    unsafe {
        let asked = libc::fstat(member.descriptor().as_raw_fd(), found.as_mut_ptr());
        (asked == 0).then(|| found.assume_init()).map(|found| (found.st_dev, found.st_ino))
    }
}

/// Has the end of the process wait for what it has to.
fn at_exit(member: &Member) {
    extern "C" fn wait() {
        // A child that goes on without us has nothing to do with others.
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
        // It would wait for what is printed again.
        std::mem::forget(member);
    }
    if JOIN_RECORD.set(JoinRecord { process: std::process::id(), had: descriptor_of(member) }).is_ok() {
        // SAFETY: it is a function without arguments. If there is no room for it, nobody waits.
        unsafe { libc::atexit(wait) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_amIMaster() -> Code {
    answer("LIBI_amIMaster", || Ok(if member()?.is_master() { YES } else { NO }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_getMyRank(rank: *mut c_int) -> Code {
    // SAFETY: as the header asks.
    done("LIBI_getMyRank", || unsafe { args::put(rank, member()?.rank().0.cast_signed()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_getSize(size: *mut c_int) -> Code {
    // SAFETY: as the header asks.
    done("LIBI_getSize", || unsafe { args::put(size, member()?.size().cast_signed()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_recvUsrData(buffer: *mut *mut c_void, length: *mut c_int) -> Code {
    done("LIBI_recvUsrData", || {
        let member = member()?;
        collectively(&member, "receiving from the front end", || {
            let message = member.recv().wait(TIMEOUT).map_err(io("receiving from the front end"))?;
            // SAFETY: as the header asks of the master.
            unsafe { args::put_message(&message, buffer, length) }
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_sendUsrData(buffer: *const c_void, length: *const c_int) -> Code {
    done("LIBI_sendUsrData", || {
        let member = member()?;
        collectively(&member, "sending to the front end", || {
            // SAFETY: as the header asks of the master.
            let message = unsafe {
                let length =
                    length.as_ref().ok_or_else(|| CallError::new(EIO, "the place of the length is NULL"))?;
                args::bytes(buffer, *length)?
            };
            member.send(Bytes::copy_from_slice(message)).wait(TIMEOUT).map_err(io("sending to the front end"))
        })
    })
}

/// Has the master do something, and all members return together when it has. If the master could not do it, they all know.
fn collectively(member: &Member, what: &str, body: impl FnOnce() -> CallResult) -> CallResult {
    let own = if member.is_master() { body() } else { Ok(()) };
    let failed = u8::from(own.is_err());
    let all = member.allreduce(&[failed], Op::Max).wait(TIMEOUT).map_err(io(what));
    own?;
    if all?.first() == Some(&0) {
        Ok(())
    } else {
        Err(CallError::new(EIO, format!("{what}: the master could not")))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_broadcast(buffer: *mut c_void, length: c_int) -> Code {
    done("LIBI_broadcast", || {
        let member = member()?;
        let data = if member.is_master() {
            // SAFETY: as the header asks.
            Some(or_mismatch(&member, unsafe { args::bytes(buffer, length) })?)
        } else {
            None
        };
        let data = data.map(Bytes::copy_from_slice);
        let got = member.broadcast(Rank(0), data).wait(TIMEOUT).map_err(io("the broadcast"))?;
        // SAFETY: as the header asks.
        if member.is_master() { Ok(()) } else { unsafe { fill(&got, buffer, length) } }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_gather(send: *const c_void, length: c_int, receive: *mut c_void) -> Code {
    done("LIBI_gather", || {
        let member = member()?;
        // SAFETY: as the header asks.
        let own = Bytes::copy_from_slice(or_mismatch(&member, unsafe { args::bytes(send, length) })?);
        if member.is_master() && receive.is_null() && length > 0 {
            or_mismatch(&member, Err(CallError::new(EIO, "the place for the parts is NULL")))?;
        }
        let parts = member.gather_equal(Rank(0), own).wait(TIMEOUT).map_err(io("the gather"))?;
        let length = length_of(length)?;
        for (at, part) in parts.iter().flatten().enumerate() {
            // SAFETY: as the header asks, there is room for as many parts at the master as there are members, and these come in
            // their order, all of this length.
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
        // SAFETY: as the header asks.
        let parts = if member.is_master() {
            Some(or_mismatch(&member, unsafe { parts(send, length, member.size()) })?)
        } else {
            None
        };
        let own = member.scatter(Rank(0), parts).wait(TIMEOUT).map_err(io("the scatter"))?;
        // SAFETY: as the header asks.
        unsafe { fill(&own, receive, length) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_barrier() -> Code {
    done("LIBI_barrier", || member()?.barrier().wait(TIMEOUT).map_err(io("the barrier")))
}

/// What the master has for each member.
///
/// # Safety
/// It is NULL, or there are as many parts, one behind the other.
unsafe fn parts(send: *const c_void, length: c_int, size: u32) -> CallResult<Vec<Bytes>> {
    let (length, size) = (length_of(length)?, size as usize);
    let all = length.checked_mul(size).filter(|all| isize::try_from(*all).is_ok());
    let all = all.ok_or_else(|| CallError::new(EIO, "nobody has memory for so much"))?;
    if send.is_null() && all > 0 {
        return Err(CallError::new(EIO, "the parts are at NULL"));
    }
    // SAFETY: as this function asks.
    let all = if all == 0 { &[] } else { unsafe { std::slice::from_raw_parts(send.cast::<u8>(), all) } };
    let all = Bytes::copy_from_slice(all);
    Ok((0..size).map(|rank| all.slice(rank * length..(rank + 1) * length)).collect())
}

/// What this member was given, if it makes sense. If not, all others hear of it by a call that does not match theirs, and do not
/// wait for this one.
fn or_mismatch<T>(member: &Member, given: CallResult<T>) -> CallResult<T> {
    if given.is_err() {
        let _ = member.barrier().wait(TIMEOUT);
    }
    given
}

/// Writes what has come where the caller wants it, if that has the length of what came.
///
/// # Safety
/// There is room for as many bytes, or it is NULL.
unsafe fn fill(bytes: &[u8], place: *mut c_void, length: c_int) -> CallResult {
    let length = length_of(length)?;
    if length != bytes.len() {
        let text =
            format!("{} bytes have come where all members were to give the same {length}", bytes.len());
        return Err(CallError::new(EIO, text));
    }
    if length > 0 && place.is_null() {
        return Err(CallError::new(EIO, "the place for the result is NULL"));
    }
    // SAFETY: as this function asks; what has come is in memory of ours.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), length) };
    Ok(())
}

fn io(what: &str) -> impl Fn(CommError) -> CallError {
    move |error| CallError::io(what, &error)
}
