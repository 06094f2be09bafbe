//! libi starts a set of processes on many hosts and lets them talk to one another until they can talk for
//! themselves. Debuggers, profilers, overlay networks and parallel runtimes link it for their start.
//!
//! **What works today** is everything that is decided before the first process is started: host lists,
//! distributions and ranks, the cost model, launch plans and their simulation, the frame format, the proof and
//! encryption of links. It is re-exported here from [`libi_core`], whose documentation is the place to begin.
//! Launching and communication are being built on top of it; [`libi_launch`] starts processes on this machine.
//!
//! Crates, and who knows whom:
//!
//! ```text
//!     libi (this crate: facade and command line)  <-  libi-ffi (C)
//!       |                 |
//!     libi-launch      libi-comm          neither knows the other
//!       |                 |
//!     libi-core (pure)
//! ```
//!
//! The program `libi` is built with the feature `cli`, which is off by default: who embeds the library
//! compiles none of it.
#![deny(missing_docs)]

mod engine;
mod front;
mod member;
mod thread;

pub use front::{
    Error, Event, FrontEnd, HostReport, LaunchOptions, LaunchReport, Output, Progress, Session, Stage, Tally,
};
pub use libi_core::dist::{Distribution, Variable, Word};
pub use libi_core::hosts::HostList;
pub use libi_core::ids::{HostIndex, Rank, SessionId};
pub use libi_core::link::Mode;
pub use libi_core::{chart, cost, dist, hosts, ids, link, machine, plan, ranking, sim, time, trace, wire};
pub use libi_launch::backend::{Local, Shell, Via};
pub use libi_launch::machine::{Links, Policy, Replaced, Rules, Stream};
pub use libi_launch::verdict::{Cause, Exit, Failure, Phase};
pub use member::{InitError, Member, MemberError, MemberOptions};

/// The examples of the README, so that they stay true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
