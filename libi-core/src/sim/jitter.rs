//! How a cost varies from launch to launch.

use alloc::sync::Arc;
use core::time::Duration;

use super::rng::Rng;
use crate::ids::HostIndex;
use crate::time::nanos;

/// The distribution of one cost.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// Always the same.
    Constant(Duration),
    /// Uniform within this fraction of the mean: 0.5 is ±50 %.
    Uniform {
        /// The mean.
        middle: Duration,
        /// The largest deviation as a fraction of the mean.
        within: f64,
    },
    /// Log-normal: few launches take very long, as real ones do.
    LogNormal {
        /// The median.
        median: Duration,
        /// The standard deviation of the logarithm; at 0.5 one in forty takes over 2.7 times the
        /// median.
        sigma: f64,
    },
    /// Given for every host; hosts past the end of the list start over from its beginning.
    PerHost(Arc<[Duration]>),
}

impl Jitter {
    /// Draws the cost of one launch of this host.
    pub fn draw(&self, host: HostIndex, rng: &mut Rng) -> Duration {
        match self {
            Self::Constant(cost) => *cost,
            Self::Uniform { middle, within } => {
                scale(*middle, 1.0 + within.clamp(0.0, 1.0) * (2.0 * rng.unit() - 1.0))
            }
            Self::LogNormal { median, sigma } => scale(*median, libm::exp(sigma * rng.normal())),
            Self::PerHost(costs) if costs.is_empty() => Duration::ZERO,
            Self::PerHost(costs) => costs[host.0 as usize % costs.len()],
        }
    }

    /// The mean: what a planner that knows the distribution would be told.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Self::Constant(cost) | Self::Uniform { middle: cost, .. } => *cost,
            Self::LogNormal { median, sigma } => scale(*median, libm::exp(sigma * sigma / 2.0)),
            Self::PerHost(costs) => {
                let sum: u128 = costs.iter().map(Duration::as_nanos).sum();
                let mean = sum / (costs.len() as u128).max(1);
                Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
            }
        }
    }
}

/// The duration times a factor. A negative product or NaN gives zero, an overflow the longest
/// duration.
pub(super) fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::from_nanos(libm::round(nanos(duration) as f64 * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn draws(spread: &Jitter) -> (f64, f64, f64) {
        let mut rng = Rng::new(11);
        let (mut sum, mut least, mut most) = (0.0, f64::MAX, 0f64);
        for host in 0..40_000 {
            let x = spread.draw(HostIndex(host), &mut rng).as_secs_f64();
            sum += x;
            least = least.min(x);
            most = most.max(x);
        }
        (sum / 40_000.0, least, most)
    }

    #[test]
    fn a_uniform_spread_stays_within_its_bounds_and_keeps_its_mean() {
        let (mean, least, most) = draws(&Jitter::Uniform { middle: SECOND, within: 0.5 });
        assert!((mean - 1.0).abs() < 0.01);
        assert!((0.5..0.501).contains(&least) && (1.499..=1.5).contains(&most));
    }

    #[test]
    fn a_log_normal_spread_has_the_mean_it_says() {
        let spread = Jitter::LogNormal { median: SECOND, sigma: 0.5 };
        let (mean, least, most) = draws(&spread);
        assert!((mean - spread.mean().as_secs_f64()).abs() < 0.01);
        assert!(least > 0.0 && most > 4.0);
    }

    #[test]
    fn costs_given_per_host_are_the_hosts_own() {
        let spread = Jitter::PerHost([SECOND, 3 * SECOND].into());
        let mut rng = Rng::new(0);
        assert_eq!(spread.draw(HostIndex(1), &mut rng), 3 * SECOND);
        assert_eq!(spread.draw(HostIndex(2), &mut rng), SECOND);
        assert_eq!(spread.mean(), 2 * SECOND);
    }
}
