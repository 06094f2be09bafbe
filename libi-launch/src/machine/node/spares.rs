//! What the front end does with spare hosts: put one in the place of a host that is given up.
//!
//! A host's place in the session (its index, its ranks) stays what it is; what changes is the machine that is to fill it.
//! To everybody else it is a host that is to be launched again, at another address: it gets the next attempt,
//! and goes to the master as a further share, or to the next master with everything else; if everything is launched from
//! the front end, it goes into the front end's own queue.

use libi_core::ids::HostIndex;
use libi_core::plan::late::{Attempt, Launch};
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, Node, Role, SessionStage};
use crate::failure::Cause;
use crate::machine::host_table::{HostState, Replacement};
use crate::machine::message::{ChildMessage, ParentMessage};

impl Node {
    /// The hosts that spares have been put in the place of, in the order in which that was done; nothing at other nodes.
    #[must_use]
    pub fn replaced(&self) -> &[Replacement] {
        match &self.role {
            Role::FrontEnd(front) => &front.replaced,
            Role::Member(_) => &[],
        }
    }

    /// Puts a spare in the place of a host that is given up by this; tells what is to be noted of it instead.
    pub(super) fn replace(
        &mut self,
        report: &ChildMessage,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<ChildMessage> {
        let ChildMessage::Failed(host, attempt, failure) = report else { return None };
        let (SessionStage::Launching, Role::FrontEnd(front)) = (self.stage, &mut self.role) else {
            return None;
        };
        let (noted, known) = front.table.at(*host)?;
        let is_open = attempt >= noted && !matches!(known, HostState::Failed(_));
        // Whoever was lost with others is not at fault, and would be lost with them on another machine; nor who finds no room.
        let at_fault = !matches!(failure.cause, Cause::LauncherLost(_) | Cause::OutOfResources(_));
        if !is_open || !at_fault || !front.can_still_succeed() {
            return None;
        }
        let is_here = *host == HostIndex(0) || front.flat_launch.is_some();
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
            let mut children = self.children.iter();
            // If there is no master now, the next one is given this with everything else.
            let master = children.find(|(_, child)| child.host() == Some(HostIndex(0)) && child.is_up());
            if let Some((&link, _)) = master {
                Self::send(link, Kind::Control, &share, out);
            }
        }
        Some(ChildMessage::Relaunch(*host, next, None))
    }
}
