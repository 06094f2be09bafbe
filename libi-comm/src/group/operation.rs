//! The table of collective operations. The rest of this crate knows none of them by name.
//!
//! A row says what an operation is: which members have data for which others, and what happens to
//! the data on their way. From that follow the amounts that pass over each link, the contribution
//! of each member, and its outcome:
//!
//! | senders | receivers | amount from one side of a link to the other | outcome |
//! |---|---|---|---|
//! | the root | all | 1, away from the root | the data |
//! | the root | each its own | the members of the other side, away from the root | the data |
//! | all | the root | the members of this side, towards the root | the data of all, at the root |
//! | all | all | the members of this side | the data of all |
//! | all | each its own | the product of the members of both sides | the data of all |
//!
//! | transport | on their way, data are |
//! |---|---|
//! | [`Signs`](Transport::Signs) | absent; only the signs of the call pass |
//! | [`Items`](Transport::Items) | passed on as they arrive, with the amounts of the table above |
//! | [`Combined`](Transport::Combined) | combined; the amounts are those of a [`Combining`] |
//! | [`Messages`](Transport::Messages) | one message up and one down on each link, see [`Messages`] |
//!
//! All members must agree on the operation, on the root, on the operation and the type of numbers
//! that are combined, and on what they state about [lengths](Stated).
//!
//! A new operation is a variant of [`Call`] and of [`Kind`], a row of [`CallSignature::operation`],
//! an arm of [`arguments`], and a file in `operation/` if its data are combined in a new way.

mod fence;
mod prefix;
mod reduction;
mod ring;

use std::fmt;

use self::fence::Fence;
use self::prefix::Prefixes;
use self::reduction::Reduction;
use self::ring::{Ring, RingSegment};
use super::GroupView;
use super::arguments::{Arguments, Contribution, Stated};
use super::combining::Combining;
use super::messages::Messages;
use crate::contract::Call;
use crate::message::{CallSignature, Kind, Length};
use crate::reduce::{Element, Op, Reducer};

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Its name, as programs call it.
    pub(crate) name: &'static str,
    /// The members that have data for others.
    pub(crate) senders: Senders,
    /// The members that the data are for.
    pub(crate) receivers: Receivers,
    /// What happens to the data on their way.
    pub(crate) transport: Transport,
}

/// The members that have data for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Senders {
    None,
    Root,
    All,
}

/// The members that data are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receivers {
    None,
    Root,
    /// All get the same.
    All,
    /// Each gets its own.
    Each,
}

/// What happens to data on their way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    /// There are none.
    Signs,
    /// They are passed on as they arrive.
    Items,
    /// They are combined: numbers by an operation, others by a function of the program.
    Combined(Option<(Op, Element)>, NewCombining),
    /// One message goes up and one down on each link.
    Messages(&'static dyn Messages, Abort),
}

/// Begins to combine the values of a call.
pub(crate) type NewCombining = fn(&CallSignature, &GroupView) -> Box<dyn Combining>;

/// What becomes of a decision of the top where the call was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// It has no effect.
    Drops,
    /// It takes effect: members that have passed the call rely on it.
    Applies,
}

impl CallSignature {
    /// The row of the operation.
    #[rustfmt::skip]
    pub(crate) fn operation(&self) -> Operation {
        use Transport::{Combined, Items, Signs};
        let row = |name, senders, receivers, transport| Operation { name, senders, receivers, transport };
        match (self.kind, self.root) {
            (Kind::Barrier, _)           => row("barrier",   Senders::None, Receivers::None, Signs),
            (Kind::Broadcast, _)         => row("broadcast", Senders::Root, Receivers::All,  Items),
            (Kind::Gather, _)            => row("gather",    Senders::All,  Receivers::Root, Items),
            (Kind::Scatter, _)           => row("scatter",   Senders::Root, Receivers::Each, Items),
            (Kind::AllGather, _)         => row("allgather", Senders::All,  Receivers::All,  Items),
            (Kind::AllToAll, _)          => row("alltoall",  Senders::All,  Receivers::Each, Items),
            (Kind::Reduce(op, of), Some(_)) =>
                row("reduce",    Senders::All, Receivers::Root, Combined(Some((op, of)), Reduction::begin)),
            (Kind::Reduce(op, of), None) =>
                row("allreduce", Senders::All, Receivers::All,  Combined(Some((op, of)), Reduction::begin)),
            (Kind::ReduceCustom, Some(_)) =>
                row("reduce",    Senders::All, Receivers::Root, Combined(None, Reduction::begin)),
            (Kind::ReduceCustom, None) =>
                row("allreduce", Senders::All, Receivers::All,  Combined(None, Reduction::begin)),
            (Kind::Scan(op, of), _) =>
                row("scan",      Senders::All, Receivers::Each, Combined(Some((op, of)), Prefixes::inclusive)),
            (Kind::ScanCustom, _) =>
                row("scan",      Senders::All, Receivers::Each, Combined(None, Prefixes::inclusive)),
            (Kind::ExScan(op, of), _) =>
                row("exscan",    Senders::All, Receivers::Each, Combined(Some((op, of)), Prefixes::exclusive)),
            (Kind::ExScanCustom, _) =>
                row("exscan",    Senders::All, Receivers::Each, Combined(None, Prefixes::exclusive)),
            (Kind::Ring, _) =>
                row("ring",  Senders::All, Receivers::Each, Transport::Messages(&Ring, Abort::Drops)),
            (Kind::Fence, _) =>
                row("fence", Senders::All, Receivers::All,  Transport::Messages(&Fence, Abort::Applies)),
        }
    }
}

