//! What the front end knows of every host, and when it is enough.

use libi_core::ids::HostIndex;
use libi_core::plan::late::Attempt;

use super::message::ChildMessage;
use crate::failure::{Cause, Failure, Phase};

/// How many hosts have to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Every one of them.
    All,
    /// At least so many; the session goes on without those that failed.
    AtLeast(u32),
}

/// What is known of one host.
#[derive(Clone, Debug, PartialEq)]
pub enum HostState {
    /// Its launch has not ended.
    Waiting,
    /// All its members are up.
    Joined,
    /// It is given up, or was lost.
    Failed(Failure),
}

/// A host in whose place a spare was put.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// Which host of the session.
    pub host: HostIndex,
    /// What it was called until then.
    pub name: String,
    /// The spare that was put in its place.
    pub by: String,
    /// Why.
    pub failure: Failure,
}

/// What the front end should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchDecision {
    Wait,
    /// The session is up.
    Go,
    /// It will not come up, but there are verdicts still to come.
    Hopeless,
    /// It will not come up, and nothing more is to be learned.
    GiveUp,
}

/// The front end's knowledge.
#[derive(Debug)]
pub(super) struct HostTable {
    policy: Policy,
    hosts: Vec<(Attempt, HostState)>,
    waiting: u32,
    joined: u32,
}

impl HostTable {
    pub(super) fn new(hosts: u32, policy: Policy) -> Self {
        let unknown = (Attempt::default(), HostState::Waiting);
        Self { policy, hosts: vec![unknown; hosts as usize], waiting: hosts, joined: 0 }
    }

    /// Notes what was said of a host, and tells whether it had joined and is lost now. What is said of an
    /// attempt before the latest one is out of date; that a launcher was lost, or launches nobody any more, says nothing of a
    /// host that had failed.
    pub(super) fn note(&mut self, report: &ChildMessage) -> bool {
        let (host, attempt, known) = match report {
            ChildMessage::Joined(host, attempt, _) => (host, attempt, HostState::Joined),
            ChildMessage::Failed(host, attempt, failure) => {
                (host, attempt, HostState::Failed(failure.clone()))
            }
            ChildMessage::Relaunch(host, attempt, _) => (host, attempt, HostState::Waiting),
            ChildMessage::Exited(..)
            | ChildMessage::Detached(_)
            | ChildMessage::NoDependents
            | ChildMessage::NotDirect
            | ChildMessage::Link(..)
            | ChildMessage::CannotLaunch(..)
            | ChildMessage::HandBack(..)
            | ChildMessage::InputTaken(_) => {
                return false;
            }
        };
        let Some(entry) = self.hosts.get_mut(host.0 as usize) else { return false };
        let beside = matches!(
            &known,
            HostState::Failed(Failure {
                cause: Cause::LauncherLost(_) | Cause::Cancelled,
                phase: Phase::Waiting,
                ..
            })
        );
        if *attempt < entry.0 || beside && matches!(entry.1, HostState::Failed(_)) {
            return false;
        }
        let lost = entry.1 == HostState::Joined && matches!(known, HostState::Failed(_));
        for (kind, count) in [(HostState::Waiting, &mut self.waiting), (HostState::Joined, &mut self.joined)]
        {
            *count = *count + u32::from(known == kind) - u32::from(entry.1 == kind);
        }
        *entry = (*attempt, known);
        lost
    }

    /// What is known of a host, and of which attempt.
    pub(super) fn at(&self, host: HostIndex) -> Option<&(Attempt, HostState)> {
        self.hosts.get(host.0 as usize)
    }

    /// Says of everybody who is still waited for that nobody will report.
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

    /// What follows from what is known.
    pub(super) fn decide(&self) -> LaunchDecision {
        let hosts = self.hosts.len() as u32;
        let needed = match self.policy {
            Policy::All => hosts,
            Policy::AtLeast(least) => least.clamp(1, hosts.max(1)),
        };
        // The first host has the master, without whom there is no session.
        let no_master = self.hosts.first().is_some_and(|(_, known)| matches!(known, HostState::Failed(_)));
        let hopeless = self.joined + self.waiting < needed;
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

    /// How many hosts have joined, have failed, and are still waited for.
    pub(super) fn progress(&self) -> (u32, u32, u32) {
        let all = self.hosts.len() as u32;
        (self.joined, all - self.joined - self.waiting, self.waiting)
    }

    /// How often the launch of each host has been begun, as far as it is known here.
    pub(super) fn attempts(&self) -> impl Iterator<Item = u32> {
        let count = |attempt: &Attempt| u32::from(attempt.lost) + u32::from(attempt.failed);
        let begun = |known: &HostState| !matches!(known, HostState::Failed(failure) if failure.phase == Phase::Waiting);
        self.hosts.iter().map(move |(attempt, known)| count(attempt) + u32::from(begun(known)))
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = &HostState> {
        self.hosts.iter().map(|(_, known)| known)
    }
}
