//! The result of examining a host: the [`Finding`], its [`Problem`], and their texts.

use std::net::SocketAddr;
use std::time::Duration;

use libi_launch::process::ExitStatus;
use libi_launch::transcript::{LoginDetails, LoginError, LoginStage, LoginTiming};

use super::probe::ProgramCheck;

/// The result of examining one host.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// Why a launch on the host would not work, with the evidence; `None` if it would work.
    pub(super) problem: Option<(Problem, String)>,
    /// How far the login got.
    pub(super) reached: LoginStage,
    /// How long each part of the login took.
    pub(super) parts: LoginTiming,
    /// How long the whole login took.
    pub(super) set_up: Option<Duration>,
    /// What ssh reported about the login.
    pub(super) facts: LoginDetails,
    /// What the login shell printed by itself.
    pub(super) noise: Noise,
    pub(super) kernel: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) files: Option<String>,
    pub(super) shell: Option<String>,
    pub(super) clock: Option<Clock>,
    pub(super) round_trips: Vec<Duration>,
    pub(super) program: Option<ProgramCheck>,
    pub(super) direct: Direct,
    /// From the start to the result.
    pub(super) took: Duration,
}

/// The output of a login shell before it runs the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Noise {
    pub(super) bytes: u64,
    /// Its first line.
    pub(super) line: String,
}

/// How far a remote clock is ahead of the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) ahead_ns: i128,
    /// The error bound, in either direction.
    pub(super) within: Duration,
}

/// Whether a host can connect to this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direct {
    /// Not examined.
    #[default]
    NotTried,
    /// It can connect to these addresses; the list is not empty.
    Works(Vec<SocketAddr>),
    /// No connection arrived.
    Blocked,
    /// The host has no known tool to connect with.
    NoTool,
}

/// Why a launch would not work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// The remote shell program cannot be started.
    NotStarted,
    /// The login failed with a known error.
    Login(LoginError),
    /// The remote shell program exited before the probe started.
    Ended(ProcessEnd),
    /// The timeout expired; the login had reached this stage.
    TimedOut(LoginStage),
    /// The probe started, but its standard input does not arrive.
    InputLost,
    /// The connection was lost during the examination.
    ConnectionLost,
    /// Standard input goes through a terminal.
    Terminal,
    /// The program to launch is missing or not executable.
    Program(ProgramCheck),
    /// A signal ended the examination before there was a result.
    Interrupted,
}

/// How a process ended; unlike [`ExitStatus`] this is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProcessEnd {
    Code(i32),
    Signal(i32),
    Unknown,
}

impl From<ExitStatus> for ProcessEnd {
    fn from(exit: ExitStatus) -> Self {
        match exit {
            ExitStatus::Code(code) => Self::Code(code),
            ExitStatus::Signal { signal, .. } => Self::Signal(signal.number()),
            ExitStatus::Unknown => Self::Unknown,
        }
    }
}

impl Problem {
    /// A predicate, read after the names of hosts.
    pub(super) fn text(&self) -> String {
        match self {
            Self::NotStarted => "cannot be reached: the remote shell program did not start".to_owned(),
            Self::Login(error) => error.to_string(),
            Self::Ended(ProcessEnd::Code(code)) => {
                format!("exited with status {code} before running the probe")
            }
            Self::Ended(ProcessEnd::Signal(number)) => {
                format!("ended by signal {number} before running the probe")
            }
            Self::Ended(ProcessEnd::Unknown) => "ended before running the probe".to_owned(),
            Self::TimedOut(stage) => match stage {
                LoginStage::Nothing => "does not answer before the timeout",
                LoginStage::Connection => {
                    "accepts the connection, but does not complete the key exchange before the \
                     timeout"
                }
                LoginStage::Keys => "does not complete authentication before the timeout",
                LoginStage::Login => {
                    "accepts the login, but its shell does not run the probe before the timeout"
                }
                LoginStage::Shell => "stops answering during the examination",
            }
            .to_owned(),
            Self::InputLost => "does not receive standard input".to_owned(),
            Self::ConnectionLost => "lost the connection during the examination".to_owned(),
            Self::Terminal => "uses a terminal, which changes bytes".to_owned(),
            Self::Program(ProgramCheck::Missing) => "does not have the program".to_owned(),
            Self::Program(_) => "cannot execute the program".to_owned(),
            Self::Interrupted => "was not examined completely: interrupted".to_owned(),
        }
    }

    /// What to do about it, with this host as the example.
    pub(super) fn hint(&self, host: &str, shell: &str) -> Option<String> {
        Some(match self {
            Self::NotStarted => {
                format!("is {shell} installed on this machine? name another program with --backend")
            }
            Self::Login(error) if is_rsh(shell) => rsh_hint(*error, host, shell),
            Self::Login(error) => login_hint(*error, host),
            Self::Ended(ProcessEnd::Code(126 | 127)) => {
                "a shell reports a missing command with this status: is the login shell a POSIX \
                 shell, and are /bin/sh and env there?"
                    .to_owned()
            }
            Self::Ended(_) => format!("try it by hand: `{shell} {host} echo hello`"),
            Self::TimedOut(LoginStage::Nothing) => {
                format!(
                    "is it up, and does a firewall block the connection? `ping {host}`; `{shell} \
                     -v {host}`"
                )
            }
            Self::TimedOut(LoginStage::Connection) => {
                "the host may be overloaded, or a firewall may drop large packets (MTU)".to_owned()
            }
            Self::TimedOut(LoginStage::Keys) => {
                "possible reasons: a directory service that does not answer there, a hardware key \
                 that waits for a touch, an agent that hangs (`ssh-add -l`)"
                    .to_owned()
            }
            Self::TimedOut(_) => {
                "possible reasons: a home directory that hangs, or a profile that waits for input; \
                 check ~/.bashrc there"
                    .to_owned()
            }
            Self::InputLost => "does its profile read standard input, or does the ssh configuration set \
                 StdinNull?"
                .to_owned(),
            Self::ConnectionLost => {
                format!("check the server's log there; try `{shell} {host} echo hello`")
            }
            Self::Terminal => {
                "remove `RequestTTY force` from the ssh configuration, or the option -tt".to_owned()
            }
            Self::Program(_) => {
                "a path without a leading / is relative to the home directory there".to_owned()
            }
            Self::Interrupted => return None,
        })
    }

