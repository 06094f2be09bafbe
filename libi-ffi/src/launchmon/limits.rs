//! How long calls wait, and ranks are held. Variables in the environment of the front end, which
//! daemons get too.
//!
//! | variable | in seconds | by default |
//! |---|---|---|
//! | `LIBI_LMON_TIMEOUT` | every call that waits | two minutes from the launch until all daemons are ready; other calls wait as long as the processes that they need are alive |
//! | `LIBI_LMON_HOLD` | how long ranks are held at most | ten minutes |

use std::time::{Duration, Instant};

use libi::{EnvVar, OsBytes};

const TIMEOUT_ENV: &str = "LIBI_LMON_TIMEOUT";
const HOLD_ENV: &str = "LIBI_LMON_HOLD";

/// By default, from the launch until all daemons are ready.
const LAUNCH: Duration = Duration::from_secs(120);
/// How long ranks are held by default.
const HOLD: Duration = Duration::from_secs(600);
/// What a timeout without limit becomes where a point in time is needed.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Until when the parts of a call have to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout.min(YEAR))
    }

    /// Of a launch, or of a part of it.
    pub(super) fn of_launch() -> Self {
        Self::after(seconds(TIMEOUT_ENV).unwrap_or(LAUNCH))
    }

    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Of a call that is not part of a launch.
pub(super) fn timeout() -> Duration {
    seconds(TIMEOUT_ENV).unwrap_or(Duration::MAX)
}

/// How long ranks are held at most.
pub(super) fn hold() -> Duration {
    seconds(HOLD_ENV).unwrap_or(HOLD).min(YEAR)
}

/// What daemons get.
pub(super) fn forwarded() -> Option<EnvVar> {
    let value = std::env::var(TIMEOUT_ENV).ok()?;
    EnvVar::new(OsBytes::try_from(TIMEOUT_ENV).ok()?, OsBytes::try_from(&*value).ok()?).ok()
}

fn seconds(name: &str) -> Option<Duration> {
    read(&std::env::var(name).ok()?)
}

/// A number of seconds above 0.
fn read(text: &str) -> Option<Duration> {
    let seconds = text.trim().parse::<f64>().ok().filter(|seconds| *seconds > 0.0)?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_above_0() {
        assert_eq!(
            [" 2 ", "0.5"].map(read),
            [Some(Duration::from_secs(2)), Some(Duration::from_millis(500))]
        );
        assert_eq!(["", "0", "-1", "x", "inf", "nan", "1e99"].map(read), [None; 7]);
        assert!(Deadline::after(Duration::MAX).left() > Duration::from_secs(1));
        assert_eq!(Deadline::after(Duration::ZERO).left(), Duration::ZERO);
    }
}
