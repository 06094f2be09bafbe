//! The state of one collective call in one process: what it contributes, receives and forwards.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use super::GroupView;
use super::flow_control::FlowControl;
use super::received::{ReceivedItems, RegionAssembly};
use super::reduction::{ReducedValue, Reduction};
use super::ring::RingInput;
use super::traffic::{self, LinkSides, SEGMENT};
use crate::contract::{Address, Call, CallId, Outcome};
use crate::error::CommError;
use crate::memory::{REGION_MIN, SealedRegion, SharedMemory};
use crate::message::{CallSignature, Kind, Length};
use crate::piece::{ALL, Item, Piece};
use crate::reduce::Reducer;
use crate::topology::Hop;

/// What a member contributes to a call.
#[derive(Debug)]
pub(crate) enum Contribution {
    Nothing,
    One(Bytes),
    Parts(Vec<Bytes>),
    Value(Bytes, Reducer),
    Ring(RingInput),
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct CallState {
    /// A member that has made the call, and what it called.
    pub(crate) by: (Rank, CallSignature),
    /// The call of this member, once it has called.
    pub(crate) own_call: Option<CallId>,
    /// The result has been reported.
    pub(crate) reported: bool,
    /// How many branches have not completely called.
    pub(crate) pending_branches: usize,
    /// This member and all members below have called.
    pub(crate) entered: bool,
    /// All members have called.
    pub(crate) done: bool,
    pub(crate) flow: FlowControl,
    pub(crate) received: ReceivedItems,
    reduction: Option<Reduction>,
    reducer: Option<Reducer>,
    /// A broadcast that is being assembled in shared memory.
    region: Option<RegionAssembly>,
    /// The members of this host that will get the shared memory.
    region_receivers: Vec<LinkId>,
    pub(crate) ring_input: RingInput,
    /// The outcome of a ring.
    pub(crate) outcome: Option<Outcome>,
    /// What has arrived over each link and is not pieces.
    pub(crate) received_payload: BTreeMap<LinkId, Vec<u8>>,
    /// What to send over each link with the next sign.
    pub(crate) next_payload: BTreeMap<LinkId, Bytes>,
    /// The links over which to send the next sign.
    pub(crate) to_notify: BTreeSet<LinkId>,
}

impl CallState {
    pub(crate) fn new(by: (Rank, CallSignature), pending_branches: usize, view: &GroupView) -> Self {
        let called = &by.1;
        let many = matches!(called.kind, Kind::Gather | Kind::AllGather | Kind::AllToAll);
        let mut flow = FlowControl::new(many);
        let members = view.members();
        let root = called.root.map(|root| view.routes.to(Address::Rank(root)));
        let mut below = view.here();
        for branch in &view.topology.branches {
            let far = branch.ranks.len() as u64;
            below += far;
            let root_is_far = root == Some(Hop::Link(branch.link));
            let sides = LinkSides { near: members.saturating_sub(far), far, root_is_far, up: false };
            flow.open(branch.link, traffic::outgoing(called, sides), traffic::incoming(called, sides));
        }
        if let Some(parent) = view.collective_parent() {
            let root_is_far = root == Some(Hop::Link(parent));
            let sides = LinkSides { near: below, far: members.saturating_sub(below), root_is_far, up: true };
            flow.open(parent, traffic::outgoing(called, sides), traffic::incoming(called, sides));
        }
        for link in &view.cut {
            flow.cut(*link);
        }
        let reduction = matches!(called.kind, Kind::Reduce(..) | Kind::ReduceCustom);
        let awaited = view.topology.me.map_or(0, |me| traffic::local_items(called, me, members));
        Self {
            by,
            own_call: None,
            reported: false,
            pending_branches,
            entered: false,
            done: false,
            flow,
            received: ReceivedItems::new(awaited),
            reduction: reduction.then(|| Reduction::new(called.kind, below)),
            reducer: None,
            region: None,
            region_receivers: Vec::new(),
            ring_input: RingInput::default(),
            outcome: None,
            received_payload: BTreeMap::new(),
            next_payload: BTreeMap::new(),
            to_notify: BTreeSet::new(),
        }
    }

