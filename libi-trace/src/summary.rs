//! A timeline in a few numbers, for the question why a launch was slow or failed.
use std::cmp::Reverse;
use std::time::Duration;

use super::{Fate, HostLine, Timeline};
use libi_core::ids::HostIndex;
use libi_core::time::Rounded;

/// The number of slowest hosts that a summary names.
pub const SLOWEST: usize = 5;

/// The key figures of a launch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The number of hosts to launch.
    pub hosts: usize,
    /// The number of hosts that are up.
    pub joined: usize,
    /// The number of hosts that were given up.
    pub failed: usize,
    /// The number of hosts that were up and then lost.
    pub lost: usize,
    /// The number of hosts whose end is unknown: the timeline ends before.
    pub open: usize,
    /// The number of members that are up.
    pub members: u64,
    /// How long the launch took, see [`Timeline::took`].
    pub took: Duration,
    /// The number of hosts that the prediction is compared with: those that joined at their first
    /// launch. A prediction knows nothing of timeouts and repeated launches.
    pub compared: usize,
    /// The predicted time of that many hosts.
    pub predicted: Option<Duration>,
    /// When the last of those hosts joined; the time of the launch if they are all hosts.
    pub measured: Option<Duration>,
    /// The measured time as a multiple of the predicted one; `None` where the two are not
    /// comparable.
    pub ratio: Option<f64>,
    /// From the start of a launch until its leader said hello: REM.
    pub starting: Option<Quartiles>,
    /// The hosts with the longest time from the start of their launch until they joined, the
    /// slowest first.
    pub slowest: Vec<HostIndex>,
    /// The critical path to the host that joined last, from the front end.
    pub path: Vec<PathStep>,
    /// The launcher with the most launches.
    pub busiest: Option<BusiestLauncher>,
    /// The number of repeated launches.
    pub retries: u64,
}

/// The quartiles of a set of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quartiles {
    /// The shortest.
    pub least: Duration,
    /// The lower quartile.
    pub lower: Duration,
    /// The median.
    pub median: Duration,
    /// The upper quartile.
    pub upper: Duration,
    /// The longest.
    pub most: Duration,
}

/// A launcher and the number of its launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusiestLauncher {
    /// The host; `None` for the front end.
    pub host: Option<HostIndex>,
    /// The number of hosts it launched.
    pub launched: u32,
}

/// One launch on the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStep {
    /// The launched host.
    pub host: HostIndex,
    /// Its launcher; `None` for the front end.
    pub launcher: Option<HostIndex>,
    /// The number of hosts that its launcher launched before it.
    pub before: u32,
    /// From when its launcher was up until its own launch was started.
    pub waited: Duration,
    /// From the start of its launch until its leader said hello.
    pub starting: Duration,
    /// From that until all its members were up. Only that of the last step delays the session.
    pub joining: Duration,
    /// When its leader said hello, or when it joined if that is not known.
    pub hello: Duration,
}

impl Quartiles {
    /// The quartiles of these durations; `None` if there are none.
    #[must_use]
    pub fn of(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        let rank = |quarter: usize| (durations.len() * quarter).div_ceil(4).saturating_sub(1);
        let at = |quarter| durations.get(rank(quarter)).copied();
        Some(Self { least: at(0)?, lower: at(1)?, median: at(2)?, upper: at(3)?, most: at(4)? })
    }
}

impl Summary {
    /// The numbers of this launch.
    #[must_use]
    pub fn new(timeline: &Timeline) -> Self {
        let count = |fate| timeline.hosts.iter().filter(|host| host.fate() == fate).count();
        let joined = timeline.hosts.iter().filter(|host| host.fate() == Fate::Joined);
        let took = timeline.took();
        let first_try = timeline.hosts.iter().filter(|host| host.attempts <= 1);
        let joins = first_try.filter_map(|host| host.joined);
        let compared = joins.clone().count();
        let predicted = timeline
            .predicted
            .as_ref()
            .and_then(|predicted| predicted.up.get(compared.checked_sub(1)?).copied());
        let measured = if compared == timeline.hosts.len() { timeline.up } else { joins.max() };
        let comparable = measured.zip(predicted).filter(|(_, time)| timeline.up.is_some() && !time.is_zero());
        let starting = timeline.hosts.iter().filter_map(HostLine::starting);
        Self {
            hosts: timeline.hosts.len(),
            joined: count(Fate::Joined),
            failed: count(Fate::Failed),
            lost: count(Fate::Lost),
            open: count(Fate::Open),
            members: joined.map(|host| u64::from(host.members)).sum(),
            took,
            compared,
            predicted,
            measured,
            ratio: comparable.map(|(measured, predicted)| measured.as_secs_f64() / predicted.as_secs_f64()),
            starting: Quartiles::of(starting.collect()),
            slowest: slowest(timeline),
            path: steps(timeline),
            busiest: busiest(timeline),
            retries: timeline.hosts.iter().map(|host| u64::from(host.attempts.saturating_sub(1))).sum(),
        }
    }
}

