//! The settle time: when enough hosts are up, the launch does not wait for the last ones for ever.
//!
//! | state | event | next state |
//! |---|---|---|
//! | too few hosts joined | a host joins, and enough have | settling |
//! | settling | a host joins, fails or is relaunched | settling, the time starts again |
//! | settling | no such event for the settle time | open launches are given up |
//! | settling | no host is open | the session goes up |
//!
//! By default, the settle time is a multiple of the slowest launch so far. While only the first
//! host is up, no other launch was measured, and the time of one attempt is waited.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::time::Instant;

use crate::failure::LaunchTiming;
use crate::machine::message::Rules;

/// The shortest settle time, if none was asked for.
const SHORTEST: Duration = Duration::from_secs(2);
/// The settle time in multiples of the slowest launch, if none was asked for.
const TIMES_SLOWEST: u32 = 4;
/// The least time between two rounds of giving up.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);

/// When the launch has settled.
#[derive(Clone, Debug)]
pub(super) struct SettleTimer {
    /// The settle time that was asked for.
    asked: Option<Duration>,
    /// The slowest launch so far, from start to joined, apart from the first host's.
    slowest: Option<Duration>,
    /// How often the host table had changed at the last decision, and when it did.
    changes: u64,
    progress: Instant,
    /// When open launches are given up, if nothing changes.
    due: Instant,
}

impl SettleTimer {
    pub(super) fn new(asked: Option<Duration>) -> Self {
        Self { asked, slowest: None, changes: 0, progress: Instant::ZERO, due: Instant::FAR_FUTURE }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// A host has joined.
    pub(super) fn joined(&mut self, host: HostIndex, timing: &LaunchTiming) {
        if host != HostIndex(0) {
            let took = timing.hello.unwrap_or_default() + timing.joined.unwrap_or_default();
            self.slowest = self.slowest.max(Some(took));
        }
    }

    fn time(&self, rules: &Rules) -> Duration {
        self.asked.unwrap_or_else(|| match self.slowest {
            Some(slowest) => slowest.saturating_mul(TIMES_SLOWEST).max(SHORTEST),
            None => rules.hello_timeout,
        })
    }

    /// Whether open launches are to be given up now. `changes` counts the changes of the host
    /// table, and `enough` tells whether the session could go up without the open hosts.
    pub(super) fn expires(&mut self, changes: u64, enough: bool, rules: &Rules, now: Instant) -> bool {
        if changes != self.changes {
            (self.changes, self.progress) = (changes, now);
        }
        let time = self.time(rules);
        if !enough {
            self.due = Instant::FAR_FUTURE;
            return false;
        }
        self.due = self.progress + time;
        if now < self.due {
            return false;
        }
        self.progress = now + BETWEEN_ROUNDS.saturating_sub(time);
        self.due = self.progress + time;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn timing(millis: u64) -> LaunchTiming {
        LaunchTiming { hello: Some(Duration::from_millis(millis)), ..LaunchTiming::default() }
    }

    #[test]
    fn the_time_starts_again_with_every_change() {
        let rules = Rules::default();
        let mut timer = SettleTimer::new(Some(Duration::from_secs(1)));
        assert!(!timer.expires(1, false, &rules, at(0)));
        assert_eq!(timer.due(), Instant::FAR_FUTURE, "too few are up");
        assert!(!timer.expires(2, true, &rules, at(10)));
        assert_eq!(timer.due(), at(1_010));
        assert!(!timer.expires(3, true, &rules, at(900)));
        assert!(!timer.expires(3, true, &rules, at(1_899)));
        assert!(timer.expires(3, true, &rules, at(1_900)));
        assert!(!timer.expires(3, true, &rules, at(1_901)), "once a round");
        assert_eq!(timer.due(), at(2_900));
    }

    #[test]
    fn by_default_it_follows_the_slowest_launch() {
        let rules = Rules::default();
        let mut timer = SettleTimer::new(None);
        timer.joined(HostIndex(0), &timing(1));
        assert_eq!(timer.time(&rules), rules.hello_timeout, "the first host says nothing about others");
        timer.joined(HostIndex(1), &timing(10));
        assert_eq!(timer.time(&rules), SHORTEST);
        timer.joined(HostIndex(2), &timing(3_000));
        timer.joined(HostIndex(3), &timing(20));
        assert_eq!(timer.time(&rules), Duration::from_secs(12));
    }

    #[test]
    fn no_settle_time_spins_and_the_longest_one_never_ends() {
        let rules = Rules::default();
        let mut never = SettleTimer::new(Some(Duration::MAX));
        assert!(!never.expires(1, true, &rules, at(1_000_000)));
        assert_eq!(never.due(), Instant::FAR_FUTURE);
        let mut at_once = SettleTimer::new(Some(Duration::ZERO));
        assert!(at_once.expires(1, true, &rules, at(10)));
        assert!(!at_once.expires(1, true, &rules, at(11)));
        assert_eq!(at_once.due(), at(1_010));
    }
}
