//! Direct links: moves a link from the channel of the remote shell to a connection of its own.
//!
//! ```text
//!   parent                                               child
//!     | listens; config with addresses and secret ---->  | connects to all addresses
//!     | <======= handshake: both prove the secret ====>  |
//!     | DirectAccepted                                   | DirectConnected(true)
//!     | Goodbye on the channel; sends directly ------->  | receives directly from there on
//!     | receives directly from there on <--------------  | Goodbye on the channel; sends directly
//! ```
//!
//! | state of the child's link | event | next state |
//! |---|---|---|
//! | `Stays` | the config has addresses | `Connecting` |
//! | `Connecting` | `DirectConnected(true)` | `Reached` |
//! | `Connecting`, `Reached` | `DirectConnected(false)` | `Stays`; sends `NotDirect` |
//! | `Reached` | `Goodbye` of the parent | `Moved` |
//!
//! Each direction moves separately, after everything that was sent before, so the order is kept.
//! The child moves after the parent: the child's proof is the last message of the handshake, and
//! only the parent's `Goodbye` shows that it has arrived. The channel stays open, because its end
//! marks the end of the process, or of the shell that leads to it. If no address answers in time,
//! or the connection ends before the `Goodbye`, the child says so, and the link stays in the
//! channel. Later children are then not asked to connect, unless an earlier one has succeeded.
//!
//! The secret is sent only to children that will have a direct link themselves or offer one.

use std::net::SocketAddr;

use libi_core::ids::{HostIndex, SessionId, StartId};
use libi_core::plan::late::Launch;
use libi_core::secure::{LinkKey, Parent, Secret, Terms};
use libi_core::time::Instant;
use libi_core::wire::{Kind, PROTOCOL, encode_bytes};
use serde::{Deserialize, Serialize};

use super::{Effect, LinkId, Node};
use crate::backend::LaunchMethod;
use crate::failure::Cause;
use crate::machine::message::ChildMessage;

/// Where the bytes of a link between two hosts travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkPolicy {
    /// On a direct connection where that works, otherwise in the channel of the remote shell. A
    /// host tries to connect for three seconds, in which it uses the channel.
    #[default]
    Auto,
    /// On a direct connection. A host that cannot connect fails.
    Direct,
    /// In the channel. No node listens or connects.
    Channel,
}

/// A secret in a config, which travels through a protected channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CarriedSecret(#[serde(with = "libi_core::secure::in_ticket")] pub Secret);

impl CarriedSecret {
    /// The secret that admits to this start alone.
    pub(super) fn of_start(&self, start: StartId) -> Self {
        Self(self.0.of_start(start))
    }
}

/// Whether direct links work here, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DirectReach {
    #[default]
    Untried,
    Works,
    Fails,
}

/// Where this node accepts connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Listening {
    /// Nothing has asked for it.
    #[default]
    No,
    /// The driver was asked to listen.
    Asked,
    /// At these addresses; nowhere if there are none.
    At(Vec<SocketAddr>),
}

/// State of direct links of a node.
#[derive(Debug, Default)]
pub(super) struct DirectLinks {
    /// The session's secret, while it is needed.
    pub(super) secret: Option<CarriedSecret>,
    listening: Listening,
    reach: DirectReach,
    /// The state of a member's own link.
    own_link: LinkMove,
    /// Whether this member was asked to connect to its parent.
    requested: bool,
}

/// How far a member's link to its parent has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkMove {
    /// The link is in the channel: no move was asked for, or it has failed.
    #[default]
    Stays,
    /// The member is connecting to the parent.
    Connecting,
    /// The member is connected; the parent has not confirmed.
    Reached,
    /// The link has moved.
    Moved,
}

impl DirectLinks {
    /// Whether a member has to wait before it can report that it has joined.
    pub(super) fn must_wait(&self, policy: LinkPolicy) -> bool {
        let missing = self.requested && self.own_link != LinkMove::Moved;
        missing && policy == LinkPolicy::Direct
    }

    /// The secret, and the addresses at which links can arrive.
    pub(super) fn rendezvous(&self) -> Option<(&CarriedSecret, &[SocketAddr])> {
        let Listening::At(addresses) = &self.listening else { return None };
        self.secret.as_ref().map(|secret| (secret, addresses.as_slice())).filter(|(_, at)| !at.is_empty())
    }

