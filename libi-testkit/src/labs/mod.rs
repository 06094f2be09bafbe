//! Laboratories: hosts with real servers on this machine, for tests that need more of it than
//! libi's own programs.
//!
//! The scripts in `libi-testkit/labs/` set them up and take them down. They need root, and packages that
//! `tests/run` installs; they are asked for with `LIBI_LABS=1`, as it does, or `CI=true`. Then a
//! laboratory that cannot be had is a failure. Otherwise tests that need one say so, and are over.
//!
//! There is one laboratory of a kind on a machine at a time: a test run waits until it is free. It
//! is shared by the tests of a process and goes with the last of them; if that was killed, with the
//! next that comes up.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};

use crate::programs;

mod marked;
pub mod netns;
mod rsh;
mod slurm;
mod sshd;

pub use marked::{MARK, Marked, Process};
pub use rsh::Rshd;
pub use slurm::Slurm;
pub use sshd::Sshd;

/// How long another test run may use the laboratory.
const OTHERS: Duration = Duration::from_secs(600);
/// How long processes may take to end after their session.
const LEFTOVERS: Duration = Duration::from_secs(10);

/// Whether tests are to use laboratories.
pub fn are_asked_for() -> bool {
    let says = |name: &str, what: &str| std::env::var(name).is_ok_and(|value| value == what);
    let asked = says("LIBI_LABS", "1") || says("CI", "true");
    if !asked {
        eprintln!("not tried: this needs a laboratory, root, and LIBI_LABS=1");
    }
    asked
}

/// A script.
struct Script(&'static str);

impl Script {
    fn file(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("labs").join(self.0)
    }

    /// Has it done what these words say.
    fn run(&self, words: &[&str]) {
        let script = self.file();
        let done = Command::new(&script).args(words).output();
        let done = done.unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{} {words:?}: {}\n{said}", script.display(), done.status);
    }

    /// Where it keeps what it makes.
    fn state(&self) -> PathBuf {
        PathBuf::from("/var/lib/libi-lab").join(self.0)
    }

    /// A file of the laboratory.
    fn path(&self, file: &str) -> String {
        self.state().join(file).into_os_string().into_string().unwrap()
    }

    /// Puts the program that tests launch where its users may execute it.
    fn bring_member(&self) {
        self.bring(programs::member(), "member");
    }

    /// Puts a program where its users may execute it, who may have no access to where it was built, and
    /// returns its path there.
    fn bring(&self, program: &str, name: &str) -> String {
        let path = self.path(name);
        fs::copy(program, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Has it taken down.
    fn take_down(&self) {
        if std::thread::panicking() {
            // Whatever is wrong with this as well, the first failure is to be seen.
            let _ = std::panic::catch_unwind(|| self.run(&["down"]));
        } else {
            self.run(&["down"]);
        }
    }
}

/// Exclusive use of this laboratory on this machine.
struct Alone(#[allow(dead_code, reason = "it is let go of when it is dropped")] Flock<File>);

impl Alone {
    /// Waits for it. There is nothing to be left behind: what is locked is a file that is there
    /// anyway.
    fn with(program: &str) -> Self {
        let mut file = File::open(program).unwrap_or_else(|error| panic!("{program}: {error}"));
        let deadline = Instant::now() + OTHERS;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Self(lock),
                Err((back, _)) => file = back,
            }
            assert!(Instant::now() < deadline, "another test run has had the laboratory for {OTHERS:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Waits until it has happened.
pub fn within(timeout: Duration, what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !happened() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