impl Summary {
    /// The prediction in words, beside the measurement; `None` without a prediction for the hosts
    /// that joined.
    #[must_use]
    pub fn prediction(&self, timeline: &Timeline) -> Option<String> {
        let (predicted, cost) = (self.predicted?, timeline.predicted.as_ref()?.cost);
        let all = self.compared == self.hosts;
        let mut text = Rounded(predicted).to_string();
        if !all {
            let plural = if self.compared == 1 { "host" } else { "hosts" };
            text += &format!(" for the {} {plural} that joined at their first launch,", self.compared);
        }
        text += &format!(" at SEQ {}, REM {}", Rounded(cost.seq), Rounded(cost.rem));
        if let (Some(ratio), Some(measured)) = (self.ratio, self.measured) {
            text += &match all {
                true => format!("; it took {ratio:.2} times as long"),
                false => format!("; they took {}, {ratio:.2} times as long", Rounded(measured)),
            };
        }
        Some(text)
    }
}

fn slowest(timeline: &Timeline) -> Vec<HostIndex> {
    let took = timeline.indexed().filter_map(|(index, host)| Some((Reverse(host.took()?), index)));
    let mut took: Vec<_> = took.collect();
    took.sort_unstable();
    took.into_iter().take(SLOWEST).map(|(_, index)| index).collect()
}

/// The launcher with the most launches; of several, the first, with the front end before all hosts.
fn busiest(timeline: &Timeline) -> Option<BusiestLauncher> {
    let mut launched = vec![0; timeline.hosts.len()];
    let mut front_end = 0;
    for host in timeline.hosts.iter().filter(|host| host.attempts > 0) {
        match host.launcher {
            None => front_end += 1,
            Some(HostIndex(index)) => {
                if let Some(count) = usize::try_from(index).ok().and_then(|index| launched.get_mut(index)) {
                    *count += 1;
                }
            }
        }
    }
    let others = (0..).map(|index| Some(HostIndex(index))).zip(launched);
    let all = std::iter::once((None, front_end)).chain(others);
    let (host, launched) = all.min_by_key(|&(_, launched)| Reverse(launched))?;
    (launched > 0).then_some(BusiestLauncher { host, launched })
}

fn steps(timeline: &Timeline) -> Vec<PathStep> {
    let path = timeline.critical_path();
    // One pass counts the earlier launches of all launchers on the path.
    let place: std::collections::BTreeMap<Option<HostIndex>, usize> =
        path.iter().enumerate().map(|(i, &index)| (launcher(timeline, index), i)).collect();
    let mut steps: Vec<_> = path.iter().filter_map(|&index| step(timeline, index)).collect();
    for (index, host) in timeline.indexed().filter(|(_, host)| host.attempts > 0) {
        let on_path = place.get(&host.launcher).and_then(|&i| Some((path.get(i)?, steps.get_mut(i)?)));
        let Some((&next, step)) = on_path else { continue };
        let earlier =
            timeline.host(next).is_some_and(|next_host| (host.started, index) < (next_host.started, next));
        step.before += u32::from(earlier);
    }
    steps
}

fn launcher(timeline: &Timeline, index: HostIndex) -> Option<HostIndex> {
    timeline.host(index).and_then(|host| host.launcher)
}

fn step(timeline: &Timeline, index: HostIndex) -> Option<PathStep> {
    let host = timeline.host(index)?;
    let from = match host.launcher.and_then(|launcher| timeline.host(launcher)) {
        Some(launcher) => launcher.hello.unwrap_or(host.started),
        None => Duration::ZERO,
    };
    let hello = host.hello.or(host.joined).unwrap_or(host.started);
    Some(PathStep {
        host: index,
        launcher: host.launcher,
        before: 0,
        waited: host.started.saturating_sub(from),
        starting: hello.saturating_sub(host.started),
        joining: host.joined.map(|at| at.saturating_sub(hello)).unwrap_or_default(),
        hello,
    })
}
