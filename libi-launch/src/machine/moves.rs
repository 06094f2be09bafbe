//! Hosts that the front end launches from the first moment, and moves to the members' tree.
//!
//! The front end is a launcher as leaders are, so that the first login delays no other. But the calls of
//! members must not pass through it: a tool may drive it seldom. So a host that it has launched becomes
//! a child of the first host's leader as soon as both have said hello:
//!
//! ```text
//!   host                     front end                      leader of the first host
//!     | Hello (channel) -------> |                              |
//!     |                          | Adopt: the host -----------> |  awaits it
//!     |                          | <------------------- Adopted |
//!     | <------ Move: addresses  |                              |
//!     | <===== handshake: both prove the session's secret ====> |
//!     |                          | <--------------- Link: direct|
//!     | <------------------------------------ config, share     |  a link like any other
//! ```
//!
//! From the `Adopt` on the host is one of the leader's, which launches it again if it fails. The front
//! end keeps the process that leads to the host: it tells the leader how that ends and what it prints,
//! and ends it when the host has failed.
//!
//! | connections to the leader | event | next | hosts that have said hello |
//! |---|---|---|---|
//! | `Untried` | a host has connected | `Work` | [`PROBES`] move, others are held |
//! | | a host cannot connect | `Fail` | |
//! | | a host fails before it has connected | another may try | |
//! | | the leader is lost | [`PROBES`] may try again | |
//! | `Work` | | | move, but those that could not connect before |
//! | any | the leader does not listen | `Fail` | |
//! | `Fail` | | | stay: children of the front end, as where it replaces a leader |
//!
//! Unless moves fail, all are held until that leader listens, and when it is lost until the next one does.
//! A host that is held for too long stays. One that cannot connect ends, and the leader launches it again.
//!
//! | process of a moved host | event | next |
//! |---|---|---|
//! | `Lives` | the host has failed, or is launched again; or it should end with the session | `Lives` until a deadline |
//! | | its deadline passes | `Killed` until another; released if it has detached |
//! | | it has exited, and its output has ended | gone |
//! | | it has exited, and the deadline for its output passes | gone |
//! | `Killed` | the same, or its deadline passes | gone |

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use libi_core::ids::{HostIndex, LinkId, Rank};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::time::Instant;

use super::message::SessionConfig;
use crate::failure::LaunchTiming;

/// How many hosts move before one has connected to the leader.
const PROBES: usize = 2;
/// How much of what a host prints before it has joined is told to the leader, as evidence.
const EVIDENCE: usize = 64 << 10;

/// The hosts that the front end has moved, or will. At a host that moves: its config.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Whether hosts move in this session.
    is_on: bool,
    connections: Connections,
    /// The leader of the first host, while it listens.
    target: Option<Target>,
    /// Children that have said hello, and wait, with the time of that.
    held: BTreeMap<LinkId, Instant>,
    /// Hosts that could not connect to the leader.
    stranded: BTreeSet<HostIndex>,
    moved: BTreeMap<LinkId, MovedHost>,
    deadlines: BTreeSet<(Instant, LinkId)>,
    /// The config that takes effect when this host has connected to its new parent.
    config: Option<Box<SessionConfig>>,
}

/// Whether hosts can connect to the leader of the first host.
#[derive(Debug, PartialEq)]
enum Connections {
    /// So many more may try.
    Untried(usize),
    Work,
    Fail,
}

impl Default for Connections {
    fn default() -> Self {
        Self::Untried(PROBES)
    }
}

/// Where hosts move to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The link to the leader of the first host.
    pub(super) link: LinkId,
    pub(super) addresses: Vec<SocketAddr>,
}

/// What becomes of a host that has said hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// It is a child of this node.
    Stays,
    /// It waits.
    Held,
    /// It moves to the leader at this link.
    Moves(LinkId),
}

/// A host that has moved, and the process that leads to it.
#[derive(Debug)]
pub(super) struct MovedHost {
    pub(super) launch: Launch,
    /// The rank of the process; `None` for an agent.
    pub(super) rank: Option<Rank>,
    pub(super) timing: LaunchTiming,
    has_connected: bool,
    has_joined: bool,
    /// How much of what it prints may still be told to the leader.
    evidence: usize,
    /// The leader has failed, or it launches the host again: nothing more is told about this process.
    is_superseded: bool,
    is_detached: bool,
    is_killed: bool,
    is_open: bool,
    has_exited: bool,
    deadline: Instant,
}

/// What is to be done about the process of a moved host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MovedStep {
    /// It is killed.
    Kill,
    /// It lives on without this node.
    Release,
    /// It is gone.
    Forget,
}

impl Moves {
    pub(super) fn switch_on(&mut self) {
        self.is_on = true;
    }

    /// Whether hosts may still move.
    pub(super) fn are_on(&self) -> bool {
        self.is_on && self.connections != Connections::Fail
    }

