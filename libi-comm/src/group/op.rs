//! One collective call, as one process takes part in it: what it gives, what it gets, what it passes on.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use super::Place;
use super::expect::{self, SEGMENT, Sides};
use super::inbox::{Inbox, Shared};
use super::lanes::Lanes;
use super::ring::Own;
use super::tally::{Tally, Value};
use crate::contract::{Address, Call, CallId, Outcome};
use crate::error::CommError;
use crate::fold::Fold;
use crate::memory::{LENDING, Lent, Memory};
use crate::message::{CallSignature, Kind, Length};
use crate::piece::{ALL, Item, Piece};
use crate::topology::Hop;

/// What this process's member brings to a call.
#[derive(Debug)]
pub(crate) enum Gift {
    Nothing,
    One(Bytes),
    Parts(Vec<Bytes>),
    Value(Bytes, Fold),
    Ring(Own),
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Op {
    /// Somebody who has called it, and what.
    pub(crate) by: (Rank, CallSignature),
    /// This member's call, if it has called.
    pub(crate) mine: Option<CallId>,
    /// What came of it has been said.
    pub(crate) told: bool,
    /// How many branches have not said that they have called.
    pub(crate) waits_for: usize,
    /// Everybody below and this member itself have called.
    pub(crate) entered: bool,
    /// Everybody has.
    pub(crate) done: bool,
    pub(crate) lanes: Lanes,
    pub(crate) inbox: Inbox,
    tally: Option<Tally>,
    fold: Option<Fold>,
    /// A broadcast that is put together to be lent.
    shared: Option<Shared>,
    /// Members of this host to whom it will be lent.
    borrowers: Vec<LinkId>,
    pub(crate) own_ring: Own,
    /// The place that has come of a ring.
    pub(crate) outcome: Option<Outcome>,
    /// What has come over each link that is not pieces.
    pub(crate) cargo: BTreeMap<LinkId, Vec<u8>>,
    /// What is to go over a link with the next sign.
    pub(crate) load: BTreeMap<LinkId, Bytes>,
    /// Whom this is to be told that everybody has called.
    pub(crate) to_tell: BTreeSet<LinkId>,
}

impl Op {
    pub(crate) fn new(by: (Rank, CallSignature), waits_for: usize, place: &Place) -> Self {
        let called = &by.1;
        let many = matches!(called.kind, Kind::Gather | Kind::AllGather | Kind::AllToAll);
        let mut lanes = Lanes::new(many);
        let members = place.members();
        let root = called.root.map(|root| place.routes.to(Address::Rank(root)));
        let mut below = place.here();
        for branch in &place.topology.branches {
            let far = branch.ranks.len() as u64;
            below += far;
            let root_is_far = root == Some(Hop::Over(branch.link));
            let sides = Sides { near: members.saturating_sub(far), far, root_is_far, up: false };
            lanes.open(branch.link, expect::outgoing(called, sides), expect::incoming(called, sides));
        }
        if let Some(parent) = place.above() {
            let root_is_far = root == Some(Hop::Over(parent));
            let sides = Sides { near: below, far: members.saturating_sub(below), root_is_far, up: true };
            lanes.open(parent, expect::outgoing(called, sides), expect::incoming(called, sides));
        }
        for link in &place.cut {
            lanes.cut(*link);
        }
        let tally = matches!(called.kind, Kind::Fold(..) | Kind::OwnFold);
        let awaited = place.topology.me.map_or(0, |me| expect::own(called, me, members));
        Self {
            by,
            mine: None,
            told: false,
            waits_for,
            entered: false,
            done: false,
            lanes,
            inbox: Inbox::new(awaited),
            tally: tally.then(|| Tally::new(called.kind, below)),
            fold: None,
            shared: None,
            borrowers: Vec::new(),
            own_ring: Own::default(),
            outcome: None,
            cargo: BTreeMap::new(),
            load: BTreeMap::new(),
            to_tell: BTreeSet::new(),
        }
    }

