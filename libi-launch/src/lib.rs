//! The launch half of libi: starts distributions through remote shells, owns the processes that it
//! has started, and reports the outcome of every host.
//!
//! - [`machine`]: the state machine of a launch. It decides who starts which host, what a failure
//!   means, and how a session ends. It runs in the simulator of `tests/simulation`, and in
//!   production in the executor of the crate `libi`.
//! - [`options`]: what a launch is told.
//! - [`backend`]: how hosts are reached.
//! - [`quote`]: command lines for remote login shells.
//! - [`process`]: starting, watching and ending processes on this host (Linux only).
//! - [`failure`]: why a launch failed.
//! - [`shell_error`]: what a remote shell's output says about its failure.
//! - [`ssh_client`]: what a launching process and its own client of ssh tell each other.
//! - [`transcript`]: what `ssh -v` says about a login.
//! - [`delivery`]: sending the agent to hosts that lack it.
//! - [`staging`]: files of the user that every host gets before its programs are started.
//! - [`exit_trailer`]: a host's report of its program's exit status.
//!
//! This crate and `libi-comm` do not depend on each other; the crate `libi` combines them.
#![deny(missing_docs)]

pub mod backend;
pub mod delivery;
pub mod exit_trailer;
pub mod failure;
pub mod machine;
pub mod options;
#[cfg(target_os = "linux")]
pub mod process;
pub mod quote;
pub mod shell_error;
pub mod ssh_client;
pub mod staging;
pub mod transcript;
