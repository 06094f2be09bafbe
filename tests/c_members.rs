//! Members in C and C++, launched by a front end in Rust: every function, and what is common in C but
//! rare in Rust.
//!
//! The program and its checks are in `c/member/`; a member exits with a status other than 0 when a check
//! fails.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::OnceLock;
use std::time::Duration;

use libi::{Bytes, Engine, Exit, FrontEnd, HostIndex, LaunchOptions, OnLoss, Policy, Rules, Session, Stream};

use libi_testkit::launching::is_every_case_asked_for;
use libi_testkit::local::*;
use libi_testkit::native;
use libi_testkit::native::Link;

/// Six members on three hosts.
const HOSTS: &str = "host[1-3]:2";
const SIZE: u32 = 6;
const FILES: [&str; 8] = [
    "tests/c/member/failing.c",
    "tests/c/member/losses.c",
    "tests/c/member/member.c",
    "tests/c/member/misuse.c",
    "tests/c/member/odd.c",
    "tests/c/member/operations.c",
    "tests/c/member/reductions.c",
    "tests/c/member/together.c",
];

/// The program in C, with the shared library.
fn program() -> &'static str {
    static MADE: OnceLock<String> = OnceLock::new();
    MADE.get_or_init(|| made("member", &FILES, Link::Shared))
}

fn made(name: &str, sources: &[&str], link: Link) -> String {
    native::compile(name, sources, link, &["-pthread"]).into_os_string().into_string().unwrap()
}

/// A program, and what it is given before the words that say what to do.
struct Way {
    program: String,
    before: Vec<String>,
}

impl Way {
    fn of(program: &str, before: &[&str]) -> Self {
        Self { program: program.to_owned(), before: before.iter().map(|word| (*word).to_owned()).collect() }
    }

    fn plain() -> Self {
        Self::of(program(), &[])
    }

    fn manual() -> Self {
        Self::of(program(), &["manual"])
    }

    fn words<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        self.before.iter().map(String::as_str).chain(words.iter().copied()).collect()
    }

    fn play(&self, hosts: &str, words: &[&str], front_end: impl FnOnce(&Session)) -> Heard {
        play(&self.program, hosts, &self.words(words), front_end)
    }

    /// All do this, and end well.
    fn all_do(&self, words: &[&str]) {
        ended_well(&self.play(HOSTS, words, |_| ()), SIZE, &[]);
    }
}

/// Launches members that do this, and gives what the front end hears when all have ended. Nothing
/// is left of them then.
fn play(program: &str, hosts: &str, words: &[&str], front_end: impl FnOnce(&Session)) -> Heard {
    play_with(&LaunchOptions::local(), program, hosts, words, front_end)
}

fn play_with(
    options: &LaunchOptions,
    program: &str,
    hosts: &str,
    words: &[&str],
    front_end: impl FnOnce(&Session),
) -> Heard {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch_with(&front, &[lab.program(program, hosts, words)], options);
    front_end(&session);
    let heard = Heard::all(&front);
    drop(session);
    lab.is_empty_within(SOON);
    heard
}

/// They have ended well, but for those that are named.
fn ended_well(heard: &Heard, size: u32, but: &[(u32, Exit)]) {
    for rank in 0..size {
        let should = but.iter().find(|but| but.0 == rank).map_or(Exit::Code(0), |but| but.1);
        let text = heard.text(rank, Stream::Err);
        assert_eq!(heard.exits.get(&rank), Some(&should), "rank {rank}: {text}");
    }
}

fn all_do(words: &[&str]) {
    Way::plain().all_do(words);
}

#[test]
fn every_operation_gives_everybody_what_it_should() {
    for hosts in ["host1", "host1:2", "host[1-3]:2", "host[1-9]"] {
        let heard = play(program(), hosts, &["operations"], |_| ());
        ended_well(&heard, u32::try_from(heard.exits.len()).unwrap(), &[]);
        assert!(heard.exits.contains_key(&0));
    }
}

#[test]
fn every_operation_gives_what_it_should_without_threads_of_ours() {
    for mode in ["operations", "loops", "misuse", "folds-that-call"] {
        all_do(&["manual", mode]);
    }
}