    /// Takes what this member brings.
    pub(crate) fn contribute(&mut self, gift: Gift, me: Rank, place: &Place) -> Result<(), CommError> {
        let called = self.by.1;
        match gift {
            Gift::Nothing => {}
            Gift::Ring(own) => self.own_ring = own,
            Gift::One(bytes) => match called.kind {
                Kind::Gather if called.root != Some(me) => {
                    let root = called.root.unwrap_or(Rank(0)).0;
                    self.pass(&Piece::whole(me.0, root, bytes), None, place);
                }
                Kind::Gather => self.inbox.take(me.0, 1, bytes)?,
                _ => {
                    self.pass(&Piece::whole(me.0, ALL, bytes.clone()), None, place);
                    if self.shared.is_none() {
                        self.inbox.take(me.0, 1, bytes)?;
                    }
                }
            },
            Gift::Parts(parts) => {
                for (to, bytes) in (0..).zip(parts) {
                    if to == me.0 {
                        self.inbox.take(me.0, 1, bytes)?;
                    } else if !place.topology.absent.contains(Rank(to)) {
                        self.pass(&Piece::whole(me.0, to, bytes), None, place);
                    }
                }
            }
            Gift::Value(mut bytes, fold) => {
                if let Some(tally) = &mut self.tally {
                    tally.learn(&fold);
                }
                let own = matches!(fold, Fold::Own(_));
                self.fold = Some(fold);
                if own {
                    let at = me.0 - place.topology.absent.below(me);
                    return self.count(Value { at, weight: 1, bytes }, place);
                }
                for at in 0..expect::segments(&called) as u32 {
                    let segment = bytes.split_to(bytes.len().min(SEGMENT as usize));
                    self.count(Value { at, weight: 1, bytes: segment }, place)?;
                }
            }
        }
        Ok(())
    }

    /// A piece has come over a link.
    pub(crate) fn receive(&mut self, link: LinkId, piece: Piece, place: &Place) -> Result<(), CommError> {
        self.lanes.received(link, &piece);
        let weight = self.weight(&piece);
        if piece.is_last() {
            self.lanes.arrived(link, weight);
        }
        match self.by.1.kind {
            Kind::Fold(..) | Kind::OwnFold if link == LinkId::PARENT => {
                self.pass(&piece, Some(link), place);
                if self.is_for_me(&piece, place)
                    && let Some(tally) = &mut self.tally
                    && let Some(value) = tally.assemble(link, piece)?
                {
                    self.inbox.take(value.at, value.weight, value.bytes)?;
                }
            }
            Kind::Fold(..) | Kind::OwnFold => {
                self.lanes.keep(link, &piece);
                if let Some(tally) = &mut self.tally
                    && let Some(value) = tally.assemble(link, piece)?
                {
                    self.count(value, place)?;
                }
            }
            _ => {
                self.pass(&piece, Some(link), place);
                // What is put together to be lent is put together once.
                if self.is_for_me(&piece, place) && self.shared.is_none() {
                    self.inbox.push(piece)?;
                }
            }
        }
        Ok(())
    }

    /// If this is a long broadcast, and members of this host will have it from here: gets memory that can be lent to them.
    pub(crate) fn share(&mut self, item: Item, memory: &mut Option<Box<dyn Memory>>, place: &Place) {
        let begun = self.shared.is_some() || self.inbox.is_complete();
        if self.by.1.kind != Kind::Broadcast || item.total < LENDING || begun {
            return;
        }
        let locals = place.topology.branches.iter().filter(|branch| branch.local);
        let to: Vec<_> =
            locals.map(|branch| branch.link).filter(|link| self.lanes.out.contains_key(link)).collect();
        let Ok(length) = usize::try_from(item.total) else { return };
        if to.is_empty() {
            return;
        }
        if let Some(region) = memory.as_mut().and_then(|memory| memory.region(length)) {
            to.iter().for_each(|link| self.lanes.spare(*link));
            self.shared = Some(Shared::new(region, item));
            self.borrowers = to;
        }
    }

