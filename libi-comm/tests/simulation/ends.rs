//! How processes end, and which others are lost with them.

use std::time::Duration;

use libi_comm::Event;
use libi_core::ids::LinkId;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;

use crate::member::other_end;
use crate::world::{Cluster, Happening};

/// How long a process that is about to leave waits for others.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

impl Cluster {
    /// A process leaves as soon as it has nothing left to send, and no other needs what it keeps.
    pub(crate) fn leave(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let (now, soon) = (agenda.now(), self.latency());
        let member = self.member(id);
        let Some(since) = member.leaves else {
            member.leaves = Some(now);
            agenda.tell(now, id, Event::Leave);
            return agenda.plan(now + soon, Happening::Leaves(id));
        };
        let group = agenda.machine(id);
        let is_settled = group.is_none_or(|group| group.is_settled());
        if group.is_some_and(|group| !group.is_idle()) || !is_settled && now < since + LEAVE_TIMEOUT {
            return agenda.plan(now + soon.max(Duration::from_millis(2)), Happening::Leaves(id));
        }
        // What is lost with its parent is needed by none.
        let member = self.member(id);
        let is_lost = !member.alive || member.cut.contains(&LinkId::PARENT);
        member.left_settled = Some(is_settled).filter(|_| !is_lost);
        self.die(id, agenda);
    }

    pub(crate) fn die(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        if !std::mem::replace(&mut self.member(id).alive, false) {
            return;
        }
        agenda.end(id);
        self.may_come_back(id, agenda);
        self.host_may_return(id, agenda);
        self.lose(id, agenda.now());
        let member = &self.members[id.0 as usize];
        let links = member.process.links.keys().copied().chain([LinkId::PARENT]);
        let ends: Vec<_> = links.filter_map(|link| other_end(member, link)).collect();
        for (to, link) in ends {
            let at = self.arrival(to, link, agenda);
            agenda.plan(at, Happening::Cut(to, link));
        }
    }

    /// A process is lost, and everything below it, unless it leaves orphans.
    fn lose(&mut self, id: Id, now: Instant) {
        let at = id.0 as usize;
        let all = if self.leaves_orphans(at) { self.children(at, true) } else { self.subtree(at) };
        for lost in all.into_iter().chain([at]) {
            self.members[lost].lost.get_or_insert(now);
        }
    }
}