    /// Decides what becomes of a host that has said hello. `is_up`: whether the leader to which it may
    /// move is up.
    pub(super) fn place(&mut self, link: LinkId, host: HostIndex, is_up: bool, now: Instant) -> Placement {
        let greeted = self.held.remove(&link).unwrap_or(now);
        let target = self.target().filter(|_| is_up);
        let placement = match (&mut self.connections, target) {
            _ if !self.is_on || self.stranded.contains(&host) => Placement::Stays,
            (Connections::Fail, _) => Placement::Stays,
            (Connections::Work, Some(target)) => Placement::Moves(target),
            (Connections::Untried(left), Some(target)) if *left > 0 => {
                *left -= 1;
                Placement::Moves(target)
            }
            (Connections::Untried(_) | Connections::Work, _) => Placement::Held,
        };
        if placement == Placement::Held {
            self.held.insert(link, greeted);
        }
        placement
    }

    /// Whether a child waits to be moved.
    pub(super) fn is_held(&self, link: LinkId) -> bool {
        self.held.contains_key(&link)
    }

    /// When a child that waits has said hello.
    pub(super) fn greeted(&self, link: LinkId) -> Option<Instant> {
        self.held.get(&link).copied()
    }

    /// A child does not wait any more.
    pub(super) fn release(&mut self, link: LinkId) {
        self.held.remove(&link);
    }

    /// The children that wait.
    pub(super) fn held(&self) -> Vec<LinkId> {
        self.held.keys().copied().collect()
    }

    /// The leader of the first host listens at these addresses, if there are any.
    pub(super) fn target_listens(&mut self, link: LinkId, addresses: Vec<SocketAddr>) {
        if addresses.is_empty() {
            self.connections = Connections::Fail;
        } else {
            self.target = Some(Target { link, addresses });
        }
    }

    /// A host may have connected to the leader. Returns whether others may move for that.
    pub(super) fn reached(&mut self, host: HostIndex) -> bool {
        let of_host = self.moved.values_mut().filter(|moved| moved.launch.host == host);
        let has_moved = of_host.map(|moved| moved.has_connected = true).count() > 0;
        let is_first = has_moved && matches!(self.connections, Connections::Untried(_));
        if is_first {
            self.connections = Connections::Work;
        }
        is_first
    }

    /// A host cannot connect to the leader: it does not try again.
    pub(super) fn not_reached(&mut self, host: HostIndex) {
        self.stranded.insert(host);
        if matches!(self.connections, Connections::Untried(_)) {
            self.connections = Connections::Fail;
        }
    }

    /// A child is gone, which may be the leader of the first host.
    pub(super) fn child_gone(&mut self, link: LinkId) {
        self.held.remove(&link);
        if self.target.take_if(|target| target.link == link).is_some()
            && matches!(self.connections, Connections::Untried(_))
        {
            self.connections = Connections::default(); // those that have tried may have failed for that
        }
    }

    /// The link to the leader to which hosts move.
    pub(super) fn target(&self) -> Option<LinkId> {
        self.target.as_ref().map(|target| target.link)
    }

    /// The leader awaits a host: returns the link to the host, and the addresses to which it connects.
    pub(super) fn adopted(&self, launch: Launch) -> Option<(LinkId, &[SocketAddr])> {
        let is_it = |moved: &MovedHost| moved.launch == launch && !moved.is_superseded;
        let (link, _) = self.moved.iter().find(|(_, moved)| is_it(moved))?;
        Some((*link, &self.target.as_ref()?.addresses))
    }

    /// A child has moved.
    pub(super) fn add(&mut self, link: LinkId, launch: Launch, rank: Option<Rank>, timing: LaunchTiming) {
        let moved = MovedHost {
            launch,
            rank,
            timing,
            has_connected: false,
            has_joined: false,
            evidence: EVIDENCE,
            is_superseded: false,
            is_detached: false,
            is_killed: false,
            is_open: true,
            has_exited: false,
            deadline: Instant::FAR_FUTURE,
        };
        self.moved.insert(link, moved);
    }

    /// The host that was moved from this link, if the leader still awaits news of this process.
    pub(super) fn told_of(&self, link: LinkId) -> Option<HostIndex> {
        self.moved.get(&link).filter(|moved| !moved.is_superseded).map(|moved| moved.launch.host)
    }

    /// The host that was moved from this link.
    pub(super) fn of(&self, link: LinkId) -> Option<Launch> {
        self.moved.get(&link).map(|moved| moved.launch)
    }

    /// How many processes lead to moved hosts.
    pub(super) fn processes(&self) -> usize {
        self.moved.len()
    }

    /// A host has joined.
    pub(super) fn joined(&mut self, host: HostIndex) {
        for moved in self.moved.values_mut().filter(|moved| moved.launch.host == host) {
            moved.has_joined = true;
        }
    }

