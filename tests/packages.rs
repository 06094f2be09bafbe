//! Tests of the installation by `packaging/install` and, where cargo-c is there, by `cargo cinstall`,
//! and of programs built against it with pkg-config and CMake.
//!
//! They need optimised builds and programs that are not installed everywhere. So they run only with
//! `LIBI_PACKAGES=1`, which a full `tests/run` sets, or `CI=true`; then a missing program is a failure.
//! Otherwise each test reports that it was skipped.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "packages/examples.rs"]
mod examples;
#[path = "packages/other_rust.rs"]
mod other_rust;
#[path = "packages/programs.rs"]
mod programs;
#[path = "packages/tree.rs"]
mod tree;
#[path = "packages/versions.rs"]
mod versions;

use std::process::Command;
use std::time::Duration;

use libi_testkit::native;

/// How long a step may take on a busy machine. The longest step builds everything.
const TIMEOUT: Duration = Duration::from_secs(900);

/// Whether these tests are enabled.
fn enabled() -> bool {
    let is_set = |name: &str, what: &str| std::env::var(name).is_ok_and(|value| value == what);
    let asked = is_set("LIBI_PACKAGES", "1") || is_set("CI", "true");
    if !asked {
        eprintln!("skipped: this test needs cmake, pkg-config and LIBI_PACKAGES=1");
    }
    asked
}

/// Runs a command that has to succeed and returns its standard output.
fn run_successfully(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let ended = native::run_command(command, TIMEOUT);
    assert_eq!(ended.code, Some(0), "{shown}\n{}\n{}", ended.out, ended.err);
    ended.out
}
