//! Values of a reduction, combined where they meet on their way up.
//!
//! Arrays are combined in segments, so that the first segment is on its way before the last has
//! arrived. Values of a function of the program are whole and represent adjacent members. A process
//! that cannot combine some of its values, because they are not adjacent, passes several on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use crate::error::CommError;
use crate::group::GroupView;
use crate::group::combining::{CallIo, CombinedValue, Combining, SEGMENT, joined, segments};
use crate::group::flow_control::Onward;
use crate::group::received::ItemAssembly;
use crate::group::traffic::{Amounts, LinkSides};
use crate::message::CallSignature;
use crate::piece::Piece;
use crate::reduce::{Combine, Element, Op, Reducer, combine};

#[derive(Debug, Default)]
struct PendingSum {
    weight: u64,
    /// For arrays there is one value.
    values: BTreeMap<u32, (u64, Vec<u8>)>,
}

/// See the [module](self).
///
/// The place of a value is the index of its segment; with a function of the program, the position
/// of the first of its members among all.
pub(super) struct Reduction {
    /// The operation on numbers; `None` with a function of the program.
    elements: Option<(Op, Element)>,
    /// The member that gets the result; `None` for all members.
    root: Option<Rank>,
    /// Whether this process gets the result.
    is_receiver: bool,
    /// Into how many values each member's is divided.
    segments: u64,
    /// The number of members here and below, and in all.
    members: u64,
    all: u64,
    sums: BTreeMap<u32, PendingSum>,
    open: BTreeMap<LinkId, Option<ItemAssembly>>,
    function: Option<Arc<Combine>>,
}

impl fmt::Debug for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Reduction");
        all.field("elements", &self.elements).field("sums", &self.sums).finish_non_exhaustive()
    }
}

impl Combining for Reduction {
    fn amounts(&self, _: LinkId, sides: LinkSides) -> Amounts {
        let amount = |LinkSides { near, far, root_is_far, up }| {
            let members = if up { near } else { near + far };
            // The result goes down to those that get it.
            let goes = up || self.root.is_none() || root_is_far;
            if goes { members * self.segments } else { 0 }
        };
        Amounts { out: amount(sides), into: amount(sides.reversed()) }
    }

    fn awaited(&self) -> u64 {
        if self.is_receiver { self.all * self.segments } else { 0 }
    }

    fn contribute(
        &mut self,
        me: Rank,
        mut value: Bytes,
        reducer: &Reducer,
        io: &mut CallIo<'_>,
    ) -> Result<(), CommError> {
        if let Reducer::Custom(function) = reducer {
            self.function = Some(Arc::clone(function));
            let at = me.0 - io.view.missing.below(me);
            return self.accumulate(CombinedValue { at, weight: 1, bytes: value }, io);
        }
        for at in 0..self.segments as u32 {
            let segment = value.split_to(value.len().min(SEGMENT as usize));
            self.accumulate(CombinedValue { at, weight: 1, bytes: segment }, io)?;
        }
        Ok(())
    }

    fn receive(&mut self, link: LinkId, piece: Piece, io: &mut CallIo<'_>) -> Result<(), CommError> {
        if link != LinkId::PARENT {
            io.flow.keep(link, &piece);
            return match self.assemble(link, piece)? {
                Some(value) => self.accumulate(value, io),
                None => Ok(()),
            };
        }
        io.forward(&piece, u64::from(piece.item.to), self.root, Some(link));
        if self.is_receiver
            && let Some(value) = self.assemble(link, piece)?
        {
            io.received.take(value.at, value.weight, value.bytes)?;
        }
        Ok(())
    }

    fn result(&self, values: Vec<(u32, Bytes)>) -> Bytes {
        let values = values.into_iter().map(|(_, value)| value);
        match &self.function {
            Some(function) => reduced(values, &**function),
            None => joined(values),
        }
    }
}

impl Reduction {
    /// A reduction whose values meet in this process.
    pub(super) fn begin(called: &CallSignature, view: &GroupView) -> Box<dyn Combining> {
        let below = view.topology.branches.iter().map(|branch| branch.ranks.len() as u64);
        let members = view.here() + below.sum::<u64>();
        let is_receiver = view.topology.me.is_some_and(|me| called.root.is_none_or(|root| root == me));
        Box::new(Self { is_receiver, all: view.members(), ..Self::new(called, members) })
    }

    fn new(called: &CallSignature, members: u64) -> Self {
        Self {
            elements: called.operation().elements(),
            root: called.root,
            is_receiver: false,
            segments: segments(called),
            members,
            all: members,
            sums: BTreeMap::new(),
            open: BTreeMap::new(),
            function: None,
        }
    }

    /// Adds a value. A complete result is sent to the parent; at the top, to the members that get
    /// it.
    fn accumulate(&mut self, value: CombinedValue, io: &mut CallIo<'_>) -> Result<(), CommError> {
        for value in self.add(value)? {
            let piece = value.piece();
            if let Some(parent) = io.view.collective_parent() {
                io.flow.put(&piece, value.weight, None, Onward::Over(parent));
                continue;
            }
            io.forward(&piece, value.weight, self.root, None);
            if self.is_receiver {
                io.received.take(value.at, value.weight, value.bytes)?;
            }
        }
        Ok(())
    }

