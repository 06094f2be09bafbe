//! How hosts are reached.

use libc::c_char;
use libi::{Backend, LaunchOptions, OsBytes, Rsh, Shell, Ssh, SshHosts, SshProfile};

use super::{libi_options, limit, set};
use crate::args;
use crate::hosts::{self, libi_hosts};
use crate::result::{CallError, CallResult, LIBI_ERR_STATE, libi_millis, libi_result};

/// All hosts are this machine, whatever they are called; as at first. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_via_local(options: *mut libi_options) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { choose(options, || Ok(Backend::default())) }
}

/// Hosts are reached by ssh as it is configured. The functions with ssh in their names say more. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_via_ssh(options: *mut libi_options) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { choose(options, || Ok(Backend::Ssh(Ssh::new()))) }
}

/// Hosts are reached by rsh; by that of rsh-redone, which is Debian's, if redone is true. It has to be allowed by
/// libi_options_allow_plain(), since everybody on the network can read along and interfere. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_via_rsh(options: *mut libi_options, redone: bool) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { choose(options, || Ok(Backend::Rsh(if redone { Rsh::redone() } else { Rsh::new() }))) }
}

/// Hosts are reached by a program that is called as ssh is: its arguments, "-l USER" and "-p PORT" where the host list has
/// them, the host, the command. It is killed with the process that has called it: on this machine it must not turn into the
/// command by exec where that is to be released. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_via_shell(
    options: *mut libi_options,
    program: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { choose(options, || Ok(Backend::Shell(Shell::new(args::os_bytes(program, "the program")?)))) }
}

/// Which program is called as ssh, rsh or the other shell: a path, or a name to be looked up wherever a launch is made.
/// LIBI_ERR_STATE if nothing is called. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_program(
    options: *mut libi_options,
    program: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            let program = args::os_bytes(program, "the program")?;
            match options.backend.as_mut().unwrap_or(&mut Backend::default()) {
                Backend::Ssh(ssh) => ssh.program = program,
                Backend::Rsh(rsh) => rsh.program = program,
                Backend::Shell(shell) => shell.program = program,
                Backend::Local(_) => return Err(wrong("a remote shell", "ssh, rsh or shell")),
            }
            Ok(())
        })
    }
}

/// Adds an argument that rsh or the other shell is called with before all else. LIBI_ERR_STATE if it is neither. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_add_shell_arg(
    options: *mut libi_options,
    arg: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            let arg = args::os_bytes(arg, "the argument")?;
            match options.backend.as_mut().unwrap_or(&mut Backend::default()) {
                Backend::Rsh(rsh) => rsh.args.push(arg),
                Backend::Shell(shell) => shell.args.push(arg),
                Backend::Ssh(_) | Backend::Local(_) => return Err(wrong("an argument", "rsh or shell")),
            }
            Ok(())
        })
    }
}

/// The option that the other shell takes before a user; NULL if there is none. LIBI_ERR_STATE without such a shell. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_user_option(
    options: *mut libi_options,
    option: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            let option = optional(option)?;
            let Some(Backend::Shell(shell)) = &mut options.backend else {
                return Err(wrong("such an option", "shell"));
            };
            shell.user = option;
            Ok(())
        })
    }
}

/// The option that rsh or the other shell takes before a port; NULL if there is none. LIBI_ERR_STATE without one of them. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_port_option(
    options: *mut libi_options,
    option: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            let option = optional(option)?;
            match options.backend.as_mut().unwrap_or(&mut Backend::default()) {
                Backend::Rsh(rsh) => rsh.port = option,
                Backend::Shell(shell) => shell.port = option,
                Backend::Ssh(_) | Backend::Local(_) => return Err(wrong("such an option", "rsh or shell")),
            }
            Ok(())
        })
    }
}

/// Whom to be, with rsh, on hosts of which the list says nothing; NULL for whoever launches. LIBI_ERR_STATE without rsh. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_rsh_user(
    options: *mut libi_options,
    user: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            let user = args::optional(user, |user| args::text(user, "the user"))?.map(str::to_owned);
            let Some(Backend::Rsh(rsh)) = &mut options.backend else { return Err(wrong("a user", "rsh")) };
            rsh.user = user;
            Ok(())
        })
    }
}

/// Whether parts of your configuration of ssh are replaced for speed. This gives up safety from quantum computers for these
/// connections, Kerberos, compression, and learning new host keys; it takes ssh 8.0. LIBI_ERR_STATE without ssh. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_ssh_fast(options: *mut libi_options, fast: bool) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_ssh(options, |ssh| {
            ssh.profile = if fast { SshProfile::Fast } else { SshProfile::Own };
            Ok(())
        })
    }
}

/// The configuration file that ssh uses in place of the user's; everybody who launches reads it, on its own host. NULL for the
/// user's. LIBI_ERR_STATE without ssh. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_ssh_config(
    options: *mut libi_options,
    path: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_ssh(options, |ssh| {
            ssh.config = optional(path)?;
            Ok(())
        })
    }
}

/// Adds an option of ssh as in its configuration, such as "StrictHostKeyChecking=accept-new"; of two that set the same, the first
/// counts. LIBI_ERR_STATE without ssh. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_add_ssh_option(
    options: *mut libi_options,
    option: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_ssh(options, |ssh| {
            ssh.options.push(args::os_bytes(option, "the option")?);
            Ok(())
        })
    }
}

/// Adds an option of ssh for some hosts, which comes before those for all. The list is copied. LIBI_ERR_STATE without ssh. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_add_ssh_option_for(
    options: *mut libi_options,
    hosts: *const libi_hosts,
    option: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_ssh(options, |ssh| {
            let options = vec![args::os_bytes(option, "the option")?];
            ssh.hosts.push(SshHosts { hosts: hosts::copy(hosts)?, options });
            Ok(())
        })
    }
}

/// How long ssh may take to connect; it is rounded up to seconds, and at first 10. LIBI_ERR_STATE without ssh. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_ssh_timeout(
    options: *mut libi_options,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_ssh(options, |ssh| {
            ssh.connect_timeout = limit(timeout, "the time to connect")?;
            Ok(())
        })
    }
}

/// # Safety
/// As of [`set`].
unsafe fn choose(options: *mut libi_options, backend: impl FnOnce() -> CallResult<Backend>) -> libi_result {
    let body = |options: &mut LaunchOptions| {
        options.backend = Some(backend()?);
        Ok(())
    };
    // SAFETY: as this function asks.
    unsafe { set(options, body) }
}

/// # Safety
/// As of [`set`].
unsafe fn with_ssh(options: *mut libi_options, body: impl FnOnce(&mut Ssh) -> CallResult) -> libi_result {
    let body = |options: &mut LaunchOptions| match options.backend.as_mut().unwrap_or(&mut Backend::default())
    {
        Backend::Ssh(ssh) => body(ssh),
        _ => Err(wrong("an option of ssh", "ssh")),
    };
    // SAFETY: as this function asks.
    unsafe { set(options, body) }
}

/// A word, or NULL for none.
///
/// # Safety
/// It is NULL, or a string.
unsafe fn optional(given: *const c_char) -> CallResult<Option<OsBytes>> {
    // SAFETY: as this function asks.
    args::optional(given, |given| unsafe { args::os_bytes(given, "it") })
}

fn wrong(what: &str, backend: &str) -> CallError {
    CallError::new(LIBI_ERR_STATE, format!("{what} can be set after libi_options_via_ has chosen {backend}"))
}
