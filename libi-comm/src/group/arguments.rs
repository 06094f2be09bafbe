//! What a member passes to a collective call: decides whether the arguments are valid, which
//! signature other members must agree with, and what the member contributes.

use bytes::Bytes;
use libi_core::ids::Rank;

use super::GroupView;
use super::operation::{Receivers, Senders, arguments};
use crate::contract::{Address, Call};
use crate::error::CommError;
use crate::message::{CallSignature, Kind, Length};
use crate::reduce::Reducer;

/// The arguments of a call, as the table of operations reads them.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) kind: Kind,
    pub(crate) root: Option<Rank>,
    pub(crate) contribution: Contribution,
    pub(crate) stated: Stated,
}

/// What a member contributes to a call.
#[derive(Clone, Debug)]
pub(crate) enum Contribution {
    Nothing,
    /// Data for the root or for all members.
    One(Bytes),
    /// Data for each rank.
    Parts(Vec<Bytes>),
    /// A value to be combined with those of others.
    Value(Bytes, Reducer),
    /// Its part of the message to the parent.
    Message(Bytes),
}

impl Contribution {
    /// The number of bytes that it holds.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::One(bytes) | Self::Value(bytes, _) | Self::Message(bytes) => bytes.len() as u64,
            Self::Parts(parts) => parts.iter().map(|part| part.len() as u64).sum(),
        }
    }
}

/// What a caller states about the lengths of data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stated {
    /// Nothing, but arrays of numbers have the same length everywhere.
    Nothing,
    /// This is the length, if it is known. Members that know it must agree.
    Known(Option<u64>),
    /// Whether all data of all members have the same length.
    Equal(bool),
}

/// The signature of a call, for comparison, and the contribution of the caller.
pub(crate) fn prepare(
    call: Call,
    me: Rank,
    continues: bool,
    view: &GroupView,
) -> Result<(CallSignature, Contribution), CommError> {
    let Arguments { kind, root, contribution, stated } = arguments(call).ok_or(CommError::NotAMember)?;
    if let Some(root) = root {
        let operation = CallSignature { kind, root: Some(root), length: Length::Unknown }.operation();
        match view.route(Address::Rank(root)) {
            // Its part may have arrived before it was lost. If not, the call is aborted.
            Err(CommError::PeerLost { .. }) if operation.senders == Senders::Root || continues => {}
            route => drop(route?),
        }
    }
    let operation = CallSignature { kind, root, length: Length::Unknown }.operation();
    let contribution = match contribution {
        Contribution::Nothing if operation.senders == Senders::Root && root == Some(me) => {
            return Err(CommError::MissingRootData);
        }
        _ if operation.senders == Senders::Root && root != Some(me) => Contribution::Nothing,
        contribution => contribution,
    };
    let signature = CallSignature { kind, root, length: Length::Unknown };
    is_for_size(&signature, &contribution, view.topology.size)?;
    let length = length(&contribution, stated)?;
    Ok((CallSignature { length, ..signature }, contribution))
}

/// Whether there is a part for each rank, if each gets its own. The session may have grown since the call
/// was made.
pub(crate) fn is_for_size(
    called: &CallSignature,
    contribution: &Contribution,
    size: u32,
) -> Result<(), CommError> {
    match contribution {
        Contribution::Parts(parts)
            if called.operation().receivers == Receivers::Each && parts.len() != size as usize =>
        {
            Err(CommError::WrongPartCount { given: parts.len(), size })
        }
        _ => Ok(()),
    }
}

/// What the caller states about lengths, if its own data agree with it.
fn length(contribution: &Contribution, stated: Stated) -> Result<Length, CommError> {
    let all = |one: u64, parts: &[Bytes]| {
        let other = parts.iter().map(|part| part.len() as u64).find(|other| *other != one);
        other.map_or(Ok(Length::Equal(one)), |other| Err(CommError::UnequalLengths { one, other }))
    };
    let length = |bytes: &Bytes| bytes.len() as u64;
    match (contribution, stated) {
        (Contribution::One(data), Stated::Known(known)) => {
            all(known.unwrap_or(length(data)), std::slice::from_ref(data))
        }
        (Contribution::Parts(parts), Stated::Known(Some(known))) => all(known, parts),
        (Contribution::Parts(_), Stated::Known(None)) => Ok(Length::Unknown),
        (_, Stated::Known(known)) => Ok(known.map_or(Length::Unknown, Length::Equal)),
        (Contribution::One(data), Stated::Equal(true)) => Ok(Length::Equal(length(data))),
        (Contribution::Parts(parts), Stated::Equal(true)) => {
            parts.first().map_or(Ok(Length::Varies), |first| all(length(first), parts))
        }
        (_, Stated::Equal(_)) => Ok(Length::Varies),
        (Contribution::Value(data, reducer), Stated::Nothing) => of_array(data, reducer),
        (_, Stated::Nothing) => Ok(Length::Unknown),
    }
}

/// The length of an array of numbers; values for a function of the program may have any.
fn of_array(data: &Bytes, reducer: &Reducer) -> Result<Length, CommError> {
    let Reducer::Elements(op, element) = reducer else { return Ok(Length::Unknown) };
    let length = data.len();
    if !reducer.exists() {
        return Err(CommError::NotReducible { op: *op, element: *element });
    }
    if !length.is_multiple_of(element.size()) {
        return Err(CommError::NotAnArray { length, element: element.size() });
    }
    Ok(Length::Equal(length as u64))
}
