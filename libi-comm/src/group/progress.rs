//! Which collective calls are over in this process and at its neighbors, and by how much this
//! process may be ahead of them.
//!
//! A process that completes calls locally is not held up by a neighbor that is slow to make them. So
//! that frames do not accumulate there without limit, a process sends frames of a call over a link
//! only when all but the last [`lead`](Completion::lead) calls before it are over at the other end,
//! and no more than [`lead_bytes`](Completion::lead_bytes) were sent for calls that are not. Each process reports to its
//! neighbors whenever half of that number of calls are over, or one with much data.
//!
//! In the same way, a member completes a call only when all but the last `lead` calls before it are
//! over in its own process, which forwards for others.
//!
//! The lowest number that is not over everywhere can always be sent: few bytes are sent in calls that
//! are over and not reported. So the limits delay no call that others wait for.
//!
//! A frame of call `n` that arrives over a link shows that `n` was not over at its sender. The
//! signature of a call is therefore kept until the call is over at all neighbors: a frame whose
//! signature differs is recognised even if the call is over here.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use libi_core::ids::{LinkId, Rank};

use super::link_map::LinkMap;
use crate::contract::Completion;
use crate::message::CallSignature;

/// What is known of a neighbor.
#[derive(Debug, Default)]
struct Neighbor {
    /// All calls before this number are over there.
    over: u64,
    /// How many bytes were sent to it in other calls, by ascending numbers, and the sum.
    sent: VecDeque<(u64, u64)>,
    sum: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Progress {
    lead: u64,
    lead_bytes: u64,
    /// All calls before this number are over, and those in `others`.
    before: u64,
    others: BTreeSet<u64>,
    /// Calls in which no member here or below takes part, though fences pass here; and those that are over.
    early: Range<u64>,
    early_over: BTreeSet<u64>,
    /// The neighbors with which calls are exchanged.
    neighbors: LinkMap<Neighbor>,
    /// The last number that was reported to neighbors.
    reported: u64,
    /// Calls with much data that are over and not reported.
    owed: BTreeSet<u64>,
    /// A member that made a call which is over, and what it called, by ascending numbers.
    signatures: VecDeque<(u64, (Rank, CallSignature))>,
}

impl Progress {
    pub(crate) fn new(completion: Completion, links: impl Iterator<Item = LinkId>) -> Self {
        let neighbors = links.map(|link| (link, Neighbor::default())).collect();
        let Completion { lead, lead_bytes, .. } = completion;
        // Headers are counted here and not in what arrives.
        let (lead, lead_bytes) = (lead.max(2), lead_bytes.max(64 * lead));
        Self { lead, lead_bytes, neighbors, ..Self::default() }
    }

    /// All calls from this number on begin anew. Members take part from another one on, here and below, and at
    /// each neighbor from one of its own.
    pub(crate) fn restart(
        &mut self,
        first: u64,
        begins: u64,
        links: impl IntoIterator<Item = (LinkId, u64)>,
    ) {
        let neighbor = |over| Neighbor { over, ..Neighbor::default() };
        self.neighbors = links.into_iter().map(|(link, over)| (link, neighbor(over))).collect();
        (self.before, self.reported) = (begins, begins);
        self.early = first..begins;
        self.early_over.clear();
        self.others.clear();
        self.owed.clear();
        self.signatures.clear();
    }

    /// Whether a call is over in this process.
    pub(crate) fn is_over(&self, nth: u64) -> bool {
        if self.early.contains(&nth) {
            return self.early_over.contains(&nth);
        }
        nth < self.before || self.others.contains(&nth)
    }

    /// Whether no member here or below takes part in a call, of those that begin anew.
    pub(crate) fn is_early(&self, nth: u64) -> bool {
        self.early.contains(&nth)
    }

    /// The calls before this number that are not over in this process. Neighbors that keep to the lead have
    /// sent frames of no later ones than these.
    pub(crate) fn not_over(&self, before: u64) -> impl Iterator<Item = u64> + '_ {
        let end = before.min(self.before.saturating_add(self.lead));
        (self.before..end).filter(|nth| !self.is_over(*nth))
    }

    /// Whether frames of a call may be sent over a link.
    pub(crate) fn may_send(&self, nth: u64, link: LinkId) -> bool {
        self.neighbors.get(link).is_none_or(|neighbor| {
            // Calls before one that has begun may not wait for it.
            let is_last = neighbor.sent.back().is_none_or(|(last, _)| *last < nth);
            nth < neighbor.over.saturating_add(self.lead) && !(is_last && neighbor.sum > self.lead_bytes)
        })
    }

