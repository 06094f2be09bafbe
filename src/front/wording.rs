//! Decides how the failure of a host is put into words: the cause, by what it is known, and what to do next.

use libi_launch::backend::Via;
use libi_launch::refusal::Refusal;
use libi_launch::verdict::{Cause, Exit, Failure, Phase};

/// Failures that are told in one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Words {
    /// Why the host is not in the session.
    pub(super) cause: String,
    /// What says so, where that is not the same.
    pub(super) known_by: Option<String>,
    /// What there may be advice on.
    pub(super) refusal: Option<Refusal>,
}

impl Words {
    /// What to say of a failure, in a session whose hosts are reached by this remote shell, or by none.
    pub(super) fn of(failure: &Failure, shell: Option<&str>) -> Self {
        let Some((shell, refusal)) = shell.zip(failure.refusal()) else {
            return Self { cause: plainly(failure), known_by: None, refusal: None };
        };
        let cause = match failure.phase {
            Phase::Waiting | Phase::Starting => refusal.to_string(),
            phase => format!("{refusal} while {phase}"),
        };
        let known_by = match &failure.cause {
            Cause::Exited(Exit::Shell(status)) => format!("{shell} exited {status}"),
            Cause::Exited(_) if refusal.is_the_shells() => format!("{shell} {}", failure.cause),
            cause => cause.to_string(),
        };
        Self { cause, known_by: Some(known_by), refusal: Some(refusal) }
    }

    /// What follows the name of a machine that was replaced.
    pub(super) fn of_the_replaced(&self) -> String {
        match self.refusal {
            Some(_) => format!(": {}", self.cause),
            None => format!(", which {}", self.cause),
        }
    }
}

/// How the program that reaches hosts is called; nothing if there is none.
pub(super) fn shell(via: &Via) -> Option<String> {
    let name = via.to_string();
    let name = name.rsplit('/').next().unwrap_or_default();
    match via {
        Via::Local(_) => None,
        Via::Shell(_) | Via::Ssh(_) | Via::Rsh(_) => Some(name.to_owned()),
    }
}

fn plainly(failure: &Failure) -> String {
    match (&failure.cause, failure.phase) {
        (Cause::Exited(Exit::Code(0)), Phase::Starting) => "exited 0 without joining".to_owned(),
        (cause @ Cause::Exited(_), Phase::Starting) => format!("{cause} before joining"),
        (Cause::LauncherLost(_), _) | (_, Phase::Waiting) => failure.cause.to_string(),
        (Cause::Abandoned, phase) => format!("{}, still {phase}", failure.cause),
        (cause, phase) => format!("{cause} while {phase}"),
    }
}

/// What to do about hosts that this has befallen, reached by rsh or not; `one` is one of them.
pub(super) fn advice(refusal: Refusal, is_rsh: bool, hosts: &str, one: &str) -> String {
    let shell = if is_rsh { "rsh" } else { "ssh" };
    let doctor = format!("`libi doctor {}{hosts}`", if is_rsh { "--shell rsh " } else { "" });
    match refusal {
        Refusal::ConnectionRefused if is_rsh => {
            format!("does {one} have an rsh server, at this port?")
        }
        Refusal::HungUp if is_rsh => format!(
            "the log of {one} says why: its server has to be able to connect back to ports from 512 on; inetd hangs up on everybody for ten minutes \
             when more than 256 calls come in one, or as its inetd.conf has it (nowait.0)"
        ),
        Refusal::NotLetIn if is_rsh => format!(
            "`{shell} {one} true` has to work, also from hosts that launch others: .rhosts or hosts.equiv of {one} name those hosts and users"
        ),
        Refusal::NoPort if is_rsh => {
            "each rsh needs two ports below 1024, and those that were used are free again after a minute; let more hosts launch (--tree late), or use ssh".to_owned()
        }
        Refusal::BadOptions if is_rsh => {
            "`man rsh` has its options; ports and reasons are known to that of rsh-redone alone".to_owned()
        }
        Refusal::NameUnknown => {
            format!("`getent hosts {one}` has to find it on whichever host launches it; is it written as it is called?")
        }
        Refusal::NameService => "list addresses in place of names, or give the name service a cache".to_owned(),
        Refusal::ConnectionRefused => format!("{doctor} finds out whether an ssh server listens there"),
        Refusal::TimedOut | Refusal::NoRoute => {
            format!("{doctor} finds out how far one gets; hosts that are switched off are best left out of the list")
        }
        Refusal::NoPort => "each host can launch fewer at a time through this shell; use ssh, or a tree".to_owned(),
        Refusal::HungUp => {
            format!("servers take few logins at once: see MaxStartups in the sshd_config of {one}, and its log")
        }
        Refusal::NoAlgorithm => {
            "the older side needs an algorithm that the newer one has given up; `man ssh_config` has the options".to_owned()
        }
        Refusal::HostKeyUnknown => {
            "let ssh know the keys in advance, or say StrictHostKeyChecking=accept-new if the network is trusted".to_owned()
        }
        Refusal::HostKeyChanged => {
            format!("find out why before you trust it; `ssh-keygen -R {one}` forgets the key that it had")
        }
        Refusal::NotLetIn => format!(
            "`ssh -o BatchMode=yes {one} true` has to work without a question, also from hosts that launch others"
        ),
        Refusal::NotPrivileged => format!("{shell} has to be set-user-ID root, as it is when it is installed"),
        Refusal::LoginEnded => {
            format!("does the login shell on {one} run commands? `{shell} {one} true` shows it")
        }
        Refusal::NoDirectory => format!("the directory has to be on {one} as well"),
        Refusal::NotExecutable => format!("is it executable on {one}, and built for its system?"),
        Refusal::NotFound => format!("is it installed on {one}, and in the PATH of a login without a terminal?"),
        Refusal::BadOptions => "`ssh -V` says how old it is; look at the options and the configuration".to_owned(),
        Refusal::ShellMissing => "install the remote shell, or name it with its path".to_owned(),
        Refusal::Broken | Refusal::ShellFailed => format!("{doctor} goes the way of a launch step by step"),
        _ => format!("{doctor} may know more"),
    }
}