/// What a program passes to a collective operation. `None` if the call is not collective.
pub(super) fn arguments(call: Call) -> Option<Arguments> {
    use Contribution::{Message, Nothing, One, Parts, Value};
    use Stated::{Equal, Known};
    let of = |kind, root, contribution, stated| Some(Arguments { kind, root, contribution, stated });
    match call {
        Call::Barrier => of(Kind::Barrier, None, Nothing, Stated::Nothing),
        Call::Fence => of(Kind::Fence, None, Nothing, Stated::Nothing),
        Call::Broadcast { root, data, length } => {
            of(Kind::Broadcast, Some(root), data.map_or(Nothing, One), Known(length))
        }
        Call::Gather { root, data, equal } => of(Kind::Gather, Some(root), One(data), Equal(equal)),
        Call::Scatter { root, parts, length } => {
            of(Kind::Scatter, Some(root), parts.map_or(Nothing, Parts), Known(length))
        }
        Call::AllGather { data, equal } => of(Kind::AllGather, None, One(data), Equal(equal)),
        Call::AllToAll { parts, equal } => of(Kind::AllToAll, None, Parts(parts), Equal(equal)),
        Call::Reduce { to, data, reducer } => {
            let kind = match reducer {
                Reducer::Elements(op, element) => Kind::Reduce(op, element),
                Reducer::Custom(_) => Kind::ReduceCustom,
            };
            of(kind, to, Value(data, reducer), Stated::Nothing)
        }
        Call::Scan { inclusive, data, reducer } => {
            let kind = match (&reducer, inclusive) {
                (Reducer::Elements(op, element), true) => Kind::Scan(*op, *element),
                (Reducer::Elements(op, element), false) => Kind::ExScan(*op, *element),
                (Reducer::Custom(_), true) => Kind::ScanCustom,
                (Reducer::Custom(_), false) => Kind::ExScanCustom,
            };
            of(kind, None, Value(data, reducer), Stated::Nothing)
        }
        Call::Ring { count, left, right } => {
            of(Kind::Ring, None, Message(RingSegment::of(count, &left, &right).encode()), Stated::Nothing)
        }
        Call::Send { .. } | Call::Receive { .. } | Call::Put { .. } | Call::Get { .. } | Call::Abort(_) => {
            None
        }
    }
}

impl Operation {
    /// The operation and the type of the numbers that are combined.
    pub(crate) const fn elements(&self) -> Option<(Op, Element)> {
        if let Transport::Combined(elements, _) = self.transport { elements } else { None }
    }

    /// How the result of a call that gives all members the same is sent to them by one that has it.
    pub(crate) const fn replay(&self) -> Self {
        let (senders, receivers) = (Senders::Root, Receivers::All);
        Self { name: self.name, senders, receivers, transport: Transport::Items }
    }

    /// Whether members get different data that pass over links as they are.
    pub(crate) const fn gives_each_its_own(&self) -> bool {
        matches!(self.receivers, Receivers::Each) && !matches!(self.transport, Transport::Messages(..))
    }

    /// Whether a call cannot complete before all members have made it, and nothing but signs tells
    /// that they have.
    pub(crate) const fn synchronizes_by_signs(&self) -> bool {
        matches!(self.transport, Transport::Signs | Transport::Messages(..))
    }

    /// The messages of an operation that has them.
    pub(crate) const fn messages(&self) -> Option<&'static dyn Messages> {
        if let Transport::Messages(messages, _) = self.transport { Some(messages) } else { None }
    }

    /// The messages of an operation whose decisions take effect where it was aborted.
    pub(crate) fn late_messages(&self) -> Option<&'static dyn Messages> {
        match self.transport {
            Transport::Messages(messages, Abort::Applies) => Some(messages),
            _ => None,
        }
    }
}

impl fmt::Display for CallSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.operation();
        f.write_str(operation.name)?;
        if let Some((op, element)) = operation.elements() {
            write!(f, " ({op:?} of {element:?})")?;
        }
        if let Some(root) = self.root {
            let word = if operation.senders == Senders::Root { "from" } else { "to" };
            write!(f, " {word} {root}")?;
        }
        match self.length {
            Length::Equal(1) => f.write_str(" of 1 byte"),
            Length::Equal(length) => write!(f, " of {length} bytes"),
            Length::Varies => f.write_str(" of various lengths"),
            Length::Unknown => Ok(()),
        }
    }
}
