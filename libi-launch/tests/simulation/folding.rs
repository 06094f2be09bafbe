//! Output of many members that is merged on its way: what they print has much in common, and arrives
//! whole and in order for each; equal lines travel once on each link.

use std::time::Duration;

use libi_core::ids::Rank;
use libi_core::sim::StopReason;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_launch::machine::Notice;
use libi_launch::options::{LaunchOptions, Output};

use crate::actions::{CAPACITY, WINDOW};
use crate::many::begun;
use crate::scenario::Scenario;
use crate::world::{Cluster, FRONT};

/// What the lines of one child that are compared cost beside their bytes.
const UNITS: usize = 1_024 * 128;

/// What programs print, and how it is merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Folds {
    /// How long it is held; `None` if it is not merged.
    hold: Option<Duration>,
    /// The most bytes that are printed at once.
    bytes: usize,
    /// The fraction of lines that only one rank prints.
    own: f64,
    /// Whether programs print again when they end.
    pub(crate) at_end: bool,
}

impl Folds {
    /// Every rank prints the same.
    pub(crate) fn of_equal_lines(hold: Option<Duration>, at_end: bool) -> Self {
        Self { hold, bytes: BYTES, own: 0.0, at_end }
    }

    /// The most that a node with this many children, and programs of its own, may hold.
    pub(crate) fn most_held(self, children: usize, programs: usize) -> usize {
        CAPACITY + UNITS + (children + programs) * (WINDOW + UNITS)
    }

    /// How long output may be held on its way.
    pub(crate) fn longest_held(self, world: &Cluster) -> Duration {
        self.hold.unwrap_or_default() * (world.deepest() + 2)
    }
}

impl Scenario {
    /// The scenario of a seed whose programs print much, and much of it the same. Drawn from a
    /// separate stream.
    pub(crate) fn with_folds(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(40);
        let mut scenario = if rng.chance(0.2) { Self::with_settle(seed) } else { Self::with_agents(seed) };
        let most = if scenario.hosts * scenario.members > 50 { 300 } else { 60_000 };
        let hold = [None, Some(0), Some(1), Some(100), Some(1_000)][rng.below(5) as usize];
        let most = [30, 1_000, most][rng.below(3) as usize];
        let bytes = 1 + rng.below(most) as usize;
        let own = [0.0, 0.0, 0.1, 1.0][rng.below(4) as usize];
        scenario.folds = Some(Folds { hold: hold.map(Duration::from_millis), bytes, own, at_end: true });
        scenario
    }

    /// Adds how output is merged to the options of the launch.
    pub(crate) fn fold_options(&self, options: LaunchOptions) -> LaunchOptions {
        match self.folds.and_then(|folds| folds.hold) {
            Some(hold) => options.output(Output::Folded { hold }),
            None => options,
        }
    }
}

impl Cluster {
    /// What a rank prints next, as it is read: the same as others, but for some lines. Empty if it
    /// prints nothing of the kind.
    pub(crate) fn common_text(&mut self, rank: Rank) -> Vec<Vec<u8>> {
        let Some(folds) = self.scenario.folds else { return Vec::new() };
        let printed = self.record.printed.entry(rank).or_default();
        // All ranks that have printed as often print the same.
        let times = self.record.times.entry(rank).or_default();
        *times += 1;
        let mut common = Rng::new(self.scenario.seed).fork(41).fork(*times);
        let mut own = Rng::new(self.scenario.seed).fork(42).fork(u64::from(rank.0)).fork(*times);
        let (length, mut text) = (folds.bytes, Vec::new());
        while text.len() < length {
            let number = common.below(1_000);
            let line = match common.below(12) {
                0 => "\n".to_owned(),
                1 => "no end".to_owned(),
                2 if length > 20_000 => format!("{}\n", "x".repeat(20_000)),
                _ => format!("line {number}\n"),
            };
            let is_own = own.chance(folds.own);
            text.extend(if is_own { format!("{rank} {number}\n") } else { line }.bytes());
        }
        text.truncate(length);
        printed.extend(&text);
        // Different ranks are read in different pieces, of whole lines but for long ones.
        let mut pieces = Vec::new();
        while !text.is_empty() {
            let most = own.below(16 << 10) as usize;
            let end = text.iter().skip(most).position(|byte| *byte == b'\n');
            let rest = text.split_off(end.map_or(text.len(), |end| most + end + 1));
            pieces.push(std::mem::replace(&mut text, rest));
        }
        pieces
    }
}

/// The bytes of output that reach the front end if the ranks on so many hosts, four on each, print the
/// same lines when they start, and perhaps when they end.
fn bytes_at_front_end(hosts: u32, hold: Option<Duration>, at_end: bool) -> usize {
    let scenario = Scenario::of_equal_output(hosts, Folds::of_equal_lines(hold, at_end));
    let mut sim = begun(&scenario);
    let steps = 2_000 * u64::from(hosts) + 500_000;
    assert_ne!(sim.run(Instant::ZERO + Duration::from_secs(40), steps), StopReason::StepLimit);
    assert!(sim.world.notices.iter().any(|(_, notice)| *notice == Notice::Done), "all have ended");
    let printed = &sim.world.record.printed;
    assert_eq!(printed.len(), 4 * hosts as usize);
    assert!(sim.world.record.read == *printed, "all is read");
    let times = if at_end { 2 } else { 1 };
    assert!(printed.values().all(|text| text.len() == times * BYTES));
    sim.world.output_bytes(FRONT)
}

const BYTES: usize = 2_000;

#[test]
fn equal_lines_of_ten_thousand_ranks_reach_the_front_end_once() {
    let hold = Some(Duration::from_millis(500));
    let few = bytes_at_front_end(25, hold, false);
    let many = bytes_at_front_end(2_500, hold, false);
    let unmerged = bytes_at_front_end(25, None, false);
    println!("100 ranks: {few} bytes, unmerged {unmerged}; 10,000 ranks: {many} bytes");
    assert!(unmerged > 100 * BYTES, "each rank prints: {unmerged}");
    // A hundred times the ranks: two more digits.
    assert!(few < BYTES + 100 && many < few + 20, "{few}, then {many} bytes");
}

#[test]
fn equal_lines_at_different_times_reach_the_front_end_in_few_pieces() {
    // The members end within three seconds.
    let merged = bytes_at_front_end(500, Some(Duration::from_millis(500)), true);
    let unmerged = bytes_at_front_end(500, None, true);
    println!("2,000 ranks: {merged} bytes, unmerged {unmerged}");
    assert!(unmerged > 2_000 * 2 * BYTES && merged < unmerged / 100, "{merged}, unmerged {unmerged}");
}
