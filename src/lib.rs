//! libi starts a set of processes on many hosts and lets them communicate until they can do so by
//! themselves. Debuggers, profilers, overlay networks and parallel runtimes link it for their
//! start-up.
//!
//! A [`FrontEnd`] launches sessions: a list of [`Distribution`]s says what runs where,
//! [`LaunchOptions`] say how, and a [`LaunchReport`] has the outcome for every host. A started
//! program calls [`Member::init`] to join its session. `examples/quickstart.rs` is both in one
//! program. Members [communicate](talk) with each other and with the front end over the launch
//! tree, as `examples/topology_exchange.rs` shows.
//!
//! | to find out | look at |
//! |---|---|
//! | how to launch, what may fail, how a session ends | [`FrontEnd`], [`Session`], [`Event`] |
//! | how hosts are reached | [`Backend`], [`Ssh`], [`Rsh`], [`Shell`], [`libi_launch::backend`] |
//! | what a started program has to do | [`Member`] |
//! | collective operations, messages, keys | [`talk`], [`Pending`], [`CommError`] |
//! | how hosts are written | [`hosts`] |
//! | what runs where, and which process gets which rank | [`Distribution`], [`Layout`] |
//! | which host launches which, and why | [`Strategy`], [`libi_core::plan`] |
//! | what a launch spent its time on | [`LaunchReport::timeline`], [`Timeline`] |
//! | how a collective operation proceeds, and what each failure does to it | [`libi_comm::group`] |
//! | how a launch proceeds, and what each failure does | [`libi_launch::machine`] |
//! | what is sent over a link, and how it is protected | [`libi_core::wire`], [`libi_core::secure`] |
//!
//! The crates and their dependencies:
//!
//! ```text
//!     libi-cli (the program)      libi-ffi (C)
//!               \                  /
//!                libi (this crate: facade and runtime)
//!          |             |              |
//!     libi-launch    libi-comm      libi-trace   independent of each other
//!          |             |              |
//!                 libi-core (pure)
//! ```
//!
//! # Logging
//! A front end logs through the crate [`log`]:
//!
//! | target | debug | info | warn |
//! |---|---|---|---|
//! | `libi::launch` | each state that a host enters | the outcome of a launch | a launch in the clear |
//! | `libi::link` | each host whose direct link is decided | | |
//! | `libi::session` | each member that ends or detaches | lost hosts, failures to write output, the end | |
//!
//! Members log their own stages under `libi::session` at debug level. The data that members
//! exchange or print are not logged.
//!
//! # Command line
//! The program `libi` is the crate `libi-cli`, so that embedding the library does not compile it.
#![deny(missing_docs)]

pub mod agent;
mod engine;
mod executor;
mod front;
pub mod job;
mod member;
pub mod talk;
mod thread;

pub use engine::addresses::own_addresses;
pub use executor::Progress;
pub use front::{
    BACKEND_ENV, BackendReason, Command, CommandReport, Distribution, DistributionError, Error, Event,
    FlatFallback, FrontEnd, Growth, HostReport, LaunchProgress, LaunchReport, LinkCounts, OutputError,
    ProcessOutcome, ProcessReport, Session, Spawned, Stage, are_this_machine, auto_backend, lay_out,
};
pub use libi_comm::{Bytes, CommError, KeyScope, Op, RingPosition};
pub use libi_core::cost::Cost;
pub use libi_core::dist::layout::{Block, Layout, LayoutError};
pub use libi_core::dist::{EnvVar, EnvVarError, OsBytes, OsBytesError};
pub use libi_core::hosts;
pub use libi_core::hosts::{HostList, HostListError, HostRef};
pub use libi_core::ids::{HostIndex, Rank, SessionId};
pub use libi_core::loss::{Loss, LossKind, LossReason};
pub use libi_core::plan::{Shape, Strategy, UnknownStrategy};
pub use libi_core::ranks::Ranks;
pub use libi_core::secure::LinkSecurity;
pub use libi_launch::backend::{
    Backend, BackendError, Local, Rsh, Shell, SlurmJob, Srun, Ssh, SshHosts, SshProfile, Starter,
    UnfitCommand,
};
pub use libi_launch::delivery::{Delivery, Packed};
pub use libi_launch::failure::{Cause, Exit, Failure, LaunchTiming, Phase};
pub use libi_launch::machine::{
    CommandId, GrowthError, LinkPolicy, Policy, Replacement, RestartError, Rules, Stream,
};
pub use libi_launch::options::*;
pub use libi_launch::shell_error::ShellError;
pub use libi_launch::ssh_client::{SshClient, UnknownClient};
pub use libi_launch::staging::{STAGE_ENV, StagedFile, Staging, StagingError};
pub use libi_trace::{HostLine, Prediction, Timeline};
pub use member::{InitError, Member, MemberError, MemberOptions};
pub use talk::{Number, Pending};

/// The examples of the README and the manual, compiled as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/first-session.md")]
    struct FirstSession;
    #[doc = include_str!("../docs/jobs.md")]
    struct Jobs;
    #[doc = include_str!("../docs/shell.md")]
    struct Shell;
    #[doc = include_str!("../docs/slurm.md")]
    struct Slurm;
    #[doc = include_str!("../docs/talking.md")]
    struct Talking;
}
