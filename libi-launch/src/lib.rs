//! The launch half of libi: takes distributions, drives remote shells and resource managers, owns the processes
//! it started, and says of every host how its launch ended.
//!
//! [`machine`] is the state machine of a launch, which decides who is started where, what it means when something fails,
//! and how a session ends; it runs under the simulator in `tests/simulation`, and for real under the loop of the crate
//! `libi`. [`backend`] says how hosts are reached, [`quote`] writes down for a remote shell what is to be started there,
//! [`process`] starts, watches and ends processes on this host (Linux only), [`failure`] has the words for what
//! became of a host, [`shell_error`] reads what a remote shell says of itself, [`transcript`] what `ssh -v` says of a login, and
//! [`exit_trailer`] what a host says of the end of its program.
//!
//! This crate does not know `libi-comm`, nor is it known by it; the crate `libi` joins the two.
#![deny(missing_docs)]

pub mod backend;
pub mod exit_trailer;
pub mod failure;
pub mod machine;
#[cfg(target_os = "linux")]
pub mod process;
pub mod quote;
pub mod shell_error;
pub mod transcript;
