//! Points in time that are passed in, never read from a clock.
//!
//! The core never asks for the time: the driver of a state machine passes it in, the runtime loop
//! from the monotonic clock, the simulator from its event queue. [`Instant`] is the type of that
//! argument. It counts nanoseconds from a start that only the driver knows, in a `u64`, which lasts
//! 584 years. All arithmetic saturates: a hostile or absurd duration ends at the largest instant,
//! not in a panic.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::{Add, AddAssign};
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: nanoseconds since the driver's own start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instant(u64);

impl Instant {
    /// The driver's start.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start, for display and plots.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}

/// Formats a duration in the unit that suits it, with at most three decimals; from a tenth of a
/// second on in seconds.
///
/// ```
/// use libi_core::time::Rounded;
/// use std::time::Duration;
///
/// let nanos = [609_000_123, 7_158_000_000, 7_000_000, 12_345].map(Duration::from_nanos);
/// let shown = nanos.map(|duration| Rounded(duration).to_string());
/// assert_eq!(shown, ["0.609 s", "7.158 s", "7 ms", "12.345 µs"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounded(pub Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl Rounded {
    fn text(self) -> String {
        let nanos = self.0.as_nanos();
        let (unit, name) = match nanos {
            0 | 100_000_000.. => return format!("{:.3} s", self.0.as_secs_f64()),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "µs"),
            _ => (1, "ns"),
        };
        let decimals = format!("{}.{:03}", nanos / unit, nanos % unit * 1_000 / unit);
        format!("{} {name}", decimals.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A duration in whole nanoseconds, the internal unit of this crate.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_past_the_end_of_time_stays_there() {
        assert_eq!(Instant::from_nanos(5) + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(Instant::FAR_FUTURE + Duration::from_nanos(1), Instant::FAR_FUTURE);
    }

    #[test]
    fn since_a_later_instant_is_zero() {
        let (early, late) = (Instant::from_nanos(3), Instant::from_nanos(10));
        assert_eq!(late.since(early), Duration::from_nanos(7));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
