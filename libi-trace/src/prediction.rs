//! The course of a launch if every single launch had cost the same.
use std::num::NonZeroU32;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::plan::greedy;
use libi_core::time::Instant;

/// The planner's prediction for a launch.
///
/// It is about positions in the order of launches, not about hosts: which host comes n-th is not
/// decided in advance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// The assumed cost, usually the measured one.
    pub cost: Cost,
    /// The times at which one more host is up, ascending.
    pub up: Vec<Duration>,
}

impl Prediction {
    /// The fastest launch of `hosts` hosts at this cost. The front end launches the first, whose
    /// leader launches the rest together with the hosts that are up by then. The constant is paid
    /// at the beginning.
    ///
    /// ```
    /// use libi_core::cost::Cost;
    /// use libi_trace::Prediction;
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
        Self::of_plan(count, 0, cost, cost.constant.saturating_add(cost.rem))
    }

    /// The same for a front end that goes on launching beside the hosts.
    ///
    /// ```
    /// use libi_core::cost::Cost;
    /// use libi_trace::Prediction;
    /// use std::time::Duration;
    ///
    /// let ms = Duration::from_millis;
    /// let prediction = Prediction::greedy_from_front_end(3, Cost::new(ms(7), ms(100)));
    /// assert_eq!(prediction.up, [ms(100), ms(107), ms(114)]);
    /// ```
    #[must_use]
    pub fn greedy_from_front_end(hosts: u32, cost: Cost) -> Self {
        // The front end is the root of the tree.
        let count = NonZeroU32::MIN.saturating_add(hosts);
        Self::of_plan(count, 1, cost, cost.constant)
    }

    /// The greedy plan of so many nodes, whose root is up after `before`, from this node on.
    fn of_plan(nodes: NonZeroU32, from: u32, cost: Cost, before: Duration) -> Self {
        let (_, schedule) = greedy::plan(nodes, &cost);
        let since_root = (from..nodes.get()).filter_map(|place| schedule.ready(place));
        let up = since_root.map(|at| before.saturating_add(at.since(Instant::ZERO)));
        Self { cost, up: up.collect() }
    }

    /// The time of the whole launch.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.up.last().copied().unwrap_or_default()
    }

    /// When the launch at this position, counted from 0, is started and when its host is up.
    #[must_use]
    pub fn place(&self, place: usize) -> Option<(Duration, Duration)> {
        let up = *self.up.get(place)?;
        Some((up.saturating_sub(self.cost.rem), up))
    }
}
