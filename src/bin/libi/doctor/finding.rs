//! What was found of a host, and what is to be said of it.

use std::net::SocketAddr;
use std::time::Duration;

use libi_launch::process::ExitStatus;
use libi_launch::transcript::{LoginDetails, LoginError, LoginStage, LoginTiming};

use super::probe::ProgramCheck;

/// What was found of one host.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// Why a launch on it would not work, with the words that say so; nothing if it would.
    pub(super) problem: Option<(Problem, String)>,
    /// How far the login came.
    pub(super) reached: LoginStage,
    /// What its parts have taken.
    pub(super) parts: LoginTiming,
    /// What all of them have taken.
    pub(super) set_up: Option<Duration>,
    /// What was learnt of it.
    pub(super) facts: LoginDetails,
    /// What its shell has printed by itself.
    pub(super) noise: Noise,
    pub(super) kernel: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) files: Option<String>,
    pub(super) shell: Option<String>,
    pub(super) clock: Option<Clock>,
    pub(super) round_trips: Vec<Duration>,
    pub(super) program: Option<ProgramCheck>,
    pub(super) direct: Direct,
    /// From the start until there was a verdict.
    pub(super) took: Duration,
}

/// What a shell prints before it runs the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Noise {
    pub(super) bytes: u64,
    /// The first line of it.
    pub(super) line: String,
}

/// How far a clock is ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) ahead_ns: i128,
    /// By how much that may be wrong, in either direction.
    pub(super) within: Duration,
}

/// Whether a host can connect to us.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direct {
    /// Nobody has tried.
    #[default]
    NotTried,
    /// It can, to these addresses: never none.
    Works(Vec<SocketAddr>),
    /// Nothing has arrived.
    Blocked,
    /// There is no program over there that we know how to connect with.
    NoTool,
}

/// Why a launch would not work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// The program that reaches hosts cannot be started.
    NotStarted,
    /// The login was refused in a way that is known.
    Login(LoginError),
    /// What reaches the host has ended before the shell over there has spoken.
    Ended(ProcessEnd),
    /// Nothing has happened for too long; the login had come so far.
    TimedOut(LoginStage),
    /// The shell speaks, and what is sent to it does not arrive.
    InputLost,
    /// It was examined in part, and then was gone.
    ConnectionLost,
    /// What is sent to it goes through a terminal.
    Terminal,
    /// The program that is to be launched is not there, or cannot be executed.
    Program(ProgramCheck),
    /// We were told to end before there was a verdict.
    Interrupted,
}

