//! How processes are started on hosts.

use libc::{c_char, c_int};
use libi::{
    Backend, LaunchOptions, Local, OsBytes, Rsh, Shell, Srun, Ssh, SshHosts, SshProfile, Starter,
    UnfitCommand, UnknownClient,
};

use super::{libi_options, limit};
use crate::args::{self, from_c};
use crate::error::{CallError, CallResult};
use crate::hosts::{self, libi_hosts};
use crate::object::change;
use crate::result::libi_result::LIBI_ERR_STATE;
use crate::result::{libi_result, libi_timeout};

/// How processes are started on hosts. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_backend {
    /// As the environment variable LIBI_BACKEND says (a name such as "ssh", as of libi run
    /// --backend). Without it: directly, if all hosts are this machine; by srun inside a Slurm job,
    /// for nodes of the job; else by ssh, but directly on hosts that are this machine. A host is
    /// this machine if its entry has neither user nor port, and its name is localhost, the host name
    /// or an address of this machine.
    LIBI_BACKEND_AUTO = 0,
    /// All on this machine, whatever the names of the hosts: for tests.
    LIBI_BACKEND_LOCAL = 1,
    /// ssh, with the user's configuration.
    LIBI_BACKEND_SSH = 2,
    /// rsh. It sends in plaintext: see libi_options_set_allow_plain().
    LIBI_BACKEND_RSH = 3,
    /// The rsh of rsh-redone, as in Debian, whose options differ.
    LIBI_BACKEND_RSH_REDONE = 4,
    /// Another program that is called like ssh: its arguments, "-l USER" and "-p PORT" where the
    /// host list has them, the host, the command. It is killed when the process that called it
    /// ends; on this machine it must not exec the command if that is to be detached. qrsh and
    /// blaunch, which have neither option, are called as their manuals say.
    LIBI_BACKEND_SHELL = 5,
    /// A program that starts one command on many hosts: ClusterShell's clush, flux, or one that is
    /// called like clush: its arguments, the hosts separated by commas, the command. It copies its
    /// standard input to every command. Each host then connects to the front end.
    LIBI_BACKEND_STARTER = 6,
    /// Slurm's srun: one job step for all hosts, in the job in which the front end runs, or in a job
    /// of its own. Each host then connects to the front end.
    LIBI_BACKEND_SRUN = 7,
}

/// cbindgen:ignore
pub type libi_backend_arg = c_int;

/// Sets how processes are started on hosts, and resets all options of the backend. The default is
/// LIBI_BACKEND_AUTO. program is the path or name of the remote shell, which each launching host
/// looks up. NULL is the usual program; LIBI_BACKEND_SHELL has none; LIBI_BACKEND_AUTO and
/// LIBI_BACKEND_LOCAL ignore it.
///
/// Call it before the other functions for remote shells. Returns LIBI_OK, LIBI_ERR_NULL if a
/// needed program is NULL, or LIBI_ERR_ARGUMENT if there is no such backend or the program is known
/// not to work as one. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_backend(
    options: *mut libi_options,
    backend: libi_backend_arg,
    program: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let needed = || args::os_bytes(program, "the program");
            let chosen = from_c!(backend, "libi_backend", libi_backend {
                LIBI_BACKEND_AUTO => None,
                LIBI_BACKEND_LOCAL => Some(Backend::Local(Local)),
                LIBI_BACKEND_SSH => Some(Backend::Ssh(Ssh::new())),
                LIBI_BACKEND_RSH => Some(Backend::Rsh(Rsh::new())),
                LIBI_BACKEND_RSH_REDONE => Some(Backend::Rsh(Rsh::redone())),
                LIBI_BACKEND_SHELL => Some(Backend::Shell(Shell::of(fit(needed()?)?))),
                LIBI_BACKEND_SRUN => Some(Backend::Srun(Srun::new())),
                LIBI_BACKEND_STARTER => Some(Backend::Starter(Starter::of(optional(program)?.map(fit).transpose()?))),
            });
            options.backend = chosen?;
            if let Some(program) = optional(program)? {
                match &mut options.backend {
                    Some(Backend::Ssh(ssh)) => ssh.program = program,
                    Some(Backend::Rsh(rsh)) => rsh.program = program,
                    Some(Backend::Srun(srun)) => srun.program = program,
                    _ => {}
                }
            }
            Ok(())
        })
    }
}

