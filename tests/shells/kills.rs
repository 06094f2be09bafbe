//! SIGKILL at random moments, of the launch and after it: of the front end, of shells, of leaders.
//! Nothing that has lost its place stays behind.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libi::{Cause, Engine, FrontEnd};
use libi_core::sim::rng::Rng;

use crate::scene::{MARK, Outcome, Process, Scene, What, members, options};
use libi_testkit::kills::seeded;
use libi_testkit::shell::eventually;

const HOSTS: usize = 24;
const LIST: &str = "n[00-23]:2";
const MOMENTS: u64 = 10;
const ROLE: &str = "LIBI_TEST_ROLE";
const UP: &str = "up";

/// Inherited streams, and streams that pass through the shells.
const MODES: [&str; 2] = ["seq 1ms\nrem 10ms", "seq 1ms\nrem 10ms\nfault * relay"];

/// When something is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// When so many hosts have been called.
    CallSignature(usize),
    /// When the session is up.
    Up,
}

impl Moment {
    fn draw(rng: &mut Rng) -> Self {
        if rng.chance(0.3) { Self::Up } else { Self::CallSignature(1 + rng.below(HOSTS as u64) as usize) }
    }
}

/// Plays ten moments in both modes; which ones they are depends on the seed alone.
fn play_moments(purpose: u64, play: impl Fn(&str, Moment, &mut Rng) + Sync) {
    let rng = seeded();
    for (mode, config) in MODES.iter().enumerate() {
        for moment in 0..MOMENTS {
            let mut rng = rng.fork(purpose * 1_000 + mode as u64 * 100 + moment);
            let when = Moment::draw(&mut rng);
            println!("{config:?}, {when:?}");
            play(config, when, &mut rng);
        }
    }
}

/// A front end in a process of its own; it does not survive the test.
struct Front(Child);

impl Front {
    fn start(scene: &Scene) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
            "kills::plays_the_front_end",
        ]);
        command.env(ROLE, &scene.lab.0).env(MARK, &scene.mark);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "is played for other tests, in a process of its own"]
fn plays_the_front_end() {
    let (Some(lab), Ok(mark)) = (std::env::var_os(ROLE), std::env::var(MARK)) else { return };
    let front = FrontEnd::new().unwrap();
    let lab = Path::new(&lab);
    let session = front.start(&members(LIST, &["join", "wait"]), &options(lab, &mark)).unwrap();
    session.wait_up(Duration::from_secs(25)).unwrap();
    std::fs::write(lab.join(UP), "").unwrap();
    while front.next_event(Duration::from_secs(60)).is_some() {}
}

#[test]
fn nothing_survives_a_front_end_that_is_killed() {
    play_moments(1, |config, when, _| {
        let scene = Scene::new(config);
        let front = Front::start(&scene);
        match when {
            Moment::CallSignature(count) => scene.called(count),
            Moment::Up => eventually("the session is up", || scene.lab.has(UP)),
        }
        assert!(!scene.processes().is_empty(), "there is something that could be left");
        drop(front);
        scene.nothing_is_left();
    });
}

/// Kills a process of this kind at this moment. The launch ends with a report all the same, what
/// hung on the process is gone soon, and the rest with the session.
fn kill_one(what: What, config: &str, when: Moment, rng: &mut Rng) {
    let scene = Scene::new(config);
    let front = FrontEnd::new().unwrap();
    let engine = if rng.chance(0.5) { Engine::Apart } else { Engine::InProgram };
    let options = scene.options().engine(engine);
    let session = front.start(&members(LIST, &["join", "wait"]), &options).unwrap();
    match when {
        Moment::CallSignature(count) => scene.called(count),
        Moment::Up => drop(session.wait_up(Duration::from_secs(25)).unwrap()),
    }
    let mut victims = Vec::new();
    eventually("there is a process to kill", || {
        victims = scene.processes().into_iter().filter(|process| process.what == what).collect();
        !victims.is_empty()
    });
    let victim: Process = victims.swap_remove(rng.below(victims.len() as u64) as usize);
    println!("  {engine:?}: {victim:?}");
    victim.kill();
    let report = match session.wait_up(Duration::from_secs(25)) {
        Ok(report) | Err(libi::Error::NotLaunched(report)) => report,
        Err(error) => panic!("no report: {error}"),
    };
    let mut outcome = Outcome::new(report);
    let report = &outcome.report;
    if report.is_up() {
        assert!(report.failed().count() <= 1, "one was killed: {report}");
    } else {
        let cause = report.hosts()[0].failure.as_ref().map(|failure| &failure.cause);
        assert!(cause.is_some_and(|cause| *cause != Cause::Cancelled), "the master was killed: {report}");
    }
    if matches!(when, Moment::Up) {
        // The killed host has ended or is lost, and so are those below it; all others are still up.
        eventually("the loss is noticed", || {
            while let Some(event) = front.next_event(Duration::from_millis(10)) {
                outcome.note(event);
            }
            !outcome.lost.is_empty() || outcome.done
        });
        scene.gone_soon("on hosts that are lost", |process| {
            process.what != What::Shell && outcome.lost.contains_key(&process.host)
        });
        let hosts = outcome.report.hosts().iter().map(|host| &host.name);
        for host in hosts.filter(|host| !outcome.lost.contains_key(*host)) {
            let there = scene.processes().iter().any(|p| p.what != What::Shell && p.host == *host);
            assert!(there, "{host} is not reported as lost, and is not there: {:?}", outcome.lost);
        }
    }
    drop(session);
    scene.nothing_is_left();
}

#[test]
fn nothing_survives_a_shell_that_is_killed_and_was_needed() {
    play_moments(2, |config, when, rng| kill_one(What::Shell, config, when, rng));
}

#[test]
fn nothing_survives_a_leader_that_is_killed_and_was_needed() {
    play_moments(3, |config, when, rng| kill_one(What::Leader, config, when, rng));
}
