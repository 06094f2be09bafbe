//! The communication half of libi: front end, master and members talk over the launch tree, one to one and
//! collectively.
//!
//! Every process of a session has a [`Group`]: a state machine that is told what happens (the tree is
//! complete, a frame has come, a link is cut, the program makes a call) and says what is to be done about it (send this
//! frame there, this call is over). It reads no clock and opens nothing; whoever drives it owns the links.
//!
//! | to find out | look at |
//! |---|---|
//! | how an operation proceeds, what a mismatch, a loss, a deadline does | [`group`] |
//! | what can be called, and what comes of it | [`contract`] |
//! | what may go wrong | [`error`] |
//! | who is behind which link | [`topology`] |
//! | what travels | [`message`], `piece` |
//! | how values are combined inside the tree | [`fold`] |
//! | what members of a host share | [`memory`] |
//!
//! This crate does not know `libi-launch`, nor is it known by it; the crate `libi` joins the two.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod contract;
pub mod error;
pub mod group;
pub mod memory;
pub mod message;
pub mod piece;
pub mod reduce;
pub mod topology;

pub use bytes::Bytes;
pub use contract::{Address, Call, CallId, Effect, Event, Frame, KeyScope, Outcome, RingPosition};
pub use error::CommError;
pub use group::Group;
pub use reduce::{Op, Reducer};
pub use topology::{Branch, Topology};
