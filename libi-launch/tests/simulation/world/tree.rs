//! Where processes stand in the tree, and what can be known of them at its top.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::join::MemberRole;
use libi_core::sim::MachineId as Id;
use libi_core::time::Instant;
use libi_launch::machine::Notice;

use super::{Cluster, FRONT, MINIMAL_LATENCY, Process};

impl Cluster {
    /// How many links lead from the front end to a process.
    pub(super) fn depth(&self, id: Id) -> u32 {
        let above = |id: &Id| self.processes[id.0 as usize].origin.map(|(above, _)| above);
        std::iter::successors(above(&id), above).count() as u32
    }

    /// The processes above one, up to the front end or to where a link is broken.
    pub(crate) fn above(&self, id: Id) -> impl Iterator<Item = Id> {
        let parent = |id: &Id| self.processes[id.0 as usize].parent.map(|(parent, _)| parent);
        std::iter::successors(parent(&id), parent)
    }

    /// Whether a link above a process is broken. Until it hears of that it goes on with its hosts, which
    /// are another launcher's by then.
    pub(super) fn is_cut_off(&self, id: Id) -> bool {
        id != FRONT && self.above(id).last() != Some(FRONT)
    }

    /// When the session was reported as up.
    pub(crate) fn up_at(&self) -> Option<Instant> {
        self.notices.iter().find(|(_, notice)| *notice == Notice::Up).map(|(at, _)| *at)
    }

    /// The depth of the deepest launcher.
    pub(crate) fn deepest(&self) -> u32 {
        self.starts.iter().map(|start| start.depth).max().unwrap_or(0)
    }

    /// The longest time that a message takes through so many links.
    pub(crate) fn way(&self, links: u32) -> Duration {
        let latency = self.scenario.latency.max(self.scenario.direct_latency) + MINIMAL_LATENCY;
        (latency + self.scenario.behind_pieces()) * links
    }

    /// The places that are taken as far as the front end can know: a process may have ended, and the news
    /// may be on its way.
    pub(super) fn present(&self, now: Instant) -> BTreeSet<MemberRole> {
        let news = |id, process: &Process| {
            process.ended_at.is_some_and(|ended| now <= ended + self.way(self.depth(id)))
        };
        let all = (0..).map(Id).zip(&self.processes);
        let present = all.filter(|(id, process)| process.alive && !process.frozen || news(*id, process));
        present.filter_map(|(_, process)| process.place).collect()
    }

    /// All processes that are alive and not frozen.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (Id, &Process)> {
        (0..).map(Id).zip(&self.processes).filter(|(_, process)| process.alive && !process.frozen)
    }
}
