//! What became of a launch: how far it got, why it went no further, and whether trying again can help.

use std::fmt;
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use serde::{Deserialize, Serialize};

use crate::quote::{NO_DIRECTORY, SETUP_FAILED};
use crate::shell_error::{self, ShellError};

/// How far the launch of a host, or of a local member, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Nobody has started it.
    Waiting,
    /// It was started; nothing in our protocol has come from it.
    Starting,
    /// It speaks our protocol, but has not said hello.
    Handshaking,
    /// Its leader is up, and its further members are joining.
    Joining,
    /// All its members are up.
    Joined,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting for its launch",
            Self::Starting => "starting",
            Self::Handshaking => "saying hello",
            Self::Joining => "joining",
            Self::Joined => "joined",
        })
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Exit {
    /// It ended by itself with this status.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// The remote shell has ended, with this status (128 + n if by signal n), and how the program has ended, which the host was to
    /// say, was not said: the connection broke, the host is gone, or the program was never begun.
    Shell(i32),
    /// It has ended, but somebody else has collected how.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited {code}"),
            Self::Signal(number) => write!(f, "was ended by signal {number}"),
            Self::Shell(_) => f.write_str("was cut off before it was said how it ended"),
            Self::Unknown => f.write_str("ended, nobody knows how"),
        }
    }
}

/// Why a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// It could not even be started; the operating system says why.
    NotStarted(String),
    /// Whoever was to start it has no room for that: no processes, descriptors or memory are left to it, as the operating system says.
    OutOfResources(String),
    /// What was started has ended.
    Exited(Exit),
    /// The link to it was closed from the other side, and nothing ended that we could see.
    Closed,
    /// It did not get further in time.
    TimedOut,
    /// What it said is not our protocol.
    Protocol(String),
    /// It speaks no version of the protocol that we do.
    Version(String),
    /// It answered a ticket that was not given to it.
    WrongTicket,
    /// Nothing was heard of it for too long after it was up; or it was not heard of for half that time, and then its link or
    /// its remote shell ended.
    HeartbeatLost,
    /// It could not reach its parent directly, and was not to use the channel.
    Unreachable,
    /// The one that was to launch it is gone, or says nothing of it.
    LauncherLost(HostIndex),
    /// We have ended the launch, for other reasons, before this was decided.
    Cancelled,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(why) => write!(f, "cannot be started: {why}"),
            Self::OutOfResources(why) => write!(f, "found no room where it was to be started: {why}"),
            Self::Exited(exit) => exit.fmt(f),
            Self::Closed => f.write_str("closed the link"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Protocol(what) => write!(f, "does not speak our protocol: {what}"),
            Self::Version(what) => f.write_str(what),
            Self::WrongTicket => f.write_str("answered another ticket than its own"),
            Self::HeartbeatLost => f.write_str("has fallen silent"),
            Self::Unreachable => f.write_str("cannot connect to the host that has launched it"),
            Self::LauncherLost(launcher) => write!(f, "was left to {launcher}, which is lost"),
            Self::Cancelled => f.write_str("was not waited for any longer"),
        }
    }
}

/// Who has launched a host, and when; as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTiming {
    /// The host whose leader has launched it; none if that was the front end.
    pub launcher: Option<HostIndex>,
    /// How long the launcher had been up when it began to launch it.
    pub started: Duration,
    /// How long after that it said hello.
    pub hello: Option<Duration>,
    /// How long after that all its members were up.
    pub joined: Option<Duration>,
}

/// What became of one attempt at a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which of its further members it was, if it was one of those.
    pub member: Option<Rank>,
    /// How far it came.
    pub phase: Phase,
    /// Why it went no further.
    pub cause: Cause,
    /// How what was started has ended, if that is known.
    pub exit: Option<Exit>,
    /// Whether that was said by the host itself, as with `rsh`: then a status is that of the program or its command, and never of
    /// the remote shell.
    pub exit_from_host: bool,
    /// The end of what it printed.
    pub tail: String,
    /// From its start until it had failed.
    pub elapsed: Duration,
    /// Who had launched it, and when.
    pub timing: LaunchTiming,
}

impl Failure {
    /// A failure of which nothing is left to be looked at.
    #[must_use]
    pub fn without_evidence(phase: Phase, cause: Cause, elapsed: Duration) -> Self {
        let (tail, timing) = Default::default();
        Self { member: None, phase, cause, exit: None, exit_from_host: false, tail, elapsed, timing }
    }

    /// What the remote shell, or the command that it was to run, has failed at, if it is one of those that has failed.
    ///
    /// A program may end with the same status and say the same. It is believed to be the shell or the command only as long as
    /// nothing has been heard of the program.
    #[must_use]
    pub fn shell_error(&self) -> Option<ShellError> {
        self.diagnosis().0
    }

    /// The line that says what has gone wrong: that which tells the [shell_error](Self::shell_error), or else the last that was printed.
    #[must_use]
    pub fn evidence(&self) -> &str {
        self.diagnosis().1.or_else(|| shell_error::lines(&self.tail).next()).unwrap_or_default()
    }

