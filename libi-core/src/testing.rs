//! What unit tests share.

use proptest::prelude::ProptestConfig;

/// As many random cases as a property needs by itself, times what `PROPTEST_CASES` asks for beyond its default.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let asked = ProptestConfig::default().cases;
    ProptestConfig { cases: usual.saturating_mul(asked).div_ceil(256), ..ProptestConfig::default() }
}
