//! The session of a keeper, apart from who has it: what is kept for the next front end.

use std::collections::VecDeque;

use libi_core::dist::layout::Layout;
use libi_core::ranks::Ranks;
use libi_launch::machine::Event as Input;
use libi_launch::options::CarriedOptions;

use super::NUMBER;
use crate::engine::session_io::SessionIo;
use crate::front::Event;
use crate::front::keeper::message::{KeptOutcome, Launch};
use crate::front::launching::Plan;
use crate::front::runtime::{FrontCommand, FrontShared};
use crate::front::session::SessionStatus;

/// How many bytes of output wait for the front end. With none, the oldest beyond it are dropped.
const MAX_OUTPUT: usize = 1 << 20;

/// See the [module](self).
pub(super) struct Kept {
    pub(super) launched: Layout,
    pub(super) options: CarriedOptions,
    /// Events that the front end has not taken. The first `sent` of them were sent to it.
    pub(super) events: VecDeque<Event>,
    pub(super) sent: usize,
    /// The bytes of output in them.
    output: usize,
    /// How many bytes of output were dropped since a front end was told last.
    pub(super) missed: u64,
    /// Whether the last event was taken by a front end; or one has ended the session, or has left in order
    /// when it was over.
    is_done: bool,
    pub(super) is_ended: bool,
    /// Whether all members have ended, and all of their output is here.
    pub(super) is_complete: bool,
    /// Whether what is left of it on its hosts was told to end.
    pub(super) is_wound_up: bool,
    /// Messages of the master for the next calls that receive one with this tag.
    pub(super) messages: VecDeque<KeptMessage>,
}

/// A message that was received for a front end that is gone, and has not arrived there.
pub(super) struct KeptMessage {
    pub(super) tag: u32,
    pub(super) outcome: KeptOutcome,
    pub(super) missing: Ranks,
}

impl Kept {
    /// The session that is to be launched, its engine, and what is known of it.
    pub(super) fn new(launch: Launch) -> Result<(Self, SessionIo, SessionStatus), String> {
        let Launch { layout, programs, backend, reason, options } = launch;
        let carried = options.clone().of_a_launched_session();
        let options = options.into_options();
        let plan = Plan {
            layout: &layout,
            programs: &programs,
            backend: &backend,
            reason: &reason,
            options: &options,
        };
        // The thread that starts processes is the only one.
        let (session_io, status) = plan.prepare(true).map_err(|why| why.to_string())?;
        let (events, messages) = Default::default();
        let kept = Self {
            launched: layout,
            options: carried,
            events,
            sent: 0,
            output: 0,
            missed: 0,
            is_done: false,
            is_ended: false,
            is_complete: false,
            is_wound_up: false,
            messages,
        };
        Ok((kept, session_io, status))
    }

    /// Takes the events of the session: those that wait here exert backpressure while there is a front end,
    /// which would take them.
    pub(super) fn take_events(
        &mut self,
        is_attached: bool,
        shared: &FrontShared,
        commands: &mut VecDeque<FrontCommand>,
    ) {
        let mut locked = shared.lock();
        while !is_attached || self.output < MAX_OUTPUT {
            let Some((_, event)) = locked.state.events.pop_front() else { break };
            let output = output_of(&event);
            if output > 0 {
                commands.push_back(FrontCommand::Tell(NUMBER, Input::Consumed(output as u32)));
            }
            self.output += output;
            self.is_complete |= matches!(event, Event::Done { .. });
            self.events.push_back(event);
        }
        locked.state.announce();
        drop(locked);
        if !is_attached && self.output > MAX_OUTPUT {
            self.drop_output();
        }
    }

    fn drop_output(&mut self) {
        let (output, missed) = (&mut self.output, &mut self.missed);
        self.events.retain(|event| {
            let length = output_of(event);
            let is_dropped = length > 0 && *output > MAX_OUTPUT;
            if is_dropped {
                *output -= length;
                *missed += length as u64;
            }
            !is_dropped
        });
    }

    /// The front end has taken the first event.
    pub(super) fn took(&mut self) {
        if self.sent == 0 {
            return;
        }
        self.sent -= 1;
        if let Some(event) = self.events.pop_front() {
            self.output -= output_of(&event);
            self.is_done |= matches!(event, Event::Done { .. });
        }
    }

    /// Whether a front end knows how the session has ended.
    pub(super) fn is_told(&self) -> bool {
        self.is_ended || self.is_done && self.events.is_empty()
    }

    /// Takes the next kept message with this tag.
    pub(super) fn message(&mut self, tag: u32) -> Option<KeptMessage> {
        let at = self.messages.iter().position(|message| message.tag == tag)?;
        self.messages.remove(at)
    }
}

/// How many bytes of output an event has.
fn output_of(event: &Event) -> usize {
    match event {
        Event::Output { bytes, .. } | Event::Folded { bytes, .. } | Event::CommandOutput { bytes, .. } => {
            bytes.len()
        }
        _ => 0,
    }
}
