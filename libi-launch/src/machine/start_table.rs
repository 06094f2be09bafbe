//! The starts of a node: which children each is to bring up, and the processes that carry out bulk
//! starts.
//!
//! Deadlines, attempts and verdicts belong to the children (see `child_table.rs`). Pacing belongs to
//! starts: while one is in progress, no other begins.
//!
//! A bulk start is carried out by a process of its own, its starter, which lives as long as what it
//! has started:
//!
//! | state of a starter | the last child is gone | the starter ends | the deadline passes |
//! |---|---|---|---|
//! | `Running` | `Asked`: SIGTERM | gone; children that have not arrived fail | |
//! | | `Finishing`, if it has ended by itself | | |
//! | `Finishing` | | gone | `Asked`: SIGTERM |
//! | `Asked` | | gone | `Killed`: SIGKILL |
//! | `Killed` | | gone | gone |
//!
//! A starter ends by itself when all that it has started has ended, and may then print why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::{HostIndex, LinkId, StartId};
use libi_core::time::Instant;

use self::said::EndOfAll;
pub(super) use self::said::one_line;
use super::rendezvous::named;

/// How many bulk starts of a launch are divided at most. Each host that makes a start of a thousand
/// fail takes ten to find.
const MAX_DIVISIONS: u32 = 64;

/// Starts of one process until they are carried out, and bulk starts until their children and their
/// starter are gone.
#[derive(Debug)]
pub(super) struct StartTable {
    single: BTreeMap<StartId, LinkId>,
    bulk: BTreeMap<StartId, BulkStart>,
    /// The deadlines of starters that are ending. There are few, and starts of one process have none.
    deadlines: BTreeSet<(Instant, StartId)>,
    last: StartId,
    /// The start of a host that is in progress, and since when.
    current: Option<(StartId, Instant)>,
    /// How many bulk starts may still be divided.
    divisions: u32,
    /// Why no bulk start can succeed.
    refused: Option<String>,
}

#[derive(Debug, Default)]
struct BulkStart {
    children: BTreeSet<LinkId>,
    /// The children of a bulk start by the names of their hosts.
    names: BTreeMap<String, LinkId>,
    /// The children whose links are awaited at the rendezvous.
    awaited: BTreeSet<LinkId>,
    /// The hosts below relays, by their names.
    below: BTreeMap<String, HostIndex>,
    starter: Option<Starter>,
    /// The end of everything that the starter has printed. It outlives the starter.
    tail: Vec<u8>,
    /// Since when it waits for resources, and how long it has waited before.
    waits: Option<Instant>,
    queued: Duration,
    /// The line by which the starter has said that it will end all its programs.
    will_end_all: Option<String>,
    end_of_all: EndOfAll,
}

/// The process that carries out a bulk start.
#[derive(Debug)]
struct Starter {
    state: StarterState,
    /// When the next step is taken; in the far future while it runs.
    deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StarterState {
    Running,
    Finishing,
    Asked,
    Killed,
}

/// What is to be done about a starter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StarterStep {
    /// Nothing.
    Nothing,
    /// It is asked to end.
    Ask,
    /// It is killed.
    Kill,
}

impl StartTable {
    pub(super) fn new() -> Self {
        Self::counting_from(0)
    }

    /// The table of a leader. A relay expects arrivals of the front end's starts beside its own: their
    /// numbers must differ.
    pub(super) fn of_leader() -> Self {
        Self::counting_from(1 << 31)
    }

    fn counting_from(last: u32) -> Self {
        Self {
            single: BTreeMap::new(),
            bulk: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            last: StartId(last),
            current: None,
            divisions: MAX_DIVISIONS,
            refused: None,
        }
    }

    /// The number of the next start.
    pub(super) fn next_id(&mut self) -> StartId {
        self.last.0 += 1;
        self.last
    }

    /// Adds a start of one process, which is its own starter.
    pub(super) fn add(&mut self, id: StartId, child: LinkId) {
        self.single.insert(id, child);
    }

