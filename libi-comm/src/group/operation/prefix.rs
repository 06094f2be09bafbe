//! Prefix reductions: each member gets the values of all members before it, combined in the order of
//! ranks; an inclusive reduction adds its own.
//!
//! The place of a value is the position of the first of its members among all. The members below a
//! process occupy *runs* of adjacent positions.
//!
//! | direction | values on a link |
//! |---|---|
//! | up | for each run below: the combined values of its members |
//! | down | for each run below that begins after position 0: the combined values before it |
//!
//! A process divides its runs into its own value and the runs of its branches, and combines them in
//! order: what has been combined before a run of a branch goes down to that branch. The front end
//! and agents do not know the program's function. They send several adjacent values in place of one,
//! and their receiver combines them.
//!
//! Arrays are combined in segments, each as an array of its own. The segments of a link follow one
//! another, so the number of members that its values have represented says which segment is next.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;

use crate::error::CommError;
use crate::group::GroupView;
use crate::group::combining::{CallIo, CombinedValue, Combining, SEGMENT, joined, segments};
use crate::group::flow_control::Onward;
use crate::group::received::ItemAssembly;
use crate::group::traffic::{Amounts, LinkSides};
use crate::message::CallSignature;
use crate::piece::Piece;
use crate::reduce::{Combine, Element, Op, Reducer, combine};

/// See the [module](self).
pub(super) struct Prefixes {
    by: CombineBy,
    inclusive: bool,
    /// The position of this member.
    position: Option<u32>,
    /// Into how many values each member's is divided.
    segments: u64,
    /// The number of members here and below.
    members: u64,
    links: BTreeMap<LinkId, PrefixLink>,
    open: BTreeMap<u64, Segment>,
}

/// A link, and how many members the values of one segment represent in each direction.
#[derive(Debug)]
struct PrefixLink {
    out: u64,
    into: u64,
    /// How many members the values have represented that have arrived.
    arrived: u64,
    item: Option<ItemAssembly>,
}

/// What has arrived of a segment.
#[derive(Debug, Default)]
struct Segment {
    /// The value of this member, and those of branches with their links, by their positions.
    below: BTreeMap<u32, (Option<LinkId>, CombinedValue)>,
    /// How many members these represent.
    weight: u64,
    /// The prefixes from the parent, in their order.
    above: Vec<Run>,
    /// How many members these represent.
    weight_above: u64,
}

/// Adjacent values, as far combined as this process can.
#[derive(Clone, Debug, Default)]
struct Run {
    at: u32,
    values: Vec<(u64, Vec<u8>)>,
}

/// How two adjacent values are combined.
struct CombineBy {
    elements: Option<(Op, Element)>,
    function: Option<Arc<Combine>>,
}

const INVALID: CommError = CommError::Protocol("an invalid value of a prefix reduction");

impl fmt::Debug for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefixes")
            .field("links", &self.links)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl Combining for Prefixes {
    fn amounts(&self, link: LinkId, _: LinkSides) -> Amounts {
        let amount = |of: fn(&PrefixLink) -> u64| self.links.get(&link).map_or(0, of) * self.segments;
        Amounts { out: amount(|link| link.out), into: amount(|link| link.into) }
    }

    fn awaited(&self) -> u64 {
        self.position.map_or(0, |position| self.own_weight(position) * self.segments)
    }

    fn contribute(
        &mut self,
        me: Rank,
        mut value: Bytes,
        reducer: &Reducer,
        io: &mut CallIo<'_>,
    ) -> Result<(), CommError> {
        if let Reducer::Custom(function) = reducer {
            self.by.function = Some(Arc::clone(function));
        }
        let at = position(me, &io.view.missing);
        for nth in 0..self.segments {
            let last = nth + 1 == self.segments;
            let length = if last { value.len() } else { value.len().min(SEGMENT as usize) };
            let value = CombinedValue { at, weight: 1, bytes: value.split_to(length) };
            self.take_below(nth, None, value, io)?;
        }
        Ok(())
    }

    fn receive(&mut self, link: LinkId, piece: Piece, io: &mut CallIo<'_>) -> Result<(), CommError> {
        io.flow.keep(link, &piece);
        let from = self.links.get_mut(&link).ok_or(INVALID)?;
        let Some((item, bytes)) = ItemAssembly::push(&mut from.item, piece)? else { return Ok(()) };
        let value = CombinedValue::of(item, bytes);
        let nth = from.arrived.checked_div(from.into).ok_or(INVALID)?;
        from.arrived += value.weight;
        let is_whole = value.weight > 0 && from.arrived <= (nth + 1) * from.into;
        if nth >= self.segments || !is_whole {
            return Err(INVALID);
        }
        match link {
            LinkId::PARENT => self.take_above(nth, &value, io),
            branch => self.take_below(nth, Some(branch), value, io),
        }
    }

    fn result(&self, values: Vec<(u32, Bytes)>) -> Bytes {
        let values = values.into_iter().map(|(_, value)| value);
        joined(values)
    }
}

