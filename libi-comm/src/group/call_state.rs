//! The state of one collective call in one process: what it contributes, receives and forwards.
//!
//! | state | event | next state |
//! |---|---|---|
//! | [`Open`](Stage::Open) | this member and all branches have called | `Entered`, parent told; at the top `Done` |
//! | [`Entered`](Stage::Entered) | the parent says that all have called | `Done`, branches told |
//! | [`Done`](Stage::Done) | this member's result is reported, and nothing is left to send | over: removed |
//!
//! A call that members complete locally begins in `Done`. Data pass in every state. The result of
//! this member is reported in `Done`, once its data have arrived and its own have been sent; the
//! value of a member that is combined with others counts as sent from the beginning if it is
//! small. A call that is aborted is removed in any state.

mod outcome;
mod regions;

use std::collections::BTreeMap;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use libi_core::topology::Branch;

use super::GroupView;
use super::arguments::Contribution;
use super::combining::{CallIo, Combining};
use super::context::CallContext;
use super::eager::EagerLimits;
use super::flow_control::{EAGER, FlowControl};
use super::link_map::LinkMap;
use super::messages::Arrived;
use super::operation::{Operation, Receivers, Senders, Transport};
use super::received::{ReceivedItems, RegionAssembly};
use super::traffic::{self, LinkSides};
use crate::contract::{Completion, Outcome};
use crate::error::CommError;
use crate::memory::SealedRegion;
use crate::message::CallSignature;
use crate::piece::{ALL, Piece};

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Some branches have not completely called, or this member has not.
    Open,
    /// This member and all members below have called.
    Entered,
    /// All members have called, or need not have.
    Done,
}

/// The part of this member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnPart {
    /// This process is not a member.
    None,
    /// The member has not called.
    Awaited,
    /// The member has called and has no result.
    Called,
    /// The result has been reported.
    Reported,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct CallState {
    /// A member that has made the call, and what it called.
    pub(crate) by: (Rank, CallSignature),
    pub(crate) operation: Operation,
    own: OwnPart,
    /// A member that has the result of this call, which it sends to all others.
    replayed_by: Option<Rank>,
    /// Whether the call waits until all members have made it.
    agrees: bool,
    /// Whether a member has not called as long as its data have not arrived.
    waits_for_data: bool,
    /// Whether all members have to say that the messages of the call have arrived, before one has its
    /// result: they could not be repeated where a process between is lost.
    confirms: bool,
    /// The members and branches with which the call was decided, if some of them are lost since.
    pub(crate) decided_in: Option<Box<GroupView>>,
    stage: Stage,
    /// Whether the sign of a branch has arrived, and how many have not. A sign of a later call does
    /// not stand for it: the branch may have completed this call without one, which then does not
    /// match.
    signs: LinkMap<bool>,
    unsigned: usize,
    /// Whether this process holds a large value of its member that waits for those of others.
    holds_value: bool,
    /// Whether a probe of the call has passed.
    pub(crate) probed: bool,
    pub(crate) flow: FlowControl,
    received: ReceivedItems,
    combining: Option<Box<dyn Combining>>,
    /// A broadcast that is being assembled in shared memory.
    region: Option<RegionAssembly>,
    /// The same, once it is complete, until it is sent.
    pub(crate) sealed: Option<SealedRegion>,
    /// The members of this host that will get the shared memory.
    pub(crate) region_receivers: LinkMap<()>,
    /// The messages of the operation.
    pub(crate) arrived: Arrived,
    /// The message to send over each link with the next sign.
    pub(crate) next_messages: BTreeMap<LinkId, Bytes>,
    /// The outcome that the messages have brought.
    outcome: Option<Outcome>,
    /// The links over which to send the next sign.
    pub(crate) to_notify: LinkMap<()>,
}

