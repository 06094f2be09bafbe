//! What a node above orphans does: it awaits them, sends them helpers, and adopts them or tells them that they
//! count as lost.

use std::collections::BTreeSet;

use libi_core::ids::HostIndex;
use libi_core::loss::{LossKind, LossReason};
use libi_core::plan::late::Launch;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::wire::{Frame, Header, Kind, LinkItem, decode_control};

use super::super::{Effect, LinkId, Node, Role};
use super::FRONT_END;
use crate::failure::{Cause, Failure, Phase};
use crate::machine::child::{Arrival, Child, ChildRole};
use crate::machine::direct_links::LinkPolicy;
use crate::machine::host_table::HostState;
use crate::machine::message::{Ancestor, ChildMessage, HostSpec, ParentMessage, Program};
use crate::machine::orphans::Severed;
use crate::machine::rendezvous::ArrivalId;

impl Node {
    /// The session is up: children that are lost may have hosts below them.
    pub(in crate::machine::node) fn await_orphans(&mut self, out: &mut Vec<Effect>) {
        let Some(own) = self.as_ancestor() else { return };
        if self.children.leaders().next().is_none() {
            return;
        }
        if let Some(key) = self.orphans_key(own) {
            if self.options.links != LinkPolicy::Channel && self.direct.listen_for_others() {
                out.push(Effect::Listen { loopback: self.options.loopback });
            }
            out.push(Effect::AcceptOrphans(key));
        }
    }

    /// The host that this node leads, if it adopts orphans. The front end does if calls pass through it.
    fn as_ancestor(&self) -> Option<HostIndex> {
        let own = if self.is_front() { self.orphans.is_top().then_some(FRONT_END) } else { self.leads() };
        own.filter(|_| self.hosts_reconnect() && self.stage.is_up())
    }

    /// This node and those above it, for its children.
    pub(in crate::machine::node) fn ancestors_of_children(&self) -> Vec<Ancestor> {
        // A node that has no way to the top is none for others.
        let has_way = self.orphans.is_top() || !self.orphans.ancestors().is_empty();
        let addresses = self.direct.addresses().unwrap_or_default();
        let own = self.as_ancestor().filter(|_| has_way);
        let own = own.map(|host| Ancestor { host, addresses: addresses.to_vec() });
        // Without an entry of its own, a node would be taken for the parent.
        own.into_iter()
            .flat_map(|own| [own].into_iter().chain(self.orphans.ancestors().iter().cloned()))
            .collect()
    }

    /// Children hear of the nodes above them, once the session is up. Before, they do with the news that it is.
    pub(in crate::machine::node) fn tell_ancestors(&self, out: &mut Vec<Effect>) {
        if !self.hosts_reconnect() || !self.stage.is_up() {
            return;
        }
        let ancestors = self.ancestors_of_children();
        for (link, _) in self.children.leaders().filter(|(_, child)| child.is_up()) {
            Self::send(link, Kind::Control, &ParentMessage::Ancestors(ancestors.clone()), out);
        }
    }

    /// The link to a child is closed. If others below it may come back: the ranks of its host alone.
    pub(in crate::machine::node) fn severs(&mut self, link: LinkId, now: Instant) -> Option<Ranks> {
        self.as_ancestor()?;
        let child = self.children.get(link).filter(|child| !child.is_detached())?;
        let lost = child.host()?;
        let own: Ranks = child.blocks().iter().flat_map(|block| block.ranks()).collect();
        let mut others = self.orphans.behind(link)?.clone();
        others.remove_all(&own);
        if others.is_empty() {
            return None;
        }
        let hosts: BTreeSet<HostIndex> = match self.orphans.below(link) {
            Some(hosts) => hosts.clone(),
            // What a host of a static tree launches is no share of the front end, nor what has moved there.
            None if self.is_front() => {
                let is_behind = |spec: &&HostSpec| {
                    let ranks: Ranks = spec.blocks.iter().flat_map(|block| block.ranks()).collect();
                    spec.host != lost && !ranks.intersection(&others).is_empty()
                };
                self.launcher.specs(..).filter(is_behind).map(|spec| spec.host).collect()
            }
            None => self.launcher.hosts_below(lost).collect(),
        };
        // New hosts do not come back, nor do those that have failed.
        let hosts = hosts.into_iter().filter(|host| !self.is_new(*host) && !self.has_failed(*host)).collect();
        let can_connect = self.direct.addresses().is_some_and(|addresses| !addresses.is_empty());
        let severed = Severed::new(lost, hosts, now, self.time_to_be_back(), can_connect);
        self.orphans.sever(link, severed);
        Some(own)
    }

    /// The link to a child is closed: hosts below it that are new then do not come back, also if they
    /// have joined and the news that they are in the session comes before the verdict of the child.
    pub(in crate::machine::node) fn note_new_hosts_below(&mut self, link: LinkId) {
        let Some(lost) = self.children.get(link).and_then(Child::host) else { return };
        let new: BTreeSet<HostIndex> =
            self.launcher.hosts_below(lost).filter(|host| self.is_new(*host)).collect();
        self.orphans.note_new(link, new);
    }

    /// Whether the front end, which this is, has recorded that a host has failed.
    fn has_failed(&self, host: HostIndex) -> bool {
        matches!(&self.role, Role::FrontEnd(front) if matches!(front.host(host), Some(HostState::Failed(_))))
    }

