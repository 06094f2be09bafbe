//! Direct links: moves a link from the channel of the remote shell to a connection of its own.
//!
//! A session comes up over its channels. Links that may stay there move later, and only those that
//! carry enough: a session that is over before that costs no connection. Links that have to be direct,
//! and those that carry staged files, move at once.
//!
//! ```text
//!   parent                                               child
//!     | listens; config with addresses and secret ---->  |
//!     | <---------------------------- WantsDirect (late) | the link has carried enough
//!     | Connect (late) --------------------------------> | connects to all addresses
//!     | <======= handshake: both prove the secret ====>  |
//!     | DirectAccepted                                   | DirectConnected(true)
//!     | Goodbye on the channel; sends directly ------->  | receives directly from there on
//!     | receives directly from there on <--------------  | Goodbye on the channel; sends directly
//! ```
//!
//! | state of the link to the parent | event | next state |
//! |---|---|---|
//! | `Stays` | the config has addresses, and the link moves at once | `Connecting` |
//! | `Stays` | the config has addresses | `Offered`; once the session is up, counts what the link carries |
//! | `Offered` | the link has carried enough | `Wanted`; sends `WantsDirect` |
//! | `Wanted` | `Connect` of the parent | `Connecting` |
//! | any other | `Connect` of the parent | violates the protocol |
//! | `Stays` | the config has none | `Stays`; sends `NotDirect` if the link has to be direct |
//! | `Stays` | the parent is to be another node | `Moving`; without addresses `Stays`, sends `NotDirect` |
//! | `Moving` | `DirectConnected(true)` | `Moved`; sends `Goodbye` |
//! | `Moving` | `DirectConnected(false)` | `Stays`; sends `NotDirect` |
//! | `Connecting` | `DirectConnected(true)` | `Reached` |
//! | `Connecting`, `Reached` | `DirectConnected(false)` | `Stays`; sends `NotDirect` |
//! | `Reached` | `Goodbye` of the parent | `Moved`; sends `Goodbye` |
//! | any other | `Goodbye` of the parent | violates the protocol |
//! | any | the parent is lost, and [another one](super::orphans) is sought | `Moved` |
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
//! | late moves of children | event | next |
//! |---|---|---|
//! | fewer than [`AT_ONCE`] | `WantsDirect` | sends `Connect` |
//! | [`AT_ONCE`], or the links are at `Fails` | `WantsDirect` | the child waits, and goes on over its channel |
//! | any | `DirectAccepted`, `NotDirect`, or the end of a child that was told | the next one's turn |
//!
//! Each direction moves separately, after everything that was sent before, so the order is kept.
//! The child moves after the parent: the child's proof is the last message of the handshake, and
//! only the parent's `Goodbye` shows that it has arrived. The channel stays open, because its end
//! marks the end of the process, or of the shell that leads to it. If no address answers in time,
//! or the connection ends before the `Goodbye`, the child says so, and the link stays in the
//! channel. Later children are then not asked to connect, unless an earlier one has succeeded.
//!
//! The secret is sent only to children that will have a direct link themselves or offer one.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use libi_core::ids::{LinkId, StartId};
use libi_core::secure::{LinkKey, Secret, Terms};
use serde::{Deserialize, Serialize};

/// How many children connect at a time while the session is up, so that handshakes do not stand in the
/// way of calls.
const AT_ONCE: usize = 4;

/// Where the bytes of a link between two hosts travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkPolicy {
    /// In the channel of the remote shell until the session is up and the link has carried some
    /// 100 KB, or 32 messages of calls; then on a direct connection, where that works. A host tries to
    /// connect for three seconds, in which it uses the channel.
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

    /// The secret of the links of hosts by which a session has grown, from that of orphans.
    pub(super) fn of_growth(&self) -> Self {
        Self(self.0.of_growth())
    }

    /// The secret with which hosts that have lost their parent find another one.
    pub(super) fn of_orphans(&self) -> Self {
        Self(self.0.of_orphans())
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
    /// The member may connect to the parent when the link has carried enough.
    Offered,
    /// The member has asked when to connect.
    Wanted,
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
    /// It may connect later.
    Later,
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
    /// The secret with which hosts that have lost their parent find another one, if they do.
    orphans_secret: Option<CarriedSecret>,
    listening: Listening,
    reach: Reach,
    /// The state of a member's own link.
    own_link: LinkMove,
    /// Where this member may connect later, and the key that it then proves.
    offer: Option<(Vec<SocketAddr>, LinkKey)>,
    /// Whether this member was asked to connect to its parent.
    requested: bool,
    turns: Turns,
}

