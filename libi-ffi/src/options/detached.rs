//! Sessions that outlive their front end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use libc::c_char;
use libi::{Detached, LaunchOptions};

use super::libi_options;
use crate::args;
use crate::error::{CallError, CallResult};
use crate::object::change;
use crate::result::libi_result::{self, LIBI_ERR_STATE};
use crate::result::libi_timeout;

/// Has the session go on when its front end ends, in whichever way, for at most this time without
/// one. libi_front_attach() finds it by the ticket file, which is written for its owner alone, and
/// removed when the session is over. A process of its own launches the session and keeps it, on
/// this machine: this program, if it has called libi_agent_serve_if_asked(), or that of
/// libi_options_set_keeper(). libi_session_free() and libi_front_free() leave such a session,
/// libi_session_terminate() ends it. A launch with a ticket file is that of one session. NULL, the
/// default: the session ends with its front end.
///
/// Returns LIBI_OK or LIBI_ERR_NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_detached(
    options: *mut libi_options,
    ticket: *const c_char,
    limit: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.detached = if ticket.is_null() {
                None
            } else {
                Some(Detached::new(path(ticket, "ticket")?, args::timeout(limit)))
            };
            Ok(())
        })
    }
}

/// Sets the host that the process runs on which keeps a detached session, as user@name:port, and
/// its program. A host is reached by ssh, launches in place of this machine, and is always
/// reachable; NULL, the default, for this machine. The program calls libi_agent_serve_if_asked()
/// first, as the programs libi and libi-agent do; NULL, the default, for this program, which has to
/// have called that. Front ends on other machines may have the session only if the process is
/// reachable: otherwise it listens on the loopback address alone.
///
/// Returns LIBI_OK; LIBI_ERR_STATE without libi_options_set_detached(); or LIBI_ERR_NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_keeper(
    options: *mut libi_options,
    host: *const c_char,
    program: *const c_char,
    reachable: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let Some(detached) = &mut options.detached else {
                let why = "the session is not detached: call libi_options_set_detached() first";
                return Err(CallError::new(LIBI_ERR_STATE, why));
            };
            detached.host = if host.is_null() { None } else { Some(args::text(host, "host")?.to_owned()) };
            detached.program = if program.is_null() { None } else { Some(path(program, "program")?) };
            detached.reachable = reachable;
            Ok(())
        })
    }
}

/// # Safety
/// As documented in the header for strings.
unsafe fn path(text: *const c_char, what: &str) -> CallResult<PathBuf> {
    // SAFETY: as for this function.
    let bytes = unsafe { args::os_bytes(text, what) }?;
    Ok(OsStr::from_bytes(bytes.as_bytes()).into())
}
