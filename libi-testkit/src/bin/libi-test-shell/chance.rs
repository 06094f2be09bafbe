//! What looks like chance, and is the same in every run: numbers drawn from the seed, a purpose, a
//! host and a counter.

/// The source of all numbers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// The number for this purpose, host and count.
    pub(crate) fn draw(self, purpose: &str, host: &str, count: u64) -> u64 {
        const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
        const FNV_PRIME: u64 = 0x0100_0000_01b3;
        let mut hash = FNV_START;
        // No text holds the byte that ends it, so that no two inputs are the same bytes.
        let texts = purpose.bytes().chain([0xff]).chain(host.bytes()).chain([0xff]);
        for byte in self.0.to_le_bytes().into_iter().chain(texts).chain(count.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        mix(hash)
    }

    /// The same as a fraction, from 0 up to but not including 1.
    pub(crate) fn fraction(self, purpose: &str, host: &str, count: u64) -> f64 {
        (self.draw(purpose, host, count) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Bytes without end.
    pub(crate) fn bytes(self, purpose: &str, host: &str, count: u64) -> impl Iterator<Item = u8> {
        let start = self.draw(purpose, host, count);
        (1u64..).flat_map(move |step| mix(start.wrapping_add(step.wrapping_mul(GOLDEN))).to_le_bytes())
    }
}

/// The increment of `SplitMix64`.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finisher of `SplitMix64`: every bit of the input changes half of the output.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_inputs_give_equal_numbers_and_others_do_not() {
        let number = Chance(1).draw("rem", "n1", 1);
        assert_eq!(number, Chance(1).draw("rem", "n1", 1));
        let others = [
            Chance(2).draw("rem", "n1", 1),
            Chance(1).draw("seq", "n1", 1),
            Chance(1).draw("rem", "n2", 1),
            Chance(1).draw("rem", "n1", 2),
            Chance(1).draw("remn", "1", 1),
        ];
        assert!(!others.contains(&number));
    }

    #[test]
    fn hosts_with_neighbouring_names_are_spread_evenly() {
        let low =
            (0..10_000).filter(|i| Chance(7).fraction("fault", &format!("node{i:05}"), 0) < 0.3).count();
        assert!((2_800..3_200).contains(&low), "{low}");
    }
}
