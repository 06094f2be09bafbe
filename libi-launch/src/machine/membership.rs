//! Which ranks are behind which link, when a session comes up.
//!
//! A node records over which link a host has last reported that it joined:
//!
//! | event | route to the host |
//! |---|---|
//! | `Joined` of a host that this node was to launch | the link of the report |
//! | `Failed`, `Relaunch` | none |
//! | the child behind the link is gone | none, for all hosts behind it |
//! | the session goes up | used once, then none |
//!
//! The record of the nodes above may be out of date when the session goes up, because the report of
//! a lost child and `Go` may cross. Therefore the tree is decided from the top. Every node tells
//! each child which ranks the node expects below it, and decides about its own children from what
//! its parent expects:
//!
//! | rank | expected by the parent | not expected |
//! |---|---|---|
//! | behind a link | in the branch of that link | in no branch; a child of this rank is killed |
//! | behind no link | [lost](libi_core::topology::Topology::lost) | |
//!
//! All views of the tree thus agree.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, LinkId, Rank};
use libi_core::ranks::Ranks;

use super::message::{ChildMessage, Membership};

/// How many runs of ranks fit into one message.
const RUNS_IN_A_MESSAGE: usize = 100_000;

/// The link over which each host has joined, in runs of consecutive hosts.
#[derive(Debug, Default)]
pub(super) struct HostRoutes {
    /// The first host of each run, with the last one and the link.
    runs: BTreeMap<u32, (u32, LinkId)>,
}

impl HostRoutes {
    fn insert(&mut self, HostIndex(host): HostIndex, link: LinkId) {
        self.remove(HostIndex(host));
        let (mut first, mut last) = (host, host);
        if let Some((&start, &(end, of))) = self.runs.range(..host).next_back()
            && end + 1 == host
            && of == link
        {
            first = start;
        }
        if let Some(next) = host.checked_add(1)
            && let Some(&(end, of)) = self.runs.get(&next)
            && of == link
        {
            self.runs.remove(&next);
            last = end;
        }
        self.runs.insert(first, (last, link));
    }

    /// Whether a host has joined over some link.
    pub(super) fn has(&self, HostIndex(host): HostIndex) -> bool {
        self.runs.range(..=host).next_back().is_some_and(|(_, (last, _))| host <= *last)
    }

    /// Forgets the route to a host.
    pub(super) fn remove(&mut self, HostIndex(host): HostIndex) {
        let Some((&first, &(last, link))) = self.runs.range(..=host).next_back() else { return };
        if host > last {
            return;
        }
        match host.checked_sub(1).filter(|_| first < host) {
            Some(before) => self.runs.insert(first, (before, link)),
            None => self.runs.remove(&first),
        };
        if host < last {
            self.runs.insert(host + 1, (last, link));
        }
    }

    /// Records what a child's report tells about the route to a host. `is_known` tells whether this
    /// node was ever to launch the host.
    pub(super) fn note(&mut self, link: LinkId, report: &ChildMessage, is_known: impl Fn(HostIndex) -> bool) {
        match report {
            ChildMessage::Joined(host, ..) if is_known(*host) => self.insert(*host, link),
            ChildMessage::Failed(host, ..) | ChildMessage::Relaunch(host, ..) => self.remove(*host),
            _ => {}
        }
    }

    /// Drains the routes: the hosts of each run, and the link over which they have joined.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (RangeInclusive<HostIndex>, LinkId)> + use<> {
        let runs = std::mem::take(&mut self.runs);
        runs.into_iter().map(|(first, (last, link))| (HostIndex(first)..=HostIndex(last), link))
    }

    /// Forgets all hosts behind a link.
    pub(super) fn remove_link(&mut self, link: LinkId) {
        self.runs.retain(|_, (_, of)| *of != link);
    }
}

/// The ranks behind each link, as reported.
#[derive(Debug, Default)]
pub(super) struct RanksBehind {
    /// For each link, runs of a first rank and a length.
    runs: BTreeMap<LinkId, Vec<(u32, u32)>>,
}

