//! A front end in a program that has a life of its own: threads, children, signals, descriptors,
//! memory. See `embedded/`.

use std::time::Duration;

use libi_testkit::native::{Link, compile, run};
use libi_testkit::programs;

/// Runs one function of the program.
fn play(what: &str) {
    let program = compile(what, &["tests/c/embedded/embedded.c"], Link::Shared, &["-lpthread"]);
    let ended = run(&program, &[programs::member(), what], Duration::from_secs(100));
    let said = format!("{what}: as it should be\n");
    assert_eq!((ended.code, ended.out), (Some(0), said), "{}", ended.err);
    std::fs::remove_file(&program).unwrap();
}

#[test]
fn two_front_ends_in_two_threads_know_nothing_of_each_other() {
    play("two_fronts");
}

#[test]
fn a_handler_of_sigchld_and_the_programs_own_children_are_left_alone() {
    play("own_children");
}

#[test]
fn a_program_that_collects_every_child_learns_less_and_loses_nothing_else() {
    play("greedy_reaper");
}

#[test]
fn no_thread_of_the_library_takes_a_signal_of_the_programs() {
    play("signals_of_its_own");
}

#[test]
fn ten_thousand_open_descriptors_neither_stop_a_launch_nor_reach_a_member() {
    play("many_descriptors");
}

#[test]
fn a_heap_of_four_gigabytes_does_not_stop_a_launch() {
    play("large_heap");
}

#[test]
fn a_broken_pipe_ends_no_program_that_would_be_ended_by_one() {
    play("broken_pipes_end_it");
}

#[test]
fn a_broken_pipe_is_a_code_where_the_signal_is_ignored() {
    play("broken_pipes_are_ignored");
}
