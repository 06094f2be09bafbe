//! Spare hosts: the front end puts one in the place of a host that is given up.
//!
//! The place in the session (index and ranks) stays the same; the machine that fills it changes.
//! For all other nodes, the host is relaunched at another address. It gets the next attempt, and
//! goes to the first host's leader as a further share, or to the next such leader with all other
//! hosts. If the front end launches hosts, it goes into the front end's own queue. The head of
//! `front_end/spares.rs` tells which failures a spare can help with.

use libi_core::ids::HostIndex;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, Node, Role};
use crate::machine::message::{ChildMessage, ParentMessage};

impl Node {
    /// Puts a spare in the place of a host that this report gives up; returns the report to record
    /// instead.
    pub(super) fn replace(
        &mut self,
        report: &ChildMessage,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<ChildMessage> {
        let ChildMessage::Failed(host, attempt, failure) = report else { return None };
        // A spare fares no better where no start can succeed.
        if !self.stage.is_launching() || self.starts.why_all_refused().is_some() {
            return None;
        }
        let Role::FrontEnd(front) = &mut self.role else { return None };
        if !front.may_replace(*host, *attempt, failure) {
            return None;
        }
        let is_here = *host == HostIndex(0) || front.launchers().include_front_end();
        let failed = Launch { host: *host, attempt: *attempt };
        let spare_for = |name: &str| front.take_spare(*host, name, failure);
        let spec = self.launcher.replace(failed, is_here, now, spare_for)?;
        let next = spec.attempt;
        // Without a leader of the first host, the next one is given the host with all others.
        if !is_here && let Some(link) = self.children.master() {
            let share = ParentMessage::Share(vec![spec], self.launcher.estimate());
            Self::send(link, Kind::Control, &share, out);
        }
        Some(ChildMessage::Relaunch(*host, next, None))
    }
}
