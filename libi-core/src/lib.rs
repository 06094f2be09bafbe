//! The pure part of libi: everything that can be decided without touching the operating system.
//!
//! libi starts a set of processes on many hosts and connects them until they have their own means
//! of communication. This crate holds the decisions that go into that, and none of the actions: it
//! opens no file, reads no clock and starts no thread. It is `no_std`, and a test links it for a
//! target without a standard library.
//!
//! # Reading order
//!
//! 1. The user names hosts. [`hosts`] reads what people, files and resource managers write, such as
//!    `node[001-064]:8`, and writes it back in its shortest form.
//! 2. The user says what to start on them. A [`dist::Distribution`] is a program with its
//!    arguments, its environment and its hosts; [`dist::placement`] spreads processes over hosts,
//!    and [`dist::layout`] gives each process its rank and each host its leader.
//! 3. Starting a process on another host takes long, and keeps the launcher busy for a part of that
//!    time. Hosts that are up therefore launch others. [`cost`] describes this in three numbers,
//!    and [`plan`] decides which host launches which: trees that are fixed in advance, the optimal
//!    tree for constant costs, and the late-commit queue, which needs no fixed tree. With late
//!    commit a dead host costs only itself, never the hosts below it.
//! 4. [`ranking`] compares all strategies for given costs; [`plan::explain`] says why a launch
//!    takes as long as it does, and [`plan::fit`] what the observed launches must have cost.
//! 5. Protocols are state machines: [`machine`] defines their interface, [`sim`] runs whole
//!    launches of them in virtual time from a seed, with costs that vary, slow hosts and dead
//!    hosts.
//! 6. State machines exchange frames over the links of a tree: [`wire`], [`topology`]. Where a stranger could listen or connect, both ends
//!    of a link first prove that they hold the same ticket, and encrypt what follows: [`secure`].
//!
//! How long each phase of a launch took, beside the prediction, is drawn by the crate `libi-trace`.
//!
//! # From hosts to a plan
//!
//! ```
//! use std::num::NonZeroU32;
//! use std::time::Duration;
//!
//! use libi_core::cost::Cost;
//! use libi_core::hosts::HostList;
//! use libi_core::plan::{Shape, Strategy};
//! use libi_core::ranking::Plan;
//!
//! let hosts = HostList::parse("node[0001-1000]")?;
//! let count = NonZeroU32::new(hosts.len() as u32).ok_or("no hosts")?;
//!
//! // A launch keeps its launcher busy for 7 ms, and the new host can help after 172 ms.
//! let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
//!
//! let flat = Plan::new(Strategy::Static(Shape::Flat), count, &cost);
//! let late = Plan::new(Strategy::Late, count, &cost);
//! assert_eq!(flat.launch_time(), Duration::from_millis(7_158));
//! assert_eq!(late.launch_time(), Duration::from_millis(589));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cost;
pub mod dist;
pub mod hosts;
pub mod ids;
pub mod join;
pub mod loss;
pub mod machine;
pub mod plan;
pub mod ranking;
pub mod ranks;
pub mod secure;
pub mod sim;
#[cfg(test)]
mod testing;
pub mod time;
pub mod topology;
pub mod wire;
