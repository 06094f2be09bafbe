//! Hosts that lose their parent, and find another one; see [`machine::orphans`](crate::machine::orphans).

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::{HostIndex, SessionId};
use libi_core::loss::{LossKind, LossReason};
use libi_core::plan::late::Launch;
use libi_core::ranks::Ranks;
use libi_core::secure::{LinkKey, Parent, Terms};
use libi_core::time::Instant;
use libi_core::wire::{Frame, Header, Kind, LinkItem, PROTOCOL, decode_control};

use super::{Effect, Identity, LinkId, Node, Role};
use crate::failure::{Cause, Failure, Phase};
use crate::machine::child::{Arrival, Child, ChildRole};
use crate::machine::direct_links::{CarriedSecret, LinkPolicy};
use crate::machine::host_table::HostState;
use crate::machine::message::{Ancestor, ChildMessage, HostSpec, OrphanClaim, ParentMessage, Program};
use crate::machine::orphans::{Search, Severed};
use crate::machine::rendezvous::ArrivalId;

/// In place of the host that a node leads, for the front end.
const FRONT_END: HostIndex = HostIndex(u32::MAX);

impl Node {
    /// Whether hosts that lose their parent find another one.
    pub(super) fn hosts_reconnect(&self) -> bool {
        self.direct.orphans_secret().is_some()
    }

    /// Whether hosts that lose their parent find another one, so that the communication half keeps what
    /// may be lost then.
    #[must_use]
    pub fn hosts_find_parents(&self) -> bool {
        self.reconnects
    }

    /// How long an orphan may take to be back. Its old parent may be silent, which one end of the link
    /// notices later than the other.
    fn time_to_be_back(&self) -> Duration {
        self.options.rules.peer_timeout
    }

    /// The key that admits orphans to the node of a host.
    fn orphans_key(&self, host: HostIndex) -> Option<LinkKey> {
        self.key_of_orphans(host, 0)
    }

    /// The key by which the orphan of a host and a node above know each other behind a helper.
    fn helper_key(&self, host: HostIndex) -> Option<LinkKey> {
        self.key_of_orphans(host, 1)
    }

    fn key_of_orphans(&self, host: HostIndex, attempt: u32) -> Option<LinkKey> {
        let CarriedSecret(secret) = self.direct.orphans_secret()?;
        let terms = Terms {
            version: PROTOCOL.newest(),
            session: SessionId(self.session.0 as u32),
            host,
            attempt,
            parent: Parent::FrontEnd,
            mode: self.options.link_security,
        };
        Some(LinkKey::derive(secret, &terms))
    }
}

