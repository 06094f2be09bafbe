//! Which scenarios a test runs, and how it reports those that fail.
//!
//! `LIBI_SEEDS=17` replays one seed, `LIBI_SEEDS=0..10000` runs many. Otherwise 200 seeds are run
//! from `LIBI_SEED_BASE` on, which is 0 unless it is set.

use std::fmt::Write as _;
use std::ops::Range;

use crate::scenario::Scenario;

/// How many seeds are run by default.
const DEFAULT_COUNT: u64 = 200;
/// After this many failures, no further seed is run.
const MAX_FAILURES: usize = 50;

/// The seeds to run.
pub(crate) fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("LIBI_SEEDS") else { return base()..base() + DEFAULT_COUNT };
    match text.split_once("..") {
        Some((first, end)) => first.parse().unwrap()..end.parse().unwrap(),
        None => {
            let seed = text.parse().unwrap();
            seed..seed + 1
        }
    }
}

fn base() -> u64 {
    std::env::var("LIBI_SEED_BASE").map_or(0, |base| base.parse().unwrap())
}

/// Runs a check on every scenario, and panics at the end with all seeds that fail, and with the
/// first failing scenario.
pub(crate) fn check_all(
    scenarios: impl Iterator<Item = Scenario>,
    check: impl Fn(&Scenario) -> Result<(), String>,
) {
    let failed = scenarios.filter_map(|scenario| check(&scenario).err().map(|wrong| (scenario, wrong)));
    let failed: Vec<_> = failed.take(MAX_FAILURES).collect();
    let Some((first, _)) = failed.first() else { return };
    let mut report = format!("{} failures, with LIBI_SEED_BASE={}:\n", failed.len(), base());
    for (scenario, wrong) in &failed {
        let _ = writeln!(
            report,
            "LIBI_SEEDS={} cargo test -p libi-launch --test simulation: {wrong}",
            scenario.seed
        );
    }
    panic!("{report}{first:#?}");
}
