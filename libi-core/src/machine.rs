//! The interface of every protocol state machine of libi.
//!
//! A machine decides and performs no I/O. Whatever happens (a frame arrives, a process ends, a
//! deadline passes) is an event, passed in together with the time at which it happened. Whatever
//! the machine wants done (send, start, kill, set a timer) is an effect, appended to a list. The
//! runtime loop carries effects out with sockets and processes and reads a clock; the
//! [simulator](crate::sim) carries them out in memory and in virtual time. A machine cannot tell
//! the two apart, so a run in the simulator is evidence for a run in the field.

use alloc::vec::Vec;

use crate::time::Instant;

/// A protocol state machine: events and the time in, effects out.
pub trait Machine {
    /// The inputs.
    type Event;
    /// The outputs.
    type Effect;

    /// Handles one event that happened at `now` and appends the resulting effects.
    ///
    /// `now` never decreases between calls. Effects are to be carried out in their order.
    fn on(&mut self, event: Self::Event, now: Instant, effects: &mut Vec<Self::Effect>);
}
