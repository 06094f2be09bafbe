//! Types for secret bytes: hidden from `Debug`, held in one place, and wiped.

use alloc::boxed::Box;
use core::fmt;

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The secret of a session, which only its members know: 32 bytes.
///
/// It travels only inside tickets, and tickets only inside protected channels. It therefore has no
/// `Serialize`: the field of a ticket names [`in_ticket`]. It is wiped when dropped, wherever it
/// was moved before, because only a pointer to it moves; each clone wipes itself. Comparison takes
/// constant time.
#[derive(Clone)]
pub struct Secret(Box<[u8; Self::LEN]>);

impl Secret {
    /// Bytes of a secret.
    pub const LEN: usize = 32;

    /// The secret of a new session.
    #[must_use]
    pub fn new(entropy: Entropy) -> Self {
        Self::from_ticket(&entropy.into_bytes())
    }

    /// The secret from a ticket.
    #[must_use]
    pub fn from_ticket(bytes: &[u8; Self::LEN]) -> Self {
        Self(Box::new(*bytes))
    }

    /// The bytes for a ticket, which is sent only through a protected channel.
    #[must_use]
    pub fn for_ticket(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Secret {}

/// 32 bytes from the operating system's random generator, for one use.
///
/// Each use consumes them: a handshake with the randomness of another one discloses its keys.
pub struct Entropy(Zeroizing<[u8; Self::LEN]>);

impl Entropy {
    /// The number of bytes to request from the generator.
    pub const LEN: usize = 32;

    /// Wraps bytes that were just drawn. The caller's copy is wiped.
    #[must_use]
    pub fn new(bytes: &mut [u8; Self::LEN]) -> Self {
        let entropy = Self(Zeroizing::new(*bytes));
        bytes.zeroize();
        entropy
    }

    pub(super) fn into_bytes(self) -> Zeroizing<[u8; Self::LEN]> {
        self.0
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fresh(..)")
    }
}

impl ZeroizeOnDrop for Entropy {}

/// Serialises a [`Secret`] as its bytes, for the one field that carries it:
/// `#[serde(with = "libi_core::secure::in_ticket")]`.
pub mod in_ticket {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use zeroize::Zeroizing;

    use super::Secret;

    /// Writes the secret, as an array of 32 bytes.
    ///
    /// # Errors
    /// What the serializer says.
    pub fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        secret.for_ticket().serialize(serializer)
    }

    /// Reads the secret, an array of 32 bytes.
    ///
    /// # Errors
    /// What the deserializer says.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        let bytes = Zeroizing::new(<[u8; Secret::LEN]>::deserialize(deserializer)?);
        Ok(Secret::from_ticket(&bytes))
    }
}
