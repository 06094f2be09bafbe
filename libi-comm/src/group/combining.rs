//! The interface between a collective call and the operation that combines its values on their way.
//!
//! Values pass over links as items. Each represents a number of members, and a link has carried
//! everything when its values represent the [amount](Combining::amounts) of the direction.

use std::fmt;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use super::GroupView;
use super::flow_control::{FlowControl, Onward};
use super::received::ReceivedItems;
use super::traffic::{Amounts, LinkSides};
use crate::contract::Address;
use crate::error::CommError;
use crate::message::{CallSignature, Length};
use crate::piece::{Item, Piece};
use crate::reduce::Reducer;
use crate::routes::Hop;

/// How many bytes of an array are combined at a time.
pub(crate) const SEGMENT: u64 = 64 << 10;

/// Into how many values the value of each member is divided.
pub(crate) fn segments(called: &CallSignature) -> u64 {
    match (called.operation().elements(), called.length) {
        (Some(_), Length::Equal(length)) => length.div_ceil(SEGMENT).max(1),
        _ => 1,
    }
}

/// How values are combined in one process in one call.
pub(crate) trait Combining: fmt::Debug + Send {
    /// How many members the values represent that pass over a link.
    fn amounts(&self, link: LinkId, sides: LinkSides) -> Amounts;

    /// How many members the values represent that are the result of this process.
    fn awaited(&self) -> u64;

    /// This member has called.
    fn contribute(
        &mut self,
        me: Rank,
        value: Bytes,
        reducer: &Reducer,
        io: &mut CallIo<'_>,
    ) -> Result<(), CommError>;

    /// A piece of a value has arrived.
    fn receive(&mut self, link: LinkId, piece: Piece, io: &mut CallIo<'_>) -> Result<(), CommError>;

    /// The result of this member, from the values that were [received](CallIo::received).
    fn result(&self, values: Vec<(u32, Bytes)>) -> Bytes;
}

/// What an operation uses of its call.
pub(crate) struct CallIo<'a> {
    pub(crate) flow: &'a mut FlowControl,
    pub(crate) received: &'a mut ReceivedItems,
    pub(crate) view: &'a GroupView,
}

impl CallIo<'_> {
    /// Queues a piece for the links that lead to a rank, or to all members. Without any, it counts
    /// as consumed.
    pub(crate) fn forward(&mut self, piece: &Piece, weight: u64, to: Option<Rank>, from: Option<LinkId>) {
        let onward = match to.map(|rank| self.view.routes.to(Address::Rank(rank))) {
            Some(Hop::Link(link)) if Some(link) != from => Onward::Over(link),
            Some(_) => Onward::None,
            None => Onward::All,
        };
        self.flow.put(piece, weight, from, onward);
    }
}

/// A value that represents some members.
#[derive(Clone, Debug)]
pub(crate) struct CombinedValue {
    /// Its place: which one depends on the operation.
    pub(crate) at: u32,
    /// How many members it represents.
    pub(crate) weight: u64,
    pub(crate) bytes: Bytes,
}

impl CombinedValue {
    pub(crate) fn of(item: Item, bytes: Bytes) -> Self {
        Self { at: item.from, weight: u64::from(item.to), bytes }
    }

    pub(crate) fn piece(&self) -> Piece {
        Piece::whole(self.at, self.weight as u32, self.bytes.clone())
    }
}

/// Joins the segments of an array.
pub(crate) fn joined(mut segments: impl ExactSizeIterator<Item = Bytes>) -> Bytes {
    match segments.len() {
        1 => segments.next().unwrap_or_default(),
        _ => segments.collect::<Vec<_>>().concat().into(),
    }
}
