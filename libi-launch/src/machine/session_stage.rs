//! The stage of a session, as one node knows it.
//!
//! | stage | launching stops | session is up | end begins | parent lost | last child gone |
//! |---|---|---|---|---|---|
//! | launching | launch stopped | up | ending | ending | |
//! | launch stopped | | up | ending | ending | |
//! | up | | | ending | ending | |
//! | ending | | | ending, by an earlier time | | over |
//! | over | | | | | |
//!
//! A session that ends is remembered as one that has been up or not: only then is a process that
//! ends a member that has exited, and a host that joins too late is ended like all others.

use libi_core::time::Instant;

/// The stage of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionStage(Stage);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Launching,
    /// No host is launched any more.
    LaunchStopped,
    Up,
    Ending {
        was_up: bool,
        /// The time by which the session has to be over; in the far future if the parent is lost,
        /// because no later order can shorten it.
        by: Instant,
    },
    Over {
        was_up: bool,
    },
}

impl SessionStage {
    pub(super) fn new() -> Self {
        Self(Stage::Launching)
    }

    /// Whether hosts are launched.
    pub(super) fn is_launching(self) -> bool {
        self.0 == Stage::Launching
    }

    /// Whether the session is not up yet, and does not end.
    pub(super) fn is_before_up(self) -> bool {
        matches!(self.0, Stage::Launching | Stage::LaunchStopped)
    }

    pub(super) fn is_up(self) -> bool {
        self.0 == Stage::Up
    }

    /// Whether the session ends or is over.
    pub(super) fn has_begun_to_end(self) -> bool {
        self.is_ending() || self.is_over()
    }

    pub(super) fn is_ending(self) -> bool {
        matches!(self.0, Stage::Ending { .. })
    }

    pub(super) fn is_over(self) -> bool {
        matches!(self.0, Stage::Over { .. })
    }

    /// Whether the session is or has been up.
    pub(super) fn was_up(self) -> bool {
        match self.0 {
            Stage::Launching | Stage::LaunchStopped => false,
            Stage::Up => true,
            Stage::Ending { was_up, .. } | Stage::Over { was_up } => was_up,
        }
    }

    pub(super) fn stop_launching(&mut self) {
        if self.is_launching() {
            self.0 = Stage::LaunchStopped;
        }
    }

    pub(super) fn go_up(&mut self) {
        if self.is_before_up() {
            self.0 = Stage::Up;
        }
    }

    /// The session ends by this time. Returns false if it ended before.
    pub(super) fn end(&mut self, by: Instant) -> bool {
        let begins = !self.has_begun_to_end();
        if begins {
            self.0 = Stage::Ending { was_up: self.was_up(), by };
        }
        begins
    }

    /// The session that ends has less time. Returns false if it does not end, or has no more time
    /// than this.
    pub(super) fn shorten_end(&mut self, to: Instant) -> bool {
        match &mut self.0 {
            Stage::Ending { by, .. } if to < *by => {
                *by = to;
                true
            }
            _ => false,
        }
    }

    /// Everything below the node has ended. Returns false if the session does not end.
    pub(super) fn finish(&mut self) -> bool {
        let is_ending = self.is_ending();
        if is_ending {
            self.0 = Stage::Over { was_up: self.was_up() };
        }
        is_ending
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_session_goes_up_and_ends_once() {
        let mut stage = SessionStage::new();
        assert!(stage.is_launching() && !stage.was_up() && !stage.finish());
        stage.stop_launching();
        assert!(!stage.is_launching() && stage.is_before_up());
        stage.go_up();
        stage.stop_launching();
        assert!(stage.is_up() && stage.was_up() && !stage.has_begun_to_end());
        assert!(stage.end(at(5)) && !stage.end(at(3)));
        stage.go_up();
        assert!(stage.is_ending() && stage.was_up());
        assert!(stage.finish() && !stage.finish() && !stage.end(at(1)));
        assert!(stage.is_over() && stage.was_up());
    }

    #[test]
    fn a_session_that_was_given_up_does_not_count_as_one_that_was_up() {
        let mut stage = SessionStage::new();
        stage.end(at(5));
        stage.go_up();
        assert!(!stage.is_up() && !stage.was_up() && stage.finish() && !stage.was_up());
    }

    #[test]
    fn the_time_of_an_end_is_only_shortened() {
        let mut stage = SessionStage::new();
        assert!(!stage.shorten_end(at(1)), "it does not end");
        stage.end(at(5));
        assert!(!stage.shorten_end(at(5)) && stage.shorten_end(at(4)) && !stage.shorten_end(at(4)));
    }
}
