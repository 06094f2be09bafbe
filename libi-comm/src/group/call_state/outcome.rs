//! When this member has the result of a call, and what it is.

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::{CallState, OwnPart, Stage};
use crate::contract::Outcome;
use crate::group::GroupView;
use crate::group::flow_control::EAGER;
use crate::group::operation::Senders;
use crate::group::survival::replayed_outcome;

impl CallState {
    /// Whether data of this member are held here, more than a small amount.
    fn holds_own(&self, may_send: impl Fn(LinkId) -> bool) -> bool {
        let most = |link| if !self.agrees && may_send(link) { EAGER } else { 0 };
        let holds_value = !self.agrees && self.holds_value && !self.flow.is_over();
        holds_value || self.sealed.is_some() || self.flow.own_costs().any(|(link, cost)| cost > most(link))
    }

    /// The outcome for this member, once all data have arrived and its own are not held here.
    pub(crate) fn result(&mut self, may_send: impl Fn(LinkId) -> bool, view: &GroupView) -> Option<Outcome> {
        let ready = self.is_done() && self.own == OwnPart::Called;
        if !ready || !self.received.is_complete() || self.holds_own(may_send) {
            return None;
        }
        Some(self.report(view))
    }

    fn report(&mut self, view: &GroupView) -> Outcome {
        self.own = OwnPart::Reported;
        self.outcome.take().unwrap_or_else(|| self.outcome_of_data(view.topology.size))
    }

    fn outcome_of_data(&mut self, size: u32) -> Outcome {
        let data = self.received.take_all();
        if self.replayed_by.is_some() {
            let bytes = data.into_iter().next().unwrap_or_default().1;
            return replayed_outcome(self.by.1.kind, bytes);
        }
        match (&self.combining, self.operation.senders) {
            (_, Senders::None) => Outcome::Done,
            (Some(_), _) if data.is_empty() => Outcome::Done,
            (Some(combining), _) => Outcome::Data(combining.result(data)),
            (None, Senders::Root) => Outcome::Data(data.into_iter().next().unwrap_or_default().1),
            (None, Senders::All) if data.is_empty() => Outcome::Parts(Vec::new()),
            (None, Senders::All) => {
                let mut parts = vec![Bytes::new(); size as usize];
                for (from, bytes) in data {
                    if let Some(part) = parts.get_mut(from as usize) {
                        *part = bytes;
                    }
                }
                Outcome::Parts(parts)
            }
        }
    }

    /// Whether this process has nothing left to do for the call.
    pub(crate) fn is_over(&self) -> bool {
        self.is_done()
            && self.region_receivers.is_empty()
            && self.to_notify.is_empty()
            && self.flow.is_over()
            && matches!(self.own, OwnPart::Reported | OwnPart::None)
            // What a member has reported before is sent to it all the same.
            && self.received.is_complete()
    }

    /// The outcome for this member of a call that all members can complete with what they have.
    pub(crate) fn settle(&mut self, view: &GroupView) -> Option<Outcome> {
        self.stage = Stage::Done;
        let is_open = self.own == OwnPart::Called && self.received.is_complete();
        is_open.then(|| self.report(view))
    }
}
