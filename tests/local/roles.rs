//! Front ends that a test can kill: this test program, executed again.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use libi::{Event, FrontEnd, HostList, LaunchOptions};

use super::lab::*;

/// What it is to launch, and the mark of that.
const ROLE: &str = "LIBI_TEST_ROLE";
const ROLE_MARK: &str = "LIBI_TEST_ROLE_MARK";
/// What its lines begin with, among those of the test harness.
const SAYS: &str = "front end: ";

#[test]
#[ignore = "is played for other tests, in a process of its own"]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<_> = role.split('\n').collect();
    play(&std::env::var(ROLE_MARK).unwrap(), words[0], &words[1..]);
}

/// Has a test played in a process of its own, because what it does or measures concerns a process as a whole. False in
/// that process.
pub(crate) fn plays_alone(test: &str) -> bool {
    const ALONE: &str = "LIBI_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    let played = command.output().unwrap();
    let said = String::from_utf8_lossy(&[played.stdout, played.stderr].concat()).into_owned();
    assert!(played.status.success() && said.contains("1 passed"), "{said}");
    true
}

fn say(what: &str) {
    println!("{SAYS}{what}");
}

/// Launches, tells what happens, and ends with its standard input.
///
/// On every host there are a leader and another member, which `KIND` tells apart.
fn play(mark: &str, hosts: &str, words: &[&str]) {
    let of = |kind| marked(mark, MEMBER, hosts, words).env("KIND", kind);
    let count = HostList::parse(hosts).unwrap().len() as u32;
    let ends = Arc::new(AtomicBool::new(false));
    let noticed = Arc::clone(&ends);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        noticed.store(true, SeqCst);
    });
    let front = FrontEnd::new().unwrap();
    let _sessions = front.start_all(&[of("leader"), of("local")], &LaunchOptions::local()).unwrap();
    let mut gone = BTreeSet::new();
    while !ends.load(SeqCst) {
        let Some(event) = front.next_event(ms(20)) else { continue };
        match event {
            Event::Up { .. } => say("up"),
            Event::GivenUp { .. } => say("given up"),
            Event::Done { .. } => say("done"),
            Event::Output { bytes, rank, .. } => {
                String::from_utf8_lossy(&bytes).lines().for_each(|line| say(&format!("[{}] {line}", rank.0)));
            }
            Event::Exited { rank, .. } | Event::Detached { rank, .. } => {
                gone.insert(rank.0);
                say(&format!("{} gone", gone.len()));
            }
            Event::Lost { host, .. } => {
                gone.extend([host.0, host.0 + count]);
                say(&format!("{} gone", gone.len()));
            }
            _ => {}
        }
    }
}

/// A front end in a process of its own.
pub(crate) struct Front {
    process: Child,
    lines: Receiver<String>,
    pub(crate) said: Vec<String>,
}

impl Front {
    /// Begins to launch a leader and another member on each of these hosts.
    pub(crate) fn start(lab: &Lab, hosts: &str, words: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "roles::plays_its_role", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, [&[hosts], words].concat().join("\n")).env(ROLE_MARK, lab.mark());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(SAYS) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { process, lines, said: Vec::new() }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// Takes down what it has said up to now.
    pub(crate) fn listen(&mut self) {
        self.said.extend(self.lines.try_iter());
    }

    pub(crate) fn has_said(&self, line: &str) -> bool {
        self.said.iter().any(|said| said == line)
    }

    /// How many members it knows to be gone.
    pub(crate) fn gone(&self) -> usize {
        let count = self.said.iter().rev().find_map(|line| line.strip_suffix(" gone"));
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// Listens until this holds.
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        self.listen();
        while !holds(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain until {what}; it said {:?}", self.said);
            if let Ok(line) = self.lines.recv_timeout(left.min(ms(5))) {
                self.said.push(line);
            }
            self.listen();
        }
    }

    /// Lets it end, as a program that returns.
    pub(crate) fn end(mut self) {
        drop(self.process.stdin.take());
        let mut ended = None;
        eventually("the front end has ended", || {
            ended = self.process.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success(), "{:?}", self.said);
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
