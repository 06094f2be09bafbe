//! What happens to a job, told at the front end.
//!
//! ```text
//!   front end                                  each host of the job
//!     | launches agents, which start watchers  |
//!     | <--------------------------------ready | has found the processes of its host
//!     | <--------- rank, and how it has ended -| watches them
//! ```
//!
//! | event | what is told |
//! |---|---|
//! | a process ends, or had ended already | [`JobEvent::Ended`] |
//! | the launcher ends, on this machine or on its own host | [`JobEvent::LauncherEnded`] |
//! | a host is lost, or its watcher ends before the processes | [`JobEvent::NotWatched`], with the reason, once |
//! | all of that is told of all | `None`: nothing more follows |
//!
//! The job is not touched, and goes on when the [`Watch`] is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::time::{Duration, Instant};

use libi_core::ids::Rank;
use libi_launch::failure::Exit;
use libi_launch::options::JOB_ARG;

use super::elsewhere::{OWN_PROGRAM, Request};
use super::ends::wait;
use super::{End, Ends, Job, Part, deadline, in_slurm_job, parts};
use crate::{
    Command, CommandId, Distribution, Error, Event, FrontEnd, LaunchOptions, ProcessOutcome, Programs,
    Session, Stream,
};

/// How long a watcher looks for processes that no table has.
const FIND_WITHIN: Duration = Duration::from_secs(10);

/// What a watcher says once it has found the processes of its host.
const READY: &[u8] = b"ready";

/// What has happened to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEvent {
    /// A process has ended. How is known on hosts with Linux 6.15 or later, or else [`Exit::Unknown`].
    Ended {
        /// Its rank.
        rank: Rank,
        /// How it has ended.
        exit: Exit,
    },
    /// The launcher has ended, and with it the job as far as that looks after its processes.
    LauncherEnded {
        /// How it has ended.
        exit: Exit,
    },
    /// What happens on a host is not known any more.
    NotWatched {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
}

/// Watches a job; see the example.
///
/// ```no_run
/// use std::time::Duration;
/// use libi::job::{Job, JobEvent, Watch};
/// use libi::{Agent, LaunchOptions, OsBytes, Ssh};
///
/// let job = Job::attach(4711, Duration::from_secs(5))?;
/// let agent = Agent::new(OsBytes::try_from("/opt/tool/bin/tool").unwrap());
/// let mut watch = Watch::of(&job, &LaunchOptions::new().backend(Ssh::new()).agent(agent))?;
/// while let Some(event) = watch.next(Duration::MAX) {
///     if let JobEvent::Ended { rank, exit } = event {
///         println!("{rank} {exit}");
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watch {
    /// Before the front end: its hosts end with it.
    _session: Session,
    front: FrontEnd,
    /// The watchers: their hosts, and what they have said of a line.
    watchers: BTreeMap<CommandId, Watcher>,
    launcher: Ends,
    told: VecDeque<JobEvent>,
}

#[derive(Default)]
struct Watcher {
    host: String,
    is_ready: bool,
    line: Vec<u8>,
    complaint: Vec<u8>,
}

impl Watch {
    /// Begins to watch a job. The options say how its hosts are reached, and name the
    /// [agent](LaunchOptions::agent), which runs there meanwhile. Beside a job of `srun` the agents are a step of
    /// the same Slurm job. What happens from the return of this call on is told; of processes that have ended
    /// before it is told that they have.
    ///
    /// # Errors
    /// The hosts cannot be launched on, as for [`FrontEnd::launch`].
    pub fn of(job: &Job, options: &LaunchOptions) -> Result<Self, Error> {
        let until = deadline(options.deadline);
        let front = FrontEnd::new()?;
        let mut hosts: Vec<(String, Part)> =
            job.hosts().into_iter().map(str::to_owned).zip(parts(job)).collect();
        if let Some(host) = job.launcher_host()
            && !hosts.iter().any(|(name, _)| name == host)
        {
            hosts.push((host.to_owned(), Part::default()));
        }
        let names: Vec<&str> = hosts.iter().map(|(host, _)| &**host).collect();
        let options = in_slurm_job(job, options).programs(Programs::None);
        let session = front.launch(&Distribution::idle(&*names.join(",")), &options)?;
        let mut watchers = BTreeMap::new();
        for (host, part) in hosts {
            let launcher = (job.launcher_host() == Some(&*host)).then(|| job.launcher_pid());
            let request = Request::Watch { part, launcher };
            let words = [request.encoded(), JOB_ARG.to_owned()];
            let spawned = session.spawn(&Command::new(OWN_PROGRAM).args(words).hosts(&*host))?;
            watchers.insert(spawned.id(), Watcher { host, ..Watcher::default() });
        }
        let launcher = Ends::of_launcher(job);
        let mut watch = Self { _session: session, front, watchers, launcher, told: VecDeque::new() };
        while !watch.watchers.values().all(|watcher| watcher.is_ready) {
            // A host that does not answer is told of when its watcher ends.
            match watch.front.next_event(until.saturating_duration_since(Instant::now())) {
                Some(event) => watch.hear(event),
                None => break,
            }
        }
        Ok(watch)
    }

