//! Helpers for unit tests.

use proptest::prelude::ProptestConfig;

/// The number of random cases of a property: `usual`, scaled by `PROPTEST_CASES` relative to its
/// default.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let asked = ProptestConfig::default().cases;
    ProptestConfig { cases: usual.saturating_mul(asked).div_ceil(256), ..ProptestConfig::default() }
}
