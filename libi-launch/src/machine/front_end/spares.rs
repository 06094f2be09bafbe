//! The spare hosts: which failures they can help with, and which hosts they have replaced.
//!
//! | cause of the failure | a spare |
//! |---|---|
//! | the launcher was lost, or the host had no resources | would fare the same |
//! | the launch has settled | is not awaited |
//! | any other | takes the place of the host |

use std::collections::VecDeque;

use libi_core::ids::HostIndex;

use crate::failure::{Cause, Failure};
use crate::machine::host_table::Replacement;
use crate::machine::message::Spare;

/// The spare hosts of a launch.
#[derive(Debug)]
pub(super) struct Spares {
    left: VecDeque<Spare>,
    replaced: Vec<Replacement>,
}

impl Spares {
    pub(super) fn new(spares: impl Iterator<Item = Spare>) -> Self {
        Self { left: spares.collect(), replaced: Vec::new() }
    }

    /// Whether another host could do better than one that has failed like this.
    pub(super) fn could_help(failure: &Failure) -> bool {
        // A host that was lost with its launcher, or found no resources, is not at fault; a spare
        // would fare the same.
        !matches!(failure.cause, Cause::LauncherLost(_) | Cause::OutOfResources(_) | Cause::SettleElapsed)
    }

    /// The next spare takes the place of a host, whose machine of this name has failed.
    pub(super) fn take(&mut self, host: HostIndex, name: &str, failure: &Failure) -> Option<Spare> {
        let spare = self.left.pop_front()?;
        let (name, by, failure) = (name.to_owned(), spare.name.clone(), failure.clone());
        self.replaced.push(Replacement { host, name, by, failure });
        Some(spare)
    }

    /// Whether there is one that has replaced no host.
    pub(super) fn are_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// The next spare, for a host that was lost after the launch.
    pub(super) fn next(&mut self) -> Option<Spare> {
        self.left.pop_front()
    }

    /// The hosts that spares have replaced, in order.
    pub(super) fn replaced(&self) -> &[Replacement] {
        &self.replaced
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failure::Phase;

    fn failure(cause: Cause) -> Failure {
        Failure::without_evidence(Phase::Starting, cause, Duration::ZERO)
    }

    #[test]
    fn spares_are_taken_in_order_and_each_one_once() {
        let spare = |name: &str| Spare { name: name.to_owned(), user: None, port: None };
        let mut spares = Spares::new(["s1", "s2"].map(spare).into_iter());
        let why = failure(Cause::TimedOut);
        assert_eq!(spares.take(HostIndex(3), "n3", &why), Some(spare("s1")));
        assert_eq!(spares.take(HostIndex(3), "s1", &why), Some(spare("s2")), "a spare may fail as well");
        assert_eq!(spares.take(HostIndex(4), "n4", &why), None);
        let replaced: Vec<_> = spares.replaced().iter().map(|r| (r.host.0, &*r.name, &*r.by)).collect();
        assert_eq!(replaced, [(3, "n3", "s1"), (3, "s1", "s2")]);
    }

    #[test]
    fn a_spare_helps_where_the_host_is_at_fault() {
        for cause in [Cause::TimedOut, Cause::Closed, Cause::NotStarted(String::new())] {
            assert!(Spares::could_help(&failure(cause)));
        }
        let elsewhere =
            [Cause::LauncherLost(HostIndex(1)), Cause::OutOfResources(String::new()), Cause::SettleElapsed];
        for cause in elsewhere {
            assert!(!Spares::could_help(&failure(cause)));
        }
    }
}
