//! The options of a launch: back-end, deadline, policy, output.
//!
//! [`LaunchOptions`] is one value from the user to the last member. The front end's node keeps it,
//! and each node sends it whole to the nodes that it launches, in the
//! [`SessionConfig`](crate::machine::SessionConfig). A new option is one field here, with its
//! setter; the code that obeys it reads the node's options. A field that matters only to the front
//! end is marked `#[serde(skip)]`: elsewhere it has its default.

mod agent;
mod carried;
mod detached;
mod engine;
mod limits;
mod on_loss;
mod standard_input;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::hosts::HostList;
use libi_core::plan::Strategy;
use libi_core::secure::LinkSecurity;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, LaunchMethod, Local};
use crate::machine::{LinkPolicy, Policy, Rules};
use crate::staging::Staging;

pub use agent::{AGENT_ARG, Agent, JOB_ARG, Programs};
pub use carried::CarriedOptions;
pub use detached::{Detached, KEEPER_ARG};
pub use engine::{APART_ENV, Engine};
pub use limits::{MemberLimits, ProcessLimits};
pub use on_loss::{OnLoss, OnLossError};
pub use standard_input::StandardInput;

/// The options of a launch. [`Default`] requires all hosts to join within two minutes.
///
/// ```
/// use std::time::Duration;
/// use libi_launch::backend::{Backend, BackendError};
/// use libi_launch::machine::Policy;
/// use libi_launch::options::LaunchOptions;
///
/// let options = LaunchOptions::new()
///     .backend("ssh".parse::<Backend>()?)
///     .policy(Policy::AtLeast(500))
///     .deadline(Duration::from_secs(60));
/// # let _ = options;
/// # Ok::<(), BackendError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LaunchOptions {
    /// How hosts are reached. By default (`None`) the environment variable `LIBI_BACKEND` decides,
    /// if it is set. Otherwise the front end uses `srun` inside a Slurm job for nodes of the job;
    /// elsewhere, it starts processes directly on hosts that are this machine, and reaches all others
    /// by `ssh`.
    ///
    /// A host is this machine if its entry has neither user nor port, and its name is `localhost`,
    /// a loopback address, the host name, or an address of this machine; or the host name with
    /// another domain, if it resolves to this machine.
    /// [`Backend::Local`] starts all processes on this machine, whatever the names of the hosts.
    pub backend: Option<Backend>,
    /// How many hosts have to join for the session to come up.
    #[serde(skip)]
    pub policy: Policy,
    /// When enough hosts have joined: how long no further host may join, fail or be relaunched before
    /// the session goes up without those that are still open. These are reported with
    /// [`Cause::SettleElapsed`](crate::failure::Cause::SettleElapsed).
    ///
    /// `None` is four times the slowest launch so far, and at least two seconds. With
    /// [`Duration::MAX`] the session goes up when every host has joined or failed.
    #[serde(skip)]
    pub settle: Option<Duration>,
    /// The program that leads each host; by default the program of the host's first member does.
    pub agent: Option<Agent>,
    /// Where the engine of a host runs that no [`agent`](field@Self::agent) leads.
    pub engine: Engine,
    /// Which programs the members run: by default programs that join the session.
    pub programs: Programs,
    /// Files that every host gets before its programs are started. It needs an
    /// [`agent`](field@Self::agent).
    pub stage: Option<Staging>,
    /// The time after which the launch is over in any case: up, or given up.
    #[serde(skip)]
    pub deadline: Duration,
    /// Timeouts and limits that all hosts of the launch use.
    pub rules: Rules,
    /// What a launch costs, if known; by default the usual cost of the back end. Measurements made
    /// during the launch replace it in either case.
    #[serde(skip)]
    pub cost: Option<Cost>,
    /// Which host launches which: by default *late commit*, which assigns hosts to launchers as
    /// these become free; alternatively a tree that is fixed in advance.
    ///
    /// A back-end that starts all hosts at once, as srun does, launches in no tree. There it decides
    /// to which process the hosts connect: up to 256 hosts to the front end, more than that to about
    /// √n of the first that come up. `flat` keeps all connections at the front end, `kary:K` has K
    /// hosts take those of the others.
    pub strategy: Strategy,
    /// How many launches the front end itself may have in flight at a time, so that it spares the
    /// machine that it runs on; by default (`None`) as many as keep it busy. A launch is in flight
    /// from the start of its remote shell until its host has said hello, or until the remote shell
    /// has ended.
    ///
    /// Hosts that are up launch others without this limit. A start of many hosts at once, as by
    /// srun, does not count.
    #[serde(skip)]
    pub front_end_launches: Option<NonZeroU32>,
    /// Hosts that replace failed ones, in this order, with the same members. Their process counts
    /// are ignored.
    ///
    /// If one launch has several sessions, each of them may use all spares.
    #[serde(skip)]
    pub spares: HostList,
    /// Which programs get standard input from the front end, by `Session::write`.
    #[serde(skip)]
    pub input: StandardInput,
    /// What becomes of what members print.
    pub output: Output,
    /// Which umask and soft resource limits members have.
    pub limits: MemberLimits,
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
    #[serde(skip)]
    pub allow_plain: bool,
    /// All hosts are this machine, whatever their names: direct links use its loopback address
    /// only.
    pub loopback: bool,
    /// Whether every collective call waits until all members have made it, for debugging: a mismatch
    /// or a timeout then fails the call itself at all members. By default a call is complete for a
    /// member when its own part is, and a member that has completed a call hears of its failure in
    /// its next one.
    pub strict_calls: bool,
    /// What follows when a member ends or is lost while the session is up.
    pub on_loss: OnLoss,
    /// How often a member is restarted automatically: its agent does so when a process of the
    /// member that had joined is ended by a signal, or with another exit status than 0. Restarts
    /// that the user asks for count. Between two starts is a [pause](Rules::back_off) that doubles with each. Only
    /// where calls [go on](OnLoss::Continue) and the leader of the host is no member. Members that are lost with
    /// their host start again on a [spare](Self::spares), if one is left.
    pub restarts: u32,
    /// Whether the next rank is the master when the master is lost, and the session outlives its first host.
    /// Only where calls [go on](OnLoss::Continue). Calls pass through the front end then, which costs a message
    /// more up and down the tree, and waits for a front end that drives itself.
    pub replace_master: bool,
    /// Hosts that are this machine. The front end starts them directly, as [`Backend::Local`] does,
    /// instead of through the remote shell. Another host that launches one of them uses
    /// [`backend`](Self::backend). An entry matches if name, user and port are equal.
    #[serde(skip)]
    pub local_hosts: HostList,
    /// Whether the session goes on when its front end ends, and accepts another one. By default it ends
    /// with its front end.
    #[serde(skip)]
    pub detached: Option<Detached>,
}