    /// So many bytes of a call have been sent over a link.
    pub(crate) fn sent(&mut self, nth: u64, link: LinkId, bytes: u64) {
        if let Some(neighbor) = self.neighbors.get_mut(link).filter(|neighbor| neighbor.over <= nth) {
            *entry(&mut neighbor.sent, nth, 0) += bytes;
            neighbor.sum += bytes;
        }
    }

    /// Whether this member may complete a call.
    pub(crate) const fn may_complete(&self, nth: u64) -> bool {
        nth < self.before + self.lead
    }

    /// A call is over in this process, in which so many bytes have arrived; with this signature, or
    /// aborted, without one. Returns the calls that this member may complete from now on.
    pub(crate) fn over(&mut self, nth: u64, by: Option<(Rank, CallSignature)>, arrived: u64) -> Range<u64> {
        let first = self.before + self.lead;
        if self.early.contains(&nth) {
            self.early_over.insert(nth);
            return first..first;
        }
        if arrived > self.much() || by.is_none() {
            self.owed.insert(nth);
        }
        if nth == self.before {
            self.before += 1;
            while self.others.first() == Some(&self.before) {
                self.others.pop_first();
                self.before += 1;
            }
        } else if nth > self.before {
            self.others.insert(nth);
        }
        match by {
            Some(by) if self.neighbors.values().any(|neighbor| neighbor.over <= nth) => {
                *entry(&mut self.signatures, nth, by) = by;
            }
            Some(_) => {}
            None => self.signatures.retain(|(other, _)| *other != nth),
        }
        first..self.before + self.lead
    }

    /// All calls before this number are over. Returns the calls that this member may complete from now on.
    pub(crate) fn all_over(&mut self, before: u64) -> Range<u64> {
        let first = self.before + self.lead;
        self.early.start = self.early.start.max(before);
        if self.before < before {
            self.owed.insert(before - 1);
            self.others = self.others.split_off(&before);
            self.before = before;
            while self.others.first() == Some(&self.before) {
                self.others.pop_first();
                self.before += 1;
            }
        }
        first..self.before + self.lead
    }

    /// A call with more bytes is reported when it is over, so that calls which are not reported have
    /// a quarter of the bytes at most that may be sent in advance.
    const fn much(&self) -> u64 {
        self.lead_bytes / (2 * self.lead)
    }

    /// The number to report to the neighbors, if it is time.
    pub(crate) fn report(&mut self) -> Option<u64> {
        let much = self.owed.first().is_some_and(|nth| *nth < self.before);
        let is_due = much || self.before >= self.reported + self.lead / 2;
        is_due.then(|| {
            self.reported = self.before;
            self.owed = self.owed.split_off(&self.before);
            self.before
        })
    }

    /// A neighbor has reported. Returns the calls whose frames may be sent to it from now on.
    pub(crate) fn on_report(&mut self, link: LinkId, before: u64) -> Range<u64> {
        let Some(neighbor) = self.neighbors.get_mut(link).filter(|neighbor| neighbor.over < before) else {
            return 0..0;
        };
        // Calls that were held up by the number of bytes may have any number.
        let freed = neighbor.over..before.saturating_add(self.lead);
        neighbor.over = before;
        while let Some(bytes) = pop_before(&mut neighbor.sent, before) {
            neighbor.sum -= bytes;
        }
        self.forget_signatures();
        freed
    }

    /// A link is closed.
    pub(crate) fn cut(&mut self, link: LinkId) {
        self.neighbors.remove(link);
        self.forget_signatures();
    }

    /// What was called in a call that is over here.
    pub(crate) fn signature(&self, nth: u64) -> Option<(Rank, CallSignature)> {
        let place = self.signatures.binary_search_by_key(&nth, |(other, _)| *other).ok()?;
        self.signatures.get(place).map(|(_, by)| *by)
    }

    fn forget_signatures(&mut self) {
        let needed = self.neighbors.values().map(|neighbor| neighbor.over).min().unwrap_or(u64::MAX);
        while pop_before(&mut self.signatures, needed).is_some() {}
    }
}

/// Takes the first entry of such a list, if it is of a call before this number.
fn pop_before<T>(list: &mut VecDeque<(u64, T)>, number: u64) -> Option<T> {
    list.front().filter(|(nth, _)| *nth < number)?;
    list.pop_front().map(|(_, noted)| noted)
}

