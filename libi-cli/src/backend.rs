//! Decides how hosts are reached: the option `--backend`, shared by `libi run` and `libi doctor`.

use std::path::PathBuf;

use libi::{Backend, HostList, OsBytes, Rsh, Shell};
use libi_launch::backend::{LaunchMethod, UnfitCommand};

use crate::output::CliError;

/// The default: what the library chooses for the hosts.
pub(crate) const AUTO: &str = "auto";

/// How hosts are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BackendChoice {
    /// All hosts are this machine.
    Local,
    /// `ssh`, or a program with that file name.
    Ssh(OsBytes),
    /// `rsh`, or a program with that file name.
    Rsh(OsBytes),
    /// Another program: a starter, or a remote shell that is called as ssh is.
    Program(OsBytes),
}

impl BackendChoice {
    /// Parses the option, and fails if the remote shell program is not in the search path.
    pub(crate) fn new(text: &str, hosts: &HostList) -> Result<Self, CliError> {
        let choice = Self::parse(text, hosts)?;
        match choice.program().map(ToString::to_string) {
            Some(name) if !name.contains('/') && find(&name).is_none() => Err(CliError::NoBackend(name)),
            _ => Ok(choice),
        }
    }

    /// Parses `auto`, `local` or a program. `auto` is what the library chooses for these hosts.
    pub(crate) fn parse(text: &str, hosts: &HostList) -> Result<Self, CliError> {
        let program = |name: &str| {
            OsBytes::try_from(name).map_err(|error| CliError::Usage(format!("--backend {name}: {error}")))
        };
        Ok(match (text, text.rsplit('/').next()) {
            ("", _) => return Err(CliError::Usage("--backend needs a name".to_owned())),
            (AUTO, _) => Self::automatic(hosts)?,
            ("local" | "none", _) => Self::Local,
            (_, Some("ssh")) => Self::Ssh(program(text)?),
            (_, Some("rsh")) => Self::Rsh(program(text)?),
            _ => {
                let program = program(text)?;
                match UnfitCommand::of(&program) {
                    Some(unfit) => return Err(CliError::Usage(format!("--backend {text}: {unfit}"))),
                    None => Self::Program(program),
                }
            }
        })
    }

    /// The back-end that the library chooses for these hosts.
    fn automatic(hosts: &HostList) -> Result<Self, CliError> {
        let (backend, _) = libi::auto_backend(hosts)
            .map_err(|error| CliError::Usage(format!("{}: {error}", libi::BACKEND_ENV)))?;
        let program = OsBytes::try_from(backend.to_string().as_str());
        let program = program.map_err(|error| CliError::Usage(error.to_string()))?;
        Ok(match backend {
            Backend::Local(_) => Self::Local,
            Backend::Ssh(_) => Self::Ssh(program),
            Backend::Rsh(_) => Self::Rsh(program),
            _ => Self::Program(program),
        })
    }

    /// The remote shell program; `None` if there is none.
    pub(crate) fn program(&self) -> Option<&OsBytes> {
        match self {
            Self::Local => None,
            Self::Ssh(program) | Self::Rsh(program) | Self::Program(program) => Some(program),
        }
    }
}

/// The back-end for another program: by its file name, or as a remote shell.
pub(crate) fn other(program: &OsBytes) -> Backend {
    Backend::called(program).unwrap_or_else(|| Backend::Shell(Shell::new(program.clone())))
}

/// The back-end for a program named `rsh`, with the options of the one installed on this machine:
/// the client of rsh-redone has more. Hosts that launch others are expected to have the same one.
pub(crate) fn rsh(program: &OsBytes) -> Rsh {
    let file = find(&program.to_string()).and_then(|file| file.canonicalize().ok());
    let is_redone =
        |file: PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().contains("redone"));
    let rsh = if file.is_some_and(is_redone) { Rsh::redone() } else { Rsh::new() };
    Rsh { program: program.clone(), ..rsh }
}

/// The file of a program: the path itself if it contains a slash, else the first match in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(text: &str, hosts: &str) -> BackendChoice {
        BackendChoice::parse(text, &HostList::parse(hosts).unwrap()).unwrap()
    }

    #[test]
    fn only_this_machine_is_local_by_default() {
        for hosts in ["localhost:4,127.0.0.1", "localhost*2", ""] {
            assert_eq!(choice("auto", hosts), BackendChoice::Local, "{hosts}");
        }
        for hosts in ["supercomputer[1-3]", "localhost,n1", "me@localhost", "localhost:22:1"] {
            assert!(matches!(choice("auto", hosts), BackendChoice::Ssh(_)), "{hosts}");
        }
    }

    #[test]
    fn programs_are_known_by_their_file_names() {
        assert_eq!(choice("local", "n1"), BackendChoice::Local);
        assert_eq!(
            choice("/opt/bin/ssh", "n1"),
            BackendChoice::Ssh(OsBytes::try_from("/opt/bin/ssh").unwrap())
        );
        assert!(matches!(choice("./rsh", "n1"), BackendChoice::Rsh(_)));
        assert!(matches!(choice("./ssh-tool", "n1"), BackendChoice::Program(_)));
        let other = |name: &str| other(&OsBytes::try_from(name).unwrap());
        assert!(matches!(other("./ssh-tool"), Backend::Shell(_)));
        assert!(matches!(other("/usr/bin/clush"), Backend::Starter(_)));
        assert!(matches!(other("/usr/bin/flux"), Backend::Starter(_)));
        assert!(matches!(other("/opt/ge/bin/qrsh"), Backend::Shell(shell) if shell.args.len() == 1));
    }

    #[test]
    fn a_command_that_cannot_start_members_is_refused_with_the_reason() {
        let refused = BackendChoice::parse("/opt/pbs/bin/pbsdsh", &HostList::parse("n1").unwrap());
        assert!(matches!(refused, Err(CliError::Usage(text)) if text.contains("standard input and output")));
    }

    #[test]
    fn a_program_that_is_not_in_the_path_is_an_error() {
        let error = BackendChoice::new("no-such-shell", &HostList::new());
        assert!(matches!(error, Err(CliError::NoBackend(name)) if name == "no-such-shell"));
    }
}
