//! A front end in C: everything that it can be called with, and misused with, by `front/`.

use std::time::Duration;

use crate::native::{Link, compile, run, scratch};

const SOURCES: [&str; 2] = ["tests/c/front/front.c", "tests/c/front/describe.c"];

/// Runs the program with the members and the shell of all tests.
fn play(link: Link) {
    let program = compile("front", &SOURCES, link, &["-I", "tests/c/front"]);
    let directory = scratch().join(format!("front.{link:?}.{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (member, shell) = (env!("CARGO_BIN_EXE_libi-test-member"), env!("CARGO_BIN_EXE_libi-test-shell"));
    let ended = run(&program, &[member.as_ref(), shell.as_ref(), directory.as_os_str()], Duration::from_secs(100));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "front: all as it should be\n"), "{}", ended.err);
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::remove_file(&program).unwrap();
}

#[test]
fn everything_that_a_front_end_can_call_does_what_it_says() {
    play(Link::Shared);
}

#[test]
fn the_same_holds_where_the_library_is_linked_in() {
    play(Link::Static);
}
