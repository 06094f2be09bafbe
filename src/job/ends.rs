//! The ends of processes of a job, as they happen.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use libi_core::ids::Rank;
use libi_launch::process::open_pidfd;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Job, Target, deadline};

/// How often processes are looked at where the system has no descriptors of processes.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// Waits for the ends of processes on this machine. It does not know their exit status, which the system tells
/// their parents alone.
///
/// ```no_run
/// # fn f(member: &libi::Member) -> Result<(), libi::job::TargetsError> {
/// use std::time::Duration;
/// use libi::job::{End, Ends};
///
/// let targets = member.targets(Duration::from_secs(30))?;
/// let mut ends = Ends::of(&targets);
/// while let Some(End::Process(rank)) = ends.next(Duration::from_secs(3600)) {
///     println!("{rank} has ended");
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Ends {
    running: Vec<(End, Target, Option<OwnedFd>)>,
}

/// What has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A process of the job.
    Process(Rank),
    /// Its launcher, and with it the job.
    Launcher,
}

impl Ends {
    /// Of these processes.
    #[must_use]
    pub fn of(targets: &[Target]) -> Self {
        let mut ends = Self { running: Vec::new() };
        targets.iter().for_each(|target| ends.add(End::Process(target.rank()), target.clone()));
        ends
    }

    /// Of the launcher of a job, if it is on this machine. Of another one no end is known: it has none to tell.
    #[must_use]
    pub fn of_launcher(job: &Job) -> Self {
        let mut ends = Self { running: Vec::new() };
        if job.launcher_host().is_some() {
            return ends;
        }
        let launcher = Target::new(Rank(0), job.launcher_pid(), job.launcher().clone());
        // Another process may have its number by now.
        ends.add(End::Launcher, if job.is_running() { launcher } else { Target::gone() });
        ends
    }

    /// Whether all have ended, and were told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    fn add(&mut self, end: End, target: Target) {
        // One that has ended before its descriptor was opened is not running, and told at once.
        let fd = open_pidfd(target.pid());
        self.running.push((end, target, fd));
    }

    /// Waits until one of those that are left has ended; `None` at the timeout, or at once if none is left.
    pub fn next(&mut self, timeout: Duration) -> Option<End> {
        let until = deadline(timeout);
        loop {
            if let Some(at) = self.running.iter().position(|(_, target, _)| !target.is_running()) {
                return Some(self.running.remove(at).0);
            }
            let left = until.saturating_duration_since(Instant::now());
            if self.running.is_empty() || left.is_zero() {
                return None;
            }
            wait(self.running.iter().map(|(.., fd)| fd.as_ref()), left);
        }
    }
}

/// Waits until one of these processes has ended, or a little if not all have descriptors.
fn wait<'a>(fds: impl Iterator<Item = Option<&'a OwnedFd>>, timeout: Duration) {
    let all: Option<Vec<PollFd<'_>>> =
        fds.map(|fd| fd.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN))).collect();
    let Some(mut all) = all else { return std::thread::sleep(LOOKS_EVERY.min(timeout)) };
    let millis = PollTimeout::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut all, millis); // what has ended is looked at afterwards
}
