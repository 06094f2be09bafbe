//! Decides which intervals of a timeline are left out of its picture.
//!
//! A single timeout can take a hundred times as long as the rest of a launch; drawn to scale, it
//! leaves of the rest a hairline. An interval is left out if no host that joined is in a phase of
//! common length during it, and if it is longer than all that remains.
use std::time::Duration;

use super::Timeline;

/// A phase that takes this many times the median of all phases is drawn with a break.
const LONG: u32 = 10;
/// The part of the active time that stays visible on either side of a break.
const MARGIN: u32 = 16;
/// The largest number of breaks.
const MOST: usize = 5;

impl Timeline {
    /// The intervals to leave out before `end`, in ascending order.
    pub(super) fn breaks(&self, end: Duration) -> Vec<(Duration, Duration)> {
        let active = self.active(end);
        let shown: Duration = active.iter().map(|(from, to)| *to - *from).sum();
        if shown.is_zero() {
            return Vec::new();
        }
        let margin = shown / MARGIN;
        let starts = active.iter().map(|(from, _)| from.saturating_sub(margin)).chain([end]);
        let ends = std::iter::once(Duration::ZERO).chain(active.iter().map(|(_, to)| *to + margin));
        let mut quiet: Vec<_> = ends.zip(starts).collect();
        quiet.retain(|(from, to)| to.saturating_sub(*from) > shown);
        quiet.sort_unstable_by_key(|(from, to)| std::cmp::Reverse(*to - *from));
        quiet.truncate(MOST);
        quiet.sort_unstable();
        quiet
    }

    /// When hosts that joined are in a phase, and until when launches were predicted to be:
    /// disjoint intervals in ascending order.
    fn active(&self, end: Duration) -> Vec<(Duration, Duration)> {
        let mut phases = Vec::new();
        for host in &self.hosts {
            let Some(joined) = host.joined else { continue };
            let hello = host.hello.unwrap_or(joined).min(joined);
            let started = if host.attempts > 0 { host.started.min(hello) } else { hello };
            phases.extend([(started, hello), (hello, joined)]);
        }
        let mut lengths: Vec<_> = phases.iter().map(|(from, to)| *to - *from).collect();
        lengths.retain(|length| !length.is_zero());
        lengths.sort_unstable();
        let common =
            lengths.get(lengths.len() / 2).map_or(Duration::MAX, |median| median.saturating_mul(LONG));
        let mut times: Vec<_> = phases
            .into_iter()
            .flat_map(
                |(from, to)| if to - from > common { [(from, from), (to, to)] } else { [(from, to); 2] },
            )
            .collect();
        times.extend(self.predicted.as_ref().map(|predicted| (Duration::ZERO, predicted.time())));
        times.sort_unstable();
        let mut active: Vec<(Duration, Duration)> = Vec::new();
        for (from, to) in times.into_iter().map(|(from, to)| (from.min(end), to.min(end))) {
            match active.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => active.push((from, to)),
            }
        }
        active
    }
}
