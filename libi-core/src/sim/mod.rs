//! Discrete-event simulation in virtual time: whole launches in one process, from a seed.
//!
//! # How it works
//! A [`Sim`] holds state machines ([`Machine`]), an [`Agenda`] of future events, and a [`World`].
//! It takes the earliest entry from the agenda, passes it to its machine together with the time,
//! and hands every resulting effect to the world, which enters the consequences in the agenda.
//! Virtual time jumps from entry to entry; nothing waits. Entries for the same instant are
//! processed in the order in which they were entered, and all randomness comes from an [`rng::Rng`]
//! in the world, so a run is a function of its seed.
//!
//! # What runs in it
//! [`launch`] simulates launches: its state machines are launchers around a [late-commit
//! queue](crate::plan::late::Queue) or a static tree; its world draws the costs and decides which
//! hosts are slow or dead.
//!
//! # How to simulate another state machine
//! This module knows nothing about launching. To run a protocol machine under the simulator:
//!
//! 1. implement [`Machine`] for it, which the runtime loop requires as well. The same value runs in
//!    both; there is no simulator version of it. Machines of several kinds that have to meet (a
//!    leader's launch half and its communication half, a front end) become one enum;
//! 2. write a [`World`] that carries out its effects: *send these bytes on that link* becomes an
//!    entry for the machine at the other end after a drawn delay, *start this command* becomes a
//!    machine [started](Agenda::start) later or a reported exit status, *wake me at* becomes an
//!    entry for the machine itself;
//! 3. make faults the world's own [`World::WorldEvent`]s, drawn from the seed and entered in the
//!    agenda: a process [ends](Agenda::end) (its pending events are dropped with it), a link is cut
//!    (entries are delivered or not, depending on the world's state of the link), a host becomes
//!    slow, garbage arrives;
//! 4. check the invariants in the world or after [`Sim::run`], which returns when the agenda is
//!    empty, and says so when it had to stop early. A protocol that waits for ever shows as an
//!    unfinished machine in a quiescent simulation, one that spins as [`StopReason::StepLimit`].

pub mod jitter;
pub mod launch;
pub mod rng;

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::machine::Machine;
use crate::time::Instant;

/// Carries out the effects of state machines.
pub trait World: Sized {
    /// The simulated state machines.
    type Machine: Machine;
    /// An event of the world itself rather than of a machine.
    type WorldEvent;

    /// Carries out an effect of a machine, by entering the consequences in the agenda.
    fn carry_out(
        &mut self,
        from: MachineId,
        effect: <Self::Machine as Machine>::Effect,
        agenda: &mut Agenda<Self>,
    );

    /// An event of the world happens.
    fn on_world_event(&mut self, what: Self::WorldEvent, agenda: &mut Agenda<Self>);
}

/// Identifies a machine in a simulation. Machines are numbered in the order of their start, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u32);

/// The future events of machines and world.
pub struct Agenda<W: World> {
    now: Instant,
    entered: u64,
    entries: BinaryHeap<Scheduled<W>>,
    machines: Vec<Option<W::Machine>>,
}

impl<W: World> Agenda<W> {
    /// The present virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Starts a machine.
    pub fn start(&mut self, machine: W::Machine) -> MachineId {
        let node = MachineId(u32::try_from(self.machines.len()).unwrap_or(u32::MAX));
        self.machines.push(Some(machine));
        node
    }

    /// Ends a machine and returns it. Its pending events are dropped.
    pub fn end(&mut self, node: MachineId) -> Option<W::Machine> {
        self.machines.get_mut(node.0 as usize)?.take()
    }

    /// The machine, unless it has ended.
    #[must_use]
    pub fn machine(&self, node: MachineId) -> Option<&W::Machine> {
        self.machines.get(node.0 as usize)?.as_ref()
    }

    /// Enters an event for a machine; a time in the past counts as now.
    pub fn tell(&mut self, at: Instant, node: MachineId, event: <W::Machine as Machine>::Event) {
        self.enter(at, Occurrence::Event(node, event));
    }

    /// Enters an event for the world; a time in the past counts as now.
    pub fn plan(&mut self, at: Instant, happening: W::WorldEvent) {
        self.enter(at, Occurrence::WorldEvent(happening));
    }

    fn enter(&mut self, at: Instant, what: Occurrence<W>) {
        self.entered += 1;
        self.entries.push(Scheduled { at: at.max(self.now), nth: self.entered, what: Box::new(what) });
    }
}

enum Occurrence<W: World> {
    Event(MachineId, <W::Machine as Machine>::Event),
    WorldEvent(W::WorldEvent),
}

struct Scheduled<W: World> {
    at: Instant,
    nth: u64,
    /// On the heap: the agenda moves its entries about, and an occurrence may be large.
    what: Box<Occurrence<W>>,
}

impl<W: World> Ord for Scheduled<W> {
    /// The heap yields its greatest element, which has to be the earliest entry, and of those at
    /// one instant the first entered.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.nth).cmp(&(self.at, self.nth))
    }
}

impl<W: World> PartialOrd for Scheduled<W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W: World> PartialEq for Scheduled<W> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<W: World> Eq for Scheduled<W> {}

/// Why a simulation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The agenda is empty.
    Quiescent,
    /// The next entry lies beyond the time limit.
    TimeLimit,
    /// The step limit was reached: a machine spins.
    StepLimit,
}

/// A simulation: state machines, a world, and their future events.
pub struct Sim<W: World> {
    /// The world.
    pub world: W,
    /// The state machines and the future events.
    pub agenda: Agenda<W>,
}

impl<W: World> Sim<W> {
    /// A simulation of this world without machines or events.
    #[must_use]
    pub fn new(world: W) -> Self {
        let agenda =
            Agenda { now: Instant::ZERO, entered: 0, entries: BinaryHeap::new(), machines: Vec::new() };
        Self { world, agenda }
    }

    /// Processes the entries for times up to `until`, but at most `steps` of them.
    pub fn run(&mut self, until: Instant, steps: u64) -> StopReason {
        let mut effects = Vec::new();
        for _ in 0..steps {
            match self.agenda.entries.peek() {
                None => return StopReason::Quiescent,
                Some(entry) if entry.at > until => return StopReason::TimeLimit,
                Some(_) => self.step(&mut effects),
            }
        }
        if self.agenda.entries.is_empty() { StopReason::Quiescent } else { StopReason::StepLimit }
    }

    fn step(&mut self, effects: &mut Vec<<W::Machine as Machine>::Effect>) {
        let Some(Scheduled { at, what, .. }) = self.agenda.entries.pop() else { return };
        self.agenda.now = at;
        match *what {
            Occurrence::WorldEvent(happening) => self.world.on_world_event(happening, &mut self.agenda),
            Occurrence::Event(node, event) => {
                let Some(Some(machine)) = self.agenda.machines.get_mut(node.0 as usize) else { return };
                machine.on(event, at, effects);
                for effect in effects.drain(..) {
                    self.world.carry_out(node, effect, &mut self.agenda);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
