//! The examples in C and C++: each prints what its head says, linked in both ways, and leaves
//! nothing, even if it is killed.
//!
//! Beside them those of survival and of daemons that are found again, in Rust, are run.
//!
//! The C++ header is tested here as well. That the examples build where libi is installed is tested
//! by `packages`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "examples/daemons.rs"]
mod daemons;
#[path = "examples/gdbservers.rs"]
mod gdbservers;
#[path = "examples/killing.rs"]
mod killing;
#[path = "examples/play.rs"]
mod play;
#[path = "examples/survival.rs"]
mod survival;

use std::process::Command;

use libi_testkit::native;
use libi_testkit::native::Link;
use play::{Play, compiled, example, head, sorted, without_numbers};

/// Runs an example in both ways that it can be linked.
fn in_both_ways(source: &str, args: &[&str], check: impl Fn(Play)) {
    for link in [Link::Shared, Link::Static] {
        let program = example(source, link);
        check(Play::start(&program, args));
    }
}

#[test]
fn hello_prints_what_its_head_says() {
    let wanted = sorted(head("c/hello.c"));
    assert_eq!(wanted.len(), 4);
    in_both_ways("c/hello.c", &[], |play| assert_eq!(sorted(play.ends_well()), wanted));
}

/// What the head of the event loop says of its first session; for other sessions and other orders.
fn of_session(number: u32, size: u32, told: &str, ends: &str) -> Vec<String> {
    let mut lines = vec![
        format!("session {number}: up with {size} members"),
        format!("session {number}: the master says: {size} members are here"),
    ];
    lines.extend(
        (0..size).map(|rank| format!("session {number}: [{rank}] rank {rank} of {size} was told to {told}")),
    );
    lines.extend((0..size).map(|rank| format!("session {number}: rank {rank} has ended {ends}")));
    lines.push(format!("session {number}: done"));
    lines
}

#[test]
fn the_event_loop_sees_all_that_happens_in_each_session() {
    let mut wanted = of_session(1, 2, "go", "with status 0");
    let mut in_head = head("c/event_loop.c");
    assert_eq!(in_head.pop().as_deref(), Some("all sessions are over"));
    assert_eq!(in_head, wanted, "the head of the example, and this test");
    wanted.extend(of_session(2, 4, "go", "with status 0"));
    wanted.extend(of_session(3, 6, "go", "with status 0"));
    in_both_ways("c/event_loop.c", &[], |play| {
        let mut lines = play.ends_well();
        assert_eq!(lines.pop().as_deref(), Some("all sessions are over"));
        for number in 1..=3 {
            let of = format!("session {number}: ");
            let its: Vec<_> = lines.iter().filter(|line| line.starts_with(&of)).collect();
            assert!(its[0].contains("up with") && its[its.len() - 1].ends_with("done"), "{its:#?}");
        }
        assert_eq!(sorted(lines), sorted(wanted.clone()));
    });
}

#[test]
fn a_signal_ends_all_sessions_of_the_event_loop() {
    for (signal, number) in [(libc::SIGINT, 2), (libc::SIGTERM, 15)] {
        let program = example("c/event_loop.c", Link::Shared);
        let mut play = Play::start(&program, &["--stay", "a:2", "b[1-2]:2"]);
        // By then all members can be ended, and all that they print has come.
        play.until(|lines| lines.iter().filter(|line| line.ends_with("was told to stay")).count() == 6);
        play.signal(signal);
        let lines = play.ends_well();
        let mut wanted = of_session(1, 2, "stay", "by signal 15");
        wanted.extend(of_session(2, 4, "stay", "by signal 15"));
        wanted.push(format!("signal {number}: all sessions are told to end"));
        wanted.push("all sessions are over".to_owned());
        assert_eq!(sorted(lines), sorted(wanted));
    }
}

#[test]
fn the_event_loop_says_why_a_session_does_not_come_up() {
    let program = example("c/event_loop.c", Link::Shared);
    let ended = native::run(&*program, &["a[1-"], play::TIMEOUT);
    assert_eq!((ended.code, &*ended.out), (Some(1), ""), "{}", ended.err);
    assert!(ended.err.contains("is never closed"), "{}", ended.err);
}

#[test]
fn an_overlay_network_works_when_libi_is_gone() {
    let wanted = without_numbers(&head("cpp/topology_exchange.cpp"), ":");
    assert_eq!(wanted.len(), 7);
    in_both_ways("cpp/topology_exchange.cpp", &[], |play| {
        assert_eq!(without_numbers(&play.ends_well(), ":"), wanted);
    });
}

#[test]
fn an_overlay_network_comes_up_through_a_remote_shell() {
    let program = example("cpp/topology_exchange.cpp", Link::Shared);
    let lines = Play::start(&program, &["--shell", &play::shell()]).ends_well();
    assert_eq!(without_numbers(&lines, ":"), without_numbers(&head("cpp/topology_exchange.cpp"), ":"));
}

#[test]
fn an_overlay_network_may_have_any_shape() {
    let program = example("cpp/topology_exchange.cpp", Link::Shared);
    for (hosts, says) in [
        (&["x"][..], "the squares of the ranks of 1 back ends add up to 0"),
        (&["x[1-20]", "y[1-10]:4"], "the squares of the ranks of 40 back ends add up to 20540"),
    ] {
        let lines = Play::start(&program, hosts).ends_well();
        assert_eq!(lines[lines.len() - 2..], [says, "all have ended"]);
    }
    let ended = native::run(&*program, &["--address", "nonsense"], play::TIMEOUT);
    assert!(ended.code == Some(1) && ended.err.contains("no address: nonsense"), "{ended:?}");
}

#[test]
fn the_header_for_cpp_does_what_it_says() {
    for (standard, link) in
        [("-std=c++17", Link::Shared), ("-std=c++14", Link::Shared), ("-std=c++17", Link::Static)]
    {
        let program = compiled("tests/c/cpp/objects.cpp", link, &[standard]);
        assert_eq!(Play::start(&program, &[]).ends_well(), ["objects: all as they should be"]);
    }
}

#[test]
fn no_memory_is_misused_or_left_by_what_the_header_for_cpp_has() {
    let flags = [&native::SANITIZERS[..], &["-std=c++17"]].concat();
    let program = compiled("tests/c/cpp/objects.cpp", Link::Shared, &flags);
    assert_eq!(Play::start(&program, &[]).ends_well(), ["objects: all as they should be"]);
}

#[test]
fn valgrind_finds_nothing_in_what_the_header_for_cpp_has() {
    if !native::is_valgrind_asked_for() {
        return;
    }
    let program = compiled("tests/c/cpp/objects.cpp", Link::Shared, &["-std=c++17"]);
    let mut valgrind = Command::new("valgrind");
    native::without_job(valgrind.args(native::VALGRIND).arg(&*program));
    let ended = native::run_command(&mut valgrind, play::TIMEOUT);
    // It also says which system calls it does not know.
    assert_eq!((ended.code, &*ended.out), (Some(0), "objects: all as they should be\n"), "{}", ended.err);
}
