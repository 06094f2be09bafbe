//! The launch half of libi: takes distributions, drives remote shells and resource managers, owns the processes
//! it started, and says of every host how its launch ended.
//!
//! **Nothing is here yet.** What the launch will be decided by exists in `libi-core`: host lists,
//! distributions and ranks, the late-commit queue, the frame format. This crate will add the state machine of a
//! launch and the back-ends that carry it out. It will not know `libi-comm`, nor be known by it; the
//! crate `libi` joins the two.
#![deny(missing_docs)]
