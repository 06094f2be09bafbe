//! Finds the programs that tests start: those of the test kit, `libi`, and `libi-ssh`.
//!
//! `LIBI_TEST_PROGRAMS` names the directory that has them, and the library for C; `.config/nextest.toml`
//! sets it. Without it the first call in a process has cargo build them, with the profile of that process
//! and into its target directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use libi_launch::ssh_client::CLIENT_PROGRAM;

const DIRECTORY: &str = "LIBI_TEST_PROGRAMS";

/// The program `libi`.
pub fn libi() -> &'static str {
    program("libi-cli", "libi")
}

/// The program that leads hosts.
pub fn agent() -> &'static str {
    program("libi-cli", "libi-agent")
}

/// The stand-in for ssh.
pub fn shell() -> &'static str {
    program("libi-testkit", "libi-test-shell")
}

/// The stand-in for programs that start many hosts.
pub fn starter() -> &'static str {
    program("libi-testkit", "libi-test-starter")
}

/// The starter whose hosts all arrive at once, from one process.
pub fn arrivals() -> &'static str {
    program("libi-testkit", "libi-test-arrivals")
}

/// The program that tests launch.
pub fn member() -> &'static str {
    program("libi-testkit", "libi-test-member")
}

/// The front end that tests kill.
pub fn front() -> &'static str {
    program("libi-testkit", "libi-test-front")
}

/// Decodes the secret of a session.
pub fn secret() -> &'static str {
    program("libi-testkit", "libi-test-secret")
}

/// The client of ssh that holds many connections.
pub fn ssh_client() -> &'static str {
    program("libi-ssh", CLIENT_PROGRAM)
}

/// The server of ssh that costs little.
pub fn sshd() -> &'static str {
    program("libi-test-sshd", "libi-test-sshd")
}

/// The virtual network.
pub fn network() -> &'static str {
    program("libi-testkit", "libi-test-network")
}

/// The root of the sources.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A directory for what tests make: that which cargo calls `CARGO_TARGET_TMPDIR`.
pub fn scratch() -> &'static Path {
    static MADE: LazyLock<PathBuf> = LazyLock::new(|| {
        let scratch = built().with_file_name("tmp");
        std::fs::create_dir_all(&scratch).unwrap();
        scratch
    });
    &MADE
}

/// The directory of the programs that were built with this one. It has the name of their profile.
fn built() -> PathBuf {
    let mut directory = std::env::current_exe().unwrap();
    directory.pop();
    if directory.ends_with("deps") {
        directory.pop();
    }
    directory
}

/// The directory of what was built for the tests before they began.
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

fn program(package: &'static str, name: &'static str) -> &'static str {
    static FOUND: Mutex<BTreeMap<&str, &str>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.entry(name).or_insert_with(|| {
        let directory = directory().unwrap_or_else(|| build(package));
        let path = directory.join(name);
        assert!(path.is_file(), "there is no {}", path.display());
        path.into_os_string().into_string().unwrap().leak()
    })
}

/// Has cargo build the programs of a package. Takes half a second where nothing has changed.
fn build(package: &str) -> PathBuf {
    let directory = built();
    let profile = match directory.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        profile => profile,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", package, "--bins", "--profile", profile]);
    cargo.arg("--target-dir").arg(directory.parent().unwrap()).current_dir(root());
    let status = cargo.status().unwrap();
    assert!(status.success(), "the programs are not built: {cargo:?}");
    directory
}
