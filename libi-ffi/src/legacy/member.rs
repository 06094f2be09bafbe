//! `LIBI_…`: a process that was launched.
//!
//! # After `LIBI_finalize`
//! The process is as before, but for two threads that wait, and for standard output and error:
//! output goes to the front end while that is there, and is discarded afterwards. It never blocks
//! and never raises SIGPIPE. A process that replaces itself (`exec`), or goes on in a child alone,
//! redirects them before, as daemons do. Descriptors of the library are close-on-exec and have
//! [high numbers](crate::compat::descriptors). A process that closes all descriptors which it does not know
//! closes these too. Then the library does not touch files that get their numbers, and the process
//! forwards for no member any more.

use std::sync::Arc;
use std::time::Duration;

use libc::{c_char, c_int, c_void};
use libi::{Bytes, CommError, InitError, Member, Op};

use super::args;
use super::{CallError, CallResult, Code, EINIT, EIO, NO, YES, answer, done};
use crate::compat::args::bytes;
use crate::compat::collectives;
use crate::compat::membership::{self, JoinError};

/// No limit: calls end when a process that they need is lost.
const TIMEOUT: Duration = Duration::MAX;

fn member() -> CallResult<Arc<Member>> {
    let why = |error: membership::NoMember| error.text("LIBI_init", "LIBI_finalize");
    membership::member().map_err(|error| CallError::new(EINIT, why(error)))
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_init(_version: c_int, _argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Code {
    done("LIBI_init", || {
        membership::join().map(drop).map_err(|error| match error {
            JoinError::Again => CallError::new(EINIT, "it was called before"),
            JoinError::Init(error @ (InitError::Ended | InitError::System(_))) => {
                CallError::new(EIO, error.to_string())
            }
            JoinError::Init(error) => CallError::new(EINIT, error.to_string()),
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_finalize() -> Code {
    done("LIBI_finalize", || membership::leave(member()?).map_err(|error| CallError::io("leaving", &error)))
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
                bytes(buffer, *length)?
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
    // SAFETY: as documented in the header.
    let call = |member: &Member| unsafe { collectives::broadcast(member, buffer, length, TIMEOUT) };
    done("LIBI_broadcast", || Ok(call(&*member()?)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_gather(send: *const c_void, length: c_int, receive: *mut c_void) -> Code {
    // SAFETY: as documented in the header.
    let call = |member: &Member| unsafe { collectives::gather(member, send, length, receive, TIMEOUT) };
    done("LIBI_gather", || Ok(call(&*member()?)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LIBI_scatter(send: *const c_void, length: c_int, receive: *mut c_void) -> Code {
    // SAFETY: as documented in the header.
    let call = |member: &Member| unsafe { collectives::scatter(member, send, length, receive, TIMEOUT) };
    done("LIBI_scatter", || Ok(call(&*member()?)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn LIBI_barrier() -> Code {
    done("LIBI_barrier", || Ok(collectives::barrier(&*member()?, TIMEOUT)?))
}

fn io(what: &str) -> impl Fn(CommError) -> CallError {
    move |error| CallError::io(what, &error)
}