#[test]
fn the_same_holds_for_c_plus_plus_and_for_the_static_library() {
    let programs = [
        made("member-cpp", &["tests/c/member/member.cpp"], Link::Shared),
        made("member-cpp", &["tests/c/member/member.cpp"], Link::Static),
        made("member", &FILES, Link::Static),
    ];
    for program in programs {
        for mode in ["operations", "misuse", "folds-that-call"] {
            ended_well(&play(&program, HOSTS, &[mode], |_| ()), SIZE, &[]);
        }
        ends_in_a_function(&program, "fold-that-throws", Exit::Signal(libc::SIGABRT));
        some_are_lost(&Way::of(&program, &[]));
    }
}

/// What members do in which every one of them ends well.
const MODES: [&[&str]; 14] = [
    &["operations"],
    &["manual", "loops"],
    &["misuse"],
    &["threads"],
    &["folds-that-call"],
    &["mismatch", "3"],
    &["impatient", "3"],
    &["twice"],
    &["never-finalizes"],
    &["sigpipe", "0"],
    &["manual", "operations"],
    &["closed"],
    &["forked-before"],
    &["forked-after"],
];

/// All that members do and end well, for what watches their memory. The front end does not hear how
/// those end that are released and live on, and some modes are about ends that leave everything as it
/// is: in a function that the library has called, and of one of two in a place.
fn everything(way: &Way, modes: &[&[&str]]) {
    modes.iter().for_each(|words| way.all_do(words));
    by_hand(way);
    one_is_lost(way);
    some_are_lost(way);
    one_is_restarted(way);
    some_are_absent(way);
    the_master_talks(way);
}

#[test]
fn no_memory_is_misused_or_left_by_members() {
    let flags = [&native::SANITIZERS[..], &["-pthread"]].concat();
    let program = native::compile("member-sanitized", &FILES, Link::Shared, &flags);
    everything(&Way::of(program.to_str().unwrap(), &[]), &MODES);
}

#[test]
fn valgrind_finds_nothing_in_members() {
    if !native::is_valgrind_asked_for() {
        return;
    }
    // A thread that lives as long as the process has memory of the system's of which valgrind is not sure.
    let sure = "--errors-for-leak-kinds=definite,indirect";
    let valgrind = Way::of("valgrind", &[&native::VALGRIND[..], &[sure, program()]].concat());
    // Valgrind reads what the sanitizers, which see every mode, do not: uninitialised bytes. Of the last
    // modes two do the operations once more, and two have a child that leaves its parent's memory as it is.
    let count = if is_every_case_asked_for() { 10 } else { 4 };
    everything(&valgrind, &MODES[..count]);
}

#[test]
fn what_a_program_does_wrong_has_its_code() {
    all_do(&["misuse"]);
    by_hand(&Way::plain());
}

