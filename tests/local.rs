//! Real processes on this machine, through the local back end: what a front end sees of them, what
//! they see, and that nothing is left of them.
//!
//! No test waits for a fixed time: each waits for an event, with a deadline.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "local/agents.rs"]
mod agents;
#[path = "local/apart.rs"]
mod apart;
#[path = "local/commands.rs"]
mod commands;
#[path = "local/ending.rs"]
mod ending;
#[path = "local/failing.rs"]
mod failing;
#[path = "local/growing.rs"]
mod growing;
#[path = "local/input.rs"]
mod input;
#[path = "local/keeping.rs"]
mod keeping;
#[path = "local/killing.rs"]
mod killing;
#[path = "local/output.rs"]
mod output;
#[path = "local/placing.rs"]
mod placing;
#[path = "local/releasing.rs"]
mod releasing;
#[path = "local/restarting.rs"]
mod restarting;
#[path = "local/starting.rs"]
mod starting;
#[path = "local/surviving.rs"]
mod surviving;
#[path = "local/victims.rs"]
mod victims;
