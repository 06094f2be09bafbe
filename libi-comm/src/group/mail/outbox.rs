//! Decides what is sent at once, what is announced, and how much of it follows.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Note, Post, ShellError, lost};
use crate::contract::{Address, CallId, Outcome};
use crate::error::CommError;

/// Longer messages are always announced.
pub(super) const SHORT: usize = 16 << 10;

/// As much may go to a receiver unasked, before its program takes any.
pub(super) const AHEAD: u64 = 256 << 10;

/// What keeping a message costs beside its bytes, or those of no length would cost nothing.
const KEEPING: u64 = 64;

/// The longest chunk: with its head, a frame of 128 KiB.
pub(super) const CHUNK: usize = (128 << 10) - 64;

/// What a message counts for that goes unasked.
pub(super) const fn cost(length: usize) -> u64 {
    length as u64 + KEEPING
}

/// What this process sends.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The number of the last message.
    last: u64,
    /// What was announced, and is not over.
    sends: BTreeMap<u64, Sending>,
    calls: BTreeMap<CallId, u64>,
    /// What has gone to each receiver unasked.
    budgets: BTreeMap<Address, Budget>,
}

/// A message that was announced.
#[derive(Debug)]
struct Sending {
    call: CallId,
    to: Address,
    tag: u32,
    total: u64,
    /// What has not been sent.
    rest: Bytes,
}

#[derive(Debug, Default)]
struct Budget {
    spent: u64,
    /// What the receiver has taken.
    read: u64,
}

impl Budget {
    /// Takes as much, if as much is left.
    const fn spend(&mut self, cost: u64) -> bool {
        let fits = self.spent - self.read + cost <= AHEAD;
        if fits {
            self.spent += cost;
        }
        fits
    }
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// To somebody elsewhere.
    pub(super) fn send(&mut self, call: CallId, to: Address, tag: u32, data: Bytes, post: &mut Post<'_>) {
        self.last += 1;
        let id = self.last;
        if data.len() <= SHORT && self.budgets.entry(to).or_default().spend(cost(data.len())) {
            post.mail(to, Note::Whole { id, tag }, data);
            return post.finish(call, Ok(Outcome::Done));
        }
        let total = data.len() as u64;
        post.note(to, Note::Offer { id, tag, total });
        self.calls.insert(call, id);
        self.sends.insert(id, Sending { call, to, tag, total, rest: data });
    }

    /// Gives a call up, if it is one of these.
    pub(super) fn cancel(&mut self, call: CallId, post: &mut Post<'_>) -> bool {
        let Some(&id) = self.calls.get(&call) else { return false };
        if let Some(Sending { to, tag, .. }) = self.over(id) {
            post.note(to, Note::Withdrawn { id, tag });
        }
        true
    }

    /// So much of a message may be sent.
    pub(super) fn pulled(&mut self, by: Address, id: u64, upto: u64, post: &mut Post<'_>) {
        let Some(sending) = self.sends.get_mut(&id).filter(|sending| sending.to == by) else { return };
        let upto = upto.min(sending.total);
        let mut offset = sending.total - sending.rest.len() as u64;
        // Of a message without bytes goes one chunk as well.
        while offset < upto || sending.total == 0 {
            // What is left fits into memory, since it is there.
            let most = usize::try_from(upto - offset).unwrap_or(CHUNK).min(CHUNK);
            let chunk = sending.rest.split_to(most);
            post.mail(by, Note::Chunk { id, offset }, chunk);
            offset += most as u64;
            if sending.rest.is_empty() {
                let call = sending.call;
                self.over(id);
                return post.finish(call, Ok(Outcome::Done));
            }
        }
    }

    /// The rest of a message is not wanted.
    pub(super) fn refused(&mut self, by: Address, id: u64, why: ShellError, post: &mut Post<'_>) {
        if self.sends.get(&id).is_none_or(|sending| sending.to != by) {
            return;
        }
        let Some(sending) = self.over(id) else { return };
        let result = match why {
            // The receiver had called for it, and does not care any more: it has got what it wanted.
            ShellError::GivenUp => Ok(Outcome::Done),
            ShellError::NoMemory => Err(CommError::NoMemory(sending.total)),
            ShellError::Protocol => Err(CommError::Protocol("the receiver could not use what came")),
        };
        post.finish(sending.call, result);
    }

    /// A receiver has taken so much of what went unasked.
    pub(super) fn read(&mut self, by: Address, upto: u64) {
        let budget = self.budgets.get_mut(&by);
        if let Some(budget) = budget.filter(|budget| (budget.read..=budget.spent).contains(&upto)) {
            budget.read = upto;
        }
    }

    /// Some are gone.
    pub(super) fn gone(&mut self, among: &dyn Fn(Address) -> bool, post: &mut Post<'_>) {
        self.budgets.retain(|to, _| !among(*to));
        let over: Vec<u64> =
            self.sends.iter().filter(|(_, sending)| among(sending.to)).map(|(id, _)| *id).collect();
        for sending in over.into_iter().filter_map(|id| self.over(id)) {
            post.finish(sending.call, Err(lost(sending.to)));
        }
    }

    fn over(&mut self, id: u64) -> Option<Sending> {
        let sending = self.sends.remove(&id)?;
        self.calls.remove(&sending.call);
        Some(sending)
    }
}
