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
//! | state of the link to the parent | event | next state |
//! |---|---|---|
//! | `Stays` | the config has addresses | `Connecting` |
//! | `Stays` | the config has none | `Stays`; sends `NotDirect` if the link has to be direct |
//! | `Stays` | the parent is to be another node | `Moving`; without addresses `Stays`, sends `NotDirect` |
//! | `Moving` | `DirectConnected(true)` | `Moved`; sends `Goodbye` |
//! | `Moving` | `DirectConnected(false)` | `Stays`; sends `NotDirect` |
//! | `Connecting` | `DirectConnected(true)` | `Reached` |
//! | `Connecting`, `Reached` | `DirectConnected(false)` | `Stays`; sends `NotDirect` |
//! | `Reached` | `Goodbye` of the parent | `Moved`; sends `Goodbye` |
//! | any other | `Goodbye` of the parent | violates the protocol |
//!
//! | state of the listener | event | next state |
//! |---|---|---|
//! | `No` | children may connect, and a secret is known; or this node is a relay | `Asked`; `Listen` |
//! | any | `Listening` | `At` these addresses |
//!
//! | links of children | event | next state |
//! |---|---|---|
//! | any | `DirectAccepted` | `Works` |
//! | `Untried` | `NotDirect` of a child | `Fails`: later children are not asked to connect |
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

use libi_core::ids::StartId;
use libi_core::secure::{LinkKey, Secret, Terms};
use serde::{Deserialize, Serialize};

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

    /// The secret with which hosts get files from each other.
    pub(super) fn of_files(&self) -> Self {
        Self(self.0.of_files())
    }
}

/// Whether children can connect directly, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reach {
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
    /// The member is connecting to another node, which becomes its parent.
    Moving,
    /// The link has moved.
    Moved,
}

/// How a member begins to move its link to the parent.
#[derive(Debug)]
pub(super) enum Dial {
    /// It connects, and proves knowledge of this key.
    Connect(LinkKey),
    /// The parent does not listen, and the link has to be direct.
    NotDirect,
    /// The link stays in the channel.
    Stay,
}

/// The state of a node's direct links.
#[derive(Debug, Default)]
pub(super) struct DirectLinks {
    /// The session's secret, while it is needed.
    secret: Option<CarriedSecret>,
    /// The secret with which hosts get files from each other, while it is needed.
    files_secret: Option<CarriedSecret>,
    listening: Listening,
    reach: Reach,
    /// The state of a member's own link.
    own_link: LinkMove,
    /// Whether this member was asked to connect to its parent.
    requested: bool,
}

impl DirectLinks {
    pub(super) fn set_secret(&mut self, secret: Option<CarriedSecret>) {
        self.secret = secret;
    }

    /// The session's secret, while it is needed.
    pub(super) fn secret(&self) -> Option<&CarriedSecret> {
        self.secret.as_ref()
    }

    pub(super) fn set_files_secret(&mut self, secret: Option<CarriedSecret>) {
        self.files_secret = secret;
    }

    /// The secret with which hosts get files from each other, if they do, while it is needed.
    pub(super) fn files_secret(&self) -> Option<&CarriedSecret> {
        self.files_secret.as_ref()
    }

    /// Forgets the secrets, when no host is launched any more.
    pub(super) fn forget_secret(&mut self) {
        (self.secret, self.files_secret) = (None, None);
    }

    /// Children may connect directly, or arrive at the rendezvous: returns whether to listen for
    /// them now.
    pub(super) fn listen(&mut self) -> bool {
        self.secret.is_some() && self.listen_for_others()
    }

    /// Others arrive here that need no secret of the session: returns whether to listen for them now.
    pub(super) fn listen_for_others(&mut self) -> bool {
        let begins = self.listening == Listening::No;
        if begins {
            self.listening = Listening::Asked;
        }
        begins
    }

    pub(super) fn set_addresses(&mut self, addresses: Vec<SocketAddr>) {
        self.listening = Listening::At(addresses);
    }

    /// The addresses at which this node accepts connections, once they are known.
    pub(super) fn addresses(&self) -> Option<&[SocketAddr]> {
        match &self.listening {
            Listening::At(addresses) => Some(addresses),
            Listening::No | Listening::Asked => None,
        }
    }

