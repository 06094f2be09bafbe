//! Discrete events in virtual time: whole launches in one process, from a seed.
//!
//! # How it works
//! A [`Sim`] holds machines ([`Machine`]), an [`Agenda`] of what is going to happen to them, and a
//! [`World`]. It takes the earliest entry from the agenda, hands it to its machine together with the time,
//! and gives every effect that the machine wants to the world, which enters the consequences in the agenda. Time
//! is what the agenda says; nothing waits. Entries for the same instant happen in the order in which
//! they were entered, and all randomness comes from an [`rng::Rng`] in the world, so a run is a function of
//! its seed.
//!
//! # What runs in it
//! [`launch`] simulates launches: its machines are launchers around a [late-commit
//! queue](crate::plan::late::Queue) or a static tree, its world draws the costs and decides who is
//! slow or dead.
//!
//! # How further machines are put into it
//! Nothing here knows about launching. To run a protocol machine under the simulator:
//!
//! 1. implement [`Machine`] for it, which is all that the runtime loop asks for as well. The same value runs in
//!    both; there is no version of it for the simulator. Machines of several kinds that have to meet (a
//!    leader's launch half and its communication half, a front end) become one enum;
//! 2. write a [`World`] that carries out its effects: *send these bytes on that link* becomes an entry for
//!    the machine at the other end after a drawn delay, *start this command* becomes a machine
//!    [started](Agenda::start) later or an exit status reported, *wake me at* becomes an entry for itself;
//! 3. let faults be the world's own [`World::WorldEvent`]s, drawn from the seed and entered in the agenda:
//!    a process [ends](Agenda::end) (whatever is still to happen to it is dropped with it), a link is cut
//!    (entries are delivered or not by what the world knows of the link), a host gets slow, garbage arrives;
//! 4. check the invariants in the world or after [`Sim::run`], which ends by itself when nothing is left to
//!    happen, and says so when it had to be stopped: a protocol that waits for ever shows as a machine that is not
//!    finished in a quiet simulation, one that spins as [`StopReason::StepLimit`].

pub mod jitter;
pub mod launch;
pub mod rng;

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::machine::Machine;
use crate::time::Instant;

/// What carries out the effects of machines.
pub trait World: Sized {
    /// The machines that live in it.
    type Machine: Machine;
    /// What happens to the world itself rather than to a machine.
    type WorldEvent;

    /// Carries out what a machine wants, by entering the consequences in the agenda.
    fn carry_out(
        &mut self,
        from: MachineId,
        effect: <Self::Machine as Machine>::Effect,
        agenda: &mut Agenda<Self>,
    );

    /// Something that was entered for the world happens.
    fn on_world_event(&mut self, what: Self::WorldEvent, agenda: &mut Agenda<Self>);
}

/// A machine in a simulation. Numbers are given in the order in which machines start, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u32);

/// What is going to happen, and to whom.
pub struct Agenda<W: World> {
    now: Instant,
    entered: u64,
    entries: BinaryHeap<Scheduled<W>>,
    machines: Vec<Option<W::Machine>>,
}

impl<W: World> Agenda<W> {
    /// What time it is.
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

    /// Ends a machine: it is dropped, and with it whatever was still to happen to it.
    pub fn end(&mut self, node: MachineId) -> Option<W::Machine> {
        self.machines.get_mut(node.0 as usize)?.take()
    }

    /// The machine, unless it has ended.
    #[must_use]
    pub fn machine(&self, node: MachineId) -> Option<&W::Machine> {
        self.machines.get(node.0 as usize)?.as_ref()
    }

    /// Enters an event for a machine; the past is taken for now.
    pub fn tell(&mut self, at: Instant, node: MachineId, event: <W::Machine as Machine>::Event) {
        self.enter(at, Occurrence::Event(node, event));
    }

    /// Enters a happening for the world; the past is taken for now.
    pub fn plan(&mut self, at: Instant, happening: W::WorldEvent) {
        self.enter(at, Occurrence::WorldEvent(happening));
    }

    fn enter(&mut self, at: Instant, what: Occurrence<W>) {
        self.entered += 1;
        self.entries.push(Scheduled { at: at.max(self.now), nth: self.entered, what });
    }
}

enum Occurrence<W: World> {
    Event(MachineId, <W::Machine as Machine>::Event),
    WorldEvent(W::WorldEvent),
}

struct Scheduled<W: World> {
    at: Instant,
    nth: u64,
    what: Occurrence<W>,
}

impl<W: World> Ord for Scheduled<W> {
    /// The heap gives its greatest: that has to be the earliest, and of those the one entered first.
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
    /// Nothing is left to happen.
    Quiescent,
    /// The next entry lies beyond the time allowed.
    TimeLimit,
    /// More happened than was allowed: something spins.
    StepLimit,
}

/// A simulation: machines, a world, and what is going to happen.
pub struct Sim<W: World> {
    /// What carries out the machines' effects.
    pub world: W,
    /// Who is there, and what is going to happen to them.
    pub agenda: Agenda<W>,
}

impl<W: World> Sim<W> {
    /// A simulation of this world in which nobody is there and nothing is going to happen yet.
    #[must_use]
    pub fn new(world: W) -> Self {
        let agenda =
            Agenda { now: Instant::ZERO, entered: 0, entries: BinaryHeap::new(), machines: Vec::new() };
        Self { world, agenda }
    }

    /// Lets everything happen that is entered for times up to `until`, but no more than `steps` entries.
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
        match what {
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
