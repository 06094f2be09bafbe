//! Real processes launched through remote shells that behave, misbehave and die: reports, output,
//! and nothing left.
//!
//! The shells are `libi-test-shell`, the members `libi-test-member`. Every process of a launch carries
//! a mark in its environment, by which a test finds out which are still there.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shells/commands.rs"]
mod commands;
#[path = "shells/exit_trailers.rs"]
mod exit_trailers;
#[path = "shells/faults.rs"]
mod faults;
#[path = "shells/flat.rs"]
mod flat;
#[path = "shells/growing.rs"]
mod growing;
#[path = "shells/healthy.rs"]
mod healthy;
#[path = "shells/kills.rs"]
mod kills;
#[path = "shells/limits.rs"]
mod limits;
#[path = "shells/logins.rs"]
mod logins;
#[path = "shells/managers.rs"]
mod managers;
#[path = "shells/masters.rs"]
mod masters;
#[path = "shells/orphans.rs"]
mod orphans;
#[path = "shells/programs.rs"]
mod programs;
#[path = "shells/relays.rs"]
mod relays;
#[path = "shells/replacing.rs"]
mod replacing;
#[path = "shells/returning.rs"]
mod returning;
#[path = "shells/scene.rs"]
mod scene;
#[path = "shells/staging.rs"]
mod staging;
#[path = "shells/starters.rs"]
mod starters;