    /// The name in JSON.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::NotStarted => "not-started",
            Self::Login(error) => error.name(),
            Self::Ended(_) => "ended",
            Self::TimedOut(LoginStage::Nothing) => "timed-out",
            Self::TimedOut(LoginStage::Connection) => "timed-out-after-connection",
            Self::TimedOut(LoginStage::Keys) => "timed-out-after-keys",
            Self::TimedOut(_) => "timed-out-after-login",
            Self::InputLost => "input-lost",
            Self::ConnectionLost => "connection-lost",
            Self::Terminal => "terminal",
            Self::Program(ProgramCheck::Missing) => "program-missing",
            Self::Program(_) => "program-not-executable",
            Self::Interrupted => "interrupted",
        }
    }
}

fn is_rsh(shell: &str) -> bool {
    shell.rsplit('/').next() == Some("rsh")
}

fn rsh_hint(error: LoginError, host: &str, shell: &str) -> String {
    match error {
        LoginError::NameUnknown => format!("check the name: `getent hosts {host}`"),
        LoginError::ConnectionRefused => {
            "does an rsh server listen at this port? a port is written host:port:count".to_owned()
        }
        LoginError::ClosedBeforeLogin => {
            "the server's log has the reason: the server must be able to connect back to ports \
             from 512 on, and inetd limits connections per minute"
                .to_owned()
        }
        LoginError::Denied => {
            format!(
                "`{shell} {host} true` has to work: name this host and user in .rhosts or \
                 hosts.equiv there"
            )
        }
        LoginError::BadOptions => {
            "see `man rsh` for its options; only rsh-redone's supports ports".to_owned()
        }
        error => login_hint(error, host),
    }
}

fn login_hint(error: LoginError, host: &str) -> String {
    match error {
        LoginError::BadOptions => format!("`ssh -G {host}` shows the effective configuration"),
        LoginError::NameUnknown => {
            format!("check the name: `getent hosts {host}`, or HostName in ~/.ssh/config")
        }
        LoginError::NoRoute => format!("is the network up on both sides? `ip route get {host}`"),
        LoginError::TimedOut => {
            format!("is it up, and does a firewall block the connection? `ping {host}`")
        }
        LoginError::ConnectionRefused => {
            "does sshd listen at this port? write the port as host:port:count, or set it in \
             ~/.ssh/config"
                .to_owned()
        }
        LoginError::NoBanner => {
            "is it an ssh server that listens there? the host may also be overloaded".to_owned()
        }
        LoginError::ClosedBeforeLogin => {
            "the server limits concurrent logins or denies this machine: try --at-once 1; raise \
             MaxStartups in its sshd_config"
                .to_owned()
        }
        LoginError::NoCommonAlgorithm => {
            format!(
                "`ssh -Q kex` lists the client's algorithms; `ssh -G {host}` those that are \
                 allowed"
            )
        }
        LoginError::HostKeyUnknown => {
            format!("compare the key, then add it: `ssh-keyscan {host} >> ~/.ssh/known_hosts`")
        }
        LoginError::HostKeyChanged => {
            format!(
                "was the host reinstalled? if not, this may be an attack; `ssh-keygen -R {host}` \
                 removes the old key"
            )
        }
        LoginError::TooManyKeys => {
            format!("`ssh-add -l` lists the keys; set IdentityFile and IdentitiesOnly for {host}")
        }
        LoginError::Denied => {
            format!(
                "`ssh-add -l` lists the keys that are offered; `ssh-copy-id {host}` installs one; \
                 passwords are not used"
            )
        }
    }
}

impl Finding {
    /// The finding of a host before anything is known.
    pub(super) fn empty() -> Self {
        Self {
            problem: None,
            reached: LoginStage::Nothing,
            parts: LoginTiming::default(),
            set_up: None,
            facts: LoginDetails::default(),
            noise: Noise::default(),
            kernel: None,
            machine: None,
            files: None,
            shell: None,
            clock: None,
            round_trips: Vec::new(),
            program: None,
            direct: Direct::NotTried,
            took: Duration::ZERO,
        }
    }

    /// Whether a launch on the host would work.
    pub(super) fn is_fine(&self) -> bool {
        self.problem.is_none()
    }

    /// The median of the round trips.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        let mut all = self.round_trips.clone();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }

    /// The name of the login shell without its directory.
    pub(super) fn shell_name(&self) -> Option<&str> {
        let name = self.shell.as_deref()?.rsplit('/').next()?;
        (!name.is_empty()).then_some(name)
    }
}
