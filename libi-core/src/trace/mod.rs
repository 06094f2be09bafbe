//! The timeline of a launch: what happened to each host and when, beside what was predicted.
//!
//! Whoever drives a launch fills in a [`Timeline`]; nothing here reads a clock. All times are offsets from the
//! beginning of the launch. A timeline says which [path](Timeline::critical_path) of launches led to the host that joined
//! last, sums itself up as a [`Summary`], and is written as [Chrome trace JSON](Timeline::chrome_json), which
//! `chrome://tracing`, Perfetto and `libi trace` read, or drawn as an [SVG](Timeline::svg).
//!
//! # The phases of a host
//!
//! ```text
//!   0            started        greeted         joined
//!   |   waiting     |   starting   |   joining    |   up ...
//!                                          ended, with the cause: at any time, in any phase
//! ```
//!
//! [`HostLine::attempts`] counts launches; all times belong to the last one, so what earlier attempts took is part
//! of the waiting. A timeline may be incomplete or absurd, since it may come from a file: whatever is asked of
//! it is answered without panic and in time proportional to its size.

mod chrome;
mod picture;
mod prediction;
mod summary;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

pub use chrome::FORMAT;
pub use picture::MAX_ROWS;
pub use prediction::Prediction;
pub use summary::{BusiestLauncher, PathStep, Quartiles, SLOWEST, Summary};

use crate::ids::HostIndex;

/// What happened during the launch of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// What people call the session.
    pub session: String,
    /// The hosts; [`HostIndex`] counts along them.
    pub hosts: Vec<HostLine>,
    /// When the session was up, if it was.
    pub up: Option<Duration>,
    /// How the launch would have gone at constant costs.
    pub predicted: Option<Prediction>,
}

/// What happened to one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLine {
    /// What people call it.
    pub name: String,
    /// How many members run on it.
    pub members: u32,
    /// The host whose leader launched it last; nothing if it was the front end.
    pub launcher: Option<HostIndex>,
    /// How often it was launched; 0 if nobody came to it.
    pub attempts: u32,
    /// When its last launch was started; without meaning if there was none.
    pub started: Duration,
    /// When its leader said hello.
    pub hello: Option<Duration>,
    /// When all its members were up.
    pub joined: Option<Duration>,
    /// When it was given up or lost, and why.
    pub ended: Option<(Duration, String)>,
}

/// What has become of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Its members are up.
    Joined,
    /// It was given up before they were.
    Failed,
    /// They were up, and then it was lost.
    Lost,
    /// Neither is known: the timeline ends too early.
    Open,
}

impl HostLine {
    /// What has become of it.
    #[must_use]
    pub fn fate(&self) -> Fate {
        match (&self.joined, &self.ended) {
            (Some(_), None) => Fate::Joined,
            (None, Some(_)) => Fate::Failed,
            (Some(_), Some(_)) => Fate::Lost,
            (None, None) => Fate::Open,
        }
    }

    /// From the start of its launch until its leader said hello, which is what REM stands for.
    #[must_use]
    pub fn starting(&self) -> Option<Duration> {
        self.hello.map(|at| at.saturating_sub(self.started))
    }

    /// From the start of its launch until all its members were up.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.joined.map(|at| at.saturating_sub(self.started))
    }

    /// How far it got: when it last entered a phase.
    fn reached(&self) -> Duration {
        self.joined.or(self.hello).unwrap_or(self.started)
    }

    /// The latest time that is known of it.
    fn last(&self) -> Duration {
        let started = if self.attempts > 0 { self.started } else { Duration::ZERO };
        let known = [self.hello, self.joined, self.ended.as_ref().map(|&(at, _)| at)];
        known.into_iter().flatten().fold(started, Duration::max)
    }
}

impl Timeline {
    /// How long the launch took: until the session was up, or else until the last thing that is known.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.up.unwrap_or_else(|| self.hosts.iter().map(HostLine::last).max().unwrap_or_default())
    }

    /// A host of this timeline.
    #[must_use]
    pub fn host(&self, index: HostIndex) -> Option<&HostLine> {
        self.hosts.get(usize::try_from(index.0).ok()?)
    }

    /// The hosts on the way from the front end to the host that joined last, which is the last of them; of
    /// several that joined then, the first. Nobody if no host joined.
    #[must_use]
    pub fn critical_path(&self) -> Vec<HostIndex> {
        let joined =
            self.indexed().filter_map(|(index, host)| Some((host.joined?, core::cmp::Reverse(index))));
        let mut path = Vec::new();
        let mut met = BTreeSet::new();
        let mut next = joined.max().map(|(_, core::cmp::Reverse(index))| index);
        while let Some((index, host)) = next.and_then(|index| Some((index, self.host(index)?))) {
            if !met.insert(index) {
                break; // launchers in a circle lead nowhere
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

    /// When hosts joined, ascending.
    fn joins(&self) -> Vec<Duration> {
        let mut joins: Vec<_> = self.hosts.iter().filter_map(|host| host.joined).collect();
        joins.sort_unstable();
        joins
    }
}
