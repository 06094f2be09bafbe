//! Front ends that a test can kill, and tests in processes of their own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use libi::Engine;

use crate::local::{Lab, TIMEOUT, eventually, ms};
use crate::programs;

/// Has a test played in a process of its own, because what it does or measures concerns a process as a whole. False in
/// that process.
pub fn plays_alone(test: &str) -> bool {
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

/// A front end in a process of its own.
pub struct Front {
    process: Child,
    lines: Receiver<String>,
    pub said: Vec<String>,
}

impl Front {
    /// Begins to launch two members on each of these hosts.
    pub fn start(lab: &Lab, hosts: &str, words: &[&str]) -> Self {
        Self::start_with(Engine::default(), lab, hosts, words)
    }

    /// The same with this engine: in the program of the first of the two, or apart.
    pub fn start_with(engine: Engine, lab: &Lab, hosts: &str, words: &[&str]) -> Self {
        Self::start_in(engine, lab, None, hosts, words)
    }

    /// The same in a session that is detached, and has this ticket file.
    pub fn start_detached(lab: &Lab, ticket: &str, hosts: &str, words: &[&str]) -> Self {
        Self::start_in(Engine::default(), lab, Some(ticket), hosts, words)
    }

    fn start_in(engine: Engine, lab: &Lab, ticket: Option<&str>, hosts: &str, words: &[&str]) -> Self {
        let engine = if engine == Engine::Apart { "apart" } else { "in-program" };
        let mut command = Command::new(programs::front());
        command.args([engine, lab.mark(), hosts]).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.envs(ticket.map(|ticket| ("LIBI_TEST_TICKET", ticket)));
        let mut process = command.spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { process, lines, said: Vec::new() }
    }

    pub fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// Takes down what it has said up to now.
    pub fn listen(&mut self) {
        self.said.extend(self.lines.try_iter());
    }

    pub fn has_said(&self, line: &str) -> bool {
        self.said.iter().any(|said| said == line)
    }

    /// How many members it knows to be gone.
    pub fn gone(&self) -> usize {
        let count = self.said.iter().rev().find_map(|line| line.strip_suffix(" gone"));
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// Listens until this holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
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
    pub fn end(mut self) {
        drop(self.process.stdin.take());
        let mut ended = None;
        eventually("the front end has ended", || {
            ended = self.process.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success(), "{:?}", self.said);
    }

    /// Kills it.
    pub fn kill(mut self) {
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
