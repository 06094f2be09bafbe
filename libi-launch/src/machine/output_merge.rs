//! Which equal output of several members travels as one.
//!
//! Output waits here in *units*: a line, or a part of one that is longer than a frame. Each child
//! has a queue of its own, and a unit that leaves takes along every equal unit that is first in
//! another queue, as one piece with the ranks of all. What a child has sent therefore leaves in the
//! order in which it came, and so does what each rank has printed to each stream: the front end can
//! put it together again, byte by byte. Whole outputs are not compared, because a unit can leave
//! while the member still runs, and because members that differ in one line share all others.
//!
//! | the first unit of a queue | is passed on |
//! |---|---|
//! | is first in the queues of all children below which a member may still print | at once |
//! | has waited for `hold` | at once |
//! | has more than [`HELD`] bytes behind it, or has cost its child half of its credit | at once, until half of that is left |
//! | comes from a host that is lost | at once |
//! | is the oldest one, and no child is left that may print | at once |
//! | otherwise | when one of these is true |
//!
//! A unit that is to leave lets those go first behind which an equal one waits in other queues:
//! lines that only one member has printed do not separate what follows them.
//!
//! Each queue has at most [`MAX_UNITS`] units of single lines; what arrives beyond that stays
//! together as it came. With the credit of each child (see `output_relay.rs`), that bounds what a
//! node holds; beyond the bounds output travels unmerged, and is neither lost nor held up.
//!
//! Ends of members that are reported while their output waits here wait behind it, at most for
//! `hold`: they do not wait for credit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use super::message::ChildMessage;
use super::output_piece::{MAX_RUNS, OutputPiece, Stream};
use super::output_relay::{MAX_FRAME_TEXT, WINDOW};

