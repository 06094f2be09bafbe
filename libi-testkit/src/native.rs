//! Compiles C and C++ programs against the library, as its users do, and runs them.
//!
//! The library is in the directory that `LIBI_TEST_PROGRAMS` names, see [`programs`](crate::programs).
//! Without it cargo builds the library into the directory `native` beside that of the tests; for benches as
//! a release.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use crate::programs::{root, scratch};

/// How the library is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// As `liblibi.so`, found by its path.
    Shared,
    /// As `liblibi.a`.
    Static,
}

/// The libraries that `liblibi.a` needs.
pub const PRIVATE: [&str; 4] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread"];

/// Warnings, which are errors.
const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-g", "-O1"];

/// Ends a program as soon as it misuses memory, and with an error if it has leaks.
pub const SANITIZERS: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// Arguments of `valgrind`: errors and leaks make the program fail. A forked child leaves its parent's
/// memory, and is not checked.
pub const VALGRIND: [&str; 5] = [
    "--quiet",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite,indirect,possible",
    "--error-exitcode=9",
    "--child-silent-after-fork=yes",
];

/// Whether to run the tests with valgrind, which take minutes: if `LIBI_VALGRIND=1` (as in the full run
/// of `tests/run`) or `CI=true`. Otherwise they print that they were skipped.
pub fn is_valgrind_asked_for() -> bool {
    let says = |name: &str, what: &str| std::env::var(name).is_ok_and(|value| value == what);
    let asked = says("LIBI_VALGRIND", "1") || says("CI", "true");
    if !asked {
        eprintln!("skipped: this needs valgrind, and LIBI_VALGRIND=1");
    }
    asked
}

/// The directory in which `liblibi.so` and `liblibi.a` are.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let place = crate::programs::directory().unwrap_or_else(build);
        let place = place.canonicalize().expect("the library is there");
        // Programs ask for it by this name. Other tests may make the link at the same time.
        if let Err(error) = symlink("liblibi.so", place.join(soname())) {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{}: {error}", place.display());
        }
        place
    })
}

/// Has cargo build the library; returns its directory.
fn build() -> PathBuf {
    let target = scratch().join("../native");
    let mut cargo = Command::new(env!("CARGO"));
    let (profile, place) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    cargo.args(["build", "--quiet", "--profile", profile, "--package", "libi-ffi"]);
    let built = cargo.arg("--target-dir").arg(&target).current_dir(root()).status();
    assert!(built.expect("cargo is started").success(), "the library is not built: {cargo:?}");
    target.join(place)
}

/// The soname of `liblibi.so`: before 1.0 it has the minor version, later the major one only.
pub fn soname() -> String {
    let series = match (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR")) {
        ("0", minor) => format!("0.{minor}"),
        (major, _) => major.to_owned(),
    };
    format!("liblibi.so.{series}")
}

/// Compiles a program from these sources, relative to the root, with these further flags.
///
/// # Panics
/// The compiler has errors or warnings.
pub fn compile(name: &str, sources: &[&str], link: Link, flags: &[&str]) -> PathBuf {
    let is_cpp = sources.iter().any(|source| source.ends_with(".cpp"));
    let (compiler, standard) = if is_cpp { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
    // Each process compiles for itself: several may do so at a time.
    let program = scratch().join(format!("{name}.{link:?}.{}", std::process::id()));
    let mut command = Command::new(compiler);
    command.arg(standard).arg("-D_GNU_SOURCE").args(WARNINGS).arg("-I").arg(root().join("include"));
    command.args(sources.iter().map(|source| root().join(source))).arg("-o").arg(&program).args(flags);
    let library = library();
    match link {
        Link::Shared => {
            // As RPATH, which has precedence over cargo's LD_LIBRARY_PATH, where an older library may be.
            let path = format!("-Wl,--disable-new-dtags,-rpath,{}", library.display());
            command.arg("-L").arg(library).arg(path).arg("-llibi")
        }
        Link::Static => command.arg(library.join("liblibi.a")).args(PRIVATE),
    };
    let said = command.args(["-lm", "-ldl"]).output().expect("there is a compiler");
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && text.is_empty(), "{command:?}\n{text}");
    program
}

/// Hides the batch job that the tests may run in from a program.
pub fn without_job(command: &mut Command) -> &mut Command {
    for name in [
        "SLURM_STEP_NODELIST",
        "SLURM_JOB_NODELIST",
        "SLURM_NODELIST",
        "LSB_MCPU_HOSTS",
        "LSB_DJOB_HOSTFILE",
        "PBS_NODEFILE",
        "PE_HOSTFILE",
    ] {
        command.env_remove(name);
    }
    command
}

/// The result of a program.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Runs a program to its end.
///
/// # Panics
/// It does not end in this time; it is killed then.
pub fn run<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, args: &[A], timeout: Duration) -> Ended {
    let mut command = Command::new(program);
    run_command(command.args(args), timeout)
}

/// As [`run`], with whatever else the command says.
///
/// # Panics
/// It cannot be started, or does not end in this time; it is killed then.
pub fn run_command(command: &mut Command, timeout: Duration) -> Ended {
    let shown = format!("{command:?}");
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
    let reader = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read until it broke is what there is.
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = reader(Box::new(child.stdout.take().expect("it is piped")));
    let err = reader(Box::new(child.stderr.take().expect("it is piped")));
    let deadline = Instant::now() + timeout;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break Some(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        // The system tells of a child's end by a signal, which a library of tests must not catch.
        std::thread::sleep(Duration::from_millis(5));
    };
    let (out, err) = (out.join().expect("it reads"), err.join().expect("it reads"));
    let Some(status) = status else { panic!("{shown} did not end in {timeout:?}\n{out}\n{err}") };
    Ended { code: status.code(), out, err }
}