    /// Adds a bulk start of these children, by the names of their hosts.
    pub(super) fn add_bulk(&mut self, id: StartId, names: BTreeMap<String, LinkId>) {
        let children: BTreeSet<LinkId> = names.values().copied().collect();
        let deadline = Instant::FAR_FUTURE;
        let starter = Some(Starter { state: StarterState::Running, deadline });
        let awaited = children.clone();
        self.bulk.insert(id, BulkStart { awaited, children, names, starter, ..BulkStart::default() });
    }

    /// Adds a child that a start of another node brings up.
    pub(super) fn expect(&mut self, id: StartId, name: String, child: LinkId) {
        let start = self.bulk.entry(id).or_default();
        start.children.insert(child);
        start.awaited.insert(child);
        start.names.insert(name, child);
    }

    /// A child was redirected to a relay: it is no child of this node.
    pub(super) fn redirected(&mut self, id: StartId, child: LinkId, host: HostIndex, name: &str) {
        let Some(start) = self.bulk.get_mut(&id) else { return };
        start.children.remove(&child);
        start.awaited.remove(&child);
        if let Some((name, _)) = start.names.remove_entry(name) {
            start.below.insert(name, host);
        }
    }

    /// A host has come back from its relay, and is the host of this child.
    pub(super) fn came_back(&mut self, id: StartId, host: HostIndex, child: LinkId) {
        let Some(start) = self.bulk.get_mut(&id) else { return };
        start.children.insert(child);
        start.awaited.insert(child);
        let names = start.below.iter().filter(|(_, of)| **of == host);
        let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        for name in names {
            start.below.remove(&name);
            start.names.insert(name, child);
        }
    }

    /// The host of this name, if it was redirected to a relay.
    pub(super) fn below_named(&self, id: StartId, name: &str) -> Option<HostIndex> {
        named(&self.bulk.get(&id)?.below, name).next()
    }

    /// A start of a host begins, which delays the next one.
    pub(super) fn begin(&mut self, id: StartId, now: Instant) {
        self.current = Some((id, now));
    }

    /// Whether a start of a host is in progress.
    pub(super) fn is_starting(&self) -> bool {
        self.current.is_some()
    }

    /// A start is over; returns since when it was in progress, if it was.
    pub(super) fn finish(&mut self, id: StartId) -> Option<Instant> {
        self.single.remove(&id);
        self.current.take_if(|(current, _)| *current == id).map(|(_, since)| since)
    }

    /// The children of a start that are not gone: of one process, until it is started.
    pub(super) fn children(&self, id: StartId) -> Vec<LinkId> {
        let many = self.bulk.get(&id).into_iter().flat_map(|start| &start.children);
        self.single.get(&id).into_iter().chain(many).copied().collect()
    }

    /// The children of a bulk start on hosts of this name: on the one that has exactly this name
    /// first.
    pub(super) fn children_named(&self, id: StartId, host: &str) -> impl Iterator<Item = LinkId> {
        self.bulk.get(&id).into_iter().flat_map(move |start| named(&start.names, host))
    }

    /// How many bulk starts have children whose links are awaited.
    pub(super) fn in_flight(&self) -> usize {
        self.bulk.values().filter(|start| !start.awaited.is_empty()).count()
    }

    /// The link of a child has arrived.
    pub(super) fn arrived(&mut self, id: StartId, child: LinkId) {
        if let Some(start) = self.bulk.get_mut(&id) {
            start.awaited.remove(&child);
        }
    }

