//! Connections of orphans to a node above: each is given up for the next until one is answered.

use std::net::SocketAddr;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::MemberRole;
use libi_core::secure::{KeyId, LinkKey};
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::machine::{ArrivalId, Event, LinkId};

use super::{Attempt, DirectEvent, End, connected, process_at};
use crate::world::{Cluster, Happening};

/// How long a helper tries to connect to the orphan, and how often.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
/// What a helper prints that ends.
pub(crate) const NO_ORPHAN: &str = "no orphan is here";

impl Cluster {
    /// The link of a process to its parent begins anew.
    pub(super) fn reopen(&mut self, end: End, agenda: &mut Agenda<Self>) {
        self.helper_ends(end.0, agenda);
        let direct = &mut self.direct;
        direct.peers.remove(&end);
        direct.switched.remove(&end);
        direct.follows.remove(&end);
        direct.held.remove(&end);
        direct.ended.remove(&end);
        direct.early.remove(&end);
        *direct.generations.entry(end.0).or_default() += 1;
        self.has_no_parent(end.0);
    }

    /// An orphan connects to a node above.
    pub(super) fn seek(
        &mut self,
        from: Id,
        addresses: &[SocketAddr],
        key: &LinkKey,
        agenda: &mut Agenda<Self>,
    ) {
        let target = addresses.first().copied().and_then(process_at);
        let target = target.filter(|_| !self.scenario.orphans_are_walled);
        let accepts = |id: &Id| self.direct.orphan_keys.contains(&(*id, key.id()));
        let Some(parent) = target.filter(|id| self.is_running(*id)).filter(accepts) else {
            // Nothing listens there, or nothing answers.
            let is_silent = self.direct.rng.chance(0.2);
            if is_silent || self.scenario.orphans_are_walled {
                agenda.tell(agenda.now(), from, Event::Walled.into());
            }
            let wait = if is_silent { Duration::from_secs(3) } else { Duration::from_millis(1) };
            return connected(agenda.now() + wait, self.direct.attempt(from), false, None, agenda);
        };
        let reached = agenda.now() + self.direct_latency() + self.direct_latency();
        connected(reached, self.direct.attempt(from), true, Some(parent), agenda);
    }

    /// A node starts a helper, which takes as long as any start, or fails.
    pub(super) fn start_helper(&mut self, by: Id, host: HostIndex, key: KeyId, agenda: &mut Agenda<Self>) {
        let most = self.scenario.rem.as_micros() as u64;
        let takes = Duration::from_micros(1 + self.direct.rng.below(2 * most + 1));
        let at = agenda.now() + takes;
        let until = at + CONNECT_TIMEOUT;
        agenda.plan(at, Happening::Direct(DirectEvent::HelperIsUp { by, host, key, until }));
    }

    /// A helper connects to the orphan on its host, which may hear of its loss later.
    pub(super) fn helper_is_up(
        &mut self,
        (by, host, key): (Id, HostIndex, KeyId),
        until: Instant,
        agenda: &mut Agenda<Self>,
    ) {
        let place = Some(MemberRole::Leader(host));
        let leader = self.alive().find(|(_, process)| process.place == place).map(|(id, _)| id);
        let awaits = |id: &Id| self.direct.await_helpers.get(id) == Some(&key);
        if !self.is_running(by) {
            return;
        }
        let Some(orphan) = leader.filter(awaits) else {
            let again = agenda.now() + CONNECT_PAUSE;
            if again < until {
                let next = DirectEvent::HelperIsUp { by, host, key, until };
                return agenda.plan(again, Happening::Direct(next));
            }
            return self.tell_end_of_helper((by, host), agenda);
        };
        if let Some(before) = self.direct.helpers.insert(orphan, (by, host)) {
            self.tell_end_of_helper(before, agenda);
        }
        let heard = agenda.now() + self.direct_latency();
        agenda.tell(heard, orphan, Event::Helped.into());
        let later = heard + Duration::from_nanos(1);
        agenda.plan(later, Happening::Direct(DirectEvent::HelperWasOffered(orphan)));
    }

    /// A helper that the process has not taken ends.
    pub(super) fn helper_was_offered(&mut self, to: Id, agenda: &mut Agenda<Self>) {
        if let Some(helper) = self.direct.helpers.remove(&to) {
            self.tell_end_of_helper(helper, agenda);
        }
    }

    /// The link of a process to its parent ends, and with it the helper that carries it.
    pub(super) fn helper_ends(&mut self, orphan: Id, agenda: &mut Agenda<Self>) {
        if let Some(helper) = self.direct.carried.remove(&orphan) {
            self.tell_end_of_helper(helper, agenda);
        }
    }

    fn tell_end_of_helper(&mut self, (by, host): (Id, HostIndex), agenda: &mut Agenda<Self>) {
        if self.is_running(by) {
            let at = agenda.now() + self.direct_latency();
            agenda.tell(at, by, Event::HelperEnded(host, NO_ORPHAN.to_owned()).into());
        }
    }

    pub(super) fn take_helper(&mut self, from: Id, agenda: &mut Agenda<Self>) {
        self.reopen((from, LinkId::PARENT), agenda);
        let Some(helper) = self.direct.helpers.remove(&from) else { panic!("{from:?} has no helper") };
        let (parent, _) = helper;
        self.direct.carried.insert(from, helper);
        self.direct.helped += 1;
        let child = self.direct.attempt(from);
        let heard = agenda.now() + self.direct_latency();
        agenda.plan(heard, Happening::Direct(DirectEvent::OrphanArrives { parent, child }));
    }

    pub(super) fn orphan_arrives(&mut self, parent: Id, child: Attempt, agenda: &mut Agenda<Self>) {
        if !self.is_running(parent) {
            if child == self.direct.attempt(child.0) {
                self.closes((child.0, LinkId::PARENT), agenda);
            }
            return;
        }
        let arrival = self.next_arrival();
        self.direct.orphans.insert(arrival, child);
        agenda.tell(agenda.now(), parent, Event::OrphanArrived(arrival).into());
    }

    /// A node answers the connection of an orphan, if it is one: it becomes this link, or is refused.
    pub(crate) fn answer_orphan(
        &mut self,
        from: Id,
        arrival: ArrivalId,
        link: Option<LinkId>,
        agenda: &mut Agenda<Self>,
    ) -> bool {
        let Some(attempt) = self.direct.orphans.remove(&arrival) else { return false };
        let child = attempt.0;
        let is_open = attempt == self.direct.attempt(child);
        let end = (child, LinkId::PARENT);
        let Some(link) = link else {
            if is_open {
                self.closes(end, agenda);
            }
            return true;
        };
        if !self.is_running(child) || !is_open {
            agenda.tell(agenda.now(), from, Event::Closed(link).into());
            return true;
        }
        self.is_adopted((from, link), child);
        self.pair((from, link), child);
        self.direct.switched.extend([end, (from, link)]);
        self.direct.follows.insert((from, link));
        for bytes in self.direct.early.remove(&end).unwrap_or_default() {
            self.send_directly(end, &bytes, agenda);
        }
        self.direct.adoptions += 1;
        true
    }
}
