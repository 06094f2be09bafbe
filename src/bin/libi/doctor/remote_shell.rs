//! Builds the remote shell command of an examination: the one that a launch would use, with the
//! probe in place of the launched program.
//!
//! Only [`backend`] knows the options of `ssh`.

use std::time::Duration;

use libi::dist::OsBytes;
use libi::hosts::HostRef;
use libi::ids::HostIndex;
use libi::{Backend, Shell, Ssh, SshProfile};
use libi_launch::backend::{LaunchMethod, SpawnSpec, SpecError};
use libi_launch::machine::{HostSpec, Program};

/// The back-end for this remote shell program; `None` is this machine. `ssh` is made verbose and
/// gets a connect timeout a little shorter than `timeout`.
pub(super) fn backend(program: Option<&OsBytes>, profile: SshProfile, timeout: Duration) -> Backend {
    let Some(program) = program else { return Backend::default() };
    if let Some(rsh) = crate::rsh::rsh_backend(program) {
        return Backend::Rsh(rsh);
    }
    if !is_ssh(program) {
        return Backend::Shell(Shell::new(program.clone()));
    }
    // ssh has to time out before the examination does, because ssh reports the reason.
    let connect_timeout = timeout.saturating_sub(Duration::from_secs(1));
    let options = OsBytes::try_from("LogLevel=DEBUG1").into_iter().collect();
    Backend::Ssh(Ssh { program: program.clone(), profile, options, connect_timeout, ..Ssh::new() })
}

/// Whether a program is `ssh`, by its file name. Other programs get no options of ssh.
pub(super) fn is_ssh(program: &OsBytes) -> bool {
    program.as_bytes().rsplit(|byte| *byte == b'/').next() == Some(b"ssh")
}

/// The command to start on this machine so that a shell on the host runs `script`.
pub(super) fn spawn_spec(backend: &Backend, host: HostRef<'_>, script: &str) -> Result<SpawnSpec, SpecError> {
    // None of these strings contains a NUL byte.
    let os_bytes = |text: &str| OsBytes::try_from(text).unwrap_or_default();
    let program = Program {
        executable: os_bytes("/bin/sh"),
        args: vec![os_bytes("-c"), os_bytes(script)],
        env: Vec::new(),
        cwd: None,
    };
    let host_spec = HostSpec {
        host: HostIndex(0),
        attempt: libi::plan::late::Attempt::default(),
        name: host.name.to_owned(),
        below: 0,
        faults: 0,
        user: host.user.map(str::to_owned),
        port: host.port,
        blocks: Vec::new(),
    };
    backend.spawn_spec(&host_spec, &program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(program: &str, profile: SshProfile) -> Vec<String> {
        let program = OsBytes::try_from(program).unwrap();
        let backend = backend(Some(&program), profile, Duration::from_millis(2_500));
        let host = HostRef { user: Some("me"), ..HostRef::new("n1") };
        spawn_spec(&backend, host, "echo x").unwrap().args.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ssh_is_verbose_and_never_prompts() {
        let own = args("/opt/bin/ssh", SshProfile::Own);
        for option in ["LogLevel=DEBUG1", "BatchMode=yes", "ConnectTimeout=2"] {
            assert!(own.iter().any(|os_bytes| os_bytes == option), "{own:?} without {option}");
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
        assert!(!rsh.iter().any(|os_bytes| os_bytes.contains("LogLevel")), "{rsh:?}");
        assert_eq!(args("./ssh-wrapper", SshProfile::Own)[..3], ["-l", "me", "n1"]);
    }
}
