//! Which nodes launch the hosts after the first.
//!
//! | launched by | a leader cannot launch |
//! |---|---|
//! | leaders: that of the first host, and those that it launches | the front end, instead of it |
//! | all: the front end from the first moment, and those that it launches | those above it |
//! | the front end, by bulk starts | |
//! | the front end, instead of a leader | |
//!
//! Where leaders have launched and the front end is the top of the members' tree, a session that grows has it
//! launch among all.
//!
//! With all, the front end is a launcher as every leader is, that of all hosts: it goes on launching, and
//! the late-commit queue gives parts of what waits to the leaders that come up. The first login delays
//! no other. What it costs is that the front end has many children:
//!
//! - Messages between hosts below different children pass through it, and a tool may drive it seldom. So
//!   only in sessions of [any programs](Programs), which have few calls or none, its children stay.
//!   Else they [move](crate::machine::moves) below the leader of the first host. Where links are never
//!   direct they cannot, and where they have to be one that cannot would fail: there leaders launch.
//! - It sends and receives for each child what passes one link otherwise, and its network may be slow.
//!   So leaders launch where agents or files go down; and, if its children stay, where input for all
//!   goes down or merged output comes up.
//! - A static tree is laid out below the first host, as published.

use libi_core::ids::HostIndex;

use super::LaunchPlan;
use crate::backend::LaunchMethod;
use crate::failure::Failure;
use crate::machine::direct_links::LinkPolicy;
use crate::options::{LaunchOptions, Output, Programs, StandardInput};
use crate::staging::Staging;

/// The nodes that launch the hosts after the first.
#[derive(Debug)]
pub(in crate::machine) struct Launchers(By);

#[derive(Debug)]
enum By {
    Leaders,
    /// Leaders, until the session has grown; then all.
    AllSinceGrowth,
    /// With the first leader that could not launch, and why.
    All(Option<Box<(HostIndex, Failure)>>, Children),
    FrontEnd,
    /// This leader could not launch, with this first failure.
    FrontEndInstead(Box<(HostIndex, Failure)>),
}

/// What becomes of the hosts that the front end launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Children {
    Stay,
    Move,
}

impl Launchers {
    pub(super) fn new(plan: &LaunchPlan) -> Self {
        let options = &plan.options;
        if options.launch_method().bulk().is_some() {
            Self(By::FrontEnd)
        } else if options.is_static() || !is_light(options) {
            Self(By::Leaders)
        } else if options.programs != Programs::Linked && stays_light(options) {
            Self(By::All(None, Children::Stay))
        } else if options.programs == Programs::Linked && plan.secret.is_some() && may_be_direct(options) {
            Self(By::All(None, Children::Move))
        } else {
            Self(By::Leaders)
        }
    }

    /// How many of these hosts the front end launches, or gives away, from the first moment.
    pub(in crate::machine) fn hosts_of_front_end(&self, hosts: usize) -> usize {
        if self.include_front_end() { hosts } else { hosts.min(1) }
    }

    /// This leader cannot launch; only the first such leader counts. `certain`: no host is at fault.
    pub(super) fn cannot_launch(&mut self, leader: HostIndex, why: &Failure, certain: bool) {
        let first = || Box::new((leader, why.clone()));
        match &mut self.0 {
            By::Leaders => self.0 = By::FrontEndInstead(first()),
            By::All(known, _) if certain => _ = known.get_or_insert_with(first),
            By::AllSinceGrowth | By::All(..) | By::FrontEnd | By::FrontEndInstead(_) => {}
        }
    }

    /// The session grows, by hosts that the front end launches and gives away.
    pub(in crate::machine) fn add_front_end(&mut self) {
        if let By::Leaders = self.0 {
            self.0 = By::AllSinceGrowth;
        }
    }

    /// Whether the front end launches hosts after the first.
    pub(in crate::machine) fn include_front_end(&self) -> bool {
        !matches!(self.0, By::Leaders)
    }

    /// Whether the front end is a launcher as leaders are.
    pub(in crate::machine) fn are_all(&self) -> bool {
        matches!(self.0, By::All(..) | By::AllSinceGrowth)
    }

    /// Whether the leader of the first host was given all others, of which the queue knows nothing.
    pub(in crate::machine) fn first_has_all(&self) -> bool {
        !matches!(self.0, By::All(..))
    }

    /// Whether hosts that the front end has launched move below the first leader.
    pub(in crate::machine) fn hosts_move(&self) -> bool {
        matches!(self.0, By::All(_, Children::Move))
    }

