//! What every protocol machine of libi looks like from outside.
//!
//! A machine decides; it does nothing. Whatever happens (a frame came, a process ended, a deadline
//! passed) is an event, handed in together with the time at which it happened. Whatever the machine wants
//! done (send, start, kill, wake me at) is an effect, written to the list it is given. The runtime loop
//! carries effects out with sockets and processes and reads a clock; the [simulator](crate::sim) carries
//! them out in memory and makes the time up. Neither can be told apart from inside, which is why one
//! is evidence for the other.

use alloc::vec::Vec;

use crate::time::Instant;

/// A protocol machine: events and the time in, effects out, nothing else.
pub trait Machine {
    /// What can happen to it.
    type Event;
    /// What it can want done.
    type Effect;

    /// Takes one event that happened at `now` and appends what is to be done about it.
    ///
    /// `now` never goes backwards between calls. The order of effects is the order in which they are to
    /// be carried out.
    fn on(&mut self, event: Self::Event, now: Instant, effects: &mut Vec<Self::Effect>);
}
