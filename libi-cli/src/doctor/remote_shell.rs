//! Builds the remote shell command of an examination: the one that a launch would use, with the
//! probe in place of the launched program.
//!
//! Only [`backend`] knows the options of `ssh`.

use std::time::Duration;

use libi::hosts::HostRef;
use libi::{Backend, Ssh, SshProfile};
use libi_core::dist::OsBytes;
use libi_core::ids::HostIndex;
use libi_launch::backend::{LaunchMethod, SpawnSpec, SpecError};
use libi_launch::machine::{HostSpec, Program};

use crate::backend::{BackendChoice, other, rsh};

/// The back-end of an examination. `ssh` is made verbose and gets a connect timeout a little shorter
/// than `timeout`.
pub(super) fn backend(choice: &BackendChoice, profile: SshProfile, timeout: Duration) -> Backend {
    let program = match choice {
        BackendChoice::Local => return Backend::default(),
        BackendChoice::Rsh(program) => return Backend::Rsh(rsh(program)),
        BackendChoice::Program(program) => return other(program),
        BackendChoice::Ssh(program) => program,
    };
    // ssh has to time out before the examination does, because ssh reports the reason.
    let connect_timeout = timeout.saturating_sub(Duration::from_secs(1));
    let options = OsBytes::try_from("LogLevel=DEBUG1").into_iter().collect();
    Backend::Ssh(Ssh { program: program.clone(), profile, options, connect_timeout, ..Ssh::new() })
}

/// The command to start on this machine so that a shell on the host runs `script`.
pub(super) fn spawn_spec(backend: &Backend, host: HostRef<'_>, script: &str) -> Result<SpawnSpec, SpecError> {
    backend.spawn_spec(&host_spec(host), &shell_program(&["-c", script]))
}

/// A shell with these arguments.
pub(super) fn shell_program(args: &[&str]) -> Program {
    // None of these strings contains a NUL byte.
    let os_bytes = |text: &str| OsBytes::try_from(text).unwrap_or_default();
    let args = args.iter().map(|arg| os_bytes(arg)).collect();
    Program { executable: os_bytes("/bin/sh"), args, env: Vec::new(), cwd: None }
}

/// The host as back-ends take it.
pub(super) fn host_spec(host: HostRef<'_>) -> HostSpec {
    HostSpec {
        host: HostIndex(0),
        attempt: libi_core::plan::late::Attempt::default(),
        name: host.name.to_owned(),
        below: 0,
        faults: 0,
        restarts: 0,
        user: host.user.map(str::to_owned),
        port: host.port,
        blocks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(program: &str, profile: SshProfile) -> Vec<String> {
        let choice = BackendChoice::parse(program, &libi::HostList::new()).unwrap();
        let backend = backend(&choice, profile, Duration::from_millis(2_500));
        let host = HostRef { user: Some("me"), ..HostRef::new("n1") };
        spawn_spec(&backend, host, "echo x").unwrap().args.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ssh_is_verbose_and_never_prompts() {
        let own = args("/opt/bin/ssh", SshProfile::Own);
        for option in ["LogLevel=DEBUG1", "BatchMode=yes", "ConnectTimeout=2"] {
            assert!(own.iter().any(|arg| arg == option), "{own:?} without {option}");
        }
        assert!(
            own.last().unwrap().contains("/bin/sh -c") && own.last().unwrap().contains("echo"),
            "{own:?}"
        );
        assert!(args("ssh", SshProfile::Fast).len() > own.len());
    }

    #[test]
    fn other_programs_get_no_options_of_ssh() {
        let rsh = args("rsh", SshProfile::Own);
        assert_eq!(rsh[rsh.len() - 4..rsh.len() - 1], ["-l", "me", "n1"]);
        assert!(!rsh.iter().any(|arg| arg.contains("LogLevel")), "{rsh:?}");
        assert_eq!(args("./ssh-wrapper", SshProfile::Own)[..3], ["-l", "me", "n1"]);
    }
}
