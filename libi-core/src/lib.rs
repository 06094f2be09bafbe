//! The pure part of libi: everything that can be decided without touching the operating system.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod hosts;
pub mod wire;