/// What becomes of what members print.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Forwarding", from = "Forwarding")]
#[non_exhaustive]
pub enum Output {
    /// It arrives at the front end as `Event::Output`. Output that the caller does not take exerts
    /// backpressure on the member that printed it.
    ///
    /// What a process prints before it joins is passed on when it has joined. Of more than 64 KiB,
    /// the first and the last 32 KiB are passed on, and a line between them counts the rest.
    #[default]
    Events,
    /// It is written to files in this directory, `RANK.out` and `RANK.err`, on the machine of the
    /// front end. The directory is created if it is missing.
    Files(PathBuf),
    /// It is read and discarded.
    Dropped,
    /// It arrives at the front end as `Event::Folded`: lines that several members print arrive
    /// once, with the ranks of all. They are merged on their way, so that each link carries them
    /// once, however many members print them.
    ///
    /// All bytes of each rank and stream arrive, in their order. A process on the way holds output
    /// for the sake of merging until all members below it that still run have printed the same,
    /// at most for the time `hold`, and at most 64 KiB of each member of its host and of each process
    /// whose output it passes on; beyond that, output travels unmerged.
    /// The end of a member is reported behind its output, unless that waits for the caller.
    Folded {
        /// The longest time that each process on the way holds output; 0 merges only what waits
        /// anyway, because the caller is slow.
        hold: Duration,
    },
}

impl Output {
    /// [`Folded`](Self::Folded), and held for 100 ms at most by each process on the way.
    #[must_use]
    pub fn folded() -> Self {
        Self::Folded { hold: Duration::from_millis(100) }
    }
}

/// What members have to know about [`Output`].
#[derive(Serialize, Deserialize)]
enum Forwarding {
    Unchanged,
    Dropped,
    Folded(Duration),
}

impl From<Output> for Forwarding {
    fn from(output: Output) -> Self {
        match output {
            Output::Events | Output::Files(_) => Self::Unchanged,
            Output::Dropped => Self::Dropped,
            Output::Folded { hold } => Self::Folded(hold),
        }
    }
}

impl From<Forwarding> for Output {
    fn from(forwarding: Forwarding) -> Self {
        match forwarding {
            Forwarding::Unchanged => Self::Events,
            Forwarding::Dropped => Self::Dropped,
            Forwarding::Folded(hold) => Self::Folded { hold },
        }
    }
}

/// The back-end of options that name none.
const LOCAL: Backend = Backend::Local(Local);

impl Default for LaunchOptions {
    fn default() -> Self {
        Self {
            backend: None,
            agent: None,
            engine: Engine::default(),
            programs: Programs::default(),
            stage: None,
            policy: Policy::All,
            settle: None,
            deadline: Duration::from_secs(120),
            rules: Rules::default(),
            cost: None,
            strategy: Strategy::default(),
            front_end_launches: None,
            spares: HostList::new(),
            input: StandardInput::Empty,
            output: Output::default(),
            limits: MemberLimits::default(),
            links: LinkPolicy::default(),
            link_security: LinkSecurity::default(),
            allow_plain: false,
            loopback: false,
            strict_calls: false,
            on_loss: OnLoss::default(),
            restarts: 0,
            replace_master: false,
            local_hosts: HostList::new(),
            detached: None,
        }
    }
}