    /// Takes the contribution of this member.
    pub(crate) fn contribute(
        &mut self,
        contribution: Contribution,
        me: Rank,
        view: &GroupView,
    ) -> Result<(), CommError> {
        let called = self.by.1;
        match contribution {
            Contribution::Nothing => {}
            Contribution::Ring(own) => self.ring_input = own,
            Contribution::One(bytes) => match called.kind {
                Kind::Gather if called.root != Some(me) => {
                    let root = called.root.unwrap_or(Rank(0)).0;
                    self.forward(&Piece::whole(me.0, root, bytes), None, view);
                }
                Kind::Gather => self.received.take(me.0, 1, bytes)?,
                _ => {
                    self.forward(&Piece::whole(me.0, ALL, bytes.clone()), None, view);
                    if self.region.is_none() {
                        self.received.take(me.0, 1, bytes)?;
                    }
                }
            },
            Contribution::Parts(parts) => {
                for (to, bytes) in (0..).zip(parts) {
                    if to == me.0 {
                        self.received.take(me.0, 1, bytes)?;
                    } else if !view.topology.absent.contains(Rank(to)) {
                        self.forward(&Piece::whole(me.0, to, bytes), None, view);
                    }
                }
            }
            Contribution::Value(mut bytes, reducer) => {
                if let Some(reduction) = &mut self.reduction {
                    reduction.set_function(&reducer);
                }
                let own = matches!(reducer, Reducer::Custom(_));
                self.reducer = Some(reducer);
                if own {
                    let at = me.0 - view.topology.absent.below(me);
                    return self.accumulate(ReducedValue { at, weight: 1, bytes }, view);
                }
                for at in 0..traffic::segments(&called) as u32 {
                    let segment = bytes.split_to(bytes.len().min(SEGMENT as usize));
                    self.accumulate(ReducedValue { at, weight: 1, bytes: segment }, view)?;
                }
            }
        }
        Ok(())
    }

    /// A piece has arrived over a link.
    pub(crate) fn receive(&mut self, link: LinkId, piece: Piece, view: &GroupView) -> Result<(), CommError> {
        self.flow.received(link, &piece);
        let weight = self.weight(&piece);
        if piece.is_last() {
            self.flow.item_ended(link, weight);
        }
        match self.by.1.kind {
            Kind::Reduce(..) | Kind::ReduceCustom if link == LinkId::PARENT => {
                self.forward(&piece, Some(link), view);
                if self.is_for_me(&piece, view)
                    && let Some(reduction) = &mut self.reduction
                    && let Some(value) = reduction.assemble(link, piece)?
                {
                    self.received.take(value.at, value.weight, value.bytes)?;
                }
            }
            Kind::Reduce(..) | Kind::ReduceCustom => {
                self.flow.keep(link, &piece);
                if let Some(reduction) = &mut self.reduction
                    && let Some(value) = reduction.assemble(link, piece)?
                {
                    self.accumulate(value, view)?;
                }
            }
            _ => {
                self.forward(&piece, Some(link), view);
                // Data for a shared region are assembled only there.
                if self.is_for_me(&piece, view) && self.region.is_none() {
                    self.received.push(piece)?;
                }
            }
        }
        Ok(())
    }

    /// Allocates shared memory if this is a large broadcast, and members of this host will get it
    /// from this process.
    pub(crate) fn begin_region(
        &mut self,
        item: Item,
        memory: &mut Option<Box<dyn SharedMemory>>,
        view: &GroupView,
    ) {
        let begun = self.region.is_some() || self.received.is_complete();
        if self.by.1.kind != Kind::Broadcast || item.total < REGION_MIN || begun {
            return;
        }
        let locals = view.topology.branches.iter().filter(|branch| branch.local);
        let to: Vec<_> =
            locals.map(|branch| branch.link).filter(|link| self.flow.out.contains_key(link)).collect();
        let Ok(length) = usize::try_from(item.total) else { return };
        if to.is_empty() {
            return;
        }
        if let Some(region) = memory.as_mut().and_then(|memory| memory.region(length)) {
            to.iter().for_each(|link| self.flow.remove_outgoing(*link));
            self.region = Some(RegionAssembly::new(region, item));
            self.region_receivers = to;
        }
    }

