//! What a link is bound to, and the key id and key that are derived from it.

use core::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::Secret;
use super::digest::keyed_hash;
use crate::ids::{HostIndex, SessionId, StartId};
use crate::wire::Version;

/// The terms of a link, as its ticket states them. The handshake succeeds only if both sides have
/// the same terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The protocol version of the link.
    pub version: Version,
    /// The session.
    pub session: SessionId,
    /// The child's host.
    pub host: HostIndex,
    /// The number of the attempt to launch that host. A later attempt's link is another link.
    pub attempt: u32,
    /// The listening end.
    pub parent: Parent,
    /// How bytes travel after the proof.
    pub mode: LinkSecurity,
}

/// The end of a link that is nearer to the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Parent {
    /// The front end itself.
    FrontEnd,
    /// The leader on this host.
    Host(HostIndex),
}

/// How bytes travel after the proof. Every mode includes the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LinkSecurity {
    /// They travel in sealed records.
    #[default]
    Encrypted,
    /// They travel unencrypted: an attacker in the network can read and change them. For trusted
    /// networks.
    Authenticated,
}

impl Terms {
    /// The length of a prologue.
    pub const PROLOGUE_LEN: usize = 28;

    /// The terms as both sides hash them into the handshake. Different terms give different bytes.
    #[must_use]
    pub fn prologue(&self) -> [u8; Self::PROLOGUE_LEN] {
        let mode = match self.mode {
            LinkSecurity::Encrypted => 1,
            LinkSecurity::Authenticated => 2,
        };
        let (kind, parent) = match self.parent {
            Parent::FrontEnd => (0, 0),
            Parent::Host(host) => (1, host.0),
        };
        let mut bytes = [0; Self::PROLOGUE_LEN];
        bytes[..8].copy_from_slice(b"libilink");
        bytes[8..10].copy_from_slice(&self.version.0.to_le_bytes());
        bytes[10] = mode;
        bytes[11] = kind;
        for (field, value) in
            bytes[12..].chunks_exact_mut(4).zip([self.session.0, self.host.0, self.attempt, parent])
        {
            field.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }
}

/// Names the key of a link before anything is proven. It is not secret, and reveals nothing about
/// the link without the session's secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(
    /// The bytes on the wire.
    pub [u8; Self::LEN],
);

impl KeyId {
    /// The length of a key id.
    pub const LEN: usize = 16;
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// The key material with which one end proves a link: derived from the secret, and valid for this
/// link alone.
#[derive(Clone)]
pub struct LinkKey {
    id: KeyId,
    mode: LinkSecurity,
    prologue: [u8; Terms::PROLOGUE_LEN],
    psk: Zeroizing<[u8; 32]>,
}

impl LinkKey {
    /// The key of the link with these terms in the session that has this secret.
    #[must_use]
    pub fn derive(secret: &Secret, terms: &Terms) -> Self {
        let prologue = terms.prologue();
        let id = keyed_hash(secret.for_ticket(), &[b"libi id ", &prologue]);
        let mut key = Self {
            id: KeyId([0; KeyId::LEN]),
            mode: terms.mode,
            prologue,
            psk: keyed_hash(secret.for_ticket(), &[b"libi psk", &prologue]),
        };
        key.id.0.copy_from_slice(&id[..KeyId::LEN]);
        key
    }

    /// A key of no link: with it, an unknown key id costs the same work as a known one.
    pub(super) fn decoy() -> Self {
        Self {
            id: KeyId([0; KeyId::LEN]),
            mode: LinkSecurity::Encrypted,
            prologue: [0; Terms::PROLOGUE_LEN],
            psk: Zeroizing::new([0; 32]),
        }
    }

    /// The key id, under which the listening side keeps the key.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// How bytes travel after the proof.
    #[must_use]
    pub const fn mode(&self) -> LinkSecurity {
        self.mode
    }

    pub(super) const fn prologue(&self) -> &[u8; Terms::PROLOGUE_LEN] {
        &self.prologue
    }

    pub(super) fn psk(&self) -> &[u8; 32] {
        &self.psk
    }
}

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkKey").field("id", &self.id).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Secret {
    /// The secret that admits to one bulk start of the session that has this secret.
    #[must_use]
    pub fn of_start(&self, start: StartId) -> Self {
        let mut prologue = [0; Terms::PROLOGUE_LEN];
        prologue[..4].copy_from_slice(&start.0.to_le_bytes());
        Self::from_ticket(&keyed_hash(self.for_ticket(), &[b"libi run", &prologue]))
    }

    /// The secret with which hosts of the session that has this secret get files from each other.
    #[must_use]
    pub fn of_files(&self) -> Self {
        self.derived(b"libifile")
    }

    /// The secret with which hosts of the session that has this secret find another parent.
    #[must_use]
    pub fn of_orphans(&self) -> Self {
        self.derived(b"libiorph")
    }

    /// The secret of the links of hosts that join a session that is up, whose orphans have this secret.
    #[must_use]
    pub fn of_growth(&self) -> Self {
        self.derived(b"libigrow")
    }

    fn derived(&self, label: &[u8; 8]) -> Self {
        Self::from_ticket(&keyed_hash(self.for_ticket(), &[label, &[0; Terms::PROLOGUE_LEN]]))
    }
}

impl ZeroizeOnDrop for LinkKey {}
