//! Processes that keep a process table as launchers do, and processes that do not: what is read from them,
//! and what is said of them. None is ever stopped or traced.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use libi_core::ids::Rank;
use libi_job::{AttachError, Flaw, Job, LauncherKind, ProcessTable};

const SOON: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_secs(20);

/// A directory for this run, which others may enter.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("launchers");
        std::fs::create_dir_all(&path).unwrap();
        path
    })
}

fn compile(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let program = directory().join(name);
    let source = format!("{}/tests/launchers/{source}.c", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source).args(flags);
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    program
}

/// A launcher that runs, and ends with this value.
struct Launcher {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Launcher {
    fn of(program: &Path, words: &[&str]) -> Self {
        Self::start(Command::new(program).args(words))
    }

    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut launcher = Self { input: child.stdin.take().unwrap(), child, output };
        launcher.ready();
        launcher
    }

    fn ready(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    /// It does the next thing, and says so.
    fn next(&mut self) {
        self.input.write_all(b"x").unwrap();
        self.ready();
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn attach(&self, timeout: Duration) -> Result<Job, AttachError> {
        let job = Job::attach(self.pid(), timeout);
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
        job
    }

    /// The flaw of its table, at the timeout.
    fn flaw(&self) -> Flaw {
        match self.attach(SOON).unwrap_err() {
            AttachError::Flawed { flaw, pid, waited, .. } => {
                assert!(pid == self.pid() && waited >= SOON);
                flaw
            }
            other => panic!("{other}"),
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_all(table: &ProcessTable, count: u32) {
    assert_eq!(table.len(), count as usize);
    for rank in 0..count {
        let process = table.get(Rank(rank)).unwrap();
        let expected = (format!("n{}", rank / 4), "/opt/solver".to_owned(), 1000 + rank as i32);
        assert_eq!((process.host.to_owned(), process.executable.to_string(), process.pid), expected);
    }
}

#[test]
fn launchers_of_all_kinds_of_executables_are_read() {
    for (name, flags) in [
        ("moves", &["-fPIE", "-pie"][..]),
        ("stays", &["-no-pie"]),
        ("static", &["-static"]),
        ("static-moves", &["-static-pie"]),
        ("exports", &["-rdynamic", "-s"]),
    ] {
        let launcher = Launcher::of(&compile(name, "launcher", flags), &["plain"]);
        let job = launcher.attach(TIMEOUT).unwrap_or_else(|error| panic!("{name}: {error}"));
        has_all(job.processes(), 8);
        assert_eq!(
            (job.launcher_pid(), job.kind(), job.is_running()),
            (launcher.pid(), LauncherKind::Other, true)
        );
        assert!(job.launcher().to_string().ends_with(&format!("/{name}")), "{}", job.launcher());
    }
}

#[test]
fn a_table_in_a_library_is_found() {
    let library = compile("libtable.so", "library", &["-shared", "-fPIC", "-s"]);
    let own = format!("-Wl,-rpath,{}", directory().display());
    // Of the variables, the program has copies or refers to those of the library.
    for (name, flag) in [("copies", "-fPIE"), ("refers", "-fPIC")] {
        let flags = ["-DIN_LIBRARY", flag, library.to_str().unwrap(), &own];
        let launcher = Launcher::of(&compile(name, "launcher", &flags), &["plain"]);
        has_all(launcher.attach(TIMEOUT).unwrap().processes(), 8);
    }
}

#[test]
fn a_table_of_100_000_processes_is_read() {
    let launcher = Launcher::of(&compile("large", "launcher", &[]), &["plain", "100000"]);
    has_all(launcher.attach(TIMEOUT).unwrap().processes(), 100_000);
}

#[test]
fn a_table_is_awaited_that_is_empty_or_half_written() {
    let mut launcher = Launcher::of(&compile("late", "launcher", &[]), &["late"]);
    assert_eq!(launcher.flaw(), Flaw::Empty);
    launcher.next();
    assert_eq!(launcher.flaw(), Flaw::NoPid(7, 0));
    let pid = launcher.pid();
    let waits = std::thread::spawn(move || Job::attach(pid, TIMEOUT));
    launcher.next();
    has_all(waits.join().unwrap().unwrap().processes(), 8);
}

#[test]
fn tables_that_are_of_no_use_are_refused_for_what_is_wrong_in_them() {
    let program = compile("wrong", "launcher", &[]);
    for (words, flaw, said) in [
        (&["wild"][..], Flaw::NoMemory(1), "entry 1 leads to no memory of the launcher"),
        (&["no-host"], Flaw::NoMemory(2), "entry 2 leads to no memory of the launcher"),
        (&["no-name"], Flaw::NoName(3), "entry 3 has no name of a host and of an executable"),
        (&["no-text"], Flaw::NoName(4), "entry 4 has no name of a host and of an executable"),
        (&["no-end"], Flaw::NoName(5), "entry 5 has no name of a host and of an executable"),
        (&["no-pid"], Flaw::NoPid(6, -7), "entry 6 has process ID -7, which no process has"),
        (&["no-table"], Flaw::NoTable, "the table is not in the launcher's memory"),
        (&["plain", "0"], Flaw::Empty, "it has no processes: perhaps none is started yet"),
        (&["size", "-5"], Flaw::NoSize(-5), "it has -5 processes, which no job has"),
        (&["size", "20000000"], Flaw::NoSize(20_000_000), "it has 20000000 processes, which no job has"),
    ] {
        let launcher = Launcher::of(&program, words);
        assert_eq!(launcher.flaw(), flaw, "{words:?}");
        let error = launcher.attach(SOON).unwrap_err().to_string();
        assert!(error.contains("/wrong) is of no use after 3") && error.ends_with(said), "{error}");
    }
}

#[test]
fn a_launcher_whose_file_is_gone_is_read_all_the_same() {
    let program = compile("gone", "launcher", &[]);
    let launcher = Launcher::of(&program, &["plain"]);
    std::fs::remove_file(&program).unwrap();
    has_all(launcher.attach(TIMEOUT).unwrap().processes(), 8);
}

#[test]
fn processes_that_are_no_launchers_are_named_for_what_they_are() {
    let plain = compile("tableless", "launcher", &["-DNO_TABLE"]);
    let error = Launcher::of(&plain, &["plain"]).attach(SOON).unwrap_err();
    assert!(matches!(&error, AttachError::NoLauncher { libraries: 1.., is_stripped: false, .. }), "{error}");
    let hidden = compile("hidden", "launcher", &["-s"]);
    let error = Launcher::of(&hidden, &["plain"]).attach(SOON).unwrap_err();
    assert!(error.to_string().ends_with("has one, and its own symbols were stripped"), "{error}");
    let stripped = compile("stripped", "launcher", &["-static", "-s"]);
    let error = Launcher::of(&stripped, &["plain"]).attach(SOON).unwrap_err();
    assert!(matches!(&error, AttachError::Stripped { .. }), "{error}");
    for pid in [0, -1, i32::MAX] {
        assert!(matches!(Job::attach(pid, SOON), Err(AttachError::NoProcess { pid: of }) if of == pid));
    }
}

#[test]
fn a_launcher_that_has_ended_is_not_taken_for_one_that_runs() {
    let mut launcher = Launcher::of(&compile("ends", "launcher", &[]), &["plain"]);
    let job = launcher.attach(TIMEOUT).unwrap();
    launcher.child.kill().unwrap();
    // It has ended, and its parent has not noticed.
    let error = loop {
        match Job::attach(launcher.pid(), SOON) {
            Ok(_) | Err(AttachError::Flawed { .. }) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, AttachError::Ended { .. }), "{error}");
    launcher.child.wait().unwrap();
    assert!(matches!(Job::attach(launcher.pid(), SOON), Err(AttachError::NoProcess { .. })));
    assert!(!job.is_running());
}

/// The variable that names a launcher to a test that is played.
const ROLE: &str = "LIBI_JOB_TEST_LAUNCHER";

#[test]
#[ignore = "is played for another test, by another user"]
fn plays_a_tool() {
    let Ok(pid) = std::env::var(ROLE) else { return };
    println!("{}", Job::attach(pid.parse().unwrap(), SOON).unwrap_err());
}

/// What another user is told that attaches.
fn attach_as(user: u32, pid: i32) -> String {
    let copy = std::env::temp_dir().join(format!("libi-job-{}-{user}-{pid}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut tool = Command::new(&copy);
    tool.args(["--exact", "--ignored", "--nocapture", "plays_a_tool"]).env(ROLE, pid.to_string());
    let output = tool.uid(user).current_dir("/").output().unwrap();
    std::fs::remove_file(copy).unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_the_system_forbids_is_said_with_what_would_allow_it() {
    if !nix::unistd::geteuid().is_root() {
        return; // only root can be several users
    }
    let program = compile("forbidden", "launcher", &[]);
    let copy = std::env::temp_dir().join(format!("libi-job-launcher-{}", std::process::id()));
    std::fs::copy(program, &copy).unwrap();
    let other = Launcher::start(Command::new(&copy).arg("plain"));
    let said = attach_as(65_534, other.pid());
    assert!(said.contains("belongs to user 0: only that user and root"), "{said}");
    let guarded = Launcher::start(Command::new(&copy).arg("guarded").uid(65_534).current_dir("/"));
    let said = attach_as(65_534, guarded.pid());
    assert!(said.contains("may not be read") || said.contains("ptrace_scope"), "{said}");
    has_all(guarded.attach(TIMEOUT).unwrap().processes(), 8); // root may
    std::fs::remove_file(copy).unwrap();
}
