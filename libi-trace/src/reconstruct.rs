//! Reconstructs absolute times from what launchers report about their own launches.
//!
//! Clocks of different hosts cannot be compared, so each launcher reports the times of its launches
//! relative to its own start. The start of a launcher lies between the start of its own launch and
//! the moment its parent received its hello. Without delays it is close to the latter, which is
//! therefore assumed first. On a busy machine a hello may wait for its parent; all hosts below
//! then appear too late, even after the session was up. Since all times in a report are known
//! before the report is made, the launchers above such hosts are moved to earlier starts, by equal
//! parts along the path.
use std::time::Duration;

use libi_core::ids::HostIndex;

/// The times of one host as its launcher reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelativeTimes {
    /// The host whose leader launched it; `None` for the front end.
    pub launcher: Option<HostIndex>,
    /// From the start of the launcher to the start of this launch.
    pub started: Duration,
    /// From the start of this launch to the hello, if it arrived.
    pub hello: Option<Duration>,
    /// From the start of this launch to the latest known event of this host.
    pub last: Duration,
}

/// The start of each host's launch, as an offset from the beginning of the launch.
///
/// Every event of a host lies at or before `end`, as far as the order of a launcher's start and its
/// launches permits; the caller limits the remainder to `end`.
#[must_use]
pub fn start_times(hosts: &[RelativeTimes], end: Duration) -> Vec<Duration> {
    let launcher = |host: &RelativeTimes| {
        host.launcher.and_then(|launcher| usize::try_from(launcher.0).ok()).filter(|&at| at < hosts.len())
    };
    let mut children = vec![Vec::new(); hosts.len()];
    let mut order = Vec::with_capacity(hosts.len());
    for (at, host) in hosts.iter().enumerate() {
        match launcher(host) {
            Some(launcher) => children[launcher].push(at),
            None => order.push(at),
        }
    }
    // Launchers before their children; a cycle of launchers is in no list of children from here.
    let mut next = 0;
    while let Some(&at) = order.get(next) {
        order.extend_from_slice(&children[at]);
        next += 1;
    }
    // From each host's start: the latest event at or below it, and the launchers on the path there.
    let mut below = vec![(Duration::ZERO, 0u32); hosts.len()];
    for &at in order.iter().rev() {
        let hello = hosts[at].hello.unwrap_or_default();
        let of_children = children[at].iter().map(|&child| {
            let (last, launchers) = below[child];
            (hello.saturating_add(hosts[child].started).saturating_add(last), launchers + 1)
        });
        below[at] = of_children.fold((hosts[at].last, 0), Ord::max);
    }
    let mut starts: Vec<_> = hosts.iter().map(|host| host.started.min(end)).collect();
    for &at in &order {
        let start = starts[at];
        let hello = hosts[at].hello.unwrap_or_default();
        let excess = children[at].iter().map(|&child| {
            let (last, launchers) = below[child];
            let latest =
                start.saturating_add(hello).saturating_add(hosts[child].started).saturating_add(last);
            latest.saturating_sub(end) / (launchers + 1)
        });
        let earlier = excess.max().unwrap_or_default().min(hello);
        let base = start.saturating_add(hello - earlier);
        for &child in &children[at] {
            starts[child] = base.saturating_add(hosts[child].started).min(end);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn host(launcher: Option<u32>, started: u64, hello: u64, last: u64) -> RelativeTimes {
        let launcher = launcher.map(HostIndex);
        RelativeTimes { launcher, started: MS(started), hello: Some(MS(hello)), last: MS(last) }
    }

    #[test]
    fn a_launcher_starts_when_its_parent_has_its_hello() {
        let hosts = [host(None, 0, 100, 120), host(Some(0), 7, 100, 110), host(Some(1), 5, 90, 95)];
        assert_eq!(start_times(&hosts, MS(400)), [MS(0), MS(107), MS(212)]);
    }

    #[test]
    fn no_host_joins_after_the_session_is_up() {
        // The last host would be up at 307 ms, 60 ms too late: both launchers above it give half.
        let hosts = [host(None, 0, 100, 120), host(Some(0), 7, 100, 110), host(Some(1), 5, 90, 95)];
        let starts = start_times(&hosts, MS(247));
        assert_eq!(starts, [MS(0), MS(77), MS(152)]);
        for (start, host) in starts.iter().zip(&hosts) {
            assert!(*start + host.last <= MS(247));
        }
    }

    #[test]
    fn absurd_reports_are_placed_too() {
        let cycle = [host(Some(1), 5, 10, 20), host(Some(0), 5, 10, 20), host(Some(77), 1, 2, 3)];
        assert_eq!(start_times(&cycle, MS(2)), [MS(2), MS(2), MS(1)]);
        let endless = RelativeTimes { started: Duration::MAX, last: Duration::MAX, ..host(None, 0, 0, 0) };
        let child = RelativeTimes { launcher: Some(HostIndex(0)), ..endless };
        assert_eq!(start_times(&[endless, child], MS(9)), [MS(9); 2]);
        assert_eq!(start_times(&[], MS(9)), []);
    }
}
