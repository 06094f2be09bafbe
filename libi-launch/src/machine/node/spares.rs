//! Spare hosts: the front end puts one in the place of a host that is given up.
//!
//! The place in the session (index and ranks) stays the same; the machine that fills it changes.
//! For all other nodes, the host is relaunched at another address. It gets the next attempt, and
//! goes to the first host's leader as a further share, or to the next such leader with all other
//! hosts. If the front end launches all hosts, it goes into the front end's own queue. The head of
//! `front_end/spares.rs` tells which failures a spare can help with.

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch};
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
        if !self.stage.is_launching() {
            return None;
        }
        let Role::FrontEnd(front) = &mut self.role else { return None };
        if !front.may_replace(*host, *attempt, failure) {
            return None;
        }
        let is_here = *host == HostIndex(0) || front.launchers().is_front_end();
        let spec = self.host_specs.get_mut(host)?;
        let before = (*attempt).max(spec.attempt);
        let next = Attempt { lost: before.lost.checked_add(1)?, failed: 0 };
        let spare = front.take_spare(*host, &spec.name, failure)?;
        spec.name = spare.name;
        (spec.user, spec.port, spec.attempt) = (spare.user, spare.port, next);
        self.faults.remove(host);
        if is_here {
            self.queue.requeue(Launch { host: *host, attempt: before }, now).ok()?;
            // Not at once: what else is reported may end the launch.
            self.launch_again = Some(now);
        } else {
            let share = ParentMessage::Share(vec![spec.clone()], self.queue.estimate());
            // Without such a leader, the next one is given the host with all others.
            if let Some(link) = self.children.master() {
                Self::send(link, Kind::Control, &share, out);
            }
        }
        Some(ChildMessage::Relaunch(*host, next, None))
    }
}
