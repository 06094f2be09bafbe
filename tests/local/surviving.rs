//! Programs and whole hosts are killed at random moments of calls that go on without them: the members
//! that are left agree on every call, and nothing else is lost than what was killed and what hung on it.
//!
//! `LIBI_KILLS` is the number of sessions (5 by default), `LIBI_SEED` their seed.

use std::collections::BTreeSet;
use std::time::Instant;

use libi::{Engine, Exit, FrontEnd, LaunchOptions, OnLoss, Shape, Strategy, Stream};

use libi_testkit::kills::{moment, moments, pick, seeded};
use libi_testkit::local::*;
use libi_testkit::processes::is_engine;

const HOSTS: &str = "a[1-16]:2";
const MEMBERS: u32 = 32;

/// Launches members that make calls.
fn play(front: &FrontEnd, lab: &Lab, seed: u64) -> libi::Session {
    // None of them kills itself.
    let calls = format!("talk:survive:120:{}:9999", seed % 1_000_000);
    let members = lab.members(HOSTS, &["join", &calls, "finish:30000"]);
    let options = LaunchOptions::local().engine(Engine::Apart).on_loss(OnLoss::Continue);
    launch_with(front, &[members], &options)
}

#[test]
fn members_agree_on_every_call_whatever_is_killed() {
    let mut random = seeded();
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let begun = Instant::now();
    let session = play(&front, &lab, 0);
    let mut heard = Heard::all(&front);
    let lasts = begun.elapsed();
    assert!((0..MEMBERS).all(|rank| heard.exits.remove(&rank) == Some(Exit::Code(0))), "{heard:?}");
    drop(session);
    for nth in 0..moments(5) {
        let session = play(&front, &lab, nth);
        let (begun, mut killed) = (Instant::now(), 0);
        let mut when: Vec<_> = (0..1 + nth % 4).map(|_| moment(lasts, &mut random).mul_f64(0.6)).collect();
        when.sort_unstable();
        let mut heard = Heard::default();
        for moment in when {
            while let Some(left) = moment.checked_sub(begun.elapsed()) {
                front.next_event(left).into_iter().for_each(|event| heard.note(event));
            }
            killed += u32::from(kill_one(&lab, &mut random));
        }
        heard.until(&front, "all have ended", |heard| heard.done);
        println!("{killed} killed of session {nth}: {}", heard.described());
        agree(&heard);
        drop(session);
        lab.is_empty_within(SOON);
    }
}

/// All hosts are this machine, and links are the sockets with which processes are started: a helper is a
/// process like any other.
#[test]
fn hosts_of_this_machine_outlive_the_one_that_has_started_them() {
    const HOSTS: u32 = 5;
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members =
        lab.members(&format!("a[1-{HOSTS}]"), &["join", "talk:survive:1000:7:9999", "finish:30000"]);
    let options = LaunchOptions::local().engine(Engine::Apart).on_loss(OnLoss::Continue);
    let session = launch_with(&front, &[members], &options.strategy(Strategy::Static(Shape::Chain)));
    let mut heard = Heard::default();
    let all_call = |heard: &Heard| (0..HOSTS).all(|rank| heard.text(rank, Stream::Out).contains('\n'));
    heard.until(&front, "all make calls", all_call);
    let mut leaders: Vec<_> =
        lab.living().into_iter().map(|(pid, _)| pid).filter(|pid| is_engine(*pid)).collect();
    leaders.sort_unstable(); // in a chain they are started one after the other
    kill(leaders[2], libc::SIGKILL);
    heard.until(&front, "all have ended", |heard| heard.done);
    assert_eq!(heard.lost.keys().map(|host| host.0).collect::<Vec<_>>(), [2], "{}", heard.described());
    for rank in [0, 1, 3, 4] {
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {}", heard.described());
        assert_eq!(heard.text(rank, Stream::Out), heard.text(0, Stream::Out), "rank {rank}");
    }
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_session_may_end_by_a_loss_or_not_as_was_chosen_last() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members = lab.members("a[1-2]:2", &["join", "out:up", "wait"]);
    let options = LaunchOptions::local().engine(Engine::Apart).on_loss(OnLoss::Continue);
    let session = launch_with(&front, &[members], &options);
    let mut heard = Heard::default();
    let is_up = |heard: &Heard| (0..4).all(|rank| heard.text(rank, Stream::Out) == "up\n");
    heard.until(&front, "all are up", is_up);
    let refused = session.set_on_loss(OnLoss::Fail);
    assert!(matches!(refused, Err(libi::Error::OnLossFixed(OnLoss::Fail))), "{refused:?}");
    session.set_on_loss(OnLoss::End).unwrap();
    session.set_on_loss(OnLoss::Continue).unwrap();
    let mut random = seeded();
    let mut kill_program = || {
        let programs: Vec<_> =
            lab.living().into_iter().map(|(pid, _)| pid).filter(|pid| !is_engine(*pid)).collect();
        let victim = pick(&programs, &mut random).expect("members live");
        kill(victim, libc::SIGKILL);
    };
    kill_program();
    heard.until(&front, "a member is lost", |heard| heard.exits.len() == 1);
    assert_eq!(session.stage(), libi::Stage::Up, "it goes on");
    session.set_on_loss(OnLoss::End).unwrap();
    kill_program();
    heard.until(&front, "the session has ended", |heard| heard.done);
    assert_eq!(heard.exits.len(), 4, "{}", heard.described());
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_member_that_drains_and_ends_is_missing_in_no_call_that_it_has_completed() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    for _ in 0..3 {
        let members = lab.members("a[1-4]:2", &["join", "talk:leave:1000"]);
        let options = LaunchOptions::local().engine(Engine::Apart).on_loss(OnLoss::Continue);
        let session = launch_with(&front, &[members], &options);
        let heard = Heard::all(&front);
        for rank in 0..8 {
            let why = heard.text(rank, Stream::Err);
            assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {why}");
        }
        drop(session);
    }
}

/// Kills a program, or the process that leads a host other than the first, and so the host.
fn kill_one(lab: &Lab, random: &mut libi_core::sim::rng::Rng) -> bool {
    let me = std::process::id() as i32;
    let (engines, programs): (Vec<_>, Vec<_>) =
        lab.living().into_iter().map(|(pid, _)| pid).partition(|pid| is_engine(*pid));
    let engines: Vec<_> = engines.into_iter().filter(|pid| parent(*pid) != Some(me)).collect();
    let victim = pick(if random.chance(0.5) { &engines } else { &programs }, random);
    victim.inspect(|pid| kill(*pid, libc::SIGKILL)).is_some()
}

/// What the members that have ended well have printed of each call is the same.
fn agree(heard: &Heard) {
    let lost: BTreeSet<_> =
        (0..MEMBERS).filter(|rank| heard.exits.get(rank) != Some(&Exit::Code(0))).collect();
    let killed = |rank: &u32| heard.exits.get(rank).is_none_or(|exit| *exit == Exit::Signal(libc::SIGKILL));
    for rank in &lost {
        assert!(killed(rank), "rank {rank}: {:?}, {}", heard.exits.get(rank), heard.text(*rank, Stream::Err));
    }
    let left: Vec<_> = (0..MEMBERS).filter(|rank| !lost.contains(rank)).collect();
    let first = heard.text(left[0], Stream::Out);
    assert!(first.lines().count() > 60, "{first}");
    for rank in left {
        assert_eq!(heard.text(rank, Stream::Out), first, "rank {rank}");
    }
}
