//! Direct links of a node: passes events to [`DirectLinks`](crate::machine::direct_links), and
//! tells the driver, the parent and the children what follows.

use std::net::SocketAddr;

use libi_core::ids::{HostIndex, SessionId};
use libi_core::plan::late::Launch;
use libi_core::secure::{Parent, Terms};
use libi_core::time::Instant;
use libi_core::wire::{Kind, PROTOCOL, encode_bytes};

use super::{Effect, LinkId, Node};
use crate::backend::LaunchMethod;
use crate::failure::Cause;
use crate::machine::direct_links::{Dial, LinkPolicy};
use crate::machine::message::{ChildMessage, ParentMessage};

impl Node {
    /// The terms that both sides of a link sign.
    pub(super) fn terms(&self, parent: Option<HostIndex>, child: Launch) -> Terms {
        Terms {
            version: PROTOCOL.newest(),
            // Each session has its own secret; this number only has to be the same on both sides.
            session: SessionId(self.session.0 as u32),
            host: child.host,
            attempt: child.attempt.number(),
            parent: parent.map_or(Parent::FrontEnd, Parent::Host),
            mode: self.options.link_security,
        }
    }

    /// The addresses for a child to connect to, if it is to; accepts its key from now on.
    pub(super) fn offer_direct(
        &mut self,
        link: LinkId,
        launch: Launch,
        out: &mut Vec<Effect>,
    ) -> Vec<SocketAddr> {
        let offer = self.direct.offer(self.options.links, &self.terms(self.leads(), launch));
        let Some((addresses, key)) = offer else { return Vec::new() };
        out.push(Effect::AcceptDirect(link, key));
        addresses
    }

    /// Starts to listen, if children may connect directly, or arrive at the rendezvous.
    pub(super) fn listen(&mut self, out: &mut Vec<Effect>) {
        let is_bulk = self.is_front() && self.options.launch_method().bulk().is_some();
        let wanted = is_bulk || self.options.links != LinkPolicy::Channel;
        if wanted && self.direct.listen() {
            out.push(Effect::Listen { loopback: self.options.loopback });
        }
    }

    /// Connects a member to its parent.
    pub(super) fn dial(
        &mut self,
        parent: Option<HostIndex>,
        own: Launch,
        at: Vec<SocketAddr>,
        out: &mut Vec<Effect>,
    ) {
        let terms = self.terms(parent, own);
        match self.direct.dial(&at, self.options.links, self.stages_files(), &terms) {
            Dial::Connect(key) => out.push(Effect::ConnectDirect(at, key)),
            Dial::NotDirect => self.reports.push(ChildMessage::NotDirect),
            Dial::Later | Dial::Stay => {}
        }
    }

    /// The session is up: the link may move once it has carried enough.
    pub(super) fn watch_link(&self, out: &mut Vec<Effect>) {
        if self.direct.may_move_later() {
            out.push(Effect::Watch(LinkId::PARENT));
        }
    }

    /// The link to the parent has carried enough to be worth a connection.
    pub(super) fn link_carries(&mut self) {
        if !self.stage.has_begun_to_end() && self.direct.carries_enough() {
            self.reports.push(ChildMessage::WantsDirect);
        }
    }

    /// It is this member's turn to connect; `None` if it has not asked for that.
    pub(super) fn may_connect(&mut self, out: &mut Vec<Effect>) -> Option<()> {
        let (addresses, key) = self.direct.may_connect()?;
        out.push(Effect::ConnectDirect(addresses, key));
        Some(())
    }

    /// It is the turn of these children to connect.
    pub(super) fn connect_children(links: Vec<LinkId>, out: &mut Vec<Effect>) {
        for link in links {
            Self::send(link, Kind::Control, &ParentMessage::Connect, out);
        }
    }

    /// The result of connecting to the parent; `false` also if the connection ends before the link
    /// has moved.
    pub(super) fn direct_connected(&mut self, reached: bool, now: Instant, out: &mut Vec<Effect>) {
        if self.ancestor_connected(reached, now, out) {
            return;
        }
        if !(reached && self.new_parent_reached(now, out)) && self.direct.connected(reached) {
            self.reports.push(ChildMessage::NotDirect);
            self.forget_move();
        }
    }

    /// The parent's last frame on the channel has arrived; `None` if it was not expected.
    pub(super) fn parent_moved(&mut self, out: &mut Vec<Effect>) -> Option<()> {
        self.direct.parent_moved()?;
        out.push(Effect::ReceiveDirect(LinkId::PARENT));
        Self::switch_to_direct(LinkId::PARENT, out);
        self.check_joined();
        Some(())
    }

    /// A child has connected directly.
    pub(super) fn direct_accepted(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        if self.children.get_mut(link).is_some_and(|child| child.moves_here(now)) {
            return self.moved_here(link, out);
        }
        let Some(child) = self.children.get_mut(link).filter(|child| child.is_up()) else { return };
        child.send_directly();
        let host = child.host();
        self.direct.child_connected();
        Self::connect_children(self.direct.turn_is_over(link), out);
        self.reports.extend(host.map(|host| ChildMessage::Link(host, true)));
        Self::switch_to_direct(link, out);
    }

    /// A child cannot connect directly.
    pub(super) fn not_direct(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        self.direct.child_not_direct();
        Self::connect_children(self.direct.turn_is_over(link), out);
        out.push(Effect::RejectDirect(link));
        let Some(child) = self.children.get(link) else { return };
        if child.is_direct() {
            // The link had moved already, and frames that were sent since are lost.
            self.force_end(link, Cause::Closed, now, out);
        } else if self.options.links == LinkPolicy::Direct {
            self.force_end(link, Cause::Unreachable, now, out);
        } else {
            self.reports.extend(child.host().map(|host| ChildMessage::Link(host, false)));
        }
    }

    /// Ends the channel with a `Goodbye`, and sends directly from now on.
    pub(super) fn switch_to_direct(link: LinkId, out: &mut Vec<Effect>) {
        if let Ok(goodbye) = encode_bytes(Kind::Goodbye, &[]) {
            out.push(Effect::Send(link, goodbye));
            out.push(Effect::SendDirect(link));
        }
    }

    /// The number of direct links to leaders, and of all links to leaders.
    #[must_use]
    pub fn direct_links(&self) -> (usize, usize) {
        let leaders = self.children.leaders();
        (leaders.clone().filter(|(_, child)| child.is_direct()).count(), leaders.count())
    }
}
