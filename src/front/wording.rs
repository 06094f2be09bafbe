//! Decides how the failure of a host is described: the cause, the evidence, and the hint.

use libi_launch::backend::Backend;
use libi_launch::failure::{Cause, Exit, Failure, Phase};
use libi_launch::shell_error::ShellError;

/// The text of failures that share one line of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FailureText {
    /// Why the host is not in the session.
    pub(super) cause: String,
    /// How it was noticed, where that is not the cause itself.
    pub(super) known_by: Option<String>,
    /// The error of the remote shell that a hint refers to.
    pub(super) shell_error: Option<ShellError>,
}

impl FailureText {
    /// The text of a failure in a session that uses this remote shell, or none.
    pub(super) fn of(failure: &Failure, shell: Option<&str>) -> Self {
        // Without a remote shell, only the dynamic loader's errors are told apart from the program's.
        let is_known = |error: &ShellError| shell.is_some() || matches!(error, ShellError::LibraryMissing(_));
        let Some(shell_error) = failure.shell_error().filter(is_known) else {
            return Self { cause: plain_cause(failure), known_by: None, shell_error: None };
        };
        let cause = match failure.phase {
            Phase::Waiting | Phase::Starting => shell_error.to_string(),
            phase => format!("{shell_error} while {phase}"),
        };
        let shell = shell.unwrap_or_default();
        let known_by = match &failure.cause {
            Cause::Exited(Exit::Shell(status)) => format!("{shell} exited {status}"),
            Cause::Exited(_) if shell_error.is_from_shell() => format!("{shell} {}", failure.cause),
            cause => cause.to_string(),
        };
        Self { cause, known_by: Some(known_by), shell_error: Some(shell_error) }
    }

    /// What follows the name of a host that was replaced.
    pub(super) fn replaced_suffix(&self) -> String {
        format!(": {}", self.cause)
    }
}

/// The name of the remote shell; `None` if there is none.
pub(super) fn shell(backend: &Backend) -> Option<String> {
    let name = backend.to_string();
    let name = name.rsplit('/').next().unwrap_or_default();
    match backend {
        Backend::Local(_) => None,
        Backend::Shell(_) | Backend::Ssh(_) | Backend::Rsh(_) => Some(name.to_owned()),
    }
}

fn plain_cause(failure: &Failure) -> String {
    match (&failure.cause, failure.phase) {
        (Cause::Exited(Exit::Code(0)), Phase::Starting) => "exited 0 without joining".to_owned(),
        (cause @ Cause::Exited(_), Phase::Starting) => format!("{cause} before joining"),
        (Cause::LauncherLost(_), _) | (_, Phase::Waiting) => failure.cause.to_string(),
        (Cause::Cancelled | Cause::SettleElapsed, phase) => format!("{}, still {phase}", failure.cause),
        (cause, phase) => format!("{cause} while {phase}"),
    }
}

/// The hint for hosts with this error; `one` is one of them.
pub(super) fn advice(shell_error: &ShellError, is_rsh: bool, hosts: &str, one: &str) -> String {
    let shell = if is_rsh { "rsh" } else { "ssh" };
    let doctor = format!("`libi doctor {}{hosts}`", if is_rsh { "--shell rsh " } else { "" });
    match shell_error {
        ShellError::ConnectionRefused if is_rsh => {
            format!("does {one} have an rsh server, at this port?")
        }
        ShellError::ClosedBeforeLogin if is_rsh => format!(
            "the log of {one} says why: its server has to be able to connect back to ports from 512 on; inetd hangs up on everybody for ten minutes \
             when more than 256 calls come in one, or as its inetd.conf has it (nowait.0)"
        ),
        ShellError::LoginDenied if is_rsh => format!(
            "`{shell} {one} true` has to work, also from hosts that launch others: .rhosts or hosts.equiv of {one} name those hosts and users"
        ),
        ShellError::NoPort if is_rsh => {
            "each rsh needs two ports below 1024, and those that were used are free again after a minute; let more hosts launch (--tree late), or use ssh".to_owned()
        }
        ShellError::BadOptions if is_rsh => {
            "`man rsh` has its options; ports and reasons are known to that of rsh-redone alone".to_owned()
        }
        ShellError::NameUnknown => {
            format!("`getent hosts {one}` has to find it on whichever host launches it; is it written as it is called?")
        }
        ShellError::NameService => "list addresses in place of names, or give the name service a cache".to_owned(),
        ShellError::ConnectionRefused => format!("{doctor} finds out whether an ssh server listens there"),
        ShellError::TimedOut | ShellError::NoRoute => {
            format!("{doctor} finds out how far one gets; hosts that are switched off are best left out of the list")
        }
        ShellError::NoPort => "each host can launch fewer at a time through this shell; use ssh, or a tree".to_owned(),
        ShellError::ClosedBeforeLogin => {
            format!("servers take few logins at once: see MaxStartups in the sshd_config of {one}, and its log")
        }
        ShellError::NoCommonAlgorithm => {
            "the older side needs an algorithm that the newer one has given up; `man ssh_config` has the options".to_owned()
        }
        ShellError::HostKeyUnknown => {
            "let ssh know the keys in advance, or say StrictHostKeyChecking=accept-new if the network is trusted".to_owned()
        }
        ShellError::HostKeyChanged => {
            format!("find out why before you trust it; `ssh-keygen -R {one}` forgets the key that it had")
        }
        ShellError::LoginDenied => format!(
            "`ssh -o BatchMode=yes {one} true` has to work without a question, also from hosts that launch others"
        ),
        ShellError::NoPrivilegedPort => format!("{shell} has to be set-user-ID root, as it is when it is installed"),
        ShellError::LoginEnded => {
            format!("does the login shell on {one} run commands? `{shell} {one} true` shows it")
        }
        ShellError::DirectoryNotFound => format!("the directory has to be on {one} as well"),
        ShellError::ProgramNotExecutable => format!("is it executable on {one}, and built for its system?"),
        ShellError::ProgramNotFound => format!("is it installed on {one}, and in the PATH of a login without a terminal?"),
        ShellError::InterpreterMissing => {
            format!("the interpreter or dynamic loader that the program names has to be on {one}")
        }
        ShellError::LibraryMissing(name) => {
            format!("{name} is missing on {one}: link statically or with an rpath")
        }
        ShellError::BadOptions => "`ssh -V` says how old it is; look at the options and the configuration".to_owned(),
        ShellError::ShellNotFound => "install the remote shell, or name it with its path".to_owned(),
        ShellError::ConnectionLost | ShellError::ShellFailed => format!("{doctor} goes the way of a launch step by step"),
        _ => format!("{doctor} may know more"),
    }
}