impl RanksBehind {
    /// Adds the members of hosts.
    pub(super) fn add_blocks<'a>(&mut self, link: LinkId, blocks: impl Iterator<Item = &'a Block>) {
        let runs = blocks.map(|block| (block.first.0, block.count));
        self.runs.entry(link).or_default().extend(runs);
    }

    /// Adds a further member of this host.
    pub(super) fn add_member(&mut self, link: LinkId, rank: Rank) {
        self.runs.entry(link).or_default().push((rank.0, 1));
    }

    /// The expected ranks behind each of the links that are up. A rank that is not expected is in
    /// no branch.
    pub(super) fn branches(
        mut self,
        expected: &Ranks,
        is_up: impl Fn(LinkId) -> bool,
    ) -> Vec<(LinkId, Ranks)> {
        self.runs.retain(|link, _| is_up(*link));
        let mut surplus = in_order(self.runs.values().flatten().copied().collect());
        surplus.remove_all(expected);
        let branch = |(link, runs)| {
            let mut ranks = in_order(runs);
            ranks.remove_all(&surplus);
            (link, ranks)
        };
        self.runs.into_iter().map(branch).collect()
    }
}

impl Membership {
    /// The membership for a child of a session with so many members and hosts, in parts that fit into a message
    /// each; at least one.
    pub(super) fn in_parts(absent: &Ranks, below: &Ranks, top: bool, size: (u32, u32)) -> Vec<Self> {
        let (mut absent, mut below) = (parts(absent), parts(below));
        let mut messages = Vec::new();
        loop {
            let membership = Self {
                absent: absent.next().unwrap_or_default(),
                below: below.next().unwrap_or_default(),
                top,
                size,
                is_last: absent.len() == 0 && below.len() == 0,
            };
            let is_last = membership.is_last;
            messages.push(membership);
            if is_last {
                return messages;
            }
        }
    }
}

/// The set of the ranks in these runs of first rank and length.
fn in_order(mut runs: Vec<(u32, u32)>) -> Ranks {
    runs.sort_unstable();
    let mut ranks = Ranks::new();
    runs.into_iter().for_each(|(first, count)| ranks.add_run(first, count));
    ranks
}

