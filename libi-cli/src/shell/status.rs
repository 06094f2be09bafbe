//! The exit status of `libi shell`, from what has happened in the session.

use libi::{CommandReport, ProcessOutcome};
use nix::sys::signal::Signal;

use crate::run::TIME_LIMIT_STATUS;

/// What has happened so far.
#[derive(Debug, Default)]
pub(super) struct Status {
    asked: Option<u8>,
    signal: Option<Signal>,
    is_host_lost: bool,
    is_late: bool,
    is_line_invalid: bool,
    has_failed: bool,
}

impl Status {
    /// The user ends the session, with this status if there is one.
    pub(super) fn exits(&mut self, status: Option<u8>) {
        self.asked = status;
    }

    /// A signal ends the session.
    pub(super) fn signalled(&mut self, signal: Signal) {
        self.signal.get_or_insert(signal);
    }

    pub(super) fn is_signalled(&self) -> bool {
        self.signal.is_some()
    }

    pub(super) fn host_lost(&mut self) {
        self.is_host_lost = true;
    }

    pub(super) fn invalid_line(&mut self) {
        self.is_line_invalid = true;
    }

    /// A command has ended like this.
    pub(super) fn command_done(&mut self, report: &CommandReport) {
        for process in report.processes() {
            match &process.outcome {
                ProcessOutcome::Lost(_) => self.is_host_lost = true,
                ProcessOutcome::TimedOut => self.is_late = true,
                outcome => self.has_failed |= !outcome.is_success(),
            }
        }
    }

    /// The exit status: see [`super::EXAMPLES`].
    pub(super) fn exit_status(&self) -> u8 {
        match self {
            Self { signal: Some(signal), .. } => 128 + *signal as u8, // signal numbers are less than 65
            Self { asked: Some(status), .. } => *status,
            Self { is_host_lost: true, .. } => 4,
            Self { is_late: true, .. } => TIME_LIMIT_STATUS,
            Self { is_line_invalid: true, .. } => 2,
            Self { has_failed, .. } => u8::from(*has_failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_failure_is_the_status() {
        let mut status = Status::default();
        assert_eq!(status.exit_status(), 0);
        status.has_failed = true;
        assert_eq!(status.exit_status(), 1);
        status.invalid_line();
        assert_eq!(status.exit_status(), 2);
        status.is_late = true;
        assert_eq!(status.exit_status(), 124);
        status.host_lost();
        assert_eq!(status.exit_status(), 4);
        status.exits(Some(0));
        assert_eq!(status.exit_status(), 0);
        status.signalled(Signal::SIGTERM);
        assert_eq!(status.exit_status(), 143);
    }
}