/// Whose turn it is to connect, of the children that want to.
#[derive(Debug, Default)]
struct Turns {
    connecting: BTreeSet<LinkId>,
    waiting: VecDeque<LinkId>,
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

    pub(super) fn set_orphans_secret(&mut self, secret: Option<CarriedSecret>) {
        self.orphans_secret = secret;
    }

    /// The secret with which hosts that have lost their parent find another one, if they do.
    pub(super) fn orphans_secret(&self) -> Option<&CarriedSecret> {
        self.orphans_secret.as_ref()
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

    /// A child wants to connect: returns the children whose turn it is.
    pub(super) fn child_wants(&mut self, link: LinkId) -> Vec<LinkId> {
        self.turns.waiting.push_back(link);
        self.next_turns()
    }

    /// A child has connected, cannot, or is gone: returns the children whose turn it is.
    pub(super) fn turn_is_over(&mut self, link: LinkId) -> Vec<LinkId> {
        self.turns.connecting.remove(&link);
        self.turns.waiting.retain(|waiting| *waiting != link);
        self.next_turns()
    }

    fn next_turns(&mut self) -> Vec<LinkId> {
        let Turns { connecting, waiting } = &mut self.turns;
        let places = if self.reach == Reach::Fails { 0 } else { AT_ONCE };
        let free = places.saturating_sub(connecting.len()).min(waiting.len());
        let next: Vec<LinkId> = waiting.drain(..free).collect();
        connecting.extend(&next);
        next
    }

    /// Whether the driver is to count what the link to the parent carries.
    pub(super) fn may_move_later(&self) -> bool {
        self.own_link == LinkMove::Offered
    }

    /// The link has carried enough: returns whether to ask the parent when to connect.
    pub(super) fn carries_enough(&mut self) -> bool {
        let wants = self.own_link == LinkMove::Offered;
        if wants {
            self.own_link = LinkMove::Wanted;
        }
        wants
    }

    /// The parent says that it is this member's turn to connect; `None` if that was not expected.
    pub(super) fn may_connect(&mut self) -> Option<(Vec<SocketAddr>, LinkKey)> {
        let offer = self.offer.take_if(|_| self.own_link == LinkMove::Wanted)?;
        self.own_link = LinkMove::Connecting;
        Some(offer)
    }

    /// The config has told at which addresses the parent listens. The link moves `at_once`, or when it
    /// has carried enough.
    pub(super) fn dial(
        &mut self,
        addresses: &[SocketAddr],
        policy: LinkPolicy,
        at_once: bool,
        terms: &Terms,
    ) -> Dial {
        let Some(CarriedSecret(secret)) = &self.secret else { return Dial::Stay };
        self.requested = true;
        if self.own_link == LinkMove::Moved {
            return Dial::Stay;
        }
        let key = || LinkKey::derive(secret, terms);
        if !addresses.is_empty() && !at_once && policy == LinkPolicy::Auto {
            self.offer = Some((addresses.to_vec(), key()));
            self.own_link = LinkMove::Offered;
            Dial::Later
        } else if !addresses.is_empty() {
            self.own_link = LinkMove::Connecting;
            Dial::Connect(key())
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
            (_, _) => false,
        }
    }

    /// The parent's last frame on the channel has arrived; `None` if it was not expected.
    pub(super) fn parent_moved(&mut self) -> Option<()> {
        (self.own_link == LinkMove::Reached).then(|| self.own_link = LinkMove::Moved)
    }

    /// The parent is lost, and the link to any other one is a direct connection.
    pub(super) fn parent_lost(&mut self) {
        (self.own_link, self.offer) = (LinkMove::Moved, None);
    }

    /// Whether a member has to wait before it can report that it has joined.
    pub(super) fn must_wait(&self, policy: LinkPolicy) -> bool {
        let missing = self.requested && self.own_link != LinkMove::Moved;
        missing && policy == LinkPolicy::Direct
    }
}

#[cfg(test)]
mod tests;