    /// The leader that the front end replaces, with its first failure.
    pub(in crate::machine) fn replaced(&self) -> Option<(HostIndex, &Failure)> {
        match &self.0 {
            By::FrontEndInstead(instead) => Some((instead.0, &instead.1)),
            By::Leaders | By::AllSinceGrowth | By::All(..) | By::FrontEnd => None,
        }
    }

    /// Where all launch: the first leader that could not, with its first failure.
    pub(in crate::machine) fn unable(&self) -> Option<(HostIndex, &Failure)> {
        match &self.0 {
            By::All(first, _) => first.as_deref().map(|(leader, why)| (*leader, why)),
            By::Leaders | By::AllSinceGrowth | By::FrontEnd | By::FrontEndInstead(_) => None,
        }
    }

    /// Whether leaders could launch, but one had no resources for more.
    pub(in crate::machine) fn lack_resources(&self) -> bool {
        self.replaced().is_some_and(|(_, why)| why.is_out_of_resources())
    }
}

/// Whether nothing large goes to every host that the front end launches.
fn is_light(options: &LaunchOptions) -> bool {
    options.agent.as_ref().is_none_or(|agent| agent.delivery.is_none())
        && options.stage.as_ref().is_none_or(Staging::is_empty)
}

/// Whether links may leave the channels, and need not: a leader may not have room for all that move.
fn may_be_direct(options: &LaunchOptions) -> bool {
    options.links == LinkPolicy::Auto
}

/// Whether nothing large goes to every child of the front end later, and nothing is merged before it.
fn stays_light(options: &LaunchOptions) -> bool {
    options.agent.is_some()
        && options.input != StandardInput::All
        && !matches!(options.output, Output::Folded { .. })
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
        let mut launchers = Launchers(By::Leaders);
        assert!(!launchers.include_front_end() && launchers.replaced().is_none());
        assert_eq!((launchers.hosts_of_front_end(7), launchers.hosts_of_front_end(0)), (1, 0));
        let why = failure(Cause::TimedOut);
        launchers.cannot_launch(HostIndex(0), &why, false);
        launchers.cannot_launch(HostIndex(7), &failure(Cause::OutOfResources(String::new())), true);
        assert!(launchers.include_front_end() && !launchers.lack_resources() && !launchers.are_all());
        assert_eq!(launchers.replaced(), Some((HostIndex(0), &why)));
    }

    #[test]
    fn the_front_end_launches_as_leaders_do_once_the_session_grows_from_it() {
        let mut launchers = Launchers(By::Leaders);
        launchers.add_front_end();
        launchers.cannot_launch(HostIndex(3), &failure(Cause::TimedOut), true);
        assert!(launchers.are_all() && launchers.first_has_all() && !launchers.hosts_move());
        assert_eq!((launchers.replaced(), launchers.unable()), (None, None));
        let mut launchers = Launchers(By::All(None, Children::Move));
        launchers.add_front_end();
        assert!(launchers.hosts_move() && !launchers.first_has_all(), "as before");
    }

    #[test]
    fn leaders_without_resources_could_launch_otherwise() {
        let mut launchers = Launchers(By::Leaders);
        launchers.cannot_launch(HostIndex(0), &failure(Cause::OutOfResources(String::new())), false);
        assert!(launchers.include_front_end() && launchers.lack_resources());
    }

    #[test]
    fn the_front_end_that_makes_bulk_starts_replaces_no_leader() {
        let mut launchers = Launchers(By::FrontEnd);
        launchers.cannot_launch(HostIndex(0), &failure(Cause::OutOfResources(String::new())), false);
        assert!(launchers.include_front_end() && !launchers.lack_resources());
        assert_eq!((launchers.replaced(), launchers.unable()), (None, None));
    }

    #[test]
    fn where_all_launch_a_leader_that_cannot_is_known_and_replaced_by_none() {
        let mut launchers = Launchers(By::All(None, Children::Stay));
        assert!(!launchers.hosts_move() && Launchers(By::All(None, Children::Move)).hosts_move());
        assert_eq!(launchers.hosts_of_front_end(7), 7);
        let why = failure(Cause::NotStarted("no ssh".to_owned()));
        launchers.cannot_launch(HostIndex(3), &failure(Cause::TimedOut), false);
        launchers.cannot_launch(HostIndex(4), &why, true);
        launchers.cannot_launch(HostIndex(5), &failure(Cause::TimedOut), true);
        assert_eq!((launchers.replaced(), launchers.unable()), (None, Some((HostIndex(4), &why))));
        assert!(launchers.are_all());
    }
}
