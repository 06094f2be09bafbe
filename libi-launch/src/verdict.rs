//! What became of a launch: how far it got, why it went no further, and whether trying again can help.

use std::fmt;
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use serde::{Deserialize, Serialize};

/// How far the launch of a host, or of a local member, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Nobody has started it.
    Waiting,
    /// It was started; nothing in our protocol has come from it.
    Starting,
    /// It speaks our protocol, but has not said hello.
    Greeting,
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
            Self::Greeting => "saying hello",
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
    /// It has ended, but somebody else has collected how.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited {code}"),
            Self::Signal(number) => write!(f, "was ended by signal {number}"),
            Self::Unknown => f.write_str("ended, nobody knows how"),
        }
    }
}

/// Why a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// It could not even be started; the operating system says why.
    NotStarted(String),
    /// What was started has ended.
    Exited(Exit),
    /// The link to it was closed from the other side, and nothing ended that we could see.
    Closed,
    /// It did not get further in time.
    TimedOut,
    /// What it said is not our protocol.
    Garbled(String),
    /// It speaks no version of the protocol that we do.
    Version(String),
    /// It answered a ticket that was not given to it.
    WrongTicket,
    /// Nothing was heard of it for too long after it was up.
    Silent,
    /// It could not reach its parent directly, and was not to use the channel.
    Unreachable,
    /// The one that was to launch it is gone, or says nothing of it.
    LauncherLost(HostIndex),
    /// We have ended the launch, for other reasons, before this was decided.
    Abandoned,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(why) => write!(f, "cannot be started: {why}"),
            Self::Exited(exit) => exit.fmt(f),
            Self::Closed => f.write_str("closed the link"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Garbled(what) => write!(f, "does not speak our protocol: {what}"),
            Self::Version(what) => f.write_str(what),
            Self::WrongTicket => f.write_str("answered another ticket than its own"),
            Self::Silent => f.write_str("has fallen silent"),
            Self::Unreachable => f.write_str("cannot connect to the host that has launched it"),
            Self::LauncherLost(launcher) => write!(f, "was left to {launcher}, which is lost"),
            Self::Abandoned => f.write_str("was not waited for any longer"),
        }
    }
}

/// Who has launched a host, and when; as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trip {
    /// The host whose leader has launched it; none if that was the front end.
    pub launcher: Option<HostIndex>,
    /// How long the launcher had been up when it began to launch it.
    pub started: Duration,
    /// How long after that it said hello.
    pub greeted: Option<Duration>,
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
    /// The end of what it printed.
    pub tail: String,
    /// From its start until it had failed.
    pub elapsed: Duration,
    /// Who had launched it, and when.
    pub trip: Trip,
}

impl Failure {
    /// A failure of which nothing is left to be looked at.
    #[must_use]
    pub fn without_evidence(phase: Phase, cause: Cause, elapsed: Duration) -> Self {
        Self { member: None, phase, cause, exit: None, tail: String::new(), elapsed, trip: Trip::default() }
    }

    /// Whether another attempt may go better.
    ///
    /// A shell that refused, was closed or took too long may have been overrun. A command that is not found, may
    /// not be executed, or does not speak our protocol will be the same next time, and so will a shell that is not
    /// let in.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self.cause {
            // What remote shells say of themselves.
            Cause::Exited(Exit::Code(code)) => code == 255 && !self.is_not_let_in(),
            Cause::Exited(_) => self.phase == Phase::Starting,
            Cause::Closed | Cause::TimedOut | Cause::Silent | Cause::LauncherLost(_) => true,
            Cause::NotStarted(_) | Cause::Garbled(_) | Cause::Version(_) | Cause::WrongTicket => false,
            Cause::Abandoned | Cause::Unreachable => false,
        }
    }

    /// Whether it may be the launcher's fault: nothing says that the host was reached.
    #[must_use]
    pub fn may_be_the_launchers(&self) -> bool {
        let unreached = match self.cause {
            Cause::NotStarted(_) | Cause::Closed | Cause::TimedOut => true,
            // What remote shells say of themselves, and what becomes of them.
            Cause::Exited(Exit::Code(code)) => code == 255,
            Cause::Exited(Exit::Signal(_) | Exit::Unknown) => true,
            _ => false,
        };
        unreached && self.phase == Phase::Starting
    }

    /// Whether there was a server, which hung up before it had looked at who called. That is what one does that has too
    /// many callers at a time, as `sshd` with more than `MaxStartups`; also one that wants none of us.
    #[must_use]
    pub fn is_overrun(&self) -> bool {
        const LAST_WORDS: [&str; 3] =
            ["Connection closed by ", "Connection reset by ", "_exchange_identification: "];
        matches!(self.cause, Cause::Exited(Exit::Code(255))) && self.ends_with_one_of(&LAST_WORDS)
    }

    /// Whether the last that a shell has said is that it was not let in. Its status does not tell this from a host that is
    /// overrun.
    pub(crate) fn is_not_let_in(&self) -> bool {
        const LAST_WORDS: [&str; 3] =
            ["Permission denied", "Host key verification failed", "Too many authentication failures"];
        self.ends_with_one_of(&LAST_WORDS)
    }

    /// Whether a shell, of whose command nothing has been heard, said one of these last.
    fn ends_with_one_of(&self, words: &[&str]) -> bool {
        let last = self.tail.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        self.phase == Phase::Starting && words.iter().any(|words| last.contains(words))
    }
}
