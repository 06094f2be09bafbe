//! Launches of the test member on this machine: what is heard of it, and what is left of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{processes, programs};
use libi::{Distribution, Event, Exit, Failure, FrontEnd, HostIndex, LaunchOptions, Session, Stream};

pub use crate::processes::{parent, status};
pub use crate::programs::member;

/// How long a test waits for something that takes no time.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Within this time after its end nothing is left of a session.
pub const SOON: Duration = Duration::from_secs(5);
/// The variable by which processes are found, wherever they have gone.
pub const MARK: &str = "LIBI_TEST_MARK";

pub const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// A directory, and a mark that every process bears which is launched with it.
pub struct Lab {
    dir: PathBuf,
    mark: String,
}

impl Lab {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("local-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let dir = programs::scratch().join(&mark);
        let _ = fs::remove_dir_all(&dir); // a run that was killed may have left one
        fs::create_dir_all(&dir).unwrap();
        Self { dir, mark }
    }

    pub fn mark(&self) -> &str {
        &self.mark
    }

    pub fn path(&self, file: &str) -> String {
        self.dir.join(file).to_str().unwrap().to_owned()
    }

    pub fn has(&self, file: &str) -> bool {
        self.dir.join(file).exists()
    }

    pub fn touch(&self, file: &str) {
        fs::write(self.dir.join(file), "").unwrap();
    }

    /// Makes a file that has all of its text as soon as it is there.
    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.dir.join("unfinished"), text).unwrap();
        fs::rename(self.dir.join("unfinished"), self.dir.join(file)).unwrap();
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub fn files(&self) -> usize {
        self.names().len()
    }

    /// Test members that do this.
    pub fn members(&self, hosts: &str, words: &[&str]) -> Distribution {
        self.program(member(), hosts, words)
    }

    /// Whatever else.
    pub fn program(&self, program: &str, hosts: &str, words: &[&str]) -> Distribution {
        marked(&self.mark, program, hosts, words)
    }

    /// Every process that lives and bears the mark, with its environment.
    pub fn living(&self) -> Vec<(i32, String)> {
        processes::bearing(&format!("{MARK}={}", self.mark))
    }

    /// The programs among them: all but the processes that carry a host apart from its program.
    pub fn programs(&self) -> usize {
        self.living().iter().filter(|(pid, _)| !processes::is_engine(*pid)).count()
    }

    /// Nothing that was launched here is left after this time.
    pub fn is_empty_within(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        while !self.living().is_empty() {
            assert!(Instant::now() < deadline, "left after {timeout:?}: {}", described(&self.living()));
            sleep(ms(5));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for (pid, _) in self.living() {
            kill(pid, libc::SIGKILL);
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

pub fn marked(mark: &str, program: &str, hosts: &str, words: &[&str]) -> Distribution {
    Distribution::new(program).args(words).hosts(hosts).env(MARK, mark)
}

fn described(living: &[(i32, String)]) -> String {
    let one = |(pid, _): &(i32, String)| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
        let parent = status(*pid, "PPid").unwrap_or_default();
        format!("\n  {pid} (of {parent}, {}) {words}", status(*pid, "State").unwrap_or_default())
    };
    format!("{} processes:{}", living.len(), living.iter().map(one).collect::<String>())
}

/// Sends a signal to a process of this test.
pub fn kill(pid: i32, signal: i32) {
    let _ = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::try_from(signal).unwrap(),
    );
}

/// Waits until it has happened.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !happened() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(ms(2));
    }
}

/// Launches one session.
pub fn launch(front: &FrontEnd, distribution: Distribution) -> Session {
    launch_with(front, &[distribution], &LaunchOptions::local())
}

pub fn launch_with(front: &FrontEnd, distributions: &[Distribution], options: &LaunchOptions) -> Session {
    let mut sessions = front.launch_all(distributions, options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

/// What was heard of the sessions of a front end.
#[derive(Debug, Default)]
pub struct Heard {
    pub texts: BTreeMap<(u32, Stream), Vec<u8>>,
    pub exits: BTreeMap<u32, Exit>,
    pub released: BTreeSet<u32>,
    pub lost: BTreeMap<HostIndex, (String, Failure)>,
    /// The text of each event but output.
    pub lines: Vec<String>,
    pub done: bool,
}

impl Heard {
    /// Everything until all members have ended.
    pub fn all(front: &FrontEnd) -> Self {
        let mut heard = Self::default();
        heard.until(front, "all have ended", |heard| heard.done);
        heard
    }

    /// Listens until this holds, as long as there is something to hear.
    pub fn until(&mut self, front: &FrontEnd, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        while !holds(self) {
            match front.next_event(TIMEOUT) {
                Some(event) => self.note(event),
                None => panic!("waited in vain until {what}; heard {}", self.described()),
            }
        }
    }

    /// What was heard, without the whole of a flood.
    pub fn described(&self) -> String {
        let short = |((rank, stream), text): (&(u32, Stream), &Vec<u8>)| {
            let end = String::from_utf8_lossy(&text[text.len().saturating_sub(80)..]).into_owned();
            format!("\n  rank {rank} {stream:?} {} bytes: {end:?}", text.len())
        };
        let texts: String = self.texts.iter().map(short).collect();
        let Self { lines, exits, released, lost, done, .. } = self;
        format!("{lines:?}, exits {exits:?}, released {released:?}, lost {lost:?}, done {done}{texts}")
    }

    pub fn note(&mut self, event: Event) {
        if !matches!(event, Event::Output { .. }) {
            self.lines.push(event.to_string());
        }
        match event {
            Event::Output { rank, stream, bytes, .. } => {
                self.texts.entry((rank.0, stream)).or_default().extend(bytes);
            }
            Event::Exited { rank, exit, .. } => {
                assert_eq!(self.exits.insert(rank.0, exit), None, "{rank} ends twice");
            }
            Event::Restarted { rank, .. } => drop(self.exits.remove(&rank.0)),
            Event::Detached { rank, .. } => assert!(self.released.insert(rank.0), "{rank} is released twice"),
            Event::Lost { host, name, failure, .. } => {
                assert_eq!(self.lost.insert(host, (name, failure)), None, "{host} is lost twice");
            }
            Event::Done { .. } => self.done = true,
            _ => {}
        }
    }

    pub fn out(&self, rank: u32) -> String {
        self.text(rank, Stream::Out)
    }

    pub fn text(&self, rank: u32, stream: Stream) -> String {
        let text = self.texts.get(&(rank, stream)).cloned().unwrap_or_default();
        String::from_utf8(text).unwrap()
    }

    /// How many bytes were printed.
    pub fn bytes(&self) -> usize {
        self.texts.values().map(Vec::len).sum()
    }
}
