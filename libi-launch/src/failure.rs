//! Failures of launches: how far a launch got, why it failed, and whether a retry can help.

use std::fmt;
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use serde::{Deserialize, Serialize};

use crate::quote::{NO_DIRECTORY, SETUP_FAILED};
use crate::shell_error::{self, ShellError};

/// How far the launch of a host, or of a further member on it, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing has been started.
    Waiting,
    /// A process was started. No byte of the protocol has arrived from it.
    Starting,
    /// The process speaks the protocol and has not sent its hello.
    Handshaking,
    /// The leader is up; the host's further members are joining.
    Joining,
    /// All members of the host are up.
    Joined,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "not launched",
            Self::Starting => "starting",
            Self::Handshaking => "handshaking",
            Self::Joining => "joining",
            Self::Joined => "joined",
        })
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// The remote shell ended with this status (128 + n for signal n), and the host has not
    /// reported the exit status of the program. Either the connection or the host failed, or the
    /// program was never started.
    Shell(i32),
    /// It ended, and another part of the process that started it has collected its status.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited {code}"),
            Self::Signal(number) => write!(f, "was killed by signal {number}"),
            Self::Shell(_) => f.write_str("ended without reporting an exit status"),
            Self::Unknown => f.write_str("ended with unknown status"),
        }
    }
}

/// Why a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The process could not be started, for the reason that the operating system gives.
    NotStarted(String),
    /// The launching process has no processes, file descriptors or memory left to start it, as the
    /// operating system says. Another launcher may succeed.
    OutOfResources(String),
    /// The files that the host was to get could not be written there, were not those that were sent,
    /// or did not arrive in time.
    NotStaged(String),
    /// The started process ended.
    Exited(Exit),
    /// The process that was to start many hosts ended in this way before this host had arrived.
    StarterExited(Exit),
    /// The peer closed the link, and no process was seen to end.
    Closed,
    /// It did not reach the next phase in time.
    TimedOut,
    /// Its start did not get resources in time, as from a full cluster.
    NotScheduled,
    /// It violated the protocol.
    Protocol(String),
    /// It has no protocol version in common with its parent.
    Version(String),
    /// It presented a ticket that was issued for another launch.
    WrongTicket,
    /// A member that was up sent nothing for longer than the peer timeout. Also: it sent nothing
    /// for half that time, and then its link or its remote shell ended; or it said that it had heard
    /// nothing from its parent for the peer timeout.
    HeartbeatLost,
    /// It could not connect to its parent directly, and the link policy forbids the launch channel.
    Unreachable,
    /// The host that was to launch it is lost, or does not report it.
    LauncherLost(HostIndex),
    /// The launch was cancelled, for other reasons, before its outcome was known.
    Cancelled,
    /// It was not up when the launch had settled: enough hosts were up, and no other host had joined
    /// or failed for the settle time.
    SettleElapsed,
    /// It was given up, or never tried, because this host failed: it has the master, without which
    /// the session cannot come up.
    MasterFailed(HostIndex),
    /// It was given up, or never tried, because too many other hosts had failed, such as this one.
    LaunchFailed(HostIndex),
}

impl Cause {
    /// Whether the launch was cut short for a reason that lies elsewhere, and says nothing about
    /// the host.
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        matches!(self, Self::Cancelled | Self::SettleElapsed | Self::MasterFailed(_) | Self::LaunchFailed(_))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(why) => write!(f, "cannot be started: {why}"),
            Self::OutOfResources(why) => write!(f, "launcher out of resources: {why}"),
            Self::NotStaged(why) => write!(f, "cannot stage files: {why}"),
            Self::Exited(exit) => exit.fmt(f),
            Self::StarterExited(exit) => write!(f, "did not arrive before its starter {exit}"),
            Self::Closed => f.write_str("closed the link"),
            Self::TimedOut => f.write_str("timed out"),
            Self::NotScheduled => f.write_str("waited in the queue for too long"),
            Self::Protocol(what) => write!(f, "protocol error: {what}"),
            Self::Version(what) => f.write_str(what),
            Self::WrongTicket => f.write_str("presented the ticket of another launch"),
            Self::HeartbeatLost => f.write_str("heartbeat lost"),
            Self::Unreachable => f.write_str("cannot connect to the host that launched it"),
            Self::LauncherLost(launcher) => write!(f, "assigned to {launcher}, which is lost"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::SettleElapsed => f.write_str("not up within the settle time"),
            Self::MasterFailed(host) => write!(f, "given up: {host} has the master, and failed"),
            Self::LaunchFailed(host) => write!(f, "given up: the launch had already failed with {host}"),
        }
    }
}

