//! The processes of the front end that lead to hosts which have [moved](super::moves): remote shells,
//! whose channels are not used any more.
//!
//! The front end tells the leader of the first host how such a process ends, and what it prints until its
//! host has joined, as evidence. Later text is output of the host's first rank.
//!
//! | state | event | next |
//! |---|---|---|
//! | lives | the host has failed, or is launched again; or it should end with the session | lives until a deadline |
//! | | its deadline passes | killed, until another deadline; released if its member has detached |
//! | | it has exited, and its output has ended | gone |
//! | exited, until a deadline | its output has ended, or the deadline passes | gone |
//! | killed | it has exited, or the deadline passes | gone |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::{HostIndex, LinkId, Rank};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::time::Instant;

use crate::failure::LaunchTiming;

/// How much of what a process prints before its host has joined is told to the leader.
const EVIDENCE: usize = 64 << 10;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct MovedProcesses {
    processes: BTreeMap<LinkId, MovedProcess>,
    deadlines: BTreeSet<(Instant, LinkId)>,
}

#[derive(Debug)]
struct MovedProcess {
    launch: Launch,
    /// The rank of the process; `None` for an agent.
    rank: Option<Rank>,
    timing: LaunchTiming,
    progress: Progress,
    /// How much of what it prints may still be told to the leader.
    evidence: usize,
    /// The leader has failed, or it launches the host again: nothing more is told about this process.
    is_superseded: bool,
    is_detached: bool,
    is_killed: bool,
    is_open: bool,
    has_exited: bool,
    /// When the next step is taken; in the far future while it lives.
    deadline: Instant,
}

/// How far the host of a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Started,
    Connected,
    Joined,
}

/// What is to be done about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MovedStep {
    /// It is killed.
    Kill,
    /// It lives on without this node.
    Release,
    /// It is gone.
    Forget,
}

impl MovedProcesses {
    /// The host of a child moves.
    pub(super) fn add(&mut self, link: LinkId, launch: Launch, rank: Option<Rank>, timing: LaunchTiming) {
        let process = MovedProcess {
            launch,
            rank,
            timing,
            progress: Progress::Started,
            evidence: EVIDENCE,
            is_superseded: false,
            is_detached: false,
            is_killed: false,
            is_open: true,
            has_exited: false,
            deadline: Instant::FAR_FUTURE,
        };
        self.processes.insert(link, process);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.processes.len()
    }

    /// The launch of the host to which this process leads.
    pub(super) fn launch(&self, link: LinkId) -> Option<Launch> {
        self.processes.get(&link).map(|process| process.launch)
    }

    /// The host to which this process leads, if the leader still awaits news of it.
    pub(super) fn told_of(&self, link: LinkId) -> Option<HostIndex> {
        self.processes.get(&link).filter(|process| !process.is_superseded).map(|it| it.launch.host)
    }

    /// The process of this launch, if the leader still awaits news of it.
    pub(super) fn process_of(&self, launch: Launch) -> Option<LinkId> {
        let is_it = |process: &MovedProcess| process.launch == launch && !process.is_superseded;
        self.processes.iter().find(|(_, process)| is_it(process)).map(|(link, _)| *link)
    }

    /// The times of this launch.
    pub(super) fn timing(&self, launch: Launch) -> Option<LaunchTiming> {
        self.processes.values().find(|process| process.launch == launch).map(|process| process.timing)
    }

    /// How many hosts below the leader this node has launched.
    pub(super) fn launchers(&self) -> usize {
        let lives = |process: &&MovedProcess| process.deadline == Instant::FAR_FUTURE;
        self.processes.values().filter(lives).count()
    }

    /// A host may have connected to the leader; returns whether a process leads to it.
    pub(super) fn connected(&mut self, host: HostIndex) -> bool {
        self.comes_to(host, Progress::Connected)
    }

    /// A host has joined.
    pub(super) fn joined(&mut self, host: HostIndex) {
        self.comes_to(host, Progress::Joined);
    }

    fn comes_to(&mut self, host: HostIndex, progress: Progress) -> bool {
        let of_host = self.processes.values_mut().filter(|process| process.launch.host == host);
        of_host.map(|process| process.progress = process.progress.max(progress)).count() > 0
    }