    /// A child is gone, `by_itself` if this node has not ended it. Returns what is to be done about
    /// its starter: it has the time until `deadline` to end.
    pub(super) fn child_gone(
        &mut self,
        id: StartId,
        child: LinkId,
        by_itself: bool,
        deadline: Instant,
    ) -> StarterStep {
        self.single.remove(&id);
        let Some(start) = self.bulk.get_mut(&id) else { return StarterStep::Nothing };
        start.children.remove(&child);
        start.awaited.remove(&child);
        if !start.children.is_empty() {
            return StarterStep::Nothing;
        }
        let Some(starter) = &mut start.starter else {
            self.bulk.remove(&id);
            return StarterStep::Nothing;
        };
        if starter.state != StarterState::Running {
            return StarterStep::Nothing;
        }
        let (state, step) = match by_itself {
            true => (StarterState::Finishing, StarterStep::Nothing),
            false => (StarterState::Asked, StarterStep::Ask),
        };
        (starter.state, starter.deadline) = (state, deadline);
        self.deadlines.insert((deadline, id));
        step
    }

    /// Whether the starter runs, and was not asked to end.
    pub(super) fn is_running(&self, id: StartId) -> bool {
        let starter = self.bulk.get(&id).and_then(|start| start.starter.as_ref());
        starter.is_some_and(|it| matches!(it.state, StarterState::Running | StarterState::Finishing))
    }

    /// Whether a starter whose children have all ended by themselves has not ended yet.
    pub(super) fn is_any_finishing(&self) -> bool {
        let starters = self.bulk.values().filter_map(|start| start.starter.as_ref());
        starters.into_iter().any(|starter| starter.state == StarterState::Finishing)
    }

    /// A start has failed as a whole, and one of its hosts may be the reason: returns its children
    /// in two parts, to be started again. The start is forgotten.
    ///
    /// `None` if some of its children have arrived or were reported, if there is only one, if no start
    /// can succeed, or if too many starts have been divided.
    pub(super) fn divide(&mut self, id: StartId) -> Option<[Vec<LinkId>; 2]> {
        let start = self.bulk.get(&id)?;
        let untouched = start.awaited.len() == start.names.len() && start.end_of_all.why_refused().is_none();
        let is_hopeless = self.refused.is_some() || self.divisions == 0;
        if !untouched || start.names.len() < 2 || is_hopeless {
            return None;
        }
        self.divisions -= 1;
        let start = self.bulk.remove(&id)?;
        let mut first: Vec<LinkId> = start.children.into_iter().collect();
        let second = first.split_off(first.len() / 2);
        Some([first, second])
    }

    /// A starter has ended, or was never started. Its children are to be given up with
    /// [`child_gone`](Self::child_gone).
    pub(super) fn starter_gone(&mut self, id: StartId) {
        let Some(start) = self.bulk.get_mut(&id) else { return };
        start.waits = None;
        if let Some(starter) = start.starter.take() {
            self.deadlines.remove(&(starter.deadline, id));
        }
        if start.children.is_empty() {
            self.bulk.remove(&id);
        }
    }

    /// Whether all bulk starts are gone.
    pub(super) fn is_empty(&self) -> bool {
        self.bulk.is_empty()
    }

    /// The next deadline of a starter.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let reasons = self.bulk.values().filter_map(|start| start.end_of_all.deadline());
        reasons.chain(self.deadlines.first().map(|&(at, _)| at)).min()
    }

    /// The next starter whose deadline has passed, and what is to be done about it.
    pub(super) fn expire(&mut self, now: Instant, grace: Duration) -> Option<(StartId, StarterStep)> {
        for start in self.bulk.values_mut() {
            start.end_of_all.expire_reason(now);
        }
        let &(at, id) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let starter = self.bulk.get_mut(&id)?.starter.as_mut()?;
        if starter.state == StarterState::Killed {
            // Its end was never reported.
            self.starter_gone(id);
            return Some((id, StarterStep::Nothing));
        }
        let (state, step) = match starter.state {
            StarterState::Finishing => (StarterState::Asked, StarterStep::Ask),
            _ => (StarterState::Killed, StarterStep::Kill),
        };
        (starter.state, starter.deadline) = (state, now + grace);
        self.deadlines.remove(&(at, id));
        self.deadlines.insert((now + grace, id));
        Some((id, step))
    }
}

mod said;

#[cfg(test)]
mod tests;
