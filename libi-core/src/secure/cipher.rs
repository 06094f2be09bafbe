//! The ciphers of records: which there are, how two ends agree on one, and the key of a direction.
//!
//! AEGIS-128L seals six times as fast as ChaCha20-Poly1305, and opens ten times as fast, where the
//! processor has instructions for AES. Which of both a link uses is therefore a matter of its two ends:
//!
//! ```text
//! child   offers, in the opening, what it is fast with: a set of ciphers, one bit each
//! parent  answers, in the reply, with the best that both are fast with: the number of its bit
//! ```
//!
//! Every end can do ChaCha20-Poly1305, whatever it offers, so there always is an answer. Offer and
//! answer are payloads of the handshake's messages: they are sealed by the psk, and enter the hash
//! that all later keys depend on. An attacker can therefore neither read them nor choose a weaker
//! cipher; an answer that was not offered fails the handshake.

use core::fmt;

#[cfg(feature = "aegis")]
use aegis::aegis128l::Aegis128L;
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use zeroize::ZeroizeOnDrop;
#[cfg(feature = "aegis")]
use zeroize::Zeroizing;

use super::RecordFault;
#[cfg(feature = "aegis")]
use super::digest::keyed_hash;

/// The length of every cipher's tag.
pub(super) const TAG_LEN: usize = 16;

/// A cipher of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordCipher {
    /// ChaCha20-Poly1305, fast on any processor. Every build has it.
    ChaCha20Poly1305,
    /// AEGIS-128L, fastest with instructions for AES. A build without the feature `aegis` lacks it.
    Aegis128L,
}

impl RecordCipher {
    /// The number of the cipher's bit in an offer, and of the cipher in an answer.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::ChaCha20Poly1305 => 0,
            Self::Aegis128L => 1,
        }
    }
}

impl fmt::Display for RecordCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
            Self::Aegis128L => "AEGIS-128L",
        })
    }
}

/// The ciphers that one end is fast with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CipherOffer(u8);

impl CipherOffer {
    /// ChaCha20-Poly1305 alone, which every build has.
    pub const PORTABLE: Self = Self(1 << RecordCipher::ChaCha20Poly1305.number());

    /// What a build offers on a processor that has instructions for AES.
    pub const AES_INSTRUCTIONS: Self = if cfg!(feature = "aegis") {
        Self(Self::PORTABLE.0 | 1 << RecordCipher::Aegis128L.number())
    } else {
        Self::PORTABLE
    };

    /// An offer as it came from the other end. A later version may offer ciphers that this one does
    /// not know.
    pub(super) const fn from_wire(byte: u8) -> Self {
        Self(byte)
    }

    pub(super) const fn to_wire(self) -> u8 {
        self.0
    }

    const fn contains(self, cipher: RecordCipher) -> bool {
        self.0 & (1 << cipher.number()) != 0
    }

    /// The cipher for a link between ends that make these offers.
    #[must_use]
    pub const fn best(self, other: Self) -> RecordCipher {
        let aegis = RecordCipher::Aegis128L;
        if self.contains(aegis) && other.contains(aegis) { aegis } else { RecordCipher::ChaCha20Poly1305 }
    }

    /// The cipher that the other end chose; `None` if it was not offered.
    pub(super) fn chosen(self, number: u8) -> Option<RecordCipher> {
        [RecordCipher::ChaCha20Poly1305, RecordCipher::Aegis128L]
            .into_iter()
            .find(|cipher| cipher.number() == number && self.contains(*cipher))
    }
}

/// The key of one direction and the number of its next message.
pub(super) struct DirectionKey {
    cipher: Keyed,
    next: u64,
}

/// A cipher with its key.
enum Keyed {
    ChaCha(ChaCha20Poly1305),
    #[cfg(feature = "aegis")]
    Aegis(Zeroizing<[u8; 16]>),
}

impl DirectionKey {
    /// From the key that the handshake made for this direction.
    pub(super) fn new(cipher: RecordCipher, key: &[u8; 32]) -> Self {
        let cipher = match cipher {
            #[cfg(feature = "aegis")]
            RecordCipher::Aegis128L => Keyed::Aegis(aegis_key(key)),
            _ => Keyed::ChaCha(ChaCha20Poly1305::new(key.into())),
        };
        Self { cipher, next: 0 }
    }

    /// The number of the next message.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Encrypts in place and returns the tag.
    pub(super) fn seal(&mut self, plain: &mut [u8]) -> Result<[u8; TAG_LEN], RecordFault> {
        self.reserve(1)?;
        let tag = match &self.cipher {
            Keyed::ChaCha(cipher) => cipher
                .encrypt_in_place_detached(&nonce(self.next).into(), &[], plain)
                .expect("a piece is far shorter than what the cipher takes, 256 GiB")
                .into(),
            #[cfg(feature = "aegis")]
            Keyed::Aegis(key) => Aegis128L::new(key, &nonce(self.next)).encrypt_in_place(plain, &[]),
        };
        self.next += 1;
        Ok(tag)
    }

    /// Checks the tag at the end of `sealed` and decrypts the rest in place.
    pub(super) fn open<'a>(&mut self, sealed: &'a mut [u8]) -> Result<&'a mut [u8], RecordFault> {
        self.reserve(1)?;
        let damaged = RecordFault::Damaged { record: self.next };
        let (plain, tag) = sealed.split_last_chunk_mut::<TAG_LEN>().ok_or(damaged)?;
        match &self.cipher {
            Keyed::ChaCha(cipher) => cipher
                .decrypt_in_place_detached(&nonce(self.next).into(), &[], plain, (&*tag).into())
                .map_err(|_| damaged)?,
            #[cfg(feature = "aegis")]
            Keyed::Aegis(key) => Aegis128L::new(key, &nonce(self.next))
                .decrypt_in_place(plain, tag, &[])
                .map_err(|_| damaged)?,
        }
        self.next += 1;
        Ok(plain)
    }

    /// Checks that this many messages can still be encrypted; if not, all later calls fail as well.
    /// Noise reserves the last number.
    pub(super) fn reserve(&mut self, messages: u64) -> Result<(), RecordFault> {
        if u64::MAX - self.next < messages {
            self.next = u64::MAX;
            return Err(RecordFault::Exhausted);
        }
        Ok(())
    }

    /// Skips to a later message, for tests of the last ones.
    #[cfg(test)]
    pub(super) const fn skip_to(&mut self, next: u64) {
        self.next = next;
    }
}

impl ZeroizeOnDrop for DirectionKey {}

/// The number of a message, behind as many zeros as the cipher's nonces have room for: for
/// ChaCha20-Poly1305 as Noise has it.
fn nonce<const N: usize>(number: u64) -> [u8; N] {
    let mut nonce = [0; N];
    nonce[N - 8..].copy_from_slice(&number.to_le_bytes());
    nonce
}

/// AEGIS-128L takes 16 bytes. They are a hash of the direction's key, so that no key serves two
/// ciphers.
#[cfg(feature = "aegis")]
fn aegis_key(key: &[u8; 32]) -> Zeroizing<[u8; 16]> {
    let hash = keyed_hash(key, &[b"libi aegis-128l"]);
    let mut key = Zeroizing::new([0; 16]);
    key.copy_from_slice(&hash[..16]);
    key
}

#[cfg(test)]
mod tests;
