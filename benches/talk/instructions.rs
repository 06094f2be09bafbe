//! How many instructions of programs and libraries a call takes, by callgrind of valgrind: a figure
//! that other load on the machine does not change.

use std::path::Path;
use std::process::{Command, Stdio};

use libi_testkit::programs;

/// So many calls in two sessions. The difference leaves out what a session costs.
const CALLS: [usize; 2] = [1_000, 3_000];

/// Prints for each call how many instructions it takes at each host. The hosts are alike as far as
/// that: each sends or receives one message for a call with a root, and both for a barrier.
pub(crate) fn instructions() {
    println!("\ninstructions for a call and host, 2 hosts × 1, 64 bytes, direct links, authenticated");
    for place in ["authenticated", "authenticated,apart", "authenticated,apart,continue"] {
        for call in ["broadcast", "scatter", "gather", "reduce", "barrier"] {
            let [few, many] = CALLS.map(|times| of_session(place, call, times));
            let each = (many - few) / (CALLS[1] - CALLS[0]) / 2;
            println!("{place:<28} {call:<10} {each:>8}");
        }
    }
}

/// The instructions of all processes of a session.
fn of_session(place: &str, call: &str, times: usize) -> usize {
    let directory = std::env::temp_dir().join(format!("libi-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let counts = directory.join("%p");
    // Built here, not under valgrind.
    let shell = programs::shell();
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--trace-children=yes"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["try", "2", "1", place, "row", "64", &times.to_string(), call])
        .env("LIBI_TEST_PROGRAMS", Path::new(shell).parent().unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("valgrind has to be installed");
    assert!(ran.success(), "{ran}");
    let files = std::fs::read_dir(&directory).unwrap();
    let sum = files.map(|file| total(&file.unwrap().path())).sum();
    std::fs::remove_dir_all(&directory).unwrap();
    sum
}

/// What a file of callgrind counts in all.
fn total(file: &Path) -> usize {
    let counts = std::fs::read_to_string(file).unwrap();
    counts.lines().find_map(|line| line.strip_prefix("totals: ")).map_or(0, |count| count.parse().unwrap())
}
