//! The pure part of libi: everything that can be decided without touching the operating system.
//!
//! libi starts a set of processes on many hosts and lets them talk to one another until they can talk for
//! themselves. This crate holds the decisions that go into that, and none of the actions: it opens no
//! file, reads no clock, starts no thread. It cannot: it is `no_std`, and the tests link it where there is no
//! standard library at all.
//!
//! # The story, in the order in which to read it
//!
//! 1. Somebody names hosts. [`hosts`] reads what people, files and resource managers write, such as
//!    `node[001-064]:8`, and writes it back short.
//! 2. Somebody says what to start on them. A [`dist::Distribution`] is a program with its arguments, its
//!    environment and its hosts; [`dist::placement`] spreads processes over hosts, and [`dist::layout`] gives
//!    each process its rank and each host its leader.
//! 3. Starting a process on another host takes long, and keeps the one who starts it busy for a part of that. So
//!    those who are up help with the rest. [`cost`] puts this into three numbers, and [`plan`] decides who
//!    launches whom: trees that are fixed in advance, the one of them that is optimal if costs are constant,
//!    and the late-commit queue that needs no fixed tree and loses nobody to a dead host.
//! 4. [`ranking`] puts all of them side by side for given costs; [`plan::explain`] says why a launch
//!    takes as long as it does, [`plan::fit`] what launches that were observed must have cost.
//! 5. Protocols are state machines: [`machine`] says what one looks like, [`sim`] runs whole launches of them in
//!    virtual time with costs that vary, hosts that are slow and hosts that are dead, from a seed.
//! 6. What machines say to each other travels in frames: [`wire`]. Where strangers could listen or join in, both
//!    ends of a [`secure`] first prove that they hold the same ticket, and seal what follows.
//! 7. Afterwards a [`trace`] tells what took how long, beside what was predicted, and what the last host waited for.
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

pub mod chart;
pub mod cost;
pub mod curves;
pub mod dist;
mod draw;
pub mod hosts;
pub mod ids;
pub mod join;
pub mod machine;
pub mod plan;
pub mod ranking;
pub mod ranks;
pub mod secure;
pub mod sim;
#[cfg(test)]
mod testing;
pub mod time;
pub mod trace;
pub mod wire;
