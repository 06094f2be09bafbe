//! What libi's tests and benchmarks share, beside the programs that they start.
//!
//! | module | what |
//! |---|---|
//! | [`programs`] | finds the programs of this crate, and `libi` |
//! | [`local`], [`roles`], [`processes`] | launches on this machine; front ends to be killed; what is left of a launch |
//! | [`shell`], [`testbed`] | the stand-in for ssh; launches through it with direct links |
//! | [`kills`] | the seed of random kills, and at how many moments |
//! | [`labs`], [`operations`], [`table`] | laboratories of real servers; what their tests do and check |
//! | [`cases`], [`play`], [`launching`], [`playing`], [`stream`] | `tests/cases/*.toml`: what they mean; how real processes run them; random steps |
//! | [`native`] | compiles and runs C and C++ programs |
#![allow(missing_docs, reason = "names in tests are facts; there is no user to explain them to")]
#![allow(clippy::unwrap_used, clippy::new_without_default, reason = "a test fails by panicking")]

pub mod kills;
pub mod labs;
pub mod launching;
pub mod local;
pub mod native;
pub mod operations;
pub mod play;
pub mod playing;
pub mod processes;
pub mod programs;
pub mod roles;
pub mod shell;
pub mod stream;
pub mod table;
pub mod testbed;

pub use libi_cases as cases;
