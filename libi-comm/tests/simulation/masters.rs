//! Sessions in which another member is the master when that is lost: all give each call the same one.

use std::collections::BTreeMap;
use std::ops::Deref;

use libi_cases::Session;
use libi_cases::shape::Process;
use libi_comm::{Address, Effect, Event, Group};
use libi_core::ids::Rank;
use libi_core::machine::Machine;
use libi_core::sim::{MachineId as Id, Sim, rng::Rng};
use libi_core::time::Instant;

use crate::scenario::{Scenario, Victim};
use crate::world::Cluster;

/// A group, and what it said of the master of each call when its member made it.
#[derive(Debug)]
pub(crate) struct Watched {
    group: Group,
    masters: BTreeMap<u64, Rank>,
    /// The master, as its program was told.
    told: Rank,
}

impl Watched {
    pub(crate) const fn new(group: Group) -> Self {
        Self { group, masters: BTreeMap::new(), told: Rank(0) }
    }
}

impl Deref for Watched {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

impl Machine for Watched {
    type Event = Event;
    type Effect = Effect;

    fn on(&mut self, event: Event, now: Instant, out: &mut Vec<Effect>) {
        if matches!(&event, Event::Call(_, call) if call.is_collective())
            && let Some(master) = self.group.next_master(0)
        {
            self.masters.insert(self.group.next_call(), master);
        }
        let before = out.len();
        self.group.on(event, now, out);
        for effect in &out[before..] {
            if let Effect::Master(rank) = effect {
                self.told = *rank;
            }
        }
    }
}

/// The front end is the top, so that the session outlives the first host.
pub(crate) fn pass_through_front_end(processes: &mut [Process]) {
    for (at, process) in processes.iter_mut().enumerate() {
        process.topology.top = at == 0;
    }
}

/// All members that have made a call gave it the same master. Those that are left know of the same, which
/// is one of them.
pub(crate) fn are_agreed(sim: &Sim<Cluster>) -> Result<(), String> {
    let world = &sim.world;
    let mut of_calls: BTreeMap<u64, (Rank, Address)> = BTreeMap::new();
    let mut last: Option<Rank> = None;
    for (id, member) in (0..).map(Id).zip(&world.members) {
        let (Some(watched), Some(who)) = (sim.agenda.machine(id), member.process.address) else { continue };
        for (nth, master) in &watched.masters {
            let (other, by) = *of_calls.entry(*nth).or_insert((*master, who));
            if other != *master {
                return Err(format!("the master of call {nth} is {master} for {who}, and {other} for {by}"));
            }
        }
        if member.lost.is_some() || watched.next_master(0).is_none() {
            continue;
        }
        let told = watched.told;
        if last.is_some_and(|last| last != told) {
            return Err(format!("the master is {told} for {who}, and {last:?} for others"));
        }
        last = Some(told);
    }
    let Some(master) = last else { return Ok(()) };
    let is_left = |rank: Rank| world.processes_of(rank).any(|member| member.lost.is_none());
    let front_end = world.members.first().is_some_and(|front| front.lost.is_none());
    let others = world.session.present.iter().any(|rank| is_left(*rank));
    if world.scenario.completion.replaces_master && front_end && others && !is_left(master) {
        return Err(format!("{master} is lost, and the master"));
    }
    Ok(())
}

impl Scenario {
    /// A session whose lowest ranks die, one after the other, while hosts find other parents, members are
    /// restarted, and new hosts come.
    pub(crate) fn replacing(seed: u64) -> (Session, Self) {
        let mut rng = Rng::new(seed).fork(31);
        let (session, mut scenario) = match rng.below(4) {
            0 => Self::recovering(seed),
            1 => Self::restarting(seed),
            2 => Self::growing(seed),
            _ => Self::drawn_and_recovering(seed),
        };
        scenario.completion.replaces_master = true;
        let duration = scenario.duration(&session).as_micros() as u64;
        for rank in session.present.iter().take(1 + rng.below(4) as usize) {
            let after = std::time::Duration::from_micros(rng.below(duration.max(1)));
            let victim = Address::Rank(*rank);
            let is_agent = session.shape.agents && rng.chance(0.4);
            let victim = if is_agent { Victim::AgentOf(victim) } else { Victim::Process(victim) };
            scenario.kills.push((after, victim));
        }
        (session, scenario)
    }
}
