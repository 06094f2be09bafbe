//! `LMON_fe_…`: what a tool registers for a session, exchanges with its daemons, and asks.

use std::sync::Arc;

use libc::{c_int, c_uint, c_void};
use libi::{EnvVar, OsBytes};

use super::codes::ETRUNC;
use super::failure::{ErrorCallback, Side, done, set_callback};
use super::packing::{Pack, Packing, Unpack};
use super::sessions::{self, Handle, StatusCallback};
use super::table::{self, MPIR_PROCDESC_EXT};
use super::tool::Tool;
use crate::compat::{CallError, CallResult, Code, args};

/// The header's `lmon_daemon_env_t`.
#[repr(C)]
pub struct lmon_daemon_env_t {
    name: *const libc::c_char,
    value: *const libc::c_char,
    next: *const lmon_daemon_env_t,
}

fn call(name: &str, body: impl FnOnce() -> CallResult) -> Code {
    done(Side::FrontEnd, name, body)
}

/// What a caller has passed, unless it is NULL.
fn given<T>(value: Option<T>, what: &str) -> CallResult<T> {
    value.ok_or_else(|| CallError::argument(format!("{what} is NULL")))
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_fe_regErrorCB(callback: Option<ErrorCallback>) -> Code {
    call("LMON_fe_regErrorCB", || {
        set_callback(Side::FrontEnd, given(callback, "the function")?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_fe_regPackForFeToBe(session: Handle, pack: Option<Pack>) -> Code {
    call("LMON_fe_regPackForFeToBe", || {
        sessions::on(session, |session| {
            session.packing.pack = Some(given(pack, "the function")?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_fe_regUnpackForBeToFe(session: Handle, unpack: Option<Unpack>) -> Code {
    call("LMON_fe_regUnpackForBeToFe", || {
        sessions::on(session, |session| {
            session.packing.unpack = Some(given(unpack, "the function")?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_fe_regStatusCB(session: Handle, callback: Option<StatusCallback>) -> Code {
    call("LMON_fe_regStatusCB", || {
        sessions::on(session, |session| {
            session.on_status = Some(given(callback, "the function")?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_getStatus(session: Handle, status: *mut c_int) -> Code {
    call("LMON_fe_getStatus", || {
        let now = sessions::on(session, |session| Ok(session.status))?;
        // SAFETY: as documented in the header.
        *given(unsafe { status.as_mut() }, "the place for the status")? = now;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_putToBeDaemonEnv(
    session: Handle,
    list: *const lmon_daemon_env_t,
    count: c_int,
) -> Code {
    call("LMON_fe_putToBeDaemonEnv", || {
        let count = args::length_of(count).map_err(CallError::lmon)?;
        if list.is_null() {
            return sessions::on(session, |_| given(None, "the list"));
        }
        // SAFETY: as documented in the header.
        let list = unsafe { std::slice::from_raw_parts(list, count) };
        // SAFETY: as documented in the header.
        let variables =
            list.iter().map(|entry| unsafe { variable(entry) }).collect::<CallResult<Vec<_>>>()?;
        sessions::on(session, |session| {
            if session.tool().is_ok() {
                return Err(CallError::argument("the daemons were launched before"));
            }
            session.variables.extend(variables);
            Ok(())
        })
    })
}

/// A variable of an array.
///
/// # Safety
/// The strings are NULL, or end with a NUL.
unsafe fn variable(entry: &lmon_daemon_env_t) -> CallResult<EnvVar> {
    // SAFETY: as for this function.
    let (name, value) = unsafe { (args::string(entry.name), args::string(entry.value)) };
    let name = args::word(given(name, "the name of a variable")?);
    let value: OsBytes = value.map(args::word).unwrap_or_default();
    EnvVar::new(name, value).map_err(|error| CallError::argument(error.to_string()))
}

/// The tool of a session.
fn tool(session: Handle) -> CallResult<Arc<Tool>> {
    sessions::on(session, |session| session.tool())
}

/// The tool of a session whose daemons are there, and the functions for its data.
fn with_daemons(session: Handle) -> CallResult<(Arc<Tool>, Packing)> {
    sessions::on(session, |session| {
        let tool = session.tool()?;
        session.has_daemons().map(|()| (tool, session.packing))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_getProctableSize(session: Handle, size: *mut c_uint) -> Code {
    call("LMON_fe_getProctableSize", || {
        let tool = tool(session)?;
        // SAFETY: as documented in the header.
        *given(unsafe { size.as_mut() }, "the place for the size")? = tool.entries.len() as c_uint;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_getProctable(
    session: Handle,
    place: *mut MPIR_PROCDESC_EXT,
    size: *mut c_uint,
    most: c_uint,
) -> Code {
    call("LMON_fe_getProctable", || {
        let tool = tool(session)?;
        // SAFETY: as documented in the header.
        let size = given(unsafe { size.as_mut() }, "the place for the size")?;
        // SAFETY: as documented in the header.
        *size = unsafe { table::write(&tool.entries, place, most as usize) }? as c_uint;
        complete(tool.entries.len(), most as usize)
    })
}

/// Tells a caller that its place was too small.
pub(super) fn complete(entries: usize, room: usize) -> CallResult {
    let text = || format!("the table has {entries} entries, and there is room for {room}");
    if entries > room { Err(CallError::new(ETRUNC, text())) } else { Ok(()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_sendUsrDataBe(session: Handle, data: *mut c_void) -> Code {
    call("LMON_fe_sendUsrDataBe", || {
        let (tool, packing) = with_daemons(session)?;
        given((!data.is_null()).then_some(()), "the data")?;
        // SAFETY: as documented in the header.
        tool.send(unsafe { packing.pack(data) }?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_recvUsrDataBe(session: Handle, data: *mut c_void) -> Code {
    call("LMON_fe_recvUsrDataBe", || {
        // What daemons have sent before they left can be received.
        let (tool, packing) = sessions::on(session, |session| Ok((session.tool()?, session.packing)))?;
        given((!data.is_null()).then_some(()), "the place for the data")?;
        // SAFETY: as documented in the header.
        unsafe { packing.unpack(&tool.recv()?, data) }
    })
}
