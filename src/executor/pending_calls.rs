//! Calls that have not completed, or whose result has not been taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ranks::Ranks;

use super::primitives::Primitives;
use super::ready_fd::ReadyFd;
use super::{CallResult, Completed, GroupId};

/// See the [module](self).
pub(super) struct PendingCalls<P: Primitives> {
    last: u64,
    open: BTreeMap<CallId, CallSlot<P>>,
    /// The number of calls with a waiter.
    waiters: usize,
    /// The number of calls that completed without a waiter, and whose result has not been taken.
    unclaimed: usize,
    /// Readable while `unclaimed` is not zero. Made on request.
    ready_fd: Option<ReadyFd>,
}

struct CallSlot<P: Primitives> {
    group: GroupId,
    answer: Option<Result<Outcome, CommError>>,
    /// The lost members without which it has completed.
    missing: Ranks,
    /// The result arrived while no thread waited for it.
    unclaimed: bool,
    /// Wakes the thread that waits for this call.
    waiter: Option<Arc<P::Condvar>>,
}

impl<P: Primitives> PendingCalls<P> {
    pub(super) fn new() -> Self {
        Self { last: 0, open: BTreeMap::new(), waiters: 0, unclaimed: 0, ready_fd: None }
    }

    /// Adds a call.
    pub(super) fn open(&mut self, group: GroupId) -> CallId {
        self.last += 1;
        let id = CallId(self.last);
        self.open.insert(
            id,
            CallSlot { group, answer: None, missing: Ranks::new(), unclaimed: false, waiter: None },
        );
        id
    }

    /// Completes a call. The first result counts.
    pub(super) fn finish(&mut self, id: CallId, answer: Result<Outcome, CommError>) {
        if let Some(slot) = self.open.get_mut(&id).filter(|slot| slot.answer.is_none()) {
            slot.answer = Some(answer);
            match &slot.waiter {
                Some(waiter) => P::notify_one(waiter),
                None => {
                    slot.unclaimed = true;
                    self.unclaimed += 1;
                    self.update_ready_fd();
                }
            }
        }
    }

    /// A call that is about to complete does so without these members.
    pub(super) fn missing(&mut self, id: CallId, ranks: Ranks) {
        if let Some(slot) = self.open.get_mut(&id) {
            slot.missing = ranks;
        }
    }

    /// Keeps this descriptor readable while there are unclaimed results.
    pub(super) fn attach(&mut self, ready_fd: ReadyFd) {
        self.ready_fd = Some(ready_fd);
        self.update_ready_fd();
    }

    fn update_ready_fd(&mut self) {
        if let Some(ready_fd) = &mut self.ready_fd {
            ready_fd.set(self.unclaimed > 0);
        }
    }

    /// Ends all calls of one group, or of all groups.
    pub(super) fn end(&mut self, group: Option<GroupId>) {
        let mine =
            |slot: &CallSlot<P>| group.is_none_or(|group| slot.group == group) && slot.answer.is_none();
        let ids: Vec<_> = self.open.iter().filter(|(_, slot)| mine(slot)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.finish(id, Err(CommError::Ended)));
    }

    /// Takes the result of a call, if it has completed.
    pub(super) fn take(&mut self, id: CallId) -> Option<CallResult> {
        let slot = self.open.get_mut(&id)?;
        let (answer, missing) = (slot.answer.take()?, std::mem::take(&mut slot.missing));
        self.forget(id);
        Some(answer.map(|outcome| Completed { outcome, missing }))
    }

    pub(super) fn forget(&mut self, id: CallId) {
        let Some(slot) = self.open.remove(&id) else { return };
        if slot.waiter.is_some() {
            self.waiters -= 1;
        }
        if slot.unclaimed {
            self.unclaimed -= 1;
            self.update_ready_fd();
        }
    }

    /// The group of a call; `None` if the call was discarded.
    pub(super) fn group(&self, id: CallId) -> Option<GroupId> {
        self.open.get(&id).map(|slot| slot.group)
    }

    /// Registers a waiter for a call; `None` if the call was discarded.
    pub(super) fn add_waiter(&mut self, id: CallId) -> Option<Arc<P::Condvar>> {
        let slot = self.open.get_mut(&id)?;
        let waiter = Arc::new(P::condvar());
        if slot.waiter.replace(Arc::clone(&waiter)).is_none() {
            self.waiters += 1;
        }
        Some(waiter)
    }

    pub(super) fn remove_waiter(&mut self, id: CallId) {
        if self.open.get_mut(&id).is_some_and(|slot| slot.waiter.take().is_some()) {
            self.waiters -= 1;
        }
    }

    /// Whether any call has a waiter.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiters > 0
    }

    /// Wakes one waiter; false if there is none.
    pub(super) fn wake_one(&self) -> bool {
        let waiter = self.open.values().find_map(|slot| slot.waiter.as_ref());
        let waiter = waiter.filter(|_| self.has_waiters());
        waiter.inspect(|waiter| P::notify_one(waiter)).is_some()
    }

    /// Wakes all waiters.
    pub(super) fn wake_all(&self) {
        self.open.values().filter_map(|slot| slot.waiter.as_ref()).for_each(|waiter| P::notify_one(waiter));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
