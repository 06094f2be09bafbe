//! A front end that gives orders to all members, which answer: `talk:orders`.
//!
//! Members wait for an order, make a barrier, and answer with their rank and the order, until it is `end`.
//! They print each order, and each call that has failed because the master was lost. Any member may be
//! lost meanwhile. The session may grow before that: a new member whose first call is one of an order that it has
//! not heard answers nothing.

use std::time::Duration;

use libi::CommError;

use crate::talk::{Talk, Wrong};

/// How long a call may take: much longer than it takes to lose a host.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The calls of an order.
const CALLS: u64 = 3;

impl Talk<'_> {
    pub(crate) fn orders(&self) -> Result<(), Wrong> {
        let first = self.member.first_call(TIMEOUT).map_err(|error| error.to_string())?;
        for call in first..first.next_multiple_of(CALLS) {
            match call % CALLS {
                1 => self.member.barrier().wait(TIMEOUT).map_err(|error| format!("begin: {error}"))?,
                _ => self
                    .member
                    .gather_to_front("")
                    .wait(TIMEOUT)
                    .map_err(|error| format!("begin: {error}"))?,
            }
        }
        loop {
            match self.member.broadcast_from_front().wait(TIMEOUT) {
                Ok(order) if &*order == b"end" => break,
                Ok(order) => {
                    let order = String::from_utf8_lossy(&order);
                    println!("{order}");
                    self.member.barrier().wait(TIMEOUT).map_err(|error| format!("{order}: {error}"))?;
                    let answer = self.member.gather_to_front(format!("{}:{order}", self.rank));
                    // Where its part was handed over before the master was lost, it does not hear of that.
                    if let Err(error) = answer.wait(TIMEOUT) {
                        is_loss(&error)?;
                    }
                }
                Err(error) => {
                    is_loss(&error)?;
                    println!("no order");
                }
            }
        }
        println!("master: {}", self.member.master());
        // A master that ends is lost to others.
        self.member.barrier().wait(TIMEOUT).map_err(|error| format!("end: {error}"))?;
        self.member.drain(TIMEOUT).map_err(|error| error.to_string())
    }
}

fn is_loss(error: &CommError) -> Result<(), Wrong> {
    let CommError::PeerLost { .. } = error else { return Err(error.to_string()) };
    Ok(())
}
