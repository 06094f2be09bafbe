//! How a launch would have gone if every launch had cost the same.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::cost::Cost;
use crate::plan::greedy;
use crate::time::Instant;

/// What the planner says of a launch.
///
/// It speaks of places, not of hosts: which host has the n-th launch is not decided in advance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// What a launch was taken to cost, usually what was measured.
    pub cost: Cost,
    /// When one host more is up, ascending.
    pub up: Vec<Duration>,
}

impl Prediction {
    /// The fastest launch of so many hosts at this cost: the front end launches the first, whose leader launches the rest
    /// together with those that are up by then. The constant is paid at the beginning.
    ///
    /// ```
    /// use libi_core::{cost::Cost, trace::Prediction};
    /// use std::time::Duration;
    ///
    /// let ms = Duration::from_millis;
    /// let prediction = Prediction::greedy(3, Cost::new(ms(7), ms(100)));
    /// assert_eq!(prediction.up, [ms(100), ms(200), ms(207)]);
    /// assert_eq!(prediction.time(), ms(207));
    /// ```
    #[must_use]
    pub fn greedy(hosts: u32, cost: Cost) -> Self {
        let Some(count) = NonZeroU32::new(hosts) else {
            return Self { cost, up: Vec::new() };
        };
        let (_, schedule) = greedy::plan(count, &cost);
        let first = cost.constant.saturating_add(cost.rem);
        let since_first = (0..hosts).filter_map(|place| schedule.ready(place));
        let up = since_first.map(|at| first.saturating_add(at.since(Instant::ZERO)));
        Self { cost, up: up.collect() }
    }

    /// How long the launch takes.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.up.last().copied().unwrap_or_default()
    }

    /// When the launch in this place is started and its host is up; the first is in place 0.
    #[must_use]
    pub fn place(&self, place: usize) -> Option<(Duration, Duration)> {
        let up = *self.up.get(place)?;
        Some((up.saturating_sub(self.cost.rem), up))
    }
}
