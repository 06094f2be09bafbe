//! Decides how point-to-point messages get from one process to another.
//!
//! Messages are routed along the tree. The processes on the way forward frames as they arrive and
//! store none; the two ends agree how much may be on its way.
//!
//! - **Eager.** A short message is sent at once while the eager messages that the receiving program
//!   has not consumed stay below a limit ([`EAGER_LIMIT`](send_queue::EAGER_LIMIT)).
//! - **Rendezvous.** Any other message is only offered. When the program calls for it, the receiver
//!   pulls it in steps, so that no more than a window is on its way
//!   ([`WINDOW`](receive_queue::WINDOW)). A message that is never received stays with its sender
//!   and delays no other.
//!
//! ```text
//! sender                          receiver
//!   Eager ------------------------->      a short message, whole
//!       <---------------------- Consumed  so much has been consumed; so much more may be sent
//!
//!   Offer ------------------------->      any other message
//!       <-------------------------- Pull  when there is a receive for it; again as chunks arrive
//!   Chunk ------------------------->
//!   Withdrawn --------------------->      the sender has cancelled
//!       <---------------------- Rejected
//! ```
//!
//! Frames from one process to another take the same route and stay in order, offers and eager
//! messages included. Messages with one tag are received in that order.
//!
//! A send is complete when the whole message has been handed to the link. A cancelled send
//! withdraws its message: a receive that was waiting for the rest fails, and one that had not begun
//! never learns of it. A receive that is cancelled in the middle of a message consumes that
//! message.
//!
//! A process without a route to the receiver says so to the sender. Where a route has changed, frames
//! may be lost, and both ends go on from what has arrived (`resync.rs`).

mod receive_queue;
mod resync;
mod send_queue;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;

use super::GroupView;
use crate::contract::{Address, CallId, Effect, Frame, Outcome};
use crate::error::CommError;
use crate::message::Message;
use crate::message::p2p::{Envelope, P2pMessage};
use receive_queue::ReceiveQueue;
use resync::Resyncs;
use send_queue::SendQueue;

/// The messages that a process sends, receives and forwards.
#[derive(Debug, Default)]
pub(crate) struct PointToPoint {
    sends: SendQueue,
    receives: ReceiveQueue,
    resyncs: Resyncs,
}

impl PointToPoint {
    /// Messages are kept until they have arrived, in case that a route changes.
    pub(crate) const fn keep_messages(&mut self) {
        self.sends.keeps = true;
        self.receives.confirms = true;
    }

