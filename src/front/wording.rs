//! Decides how the failure of a host is described: the cause, the evidence, and the hint.

use libi_core::ids::HostIndex;
use libi_launch::backend::{Backend, LaunchMethod};
use libi_launch::failure::{Cause, Exit, Failure, Phase};
use libi_launch::shell_error::ShellError;

/// The text of failures that share one line of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FailureText {
    /// Whether the failure of another host is the reason; these come last in a report.
    pub(super) is_consequence: bool,
    /// Why the host is not in the session.
    pub(super) cause: String,
    /// How it was noticed, where that is not the cause itself.
    pub(super) known_by: Option<String>,
    /// What a hint can refer to.
    pub(super) hint: Option<HintTopic>,
}

/// What a hint refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HintTopic {
    /// The remote shell, or the command it ran, has failed.
    Shell(ShellError),
    /// The program has ended well and has not joined.
    NeverJoined,
    /// The program has failed before it joined, and has printed nothing.
    FailedSilently,
    /// The program did not say hello in time.
    Hangs,
    /// The program is not where it was searched.
    NotFound,
    /// The program may not be executed.
    NotExecutable,
}

impl HintTopic {
    /// What a hint says about a failure in which no remote shell is involved.
    fn of(failure: &Failure) -> Option<Self> {
        let is_silent = failure.evidence().is_empty();
        match (&failure.cause, failure.phase) {
            _ if never_joined(failure) => Some(Self::NeverJoined),
            (Cause::Exited(_), Phase::Starting) if is_silent => Some(Self::FailedSilently),
            (Cause::TimedOut, Phase::Starting) => Some(Self::Hangs),
            (Cause::NotStarted(why), _) if why.contains(": not found in PATH=") => Some(Self::NotFound),
            (Cause::NotStarted(why), _) if why.starts_with("exec ") => match why.rsplit(": ").next() {
                Some("No such file or directory") => Some(Self::NotFound),
                Some("Permission denied") => Some(Self::NotExecutable),
                _ => None,
            },
            _ => None,
        }
    }
}

