//! How hosts are called: as a launch would do it, with the probe in the place of the program.
//!
//! [`via`] alone knows which options `ssh` gets.

use std::time::Duration;

use libi::dist::Word;
use libi::hosts::HostRef;
use libi::ids::HostIndex;
use libi::{Shell, Via};
use libi_launch::backend::{Backend, Recipe, Refused};
use libi_launch::machine::{Program, Task};

/// How `ssh` is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// As the user has configured it.
    Own,
    /// With the key exchange first that costs the least, and nothing that is of no use to a launch.
    Fast,
}

/// The back-end that this program stands for; none is this machine. `ssh` says what it does, never asks, and gives up
/// connecting after this time.
pub(super) fn via(program: Option<&Word>, profile: Profile, timeout: Duration) -> Via {
    let Some(program) = program else { return Via::default() };
    let mut shell = Shell::new(program.clone());
    if is_ssh(program) {
        // It says why, if it is the first to give up.
        let seconds = timeout.as_secs().saturating_sub(1).max(1);
        let mut args: Vec<String> = ["-v", "-T", "-o", "BatchMode=yes", "-o"].map(str::to_owned).to_vec();
        args.push(format!("ConnectTimeout={seconds}"));
        if profile == Profile::Fast {
            for option in [
                "KexAlgorithms=^curve25519-sha256,curve25519-sha256@libssh.org",
                "GSSAPIAuthentication=no",
                "Compression=no",
            ] {
                args.extend(["-o".to_owned(), option.to_owned()]);
            }
        }
        shell.args = args.iter().filter_map(|arg| Word::try_from(arg.as_str()).ok()).collect();
    }
    Via::Shell(shell)
}

/// Whether a program is `ssh`, by its name: only then it is told to speak of what it does.
pub(super) fn is_ssh(program: &Word) -> bool {
    program.as_bytes().rsplit(|byte| *byte == b'/').next() == Some(b"ssh")
}

/// What to start here so that the shell of a host runs a script.
pub(super) fn recipe(via: &Via, host: HostRef<'_>, script: &str) -> Result<Recipe, Refused> {
    // None of these holds a NUL.
    let word = |text: &str| Word::try_from(text).unwrap_or_default();
    let program = Program {
        executable: word("/bin/sh"),
        args: vec![word("-c"), word(script)],
        env: Vec::new(),
        cwd: None,
    };
    let task = Task {
        host: HostIndex(0),
        attempt: libi::plan::late::Attempt::default(),
        name: host.name.to_owned(),
        below: 0,
        faults: 0,
        user: host.user.map(str::to_owned),
        port: host.port,
        blocks: Vec::new(),
    };
    via.recipe(&task, &program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(program: &str, profile: Profile) -> Vec<String> {
        let program = Word::try_from(program).unwrap();
        let via = via(Some(&program), profile, Duration::from_millis(2_500));
        let host = HostRef { user: Some("me"), ..HostRef::new("n1") };
        recipe(&via, host, "echo x").unwrap().args.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ssh_speaks_and_never_asks() {
        let own = words("/opt/bin/ssh", Profile::Own);
        let options = ["-v", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1", "-l", "me", "n1"];
        assert_eq!(own[..9], options);
        assert!(own[9].ends_with("/bin/sh -c 'echo x'"), "{}", own[9]);
        assert_eq!(words("ssh", Profile::Fast).len(), own.len() + 6);
    }

    #[test]
    fn other_programs_get_no_options_of_ssh() {
        assert_eq!(words("rsh", Profile::Own)[..3], ["-l", "me", "n1"]);
        assert_eq!(words("./ssh-wrapper", Profile::Own)[..3], ["-l", "me", "n1"]);
    }
}
