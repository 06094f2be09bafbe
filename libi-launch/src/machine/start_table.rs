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
//! | `Asked` | | gone | `Killed`: SIGKILL |
//! | `Killed` | | gone | gone |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::{LinkId, StartId};
use libi_core::time::Instant;

/// How much of the end of a starter's output is kept as evidence.
const TAIL: usize = 2_000;

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
}

#[derive(Debug)]
struct BulkStart {
    children: BTreeSet<LinkId>,
    /// The children of a bulk start by the names of their hosts.
    names: BTreeMap<String, LinkId>,
    /// The children whose links are awaited at the rendezvous.
    awaited: BTreeSet<LinkId>,
    starter: Option<Starter>,
    /// The end of everything that the starter has printed. It outlives the starter.
    tail: Vec<u8>,
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
        Self {
            single: BTreeMap::new(),
            bulk: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            last: StartId(0),
            current: None,
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
        let starter = Starter { state: StarterState::Running, deadline };
        self.bulk.insert(
            id,
            BulkStart {
                awaited: children.clone(),
                children,
                names,
                starter: Some(starter),
                tail: Vec::new(),
            },
        );
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

    /// The child of a bulk start on the host of this name.
    pub(super) fn child_named(&self, id: StartId, host: &str) -> Option<LinkId> {
        self.bulk.get(&id)?.names.get(host).copied()
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

    /// A child is gone. Returns what is to be done about its starter: it has the time until
    /// `deadline` to end.
    pub(super) fn child_gone(&mut self, id: StartId, child: LinkId, deadline: Instant) -> StarterStep {
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
        (starter.state, starter.deadline) = (StarterState::Asked, deadline);
        self.deadlines.insert((deadline, id));
        StarterStep::Ask
    }

    /// Keeps what a starter prints as evidence.
    pub(super) fn printed(&mut self, id: StartId, text: &[u8]) {
        let Some(BulkStart { tail, .. }) = self.bulk.get_mut(&id) else { return };
        let text = &text[text.len().saturating_sub(TAIL)..];
        tail.drain(..(tail.len() + text.len()).saturating_sub(TAIL));
        tail.extend_from_slice(text);
    }

    /// The end of everything that a starter has printed.
    pub(super) fn tail(&self, id: StartId) -> Vec<u8> {
        self.bulk.get(&id).map(|start| start.tail.clone()).unwrap_or_default()
    }

    /// A starter has ended, or was never started. Its children are to be given up with
    /// [`child_gone`](Self::child_gone).
    pub(super) fn starter_gone(&mut self, id: StartId) {
        let Some(start) = self.bulk.get_mut(&id) else { return };
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
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// The next starter whose deadline has passed, and what is to be done about it.
    pub(super) fn expire(&mut self, now: Instant, grace: Duration) -> Option<(StartId, StarterStep)> {
        let &(at, id) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let starter = self.bulk.get_mut(&id)?.starter.as_mut()?;
        if starter.state == StarterState::Killed {
            // Its end was never reported.
            self.starter_gone(id);
            return Some((id, StarterStep::Nothing));
        }
        (starter.state, starter.deadline) = (StarterState::Killed, now + grace);
        self.deadlines.remove(&(at, id));
        self.deadlines.insert((now + grace, id));
        Some((id, StarterStep::Kill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// A table with one bulk start of two children.
    fn bulk() -> (StartTable, StartId) {
        let mut table = StartTable::new();
        let id = table.next_id();
        table.add_bulk(id, [("a".to_owned(), LinkId(1)), ("b".to_owned(), LinkId(2))].into());
        assert_eq!((table.child_named(id, "b"), table.child_named(id, "c")), (Some(LinkId(2)), None));
        (table, id)
    }

    #[test]
    fn a_starter_is_asked_to_end_when_its_last_child_is_gone() {
        let (mut table, id) = bulk();
        assert_eq!(table.child_gone(id, LinkId(1), at(2)), StarterStep::Nothing);
        assert_eq!((table.children(id), table.in_flight()), (vec![LinkId(2)], 1));
        table.arrived(id, LinkId(2));
        assert_eq!(table.in_flight(), 0);
        assert_eq!(table.child_gone(id, LinkId(2), at(2)), StarterStep::Ask);
        assert!(!table.is_empty());
        table.starter_gone(id);
        assert!(table.is_empty());
    }

    #[test]
    fn a_starter_that_does_not_end_is_killed_and_then_forgotten() {
        let (mut table, id) = bulk();
        assert_eq!(table.next_deadline(), None);
        let steps = [1, 2].map(|link| table.child_gone(id, LinkId(link), at(2)));
        assert_eq!(steps, [StarterStep::Nothing, StarterStep::Ask]);
        assert_eq!((table.next_deadline(), table.expire(at(1), GRACE)), (Some(at(2)), None));
        assert_eq!(table.expire(at(2), GRACE), Some((id, StarterStep::Kill)));
        assert_eq!(table.expire(at(2), GRACE), None);
        assert_eq!(table.expire(at(4), GRACE), Some((id, StarterStep::Nothing)));
        assert!(table.is_empty());
    }

    #[test]
    fn a_start_outlives_its_starter_while_it_has_children() {
        let (mut table, id) = bulk();
        table.starter_gone(id);
        assert!(!table.is_empty());
        for link in [1, 2] {
            assert_eq!(table.child_gone(id, LinkId(link), at(2)), StarterStep::Nothing);
        }
        assert!(table.is_empty());
    }

    #[test]
    fn the_start_of_one_process_is_over_once_it_is_carried_out() {
        let mut table = StartTable::new();
        let id = table.next_id();
        table.add(id, LinkId(1));
        table.begin(id, at(1));
        assert!(table.is_starting());
        assert_eq!(table.children(id), [LinkId(1)]);
        assert_eq!((table.finish(StartId(9)), table.finish(id)), (None, Some(at(1))));
        assert_eq!(table.children(id), []);
        assert_eq!((table.finish(id), table.is_starting()), (None, false));
        assert_eq!(table.child_gone(id, LinkId(1), at(2)), StarterStep::Nothing);
        assert!(table.is_empty());
    }

    #[test]
    fn the_end_of_a_long_output_is_kept() {
        let (mut table, id) = bulk();
        table.printed(id, &[b'a'; 3_000]);
        table.printed(id, b"the end");
        let tail = table.tail(id);
        assert_eq!(tail.len(), TAIL);
        assert!(tail.ends_with(b"aathe end"));
        table.starter_gone(id);
        assert_eq!(table.tail(id), tail, "hosts that have not arrived are told of it");
    }
}
