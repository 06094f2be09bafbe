//! Decides which messages are sent eagerly, which are offered, and how much of them follows.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{P2pContext, lost};
use crate::contract::{Address, CallId, Outcome};
use crate::error::CommError;
use crate::message::p2p::{P2pMessage, RejectReason};

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
}

/// A message that was offered.
#[derive(Debug)]
struct PendingSend {
    call: CallId,
    to: Address,
    tag: u32,
    total: u64,
    /// The bytes that have not been sent.
    rest: Bytes,
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
            ctx.send(to, P2pMessage::Eager { id, tag }, data);
            return ctx.finish(call, Ok(Outcome::Done));
        }
        let total = data.len() as u64;
        ctx.control(to, P2pMessage::Offer { id, tag, total });
        self.calls.insert(call, id);
        self.sends.insert(id, PendingSend { call, to, tag, total, rest: data });
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
        let limit = limit.min(pending.total);
        let mut offset = pending.total - pending.rest.len() as u64;
        // An empty message takes one empty chunk.
        while offset < limit || pending.total == 0 {
            // The rest is in memory, so its length fits.
            let most = usize::try_from(limit - offset).unwrap_or(CHUNK).min(CHUNK);
            let chunk = pending.rest.split_to(most);
            ctx.send(by, P2pMessage::Chunk { id, offset }, chunk);
            offset += most as u64;
            if pending.rest.is_empty() {
                let call = pending.call;
                self.remove(id);
                return ctx.finish(call, Ok(Outcome::Done));
            }
        }
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
            RejectReason::OutOfMemory => Err(CommError::OutOfMemory(pending.total)),
            RejectReason::Protocol => {
                Err(CommError::Protocol("the receiver rejected the bytes of a message"))
            }
        };
        ctx.finish(pending.call, result);
    }

    /// The receiver has consumed so many bytes of eager messages, in total.
    pub(super) fn consumed(&mut self, by: Address, limit: u64) {
        let budget = self.budgets.get_mut(&by);
        if let Some(budget) = budget.filter(|budget| (budget.consumed..=budget.spent).contains(&limit)) {
            budget.consumed = limit;
        }
    }

    /// Processes are lost.
    pub(super) fn peers_lost(&mut self, among: &dyn Fn(Address) -> bool, ctx: &mut P2pContext<'_>) {
        self.budgets.retain(|to, _| !among(*to));
        let over: Vec<u64> =
            self.sends.iter().filter(|(_, pending)| among(pending.to)).map(|(id, _)| *id).collect();
        for pending in over.into_iter().filter_map(|id| self.remove(id)) {
            ctx.finish(pending.call, Err(lost(pending.to)));
        }
    }

    fn remove(&mut self, id: u64) -> Option<PendingSend> {
        let pending = self.sends.remove(&id)?;
        self.calls.remove(&pending.call);
        Some(pending)
    }
}
