use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

/// A directory that is removed at the end.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        Self(nix::unistd::mkdtemp(&std::env::temp_dir().join("libi-test-staging-XXXXXX")).unwrap())
    }

    /// A file of this content; its mode has the bits of execution, if it is a program.
    pub(super) fn file(&self, name: &str, content: &[u8], is_program: bool) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        let mode = if is_program { 0o755 } else { 0o640 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn word(text: &str) -> OsBytes {
    OsBytes::try_from(text).unwrap()
}

pub(super) fn program(executable: &str, env: &[(&str, &str)]) -> Program {
    let env = env.iter().map(|(name, value)| variable(name, word(value)).unwrap()).collect();
    Program { executable: word(executable), args: Vec::new(), env, cwd: None }
}

/// The value that a variable of a program has.
fn value<'a>(program: &'a Program, name: &str) -> Option<&'a [u8]> {
    let own = program.env.iter().rev().find(|own| own.name().as_bytes() == name.as_bytes());
    own.map(|own| own.value().as_bytes())
}

#[test]
fn the_bytes_of_all_files_are_one_sequence() {
    let scratch = Scratch::new();
    let files = [("a", &b"first"[..]), ("b", b""), ("c", b"second")];
    let staging = files.iter().fold(Staging::new(), |staging, (name, content)| {
        staging.file(scratch.file(name, content, false)).unwrap()
    });
    assert_eq!((staging.bytes(), staging.files().len()), (11, 3));
    let mut source = StageSource::new(&staging);
    for begin in 0..11 {
        for end in begin..=11 {
            let mut bytes = vec![0; end - begin];
            source.read(begin as u64, &mut bytes).unwrap();
            assert_eq!(bytes, b"firstsecond"[begin..end]);
        }
    }
    assert!(source.read(8, &mut [0; 4]).is_err(), "beyond the end");
    std::fs::OpenOptions::new().write(true).open(scratch.0.join("c")).unwrap().set_len(2).unwrap();
    let why = source.read(0, &mut [0; 11]).unwrap_err().to_string();
    assert!(why.ends_with("c is shorter than before"), "{why}");
}

#[test]
fn a_file_that_takes_the_path_later_is_another_file() {
    let scratch = Scratch::new();
    let path = scratch.file("a", b"old", false);
    let staging = Staging::new().file(&path).unwrap();
    std::fs::rename(scratch.file("b", b"new", false), &path).unwrap();
    let mut bytes = [0; 3];
    StageSource::new(&staging).read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"old");
}

#[test]
fn different_files_of_one_name_are_refused_and_the_same_file_counts_once() {
    let scratch = Scratch::new();
    let (one, other) = (scratch.file("x/tool", b"one", true), scratch.file("y/tool", b"other", true));
    let staging = Staging::new().file(&one).unwrap().file(&one).unwrap();
    assert_eq!(staging.files().len(), 1);
    let refused = staging.file(&other).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("{} and {} have the same name, and are different files", one.display(), other.display())
    );
}

#[test]
fn what_is_no_readable_file_is_refused() {
    let scratch = Scratch::new();
    assert!(matches!(Staging::new().file(&scratch.0), Err(StagingError::NotAFile(_))));
    assert!(matches!(Staging::new().file(scratch.0.join("none")), Err(StagingError::Unreadable(..))));
    assert!(matches!(Staging::new().file("/"), Err(StagingError::NoName(_))));
}

#[test]
fn a_program_is_the_staged_file_by_its_name_or_by_its_path_at_the_front_end() {
    let scratch = Scratch::new();
    let path = scratch.file("tool", b"#!/bin/sh\n", true);
    scratch.file("other/tool", b"#!/bin/sh\n# other\n", true);
    symlink(&path, scratch.0.join("link")).unwrap();
    let staging = Staging::new().file(&path).unwrap().file(scratch.file("data", b"x", false)).unwrap();
    let started = |executable: &str| {
        let named = staging.named(program(executable, &[]));
        staging.adapt(&named, &word("/stage"), |_| None).executable.to_string()
    };
    let at = |name: &str| scratch.0.join(name).to_str().unwrap().to_owned();
    for staged in ["tool", "./tool", &at("tool"), &at("./other/../tool"), &at("link")] {
        assert_eq!(started(staged), "/stage/tool");
    }
    for other in ["tool2", "/bin/sh", "bin/tool", &at("other/tool"), "data", &at("data")] {
        assert_eq!(started(other), other);
    }
}

#[test]
fn programs_find_the_directory_and_libraries_come_first_in_their_path() {
    let scratch = Scratch::new();
    let plain = Staging::new().file(scratch.file("tool", b"#!/bin/sh\n", true)).unwrap();
    let with_libraries = plain.clone().with_libraries().unwrap();
    let path = |staging: &Staging, own: &[(&str, &str)], of_host: Option<&str>| {
        let program = staging.adapt(&program("tool", own), &word("/stage"), |name| {
            of_host.filter(|_| name == b"LD_LIBRARY_PATH").map(word)
        });
        assert_eq!(value(&program, "LIBI_STAGE"), Some(&b"/stage"[..]));
        value(&program, "LD_LIBRARY_PATH").map(|path| String::from_utf8(path.to_vec()).unwrap())
    };
    let own = [("LD_LIBRARY_PATH", "/own")];
    assert_eq!(path(&plain, &[], Some("/host")), None, "it is inherited as it is");
    assert_eq!(path(&with_libraries, &[], None).as_deref(), Some("/stage"));
    assert_eq!(path(&with_libraries, &[], Some("")).as_deref(), Some("/stage"));
    assert_eq!(path(&with_libraries, &[], Some("/host")).as_deref(), Some("/stage:/host"));
    assert_eq!(path(&with_libraries, &own, Some("/host")).as_deref(), Some("/stage:/own"));
}