    /// Whether so much text of a process is evidence for the leader; else it is output.
    pub(super) fn is_evidence(&mut self, link: LinkId, length: usize) -> bool {
        let Some(moved) = self.moved.get_mut(&link).filter(|moved| !moved.has_joined) else { return false };
        let left = moved.evidence.checked_sub(length);
        moved.evidence = left.unwrap_or(0);
        left.is_some()
    }

    /// How many hosts are below the leader that this node has launched.
    pub(super) fn launchers(&self) -> usize {
        self.moved.values().filter(|moved| !moved.has_exited && moved.deadline == Instant::FAR_FUTURE).count()
    }

    /// The times of this launch, of a host that has moved.
    pub(super) fn timing(&self, launch: Launch) -> Option<LaunchTiming> {
        self.moved.values().find(|moved| moved.launch == launch).map(|moved| moved.timing)
    }

    /// Whether no process is left that leads to a moved host.
    pub(super) fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    /// A host has failed by this attempt, or is launched again by it: what an earlier one has started ends
    /// within this time. Returns whether another host may try to move for that.
    pub(super) fn superseded(&mut self, host: HostIndex, attempt: Attempt, by: Instant) -> bool {
        let is_it = |moved: &MovedHost| moved.launch.host == host && moved.launch.attempt <= attempt;
        let mut failed = 0;
        for moved in self.moved.values_mut().filter(|moved| is_it(moved) && !moved.is_superseded) {
            moved.is_superseded = true;
            failed += usize::from(!moved.has_connected);
        }
        self.end(by, is_it);
        match &mut self.connections {
            Connections::Untried(left) => *left = (*left + failed).min(PROBES),
            Connections::Work | Connections::Fail => failed = 0,
        }
        failed > 0
    }

    /// What has detached is left alone from now on.
    pub(super) fn release_detached(&mut self, now: Instant) {
        self.end(now, |moved| moved.is_detached);
    }

    /// All processes end within this time.
    pub(super) fn end_all(&mut self, by: Instant) {
        self.end(by, |_| true);
    }

    fn end(&mut self, by: Instant, which: impl Fn(&MovedHost) -> bool) {
        let links: Vec<_> =
            self.moved.iter().filter(|(_, moved)| which(moved)).map(|(link, _)| *link).collect();
        for link in links {
            self.end_by(link, by);
        }
    }

    fn end_by(&mut self, link: LinkId, by: Instant) {
        let Some(moved) = self.moved.get_mut(&link) else { return };
        self.deadlines.remove(&(moved.deadline, link));
        moved.deadline = moved.deadline.min(by);
        self.deadlines.insert((moved.deadline, link));
    }

    /// The member of this rank lives on without the session.
    pub(super) fn detached(&mut self, rank: Rank) {
        for moved in self.moved.values_mut().filter(|moved| moved.rank == Some(rank)) {
            moved.is_detached = true;
        }
    }

    /// The process has exited. Its output may take until `by`. Returns whether it is gone.
    pub(super) fn exited(&mut self, link: LinkId, by: Instant) -> bool {
        let Some(moved) = self.moved.get_mut(&link) else { return false };
        moved.has_exited = true;
        self.end_by(link, by);
        self.remove_if_gone(link)
    }

    /// Nothing more arrives from the process. Returns whether it is gone.
    pub(super) fn closed(&mut self, link: LinkId) -> bool {
        let Some(moved) = self.moved.get_mut(&link) else { return false };
        moved.is_open = false;
        self.remove_if_gone(link)
    }

    fn remove_if_gone(&mut self, link: LinkId) -> bool {
        let is_gone = self.moved.get(&link).is_some_and(|moved| moved.has_exited && !moved.is_open);
        if is_gone {
            self.remove(link);
        }
        is_gone
    }

    fn remove(&mut self, link: LinkId) {
        if let Some(moved) = self.moved.remove(&link) {
            self.deadlines.remove(&(moved.deadline, link));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// The next process whose deadline has passed, and what is to be done about it.
    pub(super) fn expire(&mut self, now: Instant, grace: Duration) -> Option<(LinkId, MovedStep)> {
        let &(_, link) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let moved = self.moved.get_mut(&link)?;
        if moved.is_detached || moved.is_killed || moved.has_exited {
            let step = if moved.is_detached { MovedStep::Release } else { MovedStep::Forget };
            self.remove(link);
            return Some((link, step));
        }
        self.deadlines.remove(&(moved.deadline, link));
        (moved.is_killed, moved.is_open, moved.deadline) = (true, false, now + grace);
        self.deadlines.insert((moved.deadline, link));
        Some((link, MovedStep::Kill))
    }
}

/// At a host that moves.
impl Moves {
    pub(super) fn set_config(&mut self, config: Box<SessionConfig>) {
        self.config = Some(config);
    }

    pub(super) fn take_config(&mut self) -> Option<SessionConfig> {
        self.config.take().map(|config| *config)
    }
}

#[cfg(test)]
mod tests;
