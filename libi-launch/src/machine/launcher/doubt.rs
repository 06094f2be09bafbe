//! What a leader does once its first launches speak against it, and what its parent does then.
//!
//! One login that was denied, or one shell that could not be started, tells little, but the next ones
//! probably end alike (see `health.rs`). Until that is decided, no other launcher should wait for it:
//!
//! | event | leader | parent |
//! |---|---|---|
//! | the first such failure | `InDoubt(true)`; hands back what waits, but for what it needs to decide | gives it no hosts, and none to others unless enough have launched a host; goes on with the returned ones |
//! | a share arrives | hands it back likewise | |
//! | a child that has moved there hands back a host | passes it on | goes on with it |
//! | a launch succeeds | `InDoubt(false)` | may give it hosts again |
//! | the launches that decide have failed | `CannotLaunch`, and hands back the rest (`hand_back.rs`) | counts it as unable, no longer as in doubt |
//! | the leader ends, or is lost | | counts it no longer |
//!
//! The launches that decide are few and have deadlines, so the doubt ends. It is not reported where
//! the parent does not launch beside the leader: in static trees, and by the leader of the first host if the
//! front end leaves launching to it.

use super::health::FEW;
use super::{Launcher, Terms};
use crate::machine::message::ChildMessage;

/// What the parent does for a leader in doubt, and knows of it.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Whether the parent takes back what was not tried.
    parent_takes_back: bool,
    /// What the parent was told last.
    told: bool,
}

impl Launcher {
    /// Whether the parent launches beside this leader, and takes back what was not tried.
    pub(in crate::machine) fn set_parent_takes_back(&mut self, takes_back: bool) {
        self.doubt = Doubt { parent_takes_back: takes_back, told: false };
    }

    /// Tells the parent if the leader has begun to doubt, or doubts no longer, and hands back what does not
    /// help to decide.
    pub(super) fn review_doubt(&mut self, terms: &Terms, reports: &mut Vec<ChildMessage>) {
        if !self.doubt.parent_takes_back || !terms.is_launching || self.health.is_unusable() {
            return;
        }
        let doubts = self.health.limit_in_doubt().is_some();
        if std::mem::replace(&mut self.doubt.told, doubts) != doubts {
            reports.push(ChildMessage::InDoubt(doubts));
        }
        if doubts {
            let tried = self.health.failed_hosts() + self.queue.in_flight();
            let back = self.queue.give_up_last(FEW.saturating_sub(tried));
            reports.extend(back.hosts.iter().map(|host| {
                let next = back.attempts.get(&host).copied().unwrap_or_default();
                ChildMessage::HandBack(host, next, false)
            }));
        }
    }

    /// Whether hosts that children hand back are for the parent: none was launched from here.
    pub(super) fn passes_on(&self) -> bool {
        self.health.is_unusable() || self.doubt.told
    }

    /// A child doubts that it can launch hosts, or does so no longer.
    pub(in crate::machine) fn child_doubts(&mut self, doubts: bool) {
        self.health.child_doubts(doubts);
        self.may_share |= !doubts;
    }
}