    /// Takes a piece of a broadcast that will be lent; what can be lent now, and to whom.
    pub(crate) fn fill(&mut self, piece: &Piece) -> Result<Option<(Lent, Vec<LinkId>)>, CommError> {
        let Some(shared) = &mut self.shared else { return Ok(None) };
        if !shared.push(piece)? {
            return Ok(None);
        }
        let Some(shared) = self.shared.take() else { return Ok(None) };
        let lent = shared.seal()?;
        self.inbox.take(piece.item.from, 1, lent.bytes.clone())?;
        Ok(Some((lent, std::mem::take(&mut self.borrowers))))
    }

    /// What has been lent to this process is what the call is about.
    pub(crate) fn borrow(&mut self, link: LinkId, from: Rank, bytes: Bytes) -> Result<(), CommError> {
        self.lanes.arrived(link, 1);
        self.inbox.take(from.0, 1, bytes)
    }

    /// What the end of a piece counts for.
    fn weight(&self, piece: &Piece) -> u64 {
        match self.by.1.kind {
            Kind::Fold(..) | Kind::OwnFold => u64::from(piece.item.to),
            _ => 1,
        }
    }

    fn is_for_me(&self, piece: &Piece, place: &Place) -> bool {
        let called = &self.by.1;
        place.topology.me.is_some_and(|me| match called.kind {
            Kind::Gather | Kind::Fold(..) | Kind::OwnFold => called.root.is_none_or(|root| root == me),
            Kind::Scatter | Kind::AllToAll => piece.item.to == me.0,
            _ => true,
        })
    }

    /// Puts a piece onto its way; if it is only for this process, it has arrived.
    fn pass(&mut self, piece: &Piece, from: Option<LinkId>, place: &Place) {
        let called = &self.by.1;
        let towards = match called.kind {
            Kind::Gather => called.root,
            Kind::Scatter | Kind::AllToAll => Some(Rank(piece.item.to)),
            Kind::Fold(..) | Kind::OwnFold => called.root,
            _ => None,
        };
        let weight = self.weight(piece);
        let links: Vec<_> = match towards.map(|rank| place.routes.to(Address::Rank(rank))) {
            Some(Hop::Over(link)) if Some(link) != from => vec![link],
            Some(_) => Vec::new(),
            None => self.lanes.out.keys().copied().filter(|link| Some(*link) != from).collect(),
        };
        self.lanes.put(piece, weight, from, &links);
    }

    /// Takes a value into the sum; what is complete goes up, or, at the top, is the result.
    fn count(&mut self, value: Value, place: &Place) -> Result<(), CommError> {
        let Some(tally) = &mut self.tally else { return Ok(()) };
        for value in tally.add(value)? {
            let piece = value.piece();
            if let Some(parent) = place.above() {
                self.lanes.put(&piece, value.weight, None, &[parent]);
                continue;
            }
            self.pass(&piece, None, place);
            if self.is_for_me(&piece, place) {
                self.inbox.take(value.at, value.weight, value.bytes)?;
            }
        }
        Ok(())
    }

    /// What has come of this member's call, once everything has.
    pub(crate) fn result(&mut self, place: &Place) -> Option<Outcome> {
        if self.told
            || self.mine.is_none()
            || !self.done
            || !self.inbox.is_complete()
            || self.lanes.holds_own()
        {
            return None;
        }
        self.told = true;
        let outcome = self.outcome.take();
        Some(
            outcome
                .unwrap_or_else(|| self.inbox.outcome(&self.by.1, place.topology.size, self.fold.as_ref())),
        )
    }