impl Prefixes {
    pub(super) fn inclusive(called: &CallSignature, view: &GroupView) -> Box<dyn Combining> {
        Box::new(Self::new(called, view, true))
    }

    pub(super) fn exclusive(called: &CallSignature, view: &GroupView) -> Box<dyn Combining> {
        Box::new(Self::new(called, view, false))
    }

    fn new(called: &CallSignature, view: &GroupView, inclusive: bool) -> Self {
        let absent = &view.missing;
        let mut all: Ranks = view.topology.me.into_iter().collect();
        let mut links = BTreeMap::new();
        let mut add = |link, out, into| links.insert(link, PrefixLink { out, into, arrived: 0, item: None });
        for branch in view.branches_with_members() {
            all.add_all(&branch.ranks);
            add(branch.link, before_runs(&branch.ranks, absent), branch.ranks.len() as u64);
        }
        let members = all.len() as u64;
        if let Some(parent) = view.collective_parent() {
            add(parent, members, before_runs(&all, absent));
        }
        let elements = called.operation().elements();
        Self {
            by: CombineBy { elements, function: None },
            inclusive,
            position: view.topology.me.map(|me| position(me, absent)),
            segments: segments(called),
            members,
            links,
            open: BTreeMap::new(),
        }
    }

    /// How many members the result of the member at this position represents.
    fn own_weight(&self, position: u32) -> u64 {
        u64::from(position) + u64::from(self.inclusive)
    }

    /// A value of this member or of a branch.
    fn take_below(
        &mut self,
        nth: u64,
        from: Option<LinkId>,
        value: CombinedValue,
        io: &mut CallIo<'_>,
    ) -> Result<(), CommError> {
        let segment = self.open.entry(nth).or_default();
        segment.weight += value.weight;
        if segment.weight > self.members || segment.below.insert(value.at, (from, value)).is_some() {
            return Err(INVALID);
        }
        if segment.weight < self.members {
            return Ok(());
        }
        if let Some(parent) = io.view.collective_parent() {
            let mut runs: Vec<Run> = Vec::new();
            for (_, value) in segment.below.values() {
                match runs.last_mut() {
                    Some(run) if run.end() == u64::from(value.at) => self.by.append(run, value)?,
                    _ => runs.push(Run::of(value)),
                }
            }
            runs.into_iter().for_each(|run| run.send(Onward::Over(parent), io));
        }
        self.divide(nth, io)
    }

    /// A value from above.
    fn take_above(&mut self, nth: u64, value: &CombinedValue, io: &mut CallIo<'_>) -> Result<(), CommError> {
        let segment = self.open.entry(nth).or_default();
        segment.weight_above += value.weight;
        match segment.above.last_mut() {
            _ if value.at == 0 => segment.above.push(Run::of(value)),
            Some(run) if run.end() == u64::from(value.at) => self.by.append(run, value)?,
            _ => return Err(INVALID),
        }
        self.divide(nth, io)
    }

