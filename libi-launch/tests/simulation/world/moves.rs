//! Processes that the front end has started, and that have another parent.

use libi_core::sim::MachineId as Id;
use libi_launch::machine::LinkId;

use super::{Cluster, FRONT, Process};

impl Process {
    /// This end of its link to the parent, or of its channel, is gone.
    pub(super) fn loses(&mut self, end: (Id, LinkId)) {
        self.parent.take_if(|parent| *parent == end);
        self.channel.take_if(|channel| *channel == end);
    }
}

impl Cluster {
    /// Whether the front end has started a process that has another parent.
    pub(crate) fn has_moved(&self, id: Id) -> bool {
        let is_by_front = self.processes[FRONT.0 as usize].started.values().any(|started| *started == id);
        is_by_front && self.processes[id.0 as usize].origin.is_some_and(|(parent, _)| parent != FRONT)
    }

    /// An orphan is the child of another node from now on.
    pub(crate) fn is_adopted(&mut self, parent: (Id, LinkId), child: Id) {
        let (at, link) = parent;
        self.process(at).children.insert(link, Some(child));
        self.process(at).started.insert(link, child);
        let process = self.process(child);
        (process.parent, process.origin) = (Some(parent), Some(parent));
    }

    /// A process has no parent.
    pub(crate) fn has_no_parent(&mut self, id: Id) {
        self.process(id).parent = None;
    }

    /// A process that the front end has started has connected to another node, which is its parent from
    /// now on, if that awaits it.
    pub(crate) fn moves_to(&mut self, parent: (Id, LinkId), child: Id) -> bool {
        let (at, link) = parent;
        let is_awaited = self.process(at).children.get(&link) == Some(&None);
        let moves = is_awaited && self.process(child).channel.is_none();
        if moves {
            self.process(at).children.insert(link, Some(child));
            self.process(at).started.insert(link, child);
            let process = self.process(child);
            process.channel = process.parent.replace(parent);
            process.origin = process.parent;
        }
        moves
    }
}
