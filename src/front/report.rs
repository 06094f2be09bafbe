//! The outcome of a launch, host by host.

mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::layout::Layout;
use libi_core::ids::{HostIndex, SessionId};
use libi_launch::backend::Backend;
use libi_launch::failure::{Failure, LaunchTiming};
use libi_launch::machine::{HostState, Node, Replacement};
use libi_trace::{HostLine, Prediction, RelativeTimes, Timeline, start_times};
use serde::{Deserialize, Serialize};

use super::choice::BackendReason;

/// What became of a launch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchReport {
    session: SessionId,
    members: u32,
    up: bool,
    took: Duration,
    hosts: Vec<HostReport>,
    replaced: Vec<Replacement>,
    /// How hosts were reached, and why so.
    backend: Backend,
    reason: BackendReason,
    /// How long the launch waited for resources.
    queued: Duration,
    flat: Option<FlatFallback>,
    /// Whether the front end launched hosts from the first moment, beside the hosts.
    from_front_end: bool,
    /// How many of the hosts are those of the launch. Others were to come when the session was up.
    launched: usize,
}

/// Why the front end launched all hosts itself, instead of letting them launch each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlatFallback {
    /// The host that could not launch others.
    pub host: String,
    /// The first of its launches that failed.
    pub failure: Failure,
}

/// The outcome for one host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// How many members it has.
    pub members: u32,
    /// The number of launch attempts.
    pub attempts: u32,
    /// Whether a launch of it was withdrawn while it waited for its turn, and another host has made
    /// it instead. That is no attempt, but it may have reached the host.
    pub withdrawn: bool,
    /// The host that launched it; `None` if it was the front end, or no attempt was made.
    pub launcher: Option<HostIndex>,
    /// From the beginning of the launch until the start of this host's launch.
    pub started: Duration,
    /// From there until the hello of its leader, if it arrived.
    pub hello: Option<Duration>,
    /// From there until all its members were up, if they were.
    pub joined: Option<Duration>,
    /// Whether the link to its launcher is direct; `None` if it was not meant to be, if it has not
    /// carried enough, or if that is not decided yet.
    pub direct: Option<bool>,
    /// Whether its engine runs in the program of its first member, although the launch has
    /// [`Engine::Apart`](crate::Engine::Apart).
    pub in_program: bool,
    /// Why ssh was started for it, where libi's own client was tried first.
    pub declined: Option<String>,
    /// Why it is not part of the session; `None` if it is.
    pub failure: Option<Failure>,
}

impl LaunchReport {
    /// The report of a session that is up or given up after `took`.
    pub(super) fn new(layout: &Layout, node: &Node, reason: BackendReason, took: Duration, up: bool) -> Self {
        let hosts = host_reports(layout, node, took);
        let replaced = node.replaced().to_vec();
        let flat = node.flat_launch().map(|(host, failure)| (host, failure.clone()));
        let name =
            |host: HostIndex| hosts.get(host.0 as usize).map_or(String::new(), |host| host.name.clone());
        let backend = node.backend().clone();
        let flat = flat.map(|(host, failure)| FlatFallback { host: name(host), failure });
        let (session, members, launched) = (layout.session(), layout.size(), hosts.len());
        let queued = node.queued();
        let took = took.saturating_sub(queued);
        let from_front_end = node.launches_as_leaders();
        Self {
            session,
            members,
            up,
            took,
            hosts,
            replaced,
            backend,
            reason,
            queued,
            flat,
            from_front_end,
            launched,
        }
    }

    /// The session has grown: adds the hosts from this one on.
    pub(super) fn grow(&mut self, layout: &Layout, node: &Node, first: HostIndex, took: Duration) {
        self.members = layout.size();
        self.hosts.truncate(first.0 as usize);
        self.hosts.extend(host_reports(layout, node, took).into_iter().skip(first.0 as usize));
    }

    /// The names of those of these hosts that have failed, and why: first those that are to blame.
    pub(super) fn failures_of(&self, hosts: std::ops::Range<u32>) -> Vec<(String, String)> {
        let hosts = hosts.filter_map(|host| self.hosts.get(host as usize));
        let mut failed: Vec<_> = hosts.filter_map(|host| Some((host, host.failure.as_ref()?))).collect();
        failed.sort_by_key(|(_, failure)| failure.cause.is_cut_short());
        failed.into_iter().map(|(host, failure)| (host.name.clone(), self.reason(failure))).collect()
    }

    /// The hosts of the launch, and those that were to come when the session was up.
    fn launched_and_later(&self) -> (&[HostReport], &[HostReport]) {
        self.hosts.split_at_checked(self.launched).unwrap_or((&self.hosts, &[]))
    }

    /// Updates which links are direct.
    pub(super) fn update_links(&mut self, links: &[Option<bool>]) {
        for (host, direct) in self.hosts.iter_mut().zip(links) {
            host.direct = *direct;
        }
    }

    /// Which session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Whether the session came up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// How hosts were reached.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Why they were reached so.
    #[must_use]
    pub fn backend_reason(&self) -> &BackendReason {
        &self.reason
    }

    /// How long the launch waited for resources, as in the queue of a cluster.
    #[must_use]
    pub fn queued(&self) -> Duration {
        self.queued
    }

    /// How long it took until the session was up or given up, without the time in which it waited
    /// for resources, and without hosts by which it has [grown](super::Session::add) since.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The outcome for each host, by its index.
    #[must_use]
    pub fn hosts(&self) -> &[HostReport] {
        &self.hosts
    }