/// Appends an argument that rsh, another shell, or a starter is called with, before all others; or
/// an option of srun, such as "--partition=debug", after libi's own.
///
/// Returns LIBI_OK, or LIBI_ERR_STATE if the backend is neither. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_add_shell_arg(
    options: *mut libi_options,
    arg: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let arg = args::os_bytes(arg, "the argument")?;
            match &mut options.backend {
                Some(Backend::Rsh(rsh)) => rsh.args.push(arg),
                Some(Backend::Shell(shell)) => shell.args.push(arg),
                Some(Backend::Starter(starter)) => starter.args.push(arg),
                Some(Backend::Srun(srun)) => srun.args.push(arg),
                _ => {
                    return Err(wrong("an argument", "rsh, another shell, a starter, or srun"));
                }
            }
            Ok(())
        })
    }
}

/// Sets how long a start by srun may wait for resources, 10 minutes by default. This time does not
/// count towards the deadline of the launch.
///
/// Returns LIBI_OK, LIBI_ERR_STATE if the backend is not srun, or LIBI_ERR_ARGUMENT if it is less
/// than 1 ms. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_queue_timeout(
    options: *mut libi_options,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let Some(Backend::Srun(srun)) = &mut options.backend else {
                return Err(wrong("the queue timeout", "srun"));
            };
            srun.queue_timeout = limit(timeout, "the queue timeout")?;
            Ok(())
        })
    }
}

/// Sets the option by which another shell takes a user; NULL if it has none. "-l" by default.
///
/// Returns LIBI_OK, or LIBI_ERR_STATE if the backend is not LIBI_BACKEND_SHELL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_shell_user_option(
    options: *mut libi_options,
    option: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let option = optional(option)?;
            let Some(Backend::Shell(shell)) = &mut options.backend else {
                return Err(wrong("the user option", "another shell"));
            };
            shell.user = option;
            Ok(())
        })
    }
}

/// Sets the option by which rsh or another shell takes a port; NULL if it has none.
///
/// Returns LIBI_OK, or LIBI_ERR_STATE if the backend is neither. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_shell_port_option(
    options: *mut libi_options,
    option: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let option = optional(option)?;
            match &mut options.backend {
                Some(Backend::Rsh(rsh)) => rsh.port = option,
                Some(Backend::Shell(shell)) => shell.port = option,
                _ => {
                    return Err(wrong("the port option", "rsh or another shell"));
                }
            }
            Ok(())
        })
    }
}

/// Sets the remote user of rsh for hosts whose entry does not say; NULL, the default, is the user
/// that runs the launching process.
///
/// Returns LIBI_OK, or LIBI_ERR_STATE if the backend is not rsh. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_rsh_user(
    options: *mut libi_options,
    user: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let user = args::optional(user, |user| args::text(user, "the user"))?.map(str::to_owned);
            let Some(Backend::Rsh(rsh)) = &mut options.backend else {
                return Err(wrong("the remote user", "rsh"));
            };
            rsh.user = user;
            Ok(())
        })
    }
}

/// Sets whether parts of the ssh configuration are replaced for speed. Such connections have no
/// post-quantum key exchange, no Kerberos and no compression, and do not learn new host keys.
/// Needs ssh 8.0.
///
/// Returns LIBI_OK, or LIBI_ERR_STATE if the backend is not ssh. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_ssh_fast(options: *mut libi_options, fast: bool) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            ssh_of(options)?.profile = if fast { SshProfile::Fast } else { SshProfile::Own };
            Ok(())
        })
    }
}

/// Sets which program makes connections of ssh: "openssh" is ssh, with one process for each host;
/// "builtin" is libi-ssh, one process for all; "auto", the default, is libi-ssh where that is
/// installed and does all that is configured for the host, and ssh elsewhere.
///
/// Returns LIBI_OK, LIBI_ERR_STATE if the backend is not ssh, or LIBI_ERR_ARGUMENT if no client has
/// this name. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_ssh_client(
    options: *mut libi_options,
    client: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let client = args::text(client, "the client")?;
            let client =
                client.parse().map_err(|error: UnknownClient| CallError::argument(error.to_string()))?;
            ssh_of(options)?.client = client;
            Ok(())
        })
    }
}

