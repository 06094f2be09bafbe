//! Sessions that are up when something happens to them, and what is heard of that.

use std::time::{Duration, Instant};

use libi::{FrontEnd, LaunchOptions, Session};

use crate::{TIMEOUT, options};
use libi_testkit::labs::{Marked, Process, Slurm};
use libi_testkit::local::Heard;

/// What members do that have talked to each other and are there until they are ended.
const TALK: [&str; 4] = ["join", "talk:barrier", "out:talks", "wait"];

/// A session whose members have talked to each other.
pub(crate) struct Running<'a> {
    lab: &'a Slurm,
    pub(crate) mark: Marked,
    pub(crate) front: FrontEnd,
    session: Session,
    pub(crate) heard: Heard,
    /// When the test began to disturb it.
    since: Instant,
}

impl<'a> Running<'a> {
    /// Launches members on these hosts, and waits until all have talked.
    pub(crate) fn on(lab: &'a Slurm, hosts: &str) -> Self {
        Self::with(lab, hosts, &options(lab.srun()), &TALK)
    }

    pub(crate) fn with(lab: &'a Slurm, hosts: &str, options: &LaunchOptions, words: &[&str]) -> Self {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let session = front.launch(&mark.program(&lab.member(), hosts, words), options).unwrap();
        let mut heard = Heard::default();
        let size = session.size();
        heard.until(&front, "all have talked", |heard| (0..size).all(|rank| heard.out(rank) == "talks\n"));
        Self { lab, mark, front, session, heard, since: Instant::now() }
    }

    /// Goes on listening until all members have ended, which has to be soon. Then nothing is left.
    /// Gives what was said of it.
    pub(crate) fn ends(mut self, within: Duration) -> Vec<String> {
        self.heard.until(&self.front, "all have ended", |heard| heard.done);
        let (took, lines) = (self.since.elapsed(), self.heard.lines.clone());
        println!("ended after {took:?}:\n  {}", lines.join("\n  "));
        assert!(took < within, "{took:?}");
        self.leave();
        lines
    }

    /// Listens until this was said.
    pub(crate) fn hears(&mut self, words: &str) {
        let said = |heard: &Heard| heard.lines.iter().any(|line| line.contains(words));
        self.heard.until(&self.front, words, said);
        println!("after {:?}:\n  {}", self.since.elapsed(), self.heard.lines.join("\n  "));
    }

    /// The session ends with its front end, and nothing is left.
    pub(crate) fn leave(self) {
        drop((self.session, self.front));
        self.mark.nothing_is_left();
        self.lab.nothing_runs();
    }
}

/// How a process ends that Slurm ends.
pub(crate) const KILLED: &str = "was killed by signal";

/// Of each of these hosts it was said that a member, or the process that leads the host, has ended
/// in one of these ways.
pub(crate) fn all_are_named(lines: &[String], hosts: &[&str], ends: &[&str]) {
    for host in hosts {
        let is_end = |line: &String| {
            let member = line.split_once(&format!(" on {host} ")).map(|(_, end)| end);
            let lost =
                line.strip_prefix(&format!("{host} (")).and_then(|lost| lost.split_once(") is lost: "));
            let end = member.or(lost.map(|(_, end)| end)).unwrap_or_default();
            ends.iter().any(|how| end.starts_with(how))
        };
        assert!(lines.iter().any(is_end), "{host}: {lines:#?}");
    }
}

/// The `srun` that this process has started for a launch, once it is there.
pub(crate) fn srun_of(mark: &Marked) -> Option<Process> {
    let own = std::process::id().to_string();
    let is_srun =
        |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "srun\n");
    let is_ours = |pid: i32| libi_testkit::local::status(pid, "PPid").is_some_and(|parent| parent == own);
    mark.processes().into_iter().find(|process| is_srun(process.pid) && is_ours(process.pid))
}

/// The first process of each host of a launch.
pub(crate) fn leaders(mark: &Marked) -> Vec<Process> {
    mark.processes().into_iter().filter(|process| process.is_leader).collect()
}

/// How long what was disturbed may take to end, on a machine that does much else.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// The job that runs, if there is one.
pub(crate) fn job(lab: &Slurm) -> String {
    let jobs = lab.jobs();
    let job = jobs.iter().find(|job| job.contains(" RUNNING ")).unwrap_or_else(|| panic!("{jobs:?}"));
    job.split(' ').next().unwrap().to_owned()
}

/// Waits until the programs of so many hosts run.
pub(crate) fn all_have_started(mark: &Marked, hosts: usize) {
    libi_testkit::labs::within(TIMEOUT, "all have started", || leaders(mark).len() == hosts);
}
