//! Direct links between real processes that are launched through the stand-in shell: links move and
//! lose nothing; what happens where they cannot; what can be seen from outside; and what strangers
//! can do.
//!
//! All hosts are this machine. Tests that need root, for packets or for a namespace without a
//! network, fail without it if `CI=true`, and are skipped with a message otherwise.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "packets and descriptors of others are the operating system's")]

#[path = "direct/blocked.rs"]
mod blocked;
#[path = "direct/descriptors.rs"]
mod descriptors;
#[path = "direct/moves.rs"]
mod moves;
#[path = "direct/packets.rs"]
mod packets;
#[path = "direct/secrets.rs"]
mod secrets;
#[path = "direct/strangers.rs"]
mod strangers;
