//! What the tests of this room share: ways to start and to observe real processes, and deadlines.
//! Nothing waits by sleeping; what has to be waited for is an event, and a test that misses one
//! fails after [`TIMEOUT`].

mod closing;
mod ending;
mod failing;
mod roles;
mod starting;
mod watch;

use std::fs;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libi_core::dist::{EnvVar, OsBytes};

use super::{Child, Environment, ExitStatus, FdSource, Start, sys};

/// Much more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn word(text: impl AsRef<[u8]>) -> OsBytes {
    OsBytes::new(text.as_ref()).unwrap()
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar::new(word(name), word(value)).unwrap()
}

fn start(program: &str, args: &[&str]) -> Start<'static> {
    let mut start = Start::new(word(program), Environment::inherited());
    start.args = args.iter().map(word).collect();
    start
}

fn shell(script: &str) -> Start<'static> {
    start("/bin/sh", &["-c", script])
}

fn ends(child: &mut Child) -> ExitStatus {
    child.wait_for(TIMEOUT).expect("it ends in time")
}

/// What a process writes to its standard output, and how it ends.
fn output(start: &Start<'_>) -> (String, ExitStatus) {
    let (pipe, theirs) = std::io::pipe().unwrap();
    let mut child = start.clone().fd(1, theirs.as_fd()).start().unwrap();
    drop(theirs);
    let text = read(pipe);
    (text, ends(&mut child))
}

/// All that comes before the last process that could write has gone.
fn read(mut pipe: PipeReader) -> String {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        assert!(sys::await_readable(pipe.as_fd(), TIMEOUT), "no end of output");
        match pipe.read(&mut chunk).unwrap() {
            0 => return String::from_utf8(text).unwrap(),
            read => text.extend_from_slice(&chunk[..read]),
        }
    }
}

/// A shell that has said it is up, and goes on as soon as this is dropped. What it looks like
/// meanwhile can be read from `/proc`.
struct Paused {
    child: Child,
    _go_on: PipeWriter,
}

/// Starts this with a shell as the program, and waits until the shell is the one who runs.
fn paused(start: &Start<'_>) -> Paused {
    let (theirs, go_on) = std::io::pipe().unwrap();
    let (mut up, says_up) = std::io::pipe().unwrap();
    let mut start = start.clone().fd(0, theirs.as_fd()).fd(1, says_up.as_fd());
    (start.program, start.args) = (word("/bin/sh"), vec![word("-c"), word("echo up; read line")]);
    let child = start.start().unwrap();
    assert!(sys::await_readable(up.as_fd(), TIMEOUT));
    up.read_exact(&mut [0; 3]).unwrap();
    Paused { child, _go_on: go_on }
}

impl Paused {
    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.child.pid()))
    }

    fn status(&self) -> String {
        fs::read_to_string(self.proc("status")).unwrap()
    }

    fn descriptors(&self) -> Vec<u32> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap().parse().unwrap();
        let mut fds: Vec<u32> =
            self.proc("fd").read_dir().unwrap().map(|entry| name(entry.unwrap())).collect();
        fds.sort_unstable();
        fds
    }
}

/// What a file like `/proc/PID/status` says of this.
fn line<'a>(status: &'a str, key: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(":\t")).unwrap()
}

/// A directory of its own for a test, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("libi-process-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    /// Written by another process: while we have a file open for writing, a child that another test
    /// is just starting has it too, and it cannot be executed.
    fn file(&self, name: &str, mode: u32, content: &[u8]) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let (theirs, ours) = std::io::pipe().unwrap();
        let path = path.to_str().unwrap().to_owned();
        let script = format!("cat > '{path}' && chmod {mode:o} '{path}'");
        let mut child = shell(&script).fd(0, theirs.as_fd()).start().unwrap();
        drop(theirs);
        std::io::Write::write_all(&mut &ours, content).unwrap();
        drop(ours);
        assert_eq!(ends(&mut child), ExitStatus::Code(0));
        path
    }

    fn word(&self) -> OsBytes {
        word(self.0.to_str().unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether there is a process of this number that is not a zombie.
fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
