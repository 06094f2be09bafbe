//! An example that runs: what its head says, what it prints, and what is left of it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libi_testkit::native::{self, Link};
use libi_testkit::processes;

/// How long an example may take, on a machine that does much else.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Within this time after its end nothing is left of it: less than any wait in it, so that no wait
/// is needed for that.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// The variable by which its processes are found, wherever they have gone.
const MARK: &str = "LIBI_TEST_MARK";

/// A compiled example, removed when this is dropped: with the library in it, it has many megabytes.
pub(crate) struct Example(PathBuf);

/// Compiles an example.
pub(crate) fn example(source: &str, link: Link) -> Example {
    compiled(&format!("examples/{source}"), link, &[])
}

/// Compiles a program of this source, given from the root, with these flags.
pub(crate) fn compiled(source: &str, link: Link, flags: &[&str]) -> Example {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}.{}", source.replace(['/', '.'], "_"), COUNT.fetch_add(1, Relaxed));
    Example(native::compile(&name, &[source], link, flags))
}

impl Deref for Example {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // If it is gone that is fine.
        let _ = fs::remove_file(&self.0);
    }
}

/// A remote shell that reaches this machine alone, by whatever name.
pub(crate) fn shell() -> String {
    native::root().join("tests/examples/shell").to_str().unwrap().to_owned()
}

/// The lines that an example prints according to its head: those that are indented, after the
/// sentence that announces them.
pub(crate) fn head(source: &str) -> Vec<String> {
    let text = fs::read_to_string(native::root().join("examples").join(source)).unwrap();
    let comment = |line: &str| {
        let rest =
            line.strip_prefix(" *").or_else(|| line.strip_prefix("/*")).or_else(|| line.strip_prefix("//"));
        rest.map(|rest| rest.trim_end_matches("*/").to_owned())
    };
    let lines: Vec<String> = text.lines().map_while(comment).collect();
    let announced = lines.iter().position(|line| line.contains("t prints")).expect("it says what it prints");
    let indented = |line: &&String| line.starts_with("     ");
    let shown = lines[announced..].iter().skip_while(|line| !indented(line)).take_while(indented);
    shown.map(|line| line.trim().to_owned()).collect()
}

pub(crate) fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

/// The lines with N for each number that stands behind this text, and one space for many.
pub(crate) fn without_numbers(lines: &[String], behind: &str) -> Vec<String> {
    let plain = |line: &String| {
        let mut plain = String::new();
        let spaced = line.split_whitespace().collect::<Vec<_>>().join(" ");
        for character in spaced.chars() {
            if !character.is_ascii_digit() {
                plain.push(character);
            } else if plain.ends_with(behind) {
                plain.push('N');
            } else if !plain.ends_with(&format!("{behind}N")) {
                plain.push(character);
            }
        }
        plain
    };
    lines.iter().map(plain).collect()
}

/// An example that was started. When this is dropped nothing of it may be left.
pub(crate) struct Play {
    child: Child,
    input: Option<ChildStdin>,
    mark: String,
    coming: Receiver<String>,
    complaints: Option<std::thread::JoinHandle<String>>,
    lines: Vec<String>,
}

impl Play {
    pub(crate) fn start(program: &Path, args: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("example-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let mut command = Command::new(program);
        native::without_job(command.args(args).env(MARK, &mark));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (say, coming) = channel();
        std::thread::spawn(move || {
            // The receiver is gone when the test has failed.
            BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(say.send(line)));
        });
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read until it broke is what there is.
            let _ = err.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let input = child.stdin.take();
        Self { child, input, mark, coming, complaints: Some(complaints), lines: Vec::new() }
    }

    /// Listens until it has printed what is wanted. All that it has printed.
    pub(crate) fn until(&mut self, wanted: impl Fn(&[String]) -> bool) -> &[String] {
        let deadline = Instant::now() + TIMEOUT;
        while !wanted(&self.lines) {
            match self.coming.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.lines.push(line),
                Err(why) => panic!("it does not print what is wanted: {why}\n{:#?}", self.lines),
            }
        }
        &self.lines
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::try_from(signal).unwrap()).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// It ends with status 0 and no complaint. All that it has printed.
    pub(crate) fn ends_well(mut self) -> Vec<String> {
        self.close_input();
        let deadline = Instant::now() + TIMEOUT;
        while !self.has_ended() {
            assert!(Instant::now() < deadline, "it does not end; it has printed {:#?}", self.lines);
            self.lines.extend(self.coming.recv_timeout(Duration::from_millis(5)));
        }
        // This ends once no process is left that could print.
        self.nothing_is_left();
        self.lines.extend(self.coming.iter());
        let complaints = self.complaints.take().unwrap().join().unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success() && complaints.is_empty(), "{status}: {complaints}\n{:#?}", self.lines);
        std::mem::take(&mut self.lines)
    }

    /// Its processes but itself, with what they run. Of one that has ended nothing is said.
    pub(crate) fn others(&self) -> Vec<(i32, String)> {
        let mark = format!("{MARK}={}", self.mark);
        let all = processes::bearing(&mark).into_iter();
        let others = all.filter(|(pid, _)| pid.unsigned_abs() != self.child.id());
        let command = |pid: i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).replace('\0', " ")
        };
        others.map(|(pid, _)| (pid, command(pid))).collect()
    }

    /// Nothing is left of it, soon.
    pub(crate) fn nothing_is_left(&self) {
        let deadline = Instant::now() + SOON;
        loop {
            let left = self.others();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left after {SOON:?}: {left:#?}\n{:#?}", self.lines);
            // There is no event for the end of a process that is not a child.
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        // It has ended, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            for (pid, _) in self.others() {
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
        } else {
            self.nothing_is_left();
        }
    }
}
