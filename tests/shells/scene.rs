//! A launch through the stand-in shell: what it is called with, what came of it, and which
//! processes are left of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libi::{
    Backend, Cause, Distribution, Event, Exit, FrontEnd, LaunchOptions, LaunchReport, OsBytes, Policy, Rank,
    Rules, Session, Shell, Stream,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use libi_testkit::processes::{self, is_engine, parent};
use libi_testkit::programs;
use libi_testkit::shell::{Lab, eventually};

pub(crate) const MARK: &str = "LIBI_TEST_MARK";
/// How much later than its deadline a report may come on a busy machine.
const SLACK: Duration = Duration::from_secs(3);
/// How long processes may take to end after their session.
const LEFTOVERS: Duration = Duration::from_secs(5);

/// A laboratory with shells, and the mark of everything that is started in it.
pub(crate) struct Scene {
    pub(crate) lab: Lab,
    pub(crate) mark: String,
}

/// A process that carries the mark.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// The host that it is on, or that it was called from if it is a shell.
    pub(crate) host: String,
    pub(crate) what: What,
    #[allow(dead_code, reason = "it is for people")]
    command: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Shell,
    Leader,
    Other,
}

/// What came of a launch, once nothing more can come.
pub(crate) struct Outcome {
    pub(crate) report: Arc<LaunchReport>,
    pub(crate) exits: BTreeMap<Rank, Exit>,
    pub(crate) lost: BTreeMap<String, Cause>,
    pub(crate) printed: BTreeMap<(Rank, Stream), String>,
    /// The answers to requests to grow.
    pub(crate) growths: Vec<String>,
    pub(crate) done: bool,
}

impl Scene {
    pub(crate) fn new(config: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        Self { lab: Lab::new(config), mark }
    }

    pub(crate) fn options(&self) -> LaunchOptions {
        options(&self.lab.0, &self.mark)
    }

    /// Launches, and waits for the report.
    pub(crate) fn launch(
        &self,
        front: &FrontEnd,
        hosts: &str,
        words: &[&str],
        options: &LaunchOptions,
    ) -> (Session, Arc<LaunchReport>) {
        let session = front.start(&members(hosts, words), options).unwrap();
        let began = Instant::now();
        let report = match session.wait_up(options.deadline + SLACK) {
            Ok(report) | Err(libi::Error::NotLaunched(report)) => report,
            Err(error) => panic!("no report {:?} after the beginning: {error}", began.elapsed()),
        };
        (session, report)
    }

    /// Launches, waits until every member has ended, and checks that nothing is left.
    pub(crate) fn play(&self, hosts: &str, words: &[&str], options: &LaunchOptions) -> Outcome {
        let front = FrontEnd::new().unwrap();
        let (session, report) = self.launch(&front, hosts, words, options);
        let mut outcome = Outcome::new(report);
        if outcome.report.is_up() {
            outcome.follow(&front, Duration::from_secs(20));
        }
        drop(session);
        drop(front);
        self.nothing_is_left();
        outcome
    }

