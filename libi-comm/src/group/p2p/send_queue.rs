//! Decides what is sent at once, what is announced, and how much of it follows.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{P2pContext, P2pMessage, RejectReason, lost};
use crate::contract::{Address, CallId, Outcome};
use crate::error::CommError;

/// Longer messages are always announced.
pub(super) const EAGER_MAX: usize = 16 << 10;

/// As much may go to a receiver unasked, before its program takes any.
pub(super) const EAGER_LIMIT: u64 = 256 << 10;

/// What keeping a message costs beside its bytes, or those of no length would cost nothing.
const MESSAGE_OVERHEAD: u64 = 64;

/// The longest chunk: with its head, a frame of 128 KiB.
pub(super) const CHUNK: usize = (128 << 10) - 64;

/// What a message counts for that goes unasked.
pub(super) const fn cost(length: usize) -> u64 {
    length as u64 + MESSAGE_OVERHEAD
}

/// What this process sends.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    /// The number of the last message.
    last: u64,
    /// What was announced, and is not over.
    sends: BTreeMap<u64, PendingSend>,
    calls: BTreeMap<CallId, u64>,
    /// What has gone to each receiver unasked.
    budgets: BTreeMap<Address, EagerBudget>,
}

/// A message that was announced.
#[derive(Debug)]
struct PendingSend {
    call: CallId,
    to: Address,
    tag: u32,
    total: u64,
    /// What has not been sent.
    rest: Bytes,
}

#[derive(Debug, Default)]
struct EagerBudget {
    spent: u64,
    /// What the receiver has taken.
    consumed: u64,
}

impl EagerBudget {
    /// Takes as much, if as much is left.
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

    /// To somebody elsewhere.
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

    /// Gives a call up, if it is one of these.
    pub(super) fn cancel(&mut self, call: CallId, ctx: &mut P2pContext<'_>) -> bool {
        let Some(&id) = self.calls.get(&call) else { return false };
        if let Some(PendingSend { to, tag, .. }) = self.remove(id) {
            ctx.control(to, P2pMessage::Withdrawn { id, tag });
        }
        true
    }

    /// So much of a message may be sent.
    pub(super) fn pulled(&mut self, by: Address, id: u64, limit: u64, ctx: &mut P2pContext<'_>) {
        let Some(pending) = self.sends.get_mut(&id).filter(|pending| pending.to == by) else { return };
        let limit = limit.min(pending.total);
        let mut offset = pending.total - pending.rest.len() as u64;
        // Of a message without bytes goes one chunk as well.
        while offset < limit || pending.total == 0 {
            // What is left fits into memory, since it is there.
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

    /// The rest of a message is not wanted.
    pub(super) fn rejected(&mut self, by: Address, id: u64, why: RejectReason, ctx: &mut P2pContext<'_>) {
        if self.sends.get(&id).is_none_or(|pending| pending.to != by) {
            return;
        }
        let Some(pending) = self.remove(id) else { return };
        let result = match why {
            // The receiver had called for it, and does not care any more: it has got what it wanted.
            RejectReason::Cancelled => Ok(Outcome::Done),
            RejectReason::OutOfMemory => Err(CommError::OutOfMemory(pending.total)),
            RejectReason::Protocol => Err(CommError::Protocol("the receiver could not use what came")),
        };
        ctx.finish(pending.call, result);
    }

    /// A receiver has taken so much of what went unasked.
    pub(super) fn consumed(&mut self, by: Address, limit: u64) {
        let budget = self.budgets.get_mut(&by);
        if let Some(budget) = budget.filter(|budget| (budget.consumed..=budget.spent).contains(&limit)) {
            budget.consumed = limit;
        }
    }

    /// Some are gone.
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
