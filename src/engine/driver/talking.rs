//! The communication half of a node: its group, calls of the program, frames.

use libi_comm::{Call, CallId, Effect, Event};
use libi_core::machine::Machine;

use super::Driver;
use crate::engine::Turn;

impl Driver {
    /// The program calls.
    pub(in crate::engine) fn call(&mut self, id: CallId, call: Call, turn: &mut Turn<'_>) {
        self.tell_group(Event::Call(id, call), turn);
    }

    /// The program does not wait for a call any more.
    pub(in crate::engine) fn cancel(&mut self, id: CallId, turn: &mut Turn<'_>) {
        self.tell_group(Event::Cancel(id), turn);
    }

    /// Hands an event to the group, and does what it wants.
    pub(super) fn tell_group(&mut self, event: Event, turn: &mut Turn<'_>) {
        let mut effects = Vec::new();
        self.group.on(event, turn.now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send(link, frame) => {
                    if let Some(port) = self.ports.get_mut(&link) {
                        port.queue_frame(frame);
                        self.unsent.insert(link);
                    }
                }
                // Nobody has memory to lend yet.
                Effect::Lend(..) => {}
                Effect::Finish(call, result) => turn.owner.finished(turn.id, call, result),
                Effect::Lost(ranks) => turn.owner.lost(turn.id, ranks),
            }
        }
    }
}
