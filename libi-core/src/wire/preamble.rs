//! Finds the start of the protocol in a stream that may begin with other text.
//!
//! A login banner, the output of a shell profile, or of the program before it calls libi comes
//! through the same pipe, ahead of the [`Preamble`]. The [`PreambleScanner`] separates the two.

use core::array;
use core::fmt;
use core::ops::Deref;

use super::{Version, VersionRange};

/// Its first byte does not occur in UTF-8, nor again in the magic; see the module documentation of
/// `wire` for the rest.
const MAGIC: [u8; 8] = *b"\xfflibi\x00\r\n";
const VERSIONS_AT: usize = MAGIC.len();
const CHECK_AT: usize = VERSIONS_AT + 4;

/// The first thing each side of a link sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preamble {
    /// The versions the sender speaks.
    pub versions: VersionRange,
}

impl Preamble {
    /// Bytes of a preamble.
    pub const LEN: usize = CHECK_AT + 4;

    /// The bytes to send.
    #[must_use]
    pub fn encode(self) -> [u8; Self::LEN] {
        let [o0, o1] = self.versions.oldest().0.to_le_bytes();
        let [n0, n1] = self.versions.newest().0.to_le_bytes();
        let [m0, m1, m2, m3, m4, m5, m6, m7] = MAGIC;
        [m0, m1, m2, m3, m4, m5, m6, m7, o0, o1, n0, n1, !o0, !o1, !n0, !n1]
    }

    /// Decodes a preamble; `None` if the bytes are not one.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        if !matches_prefix(bytes) {
            return None;
        }
        let [.., o0, o1, n0, n1, _, _, _, _] = *bytes;
        let oldest = Version(u16::from_le_bytes([o0, o1]));
        let newest = Version(u16::from_le_bytes([n0, n1]));
        Some(Self { versions: VersionRange::new(oldest, newest)? })
    }
}

/// Searches for a preamble in a stream that arrives in pieces of any size.
///
/// It holds back a possible beginning of a preamble, less than [`Preamble::LEN`] bytes; all other
/// bytes are returned at once. Ordinary text is never held back.
#[derive(Clone, Debug, Default)]
pub struct PreambleScanner {
    held: HeldBytes,
}

/// The parts of a piece of the stream: first `held`, then `foreign`, then the preamble, if found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// The end of earlier pieces, now known to be foreign.
    pub held: HeldBytes,
    /// The foreign beginning of this piece.
    pub foreign: &'a [u8],
    /// The preamble, if this piece completes it.
    pub found: Option<ProtocolStart<'a>>,
}

/// The start of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolStart<'a> {
    /// The preamble.
    pub preamble: Preamble,
    /// The bytes behind it in the same piece: the first frames.
    pub rest: &'a [u8],
}

/// Bytes that a scanner has held back. Dereferences to a slice.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldBytes {
    // Bytes from `len` on are 0, so that equal contents are equal values.
    bytes: [u8; Preamble::LEN - 1],
    len: usize,
}

impl PreambleScanner {
    /// A scanner at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Scans the next piece of the stream. After the preamble is found, nothing is held any more.
    pub fn scan<'a>(&mut self, piece: &'a [u8]) -> Scan<'a> {
        let held = self.held;
        let total = held.len + piece.len();
        let byte = |at: usize| if at < held.len { held.bytes[at] } else { piece[at - held.len] };

        // The first position where the available bytes, up to a preamble's length, match one. Each
        // position costs a preamble's length at most, and nearly always one byte.
        let mut window = [0; Preamble::LEN];
        let mut found = None;
        let start = (0..total).find(|&start| {
            if byte(start) != MAGIC[0] {
                return false;
            }
            let have = Preamble::LEN.min(total - start);
            window = array::from_fn(|i| if i < have { byte(start + i) } else { 0 });
            if have < Preamble::LEN {
                return matches_prefix(&window[..have]);
            }
            found = Preamble::decode(&window);
            found.is_some()
        });
        let start = start.unwrap_or(total);

        self.held = match found {
            Some(_) => HeldBytes::default(),
            None => HeldBytes::collect((start..total).map(byte)),
        };
        Scan {
            held: HeldBytes::collect(held.iter().copied().take(start)),
            foreign: &piece[..start.saturating_sub(held.len)],
            // What was held is shorter than a preamble, so the preamble ends inside this piece.
            found: found
                .map(|preamble| ProtocolStart { preamble, rest: &piece[start + Preamble::LEN - held.len..] }),
        }
    }

    /// The stream has ended: the held bytes are foreign.
    #[must_use]
    pub fn finish(self) -> HeldBytes {
        self.held
    }
}

impl HeldBytes {
    /// Collects bytes, of which a scanner never has more than fit.
    fn collect(bytes: impl Iterator<Item = u8>) -> Self {
        let mut held = Self::default();
        for (slot, byte) in held.bytes.iter_mut().zip(bytes) {
            *slot = byte;
            held.len += 1;
        }
        held
    }
}

