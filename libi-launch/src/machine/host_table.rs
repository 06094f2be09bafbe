//! The front end's table of hosts, and the decision that follows from it.

use libi_core::ids::HostIndex;
use libi_core::plan::late::Attempt;
use serde::{Deserialize, Serialize};

use super::message::ChildMessage;
use crate::failure::{Cause, Failure, Phase};

/// How many hosts have to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// All hosts.
    All,
    /// At least this many; the session goes on without the hosts that failed.
    AtLeast(u32),
}

/// The state of one host.
#[derive(Clone, Debug, PartialEq)]
pub enum HostState {
    /// The launch of the host has not ended.
    Waiting,
    /// All members of the host are up.
    Joined,
    /// The host was given up, or was lost.
    Failed(Failure),
}

/// A host whose place a spare has taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replacement {
    /// The index of the host in the session.
    pub host: HostIndex,
    /// The name of the machine that failed.
    pub name: String,
    /// The name of the spare that took its place.
    pub by: String,
    /// Why the machine failed.
    pub failure: Failure,
}

/// What the front end does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchDecision {
    Wait,
    /// The session goes up.
    Go,
    /// The session cannot come up, but some hosts are still open.
    Hopeless,
    /// The session cannot come up, and no host is open.
    GiveUp,
}

/// The state of all hosts.
#[derive(Debug)]
pub(super) struct HostTable {
    policy: Policy,
    hosts: Vec<(Attempt, HostState)>,
    waiting: u32,
    joined: u32,
    /// How often the state of a host has changed.
    changes: u64,
}

impl HostTable {
    pub(super) fn new(hosts: u32, policy: Policy) -> Self {
        let unknown = (Attempt::default(), HostState::Waiting);
        Self { policy, hosts: vec![unknown; hosts as usize], waiting: hosts, joined: 0, changes: 0 }
    }

    /// The session has so many hosts more.
    pub(super) fn grow(&mut self, hosts: u32) {
        let unknown = (Attempt::default(), HostState::Waiting);
        self.hosts.resize(self.hosts.len() + hosts as usize, unknown);
        self.waiting += hosts;
    }

    /// Records a report, and returns whether a joined host is lost now. Reports of earlier attempts
    /// than the latest are ignored. A failed host keeps its failure if the report says only that
    /// its launcher was lost, or that launching has stopped.
    pub(super) fn note(&mut self, report: &ChildMessage) -> bool {
        let (host, attempt, known) = match report {
            ChildMessage::Joined(host, attempt, _) => (host, attempt, HostState::Joined),
            ChildMessage::Failed(host, attempt, failure) => {
                (host, attempt, HostState::Failed(failure.clone()))
            }
            ChildMessage::Relaunch(host, attempt, _) => (host, attempt, HostState::Waiting),
            ChildMessage::Exited(..)
            | ChildMessage::Detached(_)
            | ChildMessage::NoDependents(_)
            | ChildMessage::NotDirect
            | ChildMessage::WantsDirect
            | ChildMessage::Link(..)
            | ChildMessage::InProgram(_)
            | ChildMessage::Declined(..)
            | ChildMessage::CannotLaunch(..)
            | ChildMessage::InDoubt(..)
            | ChildMessage::ParentSilent
            | ChildMessage::Orphan(_)
            | ChildMessage::HandBack(..)
            | ChildMessage::Listening(_)
            | ChildMessage::Dropped(..)
            | ChildMessage::Adopted(..)
            | ChildMessage::HoldsOutput(_)
            | ChildMessage::CommandEnded(..)
            | ChildMessage::Staged(_)
            | ChildMessage::WantsSource(..)
            | ChildMessage::FilesFrom(..)
            | ChildMessage::SlowClient(_)
            | ChildMessage::Restarting(_)
            | ChildMessage::Restarted(_)
            | ChildMessage::NotRestarted(..)
            | ChildMessage::InputTaken(_) => {
                return false;
            }
        };
        let Some(entry) = self.hosts.get_mut(host.0 as usize) else { return false };
        let beside = matches!(&known, HostState::Failed(Failure { cause, phase: Phase::Waiting, .. })
            if cause.is_cut_short() || matches!(cause, Cause::LauncherLost(_)));
        if *attempt < entry.0 || beside && matches!(entry.1, HostState::Failed(_)) {
            return false;
        }
        let lost = entry.1 == HostState::Joined && matches!(known, HostState::Failed(_));
        for (kind, count) in [(HostState::Waiting, &mut self.waiting), (HostState::Joined, &mut self.joined)]
        {
            *count = *count + u32::from(known == kind) - u32::from(entry.1 == kind);
        }
        self.changes += 1;
        *entry = (*attempt, known);
        lost
    }

