//! How a process ended, and the signals that can end it.

use std::fmt;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// It exited with this status.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// Which one.
        signal: Signal,
        /// Whether it left a core dump.
        core_dumped: bool,
    },
    /// It ended, and nobody can say how any more: the program that embeds us ignores `SIGCHLD`, or collected the
    /// status itself, as `waitpid(-1)` does.
    Unknown,
}

/// The number of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signal(i32);

impl Signal {
    /// What a closed terminal sends.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// What ^C sends.
    pub const INT: Self = Self(libc::SIGINT);
    /// The request to end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// The end that cannot be refused.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// The last number that a signal can have.
    pub(super) const LAST: i32 = 64;

    /// The signal of this number, if there is one.
    #[must_use]
    pub const fn new(number: i32) -> Option<Self> {
        if number >= 1 && number <= Self::LAST { Some(Self(number)) } else { None }
    }

    /// What the kernel said; it knows its signals.
    pub(super) const fn of_kernel(number: i32) -> Self {
        Self(number)
    }

    /// Its number.
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
            Self::Signal { signal, core_dumped: false } => write!(f, "ended by {signal}"),
            Self::Signal { signal, core_dumped: true } => write!(f, "ended by {signal}, core dumped"),
            Self::Unknown => f.write_str("ended; the embedding program took its exit status"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_told_in_words() {
        assert_eq!(ExitStatus::Code(3).to_string(), "exited with status 3");
        let killed = ExitStatus::Signal { signal: Signal::KILL, core_dumped: false };
        assert_eq!(killed.to_string(), "ended by SIGKILL");
        let crashed = ExitStatus::Signal { signal: Signal(libc::SIGSEGV), core_dumped: true };
        assert_eq!(crashed.to_string(), "ended by SIGSEGV, core dumped");
        assert_eq!(Signal(40).to_string(), "signal 40");
    }

    #[test]
    fn numbers_that_no_signal_has_are_refused() {
        assert_eq!((Signal::new(0), Signal::new(65), Signal::new(-9)), (None, None, None));
        assert_eq!(Signal::new(9), Some(Signal::KILL));
    }
}
