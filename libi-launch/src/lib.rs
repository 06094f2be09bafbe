//! The launch half of libi: takes distributions, drives remote shells and resource managers, owns the processes
//! it started, and says of every host how its launch ended.
//!
//! **What is here yet**: [`process`] starts, watches and ends processes on this host (Linux only), and [`quote`]
//! writes down for a remote shell what is to be started there. The state machine of a launch and the back-ends that
//! carry it out will come. This crate does not know `libi-comm`, nor is it known by it; the
//! crate `libi` joins the two.
#![deny(missing_docs)]

#[cfg(target_os = "linux")]
pub mod process;
pub mod quote;
