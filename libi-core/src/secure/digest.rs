//! Hashes of files.

use blake2::Blake2b512;
use blake2::digest::{FixedOutput, Update};

/// The BLAKE2b hash of these bytes, as `b2sum` prints it.
#[must_use]
pub fn blake2b(bytes: &[u8]) -> [u8; 64] {
    let mut hash = Blake2b512::default();
    hash.update(bytes);
    hash.finalize_fixed().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let hash = blake2b(b"abc");
        assert_eq!(hash[..8], [0xba, 0x80, 0xa5, 0x3f, 0x98, 0x1c, 0x4d, 0x0d]);
        assert_eq!(hash[60..], [0xd4, 0x00, 0x99, 0x23]);
    }
}
