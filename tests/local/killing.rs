//! Processes are killed at random moments: nothing is left, or the survivors are notified and end
//! with the front end.
//!
//! `LIBI_KILLS` is the number of moments for each victim (10 by default), `LIBI_SEED` their seed.

use std::time::{Duration, Instant};

use libi::Engine;
use libi_core::sim::rng::Rng;

use libi_testkit::kills::{moment, moments, pick, seeded};
use libi_testkit::local::*;
use libi_testkit::processes::is_engine;
use libi_testkit::roles::Front;

const HOSTS: &str = "a[1-64]";
const MEMBERS: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    FrontEnd,
    /// The process that leads the first host.
    FirstLeader,
    MiddleLeader,
    LeafLeader,
    /// A program that leads no host.
    Program,
}

#[test]
fn a_killed_front_end_leaves_nothing() {
    kill_at_random_moments(Victim::FrontEnd);
}

#[test]
fn a_killed_first_leader_is_noticed_and_nothing_is_left() {
    kill_at_random_moments(Victim::FirstLeader);
}

#[test]
fn a_killed_leader_of_leaders_is_noticed_and_nothing_is_left() {
    kill_at_random_moments(Victim::MiddleLeader);
}

#[test]
fn a_killed_leader_without_leaders_below_is_noticed_and_nothing_is_left() {
    kill_at_random_moments(Victim::LeafLeader);
}

#[test]
fn a_killed_program_is_noticed_and_nothing_is_left() {
    kill_at_random_moments(Victim::Program);
}

fn kill_at_random_moments(victim: Victim) {
    let mut random = seeded();
    for engine in [Engine::Apart, Engine::InProgram] {
        let lasts = launch_undisturbed(engine);
        for _ in 0..moments(10) {
            // From before anything is launched to a session that has been up for a while.
            let moment = moment(lasts, &mut random);
            println!("{engine:?}: {victim:?} is killed after {moment:?} of {lasts:?}");
            kill_after(engine, victim, moment, &mut random);
        }
    }
}

/// How long it takes until such a session is up.
fn launch_undisturbed(engine: Engine) -> Duration {
    let lab = Lab::new();
    let begun = Instant::now();
    let mut front = Front::start_with(engine, &lab, HOSTS, &["join", "wait"]);
    front.until("it is up", |front| front.has_said("up"));
    let lasts = begun.elapsed();
    assert_eq!(lab.programs(), MEMBERS);
    front.end();
    lab.is_empty_within(SOON);
    lasts
}

fn kill_after(engine: Engine, victim: Victim, moment: Duration, random: &mut Rng) {
    let lab = Lab::new();
    let begun = Instant::now();
    let mut front = Front::start_with(engine, &lab, HOSTS, &["join", "wait"]);
    while begun.elapsed() < moment {
        front.listen();
        std::thread::sleep(ms(1).min(moment.saturating_sub(begun.elapsed())));
    }
    if victim == Victim::FrontEnd {
        front.kill();
        lab.is_empty_within(SOON);
        return;
    }
    let pid = find(engine, victim, &lab, front.pid(), random);
    front.listen();
    let was_up = front.has_said("up");
    kill(pid, libc::SIGKILL);
    // A front end that waits for the session learns that it is up, or given up, or which members are
    // lost; and the number of members that are left matches.
    front.until("what is known is what there is", |front| {
        let (up, gone) = (front.has_said("up"), front.gone());
        let settled = front.has_said("given up") || up && (gone > 0 || !was_up);
        settled && lab.programs() == if up { MEMBERS - gone } else { 0 }
    });
    front.end();
    lab.is_empty_within(SOON);
}

/// A process of this kind, as soon as there is one.
fn find(engine: Engine, victim: Victim, lab: &Lab, front: i32, random: &mut Rng) -> i32 {
    let mut found = None;
    eventually("there is such a victim", || {
        let living = lab.living();
        // A process that is just being started still looks like its parent.
        let of = |fits: &dyn Fn(i32, &str) -> bool| {
            let of_kind = living.iter().filter(|(pid, env)| fits(*pid, env));
            of_kind.filter_map(|(pid, _)| Some((*pid, parent(*pid)?))).collect::<Vec<_>>()
        };
        let leads = |pid: i32, env: &str| match engine {
            Engine::Apart => is_engine(pid),
            _ => env.split('\0').any(|variable| variable == "KIND=leader"),
        };
        let leaders = of(&leads);
        let carries = |pid: i32| leaders.iter().any(|(_, parent)| *parent == pid);
        let is_first = |parent: i32| parent == front;
        let candidates: Vec<i32> = match victim {
            Victim::FrontEnd => vec![front],
            Victim::FirstLeader => {
                leaders.iter().filter(|(_, parent)| is_first(*parent)).map(|(pid, _)| *pid).collect()
            }
            Victim::MiddleLeader => {
                let below = leaders.iter().filter(|(_, parent)| !is_first(*parent));
                below.filter(|(pid, _)| carries(*pid)).map(|(pid, _)| *pid).collect()
            }
            Victim::LeafLeader => {
                leaders.iter().filter(|(pid, _)| !carries(*pid)).map(|(pid, _)| *pid).collect()
            }
            Victim::Program => of(&|pid, env| !leads(pid, env)).iter().map(|(pid, _)| *pid).collect(),
        };
        found = pick(&candidates, random);
        found.is_some()
    });
    found.unwrap()
}

#[test]
#[ignore = "the kernel kills only the members; nothing is left to kill their process groups"]
fn a_killed_front_end_leaves_nothing_of_what_members_have_started() {
    let lab = Lab::new();
    let mut front = Front::start(&lab, "a[1-4]", &["join", "spawn", "out:spawned", "wait"]);
    front.until("all have started something", |front| {
        front.said.iter().filter(|line| line.ends_with("] spawned")).count() == 8
    });
    assert_eq!(lab.programs(), 16);
    front.kill();
    lab.is_empty_within(SOON);
}
