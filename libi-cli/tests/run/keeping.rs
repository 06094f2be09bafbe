//! `libi run --detached` and `libi attach`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libi_testkit::programs;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{LIBI, outcome};

/// A directory for a ticket file; a session that has one is ended.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = programs::scratch().join(format!("keeping-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        Self(place)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Starts `libi run --detached` with these words.
    fn start(&self, words: &[&str]) -> Child {
        let mut command = Command::new(LIBI);
        command.args(["run", "--backend", "local", "--detached", "10m", "--ticket", &self.path("ticket")]);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn attach(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(LIBI);
        command.arg("attach").arg(self.path("ticket")).args(words).stdin(Stdio::null());
        outcome(&command.output().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if Path::new(&self.path("ticket")).exists() {
            self.attach(&["--end"]);
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// A program that prints a line, makes a file, waits for another, and prints a second line.
fn script(place: &Place) -> String {
    let (here, go) = (place.path("here"), place.path("go"));
    format!(
        "echo first; : >{here}.$LIBI_RANK; until [ -e {go} ]; do sleep 0.01; done; echo second; exit $LIBI_RANK"
    )
}

#[test]
fn processes_go_on_when_the_program_is_killed_and_are_found_again() {
    for how in [Signal::SIGKILL, Signal::SIGHUP] {
        let place = Place::new(how.as_str());
        let run = place.start(&["-n", "2", "sh", "-c", &script(&place)]);
        eventually("both have begun", || {
            (0..2).all(|rank| Path::new(&place.path(&format!("here.{rank}"))).exists())
        });
        signal(&run, how);
        let run = run.wait_with_output().unwrap();
        assert_eq!(run.status.code(), (how == Signal::SIGHUP).then_some(0));
        let (status, out, err) = place.attach(&["--status"]);
        assert_eq!((status, &*err), (0, ""));
        assert!(out.contains("running: ranks 0-1\nended: none\nlost: none\n"), "{out}");
        std::fs::write(place.path("go"), "").unwrap();
        let (status, out, err) = place.attach(&["--tag"]);
        let mut lines: Vec<&str> = out.lines().filter(|line| line.ends_with("second")).collect();
        lines.sort_unstable();
        assert_eq!((status, lines), (1, vec!["[0] second", "[1] second"]), "{err}");
        assert_eq!(err, "libi: rank 1 on localhost exited 1\n");
        let (status, _, err) = place.attach(&[]);
        assert!(status == 3 && err.contains("cannot be read"), "{err}");
    }
}

#[test]
fn an_interrupt_ends_the_processes_and_so_does_the_end_that_is_asked_for() {
    let place = Place::new("ended");
    let run = place.start(&["-n", "2", "sh", "-c", &script(&place)]);
    eventually("one has begun", || Path::new(&place.path("here.0")).exists());
    signal(&run, Signal::SIGINT);
    let (status, _, err) = outcome(&run.wait_with_output().unwrap());
    assert!(status == 130 && err.contains("terminating the session"), "{err}");
    eventually("the ticket file is removed", || !Path::new(&place.path("ticket")).exists());

    let mut run = place.start(&["-n", "2", "sh", "-c", &script(&place)]);
    eventually("there is a ticket file", || Path::new(&place.path("ticket")).exists());
    eventually("it is up", || place.attach(&["--status"]).1.contains("joined"));
    // The first has it no more.
    assert_eq!(run.wait().unwrap().code(), Some(4));
    assert_eq!(place.attach(&["--end"]).0, 0);
    eventually("the ticket file is removed", || !Path::new(&place.path("ticket")).exists());
}

#[test]
fn input_is_passed_on_by_whoever_follows() {
    let place = Place::new("input");
    let mut command = Command::new(LIBI);
    command.args([
        "run",
        "--backend",
        "local",
        "--detached",
        "10m",
        "--ticket",
        &place.path("ticket"),
        "cat",
    ]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(run.stdin.as_mut().unwrap(), b"one\n").unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(run.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "one\n");
    run.kill().unwrap();
    run.wait().unwrap();
    let mut command = Command::new(LIBI);
    command.arg("attach").arg(place.path("ticket")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut attached = command.spawn().unwrap();
    std::io::Write::write_all(&mut attached.stdin.take().unwrap(), b"two\n").unwrap();
    let (status, out, _) = outcome(&attached.wait_with_output().unwrap());
    assert_eq!((status, &*out), (0, "two\n"));
}
