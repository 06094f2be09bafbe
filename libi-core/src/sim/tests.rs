//! The simulator itself, with two machines that throw a ball to one another.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the ball a limited number of times.
struct Player {
    throws: u32,
}

impl Machine for Player {
    type Event = u32;
    type Effect = u32;

    fn on(&mut self, ball: u32, _: Instant, effects: &mut Vec<u32>) {
        if self.throws > 0 {
            self.throws -= 1;
            effects.push(ball + 1);
        }
    }
}

/// A world in which a ball flies for a second, and in which a player may be removed.
#[derive(Default)]
struct Court {
    thrown: Vec<(Instant, u32)>,
}

impl World for Court {
    type Machine = Player;
    type WorldEvent = MachineId;

    fn carry_out(&mut self, from: MachineId, ball: u32, agenda: &mut Agenda<Self>) {
        self.thrown.push((agenda.now(), ball));
        agenda.tell(agenda.now() + SECOND, MachineId(1 - from.0), ball);
    }

    fn on_world_event(&mut self, hurt: MachineId, agenda: &mut Agenda<Self>) {
        agenda.end(hurt);
    }
}

fn match_of(throws: u32) -> Sim<Court> {
    let mut sim = Sim::new(Court::default());
    let first = sim.agenda.start(Player { throws });
    sim.agenda.start(Player { throws });
    sim.agenda.tell(Instant::ZERO + SECOND, first, 0);
    sim
}

#[test]
fn a_run_ends_by_itself_when_nothing_is_left_to_happen() {
    let mut sim = match_of(2);
    assert_eq!(sim.run(Instant::FAR_FUTURE, 1_000), StopReason::Quiescent);
    let seconds: Vec<_> = sim.world.thrown.iter().map(|&(at, ball)| (at.as_secs_f64(), ball)).collect();
    assert_eq!(seconds, [(1.0, 1), (2.0, 2), (3.0, 3), (4.0, 4)]);
}

#[test]
fn a_run_that_spins_or_outlasts_its_time_is_stopped_and_says_so() {
    assert_eq!(match_of(u32::MAX).run(Instant::FAR_FUTURE, 1_000), StopReason::StepLimit);
    let mut sim = match_of(u32::MAX);
    assert_eq!(sim.run(Instant::ZERO + 10 * SECOND, 1_000), StopReason::TimeLimit);
    assert_eq!(sim.world.thrown.len(), 10);
    assert_eq!(sim.run(Instant::ZERO + 12 * SECOND, 1_000), StopReason::TimeLimit, "and can be resumed");
    assert_eq!(sim.world.thrown.len(), 12);
}

#[test]
fn what_was_to_happen_to_a_machine_is_dropped_when_it_ends() {
    let mut sim = match_of(u32::MAX);
    sim.agenda.plan(Instant::ZERO + 3 * SECOND + SECOND / 2, MachineId(1));
    assert_eq!(sim.run(Instant::FAR_FUTURE, 1_000), StopReason::Quiescent);
    assert_eq!(sim.world.thrown.len(), 3);
    assert!(sim.agenda.machine(MachineId(1)).is_none() && sim.agenda.machine(MachineId(0)).is_some());
}

/// Records its events in order.
#[derive(Default)]
struct Diary(Vec<u32>);

impl Machine for Diary {
    type Event = u32;
    type Effect = ();

    fn on(&mut self, event: u32, _: Instant, _: &mut Vec<()>) {
        self.0.push(event);
    }
}

struct Nowhere;

impl World for Nowhere {
    type Machine = Diary;
    type WorldEvent = ();

    fn carry_out(&mut self, _: MachineId, (): (), _: &mut Agenda<Self>) {}
    fn on_world_event(&mut self, (): (), _: &mut Agenda<Self>) {}
}

#[test]
fn what_falls_on_the_same_instant_happens_in_the_order_of_entry() {
    let mut sim = Sim::new(Nowhere);
    let node = sim.agenda.start(Diary::default());
    for (second, event) in [(2, 3), (1, 0), (2, 4), (1, 1), (1, 2)] {
        sim.agenda.tell(Instant::ZERO + second * SECOND, node, event);
    }
    sim.run(Instant::FAR_FUTURE, 10);
    assert_eq!(sim.agenda.end(node).unwrap().0, vec![0, 1, 2, 3, 4]);
}
