//! `LMON_be_…`: the functions of a daemon.

use std::ffi::CString;

use libc::{c_char, c_int, c_void};
use libi::Member;

use super::codes::{NO, YES, check};
use super::daemon::{self, daemon, member};
use super::failure::{ErrorCallback, Side, answer, done, set_callback};
use super::front_calls::complete;
use super::limits::timeout;
use super::packing::{Pack, Unpack};
use super::table::{self, Entry, MPIR_PROCDESC_EXT};
use crate::compat::{CallError, CallResult, Code, Fault, args, collectives};

fn call(name: &str, body: impl FnOnce() -> CallResult) -> Code {
    done(Side::Daemon, name, body)
}

/// Writes a result.
///
/// # Safety
/// The place is NULL, or may be written to.
unsafe fn put(place: *mut c_int, value: u32) -> CallResult {
    // SAFETY: as for this function.
    let place = unsafe { place.as_mut() };
    *place.ok_or_else(|| CallError::argument("the place for the result is NULL"))? = value.cast_signed();
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_be_init(version: c_int, _argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Code {
    call("LMON_be_init", || {
        check(version)?;
        daemon::join()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_handshake(data: *mut c_void) -> Code {
    // SAFETY: as documented in the header.
    call("LMON_be_handshake", || unsafe { daemon()?.shake_hands(data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_ready(data: *mut c_void) -> Code {
    // SAFETY: as documented in the header.
    call("LMON_be_ready", || unsafe { daemon()?.is_ready(data) })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_be_finalize() -> Code {
    call("LMON_be_finalize", || daemon()?.finalize())
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_be_regErrorCB(callback: Option<ErrorCallback>) -> Code {
    call("LMON_be_regErrorCB", || {
        set_callback(Side::Daemon, callback.ok_or_else(no_function)?);
        Ok(())
    })
}

fn no_function() -> CallError {
    CallError::argument("the function is NULL")
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_be_regPackForBeToFe(pack: Option<Pack>) -> Code {
    call("LMON_be_regPackForBeToFe", || {
        let pack = pack.ok_or_else(no_function)?;
        daemon::register(|packing| packing.pack = Some(pack));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_be_regUnpackForFeToBe(unpack: Option<Unpack>) -> Code {
    call("LMON_be_regUnpackForFeToBe", || {
        let unpack = unpack.ok_or_else(no_function)?;
        daemon::register(|packing| packing.unpack = Some(unpack));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_be_amIMaster() -> Code {
    answer(Side::Daemon, "LMON_be_amIMaster", || Ok(if member()?.is_master() { YES } else { NO }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_getMyRank(rank: *mut c_int) -> Code {
    // SAFETY: as documented in the header.
    call("LMON_be_getMyRank", || unsafe { put(rank, member()?.rank().0) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_getSize(size: *mut c_int) -> Code {
    // SAFETY: as documented in the header.
    call("LMON_be_getSize", || unsafe { put(size, member()?.size()) })
}

/// The processes of the job on this host.
fn entries() -> CallResult<Vec<Entry>> {
    let (targets, member) = (daemon()?.targets()?, member()?);
    let host = CString::new(member.host_name()).unwrap_or_default();
    let entry = |target: &libi::job::Target| Entry {
        host: host.clone(),
        executable: CString::new(target.executable().as_bytes()).unwrap_or_default(),
        pid: target.pid(),
        rank: target.rank().0,
        // There is a daemon on each host, in the order of the hosts.
        host_number: member.rank().0,
    };
    Ok(targets.iter().map(entry).collect())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_getMyProctabSize(size: *mut c_int) -> Code {
    // SAFETY: as documented in the header.
    call("LMON_be_getMyProctabSize", || unsafe { put(size, entries()?.len() as u32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_getMyProctab(
    place: *mut MPIR_PROCDESC_EXT,
    size: *mut c_int,
    most: c_int,
) -> Code {
    call("LMON_be_getMyProctab", || {
        let entries = entries()?;
        let room = args::length_of(most).map_err(CallError::lmon)?;
        // SAFETY: as documented in the header.
        unsafe {
            put(size, 0)?;
            put(size, table::write(&entries, place, room)? as u32)?;
        }
        complete(entries.len(), room)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_sendUsrData(data: *mut c_void) -> Code {
    // SAFETY: as documented in the header.
    call("LMON_be_sendUsrData", || unsafe { daemon()?.send(data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_recvUsrData(data: *mut c_void) -> Code {
    // SAFETY: as documented in the header.
    call("LMON_be_recvUsrData", || unsafe { daemon()?.recv(data) })
}

/// A collective call.
fn together(name: &str, body: impl FnOnce(&Member) -> Result<(), Fault>) -> Code {
    call(name, || body(&*member()?).map_err(CallError::lmon))
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_be_barrier() -> Code {
    together("LMON_be_barrier", |member| collectives::barrier(member, timeout()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_broadcast(buffer: *mut c_void, length: c_int) -> Code {
    // SAFETY: as documented in the header.
    let body = |member: &Member| unsafe { collectives::broadcast(member, buffer, length, timeout()) };
    together("LMON_be_broadcast", body)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_gather(send: *const c_void, length: c_int, receive: *mut c_void) -> Code {
    // SAFETY: as documented in the header.
    let body = |member: &Member| unsafe { collectives::gather(member, send, length, receive, timeout()) };
    together("LMON_be_gather", body)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_be_scatter(send: *const c_void, length: c_int, receive: *mut c_void) -> Code {
    // SAFETY: as documented in the header.
    let body = |member: &Member| unsafe { collectives::scatter(member, send, length, receive, timeout()) };
    together("LMON_be_scatter", body)
}
