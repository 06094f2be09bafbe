//! Decides which messages are sent eagerly, which are offered, and how much of them follows.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::resync::{KeptMessage, KeptMessages};
use super::{P2pContext, lost};
use crate::contract::{Address, CallId, Outcome};
use crate::error::CommError;
use crate::message::p2p::{Arrivals, P2pMessage, RejectReason};

/// Longer messages are always offered: 64 KiB, and what a program puts around them, are not.
pub(super) const EAGER_MAX: usize = 72 << 10;

/// How many bytes of eager messages may be unconsumed at a receiver.
pub(super) const EAGER_LIMIT: u64 = 256 << 10;

/// What a message costs in addition to its bytes, or empty messages would be free.
const MESSAGE_OVERHEAD: u64 = 64;

/// The longest chunk: with its head, a frame of 128 KiB.
pub(super) const CHUNK: usize = (128 << 10) - 64;

/// What an eager message counts for.
pub(super) const fn cost(length: usize) -> u64 {
    length as u64 + MESSAGE_OVERHEAD
}

/// The messages that this process is sending.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    /// The number of the last message.
    last: u64,
    /// Offered messages that are not complete.
    sends: BTreeMap<u64, PendingSend>,
    calls: BTreeMap<CallId, u64>,
    /// The eager budget of each receiver.
    budgets: BTreeMap<Address, EagerBudget>,
    /// Whether messages are kept until they have arrived, and these.
    pub(super) keeps: bool,
    kept: KeptMessages,
}

/// A message that was offered.
#[derive(Debug)]
struct PendingSend {
    /// `None` if the call is complete, but the message has not arrived.
    call: Option<CallId>,
    to: Address,
    tag: u32,
    data: Bytes,
    /// How many bytes have been sent.
    sent: usize,
}

impl PendingSend {
    const fn total(&self) -> u64 {
        self.data.len() as u64
    }
}

#[derive(Debug, Default)]
struct EagerBudget {
    spent: u64,
    /// The bytes that the receiver has consumed.
    consumed: u64,
}

impl EagerBudget {
    /// Spends so much. False, and nothing is spent, if the budget does not allow it.
    const fn spend(&mut self, cost: u64) -> bool {
        let fits = self.spent - self.consumed + cost <= EAGER_LIMIT;
        if fits {
            self.spent += cost;
        }
        fits
    }
}