impl FailureText {
    /// The text of a failure in a session that uses this remote shell, or none. `lost_launcher`
    /// describes a host that was to launch this one and is lost.
    pub(super) fn of(
        failure: &Failure,
        shell: Option<&str>,
        lost_launcher: impl FnOnce(HostIndex) -> String,
    ) -> Self {
        // Without a remote shell, only errors of the dynamic loader can be told from the program's.
        let is_known = |error: &ShellError| shell.is_some() || matches!(error, ShellError::LibraryMissing(_));
        let Some(shell_error) = failure.shell_error().filter(is_known) else {
            let hint = HintTopic::of(failure);
            let cause = plain_cause(failure, lost_launcher);
            return Self { is_consequence: false, cause, known_by: None, hint };
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
        let hint = Some(HintTopic::Shell(shell_error));
        Self { is_consequence: false, cause, known_by: Some(known_by), hint }
    }

    /// The text for a host that was given up because another one failed; `None` for other causes.
    pub(super) fn of_consequence(
        failure: &Failure,
        attempts: u32,
        name: impl Fn(HostIndex) -> String,
    ) -> Option<Self> {
        let what = if attempts == 0 { "not tried" } else { "given up" };
        let cause = match failure.cause {
            Cause::MasterFailed(host) => format!("{what}: {} has the master, and failed", name(host)),
            Cause::LaunchFailed(host) => {
                format!("{what}: the launch had already failed with {}", name(host))
            }
            _ => return None,
        };
        Some(Self { is_consequence: true, cause, known_by: None, hint: None })
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
    (!backend.is_local()).then(|| name.to_owned())
}

fn never_joined(failure: &Failure) -> bool {
    failure.cause == Cause::Exited(Exit::Code(0)) && failure.phase == Phase::Starting
}

/// The cause of a failure in which no remote shell is involved.
pub(super) fn plain_cause(failure: &Failure, lost_launcher: impl FnOnce(HostIndex) -> String) -> String {
    match (&failure.cause, failure.phase) {
        _ if never_joined(failure) => "exited 0 without joining".to_owned(),
        (cause @ Cause::Exited(_), Phase::Starting) => format!("{cause} before joining"),
        (Cause::LauncherLost(launcher), _) => {
            format!("lost with its launcher {}", lost_launcher(*launcher))
        }
        // A host that is up is lost without being in the middle of anything.
        (cause, Phase::Waiting | Phase::Joined) => cause.to_string(),
        (cause @ (Cause::NotStarted(_) | Cause::OutOfResources(_)), _) => cause.to_string(),
        (cause @ (Cause::StarterExited(_) | Cause::NotStaged(_)), _) => cause.to_string(),
        (Cause::Cancelled | Cause::SettleElapsed, phase) => format!("{}, still {phase}", failure.cause),
        (cause, phase) => format!("{cause} while {phase}"),
    }
}

/// The hint for hosts with this failure; `one` is one of them.
pub(super) fn advice(topic: &HintTopic, backend: &Backend, hosts: &str, one: &str) -> String {
    match topic {
        HintTopic::NeverJoined => "the program ended without calling Member::init (in C, libi_member_init): \
             is it built with libi, and was this the right program?"
            .to_owned(),
        HintTopic::FailedSilently => format!(
            "the program ended before Member::init (in C, libi_member_init) and printed nothing: run it by \
             hand on {one} to see why"
        ),
        HintTopic::Hangs => {
            "the program did not call Member::init (in C, libi_member_init) in time: does it \
             use libi, and what does it wait for? Rules::hello_timeout allows more time"
                .to_owned()
        }
        HintTopic::NotFound => "check the path of the program: a relative one starts in the working \
             directory, and a name without a slash is searched in PATH"
            .to_owned(),
        HintTopic::NotExecutable => {
            "check that the program is a file, not a directory, and that its mode allows to execute it"
                .to_owned()
        }
        HintTopic::Shell(shell_error) => backend
            .advice(shell_error, hosts, one)
            .unwrap_or_else(|| shell_advice(shell_error, backend, hosts, one)),
    }
}

fn shell_advice(shell_error: &ShellError, backend: &Backend, hosts: &str, one: &str) -> String {
    let shell = shell(backend).unwrap_or_else(|| "ssh".to_owned());
    let doctor = match backend.to_string().as_str() {
        _ if backend.is_local() => format!("`libi doctor {hosts}`"),
        // A starter reaches its hosts through ssh.
        _ if backend.bulk().is_some() => format!("`libi doctor {hosts}`"),
        "ssh" => format!("`libi doctor {hosts}`"),
        program => format!("`libi doctor --backend {program} {hosts}`"),
    };
    match shell_error {
        ShellError::NameUnknown => {
            format!("check the spelling; `getent hosts {one}` has to find it on the host that launches it")
        }
        ShellError::NameService => "list addresses instead of names, or cache the name service".to_owned(),
        ShellError::ConnectionRefused => format!("{doctor} tells whether an ssh server listens there"),
        ShellError::TimedOut | ShellError::NoRoute => {
            format!("{doctor} tells how far a connection gets; leave out hosts that are switched off")
        }
        ShellError::NoPort => {
            "each host can launch only a few others at a time through this shell: use ssh, or a tree"
                .to_owned()
        }
        ShellError::ClosedBeforeLogin => format!(
            "the server limits concurrent logins: see MaxStartups in the sshd_config of {one}, and its log"
        ),
        ShellError::NoCommonAlgorithm => {
            "the older side needs an algorithm that the newer one has disabled: see `man ssh_config`"
                .to_owned()
        }
        ShellError::HostKeyUnknown => "add the host keys to known_hosts, or use \
             StrictHostKeyChecking=accept-new if the network is trusted"
            .to_owned(),
        ShellError::HostKeyChanged => {
            format!(
                "if the host was reinstalled, `ssh-keygen -R {one}` removes the old key; otherwise beware"
            )
        }
        ShellError::LoginDenied => format!(
            "`ssh -o BatchMode=yes {one} true` has to work without a question, also from hosts \
             that launch others"
        ),
        ShellError::NoPrivilegedPort => format!("{shell} has to be set-user-ID root, as packages install it"),
        ShellError::LoginEnded => {
            format!("check with `{shell} {one} true` that the login shell on {one} runs commands")
        }
        ShellError::DirectoryNotFound => format!("the directory has to exist on {one} as well"),
        ShellError::ProgramNotExecutable => {
            format!("check that the program is executable on {one}, and built for its system")
        }
        ShellError::ProgramNotFound => format!(
            "check that the program is installed on {one}, and in the PATH of a login without a terminal"
        ),
        ShellError::BadOptions => {
            "check the options, the configuration, and the age of ssh (`ssh -V`)".to_owned()
        }
        ShellError::ShellNotFound => "install the remote shell, or give its path".to_owned(),
        ShellError::ConnectionLost | ShellError::ShellFailed => {
            format!("{doctor} tries each step of a launch")
        }
        ShellError::InterpreterMissing => {
            format!("the interpreter or dynamic loader that the program names has to exist on {one}")
        }
        ShellError::LibraryMissing(name) => {
            format!("{name} is missing on {one}: link statically or with an rpath")
        }
        _ => format!("{doctor} may know more"),
    }
}
