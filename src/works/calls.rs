//! The calls that are not over, or of which nobody has heard yet that they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar};

use libi_comm::{CallId, CommError};

use super::bell::Bell;
use super::{Answer, Party};

/// See the [module](self).
#[derive(Default)]
pub(super) struct Calls {
    last: u64,
    open: BTreeMap<CallId, Slot>,
    /// How many have somebody who sleeps for them.
    sleepers: usize,
    /// How many are over without anybody having heard of it.
    unheard: usize,
    /// Rings while there are such, if anybody wants to hear it.
    bell: Option<Bell>,
}

struct Slot {
    party: Party,
    answer: Option<Answer>,
    /// The answer has come when nobody slept for it.
    unheard: bool,
    /// Where somebody sleeps for it.
    seat: Option<Arc<Condvar>>,
}

impl Calls {
    /// Makes room for a new call.
    pub(super) fn open(&mut self, party: Party) -> CallId {
        self.last += 1;
        let id = CallId(self.last);
        self.open.insert(id, Slot { party, answer: None, unheard: false, seat: None });
        id
    }

    /// A call is over. What came first stays.
    pub(super) fn finish(&mut self, id: CallId, answer: Answer) {
        if let Some(slot) = self.open.get_mut(&id).filter(|slot| slot.answer.is_none()) {
            slot.answer = Some(answer);
            match &slot.seat {
                Some(seat) => seat.notify_one(),
                None => {
                    slot.unheard = true;
                    self.unheard += 1;
                    self.ring();
                }
            }
        }
    }

    /// Has a bell ring as long as calls are over of which nobody has heard.
    pub(super) fn hang(&mut self, bell: Bell) {
        self.bell = Some(bell);
        self.ring();
    }

    fn ring(&mut self) {
        if let Some(bell) = &mut self.bell {
            bell.set(self.unheard > 0);
        }
    }

    /// All calls of one party, or of all, are over.
    pub(super) fn end(&mut self, party: Option<Party>) {
        let mine = |slot: &Slot| party.is_none_or(|party| slot.party == party) && slot.answer.is_none();
        let ids: Vec<_> = self.open.iter().filter(|(_, slot)| mine(slot)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.finish(id, Err(CommError::Ended)));
    }

    /// Takes what came of a call, if it is over.
    pub(super) fn take(&mut self, id: CallId) -> Option<Answer> {
        let answer = self.open.get_mut(&id)?.answer.take()?;
        self.forget(id);
        Some(answer)
    }

    pub(super) fn forget(&mut self, id: CallId) {
        let Some(slot) = self.open.remove(&id) else { return };
        if slot.seat.is_some() {
            self.sleepers -= 1;
        }
        if slot.unheard {
            self.unheard -= 1;
            self.ring();
        }
    }

    /// Whose call it is; nobody's if it is forgotten.
    pub(super) fn party(&self, id: CallId) -> Option<Party> {
        self.open.get(&id).map(|slot| slot.party)
    }

    /// Somebody sleeps now until this call is over; nothing if it is forgotten.
    pub(super) fn sit_down(&mut self, id: CallId) -> Option<Arc<Condvar>> {
        let slot = self.open.get_mut(&id)?;
        let seat = Arc::new(Condvar::new());
        if slot.seat.replace(Arc::clone(&seat)).is_none() {
            self.sleepers += 1;
        }
        Some(seat)
    }

    pub(super) fn stand_up(&mut self, id: CallId) {
        if self.open.get_mut(&id).is_some_and(|slot| slot.seat.take().is_some()) {
            self.sleepers -= 1;
        }
    }

    /// Whether somebody sleeps.
    pub(super) fn has_sleepers(&self) -> bool {
        self.sleepers > 0
    }

    /// Wakes one who sleeps; whether there is one.
    pub(super) fn wake_one(&self) -> bool {
        let seat = self.open.values().find_map(|slot| slot.seat.as_ref());
        let seat = seat.filter(|_| self.has_sleepers());
        seat.inspect(|seat| seat.notify_one()).is_some()
    }

    /// Wakes all who sleep.
    pub(super) fn wake_all(&self) {
        self.open.values().filter_map(|slot| slot.seat.as_ref()).for_each(|seat| seat.notify_one());
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
