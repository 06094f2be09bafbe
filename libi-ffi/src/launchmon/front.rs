//! `LMON_fe_…`: sessions, their launches and their ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libc::{c_char, c_int, c_void};

use super::codes::{DETACHED, KILLED, REGISTERED, SPAWNED, check};
use super::failure::{Side, done};
use super::sessions::{self, Handle, change_status};
use super::spawn::{self, Daemons};
use super::tool::Tool;
use crate::compat::{CallError, CallResult, Code};

/// How long the exit of the process waits for ranks that are let go.
const AT_EXIT: Duration = Duration::from_secs(2);

fn call(name: &str, body: impl FnOnce() -> CallResult) -> Code {
    done(Side::FrontEnd, name, body)
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_fe_init(version: c_int) -> Code {
    call("LMON_fe_init", || {
        check(version)?;
        sessions::init()?;
        at_exit();
        Ok(())
    })
}

/// At exit, ranks that are held are let go. The daemons end with the process.
fn at_exit() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn let_go() {
        // A forked child has launched nothing.
        if PROCESS.load(Ordering::Acquire) == std::process::id() {
            for tool in sessions::all_up() {
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tool.let_go(AT_EXIT)));
                // The drop would wait for the end of the daemons.
                std::mem::forget(tool);
            }
        }
    }
    if PROCESS.swap(std::process::id(), Ordering::AcqRel) == 0 {
        // SAFETY: a function without arguments. If it cannot be registered, what is held goes on at
        // its time limit.
        unsafe { libc::atexit(let_go) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_createSession(session: *mut Handle) -> Code {
    call("LMON_fe_createSession", || {
        if session.is_null() {
            return Err(CallError::argument("the place for the session is NULL"));
        }
        // SAFETY: as documented in the header.
        unsafe { session.write(sessions::create()?) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_attachAndSpawnDaemons(
    session: Handle,
    host: *const c_char,
    pid: c_int,
    daemon: *const c_char,
    argv: *const *const c_char,
    febe: *mut c_void,
    befe: *mut c_void,
) -> Code {
    call("LMON_fe_attachAndSpawnDaemons", || {
        sessions::on(session, |_| Ok(()))?;
        let daemons = Daemons { path: daemon, argv, febe, befe };
        // SAFETY: as documented in the header.
        unsafe {
            spawn::check_host(host)?;
            spawn::spawn(session, &daemons, |deadline| spawn::attach(pid, deadline))
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn LMON_fe_launchAndSpawnDaemons(
    session: Handle,
    host: *const c_char,
    launcher: *const c_char,
    launcher_argv: *const *const c_char,
    daemon: *const c_char,
    argv: *const *const c_char,
    febe: *mut c_void,
    befe: *mut c_void,
) -> Code {
    call("LMON_fe_launchAndSpawnDaemons", || {
        sessions::on(session, |_| Ok(()))?;
        let daemons = Daemons { path: daemon, argv, febe, befe };
        // SAFETY: as documented in the header.
        unsafe {
            spawn::check_host(host)?;
            spawn::spawn(session, &daemons, |deadline| spawn::launch(launcher, launcher_argv, deadline))
        }
    })
}

/// The tool of a session, if its job was not given up.
fn with_job(session: Handle) -> CallResult<Arc<Tool>> {
    sessions::on(session, |session| {
        let tool = session.tool()?;
        session.has_job().map(|()| tool)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_fe_detach(session: Handle) -> Code {
    call("LMON_fe_detach", || {
        let tool = with_job(session)?;
        let detached = tool.detach();
        change_status(session, |status| status | DETACHED);
        detached
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_fe_kill(session: Handle) -> Code {
    call("LMON_fe_kill", || {
        let tool = with_job(session)?;
        let killed = tool.kill();
        change_status(session, |_| REGISTERED | KILLED);
        killed
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn LMON_fe_shutdownDaemons(session: Handle) -> Code {
    call("LMON_fe_shutdownDaemons", || {
        // Also after the end of the job, or a detach: the daemons are the tool's.
        let ended = sessions::on(session, |session| session.tool())?.shut_down();
        change_status(session, |status| status & !SPAWNED);
        ended
    })
}