/// In a process that was not launched.
fn by_hand(way: &Way) {
    let ended = native::run(&way.program, &way.words(&["by-hand"]), TIMEOUT);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[test]
fn members_that_call_different_things_are_all_told_and_can_go_on() {
    for other in ["0", "3", "5"] {
        all_do(&["mismatch", other]);
        all_do(&["manual", "mismatch", other]);
    }
}

#[test]
fn a_call_that_somebody_gives_up_is_over_for_all_and_the_next_succeeds() {
    for late in ["0", "3", "5"] {
        all_do(&["impatient", late]);
        all_do(&["manual", "impatient", late]);
    }
}

#[test]
fn a_member_that_is_killed_in_a_barrier_is_named_to_the_others() {
    [Way::plain(), Way::manual()].iter().for_each(one_is_lost);
}

fn one_is_lost(way: &Way) {
    let heard = way.play(HOSTS, &["lost", "5"], |_| ());
    ended_well(&heard, SIZE, &[(5, Exit::Signal(libc::SIGKILL))]);
}

#[test]
fn calls_go_on_without_a_member_that_is_killed() {
    let options = LaunchOptions::local().on_loss(OnLoss::Continue);
    for way in [Way::plain(), Way::manual()] {
        let heard = play_with(&options, &way.program, HOSTS, &way.words(&["left", "5"]), |_| ());
        ended_well(&heard, SIZE, &[(5, Exit::Signal(libc::SIGKILL))]);
    }
}

#[test]
fn members_that_are_left_know_host_and_cause_of_each_loss() {
    [Way::plain(), Way::manual()].iter().for_each(some_are_lost);
}

fn some_are_lost(way: &Way) {
    let options = LaunchOptions::local().on_loss(OnLoss::Continue);
    let heard = play_with(&options, &way.program, HOSTS, &way.words(&["losses", "5"]), |_| ());
    ended_well(&heard, SIZE, &[(3, Exit::Code(7)), (5, Exit::Signal(libc::SIGKILL))]);
}

#[test]
fn a_member_that_was_restarted_goes_on_with_the_call_that_the_others_are_at() {
    [Way::plain(), Way::manual()].iter().for_each(one_is_restarted);
}

fn one_is_restarted(way: &Way) {
    let options = LaunchOptions::local().on_loss(OnLoss::Continue).restarts(1);
    let heard = play_with(&options, &way.program, HOSTS, &way.words(&["restarted", "5"]), |_| ());
    ended_well(&heard, SIZE, &[]);
}

#[test]
fn members_that_are_left_know_that_the_leader_of_a_host_was_lost() {
    let options = LaunchOptions::local().on_loss(OnLoss::Continue).engine(Engine::InProgram);
    for way in [Way::plain(), Way::manual()] {
        let heard = play_with(&options, &way.program, HOSTS, &way.words(&["lost-leader", "2"]), |_| ());
        for rank in [0, 1, 4, 5] {
            let text = heard.text(rank, Stream::Err);
            assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {text}");
        }
        let (name, failure) = &heard.lost[&HostIndex(1)];
        assert_eq!((name.as_str(), failure.exit), ("host2", Some(Exit::Signal(libc::SIGKILL))));
    }
}

#[test]
fn the_places_of_members_that_did_not_come_up_stay_as_they_are() {
    [Way::plain(), Way::manual()].iter().for_each(some_are_absent);
}

fn some_are_absent(way: &Way) {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let parts = ["host1:2", "host2:2", "host3:2"].map(|hosts| {
        let program = if hosts == "host2:2" { "/no/such/program" } else { &way.program };
        lab.program(program, hosts, &way.words(&["absent", "2"]))
    });
    let options = LaunchOptions::local().policy(Policy::AtLeast(2));
    let session = launch_with(&front, &parts, &options);
    let heard = Heard::all(&front);
    for rank in [0, 1, 4, 5] {
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "{}", heard.text(rank, Stream::Err));
    }
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn threads_of_a_member_talk_at_the_same_time_and_have_their_own_texts() {
    all_do(&["threads"]);
}

#[test]
fn the_master_and_the_front_end_talk() {
    [Way::plain(), Way::manual()].iter().for_each(the_master_talks);
}

fn the_master_talks(way: &Way) {
    let heard = way.play(HOSTS, &["front"], |session| {
        let message = Bytes::from_static(b"to all members");
        for length in [|_: usize| 14_usize, |rank: usize| rank] {
            session.broadcast(message.clone()).wait(TIMEOUT).unwrap();
            let parts = session.gather().wait(TIMEOUT).unwrap();
            assert_eq!(parts, Vec::from_iter((0..SIZE as usize).map(|rank| message.slice(..length(rank)))));
        }
        for message in [Bytes::from_static(b"\0first"), vec![7; 300_000].into()] {
            session.send(message.clone()).wait(TIMEOUT).unwrap();
            assert_eq!(session.recv().wait(TIMEOUT), Ok(message));
        }
    });
    ended_well(&heard, SIZE, &[]);
}

#[test]
fn a_function_that_the_library_has_called_is_refused_what_would_wait_for_itself() {
    all_do(&["folds-that-call"]);
}

#[test]
fn exit_in_a_function_that_the_library_has_called_ends_the_process_and_is_heard_of() {
    ends_in_a_function(program(), "fold-that-exits", Exit::Code(7));
}

/// The first of the second host ends like this, and all others hear of it.
fn ends_in_a_function(program: &str, mode: &str, end: Exit) {
    let in_program = LaunchOptions::local().engine(Engine::InProgram);
    let heard = play_with(&in_program, program, HOSTS, &[mode, "2"], |_| ());
    for (rank, exit) in [0, 1, 4, 5].map(|rank| (rank, Exit::Code(0))).into_iter().chain([(2, end)]) {
        let text = heard.text(rank, Stream::Err);
        assert_eq!(heard.exits.get(&rank), Some(&exit), "rank {rank}: {text}");
    }
    // The other of that host hangs on the one that has ended.
    let (name, failure) = &heard.lost[&HostIndex(1)];
    assert_eq!((name.as_str(), failure.exit), ("host2", Some(end)), "{}", heard.described());
}

#[test]
fn a_child_that_was_forked_does_not_hold_up_the_end_of_its_session() {
    all_do(&["forked-before"]);
    all_do(&["forked-after"]);
}

#[test]
fn a_child_that_takes_the_place_of_its_parent_ends_in_a_verdict() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    match front.launch_all(&[lab.program(program(), "host1,host2", &["beside"])], &LaunchOptions::local()) {
        // Each member has ended somehow.
        Ok(_sessions) => assert!(Heard::all(&front).done),
        Err(error) => assert!(error.to_string().contains("of 2 hosts joined"), "{error}"),
    }
    drop(front);
    lab.is_empty_within(SOON);
}

