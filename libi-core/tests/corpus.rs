//! The fuzz corpora as ordinary tests.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use libi_test_core::inputs;

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
    replay("corpus", "frames", inputs::check_frames);
}

#[test]
fn the_handshake_corpus_holds() {
    replay("corpus", "handshake", inputs::check_handshake);
}

#[test]
fn the_host_corpus_holds() {
    replay("corpus", "hosts", inputs::check_hosts);
}

#[test]
fn the_frame_regressions_hold() {
    replay("regressions", "frames", inputs::check_frames);
}

#[test]
fn the_handshake_regressions_hold() {
    replay("regressions", "handshake", inputs::check_handshake);
}

#[test]
fn the_host_regressions_hold() {
    replay("regressions", "hosts", inputs::check_hosts);
}
