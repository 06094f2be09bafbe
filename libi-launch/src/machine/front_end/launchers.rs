//! Which nodes launch the hosts after the first.
//!
//! | launched by | a leader cannot launch |
//! |---|---|
//! | leaders: that of the first host, and those that it launches | the front end, instead of it |
//! | the front end, by bulk starts | |
//! | the front end, instead of a leader | |

use libi_core::ids::HostIndex;

use crate::failure::Failure;

/// The nodes that launch the hosts after the first.
#[derive(Debug)]
pub(in crate::machine) struct Launchers(By);

#[derive(Debug)]
enum By {
    Leaders,
    FrontEnd,
    /// This leader could not launch, with this first failure.
    FrontEndInstead(Box<(HostIndex, Failure)>),
}

impl Launchers {
    pub(super) fn new(is_bulk: bool) -> Self {
        Self(if is_bulk { By::FrontEnd } else { By::Leaders })
    }

    /// This leader cannot launch; only the first such leader counts.
    pub(super) fn replace(&mut self, leader: HostIndex, why: &Failure) {
        if !self.is_front_end() {
            self.0 = By::FrontEndInstead(Box::new((leader, why.clone())));
        }
    }

    /// Whether the front end launches all hosts.
    pub(in crate::machine) fn is_front_end(&self) -> bool {
        !matches!(self.0, By::Leaders)
    }

    /// The leader that the front end replaces, with its first failure.
    pub(in crate::machine) fn replaced(&self) -> Option<(HostIndex, &Failure)> {
        match &self.0 {
            By::FrontEndInstead(instead) => Some((instead.0, &instead.1)),
            By::Leaders | By::FrontEnd => None,
        }
    }

    /// Whether leaders could launch, but one had no resources for more.
    pub(in crate::machine) fn lack_resources(&self) -> bool {
        self.replaced().is_some_and(|(_, why)| why.is_out_of_resources())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failure::{Cause, Phase};

    fn failure(cause: Cause) -> Failure {
        Failure::without_evidence(Phase::Starting, cause, Duration::ZERO)
    }

    #[test]
    fn the_first_leader_that_cannot_launch_is_replaced_by_the_front_end() {
        let mut launchers = Launchers::new(false);
        assert!(!launchers.is_front_end() && launchers.replaced().is_none());
        let why = failure(Cause::TimedOut);
        launchers.replace(HostIndex(0), &why);
        launchers.replace(HostIndex(7), &failure(Cause::OutOfResources(String::new())));
        assert!(launchers.is_front_end() && !launchers.lack_resources());
        assert_eq!(launchers.replaced(), Some((HostIndex(0), &why)));
    }

    #[test]
    fn leaders_without_resources_could_launch_otherwise() {
        let mut launchers = Launchers::new(false);
        launchers.replace(HostIndex(0), &failure(Cause::OutOfResources(String::new())));
        assert!(launchers.is_front_end() && launchers.lack_resources());
    }

    #[test]
    fn the_front_end_that_makes_bulk_starts_replaces_no_leader() {
        let mut launchers = Launchers::new(true);
        launchers.replace(HostIndex(0), &failure(Cause::OutOfResources(String::new())));
        assert!(launchers.is_front_end() && !launchers.lack_resources());
        assert_eq!(launchers.replaced(), None);
    }
}
