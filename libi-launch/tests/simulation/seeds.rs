//! Which scenarios a test runs, and how it reports those that fail.
//!
//! `LIBI_SEEDS=17` replays one seed, `LIBI_SEEDS=0..10000` runs many. Otherwise `LIBI_SEED_COUNT`
//! seeds, by default 200, are run from `LIBI_SEED_BASE` on, by default 0: half of them as launches by
//! remote shells, a fifth as bulk starts, and a tenth as each other kind, but at least 200 of each.
//! Tests of special cases run a tenth of a larger count. Nine seeds of ten simulate small clusters. With `LIBI_SIMULATION_LOG=1`
//! every event and every effect of each node is printed.

use std::fmt::Write as _;
use std::ops::Range;

use crate::scenario::Scenario;

/// How many seeds are run by default.
const DEFAULT_COUNT: u64 = 200;
/// The test of all scenarios is divided into so many tests, which run at the same time.
pub(crate) const PARTS: u64 = 4;
/// After this many failures, no further seed is run.
const MAX_FAILURES: usize = 50;

/// The seeds of one part of a test of all scenarios, which runs this share of all seeds.
pub(crate) fn seeds_of_part(part: u64, share: u64) -> impl Iterator<Item = u64> {
    range(DEFAULT_COUNT.max(count() / share)).filter(move |seed| seed / 10 % PARTS == part)
}

/// The seeds of a special case.
pub(crate) fn seeds() -> Range<u64> {
    range(DEFAULT_COUNT.max(count() / 10))
}

fn range(count: u64) -> Range<u64> {
    let Ok(text) = std::env::var("LIBI_SEEDS") else { return base()..base() + count };
    match text.split_once("..") {
        Some((first, end)) => first.parse().unwrap()..end.parse().unwrap(),
        None => {
            let seed = text.parse().unwrap();
            seed..seed + 1
        }
    }
}

fn count() -> u64 {
    std::env::var("LIBI_SEED_COUNT").map_or(DEFAULT_COUNT, |count| count.parse().unwrap())
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
