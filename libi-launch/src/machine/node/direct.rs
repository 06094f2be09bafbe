//! Direct links: how a link moves from the channel that a process was started with to a connection of its own.
//!
//! ```text
//!   parent                                                     child
//!     | listens; the welcome says where, and holds the secret --> | dials every address at once
//!     | <===== handshake: each proves that it knows the secret =====> |
//!     | Proven                                                    Dialled(true) |
//!     | goodbye, on the channel; all that follows directly  -->   | reads on there behind the goodbye
//!     |                                                  <-- the same, in answer
//! ```
//!
//! Each direction moves by itself and behind everything that was said before, so order is kept. The child moves when the
//! parent has: its proof is the last of the handshake, and only the parent's goodbye says that it has arrived. The channel stays
//! open: its end is the end of the process, or of the shell that leads to it. When nobody answers in time, or the connection is
//! lost before the goodbye, the child says so, and the link stays where it is; children that come later are not asked to
//! try, unless somebody has succeeded before.
//!
//! The secret goes to children that will have such a link themselves or give one to others: on one machine nobody
//! gets one.

use std::net::SocketAddr;

use libi_core::ids::{HostIndex, SessionId};
use libi_core::plan::late::Launch;
use libi_core::secure::{LinkKey, LinkSecurity, Parent, Secret, Terms};
use libi_core::time::Instant;
use libi_core::wire::{Flags, Header, Kind, Limits, PROTOCOL};
use serde::{Deserialize, Serialize};

use super::{Effect, LinkId, Node};
use crate::failure::Cause;
use crate::machine::message::ChildMessage;

/// Where the bytes of a link between two hosts travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkPolicy {
    /// Directly where that works, and through the channel that the process was started with where it does not. A host tries
    /// for three seconds, in which the channel is used.
    #[default]
    Auto,
    /// Directly; a host that cannot be reached fails.
    Direct,
    /// Through the channel. Nobody listens, nobody dials.
    Channel,
}

/// Everything about direct links that travels with the welcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectSettings {
    /// Where links travel.
    pub links: LinkPolicy,
    /// All hosts are this machine: listen on its loopback address alone.
    pub loopback: bool,
    /// What happens to bytes there.
    pub mode: LinkSecurity,
    /// The session's secret, for whoever may need it.
    pub secret: Option<CarriedSecret>,
}

/// A secret as it travels: in a welcome, which goes through a protected channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CarriedSecret(#[serde(with = "libi_core::secure::in_ticket")] pub Secret);

/// Whether direct links are known to work here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DirectReach {
    #[default]
    Untried,
    Works,
    Fails,
}

/// What a node keeps about direct links.
#[derive(Debug, Default)]
pub(super) struct DirectLinks {
    pub(super) settings: DirectSettings,
    /// Where this node listens, once it does.
    addresses: Option<Vec<SocketAddr>>,
    reach: DirectReach,
    /// How far a member's own link is.
    own_link: LinkMove,
    /// A member was to reach its parent directly.
    requested: bool,
}

/// How far a member's link to its parent has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkMove {
    /// It is where it was, and nobody has asked for more, or it did not work.
    #[default]
    Stays,
    /// The parent is being dialled.
    Dialling,
    /// The parent was reached, and has not said yet that it knows.
    Reached,
    /// It has moved.
    Moved,
}

impl DirectLinks {
    /// Whether a member has to wait before it can say that it has joined.
    pub(super) fn must_wait(&self) -> bool {
        let missing = self.requested && self.own_link != LinkMove::Moved;
        missing && self.settings.links == LinkPolicy::Direct
    }

    /// What a child is told, which launches others by these means.
    pub(super) fn for_child(&self) -> DirectSettings {
        let fails = self.reach == DirectReach::Fails && self.settings.links == LinkPolicy::Auto;
        let links = if fails { LinkPolicy::Channel } else { self.settings.links };
        let secret = self.settings.secret.clone().filter(|_| links != LinkPolicy::Channel);
        DirectSettings { links, secret, ..self.settings.clone() }
    }

    /// Nobody is launched any more: nobody needs the secret.
    pub(super) fn forget_secret(&mut self) {
        self.settings.secret = None;
    }
}

impl Node {
    /// What binds a link: the same on both sides.
    fn terms(&self, parent: Option<HostIndex>, child: Launch) -> Terms {
        Terms {
            version: PROTOCOL.newest(),
            // The secret is another for each session; this number only has to be the same on both sides.
            session: SessionId(self.session.0 as u32),
            host: child.host,
            attempt: u32::from(child.attempt.lost) << 16 | u32::from(child.attempt.failed),
            parent: parent.map_or(Parent::FrontEnd, Parent::Host),
            mode: self.direct.settings.mode,
        }
    }