    /// Adds a piece to the shared region. Returns the region and its receivers once it is complete.
    pub(crate) fn fill_region(
        &mut self,
        piece: &Piece,
    ) -> Result<Option<(SealedRegion, Vec<LinkId>)>, CommError> {
        let Some(region) = &mut self.region else { return Ok(None) };
        if !region.push(piece)? {
            return Ok(None);
        }
        let Some(region) = self.region.take() else { return Ok(None) };
        let sealed = region.seal()?;
        self.received.take(piece.item.from, 1, sealed.bytes.clone())?;
        Ok(Some((sealed, std::mem::take(&mut self.region_receivers))))
    }

    /// Shared memory with all data of the call has arrived.
    pub(crate) fn take_region(&mut self, link: LinkId, from: Rank, bytes: Bytes) -> Result<(), CommError> {
        self.flow.item_ended(link, 1);
        self.received.take(from.0, 1, bytes)
    }

    /// What the end of a piece counts for.
    fn weight(&self, piece: &Piece) -> u64 {
        match self.by.1.kind {
            Kind::Reduce(..) | Kind::ReduceCustom => u64::from(piece.item.to),
            _ => 1,
        }
    }

    fn is_for_me(&self, piece: &Piece, view: &GroupView) -> bool {
        let called = &self.by.1;
        view.topology.me.is_some_and(|me| match called.kind {
            Kind::Gather | Kind::Reduce(..) | Kind::ReduceCustom => called.root.is_none_or(|root| root == me),
            Kind::Scatter | Kind::AllToAll => piece.item.to == me.0,
            _ => true,
        })
    }

    /// Queues a piece for the links that lead to its receivers. Without any, it counts as consumed.
    fn forward(&mut self, piece: &Piece, from: Option<LinkId>, view: &GroupView) {
        let called = &self.by.1;
        let towards = match called.kind {
            Kind::Gather => called.root,
            Kind::Scatter | Kind::AllToAll => Some(Rank(piece.item.to)),
            Kind::Reduce(..) | Kind::ReduceCustom => called.root,
            _ => None,
        };
        let weight = self.weight(piece);
        let links: Vec<_> = match towards.map(|rank| view.routes.to(Address::Rank(rank))) {
            Some(Hop::Link(link)) if Some(link) != from => vec![link],
            Some(_) => Vec::new(),
            None => self.flow.out.keys().copied().filter(|link| Some(*link) != from).collect(),
        };
        self.flow.put(piece, weight, from, &links);
    }

    /// Adds a value to the reduction. A complete result is sent to the parent; at the top, it is
    /// the outcome.
    fn accumulate(&mut self, value: ReducedValue, view: &GroupView) -> Result<(), CommError> {
        let Some(reduction) = &mut self.reduction else { return Ok(()) };
        for value in reduction.add(value)? {
            let piece = value.piece();
            if let Some(parent) = view.collective_parent() {
                self.flow.put(&piece, value.weight, None, &[parent]);
                continue;
            }
            self.forward(&piece, None, view);
            if self.is_for_me(&piece, view) {
                self.received.take(value.at, value.weight, value.bytes)?;
            }
        }
        Ok(())
    }

    /// The outcome for this member, once all data have arrived and its own have been sent.
    pub(crate) fn result(&mut self, view: &GroupView) -> Option<Outcome> {
        if self.reported
            || self.own_call.is_none()
            || !self.done
            || !self.received.is_complete()
            || self.flow.holds_own()
        {
            return None;
        }
        self.reported = true;
        let outcome = self.outcome.take();
        Some(
            outcome.unwrap_or_else(|| {
                self.received.outcome(&self.by.1, view.topology.size, self.reducer.as_ref())
            }),
        )
    }

