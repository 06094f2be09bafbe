//! Back-ends by name, and from their own types.

use std::str::FromStr;

use libi_core::dist::{OsBytes, OsBytesError};

use super::Backend;
use super::managers::UnfitCommand;

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
    /// The program is a command of a resource manager that cannot start members.
    #[error("{0}")]
    Unfit(UnfitCommand),
}

/// Reads `local`, or the program of a remote shell or a [`Starter`](super::Starter), with or
/// without its directory. A program named `ssh` is called as OpenSSH's, one named `rsh` as rsh, a
/// starter or a command of a resource manager as its manual says, any other as a
/// [`Shell`](super::Shell).
impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(text: &str) -> Result<Self, BackendError> {
        let program = OsBytes::try_from(text)?;
        if text.is_empty() || text.ends_with('/') {
            return Err(BackendError::Empty);
        }
        if let Some(unfit) = UnfitCommand::of(&program) {
            return Err(BackendError::Unfit(unfit));
        }
        Self::first_called(&program).ok_or(BackendError::Empty)
    }
}

/// The name of a program without its directory.
pub(super) fn file_name(program: &OsBytes) -> &[u8] {
    program.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{Local, Rsh, Ssh};
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
        assert!(matches!(named("/opt/bin/flux"), Ok(Backend::Starter(_))));
        assert_eq!(
            named("/opt/pbs/bin/pbs_tmrsh").unwrap_err().to_string(),
            "pbs_tmrsh cannot start members: it does not connect the standard input and output of what it \
             starts; use ssh"
        );
        assert_eq!(named(""), Err(BackendError::Empty));
        assert_eq!(named("/usr/bin/"), Err(BackendError::Empty));
        assert!(matches!(named("s\0h"), Err(BackendError::Nul(_))));
    }
}