    /// Whether no link can ever arrive here.
    pub(super) fn cannot_listen(&self) -> bool {
        self.secret.is_none() || self.listening == Listening::At(Vec::new())
    }

    /// Forgets the secret, when no host is launched any more.
    pub(super) fn forget_secret(&mut self) {
        self.secret = None;
    }
}

impl Node {
    /// Where the links of children travel: in the channel if direct links have failed here.
    pub(super) fn links_of_children(&self) -> LinkPolicy {
        let fails = self.direct.reach == DirectReach::Fails && self.options.links == LinkPolicy::Auto;
        if fails { LinkPolicy::Channel } else { self.options.links }
    }

    /// The terms that both sides of a link sign.
    fn terms(&self, parent: Option<HostIndex>, child: Launch) -> Terms {
        Terms {
            version: PROTOCOL.newest(),
            // Each session has its own secret; this number only has to be the same on both sides.
            session: SessionId(self.session.0 as u32),
            host: child.host,
            attempt: u32::from(child.attempt.lost) << 16 | u32::from(child.attempt.failed),
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
        let Some((CarriedSecret(secret), addresses)) = self.direct.rendezvous() else { return Vec::new() };
        if self.links_of_children() == LinkPolicy::Channel {
            return Vec::new();
        }
        let addresses = addresses.to_vec();
        let key = LinkKey::derive(secret, &self.terms(self.leads(), launch));
        out.push(Effect::AcceptDirect(link, key));
        addresses
    }

    /// Starts to listen, if children may connect directly, or arrive at the rendezvous.
    pub(super) fn listen(&mut self, out: &mut Vec<Effect>) {
        let is_bulk = self.is_front() && self.options.launch_method().bulk().is_some();
        let wanted = is_bulk || self.options.links != LinkPolicy::Channel;
        if wanted && self.direct.secret.is_some() && self.direct.listening == Listening::No {
            self.direct.listening = Listening::Asked;
            out.push(Effect::Listen { loopback: self.options.loopback });
        }
    }

    pub(super) fn set_addresses(&mut self, addresses: Vec<SocketAddr>) {
        self.direct.listening = Listening::At(addresses);
    }

    /// Connects a member to its parent.
    pub(super) fn dial(
        &mut self,
        parent: Option<HostIndex>,
        own: Launch,
        at: Vec<SocketAddr>,
        out: &mut Vec<Effect>,
    ) {
        let Some(CarriedSecret(secret)) = &self.direct.secret else { return };
        self.direct.requested = true;
        if !at.is_empty() {
            self.direct.own_link = LinkMove::Connecting;
            out.push(Effect::ConnectDirect(at, LinkKey::derive(secret, &self.terms(parent, own))));
        } else if self.options.links == LinkPolicy::Direct {
            // The parent does not listen.
            self.reports.push(ChildMessage::NotDirect);
        }
    }

    /// The result of connecting to the parent; `false` also if the connection ends before the link
    /// has moved.
    pub(super) fn direct_connected(&mut self, reached: bool) {
        match (self.direct.own_link, reached) {
            (LinkMove::Connecting, true) => self.direct.own_link = LinkMove::Reached,
            (LinkMove::Connecting | LinkMove::Reached, false) => {
                self.direct.own_link = LinkMove::Stays;
                self.reports.push(ChildMessage::NotDirect);
            }
            (LinkMove::Stays | LinkMove::Reached | LinkMove::Moved, _) => {}
        }
    }

    /// The parent's last frame on the channel has arrived; `None` if it was not expected.
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

    /// A child has connected directly.
    pub(super) fn direct_accepted(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(link).filter(|child| child.is_up()) else { return };
        child.send_directly();
        let host = child.host();
        self.direct.reach = DirectReach::Works;
        self.reports.extend(host.map(|host| ChildMessage::Link(host, true)));
        Self::switch_to_direct(link, out);
    }

    /// A child cannot connect directly.
    pub(super) fn not_direct(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        if self.direct.reach == DirectReach::Untried {
            self.direct.reach = DirectReach::Fails;
        }
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
    fn switch_to_direct(link: LinkId, out: &mut Vec<Effect>) {
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