/// At a node above.
impl Node {
    /// The session is up: children that are lost may have hosts below them.
    pub(super) fn await_orphans(&mut self, out: &mut Vec<Effect>) {
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
    pub(super) fn ancestors_of_children(&self) -> Vec<Ancestor> {
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
    pub(super) fn tell_ancestors(&self, out: &mut Vec<Effect>) {
        if !self.hosts_reconnect() || !self.stage.is_up() {
            return;
        }
        let ancestors = self.ancestors_of_children();
        for (link, _) in self.children.leaders().filter(|(_, child)| child.is_up()) {
            Self::send(link, Kind::Control, &ParentMessage::Ancestors(ancestors.clone()), out);
        }
    }

    /// The link to a child is closed. If others below it may come back: the ranks of its host alone.
    pub(super) fn severs(&mut self, link: LinkId, now: Instant) -> Option<Ranks> {
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
    pub(super) fn note_new_hosts_below(&mut self, link: LinkId) {
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
    pub(super) fn orphan_arrives(&mut self, arrival: ArrivalId, now: Instant, out: &mut Vec<Effect>) {
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
    pub(super) fn on_orphan_items(
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
    pub(super) fn orphan_leaves(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        self.orphans.leaves(link);
        out.push(Effect::Close(link));
    }

    /// Adopts all that are awaited and have connected.
    pub(super) fn adopt_orphans(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some((link, instead_of, claim, hosts)) = self.orphans.next_awaited() {
            let specs = hosts.iter().filter_map(|host| self.launcher.spec(*host));
            let ranks: Ranks = specs.flat_map(|spec| &spec.blocks).flat_map(|block| block.ranks()).collect();
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

    /// Handles what is due of orphans, here and above.
    pub(super) fn expire_orphans(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if !self.stage.is_up() {
            return out.extend(self.orphans.end().into_iter().map(Effect::Close));
        }
        if let Some(search) = self.orphans.due(now)
            && !self.search(search, out)
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

/// Helpers, on both sides.
impl Node {
    /// Sends helpers to orphans that are not back by themselves.
    fn send_helpers(&mut self, now: Instant, out: &mut Vec<Effect>) {
        for host in self.orphans.send_helpers(now) {
            let Some(spec) = self.launcher.spec(host).cloned() else { continue };
            if let Some((program, key)) = self.leader_program(&spec.blocks).zip(self.helper_key(host)) {
                // It reads nothing of the host, and says nothing to it.
                let program = Program { env: Vec::new(), cwd: None, ..program };
                out.push(Effect::StartHelper(Box::new((spec, program)), key));
            }
        }
    }

    /// A node above has reached this host by a helper.
    pub(super) fn helped(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if self.orphans.helped() {
            out.push(Effect::TakeHelper);
            self.claim_parent(now, out);
        }
    }
}

/// At a host that has lost its parent.
impl Node {
    /// Whether this process may find another parent, in a session that is up.
    pub(super) fn may_become_orphan(&self) -> bool {
        self.hosts_reconnect() && self.leads().is_some() && !self.attachment.is_detached()
    }

    /// The parent is lost. Returns whether this host may find another one.
    pub(super) fn becomes_orphan(&mut self, now: Instant, out: &mut Vec<Effect>) -> bool {
        if self.orphans.has_claimed() {
            // The one that was to become its parent is lost.
            let search = self.orphans.next(now);
            return self.search(search, out);
        }
        if self.orphans.is_orphan() {
            return true; // it is the old parent that has ended once more
        }
        if !self.may_become_orphan()
            || !self.stage.is_up()
            || !self.orphans.begin(now, self.time_to_be_back())
        {
            return false;
        }
        self.abandon_growth(now, out);
        self.direct.parent_lost();
        // What was to be said of the link to the old parent.
        let of_link =
            |report: &ChildMessage| matches!(report, ChildMessage::WantsDirect | ChildMessage::NotDirect);
        self.reports.retain(|report| !of_link(report));
        let Role::Member(parent) = &mut self.role else { return false };
        parent.lose();
        if parent.leave_tree() {
            out.push(Effect::Severed(LinkId::PARENT, Ranks::new(), None));
        }
        self.relay.suspend();
        out.extend(self.leads().and_then(|own| self.helper_key(own)).map(Effect::AwaitHelper));
        let search = self.orphans.next(now);
        self.search(search, out)
    }

    /// Goes on with the search. False if there is no other parent: everything ends.
    fn search(&mut self, search: Search, out: &mut Vec<Effect>) -> bool {
        match search {
            Search::Try(Ancestor { host, addresses }) => {
                if let Some(key) = self.orphans_key(host) {
                    out.push(Effect::Reopen(LinkId::PARENT));
                    out.push(Effect::ConnectDirect(addresses, key));
                }
                true
            }
            Search::Waits => true,
            Search::Ends => {
                // Those below need not find out one after the other that the session is over.
                for (link, _) in self.children.leaders().filter(|(_, child)| child.is_up()) {
                    Self::send(link, Kind::Control, &ParentMessage::Ancestors(Vec::new()), out);
                }
                out.extend([Effect::ForgetHelper, Effect::Cut(LinkId::PARENT, None)]);
                false
            }
        }
    }

    /// The result of connecting to a node above; returns whether this host was looking for a parent.
    pub(super) fn ancestor_connected(&mut self, reached: bool, now: Instant, out: &mut Vec<Effect>) -> bool {
        if !self.orphans.is_orphan() {
            return false;
        }
        if !reached || !self.orphans.connected() {
            let search = self.orphans.next(now);
            if !self.search(search, out) {
                self.parent_lost(now, out);
            }
            return true;
        }
        self.claim_parent(now, out);
        true
    }

    /// Says who this host is to the node that may become its parent.
    fn claim_parent(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::Member(parent) = &mut self.role else { return };
        parent.on_heard(now);
        let Some(Launch { host, attempt }) = parent.identity().and_then(Identity::leads) else { return };
        let is_agent = self.is_agent();
        let below = self.hosts_below();
        out.extend([Effect::SendDirect(LinkId::PARENT), Effect::ReceiveDirect(LinkId::PARENT)]);
        Self::send_preamble(LinkId::PARENT, out);
        let claim = OrphanClaim { host, attempt, is_agent, below };
        Self::send(LinkId::PARENT, Kind::Control, &vec![ChildMessage::Orphan(Box::new(claim))], out);
    }

    /// The node that this host has turned to counts it as lost: it ends, and those below it need not.
    pub(super) fn counts_as_lost(&mut self, now: Instant, out: &mut Vec<Effect>) -> Option<()> {
        if !self.orphans.dismissed() {
            return None;
        }
        out.push(Effect::ForgetHelper);
        self.parent_lost(now, out);
        Some(())
    }

    /// The hosts that may be below this one. Others that it was to launch have been handed back.
    fn hosts_below(&self) -> Vec<HostIndex> {
        let mut all: BTreeSet<HostIndex> = self.orphans.awaited().collect();
        for (link, child) in self.children.leaders() {
            let Some(host) = child.host() else { continue };
            all.insert(host);
            match self.orphans.below(link) {
                Some(hosts) => all.extend(hosts),
                None => all.extend(self.launcher.hosts_below(host)),
            }
        }
        all.into_iter().collect()
    }

    /// A node above is the parent from now on; `None` if that was not awaited.
    pub(super) fn adopted_by(
        &mut self,
        ancestors: Vec<Ancestor>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        let told = self.orphans.adopted(ancestors)?;
        let Role::Member(parent) = &mut self.role else { return None };
        parent.regain(now);
        self.reports.splice(0..0, told);
        self.relay.resume(self.output_order.take_kept());
        out.extend([Effect::ForgetHelper, Effect::Trust(LinkId::PARENT), Effect::Reattached]);
        self.tell_ancestors(out);
        Some(())
    }
}
