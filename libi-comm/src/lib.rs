//! The communication half of libi: front end, master and members talk over the launch tree, one to one and
//! collectively.
//!
//! **Nothing is here yet.** This crate will hold the state machines of send, receive, broadcast, scatter, gather,
//! barrier and their relatives, over links that it is given. It will not know `libi-launch`, nor be
//! known by it; the crate `libi` joins the two.
#![deny(missing_docs)]