    fn context<'a>(
        &'a mut self,
        view: &'a GroupView,
        out: &'a mut Vec<Effect>,
    ) -> (&'a mut SendQueue, &'a mut ReceiveQueue, P2pContext<'a>) {
        let Self { sends, receives, resyncs } = self;
        (sends, receives, P2pContext { view, resyncs, out })
    }

    /// Whether everything that was sent here has been handed to the link. Offers that have not been
    /// pulled have not: they would be lost.
    pub(crate) fn is_idle(&self) -> bool {
        self.sends.is_empty()
    }

    pub(crate) fn send(
        &mut self,
        call: CallId,
        to: Address,
        tag: u32,
        data: Bytes,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        let (sends, receives, mut ctx) = self.context(view, out);
        match view.route(to) {
            Ok(Some(_)) => sends.send(call, to, tag, data, &mut ctx),
            // A message of a process to itself needs no credit.
            Ok(None) => {
                ctx.finish(call, Ok(Outcome::Done));
                receives.send_to_self(tag, data, &mut ctx);
            }
            Err(error) => ctx.finish(call, Err(error)),
        }
    }

    pub(crate) fn receive(
        &mut self,
        call: CallId,
        from: Address,
        tag: u32,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        let (_, receives, mut ctx) = self.context(view, out);
        receives.receive(call, from, tag, &mut ctx);
    }

    /// Cancels a call. True if it is a point-to-point one.
    pub(crate) fn cancel(&mut self, call: CallId, view: &GroupView, out: &mut Vec<Effect>) -> bool {
        let (sends, receives, mut ctx) = self.context(view, out);
        sends.cancel(call, &mut ctx) || receives.cancel(call, &mut ctx)
    }

    pub(crate) fn on_frame(
        &mut self,
        link: LinkId,
        envelope: Envelope,
        payload: Bytes,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        match view.route(envelope.to) {
            Ok(None) => self.on_local_frame(link, envelope, payload, view, out),
            Ok(Some(next)) if next != link => out.push(Effect::Send(next, envelope.frame(payload))),
            // Back over the same link is no route either.
            _ => reject_undeliverable(&envelope, view, out),
        }
    }

    /// These ranks are lost; the view has them already.
    pub(crate) fn lost(&mut self, ranks: &Ranks, view: &GroupView, out: &mut Vec<Effect>) {
        let among = |who: Address| matches!(who, Address::Rank(rank) if ranks.contains(rank));
        self.peers_lost(&among, view, out);
        self.resyncs.lost(ranks);
    }

    /// Other processes have taken the places of these lost members. Messages of the lost ones that were not
    /// received are dropped.
    pub(crate) fn joined(&mut self, ranks: &Ranks) {
        self.receives.forget(ranks);
    }

    fn peers_lost(&mut self, among: &dyn Fn(Address) -> bool, view: &GroupView, out: &mut Vec<Effect>) {
        let (sends, receives, mut ctx) = self.context(view, out);
        sends.peers_lost(among, &mut ctx);
        receives.peers_lost(among, &mut ctx);
    }

    /// A frame for this process.
    fn on_local_frame(
        &mut self,
        link: LinkId,
        envelope: Envelope,
        payload: Bytes,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        let Envelope { from, message, .. } = envelope;
        // The link proves the sender: frames in the name of another process are dropped, as are
        // those of lost ones.
        if !matches!(view.route(from), Ok(Some(route)) if route == link) {
            return;
        }
        match &message {
            // The process that says so knows of a loss that is about to be reported here. Earlier
            // frames have arrived.
            P2pMessage::Undeliverable => return self.peers_lost(&|who| who == from, view, out),
            P2pMessage::Resync { round, arrived } => return self.on_resync(from, *round, arrived, view, out),
            _ if self.resyncs.awaits(from) => return,
            _ => {}
        }
        let (sends, receives, mut ctx) = self.context(view, out);
        let ctx = &mut ctx;
        match message {
            P2pMessage::Eager { id, tag } => receives.eager(from, id, tag, payload, ctx),
            P2pMessage::Offer { id, tag, total } => receives.offered(from, id, tag, total, ctx),
            P2pMessage::Chunk { id, offset } => receives.chunk(from, id, offset, payload, ctx),
            P2pMessage::Withdrawn { id, tag } => receives.withdrawn(from, id, tag, ctx),
            P2pMessage::Pull { id, limit } => sends.pulled(from, id, limit, ctx),
            P2pMessage::Rejected { id, why } => sends.rejected(from, id, why, ctx),
            P2pMessage::Consumed { limit, newest } => sends.consumed(from, limit, newest),
            P2pMessage::Taken { id } => sends.taken(from, id),
            P2pMessage::Undeliverable | P2pMessage::Resync { .. } => {}
        }
    }
}

/// Tells the sender that there is no route to the receiver.
fn reject_undeliverable(envelope: &Envelope, view: &GroupView, out: &mut Vec<Effect>) {
    if envelope.message == P2pMessage::Undeliverable {
        return;
    }
    let answer = Envelope { from: envelope.to, to: envelope.from, message: P2pMessage::Undeliverable };
    if let Ok(Some(link)) = view.route(answer.to) {
        out.push(Effect::Send(link, answer.frame(Bytes::new())));
    }
}

impl Envelope {
    fn frame(self, payload: Bytes) -> Frame {
        Message::P2p(self).frame((!payload.is_empty()).then_some(payload))
    }
}

/// Where effects go.
struct P2pContext<'a> {
    view: &'a GroupView,
    resyncs: &'a mut Resyncs,
    out: &'a mut Vec<Effect>,
}

impl P2pContext<'_> {
    /// Sends to another process. Without a route to it, its loss is known and its calls have
    /// failed.
    fn send(&mut self, to: Address, message: P2pMessage, payload: Bytes) {
        self.settle_owed(to);
        if self.is_held(to, &message) {
            return;
        }
        if let Ok(Some(link)) = self.view.route(to) {
            let envelope = Envelope { from: self.view.me(), to, message };
            self.out.push(Effect::Send(link, envelope.frame(payload)));
        }
    }

    fn control(&mut self, to: Address, message: P2pMessage) {
        self.send(to, message, Bytes::new());
    }

    fn finish_if(&mut self, call: Option<CallId>, result: Result<Outcome, CommError>) {
        if let Some(call) = call {
            self.finish(call, result);
        }
    }

    fn finish(&mut self, call: CallId, result: Result<Outcome, CommError>) {
        self.out.push(Effect::Finish(call, result));
    }
}

/// The error of calls that need a lost process.
fn lost(who: Address) -> CommError {
    match who {
        Address::FrontEnd => CommError::FrontEndLost,
        Address::Rank(rank) => CommError::lost([rank].into_iter().collect()),
    }
}