    /// Takes a piece of a value. Returns the value if it is complete.
    fn assemble(&mut self, link: LinkId, piece: Piece) -> Result<Option<CombinedValue>, CommError> {
        let whole = ItemAssembly::push(self.open.entry(link).or_default(), piece)?;
        Ok(whole.map(|(item, bytes)| CombinedValue::of(item, bytes)))
    }

    /// Adds a value. Returns the combined values once all members are represented.
    fn add(&mut self, value: CombinedValue) -> Result<Vec<CombinedValue>, CommError> {
        let segment = if self.elements.is_some() { value.at } else { 0 };
        let sum = self.sums.entry(segment).or_default();
        sum.weight += value.weight;
        if sum.weight > self.members {
            return Err(CommError::Protocol("more values than members"));
        }
        match (self.elements, sum.values.get_mut(&value.at)) {
            (Some((op, element)), Some((weight, into))) => {
                if into.len() != value.bytes.len() {
                    return Err(CommError::Protocol("values of different lengths"));
                }
                *weight += value.weight;
                combine(op, element, into, &value.bytes);
            }
            (_, Some(_)) => return Err(CommError::Protocol("a duplicate value")),
            (_, None) => {
                sum.values.insert(value.at, (value.weight, value.bytes.into()));
            }
        }
        if sum.weight < self.members {
            return Ok(Vec::new());
        }
        let sum = self.sums.remove(&segment).unwrap_or_default();
        let mut values: Vec<CombinedValue> = Vec::with_capacity(1);
        let mut last: Option<(u32, u64, Vec<u8>)> = None;
        for (at, (weight, bytes)) in sum.values {
            match (&mut last, &self.function) {
                (Some((first, length, left)), Some(function))
                    if u64::from(*first) + *length == u64::from(at) =>
                {
                    function(left, &bytes);
                    *length += weight;
                }
                _ => {
                    let before = last.replace((at, weight, bytes));
                    values.extend(before.map(into_value));
                }
            }
        }
        values.extend(last.map(into_value));
        Ok(values)
    }
}

fn into_value((at, weight, bytes): (u32, u64, Vec<u8>)) -> CombinedValue {
    CombinedValue { at, weight, bytes: bytes.into() }
}

fn reduced(mut values: impl ExactSizeIterator<Item = Bytes>, function: &Combine) -> Bytes {
    let Some(first) = values.next() else { return Bytes::new() };
    if values.len() == 0 {
        return first;
    }
    let mut sum = Vec::from(first);
    values.for_each(|value| function(&mut sum, &value));
    sum.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Kind, Length};

    fn reduction(kind: Kind, root: Option<Rank>, length: Length, members: u64) -> Reduction {
        Reduction::new(&CallSignature { kind, root, length }, members)
    }

    fn value(at: u32, weight: u64, bytes: &'static [u8]) -> CombinedValue {
        CombinedValue { at, weight, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn a_segment_goes_up_only_when_all_members_are_in_it() {
        let mut reduction = reduction(Kind::Reduce(Op::Sum, Element::U8), None, Length::Equal(2), 3);
        assert!(reduction.add(value(0, 1, &[1, 2])).unwrap().is_empty());
        assert!(reduction.add(value(1, 2, &[9])).unwrap().is_empty());
        let whole = reduction.add(value(0, 2, &[3, 4])).unwrap();
        assert_eq!((whole.len(), whole[0].at, whole[0].weight, &whole[0].bytes[..]), (1, 0, 3, &[4, 6][..]));
        assert!(reduction.add(value(1, 2, &[9])).is_err(), "more than there are");
    }

    #[test]
    fn only_adjacent_values_are_combined() {
        let mut reduction = reduction(Kind::ReduceCustom, None, Length::Unknown, 4);
        reduction.function = Some(Arc::new(Vec::extend_from_slice));
        for value in [value(3, 1, b"d"), value(0, 1, b"a"), value(7, 1, b"h")] {
            assert!(reduction.add(value).unwrap().is_empty());
        }
        let values = reduction.add(value(2, 1, b"c")).unwrap();
        let seen: Vec<_> = values.iter().map(|value| (value.at, value.weight, &value.bytes[..])).collect();
        assert_eq!(seen, [(0, 1, &b"a"[..]), (2, 2, b"cd"), (7, 1, b"h")]);
    }

    #[test]
    fn each_side_of_a_link_expects_the_values_that_the_other_sends() {
        for (kind, root) in [(Kind::Reduce(Op::Sum, Element::U8), Some(Rank(0))), (Kind::ReduceCustom, None)]
        {
            let reduction = reduction(kind, root, Length::Equal(SEGMENT + 1), 8);
            for root_is_far in [false, true] {
                for up in [false, true] {
                    let here = LinkSides { near: 3, far: 5, root_is_far, up };
                    let [here, there] =
                        [here, here.reversed()].map(|sides| reduction.amounts(LinkId::PARENT, sides));
                    assert_eq!((here.out, here.into), (there.into, there.out), "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn results_go_down_to_all_members_or_to_the_root_alone() {
        let down = |root, root_is_far| {
            let kind = Kind::Reduce(Op::Sum, Element::U8);
            let sides = LinkSides { near: 3, far: 5, root_is_far, up: false };
            reduction(kind, root, Length::Equal(SEGMENT + 1), 8).amounts(LinkId(1), sides).out
        };
        assert_eq!((down(Some(Rank(0)), true), down(Some(Rank(0)), false)), (16, 0));
        assert_eq!((down(None, false), down(None, true)), (16, 16));
    }
}
