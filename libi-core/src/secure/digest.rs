//! Hashes of files, and of secrets, from which keys are derived.

use alloc::string::String;

use blake2::digest::{FixedOutput, KeyInit, Update};
use blake2::{Blake2b512, Blake2sMac256};
use zeroize::Zeroizing;

use super::secret::wipe_stack;

/// The BLAKE2s hash of all `parts`, one behind the other, under a key, of which no copy stays on the stack.
pub(super) fn keyed_hash(key: &[u8; 32], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let hash = hash_under(key, parts);
    wipe_stack();
    hash
}

#[inline(never)]
fn hash_under(key: &[u8; 32], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut hash = Blake2sMac256::new(key.into());
    parts.iter().for_each(|part| hash.update(part));
    let mut output = Zeroizing::new([0; 32]);
    hash.finalize_into((&mut *output).into());
    output
}

/// The BLAKE2b hash of these bytes, as `b2sum` prints it.
#[must_use]
pub fn blake2b(bytes: &[u8]) -> [u8; 64] {
    let mut hash = Blake2b512::default();
    hash.update(bytes);
    hash.finalize_fixed().into()
}

/// The same hash of bytes that come one after the other.
#[derive(Clone, Debug, Default)]
pub struct Hasher(Blake2b512);

impl Hasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes.
    #[must_use]
    pub fn finish(self) -> [u8; 64] {
        self.0.finalize_fixed().into()
    }
}

/// The hash as `b2sum` prints it.
#[must_use]
pub fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().fold(String::with_capacity(2 * hash.len()), |mut text, byte| {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let hash = blake2b(b"abc");
        assert_eq!(hash[..8], [0xba, 0x80, 0xa5, 0x3f, 0x98, 0x1c, 0x4d, 0x0d]);
        assert_eq!(hash[60..], [0xd4, 0x00, 0x99, 0x23]);
    }

    #[test]
    fn bytes_that_come_in_pieces_have_the_same_hash() {
        let bytes: Vec<u8> = (0..1_000_u32).map(|number| number as u8).collect();
        let mut hasher = Hasher::default();
        bytes.chunks(7).for_each(|piece| hasher.update(piece));
        assert_eq!(hasher.finish(), blake2b(&bytes));
        assert_eq!(hexadecimal(&[0x0f, 0xa0]), "0fa0");
    }
}
