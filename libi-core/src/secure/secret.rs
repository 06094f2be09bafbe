//! Types for secret bytes: hidden from `Debug`, held in one place, and wiped.

use alloc::boxed::Box;
use core::fmt;

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// How many bytes of the stack are overwritten. Without optimisation 1 KiB covers what the test below finds.
const STACK_WIPED: usize = 4 << 10;

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
        // A box of a copy could leave another copy on the stack.
        let mut secret = Box::new([0; Self::LEN]);
        secret.copy_from_slice(bytes);
        Self(secret)
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

/// Overwrites what functions that the caller has called before have left on the stack. Neither the
/// cryptographic crates nor the compiler clear it: a copy stays until a call that is as deep happens
/// to overwrite it, and gets into the heap with the unused bytes of a value that is moved there.
#[inline(never)]
pub(super) fn wipe_stack() {
    let wiped = [0_u64; STACK_WIPED / size_of::<u64>()];
    core::hint::black_box(&wiped);
}

/// Serialises a [`Secret`] as its bytes, for the one field that carries it:
/// `#[serde(with = "libi_core::secure::in_ticket")]`.
pub mod in_ticket {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use zeroize::Zeroizing;

    use super::{Secret, wipe_stack};

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
        let secret = read(deserializer);
        wipe_stack();
        secret
    }

    #[inline(never)]
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        let bytes = Zeroizing::new(<[u8; Secret::LEN]>::deserialize(deserializer)?);
        Ok(Secret::from_ticket(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};
    use std::vec;

    use super::*;
    use crate::secure::LinkKey;
    use crate::secure::tests::TERMS;

    /// A secret with every bit inverted, so that this is no copy of it.
    const INVERTED: [u8; Secret::LEN] = *b"a secret that has no other copy.";

    /// The secret, which is in no array on the stack.
    fn in_memory() -> Box<[u8]> {
        INVERTED.iter().map(|byte| !byte).collect()
    }

    fn secret() -> Secret {
        Secret::from_ticket((&*in_memory()).try_into().unwrap())
    }

    /// How often the secret is in the mapping that has this address.
    fn copies_at(address: usize) -> usize {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut ranges = maps.lines().map(|line| {
            let (first, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            (usize::from_str_radix(first, 16).unwrap(), usize::from_str_radix(end, 16).unwrap())
        });
        let (first, end) = ranges.find(|(first, end)| (*first..*end).contains(&address)).unwrap();
        let mut memory = vec![0; end - first];
        File::open("/proc/self/mem").unwrap().read_exact_at(&mut memory, first as u64).unwrap();
        memory.iter_mut().for_each(|byte| *byte = !*byte);
        memory.windows(Secret::LEN).filter(|window| **window == INVERTED).count()
    }

    /// What is left on the stack of a thread that does this. It calls nothing before that is counted,
    /// which could overwrite it.
    fn left_by<T>(what: impl FnOnce() -> T + Send) -> usize {
        let (address, is_done, may_end) =
            (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            // Also if this thread panics.
            let _ends = Ends(&may_end);
            let thread = scope.spawn(|| {
                let here = 0_u8;
                address.store(&raw const here as usize, Ordering::Relaxed);
                let result = what();
                is_done.store(true, Ordering::Release);
                while !may_end.load(Ordering::Acquire) {
                    core::hint::spin_loop();
                }
                core::hint::black_box(&result);
            });
            let deadline = Instant::now() + Duration::from_secs(30);
            while !is_done.load(Ordering::Acquire) {
                assert!(!thread.is_finished() && Instant::now() < deadline, "it has not come to its end");
            }
            copies_at(address.load(Ordering::Relaxed))
        })
    }

    /// Lets the thread end.
    struct Ends<'a>(&'a AtomicBool);

    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    #[test]
    fn no_copy_is_left_on_the_stack() {
        assert_eq!(left_by(secret), 0, "where it is made");
        assert_eq!(left_by(|| LinkKey::derive(&secret(), &TERMS)), 0, "where a key is derived from it");
        let ticket = in_memory();
        let read = || in_ticket::deserialize(&mut postcard::Deserializer::from_bytes(&ticket)).unwrap();
        assert_eq!(left_by(read), 0, "where it is read");
        let one = left_by(|| <[u8; Secret::LEN]>::try_from(&*ticket).unwrap());
        assert!(one > 0, "an array on the stack is found");
    }
}