/// How much of one child a node holds for the sake of merging.
pub(super) const HELD: usize = 64 << 10;
/// How many lines of one child are compared with those of others.
pub(super) const MAX_UNITS: usize = 1_024;
/// What a unit, and a text, cost in memory beside their bytes.
const UNIT_COST: usize = 64;
/// How many queues are looked through for units that should go first.
const MAX_CHAIN: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct OutputMerge {
    hold: Duration,
    queues: BTreeMap<LinkId, Queue>,
    /// The queues that are not empty, by the time at which their first unit is due.
    due: BTreeSet<(Instant, LinkId)>,
    /// How often each text waits in which queues.
    holders: BTreeMap<Arc<Text>, BTreeMap<LinkId, u32>>,
    /// How many members may still print below each child; `None` before the session is up.
    open: Option<BTreeMap<LinkId, usize>>,
    held: usize,
    deferred: VecDeque<Deferred>,
    /// How many of these came from each child.
    deferred_of: BTreeMap<LinkId, u32>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Text {
    stream: Stream,
    bytes: Vec<u8>,
}

/// What these ranks have printed.
#[derive(Debug)]
struct Unit {
    text: Arc<Text>,
    ranks: Arc<Ranks>,
    /// What its ranks cost in memory, if it is the first unit of a piece.
    ranks_cost: usize,
    /// The credit that its child gets back.
    credit: u32,
    due: Instant,
}

/// What has come from one child and waits.
#[derive(Debug, Default)]
struct Queue {
    units: VecDeque<Unit>,
    /// When its first unit is due, if there is one.
    due: Option<Instant>,
    /// What its units cost in memory, and the credit that their child gets back.
    bytes: usize,
    credit: u32,
    /// Nothing more comes, and nothing waits any longer.
    is_hurried: bool,
    /// It was too long, and is not yet short again.
    is_pressed: bool,
    /// How many units were added since the beginning.
    added: u64,
}

/// A report that waits behind output of the same child.
#[derive(Debug)]
struct Deferred {
    report: ChildMessage,
    link: LinkId,
    /// The number of the last unit before it.
    behind: u64,
    due: Instant,
}

impl Queue {
    /// Whether its first unit is not held. A queue that is too long is shortened to half of what it may
    /// have, so that what leaves it fills frames: otherwise each line that comes would drive out another.
    fn is_pressed(&mut self) -> bool {
        let share = if self.is_pressed { 2 } else { 1 };
        self.is_pressed = self.bytes > HELD / share as usize || self.credit > WINDOW / 2 / share;
        self.is_hurried || self.is_pressed
    }

    fn passed(&self) -> u64 {
        self.added - self.units.len() as u64
    }
}

/// What a piece costs in credit where output is merged.
pub(super) fn credit_of(piece: &OutputPiece) -> usize {
    piece.text.len() + piece.ranks_cost() + 2 * UNIT_COST
}

impl OutputMerge {
    /// Output is held for this long at most.
    pub(super) fn new(hold: Duration) -> Self {
        let (queues, due, holders, deferred, deferred_of) = Default::default();
        Self { hold, queues, due, holders, open: None, held: 0, deferred, deferred_of }
    }

    /// The number of bytes held. Equal texts count once.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// How much is held at most for the sake of merging.
    pub(super) fn may_hold(&self) -> usize {
        self.due.len() * HELD
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// The session is up: so many members may print below each child.
    pub(super) fn open(&mut self, members: impl Iterator<Item = (LinkId, usize)>) {
        self.open = Some(members.collect());
    }

    /// A member below this child prints no more.
    pub(super) fn member_left(&mut self, link: LinkId) {
        let Some(open) = &mut self.open else { return };
        if let Some(members) = open.get_mut(&link) {
            *members = members.saturating_sub(1);
            if *members == 0 {
                open.remove(&link);
            }
        }
    }

    /// A member below this child prints again.
    pub(super) fn member_returns(&mut self, link: LinkId) {
        if let Some(open) = &mut self.open {
            *open.entry(link).or_default() += 1;
        }
    }

    /// Further members below this child may print.
    pub(super) fn members_come(&mut self, link: LinkId, count: usize) {
        if let Some(open) = &mut self.open {
            *open.entry(link).or_default() += count;
        }
    }

    /// The child is gone. Its output waits no longer if its host was lost.
    pub(super) fn child_left(&mut self, link: LinkId, is_host: bool) {
        if let Some(open) = &mut self.open {
            open.remove(&link);
        }
        if let Some(queue) = self.queues.get_mut(&link).filter(|_| is_host) {
            queue.is_hurried = true;
            self.rearm(link);
        }
    }

    /// Adds output of a child, which has spent credit on it or not.
    pub(super) fn push(&mut self, link: LinkId, is_credited: bool, piece: OutputPiece, now: Instant) {
        let mut credit = if is_credited { credit_of(&piece) as u32 } else { 0 };
        let (due, mut ranks_cost) = (now + self.hold, piece.ranks_cost());
        let (ranks, mut rest) = (Arc::new(piece.ranks), &piece.text[..]);
        while !rest.is_empty() {
            let queue = self.queues.entry(link).or_default();
            let length = unit_length(rest, queue.units.len() < MAX_UNITS);
            let (bytes, after) = rest.split_at(length);
            rest = after;
            let text = Text { stream: piece.stream, bytes: bytes.to_vec() };
            let text = match self.holders.get_key_value(&text) {
                Some((known, _)) => Arc::clone(known),
                None => {
                    self.held += text.bytes.len() + UNIT_COST;
                    Arc::new(text)
                }
            };
            *self.holders.entry(Arc::clone(&text)).or_default().entry(link).or_default() += 1;
            let (credit, ranks_cost) = (std::mem::take(&mut credit), std::mem::take(&mut ranks_cost));
            self.held += UNIT_COST + ranks_cost;
            queue.bytes += UNIT_COST + ranks_cost + text.bytes.len();
            queue.credit += credit;
            queue.units.push_back(Unit { text, ranks: Arc::clone(&ranks), ranks_cost, credit, due });
            queue.added += 1;
            self.rearm(link);
        }
    }

    /// Corrects when the first unit of a queue is due.
    fn rearm(&mut self, link: LinkId) {
        let Some(queue) = self.queues.get_mut(&link) else { return };
        let is_pressed = queue.is_pressed();
        let due = queue.units.front().map(|unit| if is_pressed { Instant::ZERO } else { unit.due });
        if due != queue.due {
            queue.due.map(|before| self.due.remove(&(before, link)));
            due.map(|due| self.due.insert((due, link)));
            queue.due = due;
        }
        if due.is_none() && queue.is_hurried {
            self.queues.remove(&link);
        }
    }

    /// The next piece, if it costs no more credit than there is. Adds what each child gets back.
    /// `is_last` tells that no child is left.
    pub(super) fn pop(
        &mut self,
        credit: usize,
        is_last: bool,
        now: Instant,
        sources: &mut BTreeMap<LinkId, u32>,
    ) -> Option<OutputPiece> {
        let text = self.next(is_last, now)?;
        let (ranks, links) = self.equal(&text);
        let mut piece = OutputPiece { ranks, stream: text.stream, text: text.bytes.clone(), at: None };
        if credit_of(&piece) > credit {
            return None;
        }
        self.take(&text, &links, sources);
        // Further units of the same ranks travel in the same frame.
        while let Some(text) = self.next(is_last, now) {
            let length = piece.text.len() + text.bytes.len();
            let fits = length <= MAX_FRAME_TEXT && credit_of(&piece) + text.bytes.len() <= credit;
            let (ranks, links) = self.equal(&text);
            if !fits || text.stream != piece.stream || ranks != piece.ranks {
                break;
            }
            piece.text.extend(&text.bytes);
            self.take(&text, &links, sources);
        }
        Some(piece)
    }

    /// The text that is to leave next.
    fn next(&self, is_last: bool, now: Instant) -> Option<Arc<Text>> {
        if let Some(text) = self.complete() {
            return Some(self.first_before(text));
        }
        let &(due, link) = self.due.first()?;
        let is_open = self.open.as_ref().is_none_or(|open| !open.is_empty());
        let waits = due > now && is_open && !is_last;
        Some(self.first_before(self.first_of(link).filter(|_| !waits)?))
    }

    /// The text that is first in the queues of all children below which a member may still print.
    fn complete(&self) -> Option<&Arc<Text>> {
        let mut links = self.open.as_ref()?.keys();
        let text = self.first_of(*links.next()?)?;
        links.all(|link| self.first_of(*link).is_some_and(|other| Arc::ptr_eq(other, text))).then_some(text)
    }

    fn first_of(&self, link: LinkId) -> Option<&Arc<Text>> {
        self.queues.get(&link)?.units.front().map(|unit| &unit.text)
    }

    /// This text, or one that has to leave before it so that all that is equal leaves together.
    fn first_before(&self, text: &Arc<Text>) -> Arc<Text> {
        let mut chain = vec![text];
        while let Some(&last) = chain.last().filter(|_| chain.len() < MAX_CHAIN) {
            let links = self.holders.get(last).into_iter().flat_map(BTreeMap::keys);
            let mut before = links.filter_map(|link| self.first_of(*link));
            match before.find(|first| !chain.iter().any(|seen| Arc::ptr_eq(seen, first))) {
                Some(first) => chain.push(first),
                None => return Arc::clone(last),
            }
        }
        Arc::clone(text)
    }

    /// The queues in which this text is first, and all their ranks; not more than fit into a piece.
    fn equal(&self, text: &Arc<Text>) -> (Ranks, Vec<LinkId>) {
        let (mut all, mut links) = (Ranks::new(), Vec::new());
        for link in self.holders.get(text).into_iter().flat_map(BTreeMap::keys) {
            let Some(unit) = self.queues.get(link).and_then(|queue| queue.units.front()) else { continue };
            if !Arc::ptr_eq(&unit.text, text) {
                continue;
            }
            let mut ranks = all.clone();
            ranks.add_all(&unit.ranks);
            if ranks.runs().count() <= MAX_RUNS || links.is_empty() {
                all = ranks;
                links.push(*link);
            }
        }
        (all, links)
    }

    /// Removes this text from the beginning of these queues.
    fn take(&mut self, text: &Arc<Text>, links: &[LinkId], sources: &mut BTreeMap<LinkId, u32>) {
        for link in links {
            let Some(queue) = self.queues.get_mut(link) else { continue };
            let Some(unit) = queue.units.pop_front() else { continue };
            queue.bytes -= UNIT_COST + unit.ranks_cost + text.bytes.len();
            queue.credit -= unit.credit;
            self.held -= UNIT_COST + unit.ranks_cost;
            *sources.entry(*link).or_default() += unit.credit;
            if let Some(holders) = self.holders.get_mut(text) {
                if let Some(count) = holders.get_mut(link) {
                    *count -= 1;
                    if *count == 0 {
                        holders.remove(link);
                    }
                }
                if holders.is_empty() {
                    self.holders.remove(text);
                    self.held -= UNIT_COST + text.bytes.len();
                }
            }
            self.rearm(*link);
        }
    }

    /// When something is to be passed on, unless more arrives or credit lacks.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let unit = self.due.first().map(|(due, _)| *due).filter(|due| *due > now);
        unit.into_iter().chain(self.deferred.front().map(|deferred| deferred.due)).min()
    }
}

/// Reports behind output.
impl OutputMerge {
    /// Keeps a report that output of the same child, or a report behind that, precedes. Returns any
    /// other.
    pub(super) fn defer(&mut self, link: LinkId, report: ChildMessage, now: Instant) -> Option<ChildMessage> {
        let is_end = matches!(report, ChildMessage::Exited(..));
        let queue = self.queues.get(&link).filter(|queue| is_end && !queue.units.is_empty());
        if queue.is_none() && !self.deferred_of.contains_key(&link) {
            return Some(report);
        }
        let behind = queue.map_or(0, |queue| queue.added);
        *self.deferred_of.entry(link).or_default() += 1;
        self.deferred.push_back(Deferred { report, link, behind, due: now + self.hold });
        None
    }

    /// The reports that wait no longer, in the order in which they came.
    pub(super) fn released(&mut self, is_last: bool, now: Instant) -> Vec<ChildMessage> {
        let mut released = Vec::new();
        while let Some(Deferred { link, behind, due, .. }) = self.deferred.front() {
            let passed = self.queues.get(link).is_none_or(|queue| queue.passed() >= *behind);
            if !is_last && !passed && *due > now {
                break;
            }
            if let Some(Deferred { report, link, .. }) = self.deferred.pop_front() {
                released.push(report);
                if let Some(count) = self.deferred_of.get_mut(&link) {
                    *count -= 1;
                    if *count == 0 {
                        self.deferred_of.remove(&link);
                    }
                }
            }
        }
        released
    }

    /// The reports of this child that wait.
    pub(super) fn take_deferred(&mut self, link: LinkId) -> Vec<ChildMessage> {
        if self.deferred_of.remove(&link).is_none() {
            return Vec::new();
        }
        let (of_link, others) =
            std::mem::take(&mut self.deferred).into_iter().partition(|deferred| deferred.link == link);
        self.deferred = others;
        let of_link: VecDeque<Deferred> = of_link;
        of_link.into_iter().map(|deferred| deferred.report).collect()
    }
}

/// The length of the next unit: a line, if lines are compared; otherwise what fits into a frame.
fn unit_length(text: &[u8], is_line: bool) -> usize {
    let most = text.len().min(MAX_FRAME_TEXT);
    let mut ends = (0..most).filter(|at| text[*at] == b'\n');
    let end = if is_line { ends.next() } else { ends.next_back().filter(|_| most < text.len()) };
    end.map_or(most, |end| end + 1)
}

#[cfg(test)]
mod tests;