/// Splits a set into parts that fit into a message.
fn parts(ranks: &Ranks) -> impl ExactSizeIterator<Item = Ranks> + use<> {
    let runs = Vec::from(ranks.clone());
    let parts: Vec<_> = runs
        .chunks(RUNS_IN_A_MESSAGE)
        // A part of a sorted list of runs is sorted.
        .map(|part| Ranks::try_from(part.to_vec()).unwrap_or_default())
        .collect();
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use libi_core::plan::late::Attempt;

    use super::*;
    use crate::failure::{Cause, Failure, LaunchTiming, Phase};

    fn routes(routes: &HostRoutes) -> Vec<(u32, u32)> {
        let hosts =
            |(&first, &(last, link)): (&u32, &(u32, LinkId))| (first..=last).map(move |host| (host, link.0));
        routes.runs.iter().flat_map(hosts).collect()
    }

    fn joined(host: u32) -> ChildMessage {
        ChildMessage::Joined(HostIndex(host), Attempt::default(), LaunchTiming::default())
    }

    #[test]
    fn reports_make_and_end_routes() {
        let mut known = HostRoutes::default();
        let mut note = |link, report: &ChildMessage| {
            known.note(LinkId(link), report, |host| host.0 < 9);
            routes(&known)
        };
        assert_eq!(note(1, &joined(9)), [], "this node was never to launch it");
        note(1, &joined(1));
        note(1, &joined(2));
        assert_eq!(note(2, &joined(3)), [(1, 1), (2, 1), (3, 2)]);
        assert_eq!(note(2, &joined(1)), [(1, 2), (2, 1), (3, 2)], "it has moved below another child");
        let first = Attempt::default();
        assert_eq!(note(1, &ChildMessage::Relaunch(HostIndex(2), first, None)), [(1, 2), (3, 2)]);
        let failure = Failure::without_evidence(Phase::Joined, Cause::Closed, std::time::Duration::ZERO);
        assert_eq!(note(2, &ChildMessage::Failed(HostIndex(1), first, failure)), [(3, 2)]);
        assert_eq!(note(2, &ChildMessage::Detached(Rank(3))), [(3, 2)]);
        known.remove_link(LinkId(2));
        assert_eq!(routes(&known), []);
    }

    #[test]
    fn drained_routes_are_gone() {
        let mut known = HostRoutes::default();
        for host in [4, 5, 7] {
            known.insert(HostIndex(host), LinkId(1));
        }
        let drained: Vec<_> = known.drain().map(|(hosts, _)| (hosts.start().0, hosts.end().0)).collect();
        assert_eq!(drained, [(4, 5), (7, 7)]);
        assert_eq!(known.drain().count(), 0);
    }

    #[test]
    fn branches_hold_the_expected_ranks_behind_links_that_are_up() {
        let block = |first, count| Block { first: Rank(first), count, distribution: 0 };
        let mut behind = RanksBehind::default();
        behind.add_blocks(LinkId(1), [block(4, 2), block(0, 1)].iter());
        behind.add_blocks(LinkId(2), [block(6, 2)].iter());
        behind.add_member(LinkId(3), Rank(8));
        behind.add_member(LinkId(4), Rank(9));
        let mut expected = Ranks::first(10);
        expected.remove_all(&[5, 8].map(Rank).into_iter().collect());
        let branches = behind.branches(&expected, |link| link != LinkId(2));
        let branches: Vec<_> =
            branches.into_iter().map(|(link, ranks)| (link.0, ranks.to_string())).collect();
        let wanted =
            [(1, "ranks 0, 4"), (3, "ranks "), (4, "rank 9")].map(|(link, text)| (link, text.to_owned()));
        assert_eq!(branches, wanted);
    }

    #[test]
    fn the_parts_of_a_membership_are_the_whole_and_only_the_last_says_so() {
        let scattered: Ranks = (0..250_000).map(|number| Rank(u32::MAX - 2 * number)).collect();
        let parts = Membership::in_parts(&scattered, &Ranks::first(7), true, (8, 2));
        let is_last: Vec<bool> = parts.iter().map(|part| part.is_last).collect();
        assert_eq!(is_last, [false, false, true]);
        let runs: Vec<_> = parts.iter().flat_map(|part| Vec::from(part.absent.clone())).collect();
        assert_eq!(runs, Vec::from(scattered));
        assert_eq!(parts[0].below, Ranks::first(7));
        assert!(parts.iter().all(|part| part.top) && parts[1].below.is_empty());
        let none = Membership::in_parts(&Ranks::new(), &Ranks::new(), false, (1, 1));
        assert!(matches!(&none[..], [Membership { is_last: true, top: false, size: (1, 1), .. }]));
    }

    #[test]
    fn routes_are_kept_in_runs_and_the_latest_report_holds() {
        let mut rng = libi_core::sim::rng::Rng::new(1);
        let (mut routes, mut single) = (HostRoutes::default(), BTreeMap::new());
        for _ in 0..3_000 {
            let (host, link) = (rng.below(40) as u32, LinkId(1 + rng.below(3) as u32));
            match rng.below(20) {
                0 => {
                    routes.remove_link(link);
                    single.retain(|_, of| *of != link);
                }
                1..6 => {
                    routes.remove(HostIndex(host));
                    single.remove(&host);
                }
                _ => {
                    routes.insert(HostIndex(host), link);
                    single.insert(host, link);
                }
            }
            let runs = routes.runs.iter();
            let noted: BTreeMap<u32, LinkId> = runs
                .flat_map(|(&first, &(last, link))| (first..=last).map(move |host| (host, link)))
                .collect();
            assert_eq!(noted, single);
            let pairs: Vec<_> = routes.runs.iter().collect();
            assert!(pairs.windows(2).all(|two| two[0].1.0 + 1 < *two[1].0 || two[0].1.1 != two[1].1.1));
        }
    }

    #[test]
    fn the_highest_host_index_has_a_route() {
        let mut routes = HostRoutes::default();
        for host in [u32::MAX, u32::MAX - 1, 0] {
            routes.insert(HostIndex(host), LinkId(1));
        }
        assert_eq!(routes.runs.len(), 2);
        for host in [u32::MAX, u32::MAX - 1, 0] {
            routes.remove(HostIndex(host));
        }
        assert!(routes.runs.is_empty());
    }
}