    /// An orphan has connected.
    pub(in crate::machine::node) fn orphan_arrives(
        &mut self,
        arrival: ArrivalId,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if self.as_ancestor().is_none() {
            return out.push(Effect::Refuse(arrival));
        }
        let link = self.children.next_link();
        out.push(Effect::Await(link));
        out.push(Effect::Admit(arrival, link));
        Self::send_preamble(link, out);
        self.orphans.arrives(link, now + self.time_to_be_back());
    }

    /// Something has come from an orphan.
    pub(in crate::machine::node) fn on_orphan_items(
        &mut self,
        link: LinkId,
        items: Vec<LinkItem>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        for item in items {
            let is_right = Self::frame_of_peer(link, item, out).and_then(|frame| match frame {
                Some((header, payload)) => self.on_claim(link, header, &payload),
                None => Some(()),
            });
            if is_right.is_none() {
                return self.orphan_leaves(link, out);
            }
        }
        self.adopt_orphans(now, out);
        self.dismiss_lost(now, out);
    }

    fn on_claim(&mut self, link: LinkId, header: Header, payload: &[u8]) -> Option<()> {
        let reports: Vec<ChildMessage> = decode_control(&Frame::from_parts(header, payload)?).ok()?;
        let [ChildMessage::Orphan(claim)] = &reports[..] else { return None };
        self.orphans.claims(link, (**claim).clone()).then_some(())
    }

    /// Tells the orphan of a host that counts as lost, and lives: only the connection to it was lost.
    fn dismiss_lost(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some(link) = self.orphans.next_lost(now) {
            Self::send(link, Kind::Control, &ParentMessage::Lost, out);
        }
    }

    /// The connection of an orphan is closed, or has to be.
    pub(in crate::machine::node) fn orphan_leaves(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        self.orphans.leaves(link);
        out.push(Effect::Close(link));
    }

    /// Adopts all that are awaited and have connected.
    pub(in crate::machine::node) fn adopt_orphans(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some((link, instead_of, claim, hosts)) = self.orphans.next_awaited() {
            let ranks = self.ranks_there(&hosts);
            let blocks = self.launcher.spec(claim.host).map_or(Vec::new(), |spec| spec.blocks.clone());
            let launch = Launch { host: claim.host, attempt: claim.attempt };
            let role = ChildRole::Leader(launch);
            let start = (self.starts.next_id(), Arrival::Moved);
            let nonce = self.nonce();
            let mut child = Child::new(role, start, (self.session, nonce), blocks, now);
            child.adopt(now, claim.is_agent);
            self.children.add_at(link, child, Instant::FAR_FUTURE);
            self.orphans.set_behind(link, ranks.clone());
            self.commands.add_branch(link, ranks.clone());
            let answer = ParentMessage::Adopts(self.ancestors_of_children());
            Self::send(link, Kind::Control, &answer, out);
            self.repeat_commands(link, &ranks, out);
            self.repeat_growth(link, &ranks, out);
            self.repeat_restarts(link, &ranks, out);
            out.push(Effect::Adopted { link, instead_of, ranks, place: claim.host.0 });
        }
    }

    /// The members of these hosts that are in the session, but for those that have returned with another one
    /// since. A host may have joined where the session did not grow.
    fn ranks_there(&self, hosts: &BTreeSet<HostIndex>) -> Ranks {
        let ranks_of =
            |spec: &HostSpec| -> Ranks { spec.blocks.iter().flat_map(|block| block.ranks()).collect() };
        let mut all = Ranks::new();
        for spec in hosts.iter().filter_map(|host| self.launcher.spec(*host)) {
            let mut ranks = ranks_of(spec);
            let later =
                self.launcher.specs(HostIndex(spec.host.0.saturating_add(1)).max(self.growth.first_late())..);
            later.filter(|later| later.restarts > 0).for_each(|later| ranks.remove_all(&ranks_of(later)));
            all.add_all(&ranks);
        }
        all.remove_all(&self.growth.absent);
        all
    }

    /// Handles what is due of orphans, here and above.
    pub(in crate::machine::node) fn expire_orphans(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if !self.stage.is_up() {
            return out.extend(self.orphans.end().into_iter().map(Effect::Close));
        }
        if let Some(search) = self.orphans.due(now)
            && !self.search(search, now, out)
        {
            return self.parent_lost(now, out);
        }
        for link in self.orphans.late(now) {
            out.push(Effect::Close(link));
        }
        self.send_helpers(now, out);
        while let Some((link, severed)) = self.orphans.next_over(now) {
            let lost = severed.lost;
            for &host in &severed.hosts {
                let cause = Cause::LauncherLost(lost);
                let failure = Failure::without_evidence(Phase::Joined, cause, now.since(self.began));
                let failure = Failure { tail: severed.why(host).to_owned(), ..failure };
                let (launcher, _, reports) = self.launcher(now);
                launcher.lost_for_good(host, failure, reports);
            }
            let name = self.launcher.spec(lost).map_or_else(String::new, |spec| spec.name.clone());
            let reason = LossReason { host: name, is_leader: true, how: LossKind::Closed };
            out.push(Effect::Forsaken(link, Some(reason)));
        }
    }
}

/// Helpers.
impl Node {
    /// Sends helpers to orphans that are not back by themselves.
    fn send_helpers(&mut self, now: Instant, out: &mut Vec<Effect>) {
        for host in self.orphans.send_helpers(now) {
            let Some(spec) = self.launcher.spec(host).cloned() else { continue };
            if let Some((program, key)) = self.leader_program(&spec).zip(self.helper_key(host)) {
                // It reads nothing of the host, and says nothing to it.
                let program = Program { env: Vec::new(), cwd: None, ..program };
                out.push(Effect::StartHelper(Box::new((spec, program)), key));
            }
        }
    }
}