/// Who launched a host, and when, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTiming {
    /// Host whose leader launched it; `None` for the front end.
    pub launcher: Option<HostIndex>,
    /// When the launch began, counted from when its launcher was up.
    pub started: Duration,
    /// Time from the start of the launch to the hello.
    pub hello: Option<Duration>,
    /// Time from the hello until all members of the host were up.
    pub joined: Option<Duration>,
}

/// Outcome of one failed attempt at a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The further member that failed; `None` if the host's leader did.
    pub member: Option<Rank>,
    /// How far it came.
    pub phase: Phase,
    /// Why it failed.
    pub cause: Cause,
    /// How the started process ended, if known.
    pub exit: Option<Exit>,
    /// Whether the host itself has reported the exit status, as with `rsh`. Then the status is that
    /// of the program or its command, never that of the remote shell.
    pub exit_from_host: bool,
    /// The last part of what it printed.
    pub tail: String,
    /// Time from its start to its failure.
    pub elapsed: Duration,
    /// Who launched it, and when.
    pub timing: LaunchTiming,
}

impl Failure {
    /// A failure without exit status, output and timing.
    #[must_use]
    pub fn without_evidence(phase: Phase, cause: Cause, elapsed: Duration) -> Self {
        let (tail, timing) = Default::default();
        Self { member: None, phase, cause, exit: None, exit_from_host: false, tail, elapsed, timing }
    }

    /// What the remote shell, or the command that it ran, failed at, if one of them did.
    ///
    /// A program can exit with the same status and print the same text. The status and the text
    /// count as the shell's or the command's only until the program has been heard from.
    #[must_use]
    pub fn shell_error(&self) -> Option<ShellError> {
        self.diagnosis().0
    }

    /// The line that names the failure: the one that decided the [shell error](Self::shell_error),
    /// or else the last line printed.
    #[must_use]
    pub fn evidence(&self) -> &str {
        self.diagnosis().1.or_else(|| shell_error::lines(&self.tail).next()).unwrap_or_default()
    }