    /// Whether so much text of a process is evidence for the leader; else it is output.
    pub(super) fn is_evidence(&mut self, link: LinkId, length: usize) -> bool {
        let process = self.processes.get_mut(&link).filter(|process| process.progress < Progress::Joined);
        let Some(process) = process else { return false };
        let left = process.evidence.checked_sub(length);
        process.evidence = left.unwrap_or(0);
        left.is_some()
    }

    /// The member of this rank lives on without the session.
    pub(super) fn detached(&mut self, rank: Rank) {
        for process in self.processes.values_mut().filter(|process| process.rank == Some(rank)) {
            process.is_detached = true;
        }
    }

    /// A host has failed by this attempt, or is launched again by it: what an earlier one has started ends
    /// within this time. Returns how many hosts have failed in this way before they had connected.
    pub(super) fn supersede(&mut self, host: HostIndex, attempt: Attempt, by: Instant) -> usize {
        let is_it = |process: &MovedProcess| process.launch.host == host && process.launch.attempt <= attempt;
        let mut unconnected = 0;
        for process in self.processes.values_mut().filter(|process| is_it(process)) {
            let is_news = !std::mem::replace(&mut process.is_superseded, true);
            unconnected += usize::from(is_news && process.progress < Progress::Connected);
        }
        self.end(by, is_it);
        unconnected
    }

    /// What has detached is left alone from now on.
    pub(super) fn release_detached(&mut self, now: Instant) {
        self.end(now, |process| process.is_detached);
    }

    /// All processes end within this time.
    pub(super) fn end_all(&mut self, by: Instant) {
        self.end(by, |_| true);
    }

    fn end(&mut self, by: Instant, which: impl Fn(&MovedProcess) -> bool) {
        let those = self.processes.iter().filter(|(_, process)| which(process));
        let links: Vec<_> = those.map(|(link, _)| *link).collect();
        links.into_iter().for_each(|link| self.end_by(link, by));
    }

    fn end_by(&mut self, link: LinkId, by: Instant) {
        let Some(process) = self.processes.get_mut(&link) else { return };
        self.deadlines.remove(&(process.deadline, link));
        process.deadline = process.deadline.min(by);
        self.deadlines.insert((process.deadline, link));
    }

    /// A process has exited. Its output may take until `by`.
    pub(super) fn exited(&mut self, link: LinkId, by: Instant) {
        if let Some(process) = self.processes.get_mut(&link) {
            process.has_exited = true;
            self.end_by(link, by);
            self.remove_if_gone(link);
        }
    }

    /// Nothing more arrives from a process.
    pub(super) fn closed(&mut self, link: LinkId) {
        if let Some(process) = self.processes.get_mut(&link) {
            process.is_open = false;
            self.remove_if_gone(link);
        }
    }

    fn remove_if_gone(&mut self, link: LinkId) {
        if self.processes.get(&link).is_some_and(|process| process.has_exited && !process.is_open) {
            self.remove(link);
        }
    }

