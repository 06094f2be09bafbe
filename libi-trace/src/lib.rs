//! The timeline of a launch: the phases of each host over time, beside the prediction; and what else is
//! drawn of launches and measurements: [trees](chart) and [curves].
//!
//! The driver of a launch fills in a [`Timeline`]; nothing here reads a clock. All times are
//! offsets from the beginning of the launch. A timeline gives the [path](Timeline::critical_path)
//! of launches to the host that joined last and a [`Summary`], and is written as [Chrome trace
//! JSON](Timeline::chrome_json), which `chrome://tracing`, Perfetto and `libi trace` read, or drawn
//! as an [SVG](Timeline::svg).
//!
//! # The phases of a host
//!
//! ```text
//!   0            started         hello          joined
//!   |   waiting     |   starting   |   joining    |   up ...
//!                                          ended, with the cause: at any time, in any phase
//! ```
//!
//! [`HostLine::attempts`] counts launches; all times belong to the last one, so earlier attempts
//! are part of the waiting. A timeline may be incomplete or absurd, since it may come from a file:
//! no method panics, and each takes time proportional to the size of the timeline.
#![forbid(unsafe_code)]

pub mod chart;
pub mod curves;

mod breaks;
mod chrome;
mod draw;
mod picture;
mod prediction;
mod reconstruct;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

pub use chrome::FORMAT;
pub use picture::MAX_ROWS;
pub use prediction::Prediction;
pub use reconstruct::{RelativeTimes, start_times};
pub use summary::{BusiestLauncher, PathStep, Quartiles, SLOWEST, Summary};

use libi_core::ids::HostIndex;

/// What happened during the launch of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The name of the session.
    pub session: String,
    /// The hosts; [`HostIndex`] counts along them.
    pub hosts: Vec<HostLine>,
    /// When the session was up, if it was.
    pub up: Option<Duration>,
    /// The launch as predicted at constant costs.
    pub predicted: Option<Prediction>,
}

/// The times of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLine {
    /// The name of the host.
    pub name: String,
    /// The number of members on it.
    pub members: u32,
    /// The host whose leader launched it last; `None` for the front end.
    pub launcher: Option<HostIndex>,
    /// The number of launches; 0 if it was never launched.
    pub attempts: u32,
    /// When its last launch was started; meaningless without a launch.
    pub started: Duration,
    /// When its leader said hello.
    pub hello: Option<Duration>,
    /// When all its members were up.
    pub joined: Option<Duration>,
    /// When it was given up or lost, and the cause.
    pub ended: Option<(Duration, String)>,
}

/// The state of a host at the end of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Its members are up.
    Joined,
    /// It was given up before they were.
    Failed,
    /// Its members were up, and then it was lost.
    Lost,
    /// Neither is known: the timeline ends before.
    Open,
}

impl HostLine {
    /// The state of the host at the end of the timeline.
    #[must_use]
    pub fn fate(&self) -> Fate {
        match (&self.joined, &self.ended) {
            (Some(_), None) => Fate::Joined,
            (None, Some(_)) => Fate::Failed,
            (Some(_), Some(_)) => Fate::Lost,
            (None, None) => Fate::Open,
        }
    }

    /// From the start of its launch until its leader said hello: REM.
    #[must_use]
    pub fn starting(&self) -> Option<Duration> {
        self.hello.map(|at| at.saturating_sub(self.started))
    }

    /// From the start of its launch until all its members were up.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.joined.map(|at| at.saturating_sub(self.started))
    }

    /// When it last entered a phase.
    fn reached(&self) -> Duration {
        self.joined.or(self.hello).unwrap_or(self.started)
    }

    /// The latest known time of the host.
    fn last(&self) -> Duration {
        let started = if self.attempts > 0 { self.started } else { Duration::ZERO };
        let known = [self.hello, self.joined, self.ended.as_ref().map(|&(at, _)| at)];
        known.into_iter().flatten().fold(started, Duration::max)
    }
}

impl Timeline {
    /// How long the launch took: until the session was up, or else until the latest known time.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.up.unwrap_or_else(|| self.hosts.iter().map(HostLine::last).max().unwrap_or_default())
    }

    /// A host of this timeline.
    #[must_use]
    pub fn host(&self, index: HostIndex) -> Option<&HostLine> {
        self.hosts.get(usize::try_from(index.0).ok()?)
    }

    /// The hosts on the path from the front end to the host that joined last, which is the last
    /// element; of several that joined at that time, the first. Empty if no host joined.
    #[must_use]
    pub fn critical_path(&self) -> Vec<HostIndex> {
        let joined =
            self.indexed().filter_map(|(index, host)| Some((host.joined?, std::cmp::Reverse(index))));
        let mut path = Vec::new();
        let mut met = BTreeSet::new();
        let mut next = joined.max().map(|(_, std::cmp::Reverse(index))| index);
        while let Some((index, host)) = next.and_then(|index| Some((index, self.host(index)?))) {
            if !met.insert(index) {
                break; // a cycle of launchers
            }
            path.push(index);
            next = host.launcher;
        }
        path.reverse();
        path
    }

    fn indexed(&self) -> impl Iterator<Item = (HostIndex, &HostLine)> + Clone {
        (0..).map(HostIndex).zip(&self.hosts)
    }

    /// The times at which hosts joined, ascending.
    fn joins(&self) -> Vec<Duration> {
        let mut joins: Vec<_> = self.hosts.iter().filter_map(|host| host.joined).collect();
        joins.sort_unstable();
        joins
    }
}