impl LaunchOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`input`](field@Self::input).
    #[must_use]
    pub fn input(mut self, input: impl Into<StandardInput>) -> Self {
        self.input = input.into();
        self
    }

    /// Options with [`Backend::Local`]: all processes run on this machine, whatever the names of
    /// the hosts. For tests, and for trying out a program with many hosts.
    #[must_use]
    pub fn local() -> Self {
        Self { backend: Some(Backend::Local(Local)), ..Self::default() }
    }

    /// Waits for hosts that are not up yet: failures that may be transient are retried until the
    /// deadline.
    #[must_use]
    pub fn until_up(mut self) -> Self {
        self.policy = Policy::All;
        self.rules.attempts = u16::MAX;
        self
    }

    /// Accepts any number of hosts, as long as the master joins; spare hosts replace failed ones.
    /// The launch settles when no host has joined or failed for the time that one attempt may take.
    #[must_use]
    pub fn best_effort(mut self, spares: HostList) -> Self {
        self.policy = Policy::AtLeast(1);
        self.settle = Some(self.rules.hello_timeout);
        self.spares = spares;
        self
    }

    /// Sets [`backend`](field@Self::backend), for example to an [`Ssh`](crate::backend::Ssh).
    #[must_use]
    pub fn backend(mut self, backend: impl Into<Backend>) -> Self {
        self.backend = Some(backend.into());
        self
    }

    /// The back-end that a node uses. The front end has chosen one before the launch begins.
    pub(crate) fn launch_method(&self) -> &Backend {
        self.backend.as_ref().unwrap_or(&LOCAL)
    }

    /// The assumed cost of a launch.
    pub(crate) fn assumed_cost(&self) -> Cost {
        self.cost.unwrap_or_else(|| self.launch_method().default_cost())
    }

    /// How many launches this node may have in flight at most: only the front end has a limit.
    pub(crate) fn launch_limit(&self) -> usize {
        self.front_end_launches.map_or(usize::MAX, |limit| limit.get() as usize)
    }

    /// Whether agents start programs that may not join.
    pub(crate) fn has_any_programs(&self) -> bool {
        self.agent.is_some() && self.programs == Programs::Any
    }

    /// Whether agents start no programs when the session goes up.
    pub(crate) fn has_no_programs(&self) -> bool {
        self.agent.is_some() && self.programs == Programs::None
    }

    /// Whether the program of a host's first member is to lead it in a process apart from it.
    #[must_use]
    pub fn leads_apart(&self) -> bool {
        self.agent.is_none() && self.engine == Engine::Apart
    }

    /// Whether links may leave the channels of the shells, so that they prove a secret.
    pub(crate) fn links_have_secret(&self) -> bool {
        self.links != LinkPolicy::Channel || self.launch_method().bulk().is_some()
    }

    /// Whether the session has a secret.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.links_have_secret() || self.hosts_reconnect()
    }

    /// Whether hosts that lose their parent while the session is up find another one: calls go on without
    /// lost members, and each was started by itself. Output that is merged would come in another order, and
    /// input for all would be missing.
    pub(crate) fn hosts_reconnect(&self) -> bool {
        self.on_loss == OnLoss::Continue
            && !matches!(self.output, Output::Folded { .. })
            && self.input != StandardInput::All
            && self.launch_method().bulk().is_none()
    }

    /// Whether another member is the master when that is lost, so that the front end is the top of the
    /// members' tree.
    #[must_use]
    pub fn replaces_master(&self) -> bool {
        self.replace_master && self.on_loss == OnLoss::Continue
    }

    /// Whether a static tree decides which node launches which host.
    pub(crate) fn is_static(&self) -> bool {
        self.strategy != Strategy::Late
    }
}

/// Defines a setter for each field that has none of its own.
macro_rules! setters {
    ($($field:ident: $type:ty),* $(,)?) => {
        impl LaunchOptions {$(
            #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        )*}
    };
}

setters! {
    engine: Engine,
    programs: Programs,
    policy: Policy,
    settle: Option<Duration>,
    deadline: Duration,
    rules: Rules,
    strategy: Strategy,
    front_end_launches: Option<NonZeroU32>,
    spares: HostList,
    output: Output,
    limits: MemberLimits,
    links: LinkPolicy,
    link_security: LinkSecurity,
    allow_plain: bool,
    loopback: bool,
    strict_calls: bool,
    on_loss: OnLoss,
    restarts: u32,
    replace_master: bool,
    local_hosts: HostList,
}

impl LaunchOptions {
    /// Sets the [`agent`](field@Self::agent).
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Has the session go on when its front end ends: see [`detached`](field@Self::detached).
    #[must_use]
    pub fn detached(mut self, detached: Detached) -> Self {
        self.detached = Some(detached);
        self
    }

    /// Sets the files to [`stage`](field@Self::stage).
    #[must_use]
    pub fn stage(mut self, files: Staging) -> Self {
        self.stage = Some(files);
        self
    }

    /// Sets the expected [`cost`](field@Self::cost).
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }
}