    fn diagnosis(&self) -> (Option<ShellError>, Option<&str>) {
        let diagnosis = |said: Option<(ShellError, _)>| {
            said.map_or((None, None), |(what, line)| (Some(what), Some(line)))
        };
        // What a leader starts on its own host is started by no remote shell.
        if self.member.is_some() {
            return (None, None);
        }
        match (&self.cause, self.phase) {
            (Cause::NotStarted(why), _) => {
                (shell_error::is_shell_not_found(why).then_some(ShellError::ShellNotFound), None)
            }
            (Cause::Exited(Exit::Shell(status)), Phase::Starting) => {
                let said = shell_error::of_rshd(&self.tail).or_else(|| shell_error::of_rsh(&self.tail));
                match diagnosis(said.or_else(|| shell_error::of_ssh(&self.tail))) {
                    // There was somebody, who has said nothing that we know. A server that ends resets the connection as often as
                    // not, for it has not read what the program was to.
                    (Some(ShellError::ConnectionLost), _) => {
                        (Some(ShellError::LoginEnded), shell_error::before_rsh(&self.tail))
                    }
                    (None, _) if *status == 0 => {
                        (Some(ShellError::LoginEnded), shell_error::before_rsh(&self.tail))
                    }
                    (what, line) => (what.or(Some(ShellError::ShellFailed)), line),
                }
            }
            // It had been let in.
            (Cause::Exited(Exit::Shell(_)), _) => (Some(ShellError::ConnectionLost), None),
            (Cause::Exited(Exit::Code(1 | 255)), _) if self.exit_from_host => (None, None),
            (Cause::Exited(Exit::Code(255)), Phase::Starting) => {
                let (what, line) = diagnosis(shell_error::of_ssh(&self.tail));
                (what.or(Some(ShellError::ShellFailed)), line)
            }
            // It had been let in.
            (Cause::Exited(Exit::Code(255)), _) => match shell_error::of_ssh(&self.tail) {
                Some((ShellError::ClosedBeforeLogin | ShellError::ConnectionLost, line)) => {
                    (Some(ShellError::ConnectionLost), Some(line))
                }
                _ => (Some(ShellError::ShellFailed), None),
            },
            (Cause::Exited(Exit::Code(127)), Phase::Starting) => (Some(ShellError::ProgramNotFound), None),
            (Cause::Exited(Exit::Code(126)), Phase::Starting) => {
                (Some(ShellError::ProgramNotExecutable), None)
            }
            (Cause::Exited(Exit::Code(SETUP_FAILED)), Phase::Starting) => {
                let line =
                    shell_error::lines(&self.tail).find(|line| line.starts_with(NO_DIRECTORY.trim_end()));
                (line.map(|_| ShellError::DirectoryNotFound), line)
            }
            (Cause::Exited(Exit::Code(1)), Phase::Starting) => diagnosis(shell_error::of_rsh(&self.tail)),
            _ => (None, None),
        }
    }

    /// Whether another attempt may go better.
    ///
    /// What a remote shell says it has failed at may pass [or not](ShellError::is_retryable). One that was closed or took too long may have been
    /// overrun. A command that is not found, may not be executed, or does not speak our protocol will be the same next time.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.cause {
            Cause::Exited(Exit::Code(_) | Exit::Shell(_)) => {
                self.shell_error().is_some_and(ShellError::is_retryable)
            }
            Cause::Exited(_) => self.phase == Phase::Starting,
            Cause::OutOfResources(_) | Cause::Closed | Cause::TimedOut => true,
            Cause::HeartbeatLost | Cause::LauncherLost(_) => true,
            Cause::NotStarted(_) | Cause::Protocol(_) | Cause::Version(_) | Cause::WrongTicket => false,
            Cause::Cancelled | Cause::Unreachable => false,
        }
    }

    /// Whether it may be the launcher's fault: nothing shows that it is let in anywhere.
    #[must_use]
    pub fn may_be_launcher_fault(&self) -> bool {
        let unreached = match self.cause {
            Cause::NotStarted(_) | Cause::Closed | Cause::TimedOut => true,
            // What remote shells say of themselves, and what becomes of them.
            Cause::Exited(Exit::Code(_) | Exit::Shell(_)) => {
                self.shell_error().is_some_and(ShellError::is_from_shell)
            }
            Cause::Exited(_) if self.exit_from_host => false,
            Cause::Exited(Exit::Signal(_) | Exit::Unknown) => true,
            _ => false,
        };
        unreached && self.phase == Phase::Starting
    }

    /// Whether the host, or the remote shell where the launch was made, wants to have nothing to do with whoever calls.
    pub(crate) fn is_login_denied(&self) -> bool {
        use ShellError::{BadOptions, HostKeyChanged, HostKeyUnknown, LoginDenied, NoCommonAlgorithm};
        let refused = [LoginDenied, HostKeyUnknown, HostKeyChanged, NoCommonAlgorithm, BadOptions];
        self.shell_error().is_some_and(|shell_error| refused.contains(&shell_error))
    }

    /// Whether what was cut short had come to the same by itself.
    pub(crate) fn was_login_denied(&self) -> bool {
        let exit = self.exit.filter(|_| self.cause == Cause::Cancelled);
        exit.is_some_and(|exit| Self { cause: Cause::Exited(exit), ..self.clone() }.is_login_denied())
    }

    /// Whether there was a server, which hung up before it had looked at who called, or no port to call from. That is what a
    /// server does that has too many callers at a time, as `sshd` with more than `MaxStartups`; also one that wants none of us.
    /// Ports of connections that are over are free again after a while.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        matches!(self.shell_error(), Some(ShellError::ClosedBeforeLogin | ShellError::NoPort))
    }

    /// Whether the one that was to make the launch had no room for it; others may.
    #[must_use]
    pub fn is_out_of_resources(&self) -> bool {
        matches!(self.cause, Cause::OutOfResources(_))
    }

    /// Whether whoever was to be reached, or the way there, or whoever launches, may have been overrun, so that fewer launches at a time
    /// may help.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        self.cause == Cause::Closed
            || self.is_out_of_resources()
            || self.shell_error().is_some_and(ShellError::is_overload)
    }
}
