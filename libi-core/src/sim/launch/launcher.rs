//! The state machine of simulated launches: a host that is up and launches others.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ids::HostIndex;
use crate::machine::Machine;
use crate::plan::late::{Attempt, Launch, Next, Queue, Retry, Share};
use crate::time::Instant;

/// The hosts that a launcher is responsible for.
pub(super) enum Assignment {
    Late(Box<Queue>),
    /// The children of its node in a static tree, in reverse order.
    Static(Vec<HostIndex>),
}

/// A host that is up and has hosts to launch.
pub(super) struct SimLauncher {
    work: Assignment,
    /// When the launch that occupies it was started.
    busy: Option<Instant>,
    in_flight: u32,
    /// How many may be in flight.
    most: u32,
    retries: u16,
}

/// The inputs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// It can start launching.
    Begin,
    /// The launch that occupied it has passed its SEQ.
    Free,
    /// A launched host says hello.
    Answered(Launch),
    /// The launch of a host has failed.
    Failed(Launch),
    /// The requested wake-up time has come.
    Woken,
}

/// The outputs.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// Launch this host.
    Launch(Launch),
    /// A host is up; under late commit, with its share of the queue.
    Up(HostIndex, Option<Share>),
    /// This host will not be launched again.
    GiveUp(HostIndex),
    /// Wake the launcher at this time.
    WakeAt(Instant),
    /// Every host is up, given away or given up: no event will follow.
    Done,
}

impl Machine for SimLauncher {
    type Event = Event;
    type Effect = Effect;

    fn on(&mut self, event: Event, now: Instant, effects: &mut Vec<Effect>) {
        match event {
            Event::Begin | Event::Woken => {}
            Event::Free => self.free(now),
            Event::Answered(launch) => self.answered(launch, now, effects),
            Event::Failed(launch) => self.failed(launch, now, effects),
        }
        if self.busy.is_none() && self.in_flight < self.most {
            self.launch(now, effects);
        }
    }
}

impl SimLauncher {
    pub(super) fn new(work: Assignment, retries: u16) -> Self {
        Self { work, busy: None, in_flight: 0, most: u32::MAX, retries }
    }

    /// Limits the launches that it may have in flight.
    pub(super) fn limit(&mut self, most: u32) {
        self.most = most;
        if let Assignment::Late(queue) = &mut self.work {
            queue.set_window(most as usize);
        }
    }

    fn free(&mut self, now: Instant) {
        if let (Some(since), Assignment::Late(queue)) = (self.busy.take(), &mut self.work) {
            queue.observe_seq(now.since(since));
        }
    }

    fn answered(&mut self, launch: Launch, now: Instant, effects: &mut Vec<Effect>) {
        let share = match &mut self.work {
            Assignment::Static(_) => None,
            Assignment::Late(queue) => match queue.child_ready(launch, now) {
                Ok(share) => Some(share),
                Err(_) => return, // given up already
            },
        };
        self.in_flight -= 1;
        effects.push(Effect::Up(launch.host, share));
    }

    fn failed(&mut self, launch: Launch, now: Instant, effects: &mut Vec<Effect>) {
        let mut retry = Retry::Never;
        if let Assignment::Late(queue) = &mut self.work {
            if launch.attempt.failed < self.retries {
                retry = Retry::After(Duration::ZERO);
            }
            if queue.child_failed(launch, now, retry).is_err() {
                return; // answered already
            }
        }
        self.in_flight -= 1;
        if retry == Retry::Never {
            effects.push(Effect::GiveUp(launch.host));
        }
    }

    fn launch(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let next = match &mut self.work {
            Assignment::Late(queue) => queue.next(now),
            Assignment::Static(children) => {
                let first = |host| Next::Launch(Launch { host, attempt: Attempt::default() });
                children.pop().map_or(Next::Idle, first)
            }
        };
        match next {
            Next::Launch(launch) => {
                self.busy = Some(now);
                self.in_flight += 1;
                effects.push(Effect::Launch(launch));
            }
            Next::WaitUntil(at) => effects.push(Effect::WakeAt(at)),
            Next::Idle if self.in_flight == 0 => effects.push(Effect::Done),
            Next::Idle => {}
        }
    }
}