    /// Whether this process has nothing left to do for the call.
    pub(crate) fn is_over(&self, view: &GroupView) -> bool {
        self.done
            && self.region_receivers.is_empty()
            && self.to_notify.is_empty()
            && self.flow.is_over()
            && (self.reported || view.topology.me.is_none())
    }
}

/// The signature of a call, for comparison, and the contribution of the caller.
pub(crate) fn prepare(
    call: Call,
    me: Rank,
    view: &GroupView,
) -> Result<(CallSignature, Contribution), CommError> {
    let size = view.topology.size;
    let root_exists = |root: Rank| view.route(Address::Rank(root)).map(|_| Some(root));
    let called = |kind, root, length| CallSignature { kind, root, length };
    let one = |equal: bool, bytes: &Bytes| {
        if equal { Length::Equal(bytes.len() as u64) } else { Length::Varies }
    };
    let complete = |parts: Vec<Bytes>| {
        if parts.len() == size as usize {
            Ok(parts)
        } else {
            Err(CommError::WrongPartCount { given: parts.len(), size })
        }
    };
    let known = |length: Option<u64>| length.map_or(Length::Unknown, Length::Equal);
    let all = |length: u64, parts: &[Bytes]| {
        let other = parts.iter().map(|part| part.len() as u64).find(|other| *other != length);
        other.map_or(Ok(Length::Equal(length)), |other| Err(CommError::UnequalLengths { one: length, other }))
    };
    Ok(match call {
        Call::Barrier => (called(Kind::Barrier, None, Length::Unknown), Contribution::Nothing),
        Call::Fence => (called(Kind::Fence, None, Length::Unknown), Contribution::Nothing),
        Call::Broadcast { root, data, length } => {
            let root = root_exists(root)?;
            let (given, contribution) = match data {
                Some(data) if root == Some(me) => {
                    let given = data.len() as u64;
                    let one = length.unwrap_or(given);
                    if one != given {
                        return Err(CommError::UnequalLengths { one, other: given });
                    }
                    (Length::Equal(given), Contribution::One(data))
                }
                None if root == Some(me) => return Err(CommError::MissingRootData),
                _ => (known(length), Contribution::Nothing),
            };
            (called(Kind::Broadcast, root, given), contribution)
        }
        Call::Gather { root, data, equal } => {
            (called(Kind::Gather, root_exists(root)?, one(equal, &data)), Contribution::One(data))
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
                    (called(Kind::Scatter, root, given), Contribution::Parts(parts))
                }
                None if root == Some(me) => return Err(CommError::MissingRootData),
                _ => (called(Kind::Scatter, root, known(length)), Contribution::Nothing),
            }
        }
        Call::AllGather { data, equal } => {
            (called(Kind::AllGather, None, one(equal, &data)), Contribution::One(data))
        }
        Call::AllToAll { parts, equal } => {
            let parts = complete(parts)?;
            let length = match parts.first() {
                Some(first) if equal => all(first.len() as u64, &parts)?,
                _ => Length::Varies,
            };
            (called(Kind::AllToAll, None, length), Contribution::Parts(parts))
        }
        Call::Reduce { to, data, reducer } => {
            let to = to.map_or(Ok(None), root_exists)?;
            let (kind, length) = match &reducer {
                Reducer::Elements(op, element) => {
                    let length = data.len();
                    if !reducer.exists() {
                        return Err(CommError::NotReducible { op: *op, element: *element });
                    }
                    if length % element.size() != 0 {
                        return Err(CommError::NotAnArray { length, element: element.size() });
                    }
                    (Kind::Reduce(*op, *element), Length::Equal(length as u64))
                }
                Reducer::Custom(_) => (Kind::ReduceCustom, Length::Unknown),
            };
            (called(kind, to, length), Contribution::Value(data, reducer))
        }
        Call::Ring { count, left, right } => {
            (called(Kind::Ring, None, Length::Unknown), Contribution::Ring(RingInput { count, left, right }))
        }
        Call::Send { .. } | Call::Receive { .. } | Call::Put { .. } | Call::Get { .. } => {
            return Err(CommError::NotAMember);
        }
    })
}