    fn remove(&mut self, link: LinkId) {
        if let Some(process) = self.processes.remove(&link) {
            self.deadlines.remove(&(process.deadline, link));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// The next process whose deadline has passed, and what is to be done about it.
    pub(super) fn expire(&mut self, now: Instant, grace: Duration) -> Option<(LinkId, MovedStep)> {
        let &(at, link) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let process = self.processes.get_mut(&link)?;
        if process.is_detached || process.is_killed || process.has_exited {
            let step = if process.is_detached { MovedStep::Release } else { MovedStep::Forget };
            self.remove(link);
            return Some((link, step));
        }
        (process.is_killed, process.is_open, process.deadline) = (true, false, now + grace);
        self.deadlines.remove(&(at, link));
        self.deadlines.insert((now + grace, link));
        Some((link, MovedStep::Kill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn launch(host: u32) -> Launch {
        Launch { host: HostIndex(host), attempt: Attempt::default() }
    }

    /// The processes of the hosts 2 and 3, over the links of these numbers.
    fn two() -> MovedProcesses {
        let mut moved = MovedProcesses::default();
        for number in [2, 3] {
            moved.add(LinkId(number), launch(number), Some(Rank(number)), LaunchTiming::default());
        }
        moved
    }

    #[test]
    fn the_leader_hears_of_a_process_until_another_attempt_takes_its_place() {
        let mut moved = two();
        assert_eq!((moved.launchers(), moved.told_of(LinkId(2))), (2, Some(HostIndex(2))));
        assert_eq!(moved.process_of(launch(2)), Some(LinkId(2)));
        let next = Attempt::default().after_loss();
        assert_eq!(moved.supersede(HostIndex(2), next, at(5)), 1);
        assert_eq!(moved.supersede(HostIndex(2), next, at(6)), 0, "it has failed once");
        assert_eq!((moved.launchers(), moved.told_of(LinkId(2))), (1, None));
        assert_eq!((moved.launch(LinkId(2)), moved.process_of(launch(2))), (Some(launch(2)), None));
        assert_eq!(moved.expire(at(4), Duration::from_secs(2)), None);
        assert_eq!(moved.expire(at(5), Duration::from_secs(2)), Some((LinkId(2), MovedStep::Kill)));
        moved.exited(LinkId(2), at(9));
        // Nothing more is read from a process that was killed.
        assert_eq!((moved.launch(LinkId(2)), moved.next_deadline()), (None, None));
    }

    #[test]
    fn a_host_that_has_connected_is_told_from_one_that_has_not() {
        let mut moved = two();
        assert!(moved.connected(HostIndex(2)) && !moved.connected(HostIndex(9)));
        assert_eq!(moved.supersede(HostIndex(2), Attempt::default(), at(5)), 0);
        assert_eq!(moved.supersede(HostIndex(3), Attempt::default(), at(5)), 1);
    }

    #[test]
    fn what_a_process_prints_is_evidence_until_its_host_has_joined() {
        let mut moved = two();
        assert!(moved.is_evidence(LinkId(2), EVIDENCE) && !moved.is_evidence(LinkId(2), 1));
        assert!(moved.is_evidence(LinkId(3), 1));
        moved.joined(HostIndex(3));
        assert!(!moved.is_evidence(LinkId(3), 1));
    }

    #[test]
    fn a_process_is_gone_when_it_has_exited_and_its_output_has_ended() {
        let mut moved = two();
        moved.exited(LinkId(2), at(2));
        moved.closed(LinkId(3));
        assert_eq!(moved.len(), 2);
        moved.closed(LinkId(2));
        moved.exited(LinkId(3), at(2));
        assert_eq!((moved.len(), moved.next_deadline()), (0, None));
    }

    #[test]
    fn a_process_whose_output_does_not_end_is_forgotten() {
        let mut moved = two();
        moved.exited(LinkId(2), at(2));
        assert_eq!(moved.expire(at(2), Duration::from_secs(2)), Some((LinkId(2), MovedStep::Forget)));
        assert_eq!(moved.launch(LinkId(2)), None);
    }

    #[test]
    fn a_process_that_cannot_be_killed_is_forgotten() {
        let mut moved = two();
        moved.end_all(at(1));
        let grace = Duration::from_secs(2);
        let steps: Vec<_> = std::iter::from_fn(|| moved.expire(at(1), grace)).collect();
        assert_eq!(steps, [(LinkId(2), MovedStep::Kill), (LinkId(3), MovedStep::Kill)]);
        assert_eq!(moved.next_deadline(), Some(at(3)));
        assert_eq!(moved.expire(at(3), grace), Some((LinkId(2), MovedStep::Forget)));
        assert_eq!(moved.expire(at(3), grace), Some((LinkId(3), MovedStep::Forget)));
        assert_eq!(moved.len(), 0);
    }

    #[test]
    fn a_member_that_has_detached_is_released() {
        let mut moved = two();
        moved.detached(Rank(3));
        moved.release_detached(at(1));
        assert_eq!(moved.expire(at(1), Duration::ZERO), Some((LinkId(3), MovedStep::Release)));
        assert_eq!(moved.len(), 1);
    }
}