/// What is noted of a call in a list by ascending numbers, to which most calls are added at the end.
fn entry<T>(list: &mut VecDeque<(u64, T)>, nth: u64, default: T) -> &mut T {
    let place = match list.back() {
        Some((last, _)) if *last >= nth => list.partition_point(|(other, _)| *other < nth),
        _ => list.len(),
    };
    if list.get(place).is_none_or(|(other, _)| *other != nth) {
        list.insert(place, (nth, default));
    }
    &mut list[place].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Kind, Length};

    const BY: (Rank, CallSignature) =
        (Rank(1), CallSignature { kind: Kind::Barrier, root: None, length: Length::Unknown });

    const BYTES: u64 = 1_000;

    fn progress() -> Progress {
        let completion = Completion { strict: false, lead: 4, lead_bytes: BYTES, ..Completion::default() };
        Progress::new(completion, [LinkId(1), LinkId(2)].into_iter())
    }

    #[test]
    fn a_process_is_ahead_of_each_neighbor_by_the_lead_at_most() {
        let mut progress = progress();
        assert!(progress.may_send(3, LinkId(1)) && !progress.may_send(4, LinkId(1)));
        assert_eq!(progress.on_report(LinkId(1), 2), 0..6);
        assert!(progress.on_report(LinkId(1), 1).is_empty(), "what is over stays over");
        assert!(progress.may_send(5, LinkId(1)) && !progress.may_send(4, LinkId(2)));
        progress.cut(LinkId(2));
        assert!(progress.may_send(1_000, LinkId(2)), "frames for a closed link go nowhere");
    }

    #[test]
    fn every_half_of_the_lead_is_reported_once_all_calls_before_are_over() {
        let mut progress = progress();
        let mut over = |nth| (progress.over(nth, Some(BY), 0), progress.report());
        assert_eq!(over(1), (4..4, None), "call 0 is not over");
        assert_eq!(over(0), (4..6, Some(2)));
        assert_eq!(over(2), (6..7, None));
        assert_eq!(over(3), (7..8, Some(4)));
        assert!(progress.is_over(3) && !progress.is_over(4));
        assert!(progress.may_complete(7) && !progress.may_complete(8));
        progress.over(5, Some(BY), 0);
        assert!(progress.not_over(7).eq([4, 6]) && progress.not_over(u64::MAX).eq([4, 6, 7]));
    }

    #[test]
    fn a_call_with_much_data_is_reported_and_no_other_is_begun_until_then() {
        let mut progress = progress();
        progress.sent(1, LinkId(1), BYTES + 1);
        assert!(progress.may_send(0, LinkId(1)) && progress.may_send(1, LinkId(1)), "it is not held up");
        assert!(!progress.may_send(2, LinkId(1)) && progress.may_send(2, LinkId(2)));
        assert_eq!(progress.on_report(LinkId(1), 2), 0..6);
        assert!(progress.may_send(2, LinkId(1)));
        progress.over(0, Some(BY), BYTES / 8 + 1);
        assert_eq!(progress.report(), Some(1));
        progress.over(1, Some(BY), BYTES / 8);
        assert_eq!(progress.report(), None);
        progress.over(2, None, 0);
        assert_eq!(progress.report(), Some(3), "whatever was sent for an aborted call");
        progress.over(4, Some(BY), BYTES);
        assert_eq!(progress.report(), None, "a call before it is not over");
        progress.over(3, Some(BY), 0);
        assert_eq!(progress.report(), Some(5));
    }

    #[test]
    fn calls_that_all_have_completed_are_over_and_reported() {
        let mut progress = progress();
        progress.over(1, Some(BY), 0);
        progress.over(3, Some(BY), 0);
        assert_eq!((progress.all_over(3), progress.report()), (4..8, Some(4)), "call 3 was over before");
        assert!(progress.is_over(0) && progress.is_over(2) && !progress.is_over(4));
        assert_eq!((progress.all_over(2), progress.report()), (8..8, None));
    }

    #[test]
    fn signatures_are_kept_until_the_call_is_over_at_all_neighbors() {
        let mut progress = progress();
        for nth in 0..4 {
            let _ = progress.over(nth, Some(BY), 0);
        }
        progress.on_report(LinkId(1), 4);
        assert_eq!(progress.signature(0), Some(BY));
        progress.on_report(LinkId(2), 2);
        assert_eq!([0, 1, 2].map(|nth| progress.signature(nth)), [None, None, Some(BY)]);
        progress.over(3, None, 0);
        assert_eq!(progress.signature(3), None, "an aborted call has none");
    }
}
