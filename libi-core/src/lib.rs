//! The pure part of libi: everything that can be decided without touching the operating system.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod chart;
pub mod cost;
pub mod hosts;
pub mod ids;
pub mod machine;
pub mod plan;
pub mod ranking;
pub mod sim;
pub mod time;
pub mod wire;
