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
//! A process without a route to the receiver says so to the sender.

mod receive_queue;
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
use send_queue::SendQueue;

/// The messages that a process sends, receives and forwards.
#[derive(Debug, Default)]
pub(crate) struct PointToPoint {
    sends: SendQueue,
    receives: ReceiveQueue,
}

impl PointToPoint {
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
        let mut ctx = P2pContext { view, out };
        match view.route(to) {
            Ok(Some(_)) => self.sends.send(call, to, tag, data, &mut ctx),
            // A message of a process to itself needs no credit.
            Ok(None) => {
                ctx.finish(call, Ok(Outcome::Done));
                self.receives.send_to_self(tag, data, &mut ctx);
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
        self.receives.receive(call, from, tag, &mut P2pContext { view, out });
    }

    /// Cancels a call. True if it is a point-to-point one.
    pub(crate) fn cancel(&mut self, call: CallId, view: &GroupView, out: &mut Vec<Effect>) -> bool {
        let mut ctx = P2pContext { view, out };
        self.sends.cancel(call, &mut ctx) || self.receives.cancel(call, &mut ctx)
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
            Ok(None) => self.on_local_frame(link, envelope, payload, &mut P2pContext { view, out }),
            Ok(Some(next)) if next != link => out.push(Effect::Send(next, envelope.frame(payload))),
            // Back over the same link is no route either.
            _ => reject_undeliverable(&envelope, view, out),
        }
    }

    /// These ranks are lost; the view has them already.
    pub(crate) fn lost(&mut self, ranks: &Ranks, view: &GroupView, out: &mut Vec<Effect>) {
        let among = |who: Address| matches!(who, Address::Rank(rank) if ranks.contains(rank));
        self.peers_lost(&among, &mut P2pContext { view, out });
    }

    fn peers_lost(&mut self, among: &dyn Fn(Address) -> bool, ctx: &mut P2pContext<'_>) {
        self.sends.peers_lost(among, ctx);
        self.receives.peers_lost(among, ctx);
    }

    /// A frame for this process.
    fn on_local_frame(&mut self, link: LinkId, envelope: Envelope, payload: Bytes, ctx: &mut P2pContext<'_>) {
        let Envelope { from, message, .. } = envelope;
        // The link proves the sender: frames in the name of another process are dropped, as are
        // those of lost ones.
        if !matches!(ctx.view.route(from), Ok(Some(route)) if route == link) {
            return;
        }
        match message {
            P2pMessage::Eager { id, tag } => self.receives.eager(from, id, tag, payload, ctx),
            P2pMessage::Offer { id, tag, total } => self.receives.offered(from, id, tag, total, ctx),
            P2pMessage::Chunk { id, offset } => self.receives.chunk(from, id, offset, payload, ctx),
            P2pMessage::Withdrawn { id, tag } => self.receives.withdrawn(from, id, tag, ctx),
            P2pMessage::Pull { id, limit } => self.sends.pulled(from, id, limit, ctx),
            P2pMessage::Rejected { id, why } => self.sends.rejected(from, id, why, ctx),
            P2pMessage::Consumed { limit } => self.sends.consumed(from, limit),
            // The process that says so knows of a loss that is about to be reported here. Earlier
            // frames have arrived.
            P2pMessage::Undeliverable => self.peers_lost(&|who| who == from, ctx),
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
    out: &'a mut Vec<Effect>,
}

impl P2pContext<'_> {
    /// Sends to another process. Without a route to it, its loss is known and its calls have
    /// failed.
    fn send(&mut self, to: Address, message: P2pMessage, payload: Bytes) {
        if let Ok(Some(link)) = self.view.route(to) {
            let envelope = Envelope { from: self.view.me(), to, message };
            self.out.push(Effect::Send(link, envelope.frame(payload)));
        }
    }

    fn control(&mut self, to: Address, message: P2pMessage) {
        self.send(to, message, Bytes::new());
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
