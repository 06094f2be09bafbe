//! The options of a launch: back end, deadline, policy, output.

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
    /// The time after which the launch is over in any case: up, or given up.
    pub deadline: Duration,
    /// Timeouts and limits that all hosts of the launch use.
    pub rules: Rules,
    /// What a launch costs, if known; by default the usual cost of the back end. Measurements made
    /// during the launch replace it in either case.
    pub cost: Option<Cost>,
    /// Which host launches which: by default *late commit*, which assigns hosts to launchers as
    /// these become free; alternatively a tree that is fixed in advance.
    pub strategy: Strategy,
    /// Hosts that replace failed ones, in this order, with the same members. Their process counts
    /// are ignored.
    ///
    /// With [several sessions](super::FrontEnd::launch) each of them may use all spares.
    pub spares: HostList,
    /// Whether the master's standard input is fed by [`Session::write`](super::Session::write). The
    /// standard input of all other members is empty.
    pub input: bool,
    /// What becomes of what members print.
    pub output: Output,
    /// Whether hosts connect to each other directly, or communicate through the channels that they
    /// were started with.
    pub links: LinkPolicy,
    /// How direct links are protected.
    pub link_security: LinkSecurity,
    /// Whether the remote shell may send in the clear, as `rsh` does. By default such a launch is
    /// refused. If it is allowed, each session logs one warning (crate `log`).
    ///
    /// The session's secret then crosses the network in the clear as well, so neither the channels
    /// nor direct links authenticate anything: anyone on the network can join the session and run
    /// programs with the privileges of its processes.
    pub allow_plain: bool,
    /// All hosts are this machine, whatever their names: direct links use its loopback address
    /// only.
    pub loopback: bool,
    /// Hosts that are this machine. The front end starts them directly, as [`Backend::Local`] does,
    /// instead of through the remote shell. Another host that launches one of them uses
    /// [`backend`](Self::backend). An entry matches if name, user and port are equal.
    pub here: HostList,
}

/// What becomes of what members print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// It arrives as [`Event::Output`](super::Event::Output). Output that the caller does not take
    /// exerts backpressure on the member that printed it.
    #[default]
    Events,
    /// It is written to files in this directory, `RANK.out` and `RANK.err`, on the machine of the
    /// front end. The directory is created if it is missing.
    Files(PathBuf),
    /// It is read and discarded.
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
    /// Waits for hosts that are not up yet: failures that may be transient are retried until the
    /// deadline.
    #[must_use]
    pub fn until_up(mut self) -> Self {
        self.policy = Policy::All;
        self.rules.attempts = u16::MAX;
        self
    }

    /// Accepts any number of hosts, as long as the master joins; spare hosts replace failed ones.
    #[must_use]
    pub fn best_effort(mut self, spares: HostList) -> Self {
        self.policy = Policy::AtLeast(1);
        self.spares = spares;
        self
    }

    /// The expected cost of a launch before anything has been measured.
    #[must_use]
    pub fn believed_cost(&self) -> Cost {
        self.cost.unwrap_or_else(|| self.backend.default_cost())
    }
}