    /// The addresses that a child is to dial, if it is to; its key is known to whoever answers there.
    pub(super) fn offer_direct(
        &mut self,
        link: LinkId,
        launch: Launch,
        out: &mut Vec<Effect>,
    ) -> Vec<SocketAddr> {
        let Some(CarriedSecret(secret)) = &self.direct.settings.secret else { return Vec::new() };
        let fails = self.direct.reach == DirectReach::Fails && self.direct.settings.links == LinkPolicy::Auto;
        let addresses = self.direct.addresses.clone().unwrap_or_default();
        if self.direct.settings.links == LinkPolicy::Channel || fails || addresses.is_empty() {
            return Vec::new();
        }
        let key = LinkKey::derive(secret, &self.terms(self.leads, launch));
        out.push(Effect::AcceptDirect(link, key));
        addresses
    }

    /// Asks for a place to listen at, if children may dial it.
    pub(super) fn listen(&mut self, out: &mut Vec<Effect>) {
        let wanted =
            self.direct.settings.secret.is_some() && self.direct.settings.links != LinkPolicy::Channel;
        if wanted && self.direct.addresses.is_none() {
            self.direct.addresses = Some(Vec::new());
            out.push(Effect::Listen { loopback: self.direct.settings.loopback });
        }
    }

    pub(super) fn set_addresses(&mut self, addresses: Vec<SocketAddr>) {
        self.direct.addresses = Some(addresses);
    }

    /// A member tries to reach its parent directly.
    pub(super) fn dial(
        &mut self,
        parent: Option<HostIndex>,
        own: Launch,
        at: Vec<SocketAddr>,
        out: &mut Vec<Effect>,
    ) {
        let Some(CarriedSecret(secret)) = &self.direct.settings.secret else { return };
        self.direct.requested = true;
        if !at.is_empty() {
            self.direct.own_link = LinkMove::Dialling;
            out.push(Effect::ConnectDirect(at, LinkKey::derive(secret, &self.terms(parent, own))));
        } else if self.direct.settings.links == LinkPolicy::Direct {
            // The parent has no address to be reached at.
            self.reports.push(ChildMessage::NotDirect);
        }
    }

    /// A member has reached its parent, or nobody has answered who proved himself; or who did is gone before the link had
    /// moved.
    pub(super) fn direct_connected(&mut self, reached: bool) {
        match (self.direct.own_link, reached) {
            (LinkMove::Dialling, true) => self.direct.own_link = LinkMove::Reached,
            (LinkMove::Dialling | LinkMove::Reached, false) => {
                self.direct.own_link = LinkMove::Stays;
                self.reports.push(ChildMessage::NotDirect);
            }
            (LinkMove::Stays | LinkMove::Reached | LinkMove::Moved, _) => {}
        }
    }

    /// The parent says that this was the last on the channel. Nothing if it has no reason to.
    pub(super) fn parent_moved(&mut self, out: &mut Vec<Effect>) -> Option<()> {
        if self.direct.own_link != LinkMove::Reached {
            return None;
        }
        self.direct.own_link = LinkMove::Moved;
        out.push(Effect::ReceiveDirect(LinkId::PARENT));
        Self::switch_to_direct(LinkId::PARENT, out);
        self.check_joined();
        Some(())
    }

    /// A child has reached this node.
    pub(super) fn direct_accepted(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(&link).filter(|child| child.is_up()) else { return };
        child.direct = true;
        let host = child.host();
        self.direct.reach = DirectReach::Works;
        self.reports.extend(host.map(|host| ChildMessage::Link(host, true)));
        Self::switch_to_direct(link, out);
    }

    /// A child says that it cannot reach this node.
    pub(super) fn not_direct(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        if self.direct.reach == DirectReach::Untried {
            self.direct.reach = DirectReach::Fails;
        }
        out.push(Effect::RejectDirect(link));
        let Some(child) = self.children.get(&link) else { return };
        if child.direct {
            // It was proven, and we have moved: what was said since is lost.
            self.force_end(link, Cause::Closed, now, out);
        } else if self.direct.settings.links == LinkPolicy::Direct {
            self.force_end(link, Cause::Unreachable, now, out);
        } else {
            self.reports.extend(child.host().map(|host| ChildMessage::Link(host, false)));
        }
    }

    /// Says that this was the last on the channel, and goes on directly.
    fn switch_to_direct(link: LinkId, out: &mut Vec<Effect>) {
        if let Ok(goodbye) = Header::new(Kind::Goodbye, Flags::NONE, 0, 0, &Limits::AUTHENTICATED) {
            out.push(Effect::Send(link, goodbye.encode().to_vec()));
            out.push(Effect::SendDirect(link));
        }
    }

    /// How many links to children of this node are direct, and how many there are.
    #[must_use]
    pub fn direct_links(&self) -> (usize, usize) {
        let leaders = self.children.values().filter(|child| child.launch.is_some());
        (leaders.clone().filter(|child| child.direct).count(), leaders.count())
    }
}
