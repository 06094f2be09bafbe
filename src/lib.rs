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

pub use libi_core::{chart, cost, dist, hosts, ids, link, machine, plan, ranking, sim, time, trace, wire};

/// The examples of the README, so that they stay true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
