//! The communication half of libi: collective calls, point-to-point messages and a key-value store
//! for the front end, the master and the members of a session, over the launch tree.
//!
//! Every process of a session has a [`Group`], a state machine without I/O. Its events are that the
//! tree is complete, that a frame has arrived, that a link has closed, or that the program makes a
//! call. Its effects are frames to send and results of calls. It reads no clock and opens no file
//! descriptor; its driver owns the links.
//!
//! | question | module |
//! |---|---|
//! | how an operation proceeds; what a mismatch, a loss or a timeout does | [`group`] |
//! | calls, outcomes, events, effects | [`contract`] |
//! | errors | [`error`] |
//! | which ranks are behind which link | [`Topology`], `routes` |
//! | what is sent over links | [`message`], [`piece`] |
//! | how values are combined in the tree | [`reduce`] |
//! | memory shared by the members of a host | [`memory`] |
//!
//! This crate and `libi-launch` do not depend on each other; the crate `libi` joins the two.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod contract;
pub mod error;
pub mod group;
pub mod memory;
pub mod message;
pub mod piece;
pub mod reduce;
mod routes;

pub use bytes::Bytes;
pub use contract::{
    Address, Adoption, Call, CallId, Completion, Effect, Event, Frame, KeyScope, Outcome, RingPosition,
};
pub use error::CommError;
pub use group::Group;
pub use libi_core::topology::{Branch, Topology};
pub use reduce::{Op, Reducer};
