//! Spare hosts: the front end puts one in the place of a host that is given up.
//!
//! The place in the session (index and ranks) stays the same; the machine that fills it changes.
//! For all other nodes, the host is relaunched at another address. It gets the next attempt, and
//! goes to the first host's leader as a further share, or to the next such leader with all other
//! hosts. If the front end launches all hosts, it goes into the front end's own queue.

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch};
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, Node, Role};
use crate::failure::Cause;
use crate::machine::host_table::{HostState, Replacement};
use crate::machine::message::{ChildMessage, ParentMessage};

impl Node {
    /// The hosts that spares have replaced, in order; empty at other nodes.
    #[must_use]
    pub fn replaced(&self) -> &[Replacement] {
        match &self.role {
            Role::FrontEnd(front) => &front.replaced,
            Role::Member(_) => &[],
        }
    }

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
        let (noted, known) = front.table.at(*host)?;
        let is_open = attempt >= noted && !matches!(known, HostState::Failed(_));
        // A host that was lost with its launcher, or found no resources, is not at fault; a spare
        // would fare the same.
        let at_fault = !matches!(
            failure.cause,
            Cause::LauncherLost(_) | Cause::OutOfResources(_) | Cause::SettleElapsed
        );
        if !is_open || !at_fault || !front.can_still_succeed() {
            return None;
        }
        let is_here = *host == HostIndex(0) || front.launchers.is_front_end();
        let spec = self.host_specs.get_mut(host)?;
        let before = (*attempt).max(spec.attempt);
        let next = Attempt { lost: before.lost.checked_add(1)?, failed: 0 };
        let spare = front.spares.pop_front()?;
        let (by, failure) = (spare.name.clone(), failure.clone());
        let name = std::mem::replace(&mut spec.name, spare.name);
        front.replaced.push(Replacement { host: *host, name, by, failure });
        (spec.user, spec.port, spec.attempt) = (spare.user, spare.port, next);
        self.faults.remove(host);
        if is_here {
            self.queue.requeue(Launch { host: *host, attempt: before }, now).ok()?;
            self.launch(now, out);
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