/// Sets the configuration file of ssh. Every launching host reads the file on its own machine.
/// NULL, the default, is the user's configuration.
///
/// Returns LIBI_OK, or LIBI_ERR_STATE if the backend is not ssh. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_ssh_config(
    options: *mut libi_options,
    path: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            ssh_of(options)?.config = optional(path)?;
            Ok(())
        })
    }
}

/// Adds an option of ssh as its configuration has it, such as "StrictHostKeyChecking=accept-new",
/// for some hosts or, if hosts is NULL, for all. Options for some hosts come before those for
/// all; of two that set the same, the first counts.
///
/// Returns LIBI_OK, LIBI_ERR_STATE if the backend is not ssh, or the first failure of the list.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_add_ssh_option(
    options: *mut libi_options,
    hosts: *const libi_hosts,
    option: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let ssh = ssh_of(options)?;
            let option = args::os_bytes(option, "the option")?;
            if hosts.is_null() {
                ssh.options.push(option);
            } else {
                ssh.hosts.push(SshHosts { hosts: hosts::copy(hosts)?, options: vec![option] });
            }
            Ok(())
        })
    }
}

/// Sets how long ssh may take to connect, rounded up to seconds; 10 s by default.
///
/// Returns LIBI_OK, LIBI_ERR_STATE if the backend is not ssh, or LIBI_ERR_ARGUMENT if it is less
/// than 1 ms. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_ssh_connect_timeout(
    options: *mut libi_options,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            ssh_of(options)?.connect_timeout = limit(timeout, "the connect timeout")?;
            Ok(())
        })
    }
}

/// The program, unless it is known not to work.
fn fit(program: OsBytes) -> CallResult<OsBytes> {
    match UnfitCommand::of(&program) {
        Some(unfit) => Err(CallError::argument(unfit.to_string())),
        None => Ok(program),
    }
}

fn ssh_of(options: &mut LaunchOptions) -> CallResult<&mut Ssh> {
    match &mut options.backend {
        Some(Backend::Ssh(ssh)) => Ok(ssh),
        _ => Err(wrong("an option of ssh", "ssh")),
    }
}

/// # Safety
/// It is NULL, or a string.
unsafe fn optional(string: *const c_char) -> CallResult<Option<OsBytes>> {
    // SAFETY: as for this function.
    args::optional(string, |string| unsafe { args::os_bytes(string, "the option") })
}

fn wrong(what: &str, backend: &str) -> CallError {
    let text = format!("{what} can be set after libi_options_set_backend() has chosen {backend}");
    CallError::new(LIBI_ERR_STATE, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{libi_options_free, libi_options_new};
    use crate::result::libi_result::{LIBI_ERR_ARGUMENT, LIBI_RESULT_OK};

    #[test]
    fn commands_of_resource_managers_are_called_as_their_manuals_say() {
        use libi_backend::{LIBI_BACKEND_SHELL, LIBI_BACKEND_STARTER};
        let options = libi_options_new();
        let set = |backend: libi_backend, program: &std::ffi::CStr| {
            // SAFETY: the options live until the end of the test, and the program is a string.
            unsafe { libi_options_set_backend(options, backend as libi_backend_arg, program.as_ptr()) }
        };
        for (backend, program, name) in
            [(LIBI_BACKEND_SHELL, c"/opt/qrsh", "/opt/qrsh"), (LIBI_BACKEND_STARTER, c"flux", "flux")]
        {
            assert_eq!(set(backend, program), LIBI_RESULT_OK);
            // SAFETY: as above.
            let found = unsafe {
                change(options, |options: &mut LaunchOptions| {
                    assert_eq!(options.backend, name.parse().ok());
                    Ok(())
                })
            };
            assert_eq!(found, LIBI_RESULT_OK);
        }
        assert_eq!(set(LIBI_BACKEND_SHELL, c"pbsdsh"), LIBI_ERR_ARGUMENT);
        // SAFETY: as above.
        unsafe { libi_options_free(options) };
    }
}