    /// How many hosts have joined.
    #[must_use]
    pub fn joined(&self) -> usize {
        self.hosts.iter().filter(|host| host.failure.is_none()).count()
    }

    /// The hosts that were replaced by spares, with the cause for each.
    #[must_use]
    pub fn replaced(&self) -> &[Replacement] {
        &self.replaced
    }

    /// The evidence that hosts could not launch each other, if the front end therefore launched all
    /// of them itself.
    #[must_use]
    pub fn flat(&self) -> Option<&FlatFallback> {
        self.flat.as_ref()
    }

    /// The hosts that have not joined, with the cause for each.
    pub fn failed(&self) -> impl Iterator<Item = (&HostReport, &Failure)> {
        self.hosts.iter().filter_map(|host| Some((host, host.failure.as_ref()?)))
    }

    /// The host of the master, if its failure ended a launch of several hosts.
    #[must_use]
    pub fn failed_master_host(&self) -> Option<&HostReport> {
        self.hosts.first().filter(|first| !self.up && self.hosts.len() > 1 && first.failure.is_some())
    }

    /// The hosts that could not connect directly, and continue over the channels they were started
    /// with.
    pub fn fell_back(&self) -> impl Iterator<Item = &HostReport> {
        self.hosts.iter().filter(|host| host.failure.is_none() && host.direct == Some(false))
    }

    /// The measured cost of the launch. REM is the median time from a start to its hello; SEQ is
    /// the median over launchers of the time between two consecutive hellos. `None` if too few
    /// hosts were launched to tell.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        let median = |mut times: Vec<Duration>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied()
        };
        let (launched, _) = self.launched_and_later();
        let rem = median(launched.iter().filter_map(|host| host.hello).collect())?;
        let mut hellos: BTreeMap<Option<HostIndex>, Vec<Duration>> = BTreeMap::new();
        for host in launched {
            if let Some(greeted) = host.hello {
                hellos.entry(host.launcher).or_default().push(host.started + greeted);
            }
        }
        let spacings = hellos.into_values().filter(|times| times.len() >= 4).map(|mut times| {
            times.sort_unstable();
            let all = times.last().zip(times.first()).map_or(Duration::ZERO, |(last, first)| *last - *first);
            all / (times.len() as u32 - 1)
        });
        Some(Cost::new(median(spacings.collect())?, rem))
    }

    /// The timeline of the launch, to be drawn or written to a file. It includes a prediction: the
    /// best plan at the measured [cost](Self::cost).
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        // All of it had happened when the report was made.
        let at = |host: &HostReport, after: Duration| (host.started + after).min(self.took);
        let line = |host: &HostReport| HostLine {
            name: host.name.clone(),
            members: host.members,
            launcher: host.launcher,
            attempts: host.attempts,
            started: host.started,
            hello: host.hello.map(|hello| at(host, hello)),
            joined: match host.hello.zip(host.joined) {
                Some((hello, joined)) => Some(at(host, hello + joined)),
                // It joined at an unknown time.
                None => (self.up && host.failure.is_none()).then_some(self.took),
            },
            ended: host
                .failure
                .as_ref()
                .map(|failure| (at(host, failure.elapsed), self.host_text(host, failure).cause)),
        };
        Timeline {
            session: self.session.to_string(),
            hosts: self.launched_and_later().0.iter().map(line).collect(),
            up: self.up.then_some(self.took),
            predicted: self.cost().map(|cost| {
                let hosts = self.joined() as u32;
                if self.from_front_end {
                    Prediction::greedy_from_front_end(hosts, cost)
                } else {
                    Prediction::greedy(hosts, cost)
                }
            }),
        }
    }
}

/// The outcome for each host, as the node knows it after so much time.
fn host_reports(layout: &Layout, node: &Node, took: Duration) -> Vec<HostReport> {
    let (timings, links) = (node.timings(), node.links());
    let (mut known, mut attempts) = (node.host_states(), node.attempts());
    let mut withdrawn = node.withdrawn();
    let spare = |host| node.replaced().iter().rfind(|replaced| replaced.host == host);
    let times: Vec<_> = timings.iter().zip(node.host_states()).map(relative_times).collect();
    let starts = start_times(&times, took);
    let hosts = (0..).zip(layout.hosts()).map(|(host, named)| {
        let timing = timings.get(host as usize).copied().unwrap_or_default();
        let failure = match known.next() {
            Some(HostState::Failed(failure)) => Some(failure.clone()),
            _ => None,
        };
        HostReport {
            name: spare(HostIndex(host)).map_or(named.name, |spare| &spare.by).to_owned(),
            members: named.count,
            attempts: attempts.next().unwrap_or(0),
            withdrawn: withdrawn.next().unwrap_or(false),
            launcher: timing.launcher,
            started: starts.get(host as usize).copied().unwrap_or_default(),
            hello: timing.hello,
            joined: timing.joined,
            direct: links.get(host as usize).copied().flatten(),
            in_program: node.is_in_program(HostIndex(host)),
            declined: node.declined_because(HostIndex(host)).map(str::to_owned),
            failure,
        }
    });
    hosts.collect()
}

/// The times of a host as its launcher has reported them.
fn relative_times((timing, state): (&LaunchTiming, &HostState)) -> RelativeTimes {
    let joined = timing.hello.zip(timing.joined).map(|(hello, joined)| hello + joined);
    let last = match state {
        HostState::Failed(failure) => failure.elapsed,
        _ => joined.or(timing.hello).unwrap_or_default(),
    };
    RelativeTimes { launcher: timing.launcher, started: timing.started, hello: timing.hello, last }
}
