//! Front ends of examples are killed by SIGKILL: nothing is left, neither of the processes that
//! libi ends nor of those that have to end by themselves.
//!
//! `LIBI_KILLS` is the number of random moments (10 by default), `LIBI_SEED` their seed.

use std::time::{Duration, Instant};

use crate::play::{Play, example, shell};
use libi_testkit::kills::{moments, seeded};
use libi_testkit::native::Link;

const OVERLAY: &str = "cpp/topology_exchange.cpp";

#[test]
fn an_overlay_network_ends_when_its_front_end_is_killed_after_any_line() {
    let (program, shell) = (example(OVERLAY, Link::Shared), shell());
    for args in [&[][..], &["--shell", &shell]] {
        for lines in 0..=7 {
            let mut play = Play::start(&program, args);
            play.until(|printed| printed.len() >= lines);
            play.kill();
            play.nothing_is_left();
        }
    }
}

#[test]
fn an_overlay_network_ends_whenever_its_front_end_is_killed() {
    let mut random = seeded();
    let (program, begun) = (example(OVERLAY, Link::Shared), Instant::now());
    Play::start(&program, &[]).ends_well();
    let lasts = begun.elapsed();
    for _ in 0..moments(10) {
        let moment = lasts.mul_f64(random.unit());
        println!("it is killed after {moment:?} of {lasts:?}");
        let mut play = Play::start(&program, &[]);
        // What is killed is to be in the middle of something.
        std::thread::sleep(moment);
        play.kill();
        play.nothing_is_left();
    }
}

#[test]
fn an_overlay_network_ends_when_any_of_its_processes_is_killed() {
    let program = example(OVERLAY, Link::Shared);
    // Enough for a while in which some are released and some are not.
    let hosts = ["x[1-8]", "x[1-8]:4"];
    for (count, lines) in (1..=10).enumerate() {
        let mut play = Play::start(&program, &hosts);
        play.until(|printed| printed.len() >= lines);
        let others = play.others();
        // It may have come to its end.
        if let Some((pid, _)) = others.get(count * 7 % others.len().max(1)) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGKILL);
        }
        let deadline = Instant::now() + crate::play::TIMEOUT;
        while !play.has_ended() {
            assert!(Instant::now() < deadline, "the front end does not end, after {lines} lines");
            std::thread::sleep(Duration::from_millis(5));
        }
        play.nothing_is_left();
    }
}

#[test]
fn the_sessions_of_an_event_loop_end_when_it_is_killed() {
    let program = example("c/event_loop.c", Link::Shared);
    for count in [0, 1, 6] {
        let mut play = Play::start(&program, &["--stay", "a:2", "b[1-2]:2"]);
        play.until(|lines| lines.iter().filter(|line| line.ends_with("was told to stay")).count() >= count);
        play.kill();
        play.nothing_is_left();
    }
}