    /// Sends each run of a branch what is before it, once all values of a segment are here.
    fn divide(&mut self, nth: u64, io: &mut CallIo<'_>) -> Result<(), CommError> {
        let awaited = self.links.get(&LinkId::PARENT).map_or(0, |parent| parent.into);
        let is_here = |segment: &Segment| segment.weight == self.members && segment.weight_above == awaited;
        if !self.open.get(&nth).is_some_and(is_here) {
            return Ok(());
        }
        let Some(segment) = self.open.remove(&nth) else { return Ok(()) };
        let mut above = segment.above.into_iter();
        let mut before = Run::default();
        let mut last_link = None;
        for (at, (link, value)) in segment.below {
            let is_adjacent = before.end() == u64::from(at);
            if !is_adjacent {
                before = above.find(|prefix| prefix.end() == u64::from(at)).ok_or(INVALID)?;
            }
            match link {
                // A further value of a run that no process below could combine.
                Some(_) if is_adjacent && link == last_link => {}
                Some(link) => before.clone().send(Onward::Over(link), io),
                None => {
                    let weight = self.own_weight(at);
                    let mut result = before.clone();
                    if self.inclusive {
                        self.by.append(&mut result, &value)?;
                    }
                    if let Some((_, bytes)) = result.values.pop() {
                        io.received.take(nth as u32, weight, bytes.into())?;
                    }
                }
            }
            self.by.append(&mut before, &value)?;
            last_link = link;
        }
        Ok(())
    }
}

impl Run {
    fn of(value: &CombinedValue) -> Self {
        Self { at: value.at, values: vec![(value.weight, value.bytes.to_vec())] }
    }

    /// The position after its last member.
    fn end(&self) -> u64 {
        u64::from(self.at) + self.values.iter().map(|(weight, _)| weight).sum::<u64>()
    }

    /// Sends its values on.
    fn send(self, to: Onward, io: &mut CallIo<'_>) {
        let mut at = self.at;
        for (weight, bytes) in self.values {
            io.flow.put(&CombinedValue { at, weight, bytes: bytes.into() }.piece(), weight, None, to);
            at = at.saturating_add(weight as u32);
        }
    }
}

impl CombineBy {
    /// Combines a run with the value after it. A process without the function keeps both.
    fn append(&self, run: &mut Run, value: &CombinedValue) -> Result<(), CommError> {
        match (run.values.last_mut(), self.elements, &self.function) {
            (Some((weight, into)), Some((op, element)), _) => {
                if into.len() != value.bytes.len() {
                    return Err(CommError::Protocol("values of different lengths"));
                }
                combine(op, element, into, &value.bytes);
                *weight += value.weight;
            }
            (Some((weight, into)), None, Some(function)) => {
                function(into, &value.bytes);
                *weight += value.weight;
            }
            _ => run.values.push((value.weight, value.bytes.to_vec())),
        }
        Ok(())
    }
}

/// The position of a rank among those that are present.
fn position(rank: Rank, absent: &Ranks) -> u32 {
    rank.0 - absent.below(rank)
}

/// The sum, over all runs of these ranks, of the number of members before the run.
fn before_runs(ranks: &Ranks, absent: &Ranks) -> u64 {
    let mut end = None;
    let mut sum = 0;
    for (first, last) in ranks.runs() {
        let first = position(first, absent);
        if end != Some(first) {
            sum += u64::from(first);
        }
        end = Some(position(last, absent) + 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(list: &[u32]) -> Ranks {
        list.iter().copied().map(Rank).collect()
    }

    #[test]
    fn ranks_next_to_absent_ones_are_adjacent() {
        assert_eq!(before_runs(&ranks(&[0, 1, 2]), &ranks(&[])), 0);
        assert_eq!(before_runs(&ranks(&[2, 3, 7]), &ranks(&[])), 2 + 7);
        assert_eq!(before_runs(&ranks(&[2, 5, 7]), &ranks(&[1, 3, 4])), 1 + 4);
        assert_eq!(before_runs(&ranks(&[2, 5]), &ranks(&[0, 1, 3, 4])), 0);
    }

    #[test]
    fn values_are_combined_in_order_or_kept_in_order() {
        let value = |at, text: &'static str| CombinedValue { at, weight: 1, bytes: text.into() };
        let mut by = CombineBy { elements: None, function: None };
        let mut run = Run::of(&value(3, "a"));
        by.append(&mut run, &value(4, "b")).unwrap();
        assert_eq!((run.end(), run.values.len()), (5, 2));
        by.function = Some(Arc::new(Vec::extend_from_slice));
        by.append(&mut run, &value(5, "c")).unwrap();
        assert_eq!(run.values, [(1, b"a".to_vec()), (2, b"bc".to_vec())]);
    }
}