/// How a process ended, in an order.
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
    /// Said of hosts.
    pub(super) fn text(&self) -> String {
        match self {
            Self::NotStarted => "cannot be called".to_owned(),
            Self::Login(error) => error.to_string(),
            Self::Ended(ProcessEnd::Code(code)) => format!("exited {code} before its shell has spoken"),
            Self::Ended(ProcessEnd::Signal(number)) => {
                format!("was ended by signal {number} before its shell has spoken")
            }
            Self::Ended(ProcessEnd::Unknown) => "ended before its shell has spoken".to_owned(),
            Self::TimedOut(stage) => match stage {
                LoginStage::Nothing => "does not answer in time",
                LoginStage::Connection => "accepts the connection, and agrees on no key in time",
                LoginStage::Keys => "does not decide in time whether to let us in",
                LoginStage::Login => "lets us in, and its shell says nothing in time",
                LoginStage::Shell => "does not go on in time",
            }
            .to_owned(),
            Self::InputLost => "does not get what is sent to it".to_owned(),
            Self::ConnectionLost => "was gone while it was examined".to_owned(),
            Self::Terminal => "puts a terminal in between, which changes bytes".to_owned(),
            Self::Program(ProgramCheck::Missing) => "does not have the program".to_owned(),
            Self::Program(_) => "cannot execute the program".to_owned(),
            Self::Interrupted => "was not decided about: interrupted".to_owned(),
        }
    }

    /// What to do about it, for this host among others.
    pub(super) fn hint(&self, host: &str, shell: &str) -> Option<String> {
        Some(match self {
            Self::NotStarted => format!("is {shell} installed here? --shell names the program"),
            Self::Login(error) if is_rsh(shell) => rsh_hint(*error, host, shell),
            Self::Login(error) => login_hint(*error, host),
            Self::Ended(ProcessEnd::Code(126 | 127)) => {
                "that is how a shell says that a command is not there: a login shell that is no POSIX shell, or \
                 no /bin/sh or env"
                    .to_owned()
            }
            Self::Ended(_) => format!("try it by hand: {shell} {host} echo hello"),
            Self::TimedOut(LoginStage::Nothing) => {
                format!("is it up, and does a firewall let us through? ping {host}; {shell} -v {host}")
            }
            Self::TimedOut(LoginStage::Connection) => "the host is overloaded, or a firewall cuts long packets (MTU)".to_owned(),
            Self::TimedOut(LoginStage::Keys) => {
                "a directory service that does not answer over there, a key that waits to be touched, or an agent \
                 that hangs: ssh-add -l"
                    .to_owned()
            }
            Self::TimedOut(_) => {
                "a home directory that hangs, or a profile that waits for input: look at ~/.bashrc over there"
                    .to_owned()
            }
            Self::InputLost => "does its profile read standard input? does the configuration of ssh say StdinNull?".to_owned(),
            Self::ConnectionLost => format!("look at the log over there; {shell} {host} echo hello"),
            Self::Terminal => "RequestTTY force in the configuration of ssh, or an option -tt".to_owned(),
            Self::Program(_) => "a path without a leading / is seen from the home directory over there".to_owned(),
            Self::Interrupted => return None,
        })
    }

    /// One word for programs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::NotStarted => "not-started",
            Self::Login(error) => error.name(),
            Self::Ended(_) => "ended",
            Self::TimedOut(LoginStage::Nothing) => "silent",
            Self::TimedOut(LoginStage::Connection) => "silent-after-connection",
            Self::TimedOut(LoginStage::Keys) => "silent-after-keys",
            Self::TimedOut(_) => "silent-after-login",
            Self::InputLost => "deaf",
            Self::ConnectionLost => "broke",
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
        LoginError::NameUnknown => format!("getent hosts {host}"),
        LoginError::ConnectionRefused => {
            "does it have an rsh server, at this port? a port is written host:port:count".to_owned()
        }
        LoginError::ClosedBeforeLogin => {
            "its log says why: it has to be able to connect back to ports from 512 on; inetd takes so many calls in a minute"
                .to_owned()
        }
        LoginError::Denied => {
            format!("{shell} {host} true has to work: .rhosts or hosts.equiv over there name this host and user")
        }
        LoginError::BadOptions => "man rsh has its options; that of rsh-redone alone knows ports".to_owned(),
        error => login_hint(error, host),
    }
}

fn login_hint(error: LoginError, host: &str) -> String {
    match error {
        LoginError::BadOptions => format!("ssh -G {host} shows what it is called with"),
        LoginError::NameUnknown => format!("getent hosts {host}; or HostName in ~/.ssh/config"),
        LoginError::NoRoute => format!("ip route get {host}; is the network up, here and there?"),
        LoginError::TimedOut => format!("is it up, and does a firewall let us through? ping {host}"),
        LoginError::ConnectionRefused => {
            "does sshd run there, at this port? a port is written host:port:count, or is in ~/.ssh/config"
                .to_owned()
        }
        LoginError::NoBanner => "is it a remote shell that listens there? or it is overloaded".to_owned(),
        LoginError::ClosedBeforeLogin => {
            "too many logins at a time, or we are not welcome: --at-once 1; MaxStartups in its sshd_config"
                .to_owned()
        }
        LoginError::NoCommonAlgorithm => {
            format!("ssh -Q kex has ours; ssh -G {host} has those that are allowed")
        }
        LoginError::HostKeyUnknown => {
            format!("ssh-keyscan {host} >> ~/.ssh/known_hosts, once you have compared the key")
        }
        LoginError::HostKeyChanged => {
            format!(
                "was it installed anew? if nobody can say so, beware; ssh-keygen -R {host} forgets the old key"
            )
        }
        LoginError::TooManyKeys => {
            format!("ssh-add -l has the keys; IdentityFile and IdentitiesOnly for {host}")
        }
        LoginError::Denied => {
            format!(
                "ssh-add -l has the keys that are offered; ssh-copy-id {host} takes one there; nobody is asked for passwords"
            )
        }
    }
}

impl Finding {
    /// Of a host of which nothing is known.
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

    /// Whether a launch on it would work.
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
