//! Front ends in C: every function that they have, also under what finds errors of memory; and in
//! programs that have a life of their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "c/embedded.rs"]
mod embedded;
#[path = "c/front.rs"]
mod front;
#[path = "c/readme.rs"]
mod readme;
