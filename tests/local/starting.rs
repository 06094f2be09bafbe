//! What a launched process finds when it begins: variables, directory, streams, descriptors,
//! signals.
#![allow(unsafe_code, reason = "signals are the operating system's")]

use libi::{Engine, Exit, FrontEnd, LaunchOptions, LaunchProgress};

use libi_testkit::local::*;
use libi_testkit::roles::plays_alone;

/// Prints something before it continues as a test member.
fn shell_then_member(lab: &Lab, hosts: &str, script: &str, words: &[&str]) -> libi::Distribution {
    let script = format!("{script}; exec \"$0\" \"$@\"");
    lab.program("/bin/sh", hosts, &["-c", &script, member()]).args(words)
}

#[test]
fn variables_are_in_place_before_the_program_is_loaded() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    // The loader reads its own variables before the program's first instruction, and prints what it
    // would load.
    let loaded = lab.program("/bin/cat", "a", &[]);
    let loaded = loaded.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_LIBRARY_PATH", lab.path(""));
    let sessions = front.start_all(&[loaded], &LaunchOptions::local()).unwrap();
    let libi::Error::NotLaunched(report) = sessions[0].wait_up(TIMEOUT).unwrap_err() else { panic!() };
    let (_, failure) = report.failed().next().unwrap();
    assert!(failure.tail.contains("libc.so"), "{failure:?}");

    let members = lab
        .members("a:2,b[1-3]:2", &["join", "env:LD_LIBRARY_PATH", "env:ODD", "finish:30000"])
        .env("LD_LIBRARY_PATH", "/first")
        .env("LD_LIBRARY_PATH", "/last/ of:equal names")
        .env("ODD", "'\"$HOME\" \\ `x`\n=é");
    let _session = launch(&front, members);
    let mut heard = Heard::default();
    heard.until(&front, "all have ended", |heard| heard.exits.len() == 8);
    for rank in 0..8 {
        assert_eq!(heard.out(rank), "/last/ of:equal names\n'\"$HOME\" \\ `x`\n=é\n");
    }
}

#[test]
fn arguments_arrive_as_they_are_and_programs_are_found_in_the_search_path() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let text = "out: '\"$HOME\" * \\ \t é ";
    let member = std::path::Path::new(member());
    let name = member.file_name().unwrap().to_str().unwrap();
    let members = lab.program(name, "a:2,b:2", &["join", text, "finish:30000"]);
    let members = members.env("PATH", format!("/nonexistent:{}", member.parent().unwrap().display()));
    let _session = launch(&front, members);
    let heard = Heard::all(&front);
    for rank in 0..4 {
        assert_eq!(heard.out(rank), " '\"$HOME\" * \\ \t é \n");
    }
}

#[test]
fn the_working_directory_is_the_front_ends_or_the_one_that_was_asked_for() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let own = lab.members("a:2,b", &["join", "cwd", "finish:30000"]);
    let asked = lab.members("a,c", &["join", "cwd", "finish:30000"]).current_dir(lab.path(""));
    let _session = launch_with(&front, &[own, asked], &LaunchOptions::local());
    let heard = Heard::all(&front);
    let here = std::env::current_dir().unwrap();
    let there = lab.path("");
    let (here, there) = (here.to_str().unwrap(), there.trim_end_matches('/'));
    for (rank, expected) in (0..).zip([here, here, here, there, there]) {
        assert_eq!(heard.out(rank), format!("{expected}\n"), "rank {rank}");
    }
}

#[test]
fn standard_input_is_empty_before_and_after_joining() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let _session = launch(&front, lab.members("a:2,b:2", &["read", "join", "read", "finish:30000"]));
    let heard = Heard::all(&front);
    assert!((0..4).all(|rank| heard.out(rank) == "0\n0\n"), "{heard:?}");
}

#[test]
fn only_the_streams_and_the_link_are_inherited_however_careless_the_front_end_is() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let file = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: a new descriptor, left open without CLOEXEC, for others to inherit.
    let left_open = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_DUPFD, 100) };
    assert!(left_open >= 100);
    let words = ["join", "finish:30000"];
    // The shell lists the directory, and opens nothing else that it does not close.
    let script = "for fd in /proc/$$/fd/*; do echo \"${fd##*/}\"; done";
    let _session = launch(&front, shell_then_member(&lab, "a:2,b[1-4]:2", script, &words));
    let heard = Heard::all(&front);
    for rank in 0..10 {
        let numbers: Vec<u32> = heard.out(rank).lines().map(|line| line.parse().unwrap()).collect();
        let beyond: Vec<_> = numbers.iter().filter(|number| **number > 3).collect();
        // The directory itself may be among them.
        assert!(numbers.starts_with(&[0, 1, 2, 3]) && beyond.len() <= 1, "rank {rank}: {numbers:?}");
        assert!(!numbers.contains(&(left_open as u32)), "rank {rank}: {numbers:?}");
    }
}

#[test]
fn no_signal_is_blocked_or_ignored_in_what_is_launched() {
    if plays_alone("starting::no_signal_is_blocked_or_ignored_in_what_is_launched") {
        return;
    }
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    // SAFETY: ignoring needs no handler.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    let mut blocked = nix::sys::signal::SigSet::empty();
    blocked.add(nix::sys::signal::Signal::SIGUSR2);
    blocked.thread_block().unwrap();
    let script = "grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let _session = launch(&front, shell_then_member(&lab, "a:2,b[1-3]:2", script, &["join", "finish:30000"]));
    let heard = Heard::all(&front);
    for rank in 0..8 {
        let default = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
        assert_eq!(heard.out(rank), default, "rank {rank}");
    }
}

#[test]
fn a_member_behind_a_shell_that_waits_for_it_is_a_member_with_the_status_of_the_shell() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let behind = |words: &[&str]| {
        let script = ["-c", "\"$0\" \"$@\"; exit 9", member()];
        lab.program("/bin/sh", "a:2,b[1-3]:2", &script).args(words)
    };
    for (engine, first) in [(Engine::InProgram, 9), (Engine::Apart, 5)] {
        let options = LaunchOptions::local().engine(engine);
        let members = behind(&["join", "out:{rank}", "finish:30000", "exit:5"]);
        let session = launch_with(&front, &[members], &options);
        let heard = Heard::all(&front);
        for rank in 0..8 {
            // The shell of the first of a host ends after the process that leads this host.
            let code = if rank % 2 == 0 { first } else { 9 };
            assert_eq!((heard.out(rank), heard.exits[&rank]), (format!("{rank}\n"), Exit::Code(code)));
        }
        drop(session);
        lab.is_empty_within(SOON);
    }

    let session = launch(&front, behind(&["join", "out:ready", "wait"]));
    session.terminate(TIMEOUT).unwrap();
    lab.is_empty_within(SOON);
    let _session = launch(&front, behind(&["join", "ignore:15", "wait"]));
    drop(front);
    lab.is_empty_within(SOON);
}

#[test]
fn when_a_session_is_up_no_host_is_waited_for() {
    let lab = Lab::new();
    let front = FrontEnd::new().unwrap();
    let session = launch(&front, lab.members("n[1-9]", &["join", "wait"]));
    assert_eq!(session.progress(), LaunchProgress { joined: 9, failed: 0, waiting: 0 });
}