    /// The latest attempt at a host, and its state.
    pub(super) fn at(&self, host: HostIndex) -> Option<&(Attempt, HostState)> {
        self.hosts.get(host.0 as usize)
    }

    /// Gives every open host this failure.
    pub(super) fn close(&mut self, failure: &Failure) {
        let hosts = (0..).zip(&self.hosts);
        let open: Vec<_> = hosts
            .filter(|(_, (_, known))| *known == HostState::Waiting)
            .map(|(host, (at, _))| (host, *at))
            .collect();
        for (host, attempt) in open {
            self.note(&ChildMessage::Failed(HostIndex(host), attempt, failure.clone()));
        }
    }

    fn needed(&self) -> u32 {
        let hosts = self.hosts.len() as u32;
        match self.policy {
            Policy::All => hosts,
            Policy::AtLeast(least) => least.clamp(1, hosts.max(1)),
        }
    }

    /// Whether the session could go up without the hosts that are open.
    pub(super) fn has_enough(&self) -> bool {
        let has_master = self.hosts.first().is_some_and(|(_, state)| *state == HostState::Joined);
        has_master && self.joined >= self.needed()
    }

    /// Why hosts are given up that are not at fault; `stopped` tells whether launching has stopped
    /// because too many hosts have failed.
    pub(super) fn why_given_up(&self, stopped: bool) -> Cause {
        let at_fault = |state: &HostState| {
            matches!(state, HostState::Failed(failure)
            if !failure.cause.is_cut_short() && !matches!(failure.cause, Cause::LauncherLost(_)))
        };
        match (0..).map(HostIndex).zip(self.hosts()).find(|(_, state)| at_fault(state)) {
            Some((HostIndex(0), _)) => Cause::MasterFailed(HostIndex(0)),
            Some((host, _)) if stopped => Cause::LaunchFailed(host),
            _ => Cause::Cancelled,
        }
    }

    /// How often the state of a host has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The decision that follows from the table.
    pub(super) fn decide(&self) -> LaunchDecision {
        // The first host has the master, without which there is no session.
        let no_master = self.hosts.first().is_some_and(|(_, known)| matches!(known, HostState::Failed(_)));
        let hopeless = self.joined + self.waiting < self.needed();
        if no_master || hopeless && self.waiting == 0 {
            LaunchDecision::GiveUp
        } else if hopeless {
            LaunchDecision::Hopeless
        } else if self.waiting == 0 {
            LaunchDecision::Go
        } else {
            LaunchDecision::Wait
        }
    }

    /// The number of hosts that have joined, have failed, and are open.
    pub(super) fn progress(&self) -> (u32, u32, u32) {
        let all = self.hosts.len() as u32;
        (self.joined, all - self.joined - self.waiting, self.waiting)
    }

    /// How often the launch of each host has been started, as far as the front end knows.
    pub(super) fn attempts(&self) -> impl Iterator<Item = u32> {
        let count = |attempt: &Attempt| u32::from(attempt.lost) + u32::from(attempt.failed);
        let begun = |known: &HostState| !matches!(known, HostState::Failed(failure) if failure.phase == Phase::Waiting);
        self.hosts.iter().map(move |(attempt, known)| count(attempt) + u32::from(begun(known)))
    }

    /// Whether the first launch of each host was withdrawn, which is no attempt.
    pub(super) fn withdrawn(&self) -> impl Iterator<Item = bool> {
        self.hosts.iter().map(|(attempt, _)| attempt.withdrawn)
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = &HostState> {
        self.hosts.iter().map(|(_, known)| known)
    }
}
