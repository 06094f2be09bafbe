//! Hosts that lose their parent, and find another one; see [`machine::orphans`](crate::machine::orphans).

mod above;

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::{HostIndex, SessionId};
use libi_core::plan::late::Launch;
use libi_core::ranks::Ranks;
use libi_core::secure::{LinkKey, Parent, Terms};
use libi_core::time::Instant;
use libi_core::wire::{Kind, PROTOCOL};

use super::session_end::TERMINATE;
use super::{Effect, Identity, LinkId, Node, Role};
use crate::machine::direct_links::CarriedSecret;
use crate::machine::message::{Ancestor, ChildMessage, Ending, OrphanClaim};
use crate::machine::orphans::Search;

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
            return self.search(search, now, out);
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
        self.search(search, now, out)
    }

    /// Goes on with the search. False if there is no other parent: everything ends.
    fn search(&mut self, search: Search, now: Instant, out: &mut Vec<Effect>) -> bool {
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
                let ending = Ending { signal: TERMINATE, grace: self.options.rules.kill_grace };
                self.end(ending, now, out);
                out.extend([Effect::ForgetHelper, Effect::Cut(LinkId::PARENT, None)]);
                false
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

    /// The result of connecting to a node above; returns whether this host was looking for a parent.
    pub(super) fn ancestor_connected(&mut self, reached: bool, now: Instant, out: &mut Vec<Effect>) -> bool {
        if !self.orphans.is_orphan() {
            return false;
        }
        if !reached || !self.orphans.connected() {
            let search = self.orphans.next(now);
            if !self.search(search, now, out) {
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
