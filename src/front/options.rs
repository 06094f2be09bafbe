//! How a launch is to go: where, how, how long, and what is enough.

use std::path::PathBuf;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::hosts::HostList;
use libi_core::plan::Strategy;
use libi_core::secure::LinkSecurity;
use libi_launch::backend::{Backend, LaunchMethod};
use libi_launch::machine::{LinkPolicy, Policy, Rules};

/// How a launch is to go. [`Default`] is a launch on this machine, of everything, within two minutes.
///
/// ```
/// use std::time::Duration;
/// use libi::{LaunchOptions, Policy, Ssh, Via, Word};
///
/// let ssh = Ssh { options: vec![OsBytes::try_from("StrictHostKeyChecking=accept-new")?], ..Ssh::new() };
/// let options = LaunchOptions {
///     via: Via::Ssh(ssh),
///     policy: Policy::AtLeast(500),
///     deadline: Duration::from_secs(60),
///     ..LaunchOptions::default()
/// };
/// # let _ = options;
/// # Ok::<(), libi::dist::NotAWord>(())
/// ```
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// How hosts are reached.
    pub backend: Backend,
    /// How many hosts have to join for the session to come up.
    pub policy: Policy,
    /// After how long there is a verdict, whatever happens.
    pub deadline: Duration,
    /// Times and numbers that everybody in the launch goes by.
    pub rules: Rules,
    /// What a launch costs, if you know; otherwise what the back-end says to begin with. What is measured during the
    /// launch takes its place either way.
    pub cost: Option<Cost>,
    /// Who launches whom: late commit, unless you insist on a tree that is decided in advance.
    pub strategy: Strategy,
    /// Hosts that take the places of those that fail, in this order, with the same members. Counts mean nothing here.
    ///
    /// With [several sessions](super::FrontEnd::launch) each may take all of them.
    pub spares: HostList,
    /// Whether the master's standard input is what you [write](super::Session::write). Everybody else's is empty.
    pub input: bool,
    /// What becomes of what members print.
    pub output: Output,
    /// Whether hosts talk to each other directly, or through the channels that they were started with.
    pub links: LinkPolicy,
    /// What happens to bytes on direct links.
    pub link_security: LinkSecurity,
    /// Whether hosts may be reached by means that others on the network can listen to, and interfere with: `rsh`. Without that, such a
    /// launch is refused; with it, each session says so once, as a warning to whatever logger the program has (crate `log`).
    ///
    /// Then the session's secret can be read as well, so that neither the channels nor direct links prove anything to anybody:
    /// whoever is on the network can take part, and run programs as those who are launched.
    pub allow_plain: bool,
    /// All hosts are this machine, whatever they are called: direct links are made on its loopback address alone.
    pub loopback: bool,
    /// Hosts that are this machine: where the front end launches them, as it does the first of a session, it starts them as
    /// [`Backend::Local`] does, whatever the others are reached by. Another host that comes to launch one of them uses
    /// [`backend`](Self::backend). An entry is meant if name, user and port are the same.
    pub here: HostList,
}

/// What becomes of what members print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// It comes as [`Event::Output`](super::Event::Output), for you to take. Who prints waits when you do not.
    #[default]
    Events,
    /// It is written to files in this directory, `RANK.out` and `RANK.err`, on the front end's machine. The directory is made
    /// if it is missing.
    Files(PathBuf),
    /// It is read and forgotten.
    Dropped,
}

impl Default for LaunchOptions {
    fn default() -> Self {
        Self {
            backend: Backend::default(),
            policy: Policy::All,
            deadline: Duration::from_secs(120),
            rules: Rules::default(),
            cost: None,
            strategy: Strategy::default(),
            spares: HostList::new(),
            input: false,
            output: Output::default(),
            links: LinkPolicy::default(),
            link_security: LinkSecurity::default(),
            allow_plain: false,
            loopback: false,
            here: HostList::new(),
        }
    }
}

impl LaunchOptions {
    /// Waits for hosts that are not up yet: whatever may pass is tried again until the deadline.
    #[must_use]
    pub fn until_up(mut self) -> Self {
        self.policy = Policy::All;
        self.rules.attempts = u16::MAX;
        self
    }

    /// Goes on with whatever joins, as long as the master does: with spare hosts for those that fail, while there are some.
    #[must_use]
    pub fn best_effort(mut self, spares: HostList) -> Self {
        self.policy = Policy::AtLeast(1);
        self.spares = spares;
        self
    }

    /// What a launch is believed to cost before anything has been measured.
    #[must_use]
    pub fn believed_cost(&self) -> Cost {
        self.cost.unwrap_or_else(|| self.backend.default_cost())
    }
}
