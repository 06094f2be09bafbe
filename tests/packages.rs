//! libi as it is installed for programs in C and C++: by `packaging/install` and by `cargo cinstall`, and what is built from there with
//! pkg-config and CMake.
//!
//! It takes optimised builds, and programs that not everybody has. So it is asked for with `LIBI_PACKAGES=1`, as the full run of
//! `tests/run` does, or `CI=true`; what is missing then is a failure. Otherwise the tests say that they were not tried.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "packages/examples.rs"]
mod examples;
#[allow(dead_code, unreachable_pub, reason = "it is shared")]
mod native;
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

/// How long a step may take on a machine that does much else: the longest builds everything.
const TIMEOUT: Duration = Duration::from_secs(900);

/// Whether packages are to be tried.
fn enabled() -> bool {
    let is_set = |name: &str, what: &str| std::env::var(name).is_ok_and(|value| value == what);
    let asked = is_set("LIBI_PACKAGES", "1") || is_set("CI", "true");
    if !asked {
        eprintln!("not tried: this needs cmake, pkg-config and cargo-c, and LIBI_PACKAGES=1");
    }
    asked
}

/// What a command prints when it does what it should.
fn run_successfully(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let ended = native::run_command(command, TIMEOUT);
    assert_eq!(ended.code, Some(0), "{shown}\n{}\n{}", ended.out, ended.err);
    ended.out
}
