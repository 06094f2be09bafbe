//! Back-ends by name, and from their own types.

use std::str::FromStr;

use libi_core::dist::{OsBytes, OsBytesError};

use super::{Backend, Local, Rsh, Shell, Ssh};

/// A text that names no back-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The text is empty.
    #[error("the name of the back-end is empty: expected local, ssh, rsh, or a remote shell")]
    Empty,
    /// The text holds a NUL.
    #[error("the name of the back-end: {0}")]
    Nul(#[from] OsBytesError),
}

/// Reads `local`, or the program of a remote shell, with or without its directory. A program named
/// `ssh` is called as OpenSSH's, one named `rsh` as rsh, any other as a [`Shell`].
impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(text: &str) -> Result<Self, BackendError> {
        let program = OsBytes::try_from(text)?;
        Ok(match text.rsplit('/').next().unwrap_or_default() {
            "" => return Err(BackendError::Empty),
            "local" if text == "local" => Self::Local(Local),
            "ssh" => Self::Ssh(Ssh { program, ..Ssh::new() }),
            "rsh" => Self::Rsh(Rsh { program, ..Rsh::new() }),
            _ => Self::Shell(Shell::new(program)),
        })
    }
}

impl From<Local> for Backend {
    fn from(local: Local) -> Self {
        Self::Local(local)
    }
}

impl From<Ssh> for Backend {
    fn from(ssh: Ssh) -> Self {
        Self::Ssh(ssh)
    }
}

impl From<Rsh> for Backend {
    fn from(rsh: Rsh) -> Self {
        Self::Rsh(rsh)
    }
}

impl From<Shell> for Backend {
    fn from(shell: Shell) -> Self {
        Self::Shell(shell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_the_back_end() {
        let named = |text: &str| text.parse::<Backend>();
        assert_eq!(named("local"), Ok(Backend::Local(Local)));
        assert_eq!(named("ssh"), Ok(Backend::Ssh(Ssh::new())));
        assert_eq!(named("rsh"), Ok(Backend::Rsh(Rsh::new())));
        assert!(
            matches!(named("/opt/bin/ssh"), Ok(Backend::Ssh(ssh)) if ssh.program.as_bytes() == b"/opt/bin/ssh")
        );
        for shell in ["blaunch", "./local", "/opt/sshlike"] {
            assert!(matches!(named(shell), Ok(Backend::Shell(_))), "{shell}");
        }
        assert_eq!(named(""), Err(BackendError::Empty));
        assert_eq!(named("/usr/bin/"), Err(BackendError::Empty));
        assert!(matches!(named("s\0h"), Err(BackendError::Nul(_))));
    }
}
