//! The fuzz corpora as ordinary tests.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

#[path = "../../fuzz/checks.rs"]
#[allow(unreachable_pub)] // It is the library of the fuzz crate, where these functions are public.
mod checks;

/// Passes every file of `fuzz/<folder>/<target>` to `check`. An empty folder is an error: it has
/// been moved, and the test would pass for ever.
fn replay(folder: &str, target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(folder).join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no inputs", folder.display());
    for file in files {
        let input = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&input))) {
            eprintln!("this input fails: {}", file.display());
            resume_unwind(panic);
        }
    }
}

#[test]
fn the_frame_corpus_holds() {
    replay("corpus", "frames", checks::check_frames);
}

#[test]
fn the_handshake_corpus_holds() {
    replay("corpus", "handshake", checks::check_handshake);
}

#[test]
fn the_host_corpus_holds() {
    replay("corpus", "hosts", checks::check_hosts);
}

#[test]
fn the_frame_regressions_hold() {
    replay("regressions", "frames", checks::check_frames);
}

#[test]
fn the_handshake_regressions_hold() {
    replay("regressions", "handshake", checks::check_handshake);
}

#[test]
fn the_host_regressions_hold() {
    replay("regressions", "hosts", checks::check_hosts);
}
