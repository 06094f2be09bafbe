//! The results of this member's calls, which are reported in the order of the calls.

use super::{CallResult, Collective};
use crate::contract::Effect;
use crate::error::CommError;
use crate::group::GroupView;
use crate::group::context::CallContext;

impl Collective {
    /// Records the result of this member's call, unless it has one.
    pub(super) fn finish(&mut self, nth: u64, result: CallResult, ctx: &mut CallContext<'_>) {
        if let Ok(place) = self.results.binary_search_by_key(&nth, |entry| entry.0)
            && self.results[place].2.is_none()
        {
            self.note_result(nth, &result, ctx.view);
            self.results[place].2 = Some(result);
        }
        self.report_results(ctx);
    }

    /// Reports all results that are due.
    pub(super) fn report_results(&mut self, ctx: &mut CallContext<'_>) {
        while let Some((_, id, Some(_))) = self.results.front() {
            let id = *id;
            if let Some((nth, _, Some(result))) = self.results.pop_front() {
                if let Some(missing) = self.missing_in.remove(&nth) {
                    ctx.out.push(Effect::Missing(id, missing));
                }
                ctx.out.push(Effect::Finish(id, result));
            }
        }
        self.tell_completed(ctx);
    }

    /// Fails a call of this member whose result is not reported. False if there is none.
    pub(super) fn fail_unreported(&mut self, nth: u64, error: CommError, ctx: &mut CallContext<'_>) -> bool {
        let Some((.., result)) = self.results.iter_mut().find(|(other, ..)| *other == nth) else {
            return false;
        };
        *result = Some(Err(error));
        self.survival.fails(nth);
        self.missing_in.remove(&nth);
        self.report_results(ctx);
        true
    }

    /// The first call that this member has not completed.
    pub(crate) fn completed_here(&self) -> u64 {
        self.results.front().map_or(self.next, |(nth, ..)| *nth)
    }

    /// Whether this member has the result of a call that it has made.
    pub(super) fn has_completed(&self, nth: u64) -> bool {
        let place = self.results.binary_search_by_key(&nth, |(nth, ..)| *nth);
        place.map_or(nth < self.next, |place| self.results[place].2.is_some())
    }

    /// A call of this member has a result.
    fn note_result(&mut self, nth: u64, result: &CallResult, view: &GroupView) {
        if !self.continues() {
            return;
        }
        match (result, view.topology.me) {
            (Ok(outcome), Some(me)) => {
                let missing = self.survival.missing_in(nth);
                if !missing.is_empty() {
                    self.missing_in.insert(nth, missing);
                }
                self.survival.has_result(nth, me, outcome);
            }
            _ => self.survival.fails(nth),
        }
    }
}