    /// Whether a child has connected directly.
    pub(super) fn children_can_connect(&self) -> bool {
        self.reach == Reach::Works
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

    /// Where the links of children travel: in the channel if direct links have failed here.
    pub(super) fn policy_for_children(&self, policy: LinkPolicy) -> LinkPolicy {
        let fails = self.reach == Reach::Fails && policy == LinkPolicy::Auto;
        if fails { LinkPolicy::Channel } else { policy }
    }

    /// The secret with which children get files from others; `None` if they get them from here, as
    /// where direct links have failed.
    pub(super) fn files_secret_of_children(&self) -> Option<&CarriedSecret> {
        self.files_secret.as_ref().filter(|_| self.reach != Reach::Fails)
    }

    /// The addresses for a child to connect to, and the key that it has to prove; `None` if it
    /// stays in the channel.
    pub(super) fn offer(&self, policy: LinkPolicy, terms: &Terms) -> Option<(Vec<SocketAddr>, LinkKey)> {
        let (CarriedSecret(secret), addresses) = self.rendezvous()?;
        let is_direct = self.policy_for_children(policy) != LinkPolicy::Channel;
        is_direct.then(|| (addresses.to_vec(), LinkKey::derive(secret, terms)))
    }

    /// A child has connected directly.
    pub(super) fn child_connected(&mut self) {
        self.reach = Reach::Works;
    }

    /// A child cannot connect directly.
    pub(super) fn child_not_direct(&mut self) {
        if self.reach == Reach::Untried {
            self.reach = Reach::Fails;
        }
    }

    /// The config has told at which addresses the parent listens.
    pub(super) fn dial(&mut self, addresses: &[SocketAddr], policy: LinkPolicy, terms: &Terms) -> Dial {
        let Some(CarriedSecret(secret)) = &self.secret else { return Dial::Stay };
        self.requested = true;
        if self.own_link == LinkMove::Moved {
            return Dial::Stay;
        }
        if !addresses.is_empty() {
            self.own_link = LinkMove::Connecting;
            Dial::Connect(LinkKey::derive(secret, terms))
        } else if policy == LinkPolicy::Direct {
            Dial::NotDirect
        } else {
            Dial::Stay
        }
    }

    /// The parent is to be another node, at these addresses.
    pub(super) fn dial_new_parent(&mut self, addresses: &[SocketAddr], terms: &Terms) -> Dial {
        let Some(CarriedSecret(secret)) = &self.secret else { return Dial::NotDirect };
        if addresses.is_empty() || self.own_link != LinkMove::Stays {
            return Dial::NotDirect;
        }
        self.own_link = LinkMove::Moving;
        Dial::Connect(LinkKey::derive(secret, terms))
    }

    /// The member is connected; returns whether that is to its new parent, to which its link has moved.
    pub(super) fn new_parent_reached(&mut self) -> bool {
        let moves = self.own_link == LinkMove::Moving;
        if moves {
            self.own_link = LinkMove::Moved;
        }
        moves
    }

    /// The result of connecting to the parent; `reached` is false also if the connection ends
    /// before the link has moved. Returns whether the parent is told that the link stays in the
    /// channel.
    pub(super) fn connected(&mut self, reached: bool) -> bool {
        match (self.own_link, reached) {
            (LinkMove::Connecting, true) => {
                self.own_link = LinkMove::Reached;
                false
            }
            (LinkMove::Connecting | LinkMove::Reached | LinkMove::Moving, false) => {
                self.own_link = LinkMove::Stays;
                true
            }
            (LinkMove::Stays | LinkMove::Reached | LinkMove::Moving | LinkMove::Moved, _) => false,
        }
    }

    /// The parent's last frame on the channel has arrived; `None` if it was not expected.
    pub(super) fn parent_moved(&mut self) -> Option<()> {
        (self.own_link == LinkMove::Reached).then(|| self.own_link = LinkMove::Moved)
    }

    /// Whether a member has to wait before it can report that it has joined.
    pub(super) fn must_wait(&self, policy: LinkPolicy) -> bool {
        let missing = self.requested && self.own_link != LinkMove::Moved;
        missing && policy == LinkPolicy::Direct
    }
}

#[cfg(test)]
mod tests;
