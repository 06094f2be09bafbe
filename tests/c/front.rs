//! Everything that a front end in C can be called with, and misused with, by `front/`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libi_testkit::native::{
    Link, SANITIZERS, VALGRIND, compile, is_valgrind_asked_for, run_command, scratch, without_job,
};
use libi_testkit::programs;

const SOURCES: [&str; 10] = [
    "tests/c/front/front.c",
    "tests/c/front/play.c",
    "tests/c/front/describe.c",
    "tests/c/front/launches.c",
    "tests/c/front/sessions.c",
    "tests/c/front/restarts.c",
    "tests/c/front/growth.c",
    "tests/c/front/keeping.c",
    "tests/c/front/commands.c",
    "tests/c/front/misuse.c",
];

/// Runs what comes of the program with the members and the shell of all tests.
fn play(name: &str, link: Link, flags: &[&str], command: impl FnOnce(&Path) -> Command) {
    let flags = [&["-I", "tests/c/front"], flags].concat();
    let program = compile(name, &SOURCES, link, &flags);
    let directory = scratch().join(format!("{name}.{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (member, shell) = (programs::member(), programs::shell());
    let mut command = command(&program);
    without_job(command.args([member, shell]).arg(&directory));
    let ended = run_command(&mut command, Duration::from_secs(200));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "front: all as it should be\n"), "{}", ended.err);
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::remove_file(&program).unwrap();
}

#[test]
fn everything_that_a_front_end_can_call_does_what_it_says() {
    play("front", Link::Shared, &[], |program: &Path| Command::new(program));
}

#[test]
fn the_same_holds_where_the_library_is_linked_in() {
    play("front_static", Link::Static, &[], |program: &Path| Command::new(program));
}

#[test]
fn no_memory_is_misused_or_left_and_no_descriptor_by_a_front_end() {
    play("front_sanitized", Link::Shared, &SANITIZERS, |program: &Path| Command::new(program));
}

#[test]
fn valgrind_finds_nothing_in_a_front_end() {
    if !is_valgrind_asked_for() {
        return;
    }
    play("front_valgrind", Link::Shared, &[], |program: &Path| {
        let mut command = Command::new("valgrind");
        command.args(VALGRIND).arg(program);
        command
    });
}