impl Deref for HeldBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for HeldBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Whether these bytes, at most a preamble's length, match the beginning of a preamble.
fn matches_prefix(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, &byte)| match at {
        ..VERSIONS_AT => byte == MAGIC[at],
        VERSIONS_AT..CHECK_AT => true,
        _ => byte == !bytes[at - (CHECK_AT - VERSIONS_AT)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PROTOCOL;
    use proptest::prelude::*;
    use std::vec::Vec;

    const OURS: Preamble = Preamble { versions: PROTOCOL };

    /// Foreign bytes, and the preamble with the bytes behind it, of a stream in pieces cut at
    /// `cuts`.
    fn scan(stream: &[u8], cuts: &[usize]) -> (Vec<u8>, Option<(Preamble, Vec<u8>)>) {
        let mut scanner = PreambleScanner::new();
        let mut foreign = Vec::new();
        let mut from = 0;
        for to in cuts.iter().copied().chain([stream.len()]) {
            let scan = scanner.scan(&stream[from..to]);
            foreign.extend_from_slice(&scan.held);
            foreign.extend_from_slice(scan.foreign);
            if let Some(ProtocolStart { preamble, rest }) = scan.found {
                assert!(scanner.finish().is_empty());
                let rest = [rest, &stream[to..]].concat();
                return (foreign, Some((preamble, rest)));
            }
            from = to;
        }
        foreign.extend_from_slice(&scanner.finish());
        (foreign, None)
    }

    /// The reference: the first sixteen bytes that are a preamble.
    fn oracle(stream: &[u8]) -> (Vec<u8>, Option<(Preamble, Vec<u8>)>) {
        for at in 0..stream.len() {
            if let Some((head, rest)) = stream[at..].split_first_chunk()
                && let Some(preamble) = Preamble::decode(head)
            {
                return (stream[..at].to_vec(), Some((preamble, rest.to_vec())));
            }
        }
        (stream.to_vec(), None)
    }

    #[test]
    fn the_first_byte_of_the_magic_is_in_it_once_and_in_no_text() {
        assert_eq!(MAGIC.iter().filter(|&&byte| byte == MAGIC[0]).count(), 1);
        assert!(core::str::from_utf8(&MAGIC[..1]).is_err());
    }

    #[test]
    fn a_banner_is_told_at_once_and_the_first_frame_is_left_alone() {
        let mut scanner = PreambleScanner::new();
        let banner = scanner.scan("Welcome to n\u{153}ud-017\n".as_bytes());
        assert_eq!((&*banner.held, banner.foreign.len(), banner.found), (&[][..], 21, None));
        let stream = [&OURS.encode()[..], b"frames"].concat();
        let scan = scanner.scan(&stream);
        assert_eq!(scan.foreign, b"");
        assert_eq!(scan.found, Some(ProtocolStart { preamble: OURS, rest: b"frames" }));
    }

    #[test]
    fn a_preamble_through_a_terminal_is_not_one() {
        let bytes = OURS.encode();
        let at = bytes.iter().position(|&byte| byte == b'\n').unwrap();
        let crlf = [&bytes[..at], b"\r\n", &bytes[at + 1..]].concat();
        let no_cr = [&bytes[..at - 1], &bytes[at..]].concat();
        for mangled in [crlf, no_cr] {
            assert_eq!(scan(&mangled, &[]), (mangled, None));
        }
    }

    #[test]
    fn a_preamble_that_speaks_nothing_or_fails_its_check_is_foreign() {
        let mut backwards = OURS.encode();
        backwards[8..].copy_from_slice(&[2, 0, 1, 0, !2, !0, !1, !0]);
        assert_eq!(Preamble::decode(&backwards), None);
        for at in 0..Preamble::LEN {
            let mut damaged = OURS.encode();
            damaged[at] ^= 0x10;
            assert_eq!(Preamble::decode(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn a_preamble_behind_the_beginning_of_another_is_found_at_every_cut() {
        let whole = OURS.encode();
        // Not up to the last byte: that is FF as well, and the second's first byte would complete
        // the first.
        for prefix in 0..Preamble::LEN - 1 {
            let stream = [&whole[..prefix], &whole, b"rest"].concat();
            for cut in 0..=stream.len() {
                assert_eq!(scan(&stream, &[cut]), (whole[..prefix].to_vec(), Some((OURS, b"rest".to_vec()))));
            }
        }
    }

    fn noise() -> impl Strategy<Value = Vec<u8>> {
        let morsel = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..20),
            (0..=Preamble::LEN).prop_map(|len| OURS.encode()[..len].to_vec()),
            (any::<u16>(), any::<u16>()).prop_map(|(a, b)| {
                let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
                [&MAGIC[..], &a, &b, &a.map(|x| !x), &b.map(|x| !x)].concat()
            }),
            Just(MAGIC.to_vec()),
            Just([&MAGIC[..], &[0, 0], &MAGIC[..7]].concat()),
        ];
        proptest::collection::vec(morsel, 0..6).prop_map(|morsels| morsels.concat())
    }

    proptest! {
        #[test]
        fn every_split_of_any_noise_reads_like_the_whole(
            stream in noise(),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.sort_unstable();
            prop_assert_eq!(scan(&stream, &cuts), oracle(&stream));
            let everywhere: Vec<usize> = (0..stream.len()).collect();
            prop_assert_eq!(scan(&stream, &everywhere), oracle(&stream));
        }

        #[test]
        fn a_preamble_survives_its_bytes(oldest: u16, newest: u16) {
            let (oldest, newest) = (oldest.min(newest), oldest.max(newest));
            let versions = VersionRange::new(Version(oldest), Version(newest)).unwrap();
            let preamble = Preamble { versions };
            prop_assert_eq!(Preamble::decode(&preamble.encode()), Some(preamble));
        }
    }
}
