//! Decides how a message gets from one process to another.
//!
//! Messages travel along the tree: each process on the way passes frames on as they come, and keeps nothing of them. How
//! much may be on its way is agreed between the two ends.
//!
//! A short message goes at once, as long as what the receiver's program has not yet taken of such messages stays
//! below a limit ([`send_queue::EAGER_LIMIT`]). Any other is only announced; when the program calls for it, the receiver pulls it, in
//! steps, so that no more than a window of it is on its way ([`receive_queue::WINDOW`]). So a message that nobody receives stays
//! where it was sent, and nothing waits behind it.
//!
//! ```text
//! sender                          receiver
//!   Whole ------------------------->      short: all of it
//!       <-------------------------- Read  so much has been taken; so much more may come unasked
//!
//!   Offer ------------------------->      anything else
//!       <-------------------------- Pull  when there is a call for it; again as bytes come
//!   Chunk ------------------------->
//!   Withdrawn --------------------->      the sender has given up
//!       <-------------------------- Refused
//! ```
//!
//! All frames from one process to another take the same way and stay in order, announcements and short messages too: that
//! is the order in which messages with one tag are received.
//!
//! A send is done when everything has been handed over. If its call is given up before, the message is taken back; a receive
//! that was waiting for the rest ends with an error, and one that had not begun never learns of it. A receive that is given up
//! in the midst of a message uses that message up.
//!
//! Whoever has no way to a receiver says so to the sender.

mod receive_queue;
mod send_queue;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::GroupView;
use crate::contract::{Address, CallId, Effect, Frame, Outcome};
use crate::error::CommError;
use crate::message::Message;
use receive_queue::ReceiveQueue;
use send_queue::SendQueue;

/// What is said of a message between two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope {
    from: Address,
    to: Address,
    message: P2pMessage,
}

/// What one end says to the other. Messages are numbered by their sender, in the order of its calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum P2pMessage {
    /// This is a message.
    Eager { id: u64, tag: u32 },
    /// There is a message, and it is so long.
    Offer { id: u64, tag: u32, total: u64 },
    /// Bytes of a message that was pulled.
    Chunk { id: u64, offset: u64 },
    /// The sender has given up.
    Withdrawn { id: u64, tag: u32 },
    /// So many bytes of this message may be sent, counted from its beginning.
    Pull { id: u64, limit: u64 },
    /// No more of this message is to be sent.
    Rejected { id: u64, why: RejectReason },
    /// The receiver's program has taken so much of what came unasked, counted from the beginning.
    Consumed { limit: u64 },
    /// From somebody on the way, in place of the one who could not be reached: there is no way.
    Undeliverable,
}

/// Why the rest of a message is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum RejectReason {
    /// The call for it was given up.
    Cancelled,
    /// There is not as much memory.
    OutOfMemory,
    /// What came did not fit what was announced.
    Protocol,
}

/// The messages that a process sends and receives, and passes on.
#[derive(Debug, Default)]
pub(crate) struct PointToPoint {
    sends: SendQueue,
    receives: ReceiveQueue,
}

impl PointToPoint {
    /// Whether everything that was sent here has been handed over. What nobody has pulled has not: it would be lost.
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
            // What a program sends itself is in its memory anyway.
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

    /// The program does not wait for this call any more; whether it was one of these.
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
            // Back where it came from is no way either.
            _ => reject_undeliverable(&envelope, view, out),
        }
    }

    /// These are gone, as the place knows already.
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
        // Nobody else is taken at his word, and of the lost nothing more is to come.
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
            // Whoever says so knows of the loss, which will soon be known here; what came before has come.
            P2pMessage::Undeliverable => self.peers_lost(&|who| who == from, ctx),
        }
    }
}

/// Tells the sender that there is no way to the receiver.
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

/// Where what is decided here goes.
struct P2pContext<'a> {
    view: &'a GroupView,
    out: &'a mut Vec<Effect>,
}

impl P2pContext<'_> {
    /// To somebody elsewhere. If there is no way to him, his loss is known, and all that concerns him over.
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

/// What calls end with that need somebody who is gone.
fn lost(who: Address) -> CommError {
    match who {
        Address::FrontEnd => CommError::FrontEndLost,
        Address::Rank(rank) => CommError::PeerLost { ranks: [rank].into_iter().collect() },
    }
}