impl SendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Sends a message to another process.
    pub(super) fn send(
        &mut self,
        call: CallId,
        to: Address,
        tag: u32,
        data: Bytes,
        ctx: &mut P2pContext<'_>,
    ) {
        self.last += 1;
        let id = self.last;
        if data.len() <= EAGER_MAX && self.budgets.entry(to).or_default().spend(cost(data.len())) {
            if self.keeps {
                self.kept.add(to, id, KeptMessage { tag, data: data.clone(), is_eager: true });
            }
            ctx.send(to, P2pMessage::Eager { id, tag }, data);
            return ctx.finish(call, Ok(Outcome::Done));
        }
        let total = data.len() as u64;
        ctx.control(to, P2pMessage::Offer { id, tag, total });
        self.calls.insert(call, id);
        self.sends.insert(id, PendingSend { call: Some(call), to, tag, data, sent: 0 });
    }

    /// Cancels a send. True if it is one of these.
    pub(super) fn cancel(&mut self, call: CallId, ctx: &mut P2pContext<'_>) -> bool {
        let Some(&id) = self.calls.get(&call) else { return false };
        if let Some(PendingSend { to, tag, .. }) = self.remove(id) {
            ctx.control(to, P2pMessage::Withdrawn { id, tag });
        }
        true
    }

    /// So many bytes of a message may be sent, in total.
    pub(super) fn pulled(&mut self, by: Address, id: u64, limit: u64, ctx: &mut P2pContext<'_>) {
        let Some(pending) = self.sends.get_mut(&id).filter(|pending| pending.to == by) else { return };
        // The message is in memory, so its length fits.
        let limit = usize::try_from(limit.min(pending.total())).unwrap_or(pending.data.len());
        // An empty message takes one empty chunk.
        while pending.sent < limit || pending.data.is_empty() {
            let (offset, end) = (pending.sent as u64, limit.min(pending.sent + CHUNK));
            let chunk = pending.data.slice(pending.sent..end);
            ctx.send(by, P2pMessage::Chunk { id, offset }, chunk);
            pending.sent = end;
            if pending.sent == pending.data.len() {
                return self.sent(id, ctx);
            }
        }
    }

    /// All of an offered message has been sent.
    fn sent(&mut self, id: u64, ctx: &mut P2pContext<'_>) {
        let Some(PendingSend { call, to, tag, data, .. }) = self.remove(id) else { return };
        if self.keeps {
            self.kept.add(to, id, KeptMessage { tag, data, is_eager: false });
        }
        ctx.finish_if(call, Ok(Outcome::Done));
    }

    /// The receiver has all of an offered message.
    pub(super) fn taken(&mut self, by: Address, id: u64) {
        self.kept.remove(by, id);
    }

    /// The route to a receiver has changed, and so much has arrived there: sends the rest again.
    pub(super) fn resync(&mut self, to: Address, arrived: &Arrivals, ctx: &mut P2pContext<'_>) {
        let Arrivals { newest, consumed, parts } = arrived;
        self.consumed(to, *consumed, *newest);
        let pending = self.sends.iter().filter(|(_, pending)| pending.to == to).map(|(id, _)| *id);
        let mut ids: Vec<u64> = pending.chain(self.kept.ids(to)).collect();
        ids.sort_unstable();
        for part in parts.iter().filter(|part| !ids.contains(&part.id)) {
            ctx.control(to, P2pMessage::Withdrawn { id: part.id, tag: part.tag });
        }
        for id in ids {
            let part = parts.iter().find(|part| part.id == id);
            match (self.kept.get(to, id).cloned(), part) {
                (Some(KeptMessage { tag, data, is_eager: true }), _) => {
                    ctx.send(to, P2pMessage::Eager { id, tag }, data);
                }
                (Some(KeptMessage { tag, data, .. }), Some(_)) => {
                    self.kept.remove(to, id);
                    self.sends.insert(id, PendingSend { call: None, to, tag, data, sent: 0 });
                }
                (Some(_), None) => drop(self.kept.remove(to, id)),
                (None, _) => {}
            }
            let Some(pending) = self.sends.get_mut(&id) else { continue };
            match part.map(|part| part.pulled) {
                None if id > *newest => {
                    let (tag, total) = (pending.tag, pending.total());
                    pending.sent = 0;
                    ctx.control(to, P2pMessage::Offer { id, tag, total });
                }
                // The receiver has it all, or does not want the rest.
                None => {
                    let call = self.remove(id).and_then(|pending| pending.call);
                    ctx.finish_if(call, Ok(Outcome::Done));
                }
                Some(None) => pending.sent = 0,
                Some(Some((got, granted))) => {
                    pending.sent = usize::try_from(got).unwrap_or_default().min(pending.data.len());
                    self.pulled(to, id, granted, ctx);
                }
            }
        }
    }

    /// The processes to which messages were sent.
    pub(super) fn receivers(&self) -> impl Iterator<Item = Address> {
        let pending = self.sends.values().map(|pending| pending.to);
        self.budgets.keys().copied().chain(pending).chain(self.kept.receivers())
    }

    /// The receiver rejects the rest of a message.
    pub(super) fn rejected(&mut self, by: Address, id: u64, why: RejectReason, ctx: &mut P2pContext<'_>) {
        if self.sends.get(&id).is_none_or(|pending| pending.to != by) {
            return;
        }
        let Some(pending) = self.remove(id) else { return };
        let result = match why {
            // A cancelled receive consumes its message, so the send has succeeded.
            RejectReason::Cancelled => Ok(Outcome::Done),
            RejectReason::OutOfMemory => Err(CommError::OutOfMemory(pending.total())),
            RejectReason::Protocol => {
                Err(CommError::Protocol("the receiver rejected the bytes of a message"))
            }
        };
        ctx.finish_if(pending.call, result);
    }

    /// The receiver has consumed so many bytes of eager messages, in total, and has got those up to this
    /// number.
    pub(super) fn consumed(&mut self, by: Address, limit: u64, newest: u64) {
        self.kept.have_arrived(by, newest);
        let budget = self.budgets.get_mut(&by);
        if let Some(budget) = budget.filter(|budget| (budget.consumed..=budget.spent).contains(&limit)) {
            budget.consumed = limit;
        }
    }

    /// Processes are lost.
    pub(super) fn peers_lost(&mut self, among: &dyn Fn(Address) -> bool, ctx: &mut P2pContext<'_>) {
        self.budgets.retain(|to, _| !among(*to));
        self.kept.lost(among);
        let over: Vec<u64> =
            self.sends.iter().filter(|(_, pending)| among(pending.to)).map(|(id, _)| *id).collect();
        for pending in over.into_iter().filter_map(|id| self.remove(id)) {
            ctx.finish_if(pending.call, Err(lost(pending.to)));
        }
    }

    fn remove(&mut self, id: u64) -> Option<PendingSend> {
        let pending = self.sends.remove(&id)?;
        if let Some(call) = pending.call {
            self.calls.remove(&call);
        }
        Some(pending)
    }
}
