//! Why a launch takes as long as it does: the critical path to the host that is up last.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::as_index;
use super::tree::{Schedule, Tree};
use crate::cost::Cost;
use crate::time::Instant;

/// One launch on the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanStep {
    /// The host that launches.
    pub launcher: u32,
    /// The host that is launched.
    pub node: u32,
    /// The number of hosts that the launcher launches before this one.
    pub before: u32,
    /// How long this launch waits for those: from when the launcher is up until the launch starts.
    pub waited: Duration,
    /// How long the launch itself takes.
    pub took: Duration,
    /// When the host is up.
    pub ready: Instant,
}

/// The critical path of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The launches from the root to the host that is up last, in order.
    pub path: Vec<PlanStep>,
    /// The constant part of the cost.
    pub constant: Duration,
    /// The time of the whole launch.
    pub launch_time: Duration,
}

/// The path to the host that is up last under this schedule of this tree.
#[must_use]
pub fn explain(tree: &Tree, schedule: &Schedule) -> Explanation {
    let at = |instant: Option<Instant>| instant.unwrap_or_default();
    let before = launches_before(tree);
    let mut path = Vec::new();
    let mut node = schedule.last();
    while let Some(launcher) = tree.parent(node) {
        let (up, started) = (at(schedule.ready(launcher)), at(schedule.started(node)));
        let ready = at(schedule.ready(node));
        let (waited, took) = (started.since(up), ready.since(started));
        path.push(PlanStep { launcher, node, before: before[as_index(node)], waited, took, ready });
        node = launcher;
    }
    path.reverse();
    Explanation { path, constant: schedule.constant, launch_time: schedule.launch_time() }
}

/// For every node, the number of hosts that its launcher launches before it.
fn launches_before(tree: &Tree) -> Vec<u32> {
    let mut made = vec![0; as_index(tree.hosts())];
    let before = tree.launches().map(|(launcher, _)| {
        made[as_index(launcher)] += 1;
        made[as_index(launcher)] - 1
    });
    core::iter::once(0).chain(before).collect()
}

impl Explanation {
    /// The last host.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.path.last().map_or(0, |step| step.node)
    }

    /// The multiples of SEQ and REM that the last host waits: the coefficients that a
    /// [fit](super::fit) decomposes a launch time into.
    #[must_use]
    pub fn steps(&self) -> (u32, u32) {
        (self.path.iter().map(|step| step.before).sum(), self.path.len() as u32)
    }

    /// The time of this path at another cost, provided it remains the longest.
    #[must_use]
    pub fn at(&self, cost: &Cost) -> Duration {
        let (seq, rem) = self.steps();
        cost.constant
            .saturating_add(cost.seq.saturating_mul(seq))
            .saturating_add(cost.rem.saturating_mul(rem))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "host {} is up last:", self.last())?;
        for step in &self.path {
            let PlanStep { launcher, node, before, waited, took, ready } = step;
            write!(f, "  {:>10.3} s  host {node}, launched by host {launcher}: ", ready.as_secs_f64())?;
            writeln!(f, "waited {waited:?} for {before} others, took {took:?}")?;
        }
        write!(f, "  {:>10.3} s  with the constant {:?}", self.launch_time.as_secs_f64(), self.constant)
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::{Shape, greedy};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_path_names_every_launcher_between_the_root_and_the_last_host() {
        let cost = Cost::new(MS(7), MS(100)).with_constant(MS(20));
        let tree = Shape::Kary(NonZeroU32::new(2).unwrap()).tree(NonZeroU32::new(7).unwrap(), &cost);
        let explanation = explain(&tree, &tree.schedule(&cost));
        let steps: Vec<_> = explanation.path.iter().map(|s| (s.launcher, s.node, s.before)).collect();
        assert_eq!(steps, [(0, 2, 1), (2, 6, 1)]);
        assert_eq!(explanation.steps(), (2, 2));
        assert_eq!(explanation.launch_time, MS(20 + 107 + 107));
        let text = explanation.to_string();
        assert!(text.contains("host 6 is up last"), "{text}");
        assert!(text.contains("0.107 s  host 2, launched by host 0: waited 7ms for 1 others"), "{text}");
    }

    #[test]
    fn a_root_by_itself_is_its_own_last_host() {
        let (tree, schedule) = greedy::plan(NonZeroU32::MIN, &Cost::default());
        assert_eq!((explain(&tree, &schedule).path.len(), explain(&tree, &schedule).last()), (0, 0));
    }

    proptest! {
        #[test]
        fn the_steps_add_up_to_the_launch_time(
            hosts in 1u32..3_000, seq in 0u64..1_000, rem in 0u64..9_000, constant in 0u64..99
        ) {
            let nanos = Duration::from_nanos;
            let cost = Cost::new(nanos(seq), nanos(rem)).with_constant(nanos(constant));
            let (tree, schedule) = greedy::plan(NonZeroU32::new(hosts).unwrap(), &cost);
            let explanation = explain(&tree, &schedule);
            prop_assert_eq!(explanation.at(&cost), explanation.launch_time);
            let sum: Duration = explanation.path.iter().map(|step| step.waited + step.took).sum();
            prop_assert_eq!(sum + cost.constant, explanation.launch_time);
        }
    }
}