    /// Waits for the next event; `None` at the timeout, or at once if [nothing more](Self::is_over) follows.
    pub fn next(&mut self, timeout: Duration) -> Option<JobEvent> {
        let until = deadline(timeout);
        loop {
            while let Some(event) = self.front.next_event(Duration::ZERO) {
                self.hear(event);
            }
            if let Some(event) = self.told.pop_front() {
                return Some(event);
            }
            if let Some((_, exit)) = self.launcher.next_with_exit(Duration::ZERO) {
                return Some(JobEvent::LauncherEnded { exit });
            }
            let left = until.saturating_duration_since(Instant::now());
            if self.is_over() || left.is_zero() {
                return None;
            }
            wait(self.launcher.descriptors().chain([Some(self.front.descriptor())]), left);
        }
    }

    /// Whether nothing more follows.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.watchers.is_empty() && self.launcher.is_empty() && self.told.is_empty()
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::CommandOutput { command, stream, bytes, .. } => {
                let Some(watcher) = self.watchers.get_mut(&command) else { return };
                match stream {
                    Stream::Out => self.told.extend(watcher.says(&bytes)),
                    Stream::Err => watcher.complaint.extend(bytes),
                }
            }
            Event::CommandEnded { command, outcome, .. } => {
                let Some(watcher) = self.watchers.remove(&command) else { return };
                self.told.extend(watcher.ends(&outcome));
            }
            Event::Done { .. } => {
                for watcher in std::mem::take(&mut self.watchers).into_values() {
                    let why = "the session that watches the job has ended".to_owned();
                    self.told.push_back(JobEvent::NotWatched { host: watcher.host, why });
                }
            }
            _ => {}
        }
    }
}

impl Watcher {
    /// Takes what has arrived. Lines that are not understood are dropped.
    fn says(&mut self, bytes: &[u8]) -> Vec<JobEvent> {
        self.line.extend(bytes);
        let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.line.split_off(end + 1);
        let whole = std::mem::replace(&mut self.line, rest);
        let lines = || whole.split(|byte| *byte == b'\n');
        self.is_ready |= lines().any(|line| line == READY);
        lines().filter_map(event).collect()
    }

    /// The watcher has ended: what is told of that, unless all processes had.
    fn ends(self, outcome: &ProcessOutcome) -> Option<JobEvent> {
        let complaint = String::from_utf8_lossy(&self.complaint);
        let why = match complaint.trim() {
            "" => format!("what watches it {outcome}"),
            complaint => format!("what watches it {outcome}: {complaint}"),
        };
        (!outcome.is_success()).then_some(JobEvent::NotWatched { host: self.host, why })
    }
}

/// A line of a watcher: the rank, or `launcher`, and how it has ended.
fn line(end: End, exit: Exit) -> String {
    let who = match end {
        End::Process(rank) => rank.0.to_string(),
        End::Launcher => "launcher".to_owned(),
    };
    match exit {
        Exit::Code(code) => format!("{who} code {code}\n"),
        Exit::Signal(signal) => format!("{who} signal {signal}\n"),
        _ => format!("{who} ended 0\n"),
    }
}

fn event(line: &[u8]) -> Option<JobEvent> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (who, how, number) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let exit = match how {
        "code" => Exit::Code(number),
        "signal" => Exit::Signal(number),
        _ => Exit::Unknown,
    };
    Some(match who {
        "launcher" => JobEvent::LauncherEnded { exit },
        rank => JobEvent::Ended { rank: Rank(rank.parse().ok()?), exit },
    })
}

/// Watches the processes of this host, and tells of each. Returns the exit status.
pub(super) fn serve(mut part: Part, launcher: Option<i32>) -> i32 {
    let found = part.find(deadline(FIND_WITHIN));
    if let Err(error) = &found {
        eprintln!("{error}");
    }
    let mut ends = Ends::of(&part.targets().unwrap_or_default());
    if let Some(pid) = launcher {
        ends.watch_launcher(pid);
    }
    let says = |line: &[u8]| {
        let mut out = std::io::stdout().lock();
        out.write_all(line).and_then(|()| out.flush()).is_ok()
    };
    let mut is_heard = says(&[READY, b"\n"].concat());
    while is_heard && let Some((end, exit)) = ends.next_with_exit(Duration::MAX) {
        is_heard = says(line(end, exit).as_bytes());
    }
    i32::from(found.is_err() || !is_heard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_in_any_pieces_and_are_understood() {
        let ends = [
            (End::Process(Rank(7)), Exit::Code(3)),
            (End::Process(Rank(0)), Exit::Signal(9)),
            (End::Process(Rank(1)), Exit::Unknown),
            (End::Launcher, Exit::Code(0)),
        ];
        let text: String = ends.iter().map(|(end, exit)| line(*end, *exit)).collect();
        let expected = [
            JobEvent::Ended { rank: Rank(7), exit: Exit::Code(3) },
            JobEvent::Ended { rank: Rank(0), exit: Exit::Signal(9) },
            JobEvent::Ended { rank: Rank(1), exit: Exit::Unknown },
            JobEvent::LauncherEnded { exit: Exit::Code(0) },
        ];
        for size in 1..=text.len() {
            let mut watcher = Watcher::default();
            let told: Vec<_> = text.as_bytes().chunks(size).flat_map(|piece| watcher.says(piece)).collect();
            assert_eq!(told, expected, "in pieces of {size}");
        }
        assert!(Watcher::default().says(b"nonsense\n7 code x\n7\n-1 code 1\n\xff code 1\n\n").is_empty());
    }
}
