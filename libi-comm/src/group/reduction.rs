//! Values of a reduction, combined where they meet on their way up.
//!
//! Arrays are combined in segments, so that the first segment is on its way before the last has
//! arrived. Values of a function of the program are whole and represent adjacent members. A process
//! that cannot combine some of its values, because they are not adjacent, passes several on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::received::ItemAssembly;
use crate::error::CommError;
use crate::message::Kind;
use crate::piece::{Item, Piece};
use crate::reduce::{Combine, Reducer, combine};

/// A value that represents some members.
#[derive(Debug)]
pub(crate) struct ReducedValue {
    /// The index of the segment of an array; with a function of the program, the position of the
    /// first of the members among all.
    pub(crate) at: u32,
    /// How many members it represents.
    pub(crate) weight: u64,
    pub(crate) bytes: Bytes,
}

impl ReducedValue {
    pub(crate) fn of(item: Item, bytes: Bytes) -> Self {
        Self { at: item.from, weight: u64::from(item.to), bytes }
    }

    pub(crate) fn piece(&self) -> Piece {
        Piece::whole(self.at, self.weight as u32, self.bytes.clone())
    }
}

#[derive(Debug, Default)]
struct PendingSum {
    weight: u64,
    /// For arrays there is one value.
    values: BTreeMap<u32, (u64, Vec<u8>)>,
}

/// See the [module](self).
pub(crate) struct Reduction {
    kind: Kind,
    /// How many members the values that meet here represent together.
    members: u64,
    sums: BTreeMap<u32, PendingSum>,
    open: BTreeMap<LinkId, Option<ItemAssembly>>,
    function: Option<Arc<Combine>>,
}

impl std::fmt::Debug for Reduction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tally").field("kind", &self.kind).field("sums", &self.sums).finish_non_exhaustive()
    }
}

impl Reduction {
    pub(crate) fn new(kind: Kind, members: u64) -> Self {
        Self { kind, members, sums: BTreeMap::new(), open: BTreeMap::new(), function: None }
    }

    /// The function of the program is known.
    pub(crate) fn set_function(&mut self, reducer: &Reducer) {
        if let Reducer::Custom(function) = reducer {
            self.function = Some(Arc::clone(function));
        }
    }

    /// Takes a piece of a value. Returns the value if it is complete.
    pub(crate) fn assemble(&mut self, link: LinkId, piece: Piece) -> Result<Option<ReducedValue>, CommError> {
        let whole = ItemAssembly::push(self.open.entry(link).or_default(), piece)?;
        Ok(whole.map(|(item, bytes)| ReducedValue::of(item, bytes)))
    }

    /// Adds a value. Returns the combined values once all members are represented.
    pub(crate) fn add(&mut self, value: ReducedValue) -> Result<Vec<ReducedValue>, CommError> {
        let segment = if let Kind::Reduce(..) = self.kind { value.at } else { 0 };
        let sum = self.sums.entry(segment).or_default();
        sum.weight += value.weight;
        if sum.weight > self.members {
            return Err(CommError::Protocol("more values than members"));
        }
        match (self.kind, sum.values.get_mut(&value.at)) {
            (Kind::Reduce(op, element), Some((weight, into))) => {
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
        let mut values: Vec<ReducedValue> = Vec::with_capacity(1);
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

fn into_value((at, weight, bytes): (u32, u64, Vec<u8>)) -> ReducedValue {
    ReducedValue { at, weight, bytes: bytes.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::{Element, Op};

    fn value(at: u32, weight: u64, bytes: &'static [u8]) -> ReducedValue {
        ReducedValue { at, weight, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn a_segment_goes_up_only_when_all_members_are_in_it() {
        let mut reduction = Reduction::new(Kind::Reduce(Op::Sum, Element::U8), 3);
        assert!(reduction.add(value(0, 1, &[1, 2])).unwrap().is_empty());
        assert!(reduction.add(value(1, 2, &[9])).unwrap().is_empty());
        let whole = reduction.add(value(0, 2, &[3, 4])).unwrap();
        assert_eq!((whole.len(), whole[0].at, whole[0].weight, &whole[0].bytes[..]), (1, 0, 3, &[4, 6][..]));
        assert!(reduction.add(value(1, 2, &[9])).is_err(), "more than there are");
    }

    #[test]
    fn only_adjacent_values_are_combined() {
        let mut reduction = Reduction::new(Kind::ReduceCustom, 4);
        reduction.set_function(&Reducer::by(Vec::extend_from_slice));
        for value in [value(3, 1, b"d"), value(0, 1, b"a"), value(7, 1, b"h")] {
            assert!(reduction.add(value).unwrap().is_empty());
        }
        let values = reduction.add(value(2, 1, b"c")).unwrap();
        let seen: Vec<_> = values.iter().map(|value| (value.at, value.weight, &value.bytes[..])).collect();
        assert_eq!(seen, [(0, 1, &b"a"[..]), (2, 2, b"cd"), (7, 1, b"h")]);
    }
}