impl CallState {
    pub(crate) fn new(
        nth: u64,
        by: (Rank, CallSignature),
        completion: &Completion,
        replayed_by: Option<Rank>,
        eager: &EagerLimits,
        view: &GroupView,
    ) -> Self {
        let called = &by.1;
        let operation = replayed_by.map_or_else(|| called.operation(), |_| called.operation().replay());
        let waits_for_data = completion.continues && operation.gives_each_its_own();
        let is_strict = completion.strict && replayed_by.is_none();
        let agrees = is_strict || waits_for_data || operation.synchronizes_by_signs();
        let combining = match operation.transport {
            Transport::Combined(_, begin) => Some(begin(called, view)),
            _ => None,
        };
        let is_items = matches!(operation.transport, Transport::Items);
        let me = view.topology.me;
        let members = view.members();
        let awaited = match (&combining, me) {
            (Some(combining), _) => combining.awaited(),
            (None, Some(me)) if is_items => {
                traffic::own_items(&operation, replayed_by.or(called.root) == Some(me), members)
            }
            _ => 0,
        };
        let branches = view.branches_with_members().filter(|_| agrees);
        let signs: LinkMap<_> = branches.map(|branch| (branch.link, false)).collect();
        let mut state = Self {
            by,
            operation,
            own: if me.is_some() { OwnPart::Awaited } else { OwnPart::None },
            replayed_by,
            agrees,
            waits_for_data,
            confirms: completion.reconnects
                && operation.receivers == Receivers::Each
                && operation.messages().is_some(),
            decided_in: None,
            stage: if agrees { Stage::Open } else { Stage::Done },
            unsigned: signs.len(),
            signs,
            holds_value: false,
            probed: false,
            flow: FlowControl::new(is_items && operation.senders == Senders::All, eager.here(&operation)),
            received: ReceivedItems::new(awaited),
            combining,
            region: None,
            sealed: None,
            region_receivers: LinkMap::default(),
            arrived: Arrived::of(nth),
            next_messages: BTreeMap::new(),
            outcome: None,
            to_notify: LinkMap::default(),
        };
        if is_items || state.combining.is_some() {
            state.open_links(eager, view);
        }
        state
    }

    /// Opens the links for the data of the call.
    fn open_links(&mut self, eager: &EagerLimits, view: &GroupView) {
        let root = self.root().and_then(|root| view.link_towards(root));
        let Self { operation, flow, combining, .. } = self;
        let members = view.members();
        let far = |branch: &Branch| branch.ranks.len() as u64;
        let below = view.members_from_here();
        let parent = view.collective_parent().filter(|_| below > 0);
        let parent = parent.map(|parent| (parent, members.saturating_sub(below), true));
        let links =
            view.branches_with_members().map(|branch| (branch.link, far(branch), false)).chain(parent);
        flow.open(links.map(|(link, far, up)| {
            let root_is_far = root == Some(link);
            let sides = LinkSides { near: members.saturating_sub(far), far, root_is_far, up };
            let amounts = match combining {
                Some(combining) => combining.amounts(link, sides),
                None => traffic::items(operation, sides),
            };
            (link, amounts, eager.there(operation, link))
        }));
    }

    /// The root of what passes over the links.
    fn root(&self) -> Option<Rank> {
        self.replayed_by.or(self.by.1.root)
    }

    /// This member calls, with this contribution.
    pub(crate) fn contribute(
        &mut self,
        contribution: Contribution,
        me: Rank,
        view: &GroupView,
    ) -> Result<(), CommError> {
        self.own = OwnPart::Called;
        match contribution {
            Contribution::Nothing => {}
            Contribution::Message(own) => self.arrived.own = own,
            Contribution::One(bytes) => {
                let to = match self.operation.receivers {
                    Receivers::Root => self.by.1.root.unwrap_or(Rank(0)).0,
                    _ => ALL,
                };
                self.give(me, to, bytes, view)?;
            }
            Contribution::Parts(parts) => {
                let present = (0..).zip(parts).filter(|(to, _)| !view.missing.contains(Rank(*to)));
                for (to, bytes) in present {
                    self.give(me, to, bytes, view)?;
                }
            }
            Contribution::Value(bytes, reducer) => {
                self.holds_value = bytes.len() as u64 > EAGER;
                let Self { combining, flow, received, .. } = self;
                if let Some(combining) = combining {
                    combining.contribute(me, bytes, &reducer, &mut CallIo { flow, received, view })?;
                }
            }
        }
        Ok(())
    }

    /// Sends an item of this member to its receivers, of which it may be one.
    fn give(&mut self, me: Rank, to: u32, bytes: Bytes, view: &GroupView) -> Result<(), CommError> {
        let piece = Piece::whole(me.0, to, bytes);
        self.forward(&piece, None, view);
        if self.is_for_me(&piece, view) && self.region.is_none() {
            self.received.take(me.0, 1, piece.bytes)?;
        }
        Ok(())
    }

    /// A piece has arrived over a link.
    pub(crate) fn receive(&mut self, link: LinkId, piece: Piece, view: &GroupView) -> Result<(), CommError> {
        self.flow.received(link, &piece);
        let Self { combining, flow, received, .. } = self;
        if let Some(combining) = combining {
            if piece.is_last() {
                flow.item_ended(link, u64::from(piece.item.to));
            }
            return combining.receive(link, piece, &mut CallIo { flow, received, view });
        }
        if piece.is_last() {
            flow.item_ended(link, 1);
        }
        self.forward(&piece, Some(link), view);
        // Data for a shared region are assembled only there.
        if self.is_for_me(&piece, view) && self.region.is_none() {
            self.received.push(piece)?;
        }
        Ok(())
    }