    /// Whether nothing is left for this process to do.
    pub(crate) fn is_over(&self, place: &Place) -> bool {
        self.done
            && self.borrowers.is_empty()
            && self.to_tell.is_empty()
            && self.lanes.is_over()
            && (self.told || place.topology.me.is_none())
    }
}

/// What a call is, for all to compare, and what the caller brings to it.
pub(crate) fn enter(call: Call, me: Rank, place: &Place) -> Result<(CallSignature, Gift), CommError> {
    let size = place.topology.size;
    let root_exists = |root: Rank| place.way(Address::Rank(root)).map(|_| Some(root));
    let called = |kind, root, length| CallSignature { kind, root, length };
    let one = |equal: bool, bytes: &Bytes| {
        if equal { Length::Equal(bytes.len() as u64) } else { Length::Varies }
    };
    let complete = |parts: Vec<Bytes>| {
        if parts.len() == size as usize {
            Ok(parts)
        } else {
            Err(CommError::WrongParts { given: parts.len(), size })
        }
    };
    let known = |length: Option<u64>| length.map_or(Length::Unknown, Length::Equal);
    let all = |length: u64, parts: &[Bytes]| {
        let other = parts.iter().map(|part| part.len() as u64).find(|other| *other != length);
        other.map_or(Ok(Length::Equal(length)), |other| Err(CommError::Unequal { one: length, other }))
    };
    Ok(match call {
        Call::Barrier => (called(Kind::Barrier, None, Length::Unknown), Gift::Nothing),
        Call::Fence => (called(Kind::Fence, None, Length::Unknown), Gift::Nothing),
        Call::Broadcast { root, data, length } => {
            let root = root_exists(root)?;
            let (given, gift) = match data {
                Some(data) if root == Some(me) => {
                    let given = data.len() as u64;
                    let one = length.unwrap_or(given);
                    if one != given {
                        return Err(CommError::Unequal { one, other: given });
                    }
                    (Length::Equal(given), Gift::One(data))
                }
                None if root == Some(me) => return Err(CommError::NothingGiven),
                _ => (known(length), Gift::Nothing),
            };
            (called(Kind::Broadcast, root, given), gift)
        }
        Call::Gather { root, data, equal } => {
            (called(Kind::Gather, root_exists(root)?, one(equal, &data)), Gift::One(data))
        }
        Call::Scatter { root, parts, length } => {
            let root = root_exists(root)?;
            match parts {
                Some(parts) if root == Some(me) => {
                    let parts = complete(parts)?;
                    let given = match length {
                        Some(length) => all(length, &parts)?,
                        None => Length::Unknown,
                    };
                    (called(Kind::Scatter, root, given), Gift::Parts(parts))
                }
                None if root == Some(me) => return Err(CommError::NothingGiven),
                _ => (called(Kind::Scatter, root, known(length)), Gift::Nothing),
            }
        }
        Call::AllGather { data, equal } => {
            (called(Kind::AllGather, None, one(equal, &data)), Gift::One(data))
        }
        Call::AllToAll { parts, equal } => {
            let parts = complete(parts)?;
            let length = match parts.first() {
                Some(first) if equal => all(first.len() as u64, &parts)?,
                _ => Length::Varies,
            };
            (called(Kind::AllToAll, None, length), Gift::Parts(parts))
        }
        Call::Reduce { to, data, fold } => {
            let to = to.map_or(Ok(None), root_exists)?;
            let (kind, length) = match &fold {
                Fold::Elements(op, element) => {
                    let length = data.len();
                    if !fold.exists() || length % element.size() != 0 {
                        return Err(CommError::NoArray { length, element: element.size() });
                    }
                    (Kind::Fold(*op, *element), Length::Equal(length as u64))
                }
                Fold::Own(_) => (Kind::OwnFold, Length::Unknown),
            };
            (called(kind, to, length), Gift::Value(data, fold))
        }
        Call::Ring { count, left, right } => {
            (called(Kind::Ring, None, Length::Unknown), Gift::Ring(Own { count, left, right }))
        }
        Call::Send { .. } | Call::Receive { .. } | Call::Put { .. } | Call::Get { .. } => {
            return Err(CommError::NotAMember);
        }
    })
}
