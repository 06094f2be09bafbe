//! Starts that fail, step by step, and what is said of them.

use super::super::{Signal, WatchMethod};
use super::*;

fn shell_error(start: &Start<'_>) -> String {
    let error = start.start().map(drop).unwrap_err();
    error.to_string()
}

#[test]
fn a_missing_directory_is_named() {
    let mut start = shell("");
    start.cwd = Some(word("/nonexistent/x"));
    assert_eq!(shell_error(&start), "cannot change to directory /nonexistent/x: No such file or directory");
    start.cwd = Some(word("/etc/passwd"));
    assert_eq!(shell_error(&start), "cannot change to directory /etc/passwd: Not a directory");
    start.cwd = Some(word(""));
    assert_eq!(shell_error(&start), "cannot change to directory : No such file or directory");
}

#[test]
fn a_program_that_may_not_be_executed_is_told_from_one_that_is_missing() {
    let scratch = Scratch::new();
    let plain = scratch.file("daemon", 0o644, b"#!/bin/sh\n");
    let mut start = start("./daemon", &[]);
    start.cwd = Some(scratch.word());
    assert_eq!(shell_error(&start), "exec ./daemon: Permission denied");
    start.program = word("./demon");
    assert_eq!(shell_error(&start), "exec ./demon: No such file or directory");
    start.program = word("/");
    assert_eq!(shell_error(&start), "exec /: Permission denied");
    start.program = word("daemon");
    start.env = start.env.with([variable("PATH", &format!("/nonexistent:{}:/etc", scratch.word()))]);
    assert_eq!(shell_error(&start), format!("exec {plain}: Permission denied"));
    start.program = word("demon");
    let path = start.env.value(b"PATH").unwrap().to_string();
    assert_eq!(shell_error(&start), format!("demon: not found in PATH={path}"));
}

#[test]
fn a_missing_interpreter_is_named_with_what_cannot_be_seen_in_it() {
    let scratch = Scratch::new();
    let script = scratch.file("script", 0o755, b"#!/bin/sh\r\necho\r\n");
    assert_eq!(
        shell_error(&start(&script, &[])),
        format!("exec {script}: its interpreter \"/bin/sh\\r\" is missing")
    );
}

#[test]
fn a_missing_loader_is_not_called_a_missing_file() {
    let scratch = Scratch::new();
    let mut program = fs::read("/bin/sh").unwrap();
    let at = program.windows(6).position(|bytes| bytes == b"/lib64").expect("a loader in /lib64");
    program[at + 1] = b'L';
    let program = scratch.file("program", 0o755, &program);
    let expected = format!("exec {program}: the dynamic loader that it was linked for is missing");
    assert_eq!(shell_error(&start(&program, &[])), expected);
}

#[test]
fn a_binary_for_another_machine_is_not_given_to_the_shell() {
    let scratch = Scratch::new();
    let program = scratch.file("program", 0o755, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xff\xff");
    assert_eq!(shell_error(&start(&program, &[])), format!("exec {program}: Exec format error"));
}

#[test]
fn arguments_that_are_too_many_are_refused() {
    let mut start = start("/bin/true", &[]);
    start.args = vec![word([b'x'; 100_000]); 100];
    assert_eq!(shell_error(&start), "exec /bin/true: Argument list too long");
}

#[test]
fn a_signal_that_the_system_will_not_have_is_refused_by_name_of_the_step() {
    let mut start = shell("");
    start.parent_death_signal = Some(Signal::of_kernel(200));
    assert_eq!(shell_error(&start), "cannot set the parent death signal: Invalid argument");
}

#[test]
fn the_same_failures_are_seen_without_pidfds() {
    let mut start = shell("");
    start.watch_method = WatchMethod::Thread;
    start.cwd = Some(word("/nonexistent"));
    assert_eq!(shell_error(&start), "cannot change to directory /nonexistent: No such file or directory");
}