    /// Whether this process is a receiver of an item.
    fn is_for_me(&self, piece: &Piece, view: &GroupView) -> bool {
        view.topology.me.is_some_and(|me| match self.operation.receivers {
            Receivers::Root => self.by.1.root == Some(me),
            Receivers::Each => piece.item.to == me.0,
            Receivers::All | Receivers::None => true,
        })
    }

    /// Queues a piece of an item for the links that lead to its receivers.
    fn forward(&mut self, piece: &Piece, from: Option<LinkId>, view: &GroupView) {
        let to = match self.operation.receivers {
            Receivers::Root => self.by.1.root,
            Receivers::Each => Some(Rank(piece.item.to)),
            Receivers::All | Receivers::None => None,
        };
        let Self { flow, received, .. } = self;
        CallIo { flow, received, view }.forward(piece, 1, to, from);
    }

    /// All members below a branch have called.
    pub(crate) fn branch_has_called(&mut self, link: LinkId) {
        if let Some(sign) = self.signs.get_mut(link) {
            self.unsigned -= usize::from(!std::mem::replace(sign, true));
        }
    }

    /// Whether the sign of a branch is still needed.
    pub(crate) fn lacks_sign(&self, link: LinkId) -> bool {
        self.stage == Stage::Open && self.signs.get(link) == Some(&false)
    }

    /// Leaves the first state if all members here and below have called. True if it did.
    pub(crate) fn enter(&mut self) -> bool {
        let has_data = !self.waits_for_data || self.received.is_complete();
        let enters =
            self.stage == Stage::Open && self.unsigned == 0 && self.own != OwnPart::Awaited && has_data;
        if enters {
            self.stage = Stage::Entered;
        }
        enters
    }

    /// The result of this member was reported before the call began anew.
    pub(crate) fn was_reported(&mut self) {
        self.own = OwnPart::Reported;
    }

    /// Prepares the message that goes up with the sign that all members here and below have called.
    pub(crate) fn message_up(&mut self, parent: LinkId, ctx: &mut CallContext<'_>) -> Result<(), CommError> {
        if let Some(messages) = self.operation.messages().filter(|_| self.outcome.is_none()) {
            let message = messages.up(&mut self.arrived, ctx)?;
            self.next_messages.insert(parent, message);
        }
        Ok(())
    }

    /// All members have called. Prepares the messages that go down with this sign, and applies what
    /// they say.
    pub(crate) fn all_called(&mut self, ctx: &mut CallContext<'_>) -> Result<(), CommError> {
        self.stage = Stage::Done;
        if let Some(messages) = self.operation.messages().filter(|_| self.outcome.is_none()) {
            let above = Bytes::from(std::mem::take(&mut self.arrived.above));
            let above = ctx.view.collective_parent().map(|_| above);
            let down = messages.down(&mut self.arrived, above, ctx)?;
            self.outcome = Some(down.outcome);
            self.next_messages = down.messages;
            if self.confirms {
                // The same signs once more, now that the messages have arrived.
                self.stage = Stage::Open;
                self.signs.iter_mut().for_each(|(_, sign)| *sign = false);
                self.unsigned = self.signs.len();
            }
        }
        Ok(())
    }

    /// Whether the messages of the call can be sent again to members that lack its result.
    pub(crate) fn repeats_messages(&self) -> bool {
        self.operation.messages().is_some() && !self.confirms
    }

    /// What was for a branch goes to those that have replaced it since.
    pub(crate) fn pass_messages_to(&mut self, replaced: &[(LinkId, LinkId)]) {
        for (old, new) in replaced {
            if let Some(message) = self.next_messages.get(old).cloned() {
                self.next_messages.insert(*new, message);
            }
        }
    }

    /// Whether all members have called, or need not have.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Whether the only receiver is among these ranks behind a link, and does not have all data.
    pub(crate) fn lacks_receiver(&self, link: LinkId, ranks: &Ranks) -> bool {
        let root = self.by.1.root.filter(|_| self.operation.receivers == Receivers::Root);
        let has_more = self.flow.out.get(link).is_some_and(|channel| !channel.is_over());
        has_more && root.is_some_and(|root| ranks.contains(root))
    }

    /// Whether this member waits, and only a probe shows others what it has called.
    pub(crate) fn may_need_probe(&self) -> bool {
        self.own == OwnPart::Called && (!self.agrees || self.waits_for_data) && !self.probed
    }

    /// Whether nothing waits here that could be sent or that members wait for.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_done() || self.own == OwnPart::Awaited || self.sealed.is_none() && self.flow.is_flushed()
    }
}
