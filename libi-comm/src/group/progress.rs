//! Which collective calls are over in this process and at its neighbors, and by how much this
//! process may be ahead of them.
//!
//! A process that completes calls locally is not held up by a neighbor that is slow to make them. So
//! that frames do not accumulate there without limit, a process sends frames of a call over a link
//! only when all but the last [`lead`](Completion::lead) calls before it are over at the other end.
//! Each process reports to its neighbors whenever half of that number are over.
//!
//! In the same way, a member completes a call only when all but the last `lead` calls before it are
//! over in its own process, which forwards for others.
//!
//! The lowest number that is not over everywhere can always be sent, so the limit delays no call
//! that others wait for.
//!
//! A frame of call `n` that arrives over a link shows that `n` was not over at its sender. The
//! signature of a call is therefore kept until the call is over at all neighbors: a frame whose
//! signature differs is recognised even if the call is over here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use libi_core::ids::{LinkId, Rank};

use crate::contract::Completion;
use crate::message::CallSignature;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Progress {
    lead: u64,
    /// All calls before this number are over, and those in `others`.
    before: u64,
    others: BTreeSet<u64>,
    /// For each neighbor with which calls are exchanged: the number before which all are over there.
    neighbors: BTreeMap<LinkId, u64>,
    /// The last number that was reported to neighbors.
    reported: u64,
    /// A member that made a call which is over, and what it called.
    signatures: BTreeMap<u64, (Rank, CallSignature)>,
}

impl Progress {
    pub(crate) fn new(completion: Completion, links: impl Iterator<Item = LinkId>) -> Self {
        let neighbors = links.map(|link| (link, 0)).collect();
        Self { lead: completion.lead.max(2), neighbors, ..Self::default() }
    }

    /// Whether a call is over in this process.
    pub(crate) fn is_over(&self, nth: u64) -> bool {
        nth < self.before || self.others.contains(&nth)
    }

    /// Whether frames of a call may be sent over a link.
    pub(crate) fn may_send(&self, nth: u64, link: LinkId) -> bool {
        self.neighbors.get(&link).is_none_or(|over| nth < over.saturating_add(self.lead))
    }

    /// Whether this member may complete a call.
    pub(crate) const fn may_complete(&self, nth: u64) -> bool {
        nth < self.before + self.lead
    }

    /// A call is over in this process, with this signature, or aborted, without one. Returns the
    /// calls that this member may complete from now on.
    pub(crate) fn over(&mut self, nth: u64, by: Option<(Rank, CallSignature)>) -> Range<u64> {
        let first = self.before + self.lead;
        if nth >= self.before {
            self.others.insert(nth);
        }
        while self.others.remove(&self.before) {
            self.before += 1;
        }
        match by {
            Some(by) if self.neighbors.values().any(|over| *over <= nth) => {
                self.signatures.insert(nth, by);
            }
            Some(_) => {}
            None => drop(self.signatures.remove(&nth)),
        }
        first..self.before + self.lead
    }

    /// The number to report to the neighbors, if it is time.
    pub(crate) fn report(&mut self) -> Option<u64> {
        let is_due = self.before >= self.reported + self.lead / 2;
        is_due.then(|| {
            self.reported = self.before;
            self.before
        })
    }

    /// A neighbor has reported. Returns the calls whose frames may be sent to it from now on.
    pub(crate) fn on_report(&mut self, link: LinkId, before: u64) -> Range<u64> {
        let Some(over) = self.neighbors.get_mut(&link).filter(|over| **over < before) else { return 0..0 };
        let freed = over.saturating_add(self.lead)..before.saturating_add(self.lead);
        *over = before;
        self.forget_signatures();
        freed
    }

    /// A link is closed.
    pub(crate) fn cut(&mut self, link: LinkId) {
        self.neighbors.remove(&link);
        self.forget_signatures();
    }

    /// What was called in a call that is over here.
    pub(crate) fn signature(&self, nth: u64) -> Option<(Rank, CallSignature)> {
        self.signatures.get(&nth).copied()
    }

    fn forget_signatures(&mut self) {
        let needed = self.neighbors.values().copied().min().unwrap_or(u64::MAX);
        self.signatures = self.signatures.split_off(&needed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Kind, Length};

    const BY: (Rank, CallSignature) =
        (Rank(1), CallSignature { kind: Kind::Barrier, root: None, length: Length::Unknown });

    fn progress() -> Progress {
        let completion = Completion { strict: false, lead: 4 };
        Progress::new(completion, [LinkId(1), LinkId(2)].into_iter())
    }

    #[test]
    fn a_process_is_ahead_of_each_neighbor_by_the_lead_at_most() {
        let mut progress = progress();
        assert!(progress.may_send(3, LinkId(1)) && !progress.may_send(4, LinkId(1)));
        assert_eq!(progress.on_report(LinkId(1), 2), 4..6);
        assert!(progress.on_report(LinkId(1), 1).is_empty(), "what is over stays over");
        assert!(progress.may_send(5, LinkId(1)) && !progress.may_send(4, LinkId(2)));
        progress.cut(LinkId(2));
        assert!(progress.may_send(1_000, LinkId(2)), "frames for a closed link go nowhere");
    }

    #[test]
    fn every_half_of_the_lead_is_reported_once_all_calls_before_are_over() {
        let mut progress = progress();
        let mut over = |nth| (progress.over(nth, Some(BY)), progress.report());
        assert_eq!(over(1), (4..4, None), "call 0 is not over");
        assert_eq!(over(0), (4..6, Some(2)));
        assert_eq!(over(2), (6..7, None));
        assert_eq!(over(3), (7..8, Some(4)));
        assert!(progress.is_over(3) && !progress.is_over(4));
        assert!(progress.may_complete(7) && !progress.may_complete(8));
    }

    #[test]
    fn signatures_are_kept_until_the_call_is_over_at_all_neighbors() {
        let mut progress = progress();
        for nth in 0..4 {
            let _ = progress.over(nth, Some(BY));
        }
        progress.on_report(LinkId(1), 4);
        assert_eq!(progress.signature(0), Some(BY));
        progress.on_report(LinkId(2), 2);
        assert_eq!([0, 1, 2].map(|nth| progress.signature(nth)), [None, None, Some(BY)]);
        progress.over(3, None);
        assert_eq!(progress.signature(3), None, "an aborted call has none");
    }
}
