//! A process of a simulated session: its calls and their results, and how much passed over its
//! links.

use std::collections::{BTreeMap, BTreeSet};

use libi_comm::{CallId, CommError};
use libi_core::ids::{LinkId, Rank};
use libi_core::sim::MachineId as Id;
use libi_core::time::Instant;

use libi_cases::shape::Process;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Right,
    Wrong(String),
    Failed(CommError),
    /// The program has cancelled it.
    GivenUp,
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) step: u32,
    /// Its number among the calls of its process at that step.
    pub(crate) nth: usize,
    /// How many times the session had grown, as far as its process knew.
    pub(crate) version: usize,
    pub(crate) at: Instant,
    pub(crate) until: Instant,
    pub(crate) ended: Option<(Instant, Ending)>,
    /// The lost members that are missing in its result.
    pub(crate) missing: Vec<Rank>,
    /// Whether the other end of a message may have been lost meanwhile, and is back.
    pub(crate) is_in_doubt: bool,
}

/// A process and the progress of its program.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) process: Process,
    pub(crate) alive: bool,
    /// When it died, or a process above it.
    pub(crate) lost: Option<Instant>,
    /// Since when it is about to leave, and whether no other needed it when it left.
    pub(crate) leaves: Option<Instant>,
    pub(crate) left_settled: Option<bool>,
    /// The next step.
    pub(crate) next: u32,
    /// The number of its open calls, by step.
    pub(crate) open: BTreeMap<u32, usize>,
    pub(crate) calls: BTreeMap<CallId, Record>,
    /// Links that are closed or about to be.
    pub(crate) cut: BTreeSet<LinkId>,
    /// The step from which on it takes part, if it has taken the place of a lost member.
    pub(crate) joined: Option<u32>,
    /// The first step with others that have, as far as it was told.
    pub(crate) told: BTreeMap<Rank, u32>,
    /// The same, whatever step it is at itself.
    pub(crate) told_first: BTreeMap<Rank, u32>,
    /// How many times the session has grown, as far as it was told, and as it knew in its last collective
    /// call.
    pub(crate) told_version: usize,
    pub(crate) version: usize,
    /// When it hears of the last growth.
    pub(crate) hears_at: Instant,
    /// When it hears of the last new host below it.
    pub(crate) joins_at: Instant,
}

impl Member {
    pub(crate) fn new(process: Process) -> Self {
        Self {
            process,
            alive: true,
            lost: None,
            leaves: None,
            left_settled: None,
            next: 0,
            open: BTreeMap::new(),
            calls: BTreeMap::new(),
            cut: BTreeSet::new(),
            joined: None,
            told: BTreeMap::new(),
            told_first: BTreeMap::new(),
            told_version: 0,
            version: 0,
            hears_at: Instant::ZERO,
            joins_at: Instant::ZERO,
        }
    }

    /// Whether it has made this call of a step successfully.
    pub(crate) fn did(&self, step: u32, nth: u32) -> bool {
        let record = self.calls.get(&call_id(step, nth as usize));
        record.is_some_and(|record| matches!(record.ended, Some((_, Ending::Right))))
    }
}

/// The number of a call at a step.
pub(crate) const fn call_id(step: u32, nth: usize) -> CallId {
    CallId((step as u64) << 32 | nth as u64)
}

/// How much was sent, and how much of it was on its way at a time.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// What is on its way, by receiver and link.
    under_way: BTreeMap<(Id, LinkId), Vec<(Instant, usize)>>,
    /// The most bytes on their way in one direction of a link.
    pub(crate) most: usize,
}

impl Traffic {
    pub(crate) fn sent(&mut self, to: (Id, LinkId), now: Instant, arrives: Instant, length: usize) {
        self.frames += 1;
        self.bytes += length as u64;
        let under_way = self.under_way.entry(to).or_default();
        under_way.retain(|(at, _)| *at > now);
        under_way.push((arrives, length));
        self.most = self.most.max(under_way.iter().map(|(_, length)| length).sum());
    }
}

/// The other end of a link, and the number of the link there.
pub(crate) fn other_end(member: &Member, link: LinkId) -> Option<(Id, LinkId)> {
    if link == LinkId::PARENT {
        return member.process.parent.map(|(parent, at)| (Id(parent as u32), at));
    }
    member.process.links.get(&link).map(|child| (Id(*child as u32), LinkId::PARENT))
}

/// The order of processes in a ring: each before those below it, in the order of its branches.
pub(crate) fn in_order(processes: &[Process]) -> Vec<usize> {
    let mut ring = Vec::new();
    let mut to_do = vec![0];
    while let Some(at) = to_do.pop() {
        let process = &processes[at];
        ring.push(at);
        to_do.extend(process.topology.branches.iter().rev().map(|branch| process.links[&branch.link]));
    }
    ring
}