    /// The processes that carry the mark.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let mark = format!("{MARK}={}", self.mark);
        processes::bearing(&mark)
            .into_iter()
            .map(|(pid, environment)| Process::of(pid, &environment))
            .collect()
    }

    pub(crate) fn nothing_is_left(&self) {
        self.gone_soon("of the launch", |_| true);
    }

    /// Waits until no marked process is left of those that are meant.
    pub(crate) fn gone_soon(&self, whose: &str, meant: impl Fn(&Process) -> bool) {
        let deadline = Instant::now() + LEFTOVERS;
        loop {
            let left: Vec<_> = self.processes().into_iter().filter(&meant).collect();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left {whose} after {LEFTOVERS:?}: {left:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How often each host was called.
    pub(crate) fn calls(&self) -> BTreeMap<String, u32> {
        let mut calls = BTreeMap::new();
        self.lab
            .log()
            .into_iter()
            .for_each(|mut line| *calls.entry(line.remove("host").unwrap()).or_default() += 1);
        calls
    }

    /// The hosts from which others were called.
    pub(crate) fn launchers(&self) -> BTreeSet<String> {
        self.lab.log().into_iter().map(|mut line| line.remove("from").unwrap()).collect()
    }

    /// Waits until so many calls were made.
    pub(crate) fn called(&self, count: usize) {
        eventually("enough hosts were called", || self.lab.log().len() >= count);
    }
}

/// Rules with which a bad host costs seconds, not minutes.
pub(crate) fn options(lab: &Path, mark: &str) -> LaunchOptions {
    let words = [format!("LIBI_TEST_SHELL={}", lab.join("config").display()), format!("{MARK}={mark}")];
    let words = words.iter().map(String::as_str).chain([programs::shell()]);
    let shell = Shell { args: words.map(word).collect(), ..Shell::new(word("env")) };
    let millis = Duration::from_millis;
    let rules = Rules {
        hello_timeout: millis(1_500),
        join_timeout: millis(2_000),
        attempts: 2,
        back_off: millis(20),
        kill_grace: millis(500),
        peer_timeout: millis(3_000),
        ..Rules::default()
    };
    LaunchOptions::local()
        .backend(Backend::Shell(shell))
        .policy(Policy::AtLeast(1))
        // What shells do to bytes is asked for here; direct links have tests of their own.
        .links(libi::LinkPolicy::Channel)
        .deadline(Duration::from_secs(20))
        // The tests check the outcome of every host.
        .settle(Some(Duration::MAX))
        .rules(rules)
}

pub(crate) fn members(hosts: &str, words: &[&str]) -> Distribution {
    Distribution::new(programs::member()).args(words).hosts(hosts)
}

pub(crate) fn word(text: &str) -> OsBytes {
    OsBytes::try_from(text).unwrap()
}

impl Process {
    fn of(pid: i32, environment: &str) -> Self {
        let variables: BTreeMap<_, _> =
            environment.split('\0').filter_map(|both| both.split_once('=')).collect();
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        // A program that has divided shows the variables that its parent was started with.
        let is_program = || parent(pid).is_some_and(is_engine);
        let what = match variables.get("LIBI_LINK") {
            _ if command.starts_with(programs::shell()) => What::Shell,
            // A helper reaches a host that is led already.
            _ if variables.contains_key("LIBI_HELPER") => What::Other,
            Some(&("stdio" | "rendezvous")) if command.starts_with(programs::member()) && !is_program() => {
                What::Leader
            }
            _ => What::Other,
        };
        let host = ["LIBI_TEST_SHELL_HOST", "LIBI_STARTED_ON"].iter().find_map(|name| variables.get(name));
        let host = host.copied().unwrap_or("front").to_owned();
        Self { pid, host, what, command }
    }

    /// It may have ended by itself meanwhile.
    pub(crate) fn kill(&self) {
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }
}

impl Outcome {
    pub(crate) fn new(report: Arc<LaunchReport>) -> Self {
        let (exits, lost, printed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { report, exits, lost, printed, growths: Vec::new(), done: false }
    }

    /// Takes events until every member has ended; for so long at most.
    pub(crate) fn follow(&mut self, front: &FrontEnd, timeout: Duration) {
        self.follow_until(front, timeout, |outcome| outcome.done);
    }

    /// The same until something holds.
    pub(crate) fn follow_until(
        &mut self,
        front: &FrontEnd,
        timeout: Duration,
        holds: impl Fn(&Self) -> bool,
    ) {
        let deadline = Instant::now() + timeout;
        while !holds(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(event) = front.next_event(left) else { return };
            self.note(event);
        }
    }

    pub(crate) fn note(&mut self, event: Event) {
        match event {
            Event::Output { rank, stream, bytes, .. } => {
                let printed = self.printed.entry((rank, stream)).or_default();
                printed.push_str(&String::from_utf8_lossy(&bytes));
            }
            Event::Exited { rank, exit, .. } => drop(self.exits.insert(rank, exit)),
            Event::Lost { name, failure, .. } => {
                println!("{name} is lost: {failure:?}");
                self.lost.insert(name, failure.cause);
            }
            Event::Grown { .. } | Event::NotGrown { .. } => self.growths.push(event.to_string()),
            Event::Done { .. } => self.done = true,
            _ => {}
        }
    }

    pub(crate) fn printed(&self, rank: u32, stream: Stream) -> &str {
        self.printed.get(&(Rank(rank), stream)).map_or("", String::as_str)
    }
}