    fn diagnosis(&self) -> (Option<ShellError>, Option<&str>) {
        let diagnosis = |said: Option<(ShellError, _)>| {
            said.map_or((None, None), |(what, line)| (Some(what), Some(line)))
        };
        // The loader's message means the same with and without a remote shell.
        if let (Cause::Exited(Exit::Code(127)), Phase::Starting) = (&self.cause, self.phase)
            && let Some((what, line)) = shell_error::of_loader(&self.tail)
        {
            return (Some(what), Some(line));
        }
        // A leader starts the further members of its host without a remote shell.
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
                    // There was a server, and its message is not known. A server that ends often
                    // resets the connection, because the program's input is still unread.
                    (Some(ShellError::ConnectionLost), _) => {
                        (Some(ShellError::LoginEnded), shell_error::before_rsh(&self.tail))
                    }
                    (None, _) if *status == 0 => {
                        (Some(ShellError::LoginEnded), shell_error::before_rsh(&self.tail))
                    }
                    (what, line) => (what.or(Some(ShellError::ShellFailed)), line),
                }
            }
            // The login had succeeded.
            (Cause::Exited(Exit::Shell(_)), _) => (Some(ShellError::ConnectionLost), None),
            (Cause::Exited(Exit::Code(1)), Phase::Starting) if self.exit_from_host => {
                diagnosis(shell_error::of_csh(&self.tail))
            }
            (Cause::Exited(Exit::Code(1 | 255)), _) if self.exit_from_host => (None, None),
            (Cause::Exited(Exit::Code(255)), Phase::Starting) => {
                let (what, line) = diagnosis(shell_error::of_ssh(&self.tail));
                (what.or(Some(ShellError::ShellFailed)), line)
            }
            // The login had succeeded.
            (Cause::Exited(Exit::Code(255)), _) => match shell_error::of_ssh(&self.tail) {
                Some((ShellError::ClosedBeforeLogin | ShellError::ConnectionLost, line)) => {
                    (Some(ShellError::ConnectionLost), Some(line))
                }
                _ => (Some(ShellError::ShellFailed), None),
            },
            (Cause::Exited(Exit::Code(status @ (126 | 127))), Phase::Starting) => {
                let (what, line) = diagnosis(shell_error::of_interpreter(&self.tail));
                let default = match status {
                    126 => ShellError::ProgramNotExecutable,
                    _ => ShellError::ProgramNotFound,
                };
                (what.or(Some(default)), line)
            }
            (Cause::Exited(Exit::Code(SETUP_FAILED)), Phase::Starting) => {
                let line =
                    shell_error::lines(&self.tail).find(|line| line.starts_with(NO_DIRECTORY.trim_end()));
                (line.map(|_| ShellError::DirectoryNotFound), line)
            }
            (Cause::Exited(Exit::Code(1)), Phase::Starting) => {
                diagnosis(shell_error::of_rsh(&self.tail).or_else(|| shell_error::of_csh(&self.tail)))
            }
            _ => (None, None),
        }
    }

    /// Returns whether another attempt may succeed.
    ///
    /// Failures of a remote shell are retryable or [not](ShellError::is_retryable) by what it
    /// failed at. A closed link or a timeout may be due to overload. A program that is missing, not
    /// executable or does not speak the protocol fails again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.cause {
            Cause::Exited(Exit::Code(_) | Exit::Shell(_)) => {
                self.shell_error().is_some_and(|error| error.is_retryable())
            }
            Cause::Exited(_) => self.phase == Phase::Starting,
            Cause::OutOfResources(_) | Cause::Closed | Cause::TimedOut => true,
            Cause::HeartbeatLost | Cause::LauncherLost(_) | Cause::StarterExited(_) => true,
            Cause::NotStarted(_) | Cause::Protocol(_) | Cause::Version(_) | Cause::WrongTicket => false,
            Cause::Unreachable | Cause::NotScheduled | Cause::NotStaged(_) => false,
            Cause::Cancelled | Cause::SettleElapsed | Cause::MasterFailed(_) | Cause::LaunchFailed(_) => {
                false
            }
        }
    }

    /// Returns whether the launcher may be at fault: nothing shows that any of its logins succeeds.
    #[must_use]
    pub fn may_be_launcher_fault(&self) -> bool {
        let unreached = match self.cause {
            Cause::NotStarted(_) | Cause::Closed | Cause::TimedOut => true,
            // Failures of the remote shell itself, and its death.
            Cause::Exited(Exit::Code(_) | Exit::Shell(_)) => {
                self.shell_error().is_some_and(|error| error.is_from_shell())
            }
            Cause::Exited(_) if self.exit_from_host => false,
            Cause::Exited(Exit::Signal(_) | Exit::Unknown) => true,
            _ => false,
        };
        unreached && self.phase == Phase::Starting
    }

    /// Returns whether the server, or the remote shell on the launching host, rejects this
    /// launcher.
    pub(crate) fn is_login_denied(&self) -> bool {
        use ShellError::{BadOptions, HostKeyChanged, HostKeyUnknown, LoginDenied, NoCommonAlgorithm};
        let refused = [LoginDenied, HostKeyUnknown, HostKeyChanged, NoCommonAlgorithm, BadOptions];
        self.shell_error().is_some_and(|shell_error| refused.contains(&shell_error))
    }

    /// Returns whether an attempt that was cancelled had failed by [`Self::is_login_denied`]
    /// before.
    pub(crate) fn was_login_denied(&self) -> bool {
        let exit = self.exit.filter(|_| self.cause == Cause::Cancelled);
        exit.is_some_and(|exit| Self { cause: Cause::Exited(exit), ..self.clone() }.is_login_denied())
    }

    /// Returns whether the server closed the connection before authentication, or no local port was
    /// left. Servers do that under load, such as `sshd` beyond `MaxStartups`; a server that rejects
    /// this client for good does it as well. Ports of closed connections become free again after a
    /// while.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        matches!(self.shell_error(), Some(ShellError::ClosedBeforeLogin | ShellError::NoPort))
    }

    /// Returns whether the launching process lacked resources. Other launchers may have them.
    #[must_use]
    pub fn is_out_of_resources(&self) -> bool {
        matches!(self.cause, Cause::OutOfResources(_))
    }

    /// Returns whether the server, the network or the launcher may be overloaded, so that fewer
    /// launches at a time may help.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        self.cause == Cause::Closed
            || self.is_out_of_resources()
            || self.shell_error().is_some_and(|error| error.is_overload())
    }
}
