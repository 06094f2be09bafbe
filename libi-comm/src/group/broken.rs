//! Collective calls that were aborted, and the members that have still to hear of it.
//!
//! An abort is passed on by every process once, to all neighbors but the one that has reported it.
//! For a member it is one of these:
//!
//! | the member | hears of it |
//! |---|---|
//! | has not made the call | when it makes the call, which fails at once |
//! | is in the call, or its result is not reported | at once: the call fails |
//! | has completed the call | in its earliest call that has no result yet, or else in its next |
//!
//! In the last case the call in which the member hears of the abort is aborted as well, for the same
//! cause and with the same origin, so that all members fail in it or are past it. An abort whose
//! origin is another call is not reported to members that have completed the call: they hear of the
//! origin itself. So every member that had completed a call breaks at most one further call for its
//! failure, and all continue with the same numbers.

use std::collections::BTreeMap;

use crate::error::{AbortCause, CommError};

/// How many aborted calls are remembered. An abort that is reported again later than that is passed
/// on again.
const REMEMBERED: usize = 4_096;

/// Why a call was aborted: the call that was aborted first, and the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Break {
    pub(crate) origin: u64,
    pub(crate) why: AbortCause,
}

impl Break {
    pub(crate) fn into_error(self) -> CommError {
        self.why.into_error(self.origin)
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct BrokenCalls {
    /// Aborted calls, and why.
    aborted: BTreeMap<u64, Break>,
    /// Calls that were aborted before this member made them.
    future: BTreeMap<u64, Break>,
    /// An abort of a call that this member had completed, and that it has not heard of.
    unreported: Option<Break>,
}

impl BrokenCalls {
    /// Notes that a call is aborted. False if that is known.
    pub(crate) fn add(&mut self, nth: u64, broken: &Break) -> bool {
        let is_new = !self.contains(nth);
        if is_new {
            self.aborted.insert(nth, broken.clone());
        }
        if self.aborted.len() > REMEMBERED {
            self.aborted.pop_first();
        }
        is_new
    }

    /// All aborted calls that are remembered.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Break)> {
        self.aborted.iter().map(|(nth, broken)| (*nth, broken))
    }

    /// Whether a call is aborted.
    pub(crate) fn contains(&self, nth: u64) -> bool {
        self.aborted.contains_key(&nth)
    }

    /// The aborted calls from this number on.
    pub(crate) fn from(&self, first: u64) -> impl Iterator<Item = u64> {
        self.aborted.range(first..).map(|(nth, _)| *nth)
    }

    /// The member will fail in a call that it has not made yet.
    pub(crate) fn add_future(&mut self, nth: u64, broken: Break) {
        self.future.insert(nth, broken);
    }

    /// The member has to hear of this in its next call.
    pub(crate) fn owe(&mut self, broken: Break) {
        self.unreported.get_or_insert(broken);
    }

    /// What the member has to hear of in the call that it makes.
    pub(crate) fn due(&mut self, nth: u64) -> Option<Due> {
        let Some(broken) = self.future.remove(&nth) else {
            return self.unreported.take().map(Due::Unreported);
        };
        self.unreported.take_if(|unreported| unreported.origin == broken.origin);
        Some(Due::Aborted(broken))
    }
}

/// What a member has to hear of in a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The call is aborted.
    Aborted(Break),
    /// An earlier call was, and this one has to be.
    Unreported(Break),
}

#[cfg(test)]
mod tests {
    use super::*;
    use libi_core::ids::Rank;

    fn broken(origin: u64) -> Break {
        Break { origin, why: AbortCause::Cancelled(Rank(2)) }
    }

    #[test]
    fn a_member_hears_of_a_completed_call_in_its_next_one() {
        let mut calls = BrokenCalls::default();
        assert!(calls.add(7, &broken(7)) && !calls.add(7, &broken(9)));
        assert_eq!(calls.all().collect::<Vec<_>>(), [(7, &broken(7))]);
        calls.owe(broken(7));
        calls.add_future(9, broken(9));
        assert_eq!(calls.due(9), Some(Due::Aborted(broken(9))), "a call that fails anyway reports itself");
        assert_eq!(calls.due(10), Some(Due::Unreported(broken(7))));
        assert_eq!(calls.due(11), None);
        calls.owe(broken(8));
        calls.add_future(12, broken(8));
        assert_eq!(calls.due(12), Some(Due::Aborted(broken(8))), "by another member, for the same origin");
        assert_eq!(calls.due(13), None);
    }

    #[test]
    fn the_latest_aborted_calls_are_remembered() {
        let mut calls = BrokenCalls::default();
        (0..=REMEMBERED as u64).for_each(|nth| assert!(calls.add(nth, &broken(nth))));
        assert!(!calls.add(1, &broken(1)) && calls.add(0, &broken(0)), "the first was forgotten");
    }
}
