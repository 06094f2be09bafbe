use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::StageSource;
use super::super::tests::{Scratch, program};
use super::*;

/// An environment in which only this place is fit.
fn environment(place: &Path) -> Environment {
    let variable = |name: &str, value: &OsStr| {
        let value = OsBytes::new(value.as_bytes()).unwrap();
        libi_core::dist::EnvVar::new(OsBytes::try_from(name).unwrap(), value).unwrap()
    };
    [variable("XDG_RUNTIME_DIR", place.as_os_str()), variable("PATH", OsStr::new("/usr/bin:/bin"))]
        .into_iter()
        .collect()
}

fn names(place: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(place).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Three files, one of them empty.
fn files(scratch: &Scratch) -> (Staging, Vec<u8>) {
    let files =
        [("tool", &b"#!/bin/sh\necho $0\n"[..], true), ("empty", b"", false), ("data", b"0123", false)];
    let staging = files.iter().fold(Staging::new(), |staging, (name, content, is_program)| {
        staging.file(scratch.file(name, content, *is_program)).unwrap()
    });
    let mut bytes = vec![0; staging.bytes() as usize];
    StageSource::new(&staging).read(0, &mut bytes).unwrap();
    (staging, bytes)
}

#[test]
fn files_arrive_in_pieces_of_any_size_and_are_removed() {
    let (scratch, place) = (Scratch::new(), Scratch::new());
    let (staging, bytes) = files(&scratch);
    for size in 1..=bytes.len() {
        let mut directory = StageDirectory::create(&staging, &environment(&place.0)).unwrap();
        assert!(directory.path().starts_with(&place.0));
        assert_eq!(directory.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let mut written = 0;
        for piece in bytes.chunks(size) {
            written += piece.len() as u64;
            assert_eq!(directory.write(piece), Ok(written));
            let mut back = vec![0; written as usize];
            directory.read(0, &mut back).unwrap();
            assert_eq!(back, bytes[..written as usize]);
        }
        let mode = |name: &str| directory.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("tool"), mode("data"), mode("empty")), (0o755, 0o640, 0o640));
        let adapted = directory.adapt(&program("tool", &[]), &Environment::default());
        let output = std::process::Command::new(OsStr::from_bytes(adapted.executable.as_bytes())).output();
        assert_eq!(output.unwrap().status.code(), Some(0));
        assert!(directory.write(b"x").is_err(), "there is nothing more to write");
        drop(directory);
        assert_eq!(names(&place.0), BTreeSet::new());
    }
}

#[test]
fn a_wrong_byte_is_found_when_its_file_is_complete() {
    let (scratch, place) = (Scratch::new(), Scratch::new());
    let (staging, mut bytes) = files(&scratch);
    *bytes.last_mut().unwrap() ^= 1;
    let mut directory = StageDirectory::create(&staging, &environment(&place.0)).unwrap();
    let last = bytes.pop().unwrap();
    directory.write(&bytes).unwrap();
    let why = directory.write(&[last]).unwrap_err();
    assert!(why.starts_with("data has the hash "), "{why}");
    drop(directory);
    assert_eq!(names(&place.0), BTreeSet::new());
}

#[test]
fn what_is_kept_stays_if_it_is_complete() {
    let (scratch, place) = (Scratch::new(), Scratch::new());
    let (staging, bytes) = files(&scratch);
    let staging = staging.keep();
    let mut directory = StageDirectory::create(&staging, &environment(&place.0)).unwrap();
    directory.write(&bytes[..5]).unwrap();
    drop(directory);
    assert_eq!(names(&place.0), BTreeSet::new());
    let mut directory = StageDirectory::create(&staging, &environment(&place.0)).unwrap();
    directory.write(&bytes).unwrap();
    let path = directory.path().to_owned();
    drop(directory);
    assert_eq!(names(&path), ["data", "empty", "tool"].map(str::to_owned).into());
}

#[test]
fn places_without_room_are_passed_over_and_named() {
    let (scratch, place) = (Scratch::new(), Scratch::new());
    let (mut staging, _) = files(&scratch);
    // More than any disk has.
    staging.files[0].length = i64::MAX as u64 / 2;
    let why = StageDirectory::create(&staging, &environment(&place.0)).unwrap_err();
    assert!(
        why.starts_with("no directory has room for ") && why.contains(place.0.to_str().unwrap()),
        "{why}"
    );
    assert_eq!(names(&place.0), BTreeSet::new());
    let (staging, _) = files(&scratch);
    let missing = place.0.join("missing");
    let directory = StageDirectory::create(&staging, &environment(&missing)).unwrap();
    assert!(!directory.path().starts_with(&place.0));
}

/// Waits for a condition.
fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let by = Instant::now() + Duration::from_secs(10);
    while !is_true() {
        assert!(Instant::now() < by, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_watchdog_removes_what_a_killed_process_leaves() {
    let (scratch, place) = (Scratch::new(), Scratch::new());
    let (staging, bytes) = files(&scratch);
    let mut directory = StageDirectory::create(&staging, &environment(&place.0)).unwrap();
    directory.write(&bytes).unwrap();
    // Of a process that is killed only its descriptors are closed: nothing is dropped.
    let Watchdog { _process: mut process, _life: life } = directory.watchdog.take().unwrap();
    std::mem::forget(directory);
    process.release();
    assert_eq!(names(&place.0).len(), 1);
    drop(life);
    eventually("the watchdog removes the directory", || names(&place.0).is_empty());
    assert!(process.wait_for(Duration::from_secs(10)).is_some(), "it ends as well");
}