#[test]
fn members_that_close_their_standard_streams_talk_as_all_others() {
    all_do(&["closed"]);
}

#[test]
fn the_second_init_is_refused_and_the_first_holds() {
    all_do(&["twice"]);
}

#[test]
fn a_member_that_ends_without_a_word_is_heard_of() {
    let heard = play(program(), HOSTS, &["never-finalizes"], |_| ());
    ended_well(&heard, SIZE, &[]);
    for rank in 0..SIZE {
        assert_eq!(heard.out(rank), format!("rank {rank} was here\n"));
    }
}

#[test]
fn members_that_finalize_live_on_after_their_session() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members = lab.program(program(), HOSTS, &["finalizes"]);
    let members = members.env("LIBI_TEST_DIRECTORY", lab.path("").trim_end_matches('/'));
    let session = launch(&front, members);
    let mut heard = Heard::default();
    heard.until(&front, "all are released", |heard| heard.released.len() == SIZE as usize);
    drop((session, front));
    eventually("the leaders have ended, and they alone", || lab.living().len() == SIZE as usize);
    lab.touch("ended");
    eventually("all have lived on", || (0..SIZE).all(|rank| lab.has(&format!("lived.{rank}"))));
    lab.is_empty_within(SOON);
}

#[test]
fn a_member_that_was_released_may_close_every_descriptor_and_its_own_files_are_its_own() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members = lab.program(program(), HOSTS, &["closes-all"]);
    let members = members.env("LIBI_TEST_DIRECTORY", lab.path("").trim_end_matches('/'));
    let rules = Rules { peer_timeout: Duration::from_secs(2), ..Rules::default() };
    let options = LaunchOptions::local().rules(rules);
    let session = launch_with(&front, &[members], &options);
    let mut heard = Heard::default();
    heard.until(&front, "all are released", |heard| heard.released.len() == SIZE as usize);
    eventually("all have files", || (0..SIZE).all(|rank| lab.has(&format!("ready.{rank}"))));
    // Four heartbeats, if they went on with them: it is time itself that has to pass.
    std::thread::sleep(rules.peer_timeout);
    drop((session, front));
    lab.touch("ended");
    eventually("all have lived on", || (0..SIZE).all(|rank| lab.has(&format!("lived.{rank}"))));
    lab.is_empty_within(SOON);
}

#[test]
fn sigpipe_stays_as_the_program_wants_it_and_ends_nobody() {
    for ignored in ["0", "1"] {
        all_do(&["sigpipe", ignored]);
    }
}
