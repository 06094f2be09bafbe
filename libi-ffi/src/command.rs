//! Commands: programs that run on hosts of a session that is up, without a further launch.

use std::num::NonZeroU16;
use std::ptr::null_mut;

use libc::c_int;
use libi::{Command, HostIndex, Spawned};
use libi_core::dist::Distribution;

use crate::args::{self, OutParam};
use crate::distribution::libi_distribution;
use crate::error::{CallError, CallResult};
use crate::hosts::{self, libi_hosts};
use crate::object::{self, ask, built, give, handle, with};
use crate::reentry::ProcessLocal;
use crate::result::{libi_result, libi_timeout};
use crate::session::{libi_session, on};

/// A command that runs in a session, or has ended. Any number of threads may use it. Since 0.1.
pub struct libi_command {
    _opaque: (),
}

handle!(libi_command, "command", ProcessLocal<Spawned>);

/// Runs the program of a distribution, with its arguments, variables and directory, on hosts of a
/// session that is up and led by agents: libi_options_set_agent(). Nothing is launched. The hosts
/// are those of the list, or all that are left if it is NULL; those of the distribution and its
/// session have no meaning. On each host per_host processes run, at least one.
///
/// Processes that have not ended after timeout milliseconds are killed; with -1 they have as much
/// time as the session. Output and ends come as events: LIBI_EVENT_COMMAND_OUTPUT and those behind
/// it. Any number of commands may run at the same time.
///
/// Returns LIBI_OK with the command, to be freed with libi_command_free(); LIBI_ERR_STATE if the
/// session has no agents, or is not up yet; LIBI_ERR_ARGUMENT if a host is not in the session or
/// lost, or per_host is 0; or LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_spawn(
    session: *mut libi_session,
    program: *const libi_distribution,
    hosts: *const libi_hosts,
    per_host: u16,
    timeout: libi_timeout,
    command: *mut *mut libi_command,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(command, null_mut(), "command")?;
            let program: Distribution = built(program, "the distribution")?;
            let per_host = NonZeroU16::new(per_host);
            let per_host = per_host.ok_or_else(|| CallError::argument("per_host is 0".to_owned()))?;
            let mut command = Command::from(program).per_host(per_host);
            if timeout >= 0 {
                command = command.timeout(args::timeout(timeout));
            }
            if !hosts.is_null() {
                command = command.hosts(hosts::copy(hosts)?);
            }
            place.put(give(ProcessLocal::new(session.spawn(&command)?)));
            Ok(())
        })
    }
}

/// Frees a command, which goes on if it runs. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_command_free(command: *mut libi_command) {
    // SAFETY: as documented in the header.
    unsafe { object::free(command) }
}

/// The number of a command, which its events have; the first of a session is 1. 0 for NULL.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_command_number(command: *const libi_command) -> u64 {
    // SAFETY: as documented in the header.
    unsafe { ask(command, 0, |own| own.look().map_or(0, |command| command.id().0)) }
}

/// Sends a signal to the processes of a command that have not ended, with their process groups: on
/// as many hosts as count says, which hosts numbers as the layout does, or on all if hosts is NULL.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such signal. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_command_kill(
    command: *mut libi_command,
    hosts: *const u32,
    count: usize,
    signal: c_int,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on_command(command, |command| {
            if hosts.is_null() {
                return command.kill(signal).map_err(CallError::from);
            }
            let hosts: Vec<_> = (0..count).map(|nth| HostIndex(hosts.add(nth).read())).collect();
            command.kill_on(&hosts, signal).map_err(CallError::from)
        })
    }
}

/// Waits until all processes of a command have ended or are lost with their hosts, and writes how
/// many have not exited with 0; failures may be NULL. Output of the command has to be taken
/// meanwhile, with libi_front_next_event().
///
/// Returns LIBI_OK, LIBI_ERR_TIMED_OUT, or LIBI_ERR_ENDED if nothing is left of the session.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_command_wait(
    command: *const libi_command,
    timeout: libi_timeout,
    failures: *mut usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on_command(command, |command| {
            let report = command.wait(args::timeout(timeout))?;
            if !failures.is_null() {
                let failed = report.processes().iter().filter(|process| !process.outcome.is_success());
                failures.write(failed.count());
            }
            Ok(())
        })
    }
}

/// The numbers of the hosts of a session that are up and not lost, which commands can run on:
/// writes the lowest ones, as many as there is room for. hosts may be NULL if room is 0.
///
/// Returns how many there are; 0 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_live_hosts(
    session: *const libi_session,
    hosts: *mut u32,
    room: usize,
) -> usize {
    // SAFETY: as documented in the header.
    unsafe {
        ask(session, 0, |own| {
            let live = own.look().map(libi::Session::live_hosts).unwrap_or_default();
            if !hosts.is_null() {
                live.iter().take(room).enumerate().for_each(|(nth, host)| hosts.add(nth).write(host.0));
            }
            live.len()
        })
    }
}

/// # Safety
/// As of [`with`].
unsafe fn on_command(command: *const libi_command, body: impl FnOnce(&Spawned) -> CallResult) -> libi_result {
    // SAFETY: as for this function.
    unsafe { with(command, |own| body(own.get()?)) }
}
