//! The calls that are not over, or of which nobody has heard yet that they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar};

use libi_comm::{CallId, CommError};

use super::ready_fd::ReadyFd;
use super::{CallResult, GroupId};

/// See the [module](self).
#[derive(Default)]
pub(super) struct PendingCalls {
    last: u64,
    open: BTreeMap<CallId, CallSlot>,
    /// How many have somebody who sleeps for them.
    waiters: usize,
    /// How many are over without anybody having heard of it.
    unclaimed: usize,
    /// Rings while there are such, if anybody wants to hear it.
    ready_fd: Option<ReadyFd>,
}

struct CallSlot {
    group: GroupId,
    answer: Option<CallResult>,
    /// The answer has come when nobody slept for it.
    unclaimed: bool,
    /// Where somebody sleeps for it.
    waiter: Option<Arc<Condvar>>,
}

impl PendingCalls {
    /// Makes room for a new call.
    pub(super) fn open(&mut self, group: GroupId) -> CallId {
        self.last += 1;
        let id = CallId(self.last);
        self.open.insert(id, CallSlot { group, answer: None, unclaimed: false, waiter: None });
        id
    }

    /// A call is over. What came first stays.
    pub(super) fn finish(&mut self, id: CallId, answer: CallResult) {
        if let Some(slot) = self.open.get_mut(&id).filter(|slot| slot.answer.is_none()) {
            slot.answer = Some(answer);
            match &slot.waiter {
                Some(waiter) => waiter.notify_one(),
                None => {
                    slot.unclaimed = true;
                    self.unclaimed += 1;
                    self.update_ready_fd();
                }
            }
        }
    }

    /// Has a bell ring as long as calls are over of which nobody has heard.
    pub(super) fn attach(&mut self, ready_fd: ReadyFd) {
        self.ready_fd = Some(ready_fd);
        self.update_ready_fd();
    }

    fn update_ready_fd(&mut self) {
        if let Some(ready_fd) = &mut self.ready_fd {
            ready_fd.set(self.unclaimed > 0);
        }
    }

    /// All calls of one party, or of all, are over.
    pub(super) fn end(&mut self, group: Option<GroupId>) {
        let mine = |slot: &CallSlot| group.is_none_or(|group| slot.group == group) && slot.answer.is_none();
        let ids: Vec<_> = self.open.iter().filter(|(_, slot)| mine(slot)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.finish(id, Err(CommError::Ended)));
    }

    /// Takes what came of a call, if it is over.
    pub(super) fn take(&mut self, id: CallId) -> Option<CallResult> {
        let answer = self.open.get_mut(&id)?.answer.take()?;
        self.forget(id);
        Some(answer)
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

    /// Whose call it is; nobody's if it is forgotten.
    pub(super) fn group(&self, id: CallId) -> Option<GroupId> {
        self.open.get(&id).map(|slot| slot.group)
    }

    /// Somebody sleeps now until this call is over; nothing if it is forgotten.
    pub(super) fn add_waiter(&mut self, id: CallId) -> Option<Arc<Condvar>> {
        let slot = self.open.get_mut(&id)?;
        let waiter = Arc::new(Condvar::new());
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

    /// Whether somebody sleeps.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiters > 0
    }

    /// Wakes one who sleeps; whether there is one.
    pub(super) fn wake_one(&self) -> bool {
        let waiter = self.open.values().find_map(|slot| slot.waiter.as_ref());
        let waiter = waiter.filter(|_| self.has_waiters());
        waiter.inspect(|waiter| waiter.notify_one()).is_some()
    }

    /// Wakes all who sleep.
    pub(super) fn wake_all(&self) {
        self.open.values().filter_map(|slot| slot.waiter.as_ref()).for_each(|waiter| waiter.notify_one());
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
