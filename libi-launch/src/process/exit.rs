//! How a process ended, and the signals that can end it.

use std::fmt;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// It exited with this status.
    Code(i32),
    /// A signal killed it.
    Signal {
        /// The signal.
        signal: Signal,
        /// Whether it dumped core.
        core_dumped: bool,
    },
    /// It ended, and its status is lost: the embedding program ignores `SIGCHLD`, or has collected
    /// the status itself, as `waitpid(-1)` does.
    Unknown,
}

/// A signal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signal(i32);

impl Signal {
    /// Sent when a terminal closes.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// Sent by ^C.
    pub const INT: Self = Self(libc::SIGINT);
    /// Asks a process to end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// Ends a process unconditionally.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// The highest signal number.
    pub(super) const LAST: i32 = 64;

    /// The signal of this number, if there is one.
    #[must_use]
    pub const fn new(number: i32) -> Option<Self> {
        if number >= 1 && number <= Self::LAST { Some(Self(number)) } else { None }
    }

    /// A number from the kernel, which needs no check.
    pub(super) const fn of_kernel(number: i32) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            libc::SIGHUP => "SIGHUP",
            libc::SIGINT => "SIGINT",
            libc::SIGQUIT => "SIGQUIT",
            libc::SIGILL => "SIGILL",
            libc::SIGTRAP => "SIGTRAP",
            libc::SIGABRT => "SIGABRT",
            libc::SIGBUS => "SIGBUS",
            libc::SIGFPE => "SIGFPE",
            libc::SIGKILL => "SIGKILL",
            libc::SIGUSR1 => "SIGUSR1",
            libc::SIGSEGV => "SIGSEGV",
            libc::SIGUSR2 => "SIGUSR2",
            libc::SIGPIPE => "SIGPIPE",
            libc::SIGALRM => "SIGALRM",
            libc::SIGTERM => "SIGTERM",
            libc::SIGXCPU => "SIGXCPU",
            libc::SIGXFSZ => "SIGXFSZ",
            libc::SIGSYS => "SIGSYS",
            _ => return None,
        })
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with status {code}"),
            Self::Signal { signal, core_dumped: false } => write!(f, "killed by {signal}"),
            Self::Signal { signal, core_dumped: true } => write!(f, "killed by {signal}, core dumped"),
            Self::Unknown => f.write_str("ended with unknown status; the embedding program collected it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_texts() {
        assert_eq!(ExitStatus::Code(3).to_string(), "exited with status 3");
        let killed = ExitStatus::Signal { signal: Signal::KILL, core_dumped: false };
        assert_eq!(killed.to_string(), "killed by SIGKILL");
        let crashed = ExitStatus::Signal { signal: Signal(libc::SIGSEGV), core_dumped: true };
        assert_eq!(crashed.to_string(), "killed by SIGSEGV, core dumped");
        assert_eq!(Signal(40).to_string(), "signal 40");
    }

    #[test]
    fn numbers_without_a_signal_are_rejected() {
        assert_eq!((Signal::new(0), Signal::new(65), Signal::new(-9)), (None, None, None));
        assert_eq!(Signal::new(9), Some(Signal::KILL));
    }
}
